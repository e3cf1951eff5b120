"""Two changes at once, where neither alone makes anything right: a mistake that was made twice, or two mistakes.

A mistake is seldom made twice in two ways: of all pairs, those come first in which the same is done at two places, or
at one what is undone at the other, as where two indices are exchanged; the nearer the likelier. Then each change that
brings the results nearer to what they should be, beside any other; pairs by one operator; and those of the likeliest
changes, whatever they are. What changes no bit of what is wrong is no part of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from wmmadiag.diagnose.changes import Change, TextEdit, Texts
from wmmadiag.diagnose.pairing import Pair, Pool, likeliest
from wmmadiag.diagnose.ranking import Ranked, difference, tokens_of
from wmmadiag.diagnose.search import Ledger, Tell, Tried

if TYPE_CHECKING:
    from wmmadiag.diagnose.trials.outcomes import Outcome

_LIKELIEST = 96
"""Changes of which any two are made: as many as one program holds with ease."""
_NEARER = 0.1
"""Share of how far off results are that must be gone of what brings them nearer."""
_HELPING = 24
"""Changes that bring results nearest, of which each is made beside others."""
_ALIKE = 2
"""Times as many pairs that do the same as of any other kind: of two that are one mistake more is known."""
_BATCH, _LEAST = 1024, 128
"""Pairs that are tried before it is looked at what came of them, and at least so many where each is much work."""
_PART, _SOON = 4, 16
"""Of a search's warp instructions such a part may be spent on pairs, whatever the search has spent before; and on those
that are tried soon."""
Which: TypeAlias = Literal["any", "alike", "nearer", "kindred", "likeliest"]
"""Kinds of pairs."""


class _PairBench(Protocol):
    @property
    def texts(self) -> Texts: ...

    def try_pairs(self, pairs: Sequence[tuple[Change, Change]]) -> list[Outcome]: ...


def alike_pairs(tried: Sequence[Tried], texts: Texts, most: int) -> list[Pair]:
    """Pairs of changes that do the same, or undo each other, the likeliest first."""
    told = {one.ranked.change: one.outcome for one in tried}
    groups = _groups([one.ranked for one in tried if _in_vain(one)], texts)
    # Where the same mistake is made twice, what comes of one may hide what comes of the other.
    telling = [some for some in groups if not all(told[one.change].idle for one in some)]
    return _alike(telling, most)


def unseen_pairs(some: Sequence[Ranked], texts: Texts, most: int) -> list[Pair]:
    """The same of changes of which no number tells anything: where only a check shows what is wrong."""
    return _alike(_groups(some, texts), most)


def _alike(groups: Iterable[Sequence[Ranked]], most: int) -> list[Pair]:
    return _once(likeliest(map(_repeated, groups), 2 * most))[:most]


def _groups(some: Iterable[Ranked], texts: Texts) -> list[list[Ranked]]:
    """Changes by what they do; and by what they do in which role, of which there are fewer."""
    groups: dict[tuple[str, frozenset[tuple[str, ...]]], list[Ranked]] = {}
    for one in some:
        known = [{how(edit, texts) for edit in one.change.edits} for how in (_done, _done_to_names)]
        for done in dict.fromkeys(next(iter(same)) for same in known if len(same) == 1):
            for role in ("", one.change.role):
                groups.setdefault((role, done), []).append(one)
    return list(groups.values())


def _repeated(some: Sequence[Ranked]) -> Pool:
    """One group: where a mistake was made once, it was made again at one of the group's other places."""
    best = max(one.score for one in some)
    whole = best + math.log(sum(math.exp(max(one.score - best, -60.0)) for one in some))
    return Pool(some, less=whole)


def _done(edit: TextEdit, texts: Texts) -> frozenset[tuple[str, ...]]:
    """The tokens that an edit takes away and puts in, whichever way round; or what it puts around what stands there, or
    takes from around it."""
    old = texts[edit.file][edit.start : edit.end].decode("utf-8", "replace")
    if around := _put_around(old, edit.text) or _put_around(edit.text, old):
        return frozenset({around})
    return frozenset(map(tuple, difference(old, edit.text)))


def _put_around(old: str, new: str) -> tuple[str, ...]:
    """The tokens of `f * (…)` where `f * (a - b)` takes the place of `a - b`; none where it is otherwise."""
    inner, whole = tokens_of(old), tokens_of(new)
    at = next((at for at in range(len(whole) - len(inner) + 1) if whole[at : at + len(inner)] == inner), None)
    if len(inner) < 2 or at is None or len(whole) == len(inner):
        return ()
    before, after = whole[:at], whole[at + len(inner) :]
    while before and after and (before[-1], after[0]) == ("(", ")"):
        before, after = before[:-1], after[1:]
    return (*before, "…", *after) if before or after else ()


def _done_to_names(edit: TextEdit, texts: Texts) -> frozenset[tuple[str, ...]]:
    """The same with names left out, of an edit that does more than to put some names for others: statements beside
    each other do alike to what each of them names."""
    done = _done(edit, texts)
    names = {part for some in done for part in some if part[0].isalpha() or part[0] == "_"}
    left = frozenset(tuple("name" if part in names else part for part in some) for some in done)
    return left if any(len(set(some) - {"name", ".", "-", ">", ":"}) > 0 for some in left) else done


def nearer_pairs(tried: Sequence[Tried], most: int) -> list[Pair]:
    """Pairs of a change that brings results nearer and any other, the likeliest first."""
    helping = sorted((one for one in tried if one.outcome.nearer >= _NEARER), key=lambda one: -one.outcome.nearer)
    first = [one.ranked for one in helping if _tells(one)][:_HELPING]
    others = _best(_telling(tried), max(1, most // max(1, len(first))))
    return _once(likeliest([Pool(first, others)], most))


def kindred_pairs(tried: Sequence[Tried], most: int) -> list[Pair]:
    """Pairs of the likeliest changes by one operator, the likeliest first."""
    groups: dict[str, list[Ranked]] = {}
    for one in _best(_telling(tried)):
        groups.setdefault(one.change.operator, []).append(one)
    return likeliest((Pool(some[:_LIKELIEST]) for some in groups.values()), most)


def likeliest_pairs(tried: Sequence[Tried], most: int) -> list[Pair]:
    """Pairs of the likeliest changes, the likeliest first."""
    return likeliest([Pool(_best(_telling(tried), _LIKELIEST))], most)


def mending_pairs(
    bench: _PairBench,
    tried: Sequence[Tried],
    most: int,
    ledger: Ledger,
    tell: Tell,
    *,
    done: set[Change] | None = None,
    which: Which = "any",
    soon: bool = False,
) -> Iterator[list[tuple[Pair, Tried]]]:
    """Pairs that make the bench's case right, of one batch after the other, the likeliest first.

    Args:
        tried: each alone.
        most: pairs of each kind, see `_ALIKE`.
        done: pairs that were tried before; those that are now are put there.
        which: those alone that do the same or undo each other, or any two of the likeliest changes.
        soon: whether much else is yet to be tried: then less is spent on them.
    """
    enough = ledger.instructions + ledger.effort.instructions // (_SOON if soon else _PART)
    done = set() if done is None else done
    kinds: Mapping[Which, Callable[[], list[Pair]]] = {
        "alike": lambda: alike_pairs(tried, bench.texts, _ALIKE * most),
        "nearer": lambda: nearer_pairs(tried, most),
        "kindred": lambda: kindred_pairs(tried, most),
        "likeliest": lambda: likeliest_pairs(tried, most),
    }
    for kind in kinds.values() if which == "any" else (kinds[which],):
        every = [one for one in kind() if one.both not in done]
        done |= {one.both for one in every}
        start, part = 0, every[:0]
        while (start := start + len(part)) < len(every):
            if ledger.instructions >= enough:
                return
            part = every[start : start + min(_BATCH, max(_LEAST, ledger.worth(enough - ledger.instructions)))]
            tell(f"trying two changes at once, {start + 1:,} to {start + len(part):,} of {len(every):,}")
            outcomes = bench.try_pairs([(one.first.change, one.second.change) for one in _beside(part)])
            ledger.note(outcomes)
            verdicts = {one.change: one for one in outcomes}
            right = [one for one in part if verdicts[one.both].verdict == "right"]
            if right:
                yield [(one, Tried(as_one(one), verdicts[one.both])) for one in right]


def _in_vain(one: Tried) -> bool:
    return one.outcome.verdict not in ("right", "refused")


def _telling(tried: Sequence[Tried]) -> Iterator[Ranked]:
    return (one.ranked for one in tried if _tells(one))


def _tells(one: Tried) -> bool:
    return _in_vain(one) and not one.outcome.idle


def _best(some: Iterable[Ranked], most: int | None = None) -> list[Ranked]:
    return sorted(some, key=lambda one: -one.score)[:most]


def _once(pairs: Iterable[Pair]) -> list[Pair]:
    """Each pair where it stands first."""
    first: dict[Change, Pair] = {}
    for one in pairs:
        first.setdefault(one.both, one)
    return list(first.values())


def _beside(part: Sequence[Pair]) -> list[Pair]:
    """Those that share a place beside each other, so that few programs hold them all."""
    return sorted(part, key=lambda one: (one.first.change.operator, one.first.line, one.second.line))


def as_one(pair: Pair) -> Ranked:
    """Both changes of a pair as one, where the first stands."""
    return Ranked(pair.both, pair.first.line, pair.score)
