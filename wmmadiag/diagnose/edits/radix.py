"""Take a flat index apart by divisors that fit each other: what one quotient is taken modulo, the next is divided by.

Bad:
    const int r = flat / (p.width * p.channels);
    const int s = flat / p.channels % p.channels;

Good:
    const int r = flat / (p.width * p.channels);
    const int s = flat / p.channels % p.width;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factor_after, factors
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "radix"
_FAULTS = ("index-arithmetic", "tensor-strides", "leading-dimension", "guard-condition", "card-mismatch")
_NEAR = 8
"""Lines within which an index is taken apart."""


@dataclass(frozen=True, slots=True)
class _Part:
    """`flat / divisor % modulus`; the modulus is None in `flat / divisor`."""

    flat: str
    divisor: Span
    modulus: Span | None
    line: int


@generator(_KIND, *_FAULTS, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Each divisor and modulus that does not fit those of another part of the same index."""
    model = view.model
    found = list(_parts(model))
    for one in found:
        for other in found:
            if one is other or one.flat != other.flat or abs(one.line - other.line) > _NEAR:
                continue
            own, whole = _factors(model, one.divisor), _factors(model, other.divisor)
            if one.modulus is None or own == whole:
                continue
            modulus = _factors(model, one.modulus)
            rest = whole - own
            # flat / (s * c) and flat / c % m: m is s.
            if not own - whole and rest != modulus:
                yield from _offer(view, one.modulus, rest, 0.01)
            product = own + modulus
            shared = (own & whole) or (modulus & whole)
            if shared and product != whole and other.modulus is None:
                yield from _offer(view, other.divisor, product, 0.03)


def _offer(view: View, piece: Span, wanted: Counter[str], rank: float) -> Iterator[Edit]:
    text = " * ".join(wanted.elements())
    if text and view.wanted(piece.start, piece.end):
        text = f"({text})" if sum(wanted.values()) > 1 else text
        summary = f"{text} in place of {piece.text}"
        yield from view.offer(_KIND, _FAULTS, piece.line, summary, (replaced(piece, text),), rank)


def _factors(model: SourceModel, piece: Span) -> Counter[str]:
    if model.tokens[piece.first].text == "(" and model.match[piece.first] == piece.last - 1:
        piece = model.span(piece.first + 1, piece.last - 1)
    return Counter("".join(part.text.split()) for part in factors(model, piece))


def _parts(model: SourceModel) -> Iterator[_Part]:
    for index in range(1, len(model.tokens) - 1):
        flat = model.tokens[index - 1]
        before = model.tokens[index - 2].text if index > 1 else ""
        if flat.kind != "id" or before in (".", "->", "::", "/", "%", "*") or model.tokens[index].text != "/":
            continue
        divisor = factor_after(model, index)
        if not divisor:
            continue
        modulus = None
        if divisor.last < len(model.tokens) and model.tokens[divisor.last].text == "%":
            modulus = factor_after(model, divisor.last)
        yield _Part(flat.text, divisor, modulus or None, flat.line)
