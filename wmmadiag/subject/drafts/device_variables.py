"""Variables of the device that a kernel reads and that are the host's to set: no argument of a launch holds them."""

from __future__ import annotations

from wmmadiag.csource.nodes import descendants
from wmmadiag.hostcode.program import HostFunction
from wmmadiag.subject.drafts.guards import functions_reached
from wmmadiag.subject.drafts.kernel import SourceKernel

_WORDS = frozenset({"__device__", "__constant__", "__managed__"})


def set_by_the_host(kernel: SourceKernel) -> tuple[str, ...]:
    """Their names: what host code names, too, and constant memory without an initialiser, which no kernel can write."""
    if kernel.host is None or kernel.declared is None:
        return ()
    program = kernel.host.program
    variables = {name: one for name, (_, one) in program.variables.items() if one.words & _WORDS}
    if not variables:
        return ()
    read = {name for one in functions_reached(program, kernel.declared) for name in _named(one)}
    empty = {name for name, one in variables.items() if "__constant__" in one.words and one.value is None}
    set_there = empty | {name for one in program.host_functions() for name in _named(one)}
    return tuple(sorted(variables.keys() & read & set_there))


def _named(one: HostFunction) -> set[str]:
    """The names in a function's body."""
    body = one.function.body
    found = descendants(body, "identifier") if body is not None else ()
    return {(node.text or b"").decode("utf-8", "replace") for node in found}
