"""The text of a card whose reference is a call of host functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Number, Term
from wmmadiag.hostcode.values import Value
from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.array_extents import room_for
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_calls.candidates import Candidate
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import Wishes
from wmmadiag.subject.drafts.text import quoted, toml_list, toml_value
from wmmadiag.subject.host_functions.library import given_integer


@dataclass(frozen=True, slots=True)
class Written:
    """A kernel's launch and numbers as a card's expressions over host symbols."""

    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    entry: str
    numbers: Mapping[str, str]  # by the parameter's name
    sizes: Mapping[str, str]  # elements of arrays by the parameter's name, as far as host code says

    def names(self, candidate: Candidate) -> set[str]:
        """All symbols that a card of it needs."""
        entry = self.entry.split("{")[1:]
        inside = [one.partition("}")[0] for one in entry]
        texts = [*self.grid, *self.block, self.shared, *self.numbers.values(), *self.sizes.values(), *inside]
        return {name for text in texts for name in names_in(text)} | candidate.symbols


def written(kernel: SourceKernel, wishes: Wishes) -> Written:
    """What host code says of a launch.

    Raises:
        NotWritten: something of it is no expression over symbols.
    """
    launch = kernel.launch
    if launch is None:
        raise NotWritten("nobody launches it")
    grid = tuple(wishes.grid) or tuple(_text(launch.grid.members[axis].value) for axis in "xyz")
    block = tuple(wishes.block) or tuple(_text(launch.block.members[axis].value) for axis in "xyz")
    numbers, sizes = {}, {}
    for one, value in zip(kernel.parameters, kernel.passed, strict=True):
        if not one.pointer:
            numbers[one.name] = one.value or _text(value)
        elif (room := room_for(one, value)) is not None:
            with suppress(NotWritten):
                sizes[one.name] = terms.text(room)
    return Written(grid, block, wishes.shared or _text(launch.shared), kernel.entry, numbers, sizes)


def _text(value: Value | None) -> str:
    if not isinstance(value, Term):
        raise NotWritten("a number is not known")
    return terms.text(value)


@dataclass(frozen=True, slots=True)
class Use:
    """What a card says of one array."""

    direction: str  # "in", "out", "inout" or "workspace"
    shape: str  # its elements, an expression
    initial: str = ""


def card_text(
    kernel: SourceKernel,
    candidate: Candidate,
    launched: Written,
    uses: Mapping[str, Use],
    sizes: Mapping[str, Number],
    *,
    source: str,
    name: str,
    below: int = 2,
    given: Sequence[str] = (),
    inputs: str = "normal",
    case: str = "small",
    host: str = "",
) -> str:
    """The card.

    Args:
        uses: of each array, by the parameter's name.
        sizes: of all symbols, in the one case.
        below: what integers in arrays are less than.
        given: arrays that the kernel gets as the functions leave them. inputs: their distribution. case: its name.
        host: the file of the functions, if they stand in another.
    """
    lines = ["format = 1", f"name = {quoted(name)}", f"source = {quoted(source)}"]
    lines += [f"entry = {quoted(launched.entry)}", ""]
    for one in kernel.parameters:
        lines += ["[[arguments]]", f"name = {quoted(one.name)}", f"dtype = {quoted(one.dtype or 'TODO')}"]
        lines += _array(one, candidate, uses[one.name], below) if one.name in uses else [
            f"value = {toml_value(launched.numbers.get(one.name, one.value or '0'))}"]  # fmt: skip
        lines.append("")
    lines += ["[launch]", f"grid = {toml_list(launched.grid)}", f"block = {toml_list(launched.block)}"]
    lines += [f"shared = {toml_value(launched.shared)}", "", "[computes]", f"host = {quoted(host or source)}"]
    lines += [f"call = {quoted(candidate.statements)}"]
    lines += [f"given = [{', '.join(map(quoted, given))}]"] if given else []
    lines += [
        "",
        "[[cases]]",
        f"name = {quoted(case)}",
        f"inputs = {quoted(inputs)}",
        *(f"{key} = {value}" for key, value in sizes.items()),
    ]
    return "\n".join(lines) + "\n"


def _array(parameter: DraftParameter, candidate: Candidate, use: Use, below: int) -> list[str]:
    element = element_type(parameter.dtype or "")
    role = candidate.arrays.get(parameter.name, parameter.name)
    lines = [f"role = {quoted(role)}", f"direction = {quoted(use.direction)}", f"shape = [{toml_value(use.shape)}]"]
    if use.direction == "inout" and use.initial:
        return [*lines, "values = 0"]
    if use.direction in ("in", "inout") and element is not None and not element.is_float:
        lines.append(f"values = {quoted(given_integer(str(below)))}")
    return [*lines, f"initial = {quoted(use.initial)}"] if use.initial else lines
