"""Members of a struct that a kernel is handed and leaves alone: they are other kernels' that take the same struct."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import plain_name
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel


def without_others_members(source: GivenSource, kernel: SourceKernel) -> SourceKernel:
    """The kernel with pointers of structs as null where its compiled code reads none of their bytes.

    Only where host code launches several kernels: members that nothing reads are a mistake otherwise.
    """
    members = [one for one in kernel.parameters if one.struct and one.pointer]
    if not members or kernel.host is None or "{" in kernel.entry or kernel.uninstantiated:
        return kernel
    launched = {plain_name(one.kernel.name) for run in kernel.host.runs for one in run.launches}
    if len(launched) < 2:
        return kernel
    read = _read_offsets(source, kernel)
    if read is None:
        return kernel
    parameters: list[DraftParameter] = []
    names: list[str] = []
    for index, (_, own) in enumerate(groupby(enumerate(kernel.parameters), lambda one: one[1].struct or one[0])):
        for _, one in own:
            offsets = read[index] if index < len(read) else None
            if one.struct and one.pointer and not one.value and offsets is not None and one.offset not in offsets:
                names.append(one.name)
                null = {"c_type": "u64", "pointer": False, "const": False, "dtype": "u64", "lanes": 1, "value": "0"}
                parameters.append(replace(one, **null))  # type: ignore[arg-type]
            else:
                parameters.append(one)
    if not names:
        return kernel
    said = f"{', '.join(names)} of its struct: the kernel leaves that alone, and it is null here"
    return replace(kernel, parameters=tuple(parameters), remarks=(*kernel.remarks, said))


def _read_offsets(source: GivenSource, kernel: SourceKernel) -> list[set[int] | None] | None:
    """Of each parameter the offsets of the members that compiled code reads, None where that is not known of it.

    None for all where the source does not compile.
    """
    from wmmadiag.compile.driver import compile_source
    from wmmadiag.ptx.parameter_uses import parameter_uses
    from wmmadiag.ptx.parser import parse

    named = (kernel.entry,) if "<" in kernel.entry else ()
    try:
        compiled = compile_source(source.path, replace(source.options.compilation(), name_expressions=named))
        name = compiled.entry(kernel.entry).name
        uses = parameter_uses(parse(compiled.ptx, name=source.path.as_posix(), entry=name), name)
    except WmmadiagError:
        return None
    return [None if one.indexed else {member.offset for member in one.members} for one in uses]
