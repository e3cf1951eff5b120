"""The changes that make a reduction over threads complete: a first or last step more, or the steps of its sibling.

Bad:
    for (int o = 16; o > 0; o /= 2) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
    ...
    for (int o = 8; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);

Good:
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits import Change, Edit
from wmmadiag.diagnose.edits.building import after, anchor, replaced
from wmmadiag.diagnose.source.model import Assignment, Call, SourceModel, Span
from wmmadiag.diagnose.source.softmax import MAXIMA, SHUFFLES, Softmax, loop_of, plain, trees

_KIND = "whole-reduction"


def reduction_mends(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """Edits of the reductions of a softmax, the likeliest first."""
    loops = [loop_of(model, call) for call in model.calls if call.name in SHUFFLES]
    for loop in dict.fromkeys(index for index in (*loops, *trees(model)) if index >= 0):
        yield from _one_step_more(model, loop)
    yield from _as_its_sibling(model, parts)


def _edit(line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Edit:
    return Edit(_KIND, "reduction", line, summary, changes, rank)


def _one_step_more(model: SourceModel, loop: int) -> Iterator[Edit]:
    """Twice the first distance of a loop that halves it, twice the bound of one that doubles it; the last step, too."""
    head = model.statements[loop]
    if head.init is None or head.condition is None or head.step is None:
        return
    halves = ">>" in head.step.text or "/" in head.step.text
    bound = _behind(model, head.condition, ("<", ">", "<=", ">="))
    first = _behind(model, head.init, ("=",))
    whole = first is not None and first.text == "16" and any(loop_of(model, c) == loop for c in _shuffles(model))
    if halves and first is not None and not whole:
        yield _edit(head.line, f"begin with distance {_twice(first)}", (replaced(first, _twice(first)),), 0.0)
    if bound is not None and halves and bound.text in ("1", "2", "4"):
        yield _edit(head.line, "to the last step", (replaced(bound, "0"),), 0.001)
    if bound is not None and not halves:
        yield _edit(head.line, f"up to distance {_twice(bound)}", (replaced(bound, _twice(bound)),), 0.0)
    if first is not None and not halves and first.text in ("2", "4"):
        yield _edit(head.line, "begin with distance 1", (replaced(first, "1"),), 0.001)


def _shuffles(model: SourceModel) -> Iterator[Call]:
    return (call for call in model.calls if call.name in SHUFFLES)


def _behind(model: SourceModel, piece: Span, operators: tuple[str, ...]) -> Span | None:
    """What follows an operator of an expression."""
    at = next((i for i in range(piece.first, piece.last) if model.tokens[i].text in operators), -1)
    return model.span(at + 1, piece.last) if 0 <= at < piece.last - 1 else None


def _twice(piece: Span) -> str:
    return str(2 * int(piece.text)) if piece.text.isdigit() else f"2 * ({piece.text})"


def _as_its_sibling(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """What one statistic goes through, for another one that goes through none of it, or through fewer steps."""
    groups: dict[str, list[tuple[Assignment, Span]]] = {}
    for call in model.calls:
        one = next((a for a in model.assignments if a.value.start <= call.start < a.value.end), None)
        if call.name in SHUFFLES and one is not None and len(call.arguments) >= 3:
            groups.setdefault(plain(one.target.text), []).append((one, call.arguments[2]))
    statistics = [name for name in sorted(parts.sum_names | parts.maximum_names) if name.isidentifier()]
    for name, steps in groups.items():
        for other in statistics:
            known = {plain(offset.text) for _, offset in groups.get(other, ())}
            missing = [one for one, offset in steps if plain(offset.text) not in known]
            grouped = any(loop_of(model, c) >= 0 for c in model.calls if c.name in SHUFFLES)
            if other == name or not missing or (known and grouped):
                continue
            index = _last_update(model, other, groups.get(other, []))
            helper = model.function_at(steps[0][0].target.start)
            if index < 0 or model.function_at(model.statements[index].start) is not helper:
                continue
            adds = other in parts.sum_names
            code = "\n".join(dict.fromkeys(_rewritten(model, one, name, other, adds) for one in missing))
            change = after(model, index, code)
            if change is not None:
                summary = f"reduce {other} over the lanes that {name} is reduced over"
                yield _edit(_added_at(model, other), summary, (change,), 0.002)


def _last_update(model: SourceModel, name: str, steps: list[tuple[Assignment, Span]]) -> int:
    """The statement behind which a statistic of one thread is complete: the loop that gathers it, or its last step."""
    if steps:
        return steps[-1][0].statement
    own = [
        one
        for one in model.assignments
        if plain(one.target.text) == name and (one.operator.text == "+=" or any(m in one.value.text for m in MAXIMA))
    ]
    if not own:
        return -1
    variable = model.variable(name, own[0].target.start)
    index = own[0].statement
    for around in model.enclosing(index):  # out of the loops that the variable lives longer than
        if variable is None or not variable.visible[0] <= model.statements[around].start:
            break
        index = around
    while index >= 0 and anchor(model, index) != index:
        index = model.statements[index].parent
    return index


def _added_at(model: SourceModel, name: str) -> int:
    """The last line that gathers a statistic."""
    return max(one.line for one in model.assignments if plain(one.target.text) == name and one.operator.text != "*=")


def _rewritten(model: SourceModel, one: Assignment, name: str, other: str, adds: bool) -> str:
    """A step, or the loop of steps, for another variable, with its operator."""
    statement = one.statement
    loop = next(
        (i for i in model.enclosing(statement) if model.statements[i].loop and _counts_steps(model, i, one)), -1
    )
    shuffle = next(c for c in model.calls if c.name in SHUFFLES and one.value.start <= c.start < one.value.end)
    given = re.sub(rf"\b{re.escape(name)}\b", other, model.text[shuffle.start : shuffle.end])
    step = f"{other} += {given};" if adds else f"{other} = fmaxf({other}, {given});"
    if loop < 0:
        return step
    head = model.statements[loop]
    return f"{model.text[head.start : head.head_end]} {step}"


def _counts_steps(model: SourceModel, index: int, one: Assignment) -> bool:
    return any(
        loop_of(model, call) == index
        for call in model.calls
        if call.name in SHUFFLES and one.value.start <= call.start < one.value.end
    )
