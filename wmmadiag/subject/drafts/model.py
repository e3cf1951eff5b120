"""A card in the making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.guess import Parameter

TODO = "TODO"


@dataclass(slots=True)
class DraftArgument:
    """One argument of the drafted card; TODO where nothing suggests a value."""

    parameter: Parameter
    role: str = ""
    value: str = ""
    dtype: str = TODO
    reason: str = ""
    size: str = ""
    initial: str = ""
    direction: str = ""
    layout: str = ""


@dataclass(slots=True)
class Draft:
    """A card in the making.

    Attributes:
        open: what is still to be filled in, as (key, what is missing) pairs.
        remarks: assumptions that the user should confirm.
        fixed: symbols that constants of the source determine.
        numbers: the parameters that are no pointers.
        computes: parameters of the operation that the signature or the source tells.
        untold: symbols that nothing tells, with their meaning: a drafted value is a mere example.
        tail: whether the kernel seems to take lengths that are no multiple of its tile.
        square: the only sizes that the source launches a GEMM with, if its result is a square, "M = N = K = 1024".
    """

    entry: str
    operation: str
    arguments: list[DraftArgument] = field(default_factory=list)
    grid: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    shared: str = "0"
    open: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    fixed: dict[str, str] = field(default_factory=dict)
    numbers: list[Parameter] = field(default_factory=list)
    computes: dict[str, str] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)
    tail: bool = False
    square: str = ""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user said on the command line; empty for what is to be derived."""

    grid: Sequence[str] = ()
    block: Sequence[str] = ()
    shared: str = ""


def is_input(result: Draft, role: str | None) -> bool:
    """Whether a role is none that the kernel computes."""
    known = OPERATIONS[result.operation].roles.get(role or "")
    return known is None or not known.output
