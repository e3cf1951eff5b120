"""The nearest rivals of what mends a case: tried before it is the answer, however unlikely they seemed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.bases import Base
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.confirm import Confirmed
from wmmadiag.diagnose.evidence import ranked_changes, suspicion_of
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.names import puts_in_order
from wmmadiag.diagnose.operators.places import Range
from wmmadiag.diagnose.ranking import Ranked, ranked, tokens_of
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.suspicion import marks
from wmmadiag.diagnose.waste import meeting_lines
from wmmadiag.diagnose.where_made import where_made

_NEAREST = 4
"""Changes that mend the case, of which rivals are looked for nearby."""
_RIVALS, _SAME = 256, 16
"""How many of these are tried at most, and of those that do the same elsewhere."""
_APART = 1536.0
"""What those that are a compilation of their own each may cost, in changes that share a program."""
_MEETING = 2560
"""How many of those that meet in memory."""


def rivals_beside(
    found: Examined, base: Base, sources: Mapping[str, Source], tried: Sequence[Tried], order: Sequence[Ranked]
) -> list[Tried]:
    """What was not tried of the lines beside what mends the case: where a value is made, and where it is used; what a
    line calls, and what calls its function; what does the same elsewhere; of what puts accesses in order, where these
    stand.

    Before a change is the answer, its nearest rivals are tried, however unlikely they seemed: those of the second
    round, and what it adds to a value where that is made, too.
    """
    right = [one.ranked for one in tried if one.outcome.verdict == "right"][:_NEAREST]
    made = [other for one in right for other in where_made(sources, one.change)]
    rest = ranked(made, sources, suspicion_of(base.run, base.followed, sources)) if made else []
    if right and not found.ledger.spent:
        rest += _nearby(found, base, sources, right, order, {one.ranked.change for one in tried})
    return _tried(found, base, rest)


def rivals_of(
    found: Examined, base: Base, sources: Mapping[str, Source], order: Sequence[Ranked], tried: Sequence[Tried]
) -> list[Tried]:
    """What was not tried of the lines beside changes that mend a case together: one alone is simpler."""
    if found.ledger.spent:
        return []
    several = [*(one.ranked for one in found.steps), found.answers[0].tried.ranked]
    done = {one.ranked.change for one in tried}
    return _tried(found, base, _nearby(found, base, sources, several, order, done, wider=False))


def rivals_in_memory(
    found: Examined,
    base: Base,
    sources: Mapping[str, Source],
    best: Confirmed,
    order: Sequence[Ranked],
    done: Set[Change],
) -> list[Tried]:
    """What was not tried of the lines that touch the memory which an answer accesses otherwise, and of what decides
    whether and where these do: the likeliest of each line, however unlikely the line seemed."""
    lines = meeting_lines(base.run, best.runs[0], sources, best.texts)
    lines |= set(Dependences(sources).distances(lines, 1))
    some: list[Ranked] = []
    of_line: Counter[Line] = Counter()
    for one in order:
        if one.line in lines and one.change not in done and of_line[one.line] < _MEETING // len(lines):
            of_line[one.line] += 1
            some.append(one)
    return _tried(found, base, some)


def _tried(found: Examined, base: Base, some: Sequence[Ranked]) -> list[Tried]:
    """What comes of some changes; of those that are a compilation of their own each, no more than are worth it."""
    most = int(_APART / base.trials.cost_apart)
    static = [one for one in some if one.change.kind == "static"]
    left = {one.change for one in static[most:]}
    together = [one for one in some if one.change not in left]
    outcomes = base.trials.try_batch([one.change for one in together], defers=True)
    tried = [Tried(one, outcome) for one, outcome in zip(together, outcomes, strict=True)]
    deferred = [one.ranked for one in tried if one.deferred]
    again = deferred[: max(0, most - len(static))]
    tried = [one for one in tried if not one.deferred]
    if again:
        outcomes = base.trials.try_batch([one.change for one in again])
        tried += [Tried(one, outcome) for one, outcome in zip(again, outcomes, strict=True)]
    found.passed_over += len(left) + len(deferred) - len(again)
    found.ledger.note([one.outcome for one in tried])
    return tried


def _nearby(
    found: Examined,
    base: Base,
    sources: Mapping[str, Source],
    right: Sequence[Ranked],
    order: Sequence[Ranked],
    done: Set[Change],
    *,
    wider: bool = True,
) -> list[Ranked]:
    lines = [one.line for one in right]
    if any(puts_in_order(one.change) for one in right):
        lines += [mark.line for mark in marks(base.run.findings, None, None)]
    dependences = Dependences(sources)
    near = dependences.beside(lines)
    put_in = (word for one in right for edit in one.change.edits for word in tokens_of(edit.text))
    made_by = {*lines, *dependences.distances(lines, 1)}  # what a line uses may be what another function returns
    inside = (dependences.called_from(made_by, put_in) | dependences.calling(lines)) - near
    left = [one for one in order if one.change not in done]
    rest = [one for one in left if one.line in near][:_RIVALS]
    rest += [one for one in left if one.line in inside][:_RIVALS]
    said = {(one.change.operator, one.change.note) for one in right}
    rest += [one for one in left if (one.change.operator, one.change.note) in said and one not in rest][:_SAME]
    if wider and found.ledger.effort.wider:
        places = [_bytes_of(sources, line) for line in sorted(near | set(lines)) if line[0] in sources]
        _, more = ranked_changes(found.bench, base.run, base.followed, base.trials.texts, known=order, places=places)
        rest += more[: _RIVALS // 2]
    return rest


def _bytes_of(sources: Mapping[str, Source], line: Line) -> Range:
    """The bytes of a line."""
    lines = sources[line[0]].data.split(b"\n")[: line[1]]
    end = sum(len(one) + 1 for one in lines) - 1
    return line[0], end - len(lines[-1]), end
