"""The rules of fragment loads and stores that compilers do not check.

The PTX ISA wants pointers aligned to 32 bytes and leading dimensions that are multiples of 16 bytes. A leading
dimension that is none is mostly not refused by the chip: it cuts addresses to what it can read, so that lines come
from elsewhere. A shared array is only as aligned as its declaration says, `__shared__ half` to 2 bytes; where it lies
is the compiler's choice, and one that places it unluckily makes a kernel that dies.

(That all lanes pass the same pointer and leading dimension, that all 32 run, and that the operand is in shared or
global memory, is checked in every run. Fragments that are used before they were set: see `uninitialised`. Stores that
the compiler deleted: see the notes of a compilation. Footprints that leave their array: see `memory`.)

Bad:
    __shared__ half tile[16][20];                      // 40 bytes from row to row, on a 2-byte boundary
    wmma::load_matrix_sync(a, &tile[0][0], 20);

Good:
    __shared__ __align__(32) half tile[16][24];
    wmma::load_matrix_sync(a, &tile[0][0], 24);
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from wmmadiag.checks.array_bases import accessed_arrays
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.emulator.decoded import SPACES, Decoded
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.fragments import memory_access
from wmmadiag.fragments.map import ELEMENT_BITS
from wmmadiag.fragments.memory_access import FragmentAccess
from wmmadiag.ptx.meaning import meaning

_LDM_BYTES = 16  # PTX ISA, wmma.load: "stride must be a multiple of 16 bytes"
_SAFE_BYTES = 16  # no fragment access needs more than this on any chip that was measured
_MATRIX_ROW = 16  # of ldmatrix and stmatrix, bytes


def _rule(node: Decoded, space: str) -> tuple[str, int, FragmentAccess]:
    """(matrix, element bits, how the chip reaches memory) of a fragment load or store, from its modifiers."""
    matrix, type_, layout, shape = itemgetter("matrix", "type", "layout", "shape")(meaning(node.text).attributes)
    return matrix, ELEMENT_BITS[type_], memory_access(shape, matrix, type_, layout, space)


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding for a leading dimension or an alignment against the rules."""
    node = context.kernel.nodes[raw["pc"]]
    if raw["kind"] == "ldm":
        return _ldm(raw, context, node)
    if raw["kind"] == "alignment":
        return _alignment(raw, context, node)
    return None


def _ldm(raw: Raw, context: Context, node: Decoded) -> Finding | None:
    ldm = int(raw["other_pc"])
    matrix, bits, rule = _rule(node, str(raw["space"]))
    if ldm * bits % (8 * _LDM_BYTES) == 0:
        return None
    where = user_line(context, raw["pc"])
    step = 8 * _LDM_BYTES // bits
    cut = rule.ldm_unit > 1 and ldm % rule.ldm_unit != 0
    consequence = (
        f"the chip cuts addresses to {rule.ldm_unit * bits // 8} bytes: lines come from elsewhere"
        if cut
        else "undefined by the PTX ISA; this chip reads what was meant"
    )
    return Finding(
        check="wmma",
        kind="leading-dimension",
        level=Level.ERROR if cut else Level.WARNING,
        message=f"leading dimension {ldm} of matrix {matrix} is no multiple of {step} elements (16 bytes)",
        place=where,
        count=int(raw["count"]),
        detail=(consequence, f"first seen: {thread_name(context, raw['block'], raw['warp'])}, {node.text}"),
        hint=f"pad the rows to {-(-ldm // step) * step} elements, in the declaration and in every access",
    )


def _alignment(raw: Raw, context: Context, node: Decoded) -> Finding | None:
    alignment = int(raw["other_pc"])
    if alignment >= _SAFE_BYTES:
        return None
    matrix, _, rule = _rule(node, str(raw["space"]))
    where = user_line(context, raw["pc"])
    return Finding(
        check="wmma",
        kind="pointer-alignment",
        level=Level.WARNING,
        message=f"the pointer to matrix {matrix} is aligned to less than {_SAFE_BYTES} bytes; the PTX ISA asks for 32",
        place=where,
        count=int(raw["count"]),
        detail=(
            f"aligned to {alignment} bytes; what was measured on a chip needs {rule.granule} here, so it works there",
            f"first seen: {thread_name(context, raw['block'], raw['warp'])}, {node.text}",
        ),
        hint="align the array and every tile's first element to 32 bytes",
    )


def needed_alignment(node: Decoded) -> int:
    """Bytes to which the address of an access must be aligned, or it faults."""
    if node.op in ("wmma.load", "wmma.store"):
        space = next(name for name, number in SPACES.items() if number == node.space)
        return _rule(node, space)[2].granule
    if node.op in ("ldmatrix", "stmatrix"):
        return _MATRIX_ROW
    if node.op in ("ld", "st"):
        return node.bytes * max(node.count, 1)
    return node.bytes if node.op == "cp.async" else 1


def inspect(context: Context) -> Sequence[Finding]:
    """One finding for all shared arrays whose declaration promises less alignment than their accesses need."""
    short: dict[str, tuple[int, int, int]] = {}  # array: declared, needed, pc
    for pc, placed in accessed_arrays(context.kernel).items():
        node = context.kernel.nodes[pc]
        needed = needed_alignment(node)
        if node.op not in ("wmma.load", "wmma.store", "ldmatrix", "stmatrix") or needed <= placed.variable.align:
            continue
        name = MemoryExtent(placed.variable.name, "shared", placed.address, placed.variable.size).label
        if name not in short or short[name][1] < needed:
            short[name] = (placed.variable.align, needed, pc)
    if not short:
        return ()
    first = min(short.values(), key=lambda one: user_line(context, one[2]).line)
    names = ", ".join(sorted(short))
    are = "are" if len(short) > 1 else "is"
    return (
        Finding(
            check="wmma",
            kind="declared-alignment",
            level=Level.WARNING,
            message=f"{names} {are} declared with less alignment than their matrix loads need: right only by placement",
            place=user_line(context, first[2]),
            detail=tuple(
                f"{name}: declared {declared} byte{'s' * (declared > 1)}, "
                f"line {user_line(context, pc).line} faults below {needed}"
                for name, (declared, needed, pc) in sorted(short.items())
            ),
            hint="declare them __align__(32)",
        ),
    )


CHECK = Check(
    name="wmma",
    summary="pointer alignment, as it is and as it is declared, and leading dimensions of fragments",
    levels={
        Level.ERROR: "the chip reads or writes lines from elsewhere",
        Level.WARNING: "undefined, or right only by the compiler's placement; harmless in this run",
    },
    cost="low",
    default=True,
    native=("accesses",),
    describe=describe,
    inspect=inspect,
)
