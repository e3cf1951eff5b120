"""A plan's cases, one after another: each a point of the product of its axes."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from wmmadiag.campaign.plan import Plan, Subjects
from wmmadiag.campaign.sizes import SizeRange, edges, grid_steps
from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import SymbolScope, names_in
from wmmadiag.subject.card import Card, Case, Expression, Variant
from wmmadiag.subject.symbols import case_scope


@dataclass(frozen=True, slots=True)
class Point:
    """One case of a campaign."""

    subject: str  # the card or source, as the plan's folder sees it
    arch: str  # target; variant, base: names in the card, the latter of the case whose other symbols are taken
    variant: str
    base: str
    sizes: Mapping[str, Expression]  # symbols in place of that case's; inputs, seed: "" and the card's own
    inputs: str = ""
    seed: int = 0
    schedules: int = 0  # other orders; displaced: bytes
    displaced: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _point, (msgspec.msgpack.encode(self),)  # in a fifth of the time that pickle takes for it

    def name(self) -> str:
        """For people: "gemm.toml sm_90 default M=17 N=16 normal seed 0"."""
        words = [self.subject, self.arch, self.variant, self.base]
        words += [f"{name}={value}" for name, value in self.sizes.items()]
        words += [self.inputs] if self.inputs else []
        words += [f"seed {self.seed}"] if self.seed else []
        words += [f"schedules {self.schedules}"] if self.schedules else []
        words += [f"displaced {self.displaced}"] if self.displaced else []
        return " ".join(words)

    def case(self, card: Card) -> Case:
        """As a case of the card."""
        from wmmadiag.subject.binding import DISPLACED

        base = card.case(self.base)
        placed: dict[str, Expression] = {DISPLACED: self.displaced} if self.displaced else {}
        return replace(base, symbols={**base.symbols, **self.sizes, **placed})


def _point(packed: bytes) -> Point:
    return _POINT.decode(packed)


_POINT = msgspec.msgpack.Decoder(Point)


def key_of(point: Point, digest: str) -> str:
    """What tells a case from all others, and from itself after its kernel has changed.

    Args:
        digest: of what the subject is made of.
    """
    said = msgspec.json.encode((digest, point), order="deterministic")
    return hashlib.blake2b(said, digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class CaseSpace:
    """All points of one subject."""

    subject: str
    card: Card
    axes: Mapping[str, Sequence[Any]]  # name → values, those that need another compilation first
    requires: tuple[str, ...]

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    def point(self, values: Sequence[Any]) -> Point:
        """That of one value of each axis."""
        of = dict(zip(self.axes, values, strict=True))
        fixed = {name: of.pop(name) for name in FIXED}
        return Point(subject=self.subject, sizes=of, **fixed)

    def at(self, index: int) -> Point:
        """The point of a number below `len`; the last axis changes fastest."""
        values = []
        for axis in reversed(list(self.axes.values())):
            index, place = divmod(index, len(axis))
            values.append(axis[place])
        return self.point(values[::-1])

    def allowed(self, point: Point) -> bool:
        """Whether the combination of sizes is one that the plan wants."""
        if not self.requires:
            return True
        card = self.card
        scope = case_scope(card, point.case(card), card.variant(point.variant))
        return all(_holds(one, scope) for one in self.requires)


def _holds(requirement: str, scope: SymbolScope) -> bool:
    """Whether it is not 0; one over symbols that the kernel has not is no requirement of it."""
    from wmmadiag.place import Place

    if not names_in(requirement) <= set(scope.names()):
        return True
    return bool(scope.number(requirement, place=Place("", 0), what=f"the requirement {requirement}"))


FIXED = ("arch", "variant", "base", "inputs", "schedules", "displaced", "seed")
"""Axes that are no sizes."""


def spaces(plan: Plan, subjects: Subjects) -> list[CaseSpace]:
    """One for each card or source that the paths name, and for each launch of a program.

    Raises:
        ConfigurationError: a path or a card is wrong, or no card has a size that the plan names.
        WmmadiagError: a program cannot be run.
    """
    from wmmadiag.api import open_card
    from wmmadiag.campaign.programs import with_launches
    from wmmadiag.subject.find_cards import find_subjects, without_declared_wrong

    found = find_subjects(subjects.paths)
    if not subjects.wrong:
        found, _ = without_declared_wrong(found, subjects.paths)
    used: set[str] = set()
    made = []
    for path in with_launches(plan, subjects, found):
        card = open_card(path)
        used |= _symbols(card)
        made.append(_space(plan, subjects, _shown(path, plan.path.parent), card))
    named = [*subjects.sizes, *sorted(name for one in subjects.requires for name in names_in(one))]
    unknown = [name for name in named if name not in used]
    if unknown:
        raise ConfigurationError(
            f"no case of these subjects has a symbol '{unknown[0]}'",
            place=subjects.place,
            hint=_symbols_hint(used),
        )
    return made


def _symbols_hint(used: set[str]) -> str:
    if used:
        return "their symbols: " + ", ".join(sorted(used))
    return "they have none; launches of a program have its own sizes (main = false takes a source without its main)"


def _symbols(card: Card) -> set[str]:
    """What a plan may give sizes of: the symbols of cases, and those that the operation makes of others (Skv of S)."""
    every = {name for case in card.cases for name in case.symbols} | set(card.symbols)
    return every | set(OPERATIONS[card.computes.operation].symbols)


def _shown(path: Path, folder: Path) -> str:
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return path.as_posix()


def _space(plan: Plan, subjects: Subjects, shown: str, card: Card) -> CaseSpace:
    from wmmadiag.subject.target import card_target

    variants = [card.variant(name) for name in subjects.variants] if subjects.variants else list(card.variants)
    swept = subjects.sizes.keys() & _symbols(card)
    bases: dict[Any, str] = {}
    for case in card.cases:
        rest = (tuple((n, v) for n, v in case.symbols.items() if n not in swept), case.inputs, case.seed)
        bases.setdefault(rest, case.name)
    sizes = {name: _values(one, card, variants[0], name) for name, one in subjects.sizes.items() if name in swept}
    axes: dict[str, Sequence[Any]] = {
        "arch": tuple(dict.fromkeys(card_target(card, arch or None, plan.backend) for arch in plan.arches)),
        "variant": [one.name for one in variants],
        "base": list(bases.values()),
        **sizes,
        "inputs": plan.inputs,
        "schedules": plan.schedules,
        "displaced": plan.displaced,
        "seed": plan.seeds,
    }
    return CaseSpace(shown, card, axes, subjects.requires)


def _values(one: SizeRange | tuple[Expression, ...], card: Card, variant: Variant, name: str) -> tuple[Expression, ...]:
    if not isinstance(one, SizeRange):
        return one
    base = card.cases[0]
    shape = variant.launch or card.launch

    def grid_at(size: int) -> object:
        scope = case_scope(card, replace(base, symbols={**base.symbols, name: size}), variant)
        try:
            return tuple(scope.number(each, place=shape.place, what="grid") for each in (*shape.grid, shape.shared))
        except WmmadiagError:
            return None

    return edges(one, grid_steps(grid_at, one))


def points(plan: Plan, space: CaseSpace) -> Iterator[Point]:
    """The cases of one subject, each once, as the plan combines its axes; at most `plan.cases` of them.

    Raises:
        ConfigurationError: a requirement of the plan cannot be evaluated.
    """
    chosen: Iterator[Point]
    if plan.how == "pairwise":
        chosen = _pairwise(space)
    elif plan.how == "full" or plan.cases >= len(space):
        chosen = map(space.at, range(len(space)))
    else:
        chosen = map(space.at, _sampled(len(space), plan.seed))
    allowed = filter(space.allowed, chosen)
    return itertools.islice(allowed, plan.cases) if plan.cases else allowed


def counted(plan: Plan, space: CaseSpace) -> int:
    """So many cases `points` makes at most, or 0 where only making them tells; fewer where something is required."""
    if plan.how == "pairwise":
        return 0
    return min(plan.cases or len(space), len(space))


def _sampled(count: int, seed: int) -> Iterator[int]:
    """All numbers below `count`, each once, in an order drawn from the seed, in memory of one number.

    A Feistel network over the next even power of two, walked until a number lies below `count` (Black and Rogaway,
    "Ciphers with Arbitrary Finite Domains", 2002, cycle walking).
    """
    half = max(1, -(-(count - 1).bit_length() // 2))
    mask = (1 << half) - 1
    keys = [random.Random(f"{seed}/{turn}").getrandbits(64) | 1 for turn in range(4)]
    for number in range(1 << 2 * half):
        left, right = number >> half, number & mask
        for key in keys:
            left, right = right, left ^ ((right * key + (key >> 32) ^ (right * key >> 29)) & mask)
        at = left << half | right
        if at < count:
            yield at


def _pairwise(space: CaseSpace) -> Iterator[Point]:
    """A covering array of strength two: every two values of two axes meet at least once, where a point allows it."""
    several = {name: values for name, values in space.axes.items() if len(values) > 1}
    if len(several) < 2:
        yield from map(space.at, range(len(space)))
        return
    try:
        from allpairspy import AllPairs
    except ImportError:
        raise ConfigurationError(
            "a covering of every two values needs allpairspy, which is not installed",
            hint="pip install 'wmmadiag[cluster]', or in the plan: [cover] how = \"full\"",
        ) from None
    first = {name: values[0] for name, values in space.axes.items()}
    for row in AllPairs([list(range(len(values))) for values in several.values()]):
        chosen = {name: several[name][place] for name, place in zip(several, row, strict=True)}
        yield space.point(list({**first, **chosen}.values()))
