"""What a bundle's manifest holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORMAT = "wmmadiag-bundle"
VERSION = 2
MANIFEST, RUN = "bundle.json", "run.json"


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """How the check was asked for, as keyword arguments of `wmmadiag.check`; without paths."""

    arch: str
    cases: tuple[str, ...]
    variants: tuple[str, ...]
    entry: str = ""
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = ""
    macros: Mapping[str, str | None] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    std: str = ""
    seed: int | None = None
    inputs: str = ""
    checks: str = "default"
    schedules: int = 0
    provenance: bool = False


@dataclass(frozen=True, slots=True)
class StoredCompilation:
    """One compiled source."""

    source: str  # its path in the bundle
    # macros, expressions, std: what it was compiled with
    macros: Mapping[str, str | None]
    expressions: tuple[str, ...]
    std: str
    ptx: str  # path of the PTX in the archive
    record: dict[str, Any]  # entries, notes and log, as `wmmadiag.compile.records` has them


@dataclass(frozen=True, slots=True)
class InputHash:
    """SHA-256 of one drawn input's bytes, in C order."""

    case: str
    variant: str
    role: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of a bundle but its files."""

    format: str
    version: int
    card: str  # path of the card among `files`
    options: BundleOptions
    files: Mapping[str, str]  # path → SHA-256 of the card, the sources and their headers
    compilations: tuple[StoredCompilation, ...]
    inputs: tuple[InputHash, ...]
    versions: Mapping[str, str] = field(default_factory=dict)  # of what made it, by name


def stored_key(
    source: str, macros: Mapping[str, str | None], expressions: tuple[str, ...], std: str
) -> tuple[Any, ...]:
    """What tells the compilations of one bundle apart."""
    return source, tuple(sorted((name, value or "") for name, value in macros.items())), expressions, std
