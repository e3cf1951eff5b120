"""Parameters that are structs or accessors of tensors, taken apart: a parameter for each member, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wmmadiag.launch import field_offsets
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, translate
from wmmadiag.subject.drafts.carriers import cast_types
from wmmadiag.subject.drafts.guess import Parameter, role_named, symbol_for, value_for
from wmmadiag.subject.drafts.source_facts import constants, without_comments
from wmmadiag.subject.expressions import ExpressionError, evaluate

if TYPE_CHECKING:
    from wmmadiag.compile.host_code import HostLaunch, SourceExpression
    from wmmadiag.compile.struct_layout import Member, Structs
    from wmmadiag.compile.struct_values import StructValues

# ATen/core/TensorAccessor.h: a pointer, N sizes and N strides, of int32_t or int64_t.
_ACCESSOR = re.compile(
    r"(?:\w+::)*(?:(?P<plain>PackedTensorAccessor(?P<bits>32|64)?)|GenericPackedTensorAccessor)\s*<(?P<inner>.*)>\Z"
)
_PADDING = ((8, "u64"), (4, "u32"), (2, "u16"), (1, "u8"))


@dataclass(frozen=True, slots=True)
class _Source:
    """A source as this module needs it."""

    text: str
    plain: str
    known: Structs


def taken_apart(
    parameters: Sequence[Parameter],
    launches: Sequence[HostLaunch],
    text: str,
    aliases: Mapping[str, str],
    element: Callable[[str], tuple[str, str | None]],
) -> tuple[tuple[Parameter, ...], tuple[HostLaunch, ...]]:
    """The parameters and launches of a kernel with its structs' members in the structs' places.

    A struct that cannot be laid out stays as it is, with the reason as its remark.

    Args:
        parameters: of the kernel, structs as they are declared.
        launches: of the kernel.
        text: the source's, with that of the user's headers.
        aliases: type names → what they stand for.
        element: (plain C type, card's element type) of a C type.
    """
    from wmmadiag.compile.struct_layout import UnknownLayout, structs

    if all(one.pointer or one.dtype is not None for one in parameters):
        return tuple(parameters), tuple(launches)
    source = _Source(text, without_comments(text), structs(text, aliases, numbers(text)))
    found: list[Parameter] = []
    arguments: list[list[SourceExpression]] = [[] for _ in launches]
    members: list[tuple[str, str]] = []
    extra: dict[str, str] = {}
    values: list[StructValues] = []
    called: dict[str, str] = {}
    for index, parameter in enumerate(parameters):
        own = [parameter]
        texts = [[_argument(one, index)] for one in launches]
        if not parameter.pointer and parameter.dtype is None:
            accessor = _accessor(parameter, element)
            if accessor is not None:
                own = accessor
                texts = [_accessor_texts(_argument(one, index).text, one, accessor) for one in launches]
            else:
                try:
                    layout = source.known.layout(parameter.c_type)
                    if layout is not None:
                        own, texts, told = _struct(source, parameter, index, layout, launches)
                        values.append(told)
                        called |= _called(source, parameter, layout, told)
                        for variable in sorted(told.variables):
                            members += [(f"{variable}.{one.label}", one.name) for one in own]
                            given = {f"{variable}.{one.label}": told.value(one.label, "") for one in own}
                            extra.update({name: text for name, text in given.items() if text and name not in extra})
                except UnknownLayout as error:
                    own = [replace(parameter, remark=str(error))]
        found += own
        for flat, one in zip(arguments, texts, strict=True):
            flat += one
    found = _distinct(found)
    return tuple(found), tuple(
        _relaunched(_without_calls(launch, called), flat, members, extra, values)
        for launch, flat in zip(launches, arguments, strict=True)
    )


def numbers(text: str, values: Mapping[str, str] | None = None) -> Callable[[str], int | None]:
    """Values of constants of the source, such as extents of arrays; `values`: of template parameters."""
    known = {**constants(text), **(values or {})}

    def number(expression: str) -> int | None:
        nothing: dict[str, int] = {}
        try:
            value = evaluate(translate(expression, HostScope({}, known)), nothing.__getitem__)
        except (CannotTranslate, ExpressionError, KeyError):
            return None
        return value if isinstance(value, int) else None

    return number


def _accessor(parameter: Parameter, element: Callable[[str], tuple[str, str | None]]) -> list[Parameter] | None:
    """The pointer, sizes and strides of a `PackedTensorAccessor32<half, 4, RestrictPtrTraits>`; None for others."""
    from wmmadiag.subject.drafts.source_facts import split_template_arguments

    match = _ACCESSOR.match(" ".join(parameter.c_type.split()))
    parts = split_template_arguments(match["inner"]) if match is not None else []
    if match is None or len(parts) < 2 or not parts[1].isdecimal():
        return None
    wide = match["bits"] == "64" if match["bits"] else not (len(parts) > 3 and re.fullmatch(r"int(?:32_t)?", parts[3]))
    index = ("int64_t", "s64") if wide else ("int32_t", "s32")
    c_type, dtype = element(parts[0])
    const = "const" in parts[0].split()
    name = parameter.name
    pointer = Parameter(name, c_type, True, const, dtype, struct=name, label="data")
    numbers = [
        Parameter(f"{name}.{what}({axis})", index[0], False, False, index[1], struct=name, label=f"{what}{axis}")
        for what in ("size", "stride")
        for axis in range(int(parts[1]))
    ]
    return [pointer, *numbers]


def _argument(launch: HostLaunch, index: int) -> SourceExpression:
    from wmmadiag.compile.struct_values import expression

    return launch.arguments[index] if index < len(launch.arguments) else expression("")


def _accessor_texts(text: str, launch: HostLaunch, accessor: Sequence[Parameter]) -> list[SourceExpression]:
    """What a launch passes for the members of an accessor: its tensor, and `tensor.size(0)`."""
    from wmmadiag.compile.struct_values import expression

    local = {name: value.text for name, value in launch.locals}
    text = local.get(text, text)
    tensor = re.match(r"\(*\s*&?\s*([A-Za-z_]\w*)", text)
    name = tensor[1] if tensor is not None and not text.endswith("{}") else accessor[0].name
    return [expression(text) for text in (name, *(f"{name}.{one.name.rpartition('.')[2]}" for one in accessor[1:]))]


def _struct(
    source: _Source, parameter: Parameter, index: int, layout: Member, launches: Sequence[HostLaunch]
) -> tuple[list[Parameter], list[list[SourceExpression]], StructValues]:
    """The members of a struct, what each launch's host code puts into them, and all that host code says."""
    from wmmadiag.compile.struct_values import expression, passed_in_place, struct_values

    told = struct_values(source.text, source.known, parameter.c_type, layout)
    fields: list[Parameter] = []
    texts: list[list[SourceExpression]] = [[] for _ in launches]
    for path, _, member in _padded(layout):
        if member is None:
            dtype = path.rpartition(".")[2]
            fields.append(Parameter(f"padding{len(fields)}", dtype, False, False, dtype, struct=parameter.name,
                                    label=f"padding{len(fields)}", value="0"))  # fmt: skip
            for flat in texts:
                flat.append(expression(""))
            continue
        one = _field(source, parameter.name, path, member, told)
        fields.append(one)
        for flat, launch in zip(texts, launches, strict=True):
            in_place = passed_in_place(launch, index, layout) if index < len(launch.arguments) else ()
            given = next((item.text for item in in_place if item.path == path), "")
            zero = "0" if told.is_empty(path) else ""
            flat.append(expression(given or told.value(path, launch.function) or member.default or zero))
    return fields, texts, told


def _called(source: _Source, parameter: Parameter, layout: Member, told: StructValues) -> dict[str, str]:
    """What `params.grid()` stands for, for each variable of a struct and each function that returns one expression."""
    from wmmadiag.compile.struct_values import methods

    return {
        f"{variable}.{name}": " ".join(
            variable + word if word.startswith(".") and len(word) > 1 else word for word in words
        )
        for name, words in methods(source.known, parameter.c_type, layout).items()
        for variable in told.variables
    }


def _without_calls(launch: HostLaunch, called: Mapping[str, str]) -> HostLaunch:
    """A launch whose configuration has the expressions that a struct's functions return."""

    def plain(expression: SourceExpression | None) -> SourceExpression | None:
        text = re.sub(r"\(\s*\)\Z", "", expression.text).replace("->", ".").strip() if expression is not None else ""
        return expression if expression is None or text not in called else replace(expression, text=called[text])

    return replace(launch, grid=plain(launch.grid), block=plain(launch.block), shared=plain(launch.shared))


def _padded(layout: Member) -> list[tuple[str, int, Member | None]]:
    """The leaves, with fields of padding where a card's rule, each field at a multiple of its size, says otherwise."""
    found: list[tuple[str, int, Member | None]] = []
    sizes: list[int] = []

    def fill(target: int, size: int) -> None:
        """Pad until a field of that size stands at `target`."""
        while True:
            end = field_offsets([*sizes, 1])[0][-1] if sizes else 0
            if -(-end // size) * size == target:
                return
            width, dtype = next((w, d) for w, d in _PADDING if end % w == 0 and end + w <= target)
            found.append((f"padding.{dtype}", end, None))
            sizes.append(width)

    for path, offset, member in layout.leaves():
        fill(offset, member.size)
        found.append((path, offset, member))
        sizes.append(member.size)
    while field_offsets(sizes)[1] < layout.size:
        end = field_offsets([*sizes, 1])[0][-1]
        width, dtype = next((w, d) for w, d in _PADDING if end % w == 0 and end + w <= layout.size)
        found.append((f"padding.{dtype}", end, None))
        sizes.append(width)
    return found


def _field(source: _Source, struct: str, path: str, member: Member, told: StructValues) -> Parameter:
    """One member as a parameter; its value where the host code or nobody's reading it settles that."""
    declared = member.declared
    assert declared is not None
    name = _telling(path, declared.pointer or declared.dtype in ("f16", "bf16", "f32", "f64"))
    dtype = None if declared.dtype is None else re.sub(r"\Ai(\d+)\Z", r"s\1", declared.dtype)
    c_type = re.sub(r"\b(?:const|volatile|__restrict__|__restrict)\b|\*", " ", declared.type)
    c_type = " ".join(c_type.split())
    if declared.pointer and dtype is None:
        c_type, dtype = _pointed(source, declared.name, c_type)
    unread = _unread(source.plain, declared.name)
    if declared.pointer and (unread or told.is_empty(path)):
        return Parameter(name, "u64", False, False, "u64", struct=struct, label=path, value="0")
    return Parameter(name, c_type, declared.pointer, declared.const, dtype, struct=struct, label=path, unread=unread)


# Structs of extents: `problem_size.m` is an m; the b of `strides.b` is none.
_EXTENTS = re.compile(r"problem|size|shape|dim|extent|coord|args|params", re.IGNORECASE)


def _telling(path: str, plain: bool) -> str:
    """The name by which a member's meaning is guessed: of "ep.bias" that of the member, of "A.data" that of both.

    `plain`: whether it is a pointer or a factor, so that the struct around it cannot make it something else.
    """
    whole = re.sub(r"\W+", "_", path).strip("_")
    outer, _, last = path.rpartition(".")
    alone = outer and last.isidentifier() and (plain or _EXTENTS.search(outer))
    return last if alone and not _is_known(whole) and _is_known(last) else whole


def _is_known(name: str) -> bool:
    """Whether a name means something to any operation."""
    return any(
        role_named(name, one) or symbol_for(name, one) or value_for(name, one) for one in OPERATIONS if one != "python"
    )


def _unread(plain: str, member: str) -> bool:
    """Whether no code of the source reads a member of that name."""
    if re.search(r"\bauto\s*&{0,2}\s*\[", plain):
        return False  # structured bindings read without a name
    return not re.search(rf"(?:\.|->)\s*{re.escape(member)}\b(?!\s*=[^=])", plain)


def _pointed(source: _Source, member: str, c_type: str) -> tuple[str, str | None]:
    """What a `void *` member points to, as the code that reads it casts it: (C type, element type)."""
    word = rf"[\w.>()\[\]-]*?(?:\.|->)\s*{re.escape(member)}\b"
    found = cast_types(source.plain, word, source.known.aliases)
    return next(iter(found)) if len({dtype or plain for plain, dtype in found}) == 1 else (c_type, None)


def _distinct(parameters: list[Parameter]) -> list[Parameter]:
    """Names that two members share get their struct's before them."""
    names = [one.name for one in parameters]
    return [
        replace(one, name=f"{one.struct}_{one.name}") if one.struct and names.count(one.name) > 1 else one
        for one in parameters
    ]


def _relaunched(
    launch: HostLaunch,
    arguments: Sequence[SourceExpression],
    members: Sequence[tuple[str, str]],
    extra: Mapping[str, str],
    values: Sequence[StructValues],
) -> HostLaunch:
    """A launch that passes the members one by one, in a function that knows what the members are made of."""
    from wmmadiag.compile.struct_values import expression

    local = dict(launch.locals)
    for told in values:
        for name, value in told.locals:
            local.setdefault(name, value)
    for name, text in extra.items():
        local.setdefault(name, expression(text))
    return replace(launch, arguments=tuple(arguments), locals=tuple(local.items()), members=tuple(members))
