"""Read and write memory as the type that it holds; keep sums in float.

Bad:
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc;       // overflows, loses small terms

Good:
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of
from wmmadiag.diagnose.source.model import Fragment, SourceModel, Span

_KIND = "element-types"
_ELEMENT, _HALF, _PRECISION = "element-type", "half-accumulation", "p-precision"
_HALVES = frozenset({"half", "__half", "__nv_bfloat16", "nv_bfloat16", "half_t"})
_BYTES = {
    "signed char": 1, "unsigned char": 1, "char": 1, "int8_t": 1, "uint8_t": 1,
    "half": 2, "__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2,
}  # fmt: skip
_CASTS = frozenset({"reinterpret_cast", "static_cast"})


@generator(_KIND, _ELEMENT, _HALF, _PRECISION, "illegal-shape", "alignment")
def generate(view: View) -> Iterator[Edit]:
    """Types in pointer casts, of accumulators with all that they touch, and of running sums."""
    yield from _casts(view)
    yield from _accumulators(view)
    yield from _sums(view)
    yield from _operands(view)
    yield from _everywhere(view)


def _casts(view: View) -> Iterator[Edit]:
    model = view.model
    elements = {"float", "half"} | {v.element for v in model.variables if v.pointer or v.dims}
    elements = {e for e in elements if re.fullmatch(r"[\w:]+( \w+)?", e) and e not in ("auto", "void", "const")}
    for index, token in enumerate(model.tokens):
        if token.text not in _CASTS and token.text != "(":
            continue
        if not view.wanted(token.offset, token.end) or index + 3 >= len(model.tokens):
            continue
        closer = ">" if token.text in _CASTS else ")"
        first = index + 2 if token.text in _CASTS else index + 1
        last = first
        while last < min(first + 8, len(model.tokens)) and model.tokens[last].text != closer:
            last += 1
        inside = model.tokens[first:last]
        if not inside or inside[-1].text != "*" or any(t.kind != "id" and t.text not in ("*", "::") for t in inside):
            continue
        core = [t for t in inside if t.kind == "id" and t.text != "const"]
        if not core:
            continue
        piece = model.span(model.token_at(core[0].offset), model.token_at(core[-1].offset) + 1)
        value_used = index > 0 and model.tokens[index - 1].text == "*"
        if value_used and piece.text in _NARROWER:  # `*reinterpret_cast<uint4*>(p) = x`: x has that type, too
            continue
        for other in sorted(elements):
            if other != piece.text:
                summary = f"as {other} in place of {piece.text}"
                yield from view.offer(
                    _KIND, (_ELEMENT, "alignment"), token.line, summary, (replaced(piece, other),), 0.08
                )
        for narrower in _NARROWER.get(piece.text, ()):
            summary = f"as {narrower} in place of {piece.text}"
            yield Edit(_KIND, "alignment", token.line, summary, (replaced(piece, narrower),), 0.1)


# Vector types by size: CUDA C++ Programming Guide, "Built-in Vector Types".
_NARROWER = {
    "uint4": ("uint2", "unsigned"), "int4": ("int2", "int"), "float4": ("float2", "float"), "uint2": ("unsigned",),
    "int2": ("int",), "float2": ("float",), "half2": ("half",), "__half2": ("__half",),
}  # fmt: skip


def _accumulators(view: View) -> Iterator[Edit]:
    """A half accumulator made float: its element, its fill, and the arrays that it is stored to."""
    model = view.model
    for fragment in model.fragments:
        if fragment.use != "accumulator" or fragment.element_at is None:
            continue
        uses = [c for c in model.wmma_calls if any(_first(model, a.first) == fragment.name for a in c.arguments)]
        uses = [c for c in uses if fragment.visible[0] <= c.start < fragment.visible[1]]
        at = fragment.element_at
        near = view.wanted(fragment.start, fragment.end) or view.wanted(at.start, at.end)
        near = near or any(view.wanted(c.start, c.end) for c in uses)
        if not near:
            continue
        if fragment.element not in _HALVES and _resolved(model, fragment.element) not in _HALVES:
            continue
        other = "float"
        changes = [replaced(at, other)]
        line = (
            fragment.line
            if view.wanted(fragment.start, fragment.end)
            else next((c.line for c in uses if view.wanted(c.start, c.end)), fragment.line)
        )
        faults, rank = (_HALF, _ELEMENT), 0.05
        yield from view.offer(_KIND, faults, line, f"accumulate in {other}", changes, rank)
        whole = [*changes, *_fills(model, fragment)]
        whole += [c for c in _arrays(model, fragment, other) if all(c.start != d.start for d in whole)]
        if len(whole) > 1:
            yield from view.offer(_KIND, faults, line, f"accumulate and keep tiles in {other}", whole, rank - 0.01)


def _operands(view: View) -> Iterator[Edit]:
    """The element of a matrix fragment made that of the memory it is loaded from, or of another matrix fragment."""
    model = view.model
    operands = [one for one in model.fragments if one.use in ("matrix_a", "matrix_b") and one.element_at is not None]
    for fragment in operands:
        at = fragment.element_at
        if at is None or not (view.wanted(fragment.start, fragment.end) or view.wanted(at.start, at.end)):
            continue
        found: dict[str, float] = {}
        for call in model.wmma_calls:
            if call.name == "load_matrix_sync" and _first(model, call.arguments[0].first) == fragment.name:
                base = base_of(model, call.arguments[1])
                if base is not None:
                    found.setdefault(base.element, 0.02)
        found |= {one.element: 0.04 for one in operands if one.element not in found}
        for element, rank in found.items():
            if element != fragment.element and re.fullmatch(r"\w+(?: \w+)?", element):
                summary = f"declare {fragment.name} of {element}"
                line = fragment.line if view.line_wanted(fragment.line) else model.line_of(at.start)
                yield from view.offer(_KIND, ("illegal-shape", _ELEMENT), line, summary, (replaced(at, element),), rank)


def _everywhere(view: View) -> Iterator[Edit]:
    """All matrix fragments and casts of one element type made of the type that the arrays in memory have."""
    model = view.model
    written: dict[str, list[Span]] = {}
    for fragment in model.fragments:
        if fragment.use != "accumulator" and fragment.element_at is not None:
            written.setdefault(fragment.element, []).append(fragment.element_at)
    held = {v.element for v in model.variables if v.pointer or v.dims}
    for element, places in written.items():
        words = element.split()
        for at in range(len(model.tokens) - len(words)):
            ends = at + len(words)
            cast = model.tokens[at - 1].text in ("(", "<", "const") and model.tokens[ends].text == "*"
            if cast and [t.text for t in model.tokens[at:ends]] == words and model.tokens[ends + 1].text in (")", ">"):
                places.append(model.span(at, ends))
        distinct = {place.start: place for place in places}
        if not any(view.wanted(place.start, place.end) for place in distinct.values()):
            continue
        for other in sorted(held - {element}):
            if _BYTES.get(other) is None or _BYTES.get(other) != _BYTES.get(element):
                continue
            changes = tuple(replaced(place, other) for place in distinct.values())
            line = next(place.line for place in distinct.values() if view.wanted(place.start, place.end))
            yield from view.offer(_KIND, (_ELEMENT,), line, f"read {other} in place of {element}", changes, 0.03)


def _first(model: SourceModel, index: int) -> str:
    return model.tokens[index].text if index < len(model.tokens) else ""


def _resolved(model: SourceModel, name: str) -> str:
    for _ in range(4):
        name = model.aliases.get(name, name)
    return name


def _fills(model: SourceModel, fragment: Fragment) -> list[Change]:
    return [
        replaced(call.arguments[1], "0.0f")
        for call in model.wmma_calls
        if call.name == "fill_fragment"
        and len(call.arguments) > 1
        and _first(model, call.arguments[0].first) == fragment.name
    ]


def _arrays(model: SourceModel, fragment: Fragment, other: str) -> list[Change]:
    """The element type of the shared arrays that the accumulator is stored to or loaded from."""
    found = []
    for call in model.wmma_calls:
        position = {"store_matrix_sync": (0, 1), "load_matrix_sync": (1, 0)}.get(call.name)
        if (
            position is None
            or len(call.arguments) < 4
            or _first(model, call.arguments[position[1]].first) != fragment.name
        ):
            continue
        for index in range(call.arguments[position[0]].first, call.arguments[position[0]].last):
            variable = model.variable(_first(model, index), call.start)
            if variable is not None and variable.shared and variable.dims:
                first = model.token_at(variable.start)
                for at in range(first, model.token_at(variable.name_at)):
                    if model.tokens[at].text == variable.element and variable.element != other:
                        found.append(replaced(model.tokens[at], other))
                break
    return list({c.start: c for c in found}.values())


def _sums(view: View) -> Iterator[Edit]:
    """A running value kept in half, or rounded to half and back before it is used."""
    model = view.model
    for variable in model.variables:
        if variable.element not in _HALVES or variable.pointer or variable.kind != "local" or variable.shared:
            continue
        if any(f.start == variable.start for f in model.fragments):
            continue
        updated = [a for a in model.assignments if _first(model, a.target.first) == variable.name]
        if view.wanted(variable.start, variable.end) or any(view.wanted(a.target.start, a.value.end) for a in updated):
            for at in range(model.token_at(variable.start), model.token_at(variable.name_at)):
                if model.tokens[at].text == variable.element:
                    change = replaced(model.tokens[at], "float")
                    summary = f"keep {variable.name} in float"
                    yield from view.offer(_KIND, (_HALF, _PRECISION), variable.line, summary, (change,), 0.08)
    for call in model.calls:
        if call.name != "__half2float" or not view.wanted(call.start, call.end) or len(call.arguments) != 1:
            continue
        inner = call.arguments[0]
        if model.tokens[inner.first].text.startswith("__float2half") and model.text[inner.end - 1] == ")":
            value = model.span(inner.first + 2, inner.last - 1)
            change = Change(call.start, call.end, f"({value.text})")
            yield Edit(_KIND, _PRECISION, call.line, "without rounding to half", (change,), 0.05)
