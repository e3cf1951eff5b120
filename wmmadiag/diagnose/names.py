"""The names that causes have: told from what was changed, once the change is known. The only place that names causes.

A name is a class of mistakes that people know, with a page in `docs/causes.md`, made of this table. It follows from the
role of what the change is about, or from what the change does; never from what the kernel computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.changes import Change


@dataclass(frozen=True, slots=True)
class Name:
    """A class of mistakes."""

    id: str  # stable, as reports and exit conditions have it
    title: str  # what is wrong, one clause
    help: str  # what it means, and how it comes about
    # of changed nodes, see `operators.roles`; operators: whose changes it names whatever the role
    roles: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


ORDERS = ("barrier", "warp barrier", "fence", "commit", "wait", "arrive", "count")
"""Roles of what orders accesses, and of what it counts."""
TARGETS = ("target", "assembly operand", "fragment")
"""Roles of what says where a value goes; who reads it could look elsewhere as well."""
NAMES: Sequence[Name] = (
    Name(
        "missing-order",
        "nothing orders two accesses, or not enough",
        "A barrier, fence, commit or wait is missing, too weak, or waits for too little: a thread reads what another"
        " one has not written yet, or writes what another one still reads.",
        ORDERS,
    ),
    Name(
        "leading-dimension",
        "a fragment is loaded or stored with a wrong leading dimension",
        "The third argument of `load_matrix_sync` and `store_matrix_sync` is the distance of rows (or columns) in"
        " elements, padding included.",
        ("leading dimension",),
    ),
    Name(
        "layout",
        "a fragment or tile is read or written in the wrong order",
        "`row_major` and `col_major` say how the matrix lies in memory; Kᵀ is read from rows of K as `col_major`."
        " `ldmatrix` has `.trans` for it.",
        ("layout",),
    ),
    Name(
        "element-type",
        "memory is read, written or summed as another type",
        "A pointer cast, a fragment of another type, or an accumulator that is too narrow.",
        ("type",),
    ),
    Name(
        "memory-layout",
        "a size, pitch or alignment is wrong",
        "The extent of an array or tensor, its padding, its alignment, or where one begins in a buffer.",
        ("extent", "dimension", "alignment"),
    ),
    Name(
        "stride",
        "an index has a wrong stride",
        "A row, head or batch begins elsewhere: the factor of an index is another extent than the tensor's.",
        ("pitch",),
    ),
    Name(
        "index",
        "an index or address is wrong",
        "An element, tile, buffer, warp or block index is computed from the wrong parts.",
        ("index", "offset", "coordinate", "array", "object", "divisor", "pointer", "fragment", "shuffle", "target"),
    ),
    Name(
        "loop-extent",
        "a loop does not go where it should",
        "It begins, ends or steps wrongly, so that terms are left out, repeated, or taken from elsewhere.",
        ("loop bound", "loop start", "loop step", "loop"),
    ),
    Name(
        "condition",
        "a condition is wrong",
        "A guard, mask or branch lets through what it should not, or keeps out what belongs.",
        ("condition", "bound", "compared", "mask", "branch"),
    ),
    Name(
        "accumulation",
        "a sum is begun, kept or added to wrongly",
        "An accumulator that is not cleared, cleared too often, overwritten where it should be added to, or not carried"
        " from one step to the next.",
        ("accumulation",),
        ("initial", "rescaled", "scaled", "set_beside"),
    ),
    Name(
        "copy-size",
        "an asynchronous copy moves the wrong number of bytes",
        "`cp.async` copies 4, 8 or 16 bytes per thread; what is not copied keeps its old content.",
        ("copied bytes",),
    ),
    Name(
        "instruction",
        "an instruction is not the one that is meant",
        "An immediate, a modifier or an operand of inline assembly.",
        ("immediate", "assembly operand", "assembly"),
    ),
    Name(
        "launch",
        "the launch does not fit the kernel",
        "Grid, block or dynamic shared memory are not what the kernel is written for.",
        ("launch",),
    ),
    Name(
        "statement",
        "a statement is missing, stands in the wrong place, or is one too many",
        "Something is not done, done too often, too early, or too late.",
        ("statement", "assignment", "call", "declaration", "block", "return", "jump"),
    ),
    Name(
        "value",
        "a value is computed wrongly",
        "A factor, term, operand or function of the arithmetic is another one than it should be.",
        ("factor", "term", "denominator", "value", "initial value", "argument", "constant", "template argument"),
    ),
)

UNKNOWN = Name(
    "unknown",
    "wrong, and no change that was tried mends it",
    "What was seen, and what was tested and is not the cause, is listed.",
)
REFUSED = Name(
    "refused",
    "the compiler, ptxas or the launch refuses the kernel",
    "What it says is the proof.",
)
FAULT = Name(
    "fault",
    "the launch dies",
    "An access outside its array, a misaligned address, a trap, a barrier that not all threads reach, or no end.",
)
_BY_ROLE: Mapping[str, Name] = {role: name for name in NAMES for role in name.roles}
_BY_OPERATOR: Mapping[str, Name] = {operator: name for name in NAMES for operator in name.operators}
_BY_ID: Mapping[str, Name] = {name.id: name for name in NAMES}
_OPEN = frozenset({"value", "statement", "memory-layout"})
"""Names that say least: what the change does says more."""
_SHOWN: Mapping[str, str] = {"access": "index", "barrier": "missing-order"}


def every_name() -> tuple[Name, ...]:
    """All names, in the order of the page."""
    return (*NAMES, REFUSED, FAULT, UNKNOWN)


def puts_in_order(change: Change) -> bool:
    """Whether a change puts in what orders accesses, and nothing else."""
    return change.kind == "insertion" and change.role in ORDERS


def name_of(change: Change, shown: str = "") -> Name:
    """The name of what a change mends.

    Args:
        shown: what first differs between broken and mended run, `sidebyside.Difference.what`; "" for nothing.
    """
    known = _BY_OPERATOR.get(change.operator) or _BY_ROLE.get(change.role, _BY_ID["value"])
    # What a number is for shows in what it does: one that leads to other elements is part of an address.
    return _BY_ID[_SHOWN[shown]] if known.id in _OPEN and shown in _SHOWN else known
