"""Bulk copies without tensor maps, and stores that an mbarrier counts.

Source: PTX ISA 9.x, "cp.async.bulk", "st.async".
"""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_SINCE = "8.0 sm_90"
_COUNTED = "mbarrier::complete_tx::bytes"
_POLICY = "policy{.L2::cache_hint}:b64"
_TYPES = "b32 b64 u32 u64 s32 s64 f32 f64"

ROWS = (
    *(
        form(f"cp.async.bulk.{to}.{source}.{_COUNTED}{hint} [dst], [src], size:u32, [mbar]{policy}", op="cp.async.bulk",
             defaults={"to": "shared", "from": source.partition("::")[0]}, since=_SINCE)
        for to, source, hint, policy in (
            ("shared::cluster", "global", "{.L2::cache_hint}", f", {_POLICY}"),
            ("shared::cta", "global", "{.L2::cache_hint}", f", {_POLICY}"),
            ("shared::cluster", "shared::cta", "", ""),
        )
    ),
    form(f"cp.async.bulk.global.shared::cta.bulk_group{{.L2::cache_hint}} [dst], [src], size:u32, {_POLICY}",
         op="cp.async.bulk", defaults={"to": "global", "from": "shared"}, since=_SINCE),
    form("cp.async.bulk.commit_group", op="cp.async.bulk.commit_group", since=_SINCE),
    form("cp.async.bulk.wait_group{.read} n:u32", op="cp.async.bulk.wait_group", since=_SINCE),
    form(f"st.async{{.weak}}.shared::cluster.{_COUNTED}.type [addr], b, [mbar]", op="st.async",
         defaults={"space": "shared"}, type=_TYPES, since="8.1 sm_90"),
    form(f"st.async{{.weak}}.shared::cluster.{_COUNTED}.vec.type [addr], b:type*vec, [mbar]", op="st.async",
         defaults={"space": "shared"}, vec="v2 v4", type=_TYPES, since="8.1 sm_90"),
)  # fmt: skip
