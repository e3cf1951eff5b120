"""One launch on the emulator and on a GPU, compared bit for bit."""

from wmmadiag.backends.differential.both import BothKernel, load
from wmmadiag.backends.differential.reasons import ArrayDifference, differences

__all__ = ["ArrayDifference", "BothKernel", "differences", "load"]
