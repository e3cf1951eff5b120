"""Warp-wide exchange. Source: PTX ISA 9.x, "shfl.sync", "vote", "match", "redux", "elect"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_SYNC = {"sync": "1"}
_SHFL = "up down bfly idx"

ROWS = (
    form("shfl.sync.mode.b32 d|p?, a, b, c, mask:u32", op="shfl", defaults=_SYNC, mode=_SHFL),
    form("vote.sync.mode.pred d, a:pred, mask:u32", op="vote", defaults=_SYNC, mode="all any uni"),
    form("vote.sync.mode.b32 d, a:pred, mask:u32", op="vote", defaults=_SYNC, mode="ballot"),
    form("match.mode.sync.type d:b32, a, mask:u32", op="match", mode="any", type="b32 b64"),
    form("match.mode.sync.type d|p?:b32, a, mask:u32", op="match", mode="all", type="b32 b64"),
    form("redux.sync.operation.type d, a, mask:u32", op="redux", operation="add min max", type="u32 s32",
         since="7.0 sm_80"),
    form("redux.sync.operation.b32 d, a, mask:u32", op="redux", defaults={"type": "b32"}, operation="and or xor",
         since="7.0 sm_80"),
    form("redux.sync.operation{.abs}{.NaN}.f32 d, a, mask:u32", op="redux", defaults={"type": "f32"},
         operation="min max", since="8.6 sm_100"),
    form("elect.sync d|p:b32, mask:u32", op="elect", since="8.0 sm_90"),
    form("activemask.b32 d", op="activemask"),
)  # fmt: skip
