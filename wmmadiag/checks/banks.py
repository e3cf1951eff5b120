"""Accesses that cost more than they need: bank conflicts in shared memory, sectors in global memory. Never an error.

Counted in the first blocks, request by request. Shared memory serves 32 words of 4 bytes from 32 banks in one pass;
lanes that want different words of one bank wait for each other. Requests of 8 and 16 bytes per lane go in two and four
parts, fragments from shared memory in rows of 16 bytes, 8 at a time. Global memory moves sectors of 32 bytes.
Fragment stores are left out: the order of their lanes is not documented.

Bad:
    __shared__ float tile[32][32];
    sum += tile[threadIdx.x][k];                  // a column: 32 words of one bank, 32 passes

Good:
    __shared__ float tile[32][33];
"""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import user_line
from wmmadiag.checks.registry import Check, Context, Raw

_WORTH_SAYING = 2.0
"""Times the passes or sectors that would do, from which on an access is named."""


def describe(raw: Raw, context: Context) -> Finding | None:
    """Advice about one instruction in one block."""
    taken, needed = raw["values"]
    if needed == 0 or taken < _WORTH_SAYING * needed:
        return None
    requests = int(raw["count"])
    # Without the calls that led there: a helper that is called from many places is one line to mend.
    where = replace(user_line(context, raw["pc"]), inlined_at=None)
    shared = raw["kind"] == "shared"
    unit = "passes" if shared else "sectors of 32 bytes"
    node = context.kernel.nodes[raw["pc"]]
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


CHECK = Check(
    name="banks",
    summary="bank conflicts and uncoalesced accesses, by source line",
    levels={Level.ADVICE: "at least twice the passes or sectors that would do, in the first blocks"},
    cost="low",
    default=False,
    native=("banks",),
    describe=describe,
)
