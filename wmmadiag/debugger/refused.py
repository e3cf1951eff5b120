"""A launch that cannot begin: the source lines behind the limit that it breaks."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.debugger.target import Target
from wmmadiag.errors import KernelFault
from wmmadiag.subject.binding import BoundCase

_MOST = 12


def with_lines(fault: KernelFault, target: Target, case: BoundCase) -> KernelFault:
    """The fault with the declarations of the shared arrays that do not fit, the largest first; others as they are."""
    if fault.kind != "launch-limits" or "shared memory" not in fault.message or fault.detail:
        return fault
    from wmmadiag.compile.languages import is_c_family
    from wmmadiag.diagnose.source.read import read_source

    text = target.compilation.text if is_c_family(target.source) else ""
    declared = {one.name: one.line for one in read_source(text, macros=target.compilation.options.macros).arrays}
    lines = text.split("\n")
    arrays = [one for one in target.kernel.named_memory(case.launch) if one.space == "shared" and one.size]
    rows = []
    for array in sorted(arrays, key=lambda one: -one.size)[:_MOST]:
        line = declared.get(array.label)
        where = f"{Path(target.source).name}:{line}: {lines[line - 1].strip()}" if line else ""
        rows.append(f"  {array.size:>9,} bytes  {where or array.label}")
    return KernelFault(fault.message, kind=fault.kind, place=fault.place, detail="\n".join(rows), hint=fault.hint)
