"""The fault models that there are, found by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from wmmadiag.diagnose.faults.model import Candidate
from wmmadiag.diagnose.faults.problem import Problem

Propose: TypeAlias = Callable[[Problem], Iterator[Candidate]]


@dataclass(frozen=True, slots=True)
class FaultModel:
    """One family of changes.

    Attributes:
        name: of the function.
        operations: that it can change.
        rank: models of a lower rank are asked first, and win where two fit equally well: the plainer the lower.
        propose: its candidates for a run.
    """

    name: str
    operations: frozenset[str]
    rank: int
    propose: Propose


_FOUND: dict[str, FaultModel] = {}


def fault_model(*operations: str, rank: int) -> Callable[[Propose], Propose]:
    """Register a function that proposes candidates for runs of these operations.

    Raises:
        ValueError: another one has this name.
    """

    def register(propose: Propose) -> Propose:
        name = f"{propose.__module__.rpartition('.')[2]}.{propose.__name__}"
        if name in _FOUND:
            raise ValueError(f"two fault models are called {name}")
        _FOUND[name] = FaultModel(name, frozenset(operations), rank, propose)
        return propose

    return register


@cache
def all_fault_models() -> tuple[FaultModel, ...]:
    """Every model, in the order in which they are asked."""
    package = importlib.import_module("wmmadiag.diagnose.faults")
    for info in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{info.name}")
    return tuple(sorted(_FOUND.values(), key=lambda model: (model.rank, model.name)))
