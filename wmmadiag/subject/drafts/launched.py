"""The launch of a kernel that no host code launches, from its own code, where that leaves one answer."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.hostcode.calls import as_dim3
from wmmadiag.hostcode.events import Launch
from wmmadiag.hostcode.names import parsed_expression
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ZERO
from wmmadiag.hostcode.values import Cell, KernelName, Struct, Value
from wmmadiag.place import Place
from wmmadiag.subject.drafts.index_arithmetic import derived_launch
from wmmadiag.subject.drafts.kernel import Kernel
from wmmadiag.subject.drafts.meanings import is_real


def with_own_launch(kernel: Kernel, operation: str) -> tuple[Kernel, str]:
    """The kernel with the launch that its own code asks for, where the source has none; and a remark on it."""
    machine = kernel.machine
    if kernel.launch is not None or operation == "python" or not kernel.code or machine is None:
        return kernel, ""

    def number(expression: str) -> int | None:
        known = kernel.constants.get(expression.strip())
        if known is None:
            known = machine.known(parsed_expression(machine, expression, Scope(machine.program.sources[-1])))
        return int(known) if known is not None and known == int(known) else None

    derived = derived_launch(kernel.code, kernel.parameters, kernel.bounds, operation, number)
    if not derived.grid or not derived.block:
        return kernel, ""
    source = machine.program.sources[-1]
    scope = Scope(source)
    passed: list[Value | None] = []
    for one in kernel.parameters:
        value: Value | None = None
        if not one.pointer and not is_real(one) and one.dtype is not None:
            value = machine.symbol(one.name)
            scope.variables[one.name] = Cell(value, one.c_type)
        passed.append(value)
    for name in ("batch", "heads", "batch_heads"):  # what host code would call the extents of axes that are no rows
        if name not in scope.variables:
            scope.variables[name] = Cell(machine.symbol(name), "int")
    grid, block = (parsed_expression(machine, text, scope) for text in (derived.grid, derived.block))
    if not isinstance(grid, Struct):
        return kernel, ""
    launch = Launch(
        KernelName(kernel.entry), as_dim3(grid), as_dim3(block), ZERO, (), Place(source.name, 1), source, "", ""
    )
    remark = (
        f"launched with {derived.grid} blocks of {derived.block} threads, as the kernel's launch bounds and its use of "
        "blockIdx ask for, since the source has no launch; --grid and --block say otherwise"
    )
    return replace(kernel, launch=launch, passed=tuple(passed), derived=True), remark
