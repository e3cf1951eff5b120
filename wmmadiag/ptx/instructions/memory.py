"""Loads, stores, atomics, prefetch, address conversion. Source: PTX ISA 9.x, "Data Movement and Conversion".

Address spaces are written with their sub-space (`shared::cta`, `shared::cluster`): an address in shared memory says
whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.ptx.instructions.form import Form, form

SPACES = (
    "const global local param param::entry=param param::func=param shared shared::cta=shared shared::cluster=shared"
)
SHARED = "shared shared::cta=shared shared::cluster=shared"
SCOPE = "cta cluster gpu sys"
_WINDOWS = "const global local param param::entry=param shared shared::cta=shared shared::cluster=shared"
_STORED = "global local param param::func=param shared shared::cta=shared shared::cluster=shared"
_SCALARS = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_GENERIC = {"space": "generic"}
_POLICIES = "7.4 sm_80"
_POLICY = "policy{.L2::cache_hint}:b64"

_L1_EVICT = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
_L2_EVICT = "L2::evict_normal L2::evict_first L2::evict_last"
_L2_PREFETCH = "L2::64B L2::128B L2::256B"
_PRIMARY = "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"
_SECONDARY = "L2::evict_first L2::evict_unchanged"

# vector sizes, element types, since
_SIZES = (
    ("", f"{_SCALARS} b128", ""),
    ("v2", _SCALARS, ""),
    ("v4", "b8 b16 b32 u8 u16 u32 s8 s16 s32 f32", ""),
    ("v4", "b64 u64 s64 f64", "8.8 sm_100"),
    ("v8", "b32 u32 s32 f32", "8.8 sm_100"),
)

# What stands between the opcode and the vector size, the words for it, and the attribute that the row sets.
_HINTS = "{.evict}{.l2_evict}"
_LOAD_HINTS = f"{_HINTS}{{.L2::cache_hint}}{{.l2_prefetch}}"
_STORE_HINTS = f"{_HINTS}{{.L2::cache_hint}}"
_STORE_WORDS = {"space": _STORED, "evict": _L1_EVICT, "l2_evict": _L2_EVICT}
_LOAD_WORDS = {**_STORE_WORDS, "space": SPACES, "l2_prefetch": _L2_PREFETCH}
_SYSTEM = {"scope": "sys", "space": "global"}
_LOADS = (
    (f"ld{{.weak}}{{.space}}{{.cache}}{_LOAD_HINTS}", {**_LOAD_WORDS, "cache": "ca cg cs lu cv"}, ""),
    ("ld.volatile{.space}{.l2_prefetch}", {"space": SPACES, "l2_prefetch": _L2_PREFETCH}, "volatile"),
    (f"ld.sem.scope{{.space}}{_LOAD_HINTS}", {**_LOAD_WORDS, "sem": "relaxed acquire", "scope": SCOPE}, ""),
    ("ld.mmio.sem.scope{.space}", {**_SYSTEM, "sem": "relaxed"}, "mmio"),
    (f"ld.space{{.cache}}.nc{_LOAD_HINTS}", {**_LOAD_WORDS, "cache": "ca cg cs", "space": "global"}, "nc"),
)
_STORES = (
    (f"st{{.weak}}{{.space}}{{.cache}}{_STORE_HINTS}", {**_STORE_WORDS, "cache": "wb cg cs wt"}, ""),
    ("st.volatile{.space}", {"space": _STORED}, "volatile"),
    (f"st.sem.scope{{.space}}{_STORE_HINTS}", {**_STORE_WORDS, "sem": "relaxed release", "scope": SCOPE}, ""),
    ("st.mmio.sem.scope{.space}", {**_SYSTEM, "sem": "relaxed"}, "mmio"),
)


def _accesses() -> Iterator[Form]:
    for op, operands, heads in (("ld", "d{}, [addr], {}", _LOADS), ("st", "[addr], b{}, {}", _STORES)):
        for head, slots, attribute in heads:
            policy = _POLICY if "cache_hint" in head else ""
            fixed = {**_GENERIC, **({attribute: "1"} if attribute else {})}
            for sizes, types, since in _SIZES[:1] if attribute == "mmio" else _SIZES:
                choices = {**slots, "type": types, **({"vec": sizes} if sizes else {})}
                vec, count = (".vec", ":type*vec") if sizes else ("", "")
                listed = operands.format(count, policy).rstrip(", ")
                syntax = f"{head}{vec}.type {listed}"
                yield form(syntax, op=op, defaults=fixed, relaxed=True, since=since, slots=choices)


# operation, types, further modifiers
_ATOMIC = (
    ("and or xor", "b32 b64", ""),
    ("exch", "b32 b64", ""),
    ("exch", "b128", ""),
    ("add", "u32 s32 u64 f32 f64", ""),
    ("add", "f16 f16x2 bf16 bf16x2", ".noftz"),
    ("inc dec", "u32", ""),
    ("min max", "u32 s32 u64 s64", ""),
)
# operation, types, further modifiers, vector sizes
_ATOMIC_VECTORS = (
    ("add", "f32", "", "v2 v4"),
    ("add min max", "f16 bf16", ".noftz", "v2 v4 v8"),
    ("add min max", "f16x2 bf16x2", ".noftz", "v2 v4"),
)


def _atomics() -> Iterator[Form]:
    orders = {"atom": "relaxed acquire release acq_rel", "red": "relaxed release"}
    for op, sem in orders.items():
        result = "d, " if op == "atom" else ""
        words = {"sem": sem, "scope": SCOPE}
        # The order may be left out (relaxed), and the scope too (gpu).
        head = f"{op}{{.sem}}{{.scope}}{{.space}}.operation"
        scalar = {**words, "space": f"global {SHARED}"}
        for operation, types, more in _ATOMIC:
            if op == "atom" or operation != "exch":
                slots = {**scalar, "operation": operation, "type": types}
                fixed = {**_GENERIC, **({"noftz": "1"} if more else {})}
                syntax = f"{head}{more}{{.L2::cache_hint}}.type {result}[addr], b, {_POLICY}"
                yield form(syntax, op=op, defaults=fixed, slots=slots)
        for operation, types, more, sizes in _ATOMIC_VECTORS:
            slots = {**words, "space": "global", "operation": operation, "type": types, "vec": sizes}
            fixed = {**_GENERIC, **({"noftz": "1"} if more else {})}
            result = "d:type*vec, " if op == "atom" else ""
            syntax = f"{head}{more}{{.L2::cache_hint}}.vec.type {result}[addr], b:type*vec, {_POLICY}"
            yield form(syntax, op=op, defaults=fixed, slots=slots, since="8.1 sm_90")
        if op == "atom":
            slots = {**scalar, "operation": "cas", "type": "b16 b32 b64 b128"}
            yield form(f"{head}.type d, [addr], b, c", op=op, defaults=_GENERIC, slots=slots)


ROWS = (
    *_accesses(),
    *_atomics(),
    form("ldu{.space}.type d, [addr]", op="ld", defaults=_GENERIC, relaxed=True, space="global", type=_SCALARS),
    form("ldu{.space}.vec.type d:type*vec, [addr]", op="ld", defaults=_GENERIC, relaxed=True, space="global",
         vec="v2 v4", type=_SCALARS),
    form("prefetch{.space}.level [addr]", op="prefetch", defaults=_GENERIC, space="global local", level="L1 L2"),
    form("prefetch{.space}.level [addr]", op="prefetch", defaults=_GENERIC, space="global",
         level="L2::evict_last L2::evict_normal", since=_POLICIES),
    form("prefetchu.level [addr]", op="prefetchu", level="L1"),
    form("applypriority{.space}.level [addr], size:u32", op="applypriority", defaults=_GENERIC, space="global",
         level="L2::evict_normal", since=_POLICIES),
    form("discard{.space}.level [addr], size:u32", op="discard", defaults=_GENERIC, space="global", level="L2",
         since=_POLICIES),
    form("createpolicy.fractional.primary{.secondary}.b64 d, fraction?:f32", op="createpolicy",
         defaults={"kind": "fractional"}, primary=_PRIMARY, secondary=_SECONDARY, since=_POLICIES),
    form("createpolicy.range{.space}.primary{.secondary}.b64 d, [addr], primary_size:u32, total_size:u32",
         op="createpolicy", defaults={"kind": "range"}, space="global", primary=_PRIMARY, secondary=_SECONDARY,
         since=_POLICIES),
    form("createpolicy.cvt.L2.b64 d, a", op="createpolicy", defaults={"kind": "cvt"}, since=_POLICIES),
    form("cvta.space.type d, a", op="cvta", defaults={"to": "0"}, space=_WINDOWS, type="u64"),
    form("cvta.to.space.type d, a", op="cvta", defaults={"to": "1"}, space=_WINDOWS, type="u64"),
    form("isspacep.space d:pred, a:b64", op="isspacep", space=_WINDOWS),
    form("isspacep.space d:pred, a:b32", op="isspacep", space=_WINDOWS),
)  # fmt: skip
