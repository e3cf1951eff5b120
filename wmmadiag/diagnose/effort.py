"""How much work a diagnosis may be: counted in changes and in warp instructions, never in seconds.

The same effort gives the same answer on an idle machine, on a busy one, and on another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wmmadiag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search may use."""

    name: str
    changes: int  # of the source, to try on the failing case
    instructions: int  # emulated warp instructions of these trials
    confirmed: int  # changes that are right on the failing case, to run on every case with all checks
    bugs: int  # that may lie in one source
    checked: int  # changes to run with all checks, where only a check shows what is wrong
    singles: int  # changes to compile one by one, of a source that does not compile
    pairs: int  # of changes to make at once, where no single one helps
    filled: int  # what may stand at places, where no operator's change mends anything
    wider: int  # changes of the second round, where none of the first one helps


EFFORTS: Mapping[str, Effort] = {
    one.name: one
    for one in (
        Effort("quick", 768, 100_000_000, 4, 1, 12, 8, 0, 0, 0),
        Effort("normal", 16384, 800_000_000, 8, 2, 96, 24, 1536, 24576, 8192),
        Effort("thorough", 65536, 10_000_000_000, 24, 3, 128, 96, 8192, 98304, 32768),
    )
}
DEFAULT = "normal"


def effort_named(name: str) -> Effort:
    """An effort by its name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if name not in EFFORTS:
        raise ConfigurationError(f"no effort is called '{name}'", hint=f"there are {', '.join(EFFORTS)}")
    return EFFORTS[name]
