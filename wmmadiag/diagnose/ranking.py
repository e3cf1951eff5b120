"""How likely each change is the undoing of a bug, before any is tried: prior of its kind × suspicion of its line.

A change has features, words such as `operator:neighbour` or `departure:1`; its score is the sum of their weights, a
log-likelihood up to a constant. All weights are in `ranking.json`, fitted by `benchmarks/fit_ranking.py` to the wrong
kernels of the repository; nowhere else is there a weight or a rank.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from wmmadiag.csource.dependences import Line
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change, TextEdit, alike_at_the_ends
from wmmadiag.diagnose.corpus import Corpus
from wmmadiag.diagnose.naturalness import Naturalness
from wmmadiag.diagnose.readers import Readers
from wmmadiag.diagnose.sharing import Sharing
from wmmadiag.diagnose.suspicion import Suspicion
from wmmadiag.diagnose.trials.outcomes import Outcome

WEIGHTS = Path(__file__).with_name("ranking.json")
MARKS = ("finding", "fault", "departure", "consequence", "value")
_FAR = 6
_LATE = 4
_MORE = 1.05
"""Times the warp instructions, from which on a mended kernel is more work, or less."""
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_SIZES = (1, 2, 4, 8)
_USES = (1, 2, 3, 5, 8)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A change with its place and score."""

    change: Change
    line: Line  # of its first edit
    score: float  # higher is likelier
    agreed: bool = False  # it is of a constant that several places are written for, see `sharing`
    alike: int = 0  # lines on which it does the same, see `agreeing`; 0 where it is one edit
    apart: bool = False  # it turned out to need a text of its own


def ranked(
    changes: Sequence[Change],
    sources: Mapping[str, Source],
    suspicion: Suspicion,
    weights: Mapping[str, float] | None = None,
    less: float = 0.0,
) -> list[Ranked]:
    """The changes, the likeliest first; equally likely ones in the order given.

    Args:
        less: what is added to every score.
    """
    return suspected(weighed(changes, sources, weights, less), suspicion, weights)


def weighed(
    changes: Sequence[Change],
    sources: Mapping[str, Source],
    weights: Mapping[str, float] | None = None,
    less: float = 0.0,
) -> list[Ranked]:
    """The changes in the order given, scored by what is known of them before any run; arguments of `ranked`."""
    used = weights if weights is not None else fitted()
    sharing, _ = _names_of(tuple(sources.items()))
    shares = _shares(changes, used)
    return [
        Ranked(
            change,
            line,
            less + shares.get(change.operator, 0.0) + sum(used.get(word, 0.0) for word in words),
            sharing.agreed(change),
            agreeing(sources, change),
        )
        for change, line, words in described(changes, sources)
    ]


def suspected(some: Sequence[Ranked], suspicion: Suspicion, weights: Mapping[str, float] | None = None) -> list[Ranked]:
    """Changes that were weighed, with what a run showed of their lines; order and arguments of `ranked`."""
    used = weights if weights is not None else fitted()

    @cache  # many changes are of one line and role
    def near(line: Line, role: str) -> float:
        return sum(used.get(word, 0.0) for word in seen_near(suspicion, line, role))

    found = [replace(one, score=one.score + near(one.line, one.change.role)) for one in some]
    return sorted(found, key=lambda one: -one.score)


def _shares(changes: Sequence[Change], weights: Mapping[str, float]) -> Mapping[str, float]:
    """How much likelier a change is for there being few by its operator, as a logarithm, of operators that the weights
    do not know yet: until then one is as likely as another, and so is what it makes, taken together."""
    counts = Counter(one.operator for one in changes)
    shares = {name: math.log(len(changes) / (len(counts) * count)) for name, count in counts.items()}
    return {name: share for name, share in shares.items() if share > 0 and f"operator:{name}" not in weights}


def described(
    changes: Sequence[Change], sources: Mapping[str, Source], known: Corpus | None = None
) -> Iterator[tuple[Change, Line, tuple[str, ...]]]:
    """Each change with its line and the features that no run adds to, in the order given.

    Args:
        known: what right code looks like; None: as it is shipped.
    """
    sharing, readers = _names_of(tuple(sources.items()))
    before: Counter[tuple[str, str, int]] = Counter()
    for change, natural in zip(changes, Naturalness(sources, known).words(changes), strict=True):
        place = change.operator, change.edits[0].file, change.edits[0].start
        line = line_of(change, sources)
        told = [
            *features(change, sources),
            *_nth(change.operator, before[place]),
            *natural,
            *_feeding(change, sharing),
            *readers.words(change),
        ]
        before[place] += 1
        yield change, line, tuple(told)


@lru_cache(maxsize=2)  # a search asks for parts of one source time and again
def _names_of(files: tuple[tuple[str, Source], ...]) -> tuple[Sharing, Readers]:
    """What the names of some sources are used for."""
    sources = dict(files)
    return Sharing(sources), Readers(sources)


def _nth(operator: str, count: int) -> Iterator[str]:
    """How many changes the operator has made of a place before: operators begin with what is likeliest."""
    bucket = f"nth:{min(count.bit_length(), _LATE)}"
    yield bucket
    yield f"{operator} {bucket}"


def _feeding(change: Change, sharing: Sharing) -> Iterator[str]:
    """A declaration that is wrong, and that many places agree on, would seldom do harm."""
    uses = sharing.uses(change)
    if uses is not None:
        bucket = f"feeds:{next((most for most in _USES if uses <= most), 'many')}"
        yield bucket
        yield f"{change.role} {bucket}"


def line_of(change: Change, sources: Mapping[str, Source]) -> Line:
    """The line of a change's first edit."""
    first = change.edits[0]
    return first.file, sources[first.file].line_at(first.start)


def features(change: Change, sources: Mapping[str, Source]) -> Iterator[str]:
    """What is known of a change by itself before it is tried, in words that weights are given to."""
    yield from _kind(change.operator, change.role, change.kind)
    tokens = sum(changed_tokens(edit, sources[edit.file]) for edit in change.edits)
    yield f"tokens:{next((size for size in _SIZES if tokens <= size), 'many')}"
    yield f"edits:{min(len(change.edits), 3)}"


@cache
def _kind(operator: str, role: str, kind: str) -> tuple[str, ...]:
    return f"operator:{operator}", f"role:{role}", f"kind:{kind}", f"{operator} of {role}"


def seen_near(suspicion: Suspicion, line: Line, role: str) -> tuple[str, ...]:
    """What evidence says of a line and a role, as features."""
    near = suspicion.of(line)
    found = []
    for kind in MARKS:
        if kind in suspicion.nearest:
            far = near.get(kind)
            found.append(f"{kind}:{'never' if far is None else min(far, _FAR)}")
    for detail, distances in suspicion.details.items():
        far = distances.get(line)
        found += [f"seen {detail}:{role}", f"at {detail}:{'far' if far is None else far}"]
        found += [f"near {detail}:{role}"] * (far is not None)
    return *found, *(f"where {word}:{role}" for word in suspicion.pattern)


def after_trial(one: Ranked, outcome: Outcome, work_before: int) -> float:
    """The score of a change that was tried: how much work the kernel then is tells among changes that mend it."""
    used = fitted()
    return one.score + sum(used.get(word, 0.0) for word in features_of_trial(outcome, work_before))


def features_of_trial(outcome: Outcome, work_before: int) -> Iterator[str]:
    """What trying a change showed of it, in words that weights are given to."""
    if work_before and outcome.work:
        ratio = outcome.work / work_before
        yield f"work:{'more' if ratio > _MORE else 'less' if ratio < 1 / _MORE else 'same'}"


def agreeing(sources: Mapping[str, Source], change: Change) -> int:
    """On how many lines a change does the same; 0 where it does different things, or is one edit of a line."""
    if len(change.edits) == 1 and "\n" not in change.edits[0].text:
        return 0
    done: set[tuple[str, ...]] = set()
    lines = 0
    for edit in change.edits:
        old = sources[edit.file].slice(edit.start, edit.end)
        for before, after in zip(old.split("\n"), edit.text.split("\n"), strict=False):
            first, second = tokens_of(before), tokens_of(after)
            if len(first) != len(second):
                return 0
            done.update((one, other) for one, other in zip(first, second, strict=True) if one != other)
            lines += before != after
    return lines if len(done) == 1 else 0


def changed_tokens(edit: TextEdit, source: Source) -> int:
    """How many tokens an edit takes away or puts in, what stands at both ends of either left out."""
    return max(map(len, difference(source.slice(edit.start, edit.end), edit.text)))


def tokens_of(text: str) -> list[str]:
    """The tokens of a text."""
    return _TOKEN.findall(text)


def difference(before: str, after: str) -> tuple[list[str], list[str]]:
    """The tokens that go and those that come, without what stands at both ends of either."""
    old, new = tokens_of(before), tokens_of(after)
    head, tail = alike_at_the_ends(old, new)
    return old[head : len(old) - tail], new[head : len(new) - tail]


@cache
def fitted() -> Mapping[str, float]:
    """The fitted weights, by feature; a feature without one weighs nothing."""
    return {str(name): float(value) for name, value in _file()["weights"].items()}


@cache
def by_chance() -> float:
    """Share of changes at other places that mend a kernel's failing case: an upper estimate.

    A change that mends is the undoing, or one of these: what was not tried weighs by this much less than what was tried
    and mends.
    """
    return float(_file()["by_chance"])


def partly() -> float:
    """How much likelier, as a logarithm, the undoing is of a statement of which another change mends a part.

    Mutation-based fault localisation (MUSE, Moon et al. 2014): what is changed where nothing is wrong makes right
    elements wrong, and seldom wrong ones right.
    """
    return float(_file().get("partly", 0.0))


def further() -> float:
    """How much less likely, as a logarithm, a change of the second round is than one of the first of the same score."""
    return float(_file().get("further", 0.0))


@cache
def _file() -> dict[str, Any]:
    if not WEIGHTS.exists():
        return {"weights": {}, "by_chance": 1.0}
    read: dict[str, Any] = json.loads(WEIGHTS.read_text("utf-8"))
    return read
