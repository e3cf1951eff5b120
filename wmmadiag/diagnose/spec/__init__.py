"""What a wrong kernel computes, said in terms of what it should: its reference, changed in one place.

The reference is a Python function, the project's own or the user's. Its syntax tree is changed as a source is, one
expression at a time, and called again on the failing case; the change with which it gives what the kernel gave, within
the bound, names what the kernel does. No change here knows what is computed.
"""

from __future__ import annotations

from wmmadiag.diagnose.spec.fit import Reproduced, reproduced

__all__ = ["Reproduced", "reproduced"]
