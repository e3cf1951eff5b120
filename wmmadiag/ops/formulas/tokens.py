"""A formula's text as numbers, names and signs."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNICODE = {
    "·": " . ", "⋅": " . ", "×": "*", "∗": "*", "ᵀ": "^T", "²": "^2", "Σ": " sum ", "∑": " sum ", "√": "sqrt",
    "≤": "<=", "≥": ">=", "−": "-", "σ": "sigmoid", "∘": "*", "⊙": "*", "‖": "|", "⟨": "<", "⟩": ">", "∙": " . ",
}  # fmt: skip
_LIBRARY = re.compile(r"\b(?:torch\.nn\.functional|torch|nn\.functional|F|np|numpy|jnp|at)(?:\.|::)(?=[a-z])")
_TOKEN = re.compile(
    r"(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)f?(?![\w.])|(?P<count>\d+)(?=[A-Za-z])|(?P<name>[^\W\d]\w*)"
    r"|(?P<op>\+=|:=|<-|<=|>=|==|!=|\*\*|\.\.\.|\.\.|[-+*/@^.,;:=()\[\]{}|<>?%])|(?P<other>\S)"
)


@dataclass(frozen=True, slots=True)
class FormulaToken:
    """A number, a name or a sign, with where it stands."""

    kind: str
    text: str
    start: int
    end: int
    spaces: int  # before it


def normalised(text: str) -> str:
    """A text with the signs of formulas as ASCII has them, and without the names of libraries."""
    return _LIBRARY.sub("", "".join(_UNICODE.get(one, one) for one in text))


def tokens_of(text: str) -> list[FormulaToken]:
    """The tokens of a text that is `normalised`."""
    found, end = list[FormulaToken](), 0
    for one in _TOKEN.finditer(text):
        said = one[0].rstrip("f") if one["number"] else one[0]
        found.append(FormulaToken(str(one.lastgroup), said, one.start(), one.end(), one.start() - end))
        end = one.end()
    return found
