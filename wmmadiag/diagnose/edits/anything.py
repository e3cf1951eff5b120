"""A last resort on named lines: change one operator, literal or identifier.

Bad:
    x = a - b;

Good:
    x = a + b;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import removed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import SourceModel, Token, Variable

_KIND = "anything"
_FAULTS = (
    "index-arithmetic", "loop-extent", "guard-condition", "operand-order", "row-statistic", "reduction",
    "normalisation",
    "softmax-scale", "rescale-missing", "causal-mask", "tail-masking", "tensor-strides", "stale-tile", "write-conflict",
    "fragment-map", "swizzle-mismatch", "ldmatrix-address", "out-of-bounds", "unwritten-output", "uninitialised-memory",
    "card-mismatch", "leading-dimension", "missing-barrier", "accumulator-init", "p-precision", "masked-row",
    "too-few-warps", "fragment-footprint", "exp-base", "half-accumulation", "tile-overwritten", "accumulator-reset",
    "epilogue", "score-terms",
)  # fmt: skip
_OPERATORS: dict[str, tuple[str, ...]] = {
    "+": ("-", "*"), "-": ("+",), "*": ("/", "+"), "/": ("*", "%"), "%": ("/",), "<": ("<=", ">"), "<=": ("<",),
    ">": (">=", "<"), ">=": (">",), "==": ("!=",), "!=": ("==",), "&&": ("||",), "||": ("&&",), "&": ("|", "^"),
    "|": ("&", "^"), "^": ("+", "&"), "<<": ("*",), "+=": ("=", "-="), "-=": ("+=",), "*=": ("/=", "="),
    "/=": ("*=",), "=": ("+=",),
}  # fmt: skip
_BEFORE_BINARY = frozenset({")", "]"})


@generator(_KIND, *_FAULTS, needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """Every operator, literal and name on the wanted lines, then statements taken out."""
    model = view.model
    for function in model.functions:
        body = model.statements[function.body]
        for index in range(body.first, body.last):
            token = model.tokens[index]
            if view.wanted(token.offset):
                yield from _token(view, index, token)
    for index, statement in enumerate(model.statements):
        if statement.kind == "expression" and view.wanted(statement.start, statement.end):
            gone = removed(model, index)
            if gone is not None:
                yield from _each(view, statement.line, f"without line {statement.line}", (gone,), 0.7)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _FAULTS, line, summary, changes, rank)


def _token(view: View, index: int, token: Token) -> Iterator[Edit]:
    model = view.model
    if token.kind == "punct" and token.text in _OPERATORS and _binary(model, index):
        for other in _OPERATORS[token.text]:
            summary = f"{other} in place of {token.text}"
            yield from _each(view, token.line, summary, (replaced(token, other),), 0.62)
    elif token.kind == "num" and token.text.isdigit():
        number = int(token.text)
        for value in sorted({number + 1, max(number - 1, 0), number * 2, number // 2, 0, 1} - {number}):
            summary = f"{value} in place of {number}"
            yield from _each(view, token.line, summary, (replaced(token, str(value)),), 0.66)
    elif token.kind == "id":
        present = model.variable(token.text, token.offset)
        before = model.tokens[index - 1].text if index else ""
        if present is None or present.name_at == token.offset or before in (".", "->", "::"):
            return
        for variable in model.visible(token.offset):
            if variable.name != token.text and _exchangeable(present, variable):
                summary = f"{variable.name} in place of {token.text}"
                yield from _each(view, token.line, summary, (replaced(token, variable.name),), 0.68)


def _binary(model: SourceModel, index: int) -> bool:
    if index == 0 or index + 1 >= len(model.tokens):
        return False
    before, following = model.tokens[index - 1], model.tokens[index + 1]
    if before.text in ("return", "const") or following.text in (">", ")", ",", ";", ">="):
        return False
    operand = before.kind in ("id", "num") or before.text in _BEFORE_BINARY
    adjacent = model.tokens[index].text in ("<", ">") and (
        before.text.endswith("_cast") or before.text in ("<", ">", "fragment") or following.text in ("<", ">", "(")
    )
    return operand and not adjacent


def _exchangeable(a: Variable, b: Variable) -> bool:
    same = a.element == b.element or {a.element, b.element} <= {"int", "unsigned", "size_t", "auto"}
    return same and a.pointer == b.pointer and len(a.dims) == len(b.dims)
