"""From a source line to the lines that it depends on: what `why` lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wmmadiag.diagnose.source.model import Function, SourceModel, Variable
from wmmadiag.diagnose.source.slices import WRITE_FIRST, Slicer
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

if TYPE_CHECKING:
    from wmmadiag.debugger.session import Session
    from wmmadiag.provenance.model import Stage

_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Behind:
    """A line on which another depends: in `distance` steps through definitions, stores, loops, conditions and calls.

    `status`: of the operation's stages at the line ("fits", "departs"), "" where it has none.
    """

    line: int
    distance: int
    code: str
    status: str = ""


class Dependences(Slicer):
    """A slicer that also follows calls into what they compute, and other names of the same memory or fragment.

    Args:
        right: lines whose values are known to be right: what they are made of is not followed, only the loops and
            conditions around them, which say which values there are.
    """

    def __init__(self, model: SourceModel, right: frozenset[int] = frozenset()) -> None:
        super().__init__(model)
        self._right = right

    def _needs(self, index: int) -> Iterator[int]:
        if not self._right.isdisjoint(self._own_lines(self._model.statements[index])):
            yield from (one for one in self._model.enclosing(index) if self._model.statements[one].kind != "block")
            return
        yield from super()._needs(index)
        for name in self._called.get(index, ()):
            for function in self._model.functions:
                if function.name == name:
                    yield from self._results(function)

    def _defines(self, name: str, offset: int) -> Iterator[int]:
        fragment = self._model.fragment(name, offset)
        if fragment is None:
            yield from super()._defines(name, offset)
            return
        at = self._model.statement_at(fragment.start)
        if at >= 0:
            yield at
        first, end = fragment.visible
        yield from (statement for start, statement in self._written.get(name, ()) if first <= start < end)

    @cached_property
    def _called(self) -> Mapping[int, tuple[str, ...]]:
        """Statement → names of the source's own functions that it calls itself."""
        known = {function.name for function in self._model.functions}
        found: dict[int, tuple[str, ...]] = {}
        for call in self._model.calls:
            if call.name in known and (at := self._model.statement_at(call.start)) >= 0:
                found[at] = (*found.get(at, ()), call.name)
        return found

    def _results(self, function: Function) -> Iterator[int]:
        """The statements that give a caller something: returns, and what is written through parameters."""
        model = self._model
        for index, statement in enumerate(model.statements):
            inside = function.start <= statement.start < function.end
            if inside and statement.kind == "return" and statement.last > statement.first + 2:  # not a bare `return;`
                yield index
        for parameter in function.parameters:
            if (parameter.pointer and not parameter.const) or parameter.reference:
                for offset, at in self._written.get(parameter.name, ()):
                    if function.start <= offset < function.end:
                        yield at

    @cached_property
    def _written(self) -> dict[str, list[tuple[int, int]]]:
        """As for any slicer, but WMMA calls write their first argument alone.

        What is written through a pointer or reference counts for what it was made of, too.
        """
        read_only = [
            (one.start, one.end) for call in self._model.calls if call.name in WRITE_FIRST for one in call.arguments[1:]
        ]
        found = {
            name: [(offset, at) for offset, at in places if not any(a <= offset < b for a, b in read_only)]
            for name, places in super()._written.items()
        }
        # Inner aliases are declared after what they are made of, and so come first here.
        for variable in reversed(self._model.variables):
            for name in self._stands_for(variable):
                through = [
                    (offset, at)
                    for offset, at in found.get(variable.name, ())
                    if variable.visible[0] <= offset < variable.visible[1]
                ]
                known = found.setdefault(name, [])
                known += [one for one in through if one not in known]
        return found

    def _stands_for(self, variable: Variable) -> Iterator[str]:
        """Names of what a pointer or a reference stands for part of."""
        if not (variable.pointer or variable.reference) or variable.initial is None:
            return
        for token in self._model.tokens[variable.initial.first : variable.initial.last]:
            if token.kind == "id" and token.text != variable.name:
                other = self._model.variable(token.text, variable.name_at)
                shown = other is not None and bool(other.pointer or other.reference or other.dims)
                if shown or self._model.fragment(token.text, variable.name_at) is not None:
                    yield token.text


def behind(session: Session, places: Sequence[Place], depth: int = 2) -> tuple[Behind, ...]:
    """The lines that a line depends on, the nearest first: the first of the places; the others count as one step away.

    Through definitions, stores, loops, conditions, calls and callers, and through conditions under which a thread left
    the function before.

    Raises:
        ConfigurationError: the places have no source that can be read.
    """
    file = places[0].file if places else ""
    model = session.models.get(file)
    if model is None:
        raise ConfigurationError("there is no source line here", hint="go to one first")
    start, others = places[0].line, [place.line for place in places[1:] if place.file == file]
    stages = [stage for stage in session.known_stages if stage.place.file == file]
    right = frozenset(stage.place.line for stage in stages if exonerates(stage)) - {start, *others}
    slicer, depth = Dependences(model, right), min(depth, _DEEPEST)
    found = slicer.distances([start], depth)
    for further in (others, _exits(model, [start, *others])):
        for line, distance in slicer.distances(further, depth - 1).items():
            found[line] = min(found.get(line, depth + 1), distance + 1)
    text = session.lines.text(file)
    status = {stage.place.line: stage.status for stage in stages if stage.status != "unknown"}
    status |= {stage.place.line: "departs" for stage in stages if stage.status == "departs"}
    # Of lines that are equally far, those that are known to be right come last.
    rows = sorted((distance, status.get(line) == "fits", line) for line, distance in found.items() if distance <= depth)
    return tuple(
        Behind(line, distance, text[line - 1].strip(), status.get(line, ""))
        for distance, _, line in rows
        if line != start and line <= len(text)
    )


def exonerates(stage: Stage) -> bool:
    """Whether all values of a line are right beyond doubt, and with them all that they were made of.

    Of scores that a multiplication left, where they are the product times 1, the scale or log2(e). Any other factor,
    and a factor per row of weights and sums, is a reading that a later line may contradict; what is stored may have
    been selected, and which elements are masked is no matter of their values.
    """
    known = stage.status == "fits" and not stage.partial and stage.departing == 0
    return known and stage.what == "result of scores" and not stage.reading[:1].isdigit()


def _exits(model: SourceModel, lines: Sequence[int]) -> list[int]:
    """Lines of conditions under which a thread returns or leaves a loop before it reaches any of the lines."""
    statements = model.statements
    around: set[int] = set()
    for index, statement in enumerate(statements):
        if statement.line in lines:
            around |= set(model.enclosing(index))
    found = []
    for index, statement in enumerate(statements):
        if statement.kind not in ("return", "jump"):
            continue
        for outer in model.enclosing(index):
            if statements[outer].kind == "if" and statements[outer].parent in around:
                found.append(statements[outer].line)
    return [line for line in found if line < max(lines, default=0)]
