"""Loads, stores, atomics, prefetch, address conversion. Source: PTX ISA 9.x, "Data Movement and Conversion".

Address spaces are written with their sub-space (`shared::cta`), which names the same memory without clusters.
"""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import Form, form

SPACES = "const global local param param::entry=param param::func=param shared shared::cta=shared"
SHARED = "shared shared::cta=shared"
SCOPE = "cta cluster gpu sys"
SEM = "relaxed acquire release acq_rel"
_SCALARS = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_GENERIC = {"space": "generic"}
_HINTS = {
    "evict": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "l2_evict": "L2::evict_normal L2::evict_first L2::evict_last",
    "l2_prefetch": "L2::64B L2::128B L2::256B",
}
_LD = {"sem": "weak relaxed acquire", "scope": SCOPE, "cache": "ca cg cs lu cv", **_HINTS}
_ST = {
    "sem": "weak relaxed release",
    "scope": SCOPE,
    "cache": "wb cg cs wt",
    "evict": _HINTS["evict"],
    "l2_evict": _HINTS["l2_evict"],
}
_LD_HEAD = "{.volatile}{.mmio}{.sem}{.scope}{.space}{.cache}{.nc}{.evict}{.l2_evict}{.l2_prefetch}{.L2::cache_hint}"
_ST_HEAD = "{.volatile}{.mmio}{.sem}{.scope}{.space}{.cache}{.evict}{.l2_evict}{.L2::cache_hint}"

_ATOM = "{.sem}{.scope}{.space}"
_ATOM_SPACES = "global shared shared::cta=shared"
_ORDER = {"sem": SEM, "scope": SCOPE, "space": _ATOM_SPACES}
_INTEGERS = "u32 s32 u64 s64"
# operation, types, further modifiers
_ATOMIC = (
    ("and or xor", "b32 b64", ""),
    ("exch", "b32 b64 u32 u64 s32 s64 f32", ""),
    ("exch", "b128", ""),
    ("add", f"{_INTEGERS} f32 f64", ""),
    ("add", "f16 f16x2 bf16 bf16x2", ".noftz"),
    ("inc dec", "u32", ""),
    ("min max", _INTEGERS, ""),
)


def _atomics() -> list[Form]:
    rows = []
    for operation, types, more in _ATOMIC:
        choices = {**_ORDER, "operation": operation, "type": types}
        noftz = {"noftz": "1"} if more else {}
        tail = f"{_ATOM}.operation{more}{{.L2::cache_hint}}.type"
        rows.append(form(f"atom{tail} d, [addr], b, policy?:b64", op="atom", defaults=_GENERIC | noftz, slots=choices))
        if "exch" not in operation:
            rows.append(form(f"red{tail} [addr], b, policy?:b64", op="red", defaults=_GENERIC | noftz, slots=choices))
    cas = {**_ORDER, "operation": "cas", "type": "b16 b32 b64 u32 u64 s32 s64 b128"}
    tail = f"{_ATOM}.operation{{.L2::cache_hint}}.type d, [addr], b, c, policy?:b64"
    rows.append(form(f"atom{tail}", op="atom", defaults=_GENERIC, slots=cas))
    for operation, types, vecs in (
        ("add", "f32", "v2 v4"),
        ("add min max", "f16 bf16", "v2 v4 v8"),
        ("add min max", "f16x2 bf16x2", "v2 v4"),
    ):
        choices = {**_ORDER, "operation": operation, "type": types, "vec": vecs}
        tail = f"{_ATOM}.operation{{.noftz}}{{.L2::cache_hint}}.vec.type"
        rows.append(
            form(
                f"atom{tail} d:type*vec, [addr], b:type*vec, policy?:b64",
                op="atom",
                defaults=_GENERIC,
                since="8.1 sm_90",
                slots=choices,
            )
        )
        rows.append(
            form(
                f"red{tail} [addr], b:type*vec, policy?:b64",
                op="red",
                defaults=_GENERIC,
                since="8.1 sm_90",
                slots=choices,
            )
        )
    return rows


ROWS = (
    form(
        f"ld{_LD_HEAD}.type d, [addr], policy?:b64",
        op="ld",
        defaults=_GENERIC,
        relaxed=True,
        space=SPACES,
        type=f"{_SCALARS} b128",
        slots=_LD,
    ),
    form(
        f"ld{_LD_HEAD}.vec.type d:type*vec, [addr], policy?:b64",
        op="ld",
        defaults=_GENERIC,
        relaxed=True,
        space=SPACES,
        vec="v2 v4 v8",
        type=_SCALARS,
        slots=_LD,
    ),
    form("ldu{.space}.type d, [addr]", op="ld", defaults=_GENERIC, relaxed=True, space="global", type=_SCALARS),
    form(
        "ldu{.space}.vec.type d:type*vec, [addr]",
        op="ld",
        defaults=_GENERIC,
        relaxed=True,
        space="global",
        vec="v2 v4",
        type=_SCALARS,
    ),
    form(
        f"st{_ST_HEAD}.type [addr], b, policy?:b64",
        op="st",
        defaults=_GENERIC,
        relaxed=True,
        space=SPACES,
        type=f"{_SCALARS} b128",
        slots=_ST,
    ),
    form(
        f"st{_ST_HEAD}.vec.type [addr], b:type*vec, policy?:b64",
        op="st",
        defaults=_GENERIC,
        relaxed=True,
        space=SPACES,
        vec="v2 v4 v8",
        type=_SCALARS,
        slots=_ST,
    ),
    *_atomics(),
    form(
        "prefetch{.space}.level [addr]",
        op="prefetch",
        defaults=_GENERIC,
        space="global local",
        level="L1 L2 L2::evict_last L2::evict_normal",
    ),
    form("prefetchu.level [addr]", op="prefetchu", level="L1"),
    form(
        "applypriority{.space}.level [addr], size:u32",
        op="applypriority",
        defaults=_GENERIC,
        space="global",
        level="L2::evict_normal",
    ),
    form("discard{.space}.level [addr], size:u32", op="discard", defaults=_GENERIC, space="global", level="L2"),
    form(
        "createpolicy.fractional.primary{.secondary}.b64 d, fraction?:f32",
        op="createpolicy",
        defaults={"kind": "fractional"},
        primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
        secondary="L2::evict_first L2::evict_unchanged",
    ),
    form(
        "createpolicy.range{.space}.primary{.secondary}.b64 d, [addr], primary_size:u32, total_size:u32",
        op="createpolicy",
        defaults={"kind": "range"},
        space="global",
        primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
        secondary="L2::evict_first L2::evict_unchanged",
    ),
    form("createpolicy.cvt.L2.b64 d, a", op="createpolicy", defaults={"kind": "cvt"}),
    form("cvta.space.type d, a", op="cvta", defaults={"to": "0"}, space=SPACES, type="u32 u64"),
    form("cvta.to.space.type d, a", op="cvta", defaults={"to": "1"}, space=SPACES, type="u32 u64"),
    form("isspacep.space d:pred, a:b64", op="isspacep", space=SPACES),
)
