"""Accesses that cost more than they need: bank conflicts in shared memory, sectors in global memory. Never an error.

Counted in the first blocks, request by request. Shared memory serves 32 words of 4 bytes from 32 banks in one pass;
lanes that want different words of one bank wait for each other. Requests of 8 and 16 bytes per lane go in two and four
parts. Fragment loads and stores count as the instructions that the assembler makes of them, which `wmmadiag fragment`
draws. Global memory moves sectors of 32 bytes; fragments are left out there.

Bad:
    __shared__ float tile[32][32];
    sum += tile[threadIdx.x][k];                  // a column: 32 words of one bank, 32 passes

Good:
    __shared__ float tile[32][33];
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from operator import itemgetter

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.fragments import ELEMENT_BITS, memory_access, wmma_map
from wmmadiag.fragments.memory_access import footprint
from wmmadiag.fragments.shared_requests import fragment_requests
from wmmadiag.ptx.meaning import meaning

_WORTH_SAYING = 2.0
"""Times the passes or sectors that would do, from which on an access is named."""


def describe(raw: Raw, context: Context) -> Finding | None:
    """Advice about one instruction in one block."""
    node = context.kernel.nodes[raw["pc"]]
    fragment = raw["kind"] == "fragment"
    taken, needed = _fragments(raw, node.text, context.kernel.arch) if fragment else raw["values"]
    if needed == 0 or taken < _WORTH_SAYING * needed:
        return None
    requests = int(raw["count"])
    # Without the calls that led there: a helper that is called from many places is one line to mend.
    where = replace(user_line(context, raw["pc"]), inlined_at=None)
    shared = fragment or raw["kind"] == "shared"
    unit = "passes" if shared else "sectors of 32 bytes"
    return Finding(
        check="banks",
        kind="bank-conflicts" if shared else "uncoalesced",
        level=Level.ADVICE,
        message=f"line {where.line} takes more {unit} than it needs",
        place=where,
        count=requests,
        detail=(f"{taken / requests:.3g} {unit} per request where {needed / requests:.3g} would do ({node.text})",),
        hint="pad the rows or swizzle the columns, so that lanes fall into different banks"
        if shared
        else "let neighbouring lanes read neighbouring addresses",
    )


def _fragments(raw: Raw, text: str, arch: str) -> tuple[int, int]:
    """(passes taken, passes needed) of the loads or stores of one instruction."""
    seen = [int(value) for value in raw["values"]]
    taken = needed = 0
    for base, step, count in zip(seen[0::3], seen[1::3], seen[2::3], strict=True):
        each = _passes(text, arch, base, step)
        taken += count * each[0]
        needed += count * each[1]
    return taken, needed


@cache
def _passes(text: str, arch: str, base: int, step: int) -> tuple[int, int]:
    """(passes taken, passes needed) of one load or store; `step` is bytes from one line to the next."""
    matrix, type_, layout, shape = itemgetter("matrix", "type", "layout", "shape")(meaning(text).attributes)
    fragment = wmma_map(shape, matrix, type_, arch)
    where = footprint(
        fragment, layout, step * 8 // ELEMENT_BITS[type_], memory_access(shape, matrix, type_, layout, "shared")
    )
    requests = fragment_requests(fragment, where, matrix, layout, base)
    passes = [int(counts.max()) for request in requests for counts in request.passes()]
    return sum(passes), len(passes)


CHECK = Check(
    name="banks",
    summary="bank conflicts and uncoalesced accesses, by source line",
    levels={Level.ADVICE: "at least twice the passes or sectors that would do, in the first blocks"},
    cost="low",
    default=False,
    native=("banks",),
    describe=describe,
)
