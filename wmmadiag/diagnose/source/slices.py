"""From a line to the lines that it depends on, by the source alone: definitions, stores, loops, conditions, callers.

Evidence names the line where something shows; the mistake often stands where an index or a bound was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from wmmadiag.diagnose.source.model import Call, Function, SourceModel, Statement

WRITE_FIRST = frozenset(
    {"load_matrix_sync", "fill_fragment", "mma_sync", "store_matrix_sync", "memcpy_async", "__pipeline_memcpy_async"}
)
"""Calls that write their first argument."""
_LOOPS = ("for", "while", "do")


class Slicer:
    """Dependences between the statements of one source."""

    def __init__(self, model: SourceModel) -> None:
        self._model = model

    def distances(self, lines: Iterable[int], depth: int = 3) -> dict[int, int]:
        """Line → how many dependences it is away from the given lines, up to `depth`."""
        found: dict[int, int] = {}
        front = [index for line in lines for index in self._at(line)]
        seen = set(front)
        for distance in range(depth + 1):
            following: list[int] = []
            for index in front:
                for line in self._own_lines(self._model.statements[index]):
                    found.setdefault(line, distance)
                if distance < depth:
                    following += [one for one in self._needs(index) if one not in seen]
                    seen.update(following)
            front = list(dict.fromkeys(following))
        return found

    def governing(self, line: int, depth: int = 3) -> frozenset[int]:
        """The heads of loops and conditions that decide whether and how often a line runs, and what these are made of.

        Callers count, too; what only says where the line reads or writes does not.
        """
        heads: list[int] = []
        front = self._at(line)
        while front:
            above = [
                one
                for index in front
                for one in (*self._model.enclosing(index), *self._callers_of(index))
                if one not in heads and one not in front
            ]
            front = list(dict.fromkeys(above))
            heads += front
        governing = [index for index in heads if self._model.statements[index].kind in ("if", "switch", *_LOOPS)]
        found = set(governing)
        for _ in range(depth):
            sources = [one for index in governing for one in self._made_of(index)]
            governing = [one for one in dict.fromkeys(sources) if one not in found and self._gives_value(one)]
            found.update(governing)
        return frozenset(line for index in found for line in self._own_lines(self._model.statements[index]))

    def _gives_value(self, index: int) -> bool:
        """Whether a statement is known to set a variable, as a call that may is not."""
        return self._model.statements[index].kind != "expression" or index in self._assigning

    @cached_property
    def _assigning(self) -> frozenset[int]:
        return frozenset(assignment.statement for assignment in self._model.assignments)

    def _callers_of(self, index: int) -> Iterator[int]:
        function = self._model.function_at(self._model.statements[index].start)
        if function is not None and not function.kernel:
            yield from self._callers(function)

    def _at(self, line: int) -> list[int]:
        """The statements whose own code is on a line."""
        return [
            index
            for index, statement in enumerate(self._model.statements)
            if statement.kind != "block" and line in self._own_lines(statement)
        ]

    def _own_lines(self, statement: Statement) -> range:
        """The lines of a simple statement, or of a compound one's head."""
        last = statement.last_line if statement.simple else self._model.line_of(max(statement.head_end - 1, 0))
        return range(statement.line, max(last, statement.line) + 1)

    def _needs(self, index: int) -> Iterator[int]:
        """The statements that one depends on directly."""
        model = self._model
        yield from (one for one in model.enclosing(index) if model.statements[one].kind != "block")
        yield from self._leaving(index)
        yield from self._made_of(index)
        yield from self._callers_of(index)
        yield from self._wrapped(index)

    def _leaving(self, index: int) -> Iterator[int]:
        """The conditions before a statement under which it is not reached: they return, continue or break."""
        model = self._model
        around = {model.statements[one].parent for one in (index, *model.enclosing(index))}
        for one in self._exits:
            if model.statements[one].parent in around and model.statements[one].end <= model.statements[index].start:
                yield one

    @cached_property
    def _exits(self) -> tuple[int, ...]:
        """Indices of the `if` statements that do nothing but leave."""
        model = self._model
        found = []
        for index, statement in enumerate(model.statements):
            if statement.kind != "if" or statement.body < 0 or statement.orelse >= 0:
                continue
            tokens = [t.text for t in model.tokens[model.statements[statement.body].first : statement.last]]
            if next((t for t in tokens if t != "{"), "") in ("return", "continue", "break"):
                found.append(index)
        return tuple(found)

    def _made_of(self, index: int) -> Iterator[int]:
        """The statements that give the variables in a statement, or in the head of one, their values."""
        model, statement = self._model, self._model.statements[index]
        end = statement.end if statement.simple else statement.head_end
        for token in model.tokens[statement.first : statement.last]:
            if token.offset >= end:
                break
            if token.kind == "id":
                yield from self._defines(token.text, token.offset)

    def _wrapped(self, index: int) -> Iterator[int]:
        """The inline assembly of the wrappers that a statement calls: what it multiplies or loads is written there."""
        model, statement = self._model, self._model.statements[index]
        end = statement.end if statement.simple else statement.head_end
        names = {call.name for call in model.calls if statement.start <= call.start < end}
        for function in model.functions:
            if function.name in names and not function.kernel:
                for inner in range(function.body, len(model.statements)):
                    one = model.statements[inner]
                    if one.start >= function.end:
                        break
                    if one.simple and model.tokens[one.first].text in ("asm", "__asm__"):
                        yield inner

    def _defines(self, name: str, offset: int) -> Iterator[int]:
        variable = self._model.variable(name, offset)
        if variable is not None and variable.kind in ("local", "loop"):
            at = self._model.statement_at(variable.name_at)
            if at >= 0:
                yield at
        for start, statement in self._written.get(name, ()):
            if variable is None or variable.visible[0] <= start < variable.visible[1]:
                yield statement

    def _callers(self, function: Function) -> Iterator[int]:
        for call in self._calls.get(function.name, ()):
            at = self._model.statement_at(call.start)
            if at >= 0:
                yield at

    @cached_property
    def _written(self) -> dict[str, list[tuple[int, int]]]:
        """Name → (offset, statement) of what assigns to it, to an element of it, or stores a fragment there."""
        model = self._model
        found: dict[str, list[tuple[int, int]]] = {}
        for assignment in model.assignments:
            first = next(
                (t for t in model.tokens[assignment.target.first : assignment.target.last] if t.kind == "id"), None
            )
            if first is not None:
                found.setdefault(first.text, []).append((first.offset, assignment.statement))
        for call in model.calls:
            at = model.statement_at(call.start)
            if at < 0 or not call.arguments:
                continue
            # A call that is a statement of its own may write through any of its arguments.
            alone = model.statements[at].kind == "expression" and model.statements[at].start == call.start
            for target in call.arguments if alone else call.arguments[: 1 if call.name in WRITE_FIRST else 0]:
                for token in model.tokens[target.first : target.last]:
                    if token.kind == "id":
                        found.setdefault(token.text, []).append((token.offset, at))
        return found

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for call in self._model.calls:
            found.setdefault(call.name, []).append(call)
        return found
