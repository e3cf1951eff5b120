"""One launch on the emulator and on a GPU, compared bit for bit."""

from wmmadiag.differential.both import BothKernel, load
from wmmadiag.differential.difference import Difference, differences

__all__ = ["BothKernel", "Difference", "differences", "load"]
