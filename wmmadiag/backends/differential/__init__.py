"""One launch on the emulator and on a GPU, compared bit for bit."""

from wmmadiag.backends.differential.both import BothKernel, load
from wmmadiag.backends.differential.difference import Difference, differences

__all__ = ["BothKernel", "Difference", "differences", "load"]
