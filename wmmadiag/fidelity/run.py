"""A fidelity run: pieces of all families with fresh seeds, somewhere; what comes back is counted by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from wmmadiag.campaign.journal import Journal, held
from wmmadiag.errors import ConfigurationError
from wmmadiag.fidelity.compare import Compared, Piece, compared
from wmmadiag.fidelity.families import FAMILIES
from wmmadiag.fidelity.tensor import tensor_forms

if TYPE_CHECKING:
    from wmmadiag.campaign.cluster import TaskDone

_TASK_OUTPUTS = 1 << 20
"""Tensor-core outputs of one task: half a second's work, and some ten megabytes of operands."""


@dataclass(frozen=True, slots=True)
class FidelityPlan:
    """What to compare."""

    arch: str  # of the GPU
    outputs: int = 10**9  # of the tensor cores, at least, all forms together
    rounds: int = 1  # how many seeds each other case is given
    seed: int = 1  # the first one, at least 1: seed 0 is in the committed records
    families: tuple[str, ...] = ()  # which; all if empty
    size: int = 1 << 14  # of a lane operation's case: operands of each instruction


@dataclass(slots=True)
class Count:
    """Sums of one key."""

    # outputs, differing: elements; first: a piece that differs, the first that came
    outputs: int = 0
    differing: int = 0
    first: Compared | None = None
    left_out: str = ""  # why a piece was not compared

    def add(self, one: Compared) -> None:
        self.outputs += one.outputs
        self.differing += one.differing
        self.left_out = self.left_out or one.left_out
        if one.differing and self.first is None:
            self.first = one


@dataclass(slots=True)
class Fidelity:
    """What came of a run."""

    plan: FidelityPlan
    counts: dict[tuple[str, str], Count] = field(default_factory=dict)  # by (family, key)
    errors: dict[Piece, str] = field(default_factory=dict)  # pieces that could not be run, and why

    def add(self, one: Compared) -> None:
        self.counts.setdefault((one.piece.family, one.piece.key), Count()).add(one)

    @property
    def outputs(self) -> int:
        return sum(one.outputs for one in self.counts.values())

    @property
    def differing(self) -> int:
        return sum(one.differing for one in self.counts.values())

    @property
    def complete(self) -> bool:
        """Whether something was compared, and nothing was left out."""
        return self.outputs > 0 and not self.errors and not any(one.left_out for one in self.counts.values())


def pieces(plan: FidelityPlan) -> Iterator[Piece]:
    """What a plan compares, the same for the same plan.

    Raises:
        ConfigurationError: no such family.
    """
    for name in plan.families or FAMILIES:
        if name not in FAMILIES:
            raise ConfigurationError(f"no family is called {name}", hint=f"there are {', '.join(FAMILIES)}")
        keys = FAMILIES[name].keys(plan.arch)
        if name == "tensor":
            yield from _tensor_pieces(plan, keys)
            continue
        size = plan.size if FAMILIES[name].size else 0
        for seed in range(plan.seed, plan.seed + plan.rounds):
            yield from (Piece(plan.arch, name, key, seed, size) for key in keys)


def _tensor_pieces(plan: FidelityPlan, keys: Sequence[str]) -> Iterator[Piece]:
    """Alike many outputs of each form, in tasks of alike many."""
    forms = tensor_forms(plan.arch)
    share = -(-plan.outputs // len(keys))
    for key in keys:
        kinds, outputs = len(forms[key].cases), forms[key].outputs
        tiles = max(1, min(_TASK_OUTPUTS, share) // (kinds * outputs))
        for number in range(-(-share // (tiles * kinds * outputs))):
            yield Piece(plan.arch, "tensor", key, plan.seed + number, tiles)


def run_fidelity(
    plan: FidelityPlan,
    journal: Journal,
    execute: Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[TaskDone[Any, Any]]],
    *,
    tell: Callable[[Fidelity], None] = lambda _: None,
) -> Fidelity:
    """Compare what an open journal does not hold yet, and count all of it.

    Args:
        execute: where pieces run, as `wmmadiag.campaign.cluster.answers` of a client does.
        tell: told of progress, often.
    """
    found, done = Fidelity(plan), set()
    wanted = set(pieces(plan))
    for record in journal.records():
        earlier = held(record, "fidelity", Compared)
        if earlier is not None and earlier.piece in wanted and earlier.piece not in done:
            done.add(earlier.piece)
            found.add(earlier)
    for answer in execute(compared, (piece for piece in pieces(plan) if piece not in done)):
        if answer.answer is None:
            found.errors[answer.work] = answer.error
        else:
            found.add(answer.answer)
            journal.append({"fidelity": msgspec.to_builtins(answer.answer)})
        tell(found)
    return found
