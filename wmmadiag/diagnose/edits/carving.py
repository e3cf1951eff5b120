"""Where an array starts that is carved out of a buffer behind another one: behind all of its rows, with their padding.

Bad:
    half* sK = sQ + QUERIES * D;             // rows of sQ are LD elements apart

Good:
    half* sK = sQ + QUERIES * LD;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, factors, pitches, strides_of, terms
from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import Number, SourceModel, Span, Variable

_KIND = "carving"
_FAULTS = ("index-arithmetic", "leading-dimension", "write-conflict", "shared-memory-limit")
START, FIRST, REACH = "carved-start", "carved-first", "carved-reach"
"""Numbers of a claim: where the later array starts, where the earlier one, and how far accesses to it go, in bytes."""
_DEPTH = 4


@generator(_KIND, *_FAULTS, needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """Factors of the offsets with which pointers on wanted lines are made."""
    model = view.model
    for pointer in model.variables:
        if not pointer.pointer or pointer.kind != "local" or pointer.initial is None or not view.wanted(pointer.start):
            continue
        base = base_of(model, pointer.initial)
        if base is None or base is pointer:
            continue
        earlier = _carved_before(model, pointer)
        offset = _offset(model, pointer.initial, base)
        for term in offset:
            for factor in (one for one in factors(model, term) if not one.text.startswith("sizeof")):
                yield from _other(view, pointer, base, earlier or [base], offset, factor)


def _other(
    view: View, pointer: Variable, base: Variable, earlier: list[Variable], offset: list[Span], factor: Span
) -> Iterator[Edit]:
    model = view.model
    found: dict[str, float] = {}
    here = [part.text for term in offset for part in factors(model, term)]  # of `&base[n * m]` no sign of a stride
    used = {one.name: strides_of(model, {one.name}) for one in earlier}
    strides = {
        text
        for name, one in used.items()
        for text, times in one.items()
        if times > (name == base.name) * here.count(text)
    }
    old = _value(view, factor, _DEPTH)
    if old is not None and factor.text.isdigit():
        found[str(2 * int(old))] = 0.03
    elif factor.last - factor.first == 1 or model.tokens[factor.first].text == "(":
        found[f"2 * {bracketed(factor.text)}"] = 0.1
    for one in earlier:
        for candidate in pitches(view, one, pointer.start, factor.text):
            found.setdefault(candidate.text, candidate.rank)
    for text, rank in found.items():
        ratio = None
        new = _value_of(view, text, pointer.start)
        if old and new is not None:
            ratio = new / old
        fits = _fits(view, base, offset, factor, ratio)
        if fits is None or fits >= 0:
            summary = f"{pointer.name} starts {text} in place of {factor.text} behind {base.name}"
            change = replaced(factor, bracketed(text) if text != factor.text else text)
            likely = 0.2 + rank / 2 if fits is None else rank / 4 + 0.1 * min(fits, 1.0)
            if text in strides and factor.text not in strides:  # what rows are apart comes before how many there are
                likely = 0.05 if factor.text.isdigit() else 0.01
            if START not in view.values:  # nothing was seen of two arrays that overlap
                likely += 0.12
            yield from view.offer(_KIND, _FAULTS, pointer.line, summary, (change,), likely)


def _fits(view: View, base: Variable, offset: list[Span], factor: Span, ratio: float | None) -> float | None:
    """How much more room than needed there is with a factor so many times as large, as a share; None: not known."""
    start, first, reach = (view.values.get(name) for name in (START, FIRST, REACH))
    if start is None or first is None or reach is None or ratio is None:
        return None
    own = next(term for term in offset if term.start <= factor.start < term.end)
    share = 1.0
    if len(offset) > 1:
        values = [_value(view, term, _DEPTH) for term in offset]
        whole = sum(value for value in values if value is not None)
        part = _value(view, own, _DEPTH)
        if None in values or part is None or not whole:
            return None
        share = part / whole
    begin = 0 if base.dims or base.external else first
    distance = (start - begin) * (1 + share * (ratio - 1))
    need = first + reach - begin
    return (distance - need) / max(need, 1)


def _carved_before(model: SourceModel, pointer: Variable) -> list[Variable]:
    """The pointer that this one is made of, or else the local pointers that are declared before it, the last first."""
    made_of = base_of(model, pointer.initial) if pointer.initial is not None else None
    if made_of is not None and not (made_of.dims or made_of.external):
        return [made_of]
    before = [v for v in model.variables if v.pointer and v.kind == "local" and v.visible[0] < pointer.start]
    return before[::-1][:2]


def _offset(model: SourceModel, initial: Span, base: Variable) -> list[Span]:
    """The terms that are added to a base: of `(float*)(base + n * m + k)` these two, of `&base[n]` the index."""
    at = next((i for i in range(initial.first, initial.last) if model.tokens[i].text == base.name), -1)
    if at < 0:
        return []
    if at + 1 < initial.last and model.tokens[at + 1].text == "[" and model.match[at + 1] > at:
        return terms(model, model.span(at + 2, model.match[at + 1]))
    first, last = at, at + 1
    while True:
        opened = next(
            (i for i in range(first - 1, initial.first - 1, -1)
             if model.tokens[i].text == "(" and model.match[i] >= last), -1,
        )  # fmt: skip
        inside = model.span(opened + 1, model.match[opened]) if opened >= 0 else initial
        found = [term for term in terms(model, inside) if not term.first <= at < term.last]
        if found or opened < 0:
            return found
        first, last = opened, model.match[opened] + 1


def _value(view: View, piece: Span, depth: int) -> Number | None:
    """The value of an expression in a case, through the initialisers of local constants."""

    def lookup(name: str) -> Number | None:
        known = view.number(name)
        variable = view.model.variable(name, piece.start) if known is None and depth > 0 else None
        if variable is None or variable.initial is None or variable.pointer or variable.dims:
            return known
        return _value(view, variable.initial, depth - 1)

    return evaluate(view.model.tokens[piece.first : piece.last], lookup)


def _value_of(view: View, text: str, offset: int) -> Number | None:
    """The value of a candidate: a number, or a name at an offset."""
    if text.isdigit():
        return int(text)
    known = view.number(text)
    variable = view.model.variable(text, offset) if known is None else None
    if variable is not None and variable.initial is not None and not variable.pointer and not variable.dims:
        return _value(view, variable.initial, _DEPTH)
    return known
