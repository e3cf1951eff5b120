"""A card in the making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.hostcode.values import Value
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.guess import DraftParameter

TODO = "TODO"


@dataclass(slots=True)
class DraftArgument:
    """One argument of the drafted card; TODO where nothing suggests a value."""

    parameter: DraftParameter
    passed: Value | None = None  # what host code gives for it, None where nobody does
    role: str = ""
    value: str = ""
    dtype: str = TODO
    reason: str = ""
    size: str = ""
    initial: str = ""
    direction: str = ""
    layout: str = ""
    pad: Mapping[str, str] = field(default_factory=dict)  # letter of an axis → elements left free behind each run of it
    ignored: str = ""  # what its name means that the operation computes with, where nothing reads it


About: TypeAlias = Literal["instantiation", "type", "operation", "role", "storage", "value", "launch"]
"""What something open is about; what stands further left decides about what is further right."""


@dataclass(frozen=True, slots=True)
class Open:
    """Something that a draft could not find out."""

    what: str  # it is: "grid", "the role of 'x'"
    why: str  # nothing tells
    about: About
    option: str = ""  # of the command line that would say it, "" where only a card can


@dataclass(slots=True)
class CardDraft:
    """A card in the making."""

    entry: str
    operation: str
    arguments: list[DraftArgument] = field(default_factory=list)
    grid: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)
    shared: str = "0"
    open: list[Open] = field(default_factory=list)  # what is still to be filled in
    remarks: list[str] = field(default_factory=list)  # assumptions that the user should confirm, each a clause
    # of what the assumptions are about that the host code itself shows: "operation", "storage", "sizes"
    stated: set[str] = field(default_factory=set)
    fixed: dict[str, str] = field(default_factory=dict)  # symbols that constants of the source determine
    # host symbols that stay as they are: the kernel's own code names them, too
    constant: frozenset[str] = frozenset()
    usual: dict[str, Number] = field(default_factory=dict)  # symbols with the values that host code gives them
    # conditions under which the host code makes the launch, over the card's symbols
    facts: list[tuple[Term, bool]] = field(default_factory=list)
    equal: list[set[str]] = field(default_factory=list)  # symbols that are one number
    tiles: dict[str, list[int]] = field(default_factory=dict)  # symbol → numbers that it is divided by
    steps: dict[str, int] = field(default_factory=dict)  # symbol → what the kernel itself steps through it by
    strides: dict[str, int] = field(default_factory=dict)  # symbol → how many of it a block's threads take at a time
    # symbols that the kernel compares indices with, with what these are multiples of: so are its sizes
    guarded: dict[str, int] = field(default_factory=dict)
    rounded_up: set[str] = field(default_factory=set)  # symbols that the grid rounds up and no line guards
    # parameters of the operation that the signature or the source tells
    computes: dict[str, str] = field(default_factory=dict)
    # symbols that nothing tells, with their meaning: a drafted value is a mere example
    unstated: dict[str, str] = field(default_factory=dict)
    switched: list[str] = field(default_factory=list)  # flags that are on by their names alone, each a clause
    other_shape: CardDraft | None = None  # of the same kernel, in another shape in which host code launches it, too
    varied: frozenset[str] = frozenset()  # symbols that are other numbers there, sizes of blocks for one

    def holding(self, role: str) -> DraftArgument | None:
        """The argument that has a role."""
        return next((one for one in self.arguments if one.role == role), None)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user said on the command line, or what is to be tried; empty for what is to be derived."""

    grid: Sequence[str] = ()
    block: Sequence[str] = ()
    shared: str = ""
    symbols: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)  # of roles of which nothing tells which axes they have
    hides: bool | None = None  # whether what is not 0 in a mask hides; None where nobody says


def is_input(result: CardDraft, role: str | None) -> bool:
    """Whether a role is none that the kernel computes."""
    known = OPERATIONS[result.operation].roles.get(role or "")
    return known is None or not known.output
