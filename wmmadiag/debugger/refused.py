"""A launch that cannot begin: the source lines behind the limit that it breaks."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.debugger.declared import SourceDeclarations
from wmmadiag.debugger.lines import SourceLines
from wmmadiag.debugger.target import Target
from wmmadiag.errors import KernelFault
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase

_MOST = 12


def with_lines(fault: KernelFault, target: Target, case: BoundCase) -> KernelFault:
    """The fault with the declarations of the shared arrays that do not fit, the largest first; others as they are."""
    if fault.kind != "launch-limits" or "shared memory" not in fault.message or fault.detail:
        return fault
    lines = SourceLines(target.kernel.kernel, target.source, {target.compilation.source: target.compilation.text})
    locals_ = SourceDeclarations(lines).locals
    declared = {one.variable.name: Place(one.file.name, one.file.line(one.variable)) for one in reversed(locals_)}
    arrays = [one for one in target.kernel.named_memory(case.launch) if one.space == "shared" and one.size]
    rows = []
    for array in sorted(arrays, key=lambda one: -one.size)[:_MOST]:
        place = declared.get(array.label)
        where = f"{Path(place.file).name}:{place.line}: {lines.source_line(place).strip()}" if place else ""
        rows.append(f"  {array.size:>9,} bytes  {where or array.label}")
    return KernelFault(fault.message, kind=fault.kind, place=fault.place, detail="\n".join(rows), hint=fault.hint)
