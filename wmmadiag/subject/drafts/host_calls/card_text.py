"""The text of a card whose reference is a call of host functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Number, Term
from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.numerics.element_types import element_type, storage_dtype
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_calls.candidates import Candidate
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import Wishes
from wmmadiag.subject.drafts.text import toml_value
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
        elif (size := _elements(one, value)) is not None:
            sizes[one.name] = size
    return Written(grid, block, wishes.shared or _text(launch.shared), kernel.entry, numbers, sizes)


def _text(value: Value | None) -> str:
    if not isinstance(value, Term):
        raise NotWritten("a number is not known")
    return terms.text(value)


def _elements(parameter: DraftParameter, value: Value | None) -> str | None:
    """How many elements host code makes room for."""
    element = element_type(parameter.dtype or "")
    if not isinstance(value, Pointer) or value.buffer.size is None or element is None:
        return None
    room = terms.combined("/", value.buffer.size, terms.number(storage_dtype(element).itemsize))
    try:
        return terms.text(terms.combined("-", room, value.offset))
    except NotWritten:
        return None


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
    lines = ["format = 1", f"name = {_quoted(name)}", f"source = {_quoted(source)}"]
    lines += [f"entry = {_quoted(launched.entry)}", ""]
    for one in kernel.parameters:
        lines += ["[[arguments]]", f"name = {_quoted(one.name)}", f"dtype = {_quoted(one.dtype or 'TODO')}"]
        lines += _array(one, candidate, uses[one.name], below) if one.name in uses else [
            f"value = {toml_value(launched.numbers.get(one.name, one.value or '0'))}"]  # fmt: skip
        lines.append("")
    lines += ["[launch]", f"grid = {_list(launched.grid)}", f"block = {_list(launched.block)}"]
    lines += [f"shared = {toml_value(launched.shared)}", "", "[computes]", f"host = {_quoted(host or source)}"]
    lines += [f"call = {_quoted(candidate.statements)}"]
    lines += [f"given = [{', '.join(map(_quoted, given))}]"] if given else []
    lines += [
        "",
        "[[cases]]",
        f"name = {_quoted(case)}",
        f"inputs = {_quoted(inputs)}",
        *(f"{key} = {value}" for key, value in sizes.items()),
    ]
    return "\n".join(lines) + "\n"


def _array(parameter: DraftParameter, candidate: Candidate, use: Use, below: int) -> list[str]:
    element = element_type(parameter.dtype or "")
    role = candidate.arrays.get(parameter.name, parameter.name)
    lines = [f"role = {_quoted(role)}", f"direction = {_quoted(use.direction)}", f"shape = [{toml_value(use.shape)}]"]
    if use.direction == "inout" and use.initial:
        return [*lines, "values = 0"]
    if use.direction in ("in", "inout") and element is not None and not element.is_float:
        lines.append(f"values = {_quoted(given_integer(str(below)))}")
    return [*lines, f"initial = {_quoted(use.initial)}"] if use.initial else lines


def _quoted(text: str) -> str:
    return json.dumps(text)


def _list(items: Sequence[str]) -> str:
    return "[" + ", ".join(toml_value(one) for one in items) + "]"
