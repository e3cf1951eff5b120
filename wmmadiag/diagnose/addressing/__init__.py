"""Which elements each line touches in each block, held against what the block's part of the output is made of."""

from wmmadiag.diagnose.addressing.judge import AXES, Misread, misread

__all__ = ["AXES", "Misread", "misread"]
