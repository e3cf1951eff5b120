"""Cases for what lanes do together: shuffles, votes, matches, reductions, and atomic operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.fidelity.lane_operands import drawing, floats, integers

WARPS = 4
_THREADS = 32 * WARPS
_MASKS = (0xFFFFFFFF, 0x0000FFFF, 0xAAAAAAAA, 0x80000001, 0x00F0F0F7)
_HEAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x_a, .param .u64 x_b, .param .u64 x_o)
{
.reg .b32 %i, %lane, %v, %w, %r, %s, %m; .reg .b64 %pa, %pb, %po, %t, %d, %e, %f; .reg .pred %p, %q, %in;
ld.param.u64 %pa, [x_a]; ld.param.u64 %pb, [x_b]; ld.param.u64 %po, [x_o];
mov.u32 %i, %tid.x; mov.u32 %lane, %laneid;
mad.wide.u32 %t, %i, 4, %pa; ld.global.b32 %v, [%t]; mad.wide.u32 %t, %i, 4, %pb; ld.global.b32 %w, [%t];
"""


@lru_cache(maxsize=4)
def warp_cases(seed: int = 0) -> Mapping[str, FidelityCase]:
    """All of them, by key.

    Args:
        seed: of the operands; 0: those of the committed records.
    """
    return {case.key: case for case in (*_exchanges(seed), *_atomics(seed), *_shared_sums(seed))}


def _words(key: str, seed: int, *, small: bool = False) -> Array:
    rng = drawing(key, seed)
    if small:
        return rng.integers(0, 6, _THREADS).astype(np.uint32)
    return integers(rng, 32, _THREADS).astype(np.uint32)


def _exchange_rows() -> Iterator[tuple[str, str]]:
    """(name, statements that leave two words in %r and %s), for one warp with the members of %m."""
    for mode in ("up", "down", "bfly", "idx"):
        for c in (0x1F, 0x00, 0x181F, 0x1C1F, 0x1807, 0x0A15):
            for by in ("1", "7", "%w"):
                if by == "%w" and mode != "idx":
                    continue
                text = f"shfl.sync.{mode}.b32 %r|%p, %v, {by}, {c:#x}, %m; selp.b32 %s, 1, 0, %p;"
                yield f"shfl.{mode} by {by} c {c:#x}", text
    small = "and.b32 %v, %v, 3; setp.eq.u32 %q, %v, 0;"
    for mode in ("all", "any", "uni"):
        yield f"vote.{mode}", f"{small} vote.sync.{mode}.pred %p, %q, %m; selp.b32 %r, 1, 0, %p; mov.u32 %s, 0;"
        yield f"vote.{mode} not", f"{small} vote.sync.{mode}.pred %p, !%q, %m; selp.b32 %r, 1, 0, %p; mov.u32 %s, 0;"
    yield "vote.ballot", f"{small} vote.sync.ballot.b32 %r, %q, %m; mov.u32 %s, 0;"
    for mask in ("3", "0"):
        cut = f"and.b32 %v, %v, {mask};"
        yield f"match.any.b32 {mask}", f"{cut} match.any.sync.b32 %r, %v, %m; mov.u32 %s, 0;"
        yield f"match.all.b32 {mask}", f"{cut} match.all.sync.b32 %r|%p, %v, %m; selp.b32 %s, 1, 0, %p;"
        wide = f"{cut} cvt.u64.u32 %d, %v; shl.b64 %e, %d, 33; or.b64 %d, %d, %e;"
        yield f"match.any.b64 {mask}", f"{wide} match.any.sync.b64 %r, %d, %m; mov.u32 %s, 0;"
        yield f"match.all.b64 {mask}", f"{wide} match.all.sync.b64 %r|%p, %d, %m; selp.b32 %s, 1, 0, %p;"
    for operation, types in (("add min max", "u32 s32"), ("and or xor", "b32")):
        for name in operation.split():
            for type_name in types.split():
                yield f"redux.{name}.{type_name}", f"redux.sync.{name}.{type_name} %r, %v, %m; mov.u32 %s, 0;"
    yield "elect", "elect.sync %r|%p, %m; selp.b32 %s, 1, 0, %p;"


def _exchanges(seed: int) -> Iterator[FidelityCase]:
    """Each operation under several member masks; lanes outside the mask store zeros.

    A shuffle from a lane outside the mask is undefined: those that a mask of all lanes would not have are left out.
    """
    for mask in _MASKS:
        rows: list[str] = []
        body: list[str] = []
        for name, text in _exchange_rows():
            if mask != 0xFFFFFFFF and name.startswith("shfl"):
                continue
            number = len(rows)
            body.append(
                f"{{ .reg .b32 %r, %s, %x; mov.u32 %r, 0; mov.u32 %s, 0; mov.b32 %x, %v;\n"
                f"@!%in bra $skip{number};\n{text.replace('%v', '%x').replace('and.b32 %x, %x', 'and.b32 %x, %x')}\n"
                f"$skip{number}: bar.warp.sync -1;\n"
                f"mad.wide.u32 %t, %i, 4, %po; st.global.b32 [%t], %r; st.global.b32 [%t + {4 * _THREADS}], %s;\n"
                f"add.s64 %po, %po, {8 * _THREADS}; }}\n"
            )
            rows += [name, f"{name}, second"]
        head = f"mov.u32 %m, {mask:#x}; shr.u32 %r, %m, %lane; and.b32 %r, %r, 1; setp.ne.u32 %in, %r, 0;\n"
        key = f"exchange {mask:08x}"
        values = _words(key, seed)
        if mask == 0x80000001:
            values[:] = values[:1]  # so that match.all has something to agree on
        out = np.zeros((len(rows), _THREADS), np.uint32)
        ptx = _HEAD + head + "".join(body) + "ret;\n}\n"
        yield FidelityCase(key, ptx, [values, _words(key + "b", seed, small=True)], {"o": out}, rows, 1, _THREADS)


_ATOMIC = (
    ("and", "b32 b64"), ("or", "b32 b64"), ("xor", "b32 b64"), ("exch", "b32 b64"), ("cas", "b16 b32 b64"),
    ("add", "u32 s32 u64 f32 f64"), ("add.noftz", "f16 f16x2 bf16 bf16x2"), ("inc", "u32"), ("dec", "u32"),
    ("min", "u32 s32 u64 s64"), ("max", "u32 s32 u64 s64"),
)  # fmt: skip
_BYTES = {"b16": 2, "f16": 2, "bf16": 2, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
_FLOATS = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16", "f32": "f32", "f64": "f64"}


def _atomic_values(key: str, type_name: str, size: int, seed: int) -> Array:
    rng = drawing(key, seed)
    if type_name not in _FLOATS:
        return integers(rng, 8 * size, _THREADS).astype(f"u{size}")
    found = floats(rng, _FLOATS[type_name], _THREADS)
    if type_name.endswith("x2"):
        return found.astype(np.uint32) | floats(rng, _FLOATS[type_name], _THREADS).astype(np.uint32) << np.uint32(16)
    return found


def _atomics(seed: int) -> Iterator[FidelityCase]:
    """Every atomic operation on an element of its own per thread, in global, shared and generic addresses."""
    for operation, types in _ATOMIC:
        for type_name in types.split():
            size = _BYTES.get(type_name, 4)
            key = f"atom.{operation}.{type_name}"
            values, others = (_atomic_values(key + part, type_name, size, seed) for part in "ab")
            others[::5] = values[::5]
            rows, body = [], []
            for space in ("global", "shared", "generic"):
                dotted = "" if space == "generic" else f".{space}"
                address = {"global": "%po", "shared": "%sh", "generic": "%po"}[space]
                third = ", %y" if operation == "cas" else ""
                body.append(
                    f"mad.wide.u32 %t, %i, {size}, {address}; st{dotted}.b{8 * size} [%t], %x;\n"
                    f"atom{dotted}.{operation}.{type_name} %old, [%t], %y{third};\nld{dotted}.b{8 * size} %new, [%t];\n"
                    f"mad.wide.u32 %t, %i, {size}, %po; st.global.b{8 * size} [%t], %old; "
                    f"st.global.b{8 * size} [%t + {size * _THREADS}], %new; add.s64 %po, %po, {2 * size * _THREADS};\n"
                )
                rows += [f"{key} {space} old", f"{key} {space} new"]
            registers = (
                f".reg .b{8 * size} %x, %y, %old, %new; .reg .b64 %sh; .shared .align 16 .b8 held[{size * _THREADS}];"
            )
            loads = (
                f"mad.wide.u32 %t, %i, {size}, %pa; ld.global.b{8 * size} %x, [%t];\n"
                f"mad.wide.u32 %t, %i, {size}, %pb; ld.global.b{8 * size} %y, [%t]; mov.u64 %sh, held;\n"
            )
            head = _HEAD.split("mad.wide")[0]
            ptx = head + registers + "\n" + loads + "".join(body) + "ret;\n}\n"
            yield FidelityCase(
                key, ptx, [values, others], {"o": np.zeros((len(rows), _THREADS), f"u{size}")}, rows, 1, _THREADS
            )


def _shared_sums(seed: int) -> Iterator[FidelityCase]:
    """Operations whose result does not depend on their order, all threads of a block on few addresses."""
    for operation, type_name in (
        ("add", "u32"), ("add", "s32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"),
        ("inc", "u32"), ("dec", "u32"),
    ):  # fmt: skip
        key = f"red.{operation}.{type_name}"
        values = _words(key, seed)
        if operation in ("inc", "dec"):
            values[:] = 9  # one bound for all: otherwise the order counts
        body = (
            ".shared .align 4 .b8 held[32]; .reg .b64 %sh; mov.u64 %sh, held;\n"
            "and.b32 %r, %i, 7; mad.wide.u32 %sh, %r, 4, %sh; st.shared.b32 [%sh], 5; bar.sync 0;\n"
            f"red.shared.{operation}.{type_name} [%sh], %v; bar.sync 0; ld.shared.b32 %s, [%sh];\n"
            f"mad.wide.u32 %t, %i, 4, %po; st.global.b32 [%t], %s;\n"
            f"mad.wide.u32 %d, %r, 4, %po; red.global.{operation}.{type_name} [%d + {4 * _THREADS}], %v;\n"
        )
        out = np.zeros((2, _THREADS), np.uint32)
        yield FidelityCase(
            key,
            _HEAD + body + "ret;\n}\n",
            [values, values],
            {"o": out},
            [f"{key} shared", f"{key} global"],
            1,
            _THREADS,
        )
