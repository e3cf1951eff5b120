"""Sums and products inside index expressions, and what an array's rows are apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.edits.registry import View, is_integer
from wmmadiag.diagnose.source.model import SourceModel, Span, Variable

_VALUES = frozenset({"num", "id"})


@dataclass(frozen=True, slots=True)
class Product:
    """`left * right` in the source; each side is one factor. `base` is the array or pointer it belongs to, or ""."""

    left: Span
    right: Span
    base: str
    line: int


def terms(model: SourceModel, piece: Span) -> list[Span]:
    """The terms of a sum at the top level of an expression; one term if it is no sum."""
    found, start, index = [], piece.first, piece.first
    while index < piece.last:
        text = model.tokens[index].text
        if text in ("(", "[", "{") and index < model.match[index] < piece.last:
            index = model.match[index]
        elif text in ("+", "-") and index > start:
            found.append(model.span(start, index))
            start = index + 1
        index += 1
    if start < piece.last:
        found.append(model.span(start, piece.last))
    return found


def factors(model: SourceModel, piece: Span, operators: str = "*") -> list[Span]:
    """The factors of a product at the top level of a term; one if it is none, or if it divides."""
    found, start, index = [], piece.first, piece.first
    while index < piece.last:
        text = model.tokens[index].text
        if text in ("(", "[", "{") and index < model.match[index] < piece.last:
            index = model.match[index]
        elif text in operators and index > start:
            found.append(model.span(start, index))
            start = index + 1
        elif text in ("/", "%") and index > start:
            return [piece]
        index += 1
    if start < piece.last:
        found.append(model.span(start, piece.last))
    return found


def base_of(model: SourceModel, piece: Span) -> Variable | None:
    """The array or pointer that a pointer expression starts from, as it is written: of `s->tile[r]` the member."""
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.kind == "id":
            variable = model.variable(token.text, token.offset)
            if variable is not None and (variable.pointer or variable.dims or variable.external):
                return _member_array(model, index, piece.last) or variable
    return None


def _member_array(model: SourceModel, index: int, last: int) -> Variable | None:
    """The array that is a member, where a name at a token is followed by members' names."""
    found = None
    while index + 2 < last and model.tokens[index + 1].text in (".", "->"):
        index += 2
        member = model.variable(model.tokens[index].text, model.tokens[index].offset)
        found = member if member is not None and member.dims else None
    return found


def origin(model: SourceModel, variable: Variable | None) -> Variable | None:
    """The array that a pointer was made from, through the initialisers of local pointers."""
    for _ in range(6):
        if variable is None or variable.dims or variable.initial is None:
            break
        inner = base_of(model, variable.initial)
        if inner is None or inner is variable:
            break
        variable = inner
    return variable


def products(view: View) -> Iterator[Product]:
    """All products of two factors in index expressions and in address arithmetic."""
    model = view.model
    for index, token in enumerate(model.tokens):
        if token.text != "*" or index == 0 or index + 1 >= len(model.tokens) or not view.wanted(token.offset):
            continue
        before, following = model.tokens[index - 1], model.tokens[index + 1]
        if not (before.kind in _VALUES or before.text in (")", "]")):
            continue
        if not (following.kind in _VALUES or following.text == "("):
            continue
        if before.kind == "id" and not _known_name(view, index - 1):
            continue
        left, right = _factor_before(model, index), factor_after(model, index)
        if left and right:
            yield Product(left, right, "", token.line)


def _known_name(view: View, index: int) -> bool:
    """Whether an identifier is a number rather than a type."""
    token = view.model.tokens[index]
    known = view.model.variable(token.text, token.offset) is not None or view.number(token.text) is not None
    return known or _member(view.model, index)


def _member(model: SourceModel, index: int) -> bool:
    return index > 0 and model.tokens[index - 1].text in (".", "->", "::")


def _factor_before(model: SourceModel, index: int) -> Span:
    first = index - 1
    if model.tokens[first].text in (")", "]") and model.match[first] >= 0:
        first = model.match[first]
        if first > 0 and (model.tokens[first - 1].kind == "id" or model.tokens[first - 1].text == ">"):
            first -= 1
            if model.tokens[first].text == ">":  # static_cast<T>(x)
                while first > 0 and model.tokens[first].text != "<":
                    first -= 1
                first -= 1
    while first >= 2 and model.tokens[first - 1].text in (".", "::"):
        first -= 2
    return model.span(max(first, 0), index)


def factor_after(model: SourceModel, index: int) -> Span:
    """The one factor to the right of an operator; empty where there is none."""
    last = index + 2
    if model.tokens[index + 1].text == "(":
        last = model.match[index + 1] + 1
    while (
        last + 1 < len(model.tokens) and model.tokens[last].text in (".", "::") and model.tokens[last + 1].kind == "id"
    ):
        last += 2
    if last < len(model.tokens) and model.tokens[last].text in ("(", "[") and model.match[last] > last:
        last = model.match[last] + 1
    return model.span(index + 1, max(last, index + 1))


@dataclass(frozen=True, slots=True)
class Candidate:
    """An expression that may stand for a distance between rows; lower `rank` is more plausible."""

    text: str
    rank: float
    why: str


def pitches(view: View, base: Variable | None, offset: int, present: str) -> list[Candidate]:
    """What a leading dimension may be for memory that starts at `base`, the most plausible first.

    `present` is the expression that stands there; `values["ldm"]` names the number wanted.
    """
    model = view.model
    found: dict[str, Candidate] = {}

    def offer(text: str, rank: float, why: str) -> None:
        text = " ".join(text.split())
        key = "".join(text.split())
        if key and key != "".join(present.split()) and (key not in found or found[key].rank > rank):
            found[key] = Candidate(text, rank, why)

    wanted = view.values.get("ldm")
    array = origin(model, base)
    for variable, extra in ((base, 0.0), (array, 0.01)):
        if variable is None:
            continue
        if variable.pitch is not None:
            offer(variable.pitch.text, 0.02 + extra, f"the pitch of {variable.name}")
        elif variable.dims:
            inside = factors(model, variable.dims[-1])
            for position, factor in enumerate(reversed(inside) if len(inside) > 1 else ()):
                offer(_open(factor.text), 0.05 + 0.03 * position + extra, f"in the extent of {variable.name}")
    for text, count in strides_of(model, {v.name for v in (base, array) if v is not None}).items():
        if _usable(model, text, offset):
            offer(text, 0.08 if count > 1 else 0.1, "a stride used with the same array")
    for variable in view.integers(offset):
        if variable.kind != "loop" and (variable.const or variable.kind == "parameter"):
            value = view.number(variable.name)
            if value is None or value >= 8:
                offer(variable.name, 0.22 if variable.kind == "parameter" else 0.26, "in scope")
    for name, value in model.constants.items():
        if value >= 8 and value == value // 1 and value < 1 << 20 and _usable(model, name, offset) and name[:2] != "__":
            offer(name, 0.26, "in scope")
    scope, qualified, _ = present.rpartition("::")
    if qualified:  # another member of the same class or namespace
        for index in range(len(model.tokens) - 2):
            if model.tokens[index].text == scope and model.tokens[index + 1].text == "::":
                offer(f"{scope}::{model.tokens[index + 2].text}", 0.15, "of the same class")
    number = _number(view, present)
    for step in (8, 16, -8, -16):
        if number is None or number + step > 0:
            offer(f"{_sum(present)} {'+' if step > 0 else '-'} {abs(step)}", 0.32, "padding")
    offer(f"2 * {_product(present)}", 0.4, "twice")
    offer(f"{_product(present)} / 2", 0.4, "half")
    if wanted is not None:
        if number != wanted:
            offer(str(int(wanted)), 0.012, _SHOWN)
        known = [(c, _number(view, c.text)) for c in found.values()]
        return sorted(
            (
                Candidate(
                    c.text,
                    c.rank / 30
                    if v == wanted and c.why != _SHOWN
                    else c.rank + 0.25 * (v is not None and c.why != _SHOWN),
                    c.why,
                )
                for c, v in known
            ),
            key=lambda c: c.rank,
        )
    return sorted(found.values(), key=lambda c: c.rank)


_SHOWN = "the distance that memory shows"


def strides_of(model: SourceModel, names: set[str]) -> dict[str, int]:
    """Factors, and leading dimensions, in addresses that start at one of these arrays, with how often they occur; also
    in how far pointers of these names are moved."""
    found: dict[str, int] = {}
    if not names:
        return found
    pieces = [s.indices[0] for s in model.subscripts if s.name in names and len(s.indices) == 1]
    for call in model.wmma_calls:
        pointer, ldm = memory_arguments(call.name, call.arguments)
        if pointer is None or ldm is None:
            continue
        base = base_of(model, pointer)
        source = origin(model, base)
        if (base is not None and base.name in names) or (source is not None and source.name in names):
            found[ldm.text] = found.get(ldm.text, 0) + 1
            pieces.append(pointer)
    for variable in model.variables:
        if variable.pointer and variable.name in names and variable.initial is not None:
            pieces.append(variable.initial)
    pieces += (one.value for one in model.assignments if one.target.text in names)
    for piece in pieces:
        for term in terms(model, piece):
            parts = factors(model, term)
            for part in parts if len(parts) > 1 else ():
                if part.last - part.first == 1 and model.tokens[part.first].kind in _VALUES:
                    found[part.text] = found.get(part.text, 0) + 1
        for text in _taken_apart(model, piece):
            found[text] = found.get(text, 0) + 1
    return found


def _taken_apart(model: SourceModel, piece: Span) -> set[str]:
    """What an index that is one loop's variable is divided by in that loop: of `r = i / D, c = i % D`, D."""
    variable = model.variable(piece.text, piece.start) if piece.last - piece.first == 1 else None
    if variable is None or variable.kind != "loop":
        return set()
    tokens = model.tokens
    inside = range(model.token_at(variable.visible[0]), model.token_at(variable.visible[1]) - 2)
    return {
        tokens[at + 2].text
        for at in inside
        if tokens[at].text == piece.text
        and tokens[at + 1].text in ("/", "%")
        and tokens[at + 2].kind in _VALUES
        and tokens[at + 3].text not in (".", "(", "::", "->", "[")
    }


def memory_arguments(name: str, arguments: tuple[Span, ...]) -> tuple[Span | None, Span | None]:
    """Pointer and leading dimension of a WMMA load or store."""
    if name == "load_matrix_sync" and len(arguments) >= 3:
        return arguments[1], arguments[2]
    if name == "store_matrix_sync" and len(arguments) >= 3:
        return arguments[0], arguments[2]
    return None, None


def _usable(model: SourceModel, text: str, offset: int) -> bool:
    """Whether an expression is one name that means a constant number at an offset, or a literal of at least 8."""
    if text.isdecimal():
        return int(text) >= 8
    variable = model.variable(text, offset)
    if variable is None:
        return text in model.constants and not any(v.name == text for v in model.variables)
    if not is_integer(variable) or variable.pointer or variable.dims or variable.kind == "loop":
        return False
    made = "Idx" if variable.initial is None else variable.initial.text
    return variable.kind == "parameter" or text in model.constants or (variable.const and "Idx" not in made)


def _number(view: View, text: str) -> float | None:
    from wmmadiag.compile.lexer import tokenize
    from wmmadiag.diagnose.source.evaluate import evaluate
    from wmmadiag.diagnose.source.tokens import join

    return evaluate(join(tokenize(text), 0), view.number)


def _open(text: str) -> str:
    """`(D + 8)` as `D + 8`."""
    stripped = text.strip()
    if stripped.startswith("(") and stripped.endswith(")") and stripped.count("(") == 1:
        return stripped[1:-1].strip()
    return stripped


def _sum(text: str) -> str:
    return f"({text})" if any(mark in text for mark in "?|&<>=") else text.strip()


def _product(text: str) -> str:
    stripped = text.strip()
    return stripped if stripped.replace("_", "a").isalnum() else f"({stripped})"
