"""How a struct of the source lies in memory: its members with their offsets, bases and nested structs taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wmmadiag.compile.declarations import Declaration, declarations
from wmmadiag.compile.host_code import split_arguments
from wmmadiag.compile.lexer import Token, closing, tokenize
from wmmadiag.compile.old_context import template_parameters
from wmmadiag.compile.signatures import KernelParameter, parameter_of, type_bytes

_DEPTH = 6
_LARGEST = 512  # members, arrays taken apart
_SKIPPED = frozenset({"static", "constexpr", "friend", "using", "typedef", "enum", "static_assert"})
_ACCESS = frozenset({"public", "private", "protected", "virtual"})
# CUDA's vector_types.h: `dim3` is three unsigned integers.
_KNOWN: Mapping[str, tuple[tuple[str, str], ...]] = {"dim3": tuple((axis, "unsigned int") for axis in "xyz")}


class UnknownLayout(ValueError):
    """Which member stands in the way, in words."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, or a base class.

    Attributes:
        name: of the member; of an array's element "[2]"; "" for a base class.
        size, align, offset: bytes; the offset counts from the struct that it is a member of.
        declared: type and element type; None for what has members of its own.
        members: of a nested struct, a base class or an array.
        default: text of its default initialiser.
    """

    name: str
    size: int
    align: int
    offset: int = 0
    declared: KernelParameter | None = None
    members: tuple[Member, ...] = ()
    default: str = ""

    def leaves(self, path: str = "", offset: int = 0) -> Iterator[tuple[str, int, Member]]:
        """(path such as "strides.q" or "dims[1]", offset from the outermost struct, member) of plain members."""
        for member in self.members:
            dot = "." if path and member.name and not member.name.startswith("[") else ""
            inner, at = path + dot + member.name, offset + member.offset
            if member.declared is not None:
                yield inner, at, member
            else:
                yield from member.leaves(inner, at)


@dataclass(frozen=True, slots=True)
class Structs:
    """The structs of a source.

    Attributes:
        classes: by unqualified name; of several, the first with a body.
        aliases: type names → what they stand for.
        number: the value of a constant, for extents of arrays.
        enums: names of enumerations, with the integer type behind each.
    """

    classes: Mapping[str, Declaration]
    aliases: Mapping[str, str]
    number: Callable[[str], int | None] = field(default=lambda text: int(text) if text.isdecimal() else None)
    enums: Mapping[str, str] = field(default_factory=dict)

    def layout(self, type_: str) -> Member | None:
        """The struct of that name, `Params<half>` too; None if the source does not define it.

        Raises:
            UnknownLayout: a member is of a type that is not known.
        """
        return _struct(self, type_, dict(self.aliases), _DEPTH)

    def plain(self, type_: str) -> str:
        """An unqualified type name without qualifiers, aliases resolved: "const ns::Params &" → "Params"."""
        return _plain(type_, self.aliases)


def structs(text: str, aliases: Mapping[str, str], number: Callable[[str], int | None]) -> Structs:
    """The structs that a source's text defines, those in classes and namespaces too."""
    try:
        found = declarations(tokenize(_without_typedefs(text)))
    except RecursionError:
        found = ()
    classes: dict[str, Declaration] = {}
    enums: dict[str, str] = {}
    for one in _classes(found):
        if one.kind == "class":
            classes.setdefault(one.name, one)
            continue
        words = [token.text for token in one.head]
        enums[one.name] = " ".join(words[words.index(":") + 1 :]) if ":" in words else "int"
    plain = {name: meant for name, meant in aliases.items() if name not in classes}
    return Structs(classes, plain, number, enums)


def _without_typedefs(text: str) -> str:
    """`typedef struct tag {…} Name;`, as C has it, written `struct Name {…};`."""
    tokens = tokenize(text)
    pieces, position = [], 0
    for index in range(len(tokens) - 3):
        if [token.text for token in tokens[index : index + 2]] != ["typedef", "struct"]:
            continue
        brace = index + 2 + (tokens[index + 2].kind == "id")
        end = closing(tokens, brace) if tokens[brace].text == "{" else len(tokens)
        if end + 1 < len(tokens) and tokens[end + 1].kind == "id":
            name = tokens[end + 1].text
            pieces += [
                text[position : tokens[index].start],
                f"struct {name} ",
                text[tokens[brace].start : tokens[end].end],
            ]
            position = tokens[end + 1].end
    return "".join([*pieces, text[position:]])


def _classes(scope: Sequence[Declaration]) -> Iterator[Declaration]:
    for one in scope:
        if one.kind in ("class", "enum") and one.body:
            yield one
            yield from _classes(one.members)


def _plain(type_: str, aliases: Mapping[str, str]) -> str:
    text = re.sub(r"\b(?:const|volatile|struct|typename|__grid_constant__)\b|&", " ", type_)
    text = re.sub(r"\s*(::|<|>|,)\s*", r"\1", " ".join(text.split()))
    for _ in range(4):
        name, bracket, rest = text.partition("<")
        name = name.split("::")[-1]
        text = name + bracket + rest
        if bracket or name not in aliases or aliases[name] == name:
            break
        text = " ".join(aliases[name].split())
    return text


def _struct(known: Structs, type_: str, bound: dict[str, str], depth: int) -> Member | None:
    plain = _plain(type_, bound)
    name, _, rest = plain.partition("<")
    if name in _KNOWN:
        return _arranged([_scalar(member, word) for member, word in _KNOWN[name]], "")
    declared = known.classes.get(name)
    if declared is None or depth == 0:
        return None
    if any(token.text == "union" for token in declared.head):
        raise UnknownLayout(f"'{name}' is a union")
    values = [" ".join(token.text for token in part) for part in split_arguments(tokenize(rest.removesuffix(">")))]
    return _declared(known, declared, values, bound, depth)


def _declared(
    known: Structs, declared: Declaration, values: Sequence[str], bound: dict[str, str], depth: int
) -> Member:
    """The layout of one struct; `values`: of its template parameters."""
    name = declared.name
    inner = {**bound, **dict(zip(template_parameters(declared.head), values, strict=False))}
    for one in declared.members:
        words = [token.text for token in one.head]
        if one.kind == "alias" and words[:1] == ["using"] and words[2:3] == ["="]:
            inner[words[1]] = " ".join(words[3:])
        elif one.kind == "alias" and words[:1] == ["typedef"]:
            inner[words[-1]] = " ".join(words[1:-1])
    parts = list(_bases(known, declared, inner, depth))
    tokens = declared.body[1:-1]
    for one in declared.members:
        if one.kind in ("function", "prototype") and "virtual" in one.words():
            raise UnknownLayout(f"'{name}' has virtual functions")
        if one.kind in ("class", "enum"):
            parts += _inline(known, one, tokens, inner, depth)
        if one.kind == "variable" and not {token.text for token in one.head} & _SKIPPED:
            own = [token for token in tokens if one.start <= token.start < one.end and token.text != ";"]
            parts += _members(known, own, inner, depth)
    over = _alignment(known, declared.head)
    return _arranged(parts, "", over)


def _inline(
    known: Structs, one: Declaration, tokens: Sequence[Token], bound: dict[str, str], depth: int
) -> Iterator[Member]:
    """The members that `struct Size { int m, n; } size, other;` declares; none where it declares a type alone."""
    end = one.body[-1].start if one.body else one.end
    names = [token for token in tokens if end < token.start < one.end and token.text != ";"]
    is_union = any(token.text == "union" for token in one.head)
    if one.kind == "enum":
        underlying = known.enums.get(one.name, "int")
        yield from (_scalar(part[0].text, underlying) for part in split_arguments(names))
        return
    if (names or not one.name) and (is_union or depth == 0):
        raise UnknownLayout(f"'{names[0].text if names else 'a member'}' is a union")
    if not names and not one.name:
        yield replace(_declared(known, one, (), bound, depth - 1), name="")
    for part in split_arguments(names):
        if len(part) != 1 or part[0].kind != "id":
            raise UnknownLayout(f"'{' '.join(token.text for token in part)}' is not understood")
        yield replace(_declared(known, one, (), bound, depth - 1), name=part[0].text)


def _bases(known: Structs, declared: Declaration, bound: dict[str, str], depth: int) -> Iterator[Member]:
    head = list(declared.head)
    colon = next((i for i, token in enumerate(head) if token.text == ":"), len(head))
    for part in split_arguments(head[colon + 1 :]):
        base = " ".join(token.text for token in part if token.text not in _ACCESS)
        found = _struct(known, base, bound, depth - 1)
        if found is None:
            raise UnknownLayout(f"its base class '{base}' is not in the source")
        yield replace(found, name="")


def _members(known: Structs, tokens: Sequence[Token], bound: dict[str, str], depth: int) -> Iterator[Member]:
    """The members that one declaration declares: `const half *q, *k; int dims[3];`."""
    over = _alignment(known, tokens)
    tokens = _without_attributes(tokens)
    written: list[Token] = []
    for position, part in enumerate(split_arguments(tokens)):
        head, default, extents = _declarator(part)
        if any(token.text in (":", "&", "(") for token in head):
            raise UnknownLayout(f"'{' '.join(token.text for token in part)}' is a bit-field or a reference")
        if not head or head[-1].kind != "id":
            raise UnknownLayout(f"'{' '.join(token.text for token in part)}' is not understood")
        if position == 0:
            end = next((i for i, token in enumerate(head) if token.text == "*"), len(head) - 1)
            written = list(head[:end])
        else:
            head = [*written, *head]
        one = _typed(known, head, bound, depth)
        one = replace(one, default=default, align=max(one.align, over))
        for extent in reversed(extents):
            text = " ".join(token.text for token in extent)
            count = known.number(bound.get(text, text))
            if count is None or not 0 < count <= _LARGEST:
                raise UnknownLayout(f"the extent '{text}' of '{one.name}' is not known")
            elements = [replace(one, name=f"[{index}]", default="") for index in range(count)]
            one = replace(_arranged(elements, one.name), default=default)
        yield one


def _declarator(part: Sequence[Token]) -> tuple[list[Token], str, list[list[Token]]]:
    """Type and name, the default initialiser, and the extents of an array."""
    head: list[Token] = []
    extents: list[list[Token]] = []
    index = 0
    while index < len(part):
        text = part[index].text
        if text in ("=", "{"):
            rest = part[index + 1 :] if text == "=" else part[index + 1 : closing(part, index)]
            return head, " ".join(token.text for token in rest), extents
        if text == "[":
            end = closing(part, index)
            extents.append(list(part[index + 1 : end]))
            index = end + 1
            continue
        head.append(part[index])
        index += 1
    return head, "", extents


def _typed(known: Structs, head: Sequence[Token], bound: dict[str, str], depth: int) -> Member:
    """A member by its type."""
    parameter = parameter_of(head, bound)
    name = head[-1].text
    parameter = replace(parameter, name=name)
    if parameter.pointer:
        return Member(name, 8, 8, declared=parameter)
    core = _plain(parameter.type, bound)
    if parameter.dtype is not None and parameter.lanes > 1:
        word = _element(parameter.dtype)
        lanes = [replace(_scalar(axis, word)) for axis in "xyzw"[: parameter.lanes]]
        whole = _arranged(lanes, name)
        # CUDA C++ Programming Guide, "Alignment Requirements": vectors of 2 and 4 elements, 16 bytes at most.
        return replace(whole, align=min(whole.size, 16) if parameter.lanes in (2, 4) else whole.align)
    if parameter.dtype is not None:
        size = _bytes(parameter.dtype)
        return Member(name, size, size, declared=parameter)
    if core in known.enums:
        return _scalar(name, known.enums[core])
    found = _struct(known, core, bound, depth - 1)
    if found is None:
        raise UnknownLayout(f"its member '{name}' is of the type '{core}', which the source does not define")
    return replace(found, name=name)


def _scalar(name: str, type_: str) -> Member:
    declared = replace(parameter_of(tokenize(f"{type_} x"), {}), name=name)
    size = type_bytes(type_) or 4
    return Member(name, size, size, declared=declared)


def _bytes(dtype: str) -> int:
    return 1 if dtype.startswith("e") else int(dtype.lstrip("bfiu")) // 8


def _element(dtype: str) -> str:
    """A C type of that element type."""
    words = {"f16": "half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double"}
    return words.get(dtype) or f"{'u' if dtype[0] == 'u' else ''}int{dtype[1:]}_t"


def _arranged(parts: Sequence[Member], name: str, align: int = 1) -> Member:
    """Members one after the other, each at a multiple of its alignment (Itanium C++ ABI, 2.2)."""
    placed: list[Member] = []
    end = 0
    for one in parts:
        offset = -(-end // one.align) * one.align
        placed.append(replace(one, offset=offset))
        end, align = offset + one.size, max(align, one.align)
    if sum(1 for _ in Member("", 0, 1, members=tuple(placed)).leaves()) > _LARGEST:
        raise UnknownLayout("it has too many members")
    return Member(name, max(-(-end // align) * align, 1), align, members=tuple(placed))


def _alignment(known: Structs, tokens: Sequence[Token]) -> int:
    """Of `alignas(16)` or `__align__(16)`."""
    for index, token in enumerate(tokens[:-1]):
        if token.text in ("alignas", "__align__") and tokens[index + 1].text == "(":
            inner = tokens[index + 2 : closing(tokens, index + 1)]
            value = known.number(" ".join(one.text for one in inner))
            if value is None:
                raise UnknownLayout("its alignment is not known")
            return value
    return 1


def _without_attributes(tokens: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in ("alignas", "__align__", "__attribute__", "[["):
            bracket = index + (tokens[index].text != "[[")
            index = closing(tokens, bracket) + 1
            continue
        if tokens[index].text not in ("mutable", "alignas"):
            found.append(tokens[index])
        index += 1
    return found
