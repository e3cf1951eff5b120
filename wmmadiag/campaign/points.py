"""A plan's cases, one after another: each a point of the product of its axes."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from wmmadiag.campaign.plan import Plan, Subjects
from wmmadiag.campaign.sizes import SizeRange, edges, grid_steps
from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import SymbolScope, names_in
from wmmadiag.place import Place
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


NOWHERE = Place("", 0)


@dataclass(frozen=True, slots=True)
class CaseSpace:
    """All points of one subject."""

    subject: str
    card: Card
    axes: Mapping[str, Sequence[Any]]  # name → values, those that need another compilation first
    requires: tuple[str, ...]
    place: Place = NOWHERE  # of the plan's table
    _values: dict[str, Container[Any]] = field(init=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            self._values[name] = values if isinstance(values, range) else frozenset(values)

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
        return meets(self.requires, self.card, point, self.place)

    def has(self, point: Point) -> bool:
        """Whether it is one of these points, and allowed."""
        of = {**point.sizes, **{name: getattr(point, name) for name in FIXED}}
        return (
            point.subject == self.subject
            and of.keys() == self.axes.keys()
            and all(value in self._values[name] for name, value in of.items())
            and self.allowed(point)
        )


def meets(requires: Sequence[str], card: Card, point: Point, place: Place = NOWHERE) -> bool:
    """Whether a point of a card's satisfies all requirements, and a size of 0 leaves something to launch."""
    nothing = 0 in point.sizes.values()
    if not requires and not nothing:
        return True
    variant = card.variant(point.variant)
    scope = case_scope(card, point.case(card), variant)
    return all(_holds(one, scope, place) for one in requires) and (not nothing or _launches(card, variant, scope))


def _launches(card: Card, variant: Variant, scope: SymbolScope) -> bool:
    """Whether the grid has blocks; what cannot be evaluated its case says."""
    shape = variant.launch or card.launch
    try:
        return all(scope.number(each, place=shape.place, what="grid") for each in shape.grid)
    except WmmadiagError:
        return True


def _holds(requirement: str, scope: SymbolScope, place: Place) -> bool:
    """Whether it is not 0; one over symbols that the kernel has not is no requirement of it."""
    if not names_in(requirement) <= set(scope.names()):
        return True
    return bool(scope.number(requirement, place=place, what="the requirement"))


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
            f"no case of these subjects has a symbol '{unknown[0]}'", place=subjects.place, hint=_symbols_hint(used)
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
    return CaseSpace(shown, card, axes, subjects.requires, subjects.place)


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
        chosen = covering(space)
    elif not plan.cases or plan.cases >= len(space):
        chosen = filter(space.allowed, map(space.at, range(len(space))))
    else:  # those that come first are alike
        chosen = filter(space.allowed, map(space.at, _sampled(len(space), plan.seed)))
    return itertools.islice(chosen, plan.cases) if plan.cases else chosen


_LOOKED_AT = 200
"""Points by which the share is told that requirements leave."""


def counted(plan: Plan, space: CaseSpace) -> int:
    """About how many cases `points` makes: exactly, where nothing is required and all or a sample are taken."""
    lengths = sorted(map(len, space.axes.values()))
    most = lengths[-1] * lengths[-2] if plan.how == "pairwise" else len(space)
    if space.requires:
        looked = [space.allowed(space.at(one)) for one in itertools.islice(_sampled(len(space), 0), _LOOKED_AT)]
        most = round(most * sum(looked) / max(1, len(looked)))
    return min(plan.cases or most, most)


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


_TRIES = 64
"""Points that are looked at for one that holds two values, before these are taken for two that cannot meet."""

PointIndex = tuple[int, ...]
"""A point as the place of its value on each axis."""


def covering(space: CaseSpace) -> Iterator[Point]:
    """A covering array of strength two: every two values of two axes meet at least once, where a point allows it."""
    lengths = [len(values) for values in space.axes.values()]
    several = [place for place, length in enumerate(lengths) if length > 1]
    if len(several) < 2:
        yield from filter(space.allowed, map(space.at, range(len(space))))
        return
    try:
        from allpairspy import AllPairs
    except ImportError:
        raise ConfigurationError(
            "a covering of every two values needs allpairspy, which is not installed",
            hint="pip install 'wmmadiag[cluster]', or in the plan: [cover] how = \"full\"",
        ) from None
    met: set[tuple[int, int, int, int]] = set()
    left_out: list[PointIndex] = []
    for chosen in AllPairs([list(range(lengths[place])) for place in several]):
        values = dict(zip(several, chosen, strict=True))
        row = tuple(values.get(place, 0) for place in range(len(lengths)))
        point = _of_row(space, row)
        if space.allowed(point):
            met.update(_pairs(row, several))
            yield point
        else:
            left_out.append(row)
    drawing = random.Random(len(space))
    for pair in dict.fromkeys(pair for row in left_out for pair in _pairs(row, several)):
        if pair not in met:
            found = _meeting(space, pair, lengths, drawing)
            if found is not None:
                met.update(_pairs(found, several))
                yield _of_row(space, found)


def _of_row(space: CaseSpace, row: PointIndex) -> Point:
    return space.point([values[at] for values, at in zip(space.axes.values(), row, strict=True)])


def _pairs(row: PointIndex, several: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    for one, other in itertools.combinations(several, 2):
        yield one, row[one], other, row[other]


def _meeting(
    space: CaseSpace, pair: tuple[int, int, int, int], lengths: Sequence[int], drawing: random.Random
) -> PointIndex | None:
    """An allowed row that holds two values; None if none is found."""
    one, its, other, others = pair
    names = list(space.axes)
    own = {names[one], names[other]}
    # What a requirement says of these two alone no other value can mend.
    settled = [text for text in space.requires if names_in(text) <= own]
    for _ in range(_TRIES):
        row = [drawing.randrange(length) for length in lengths]
        row[one], row[other] = its, others
        point = _of_row(space, tuple(row))
        if space.allowed(point):
            return tuple(row)
        if settled and not meets(settled, space.card, point):
            return None
    return None
