"""The text of a card whose reference is formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from wmmadiag.hostcode.terms import Number
from wmmadiag.hostcode.types import scalar
from wmmadiag.ops.formulas.tree import Applied, Equation, Indexed, names_of, nodes
from wmmadiag.subject.drafts.code_facts import card_type, uses_tf32
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.stated.chosen import Chosen
from wmmadiag.subject.drafts.stated.extents import Shapes
from wmmadiag.subject.drafts.stated.launch_text import WrittenLaunch
from wmmadiag.subject.drafts.text import quoted, toml_list, toml_value


def element_of(one: DraftParameter) -> str:
    """The element type of an argument; that of its numbers where these are vectors; "" where it is not known."""
    if one.dtype:
        return one.dtype
    dtype, lanes = scalar(one.c_type)
    return (card_type(dtype) or "") if lanes > 1 else ""


def card_text(
    kernel: SourceKernel,
    launched: WrittenLaunch,
    chosen: Chosen,
    shapes: Shapes,
    symbols: Mapping[str, str],
    sizes: Mapping[str, Number | str],
    *,
    source: str,
    name: str,
) -> str:
    """The card.

    Args:
        shapes: the extents of each array, by the parameter's name.
        symbols: what the names of extents and numbers are over host symbols.
        sizes: of host symbols, in the one case.
    """
    lines = ["format = 1", f"name = {quoted(name)}", f"source = {quoted(source)}"]
    lines += [f"entry = {quoted(launched.entry)}", ""]
    for struct, run in groupby(kernel.parameters, lambda one: one.struct):
        if struct:
            lines += ["[[arguments]]", f"name = {quoted(struct)}", ""]
        for one in run:
            lines += ["[[arguments.fields]]" if struct else "[[arguments]]", f"name = {quoted(one.label or one.name)}"]
            lines += [*_argument(one, kernel, launched, chosen.statements, shapes), ""]
    if symbols:
        lines += ["[symbols]", *(f"{symbol} = {toml_value(text)}" for symbol, text in symbols.items()), ""]
    lines += ["[launch]", f"grid = {toml_list(launched.grid)}", f"block = {toml_list(launched.block)}"]
    lines += [f"shared = {toml_value(launched.shared)}", "", "[computes]"]
    lines += [f"formula = [{', '.join(map(quoted, chosen.texts))}]", "", "[[cases]]", 'name = "small"']
    lines += [f"{symbol} = {quoted(one) if isinstance(one, str) else one}" for symbol, one in sizes.items()]
    return "\n".join(lines) + "\n"


def _argument(
    one: DraftParameter, kernel: SourceKernel, launched: WrittenLaunch, statements: Sequence[Equation], shapes: Shapes
) -> list[str]:
    element = element_of(one) or "TODO"
    if not one.pointer or one.value:
        value = one.value or launched.numbers.get(one.name, "0")
        return [f"dtype = {quoted(element)}", f"value = {toml_value(value)}"]
    if element == "f32" and one.const and uses_tf32(kernel.code):
        element = "tf32"
    dims = [*shapes[one.name], *["2"] * _is_complex(one, statements)]
    lines = [f"role = {quoted(one.name)}", f"dtype = {quoted(element)}"]
    lines += [f"direction = {quoted(_direction(one, statements))}", f"shape = {toml_list(dims)}"]
    counted = _counted_along(one.name, statements, shapes)
    drawn = f"(i*7919 + i//13) % ({counted})"
    return [*lines, f"values = {quoted(drawn)}"] if counted else lines


def _is_complex(one: DraftParameter, statements: Sequence[Equation]) -> bool:
    """Whether pairs of numbers are complex ones."""
    conjugates = any(isinstance(node, Applied) and node.name == "conj" for each in statements for node in nodes(each))
    return conjugates and scalar(one.c_type)[1] == 2


def _direction(one: DraftParameter, statements: Sequence[Equation]) -> str:
    if one.const:
        return "in"
    own = [each for each in statements if each.target == one.name]
    if not own:
        return "in" if any(one.name in names_of(each) for each in statements) else "workspace"
    return "inout" if any(each.added or one.name in names_of(each.value) for each in own) else "out"


def _counted_along(name: str, statements: Sequence[Equation], shapes: Shapes) -> str:
    """The extent of the axis that an array's elements count along; "" for none."""
    for statement in statements:
        for one in nodes(statement):
            if not isinstance(one, Indexed):
                continue
            for item, dim in zip(one.items, shapes.get(one.base, ()), strict=False):
                if item is not None and any(isinstance(each, Indexed) and each.base == name for each in nodes(item)):
                    return dim
    return ""
