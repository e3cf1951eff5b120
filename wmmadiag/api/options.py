"""What a user says besides the subject: options that `check`, `diagnosis`, `debug` and `open_card` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

if TYPE_CHECKING:
    from wmmadiag.subject.open_subject import SubjectOptions

Macros: TypeAlias = "Mapping[str, str | int | float | None]"
"""Name → value; None defines the bare name."""


class SubjectKeywords(TypedDict, total=False):
    """In place of what the card or the source says; what is left out stays as it is there.

    Attributes:
        entry: the kernel's name, or an instantiation: "attn<64>".
        computes: the operation, for a source that does not tell.
        grid, block: numbers or expressions over symbols, one per dimension; shared: bytes of dynamic shared memory.
        macros: over the card's and its variants'.
        symbols: such as {"S": 256}; they go into every case.
        include_paths: searched after the card's.
        std: the C++ standard, such as "c++20".
    """

    entry: str
    computes: str
    grid: Sequence[str | int]
    block: Sequence[str | int]
    shared: str | int
    macros: Macros | None
    symbols: Mapping[str, str | int | float] | None
    include_paths: Sequence[str | Path]
    std: str


def subject_options(
    *,
    entry: str = "",
    computes: str = "",
    grid: Sequence[str | int] = (),
    block: Sequence[str | int] = (),
    shared: str | int = "",
    macros: Macros | None = None,
    symbols: Mapping[str, str | int | float] | None = None,
    include_paths: Sequence[str | Path] = (),
    std: str = "",
) -> SubjectOptions:
    """The keywords as texts, which is what cards and command lines hold."""
    from wmmadiag.subject.open_subject import SubjectOptions

    return SubjectOptions(
        entry=entry,
        computes=computes,
        grid=tuple(map(str, grid)),
        block=tuple(map(str, block)),
        shared=str(shared),
        macros={name: "" if value is None else str(value) for name, value in (macros or {}).items()},
        symbols={name: str(value) for name, value in (symbols or {}).items()},
        include_paths=tuple(Path(path) for path in include_paths),
        std=std,
    )
