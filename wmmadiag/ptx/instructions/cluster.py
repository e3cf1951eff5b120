"""Clusters of blocks: addresses in another block's shared memory, and the cluster's barrier.

Source: PTX ISA 9.x, "mapa", "getctarank", "barrier.cluster".
"""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_SINCE = "7.8 sm_90"
_SPACE = {"space": "shared::cluster=shared"}

ROWS = (
    form("mapa{.space}.type d, a, b:u32", op="mapa", defaults={"space": "generic"}, slots=_SPACE, type="u32 u64",
         since=_SINCE),
    *(
        form(f"getctarank{{.space}}.{kind} d:u32, a:{kind}", op="getctarank", defaults={"space": "generic"},
             slots=_SPACE, since=_SINCE)
        for kind in ("u32", "u64")
    ),
    form("barrier.cluster.arrive{.sem}{.aligned}", op="barrier.cluster.arrive", sem="release relaxed", since=_SINCE),
    form("barrier.cluster.wait{.sem}{.aligned}", op="barrier.cluster.wait", sem="acquire", since=_SINCE),
)  # fmt: skip
