"""Control flow and miscellaneous. Source: PTX ISA 9.x, "Control Flow Instructions", "Miscellaneous Instructions".

`call` is parsed by `wmmadiag.ptx.calls`: its operands are lists of any length.
"""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

ROWS = (
    form("bra{.uni} target:label", op="bra"),
    form("brx.idx{.uni} index:u32, targets:label", op="brx.idx"),
    form("ret{.uni}", op="ret"),
    form("exit", op="exit"),
    form("trap", op="trap"),
    form("brkpt", op="brkpt"),
    form("nanosleep.u32 t", op="nanosleep", since="6.3 sm_70"),
    form("pmevent a:u32", op="pmevent"),
    form("pmevent.mask a:u32", op="pmevent", defaults={"mask": "1"}),
    form("griddepcontrol.action", op="griddepcontrol", action="launch_dependents wait", since="7.8 sm_90"),
    form("setmaxnreg.action.sync.aligned.u32 count", op="setmaxnreg", action="inc dec", since="8.0 sm_90"),
)
