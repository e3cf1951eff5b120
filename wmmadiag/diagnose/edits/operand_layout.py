"""Read a tile the other way round: swap row_major and col_major, or the index order where the tile is staged.

Bad:
    tile[key * LD + d] = k[key * D + d];                                // staged [key][d]
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> kt;   // reads [d][key]

Good:
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kt;   // K transposed, as it lies
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, exchanged, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, factors, memory_arguments, pitches, terms
from wmmadiag.diagnose.source.model import Call, Fragment, SourceModel, Span

_KIND = "operand-layout"
_BOTH = ("operand-layout", "index-arithmetic")
_OTHER = {
    "row_major": "col_major",
    "col_major": "row_major",
    "mem_row_major": "mem_col_major",
    "mem_col_major": "mem_row_major",
}


@generator(_KIND, "operand-layout", "index-arithmetic")
def generate(view: View) -> Iterator[Edit]:
    """Layouts of fragments and of stores, alone and with the leading dimension; index orders; tile offsets."""
    yield from _fragments(view)
    yield from _memory_layouts(view)
    yield from _index_order(view)


def _fragments(view: View) -> Iterator[Edit]:
    model = view.model
    for fragment in model.fragments:
        loads = [c for c in model.wmma_calls if c.name == "load_matrix_sync" and _loads(model, c, fragment)]
        touched = [c for c in loads if view.wanted(c.start, c.end)]
        uses = [c for c in model.wmma_calls if c.name == "mma_sync" and _uses(model, c, fragment)]
        touched_use = any(view.wanted(c.start, c.end) for c in uses)
        here = view.wanted(fragment.start, fragment.end) or (
            fragment.layout_at is not None and view.wanted(fragment.layout_at.start, fragment.layout_at.end)
        )
        change = _swap_layout(model, fragment)
        if change is None or not (touched or here or touched_use):
            continue
        line = fragment.line if here or not touched else touched[0].line
        if touched_use and not here and not touched:
            line = next(c.line for c in uses if view.wanted(c.start, c.end))
        rank = 0.06 if fragment.use == "matrix_b" else 0.1
        other = _OTHER[fragment.layout]
        yield Edit(_KIND, "operand-layout", line, f"declare {fragment.name} {other}", (change,), rank)
        for load in loads:
            pointer, ldm = memory_arguments(load.name, load.arguments)
            if pointer is None or ldm is None:
                continue
            for one in pitches(view, base_of(model, pointer), load.start, ldm.text)[:3]:
                summary = f"declare {fragment.name} {other}, with {one.text} as the leading dimension"
                changes = (change, replaced(ldm, one.text))
                yield Edit(_KIND, "operand-layout", line, summary, changes, rank + 0.1 + one.rank / 2)
            for turned, what in _transposed_pointer(model, pointer):
                summary = f"declare {fragment.name} {other} and {what}"
                yield Edit(_KIND, "operand-layout", line, summary, (change, *turned), rank + 0.08)


def _loads(model: SourceModel, call: Call, fragment: Fragment) -> bool:
    return bool(call.arguments) and _named(model, call.arguments[0]) == fragment.name and _in_scope(call, fragment)


def _uses(model: SourceModel, call: Call, fragment: Fragment) -> bool:
    return _in_scope(call, fragment) and any(_named(model, a) == fragment.name for a in call.arguments[1:3])


def _in_scope(call: Call, fragment: Fragment) -> bool:
    return fragment.visible[0] <= call.start < fragment.visible[1]


def _named(model: SourceModel, piece: Span) -> str:
    return model.tokens[piece.first].text if piece else ""


def _swap_layout(model: SourceModel, fragment: Fragment) -> Change | None:
    """Change the layout where it is written, or, where other fragments share that alias, in this declaration alone."""
    if fragment.layout not in _OTHER or fragment.layout_at is None:
        return None
    at = fragment.layout_at
    shared = [f for f in model.fragments if f.layout_at is not None and f.layout_at.start == at.start]
    text = at.text[: len(at.text) - len(fragment.layout)] + _OTHER[fragment.layout]
    if len({(f.name, f.start) for f in shared}) < 2 or fragment.start <= at.start < fragment.end:
        return replaced(at, text)
    first = model.token_at(fragment.start)
    while first < len(model.tokens) and model.tokens[first].text in ("const", "static"):
        first += 1
    last = first
    while last < len(model.tokens) and not (model.tokens[last].text == fragment.name and last > first):
        last += 1
    scope = at.text[: len(at.text) - len(fragment.layout)]
    use = f"{scope}{fragment.use}, {', '.join(fragment.shape)}, {fragment.element}, {text}"
    written = model.span(first, last)
    if fragment.element in ("typename",) or not written:
        return None
    return replaced(written, f"{scope}fragment<{use}>")


def _transposed_pointer(model: SourceModel, pointer: Span) -> Iterator[tuple[tuple[Change, ...], str]]:
    """`base + r * P + c` as `base + c * P + r`, and `&base[r][c]` as `&base[c][r]`."""
    for subscript in model.subscripts:
        if pointer.start <= subscript.start and subscript.end <= pointer.end:
            for changes in _turned_subscript(model, subscript.indices):
                yield changes, f"take the tile at {subscript.name}'s transposed place"
            return
    for changes in _turned_sum(model, pointer):
        yield changes, "take the tile at the transposed place"


def _memory_layouts(view: View) -> Iterator[Edit]:
    model = view.model
    for call in model.wmma_calls:
        if len(call.arguments) != 4 or not view.wanted(call.start, call.end):
            continue
        at = call.arguments[3]
        name = at.text.split("::")[-1].strip()
        if name not in _OTHER:
            continue
        change = replaced(at, at.text[: at.text.rindex(name)] + _OTHER[name])
        verb = "store" if call.name == "store_matrix_sync" else "load"
        yield Edit(_KIND, "operand-layout", at.line, f"{verb} as {_OTHER[name]}", (change,), 0.09)
        pointer, ldm = memory_arguments(call.name, call.arguments)
        if pointer is None or ldm is None:
            continue
        for one in pitches(view, base_of(model, pointer), call.start, ldm.text)[:3]:
            summary = f"{verb} as {_OTHER[name]}, with {one.text} as the leading dimension"
            changes = (change, replaced(ldm, one.text))
            yield Edit(_KIND, "operand-layout", at.line, summary, changes, 0.2 + one.rank / 2)


def _index_order(view: View) -> Iterator[Edit]:
    model = view.model
    for subscript in model.subscripts:
        if not view.wanted(subscript.start, subscript.end):
            continue
        for position, changes in enumerate(_turned_subscript(model, subscript.indices)):
            summary = f"exchange the indices of {subscript.name or 'the array'}"
            yield from view.offer(_KIND, _BOTH, subscript.line, summary, changes, 0.16 + 0.04 * position)
        if len(subscript.indices) == 1:
            yield from _with_pitch(view, subscript.indices[0], subscript.name, subscript.start)
    for call in model.wmma_calls:
        pointer, _ = memory_arguments(call.name, call.arguments)
        if pointer is not None and view.wanted(call.start, call.end):
            for changes, what in _transposed_pointer(model, pointer):
                yield from view.offer(_KIND, _BOTH, call.line, what, changes, 0.17)


def _with_pitch(view: View, index: Span, name: str, offset: int) -> Iterator[Edit]:
    """`s[r * P + c]` as `s[c * Q + r]` where the transposed tile has another pitch."""
    model = view.model
    parts = _row_and_column(model, index)
    if parts is None:
        return
    row, stride, column = parts
    for one in pitches(view, model.variable(name, offset), offset, stride.text)[:3]:
        changes = (
            replaced(row, bracketed(column.text)),
            replaced(stride, bracketed(one.text)),
            replaced(column, row.text),
        )
        summary = f"exchange the indices of {name}, with rows of {one.text}"
        yield Edit(_KIND, "operand-layout", index.line, summary, changes, 0.26 + one.rank / 2)


def _turned_subscript(model: SourceModel, indices: tuple[Span, ...]) -> Iterator[tuple[Change, ...]]:
    if len(indices) >= 2:
        yield exchanged(indices[-2], indices[-1])
        if len(indices) > 2:
            yield exchanged(indices[-3], indices[-2])
    elif indices:
        yield from _turned_sum(model, indices[0])


def _turned_sum(model: SourceModel, piece: Span) -> Iterator[tuple[Change, ...]]:
    parts = _row_and_column(model, piece)
    if parts is not None:
        row, _, column = parts
        yield replaced(row, bracketed(column.text)), replaced(column, row.text)


def _row_and_column(model: SourceModel, piece: Span) -> tuple[Span, Span, Span] | None:
    """The r, P and c of `… + r * P + c`: the last product that is followed or preceded by a plain term."""
    found = terms(model, piece)
    pairs = [(index, factors(model, term)) for index, term in enumerate(found)]
    split = [(index, parts) for index, parts in pairs if len(parts) == 2]
    if not split or len(found) < 2:
        return None
    index, parts = split[0]
    others = [term for at, term in enumerate(found) if at != index]
    column = next((t for t in reversed(others) if not _is_base(model, t)), None)
    row, stride = parts
    if _steady(model, row) and not _steady(model, stride):
        row, stride = stride, row
    return None if column is None or same(row, column) else (row, stride, column)


def _is_base(model: SourceModel, term: Span) -> bool:
    variable = base_of(model, term)
    return variable is not None and model.tokens[term.last - 1].text != "]"


def _steady(model: SourceModel, factor: Span) -> bool:
    """Whether a factor never changes: it is the stride."""
    if factor.last - factor.first != 1:
        return False
    variable = model.variable(factor.text, factor.start)
    if variable is None:
        return True
    return variable.kind in ("parameter", "global") or factor.text in model.constants


def same(a: Span, b: Span) -> bool:
    """Whether two pieces are spelled the same."""
    return a.text == b.text
