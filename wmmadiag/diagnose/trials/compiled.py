"""What changes are compiled to: programs with selectors, texts of their own, what the compiler refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.diagnose.changes import Change
from wmmadiag.emulator import EmulatedKernel

Kernels: TypeAlias = Mapping[str, EmulatedKernel]
"""The kernels of a program, by what `Prepared.entries` calls them."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program."""

    kernels: Kernels  # ready to be launched
    changes: Mapping[int, Change]  # by the number that selects them; none of a program of one text


@dataclass(slots=True)
class Batch:
    """What became of some changes."""

    programs: list[Program] = field(default_factory=list)  # with selectors; one, unless some changes cannot be together
    singles: list[Change] = field(default_factory=list)  # to be compiled on their own
    refused: list[tuple[Change, str]] = field(default_factory=list)  # (change, the compiler's message)
