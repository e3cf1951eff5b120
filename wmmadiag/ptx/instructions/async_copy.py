"""Non-bulk cp.async. Source: PTX ISA 9.x, "Data Movement: Asynchronous copy"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import Form, form
from wmmadiag.ptx.instructions.memory import SHARED

_OWN = "shared shared::cta=shared"
"""The block's own: ptxas takes no other one's (13.5)."""
_PREFETCH = "L2::64B L2::128B L2::256B"


def _copies(cache: str, sizes: tuple[int, ...]) -> tuple[Form, ...]:
    head = "cp.async.cache.space.global{.L2::cache_hint}{.l2_prefetch} [dst], [src], size:u32"
    slots = {"cache": cache, "space": _OWN, "l2_prefetch": _PREFETCH}
    policy = ", policy{.L2::cache_hint}:b64"
    return tuple(
        form(head + rest, op="cp.async", values={"size": sizes}, since="7.0 sm_80", slots=slots)
        for rest in (policy, f", src_size:u32{policy}", f", ignore:pred{policy}")
    )


ROWS = (
    *_copies("ca", (4, 8, 16)),
    *_copies("cg", (16,)),
    form("cp.async.commit_group", op="cp.async.commit_group", since="7.0 sm_80"),
    form("cp.async.wait_group n:u32", op="cp.async.wait_group", since="7.0 sm_80"),
    form("cp.async.wait_all", op="cp.async.wait_all", since="7.0 sm_80"),
    form("cp.async.mbarrier.arrive{.noinc}{.space}.b64 [addr]", op="cp.async.mbarrier.arrive",
         defaults={"space": "generic"}, since="7.0 sm_80", space=SHARED),
)  # fmt: skip
