"""Align arrays as wmma and vector accesses need, and pad rows to multiples of what they need.

Bad:
    __shared__ half tile[16][70];

Good:
    __shared__ __align__(32) half tile[16][72];
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, fixed_shape, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, memory_arguments, origin
from wmmadiag.diagnose.source.model import Span, Variable

_KIND = "alignment"


@generator(_KIND, "alignment", "leading-dimension", "ldmatrix-address")
def generate(view: View) -> Iterator[Edit]:
    """Shared declarations on wanted lines, or whose array a wanted line uses; then padding constants."""
    model = view.model
    for array in _used(view):
        line = array.line
        if not view.wanted(array.start, array.end):
            line = next(iter(sorted(view.lines or {line})))
        at = model.token_at(array.start)
        shared = next((i for i in range(at, model.token_at(array.name_at)) if model.tokens[i].text == "__shared__"), -1)
        aligned = next(
            (i for i in range(at, model.token_at(array.name_at)) if model.tokens[i].text in ("__align__", "alignas")),
            -1,
        )
        for bytes_, rank in ((32, 0.04), (128, 0.06), (16, 0.1)):
            if aligned >= 0 and model.match[aligned + 1] > aligned:
                piece = model.span(aligned + 2, model.match[aligned + 1])
                value = view.value(piece)
                if value is not None and value >= bytes_:
                    continue
                change = replaced(piece, str(bytes_))
            elif shared >= 0:
                end = model.tokens[shared].end
                change = Change(end, end, f" __align__({bytes_})")
            else:
                continue
            yield Edit(_KIND, "alignment", line, f"align {array.name} to {bytes_} bytes", (change,), rank)
        if array.pitch is not None and not fixed_shape(model, array):
            yield from _padding(view, array.pitch, line, array.name)
    yield from _constants(view)
    yield from _pads(view)


def _used(view: View) -> Iterator[Variable]:
    """Shared arrays declared or used on wanted lines."""
    model = view.model
    if view.lines is None:
        yield from (v for v in model.arrays if v.shared)
        return
    names: set[str] = set()
    for index, token in enumerate(model.tokens):
        if token.kind == "id" and view.wanted(token.offset):
            variable = origin(model, model.variable(model.tokens[index].text, token.offset))
            if variable is not None:
                names.add(variable.name)
    for call in model.wmma_calls:
        pointer, _ = memory_arguments(call.name, call.arguments)
        if pointer is not None and view.wanted(call.start, call.end):
            base = origin(model, base_of(model, pointer))
            names |= {base.name} if base is not None else set()
    yield from (v for v in model.arrays if v.shared and v.name in names)


def _padding(view: View, piece: Span, line: int, name: str) -> Iterator[Edit]:
    """The next multiples of 8 and 16 of a row's length; no padding at all."""
    value = view.value(piece)
    if value is None:
        for text in (f"({piece.text} + 7) / 8 * 8", f"{bracketed(piece.text)} + 8"):
            yield Edit(_KIND, "alignment", line, f"rows of {name}: {text}", (replaced(piece, text),), 0.2)
        return
    number = int(value)
    for step in (8, 16):
        up = -(-number // step) * step
        for target, rank in ((up, 0.08), (up + step, 0.12)):
            if target != number:
                move = target - number
                text = (
                    f"{piece.text} {'+' if move > 0 else '-'} {abs(move)}" if not piece.text.isdigit() else str(target)
                )
                yield Edit(_KIND, "alignment", line, f"rows of {target} in {name}", (replaced(piece, text),), rank)


def _constants(view: View) -> Iterator[Edit]:
    """A constant that is a pitch: its padding made a multiple of 8 elements."""
    model = view.model
    used: dict[str, int] = {}
    for token in model.tokens if view.lines is not None else ():
        if token.kind == "id" and view.wanted(token.offset):
            used.setdefault(token.text, token.line)
    for variable in model.variables:
        initial = variable.initial
        here = view.wanted(variable.start, variable.end)
        if initial is None or not variable.const or not (here or variable.name in used):
            continue
        if any(v.name == variable.name for v in model.arrays):
            continue
        value = view.value(initial)
        if value is None or value != value // 1 or value < 4:
            continue
        yield from _padding(view, initial, variable.line if here else used[variable.name], variable.name)


_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*)$", re.MULTILINE)
_ADDEND = re.compile(r"(?:^|[+(])\s*(\d+)\s*(?=$|[+)])")
_STEPS = 3
_PADDED = 8  # elements: 16 bytes of half, 32 of float


def _pads(view: View) -> Iterator[Edit]:
    """Numbers that are added in constants, macros too, on which addresses of wanted lines depend: multiples of 8."""
    if view.lines is None:
        return
    model = view.model
    defined = {one[1]: (one.start(2), one[2].split("//")[0]) for one in _DEFINED.finditer(model.text)}
    for variable in model.variables:
        if variable.const and variable.initial is not None and not variable.pointer and not variable.dims:
            defined.setdefault(variable.name, (variable.initial.start, variable.initial.text))
    names: dict[str, int] = {}
    for token in model.tokens:
        if token.kind == "id" and view.wanted(token.offset):
            names.setdefault(token.text, token.line)
    for array in _used(view):
        line = next((names[name] for name in (array.name,) if name in names), array.line)
        for dim in array.dims:
            names |= {one: line for one in re.findall(r"[A-Za-z_]\w*", dim.text) if one not in names}
    reached, front = {}, names
    for step in range(_STEPS):
        following: dict[str, int] = {}
        for name, line in front.items():
            if name in defined and name not in reached:
                reached[name] = (line, step)
                found = re.findall(r"[A-Za-z_]\w*", defined[name][1])
                following |= {one: line for one in found if one not in reached}
        front = following
    for name, (line, step) in reached.items():
        start, text = defined[name]
        own = model.line_of(start)
        for addend in _ADDEND.finditer(text):
            number = int(addend[1])
            if number % _PADDED == 0:
                continue
            for more, rank in ((0, 0.02), (_PADDED, 0.06)):
                target = -(-number // _PADDED) * _PADDED + more
                change = Change(start + addend.start(1), start + addend.end(1), str(target))
                here = own if view.line_wanted(own) else line
                summary = f"{target} in place of {number} in {name}"
                yield Edit(_KIND, "alignment", here, summary, (change,), rank + 0.01 * step)
