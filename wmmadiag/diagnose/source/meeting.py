"""Where in a source a barrier would come between accesses that need one, and which exits keep threads from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.edits.barriers import varies
from wmmadiag.diagnose.source.model import Function, SourceModel
from wmmadiag.place import Place


def early_exits(model: SourceModel, line: int) -> tuple[int, ...]:
    """Lines of the `return`s before a line of its function that some threads of a block take and others do not.

    The nearest first.
    """
    function = _function_at(model, line)
    found = []
    for index, statement in enumerate(model.statements):
        if statement.kind != "return" or statement.line >= line:
            continue
        if function is None or model.function_at(statement.start) is not function:
            continue
        guards = (model.statements[at].condition for at in model.enclosing(index) if model.statements[at].kind == "if")
        if any(guard is not None and varies(model, guard) for guard in guards):
            found.append(statement.line)
    return tuple(reversed(found))


def given_by_thread(model: SourceModel, line: int) -> int:
    """Where the nearest variable is declared that a line reads and that differs between threads; 0 without one."""
    found = []
    for token in model.tokens:
        if token.line != line or token.kind != "id":
            continue
        variable = model.variable(token.text, token.offset)
        made = variable.initial if variable is not None and variable.kind in ("local", "loop") else None
        if variable is not None and made is not None and variable.line < line and varies(model, made):
            found.append(variable.line)
    return max(found, default=0)


def meeting_lines(model: SourceModel, pairs: Sequence[tuple[Place, Place]]) -> tuple[int, ...]:
    """Lines at which a barrier would come between pairs of accesses, those that separate most pairs first.

    Looked at are the statements around the later access that do not hold the earlier one: a barrier before the outer
    ones runs rarely, before the inner ones for each element. A warp's barrier between the two counts where it stands.

    Args:
        pairs: of lines that access the same memory unordered.
    """
    found: Counter[int] = Counter()
    first: dict[int, int] = {}
    for one, other in pairs:
        own: set[int] = set()
        for line in _between(model, one, other):
            first.setdefault(line, len(first))
            own.add(line)
        found.update(own)
    return tuple(sorted(found, key=lambda line: (-found[line], first[line])))


def _between(model: SourceModel, one: Place, other: Place) -> Iterator[int]:
    for a in _frames(model, one):
        for b in _frames(model, other):
            if _function_at(model, a) is not _function_at(model, b) or a == b:
                continue
            low, high = sorted((a, b))
            for barrier in model.barriers:
                if barrier.kind == "warp" and low < barrier.line < high:
                    yield barrier.line
            around = [model.statements[at] for at in reversed(_around(model, high))]
            for statement in around:
                if statement.kind != "block" and low < statement.line <= high:
                    yield statement.line


def _around(model: SourceModel, line: int) -> list[int]:
    """The statements that hold the first one of a line, innermost first, itself included."""
    index = next((at for at, s in enumerate(model.statements) if s.kind != "block" and s.line == line), -1)
    if index < 0:
        return []
    return [index, *model.enclosing(index)]


def _frames(model: SourceModel, place: Place) -> list[int]:
    return [frame.line for frame in place.frames() if _function_at(model, frame.line) is not None]


def _function_at(model: SourceModel, line: int) -> Function | None:
    """The function that holds a line."""
    if not 1 <= line <= len(model.line_starts):
        return None
    return next((f for f in model.functions if f.line <= line <= model.line_of(f.end)), None)
