"""The debugger: stop a launch anywhere, look into its fragments and memory, and go back. No GPU.

session = wmmadiag.debug("kernel.toml", case="tail")
session.run_to(line=86)
print(session.fragment("acc"))
session.reverse_step()
"""

from __future__ import annotations

from wmmadiag.debugger.departure import Departure
from wmmadiag.debugger.fragment_view import FragmentView
from wmmadiag.debugger.kept import kept
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.session import Session
from wmmadiag.debugger.target import Target, open_target

__all__ = ["Departure", "FragmentView", "Moment", "Session", "Target", "kept", "open_target"]
