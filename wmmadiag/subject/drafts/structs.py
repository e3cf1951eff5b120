"""Parameters that are structs or accessors of tensors, taken apart: a parameter for each member, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.tree import parse
from wmmadiag.hostcode.types import plain, scalar, split_list
from wmmadiag.hostcode.values import Items, Pointer, Struct, Value
from wmmadiag.launch import field_offsets
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.code_facts import card_type, cast_types, without_comments
from wmmadiag.subject.drafts.guess import DraftParameter, role_named, symbol_for, value_for

if TYPE_CHECKING:
    from wmmadiag.compile.ask.layout import ClassLayout, Leaf

    Laid = Callable[[Sequence[int]], Mapping[int, ClassLayout | str]]

# ATen/core/TensorAccessor.h: a pointer, N sizes and N strides, of int32_t or int64_t.
_ACCESSOR = re.compile(
    r"(?:\w+::)*(?:(?P<plain>PackedTensorAccessor(?P<bits>32|64)?)|GenericPackedTensorAccessor)\s*<(?P<inner>.*)>\Z"
)
_PADDING = ((8, "u64"), (4, "u32"), (2, "u16"), (1, "u8"))
# Structs of extents: `problem_size.m` is an m; the b of `strides.b` is none.
_EXTENTS = re.compile(r"problem|size|shape|dim|extent|coord|args|params", re.IGNORECASE)


def taken_apart(
    parameters: Sequence[DraftParameter], passed: Sequence[Value | None], text: str, laid: Laid
) -> tuple[list[DraftParameter], list[Value | None]]:
    """The parameters of a kernel, and what is passed for them, with structs' members in the structs' places.

    A struct that cannot be laid out stays as it is, with the reason as its remark.

    Args:
        text: of the source with the user's headers.
        laid: how the parameters of these indices lie in memory, as the compiler says; a text why it does not.
    """
    accessors = {index: own for index, one in enumerate(parameters) if (own := _accessor(one)) is not None}
    structs = [
        index
        for index, one in enumerate(parameters)
        if not one.pointer and one.dtype is None and index not in accessors
    ]
    if not structs and not accessors:
        return list(parameters), list(passed)
    code, layouts = without_comments(text), laid(structs) if structs else {}
    found: list[DraftParameter] = []
    values: list[Value | None] = []
    for index, (parameter, value) in enumerate(zip(parameters, passed, strict=True)):
        mine, held = [parameter], [value]
        layout = layouts.get(index)
        if index in accessors:
            mine = accessors[index]
            held = [_member(value, one.label) for one in mine]
        elif isinstance(layout, str):
            mine = [replace(parameter, remark=layout)]
        elif layout is not None:
            unfit = _unfit(layout)
            mine = [replace(parameter, remark=unfit)]
            if not unfit:
                mine, held = _members(parameter, value, layout, code)
        found += mine
        values += held
    return _distinct(found), values


def _unfit(layout: ClassLayout) -> str:
    """Why a card cannot list a struct's members; "" if it can."""
    try:
        for one in layout.leaves():
            if one.alternative:
                return f"its member '{one.path}' shares its bytes with another"
            if one.size not in (1, 2, 4, 8):
                return f"its member '{one.path}' has {one.size} bytes"
    except ValueError as error:
        return str(error)
    return ""


def _accessor(parameter: DraftParameter) -> list[DraftParameter] | None:
    """The pointer, sizes and strides of a `PackedTensorAccessor32<half, 4, RestrictPtrTraits>`; None for others."""
    match = _ACCESSOR.match(" ".join(parameter.c_type.split()))
    parts = split_list(match["inner"]) if match is not None else ()
    if match is None or len(parts) < 2 or not parts[1].isdecimal():
        return None
    wide = match["bits"] == "64" if match["bits"] else not (len(parts) > 3 and re.fullmatch(r"int(?:32_t)?", parts[3]))
    index = ("int64_t", "s64") if wide else ("int32_t", "s32")
    name, kind = parameter.name, plain(parts[0])
    const = "const" in parts[0].split()
    pointer = DraftParameter(name, kind, True, const, card_type(scalar(kind)[0]), struct=name, label="data")
    numbers = [
        DraftParameter(f"{name}.{what}({axis})", index[0], dtype=index[1], struct=name, label=f"{what}{axis}")
        for what in ("size", "stride")
        for axis in range(int(parts[1]))
    ]
    return [pointer, *numbers]


def _member(value: Value | None, path: str) -> Value | None:
    """The member of a struct's value at a path such as "strides.q" or "dims[1]"."""
    for word in re.findall(r"\w+", path):
        if isinstance(value, Struct):
            cell = value.members.get(word)
            value = cell.value if cell is not None else None
        elif isinstance(value, Items) and word.isdecimal():
            value = value.cells[int(word)].value if int(word) < len(value.cells) else None
        else:
            return None
    return value


def _members(
    parameter: DraftParameter, value: Value | None, layout: ClassLayout, code: str
) -> tuple[list[DraftParameter], list[Value | None]]:
    """The members of a struct, padding among them, and what host code puts into them."""
    fields: list[DraftParameter] = []
    values: list[Value | None] = []
    for leaf in _padded(layout):
        if isinstance(leaf, str):
            label = f"padding{len(fields)}"
            fields.append(DraftParameter(label, leaf, dtype=leaf, struct=parameter.name, label=label, value="0"))
            values.append(None)
            continue
        told = _member(value, leaf.path)
        fields.append(_field(parameter.name, leaf, told, code))
        values.append(told)
    return fields, values


def _padded(layout: ClassLayout) -> list[Leaf | str]:
    """The leaves, with fields of padding where a card's rule, each field at a multiple of its size, says otherwise."""
    found: list[Leaf | str] = []
    sizes: list[int] = []

    def end() -> int:
        return field_offsets([*sizes, 1])[0][-1] if sizes else 0

    def pad(limit: int) -> None:
        width, dtype = next((w, d) for w, d in _PADDING if end() % w == 0 and end() + w <= limit)
        found.append(dtype)
        sizes.append(width)

    for leaf in layout.leaves():
        while -(-end() // leaf.size) * leaf.size != leaf.offset:
            pad(leaf.offset)
        found.append(leaf)
        sizes.append(leaf.size)
    while field_offsets(sizes)[1] < layout.size:
        pad(layout.size)
    return found


def _field(struct: str, leaf: Leaf, told: Value | None, code: str) -> DraftParameter:
    """One member as a parameter; its value where the host code or nobody's reading it settles that."""
    from wmmadiag.compile.ask.elements import element

    facts, pointer = leaf.facts, leaf.facts.depth > 0
    target = element(facts) if facts.depth <= 2 else None
    dtype = (target[0] if target is not None else None) if pointer else leaf.dtype
    dtype = {"bool": "u8"}.get(dtype or "", dtype)
    name = _telling(leaf.path, pointer or dtype in ("f16", "bf16", "f32", "f64"))
    c_type = " ".join(facts.target.split())
    last = leaf.path.rpartition(".")[2].partition("[")[0]
    if pointer and dtype is None:
        c_type, dtype = _pointed(code, last, c_type)
    unread = _unread(code, last)
    empty = pointer and not isinstance(told, Pointer) and getattr(told, "op", "") == "number"
    if pointer and (unread or empty):
        return DraftParameter(name, "u64", dtype="u64", struct=struct, label=leaf.path, value="0")
    remark = "pointers to pointers" if facts.depth > 2 else ""
    return DraftParameter(
        name, c_type, pointer, facts.const, dtype, struct=struct, label=leaf.path, offset=leaf.offset,
        unread=unread, indirect=facts.depth == 2, remark=remark,
    )  # fmt: skip


def _telling(path: str, plain_number: bool) -> str:
    """The name by which a member's meaning is guessed: of "ep.bias" that of the member, of "A.data" that of both.

    `plain_number`: whether it is a pointer or a factor, so that the struct around it cannot make it something else.
    """
    whole = re.sub(r"\W+", "_", path).strip("_")
    outer, _, last = path.rpartition(".")
    alone = outer and last.isidentifier() and (plain_number or _EXTENTS.search(outer))
    return last if alone and not _is_known(whole) and _is_known(last) else whole


def _is_known(name: str) -> bool:
    """Whether a name means something to any operation."""
    return any(
        role_named(name, one) or symbol_for(name, one) or value_for(name, one) for one in OPERATIONS if one != "python"
    )


@lru_cache(maxsize=2)
def _methods(code: str) -> str:
    """The bodies of all methods of classes, which read members by their plain names."""
    source = parse(code)
    found = declarations(source)
    classes = {one.qualified for one in found.records}
    bodies = (one.body for one in found.functions if one.scope in classes and one.body is not None)
    return "\n".join(map(source.text, bodies))


def _unread(code: str, member: str) -> bool:
    """Whether no code of the source reads a member of that name."""
    if re.search(r"\bauto\s*&{0,2}\s*\[", code):
        return False  # structured bindings read without a name
    if re.search(rf"\b{re.escape(member)}\b", _methods(code)):
        return False
    return not re.search(rf"(?:\.|->)\s*{re.escape(member)}\b(?!\s*=[^=])", code)


def _pointed(code: str, member: str, c_type: str) -> tuple[str, str | None]:
    """What a `void *` member points to, as the code that reads it casts it: (C type, element type)."""
    word = rf"[\w.>()\[\]-]*?(?:\.|->)\s*{re.escape(member)}\b"
    found = cast_types(code, word)
    return next(iter(found)) if len({dtype or kind for kind, dtype in found}) == 1 else (c_type, None)


def _distinct(parameters: list[DraftParameter]) -> list[DraftParameter]:
    """Names that two members share get their struct's before them."""
    names = [one.name for one in parameters]
    return [
        replace(one, name=f"{one.struct}_{one.name}") if one.struct and names.count(one.name) > 1 else one
        for one in parameters
    ]
