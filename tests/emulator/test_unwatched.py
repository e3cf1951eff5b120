"""What runs where nobody watches does the same as what runs where somebody does: the same bytes, or the same fault."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from ptx_kernels import kernel

from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

BYTES = 2048
DATA = np.random.default_rng(7).integers(0, 256, BYTES, dtype=np.uint8)
LANE = np.arange(32)
WIDTHS = {"b8": 1, "s8": 1, "b16": 2, "s16": 2, "b32": 4, "s32": 4, "f32": 4, "b64": 8}
REGISTER = {"b8": "h", "s8": "r", "b16": "h", "s16": "rd", "b32": "r", "s32": "rd", "f32": "f", "b64": "rd"}
STORE_OF = {"h": "b16", "r": "b32", "rd": "b64", "f": "f32"}


def patterns(size: int) -> dict[str, np.ndarray]:
    """Where each lane's access of `size` bytes lies, in bytes."""
    rng = np.random.default_rng(size)
    anywhere = rng.integers(0, BYTES // size, 32) * size
    return {
        "row": LANE * size,
        "row from the middle": (LANE + 5) * size,
        "one place": np.full(32, 3 * size),
        "rows of two": LANE // 2 * 64 + LANE % 2 * size,
        "backwards": (31 - LANE) * size,
        "ends as a row does": np.where(LANE == 7, 0, LANE) * size,
        "ends where it begins": np.where(LANE == 7, 4, 2) * size,
        "anywhere": anywhere,
        "the last byte": np.where(LANE == 31, BYTES - size, anywhere),
        "a lane beyond": np.where(LANE == 20, BYTES, anywhere),
        "partly beyond": np.where(LANE == 9, BYTES - size // 2, anywhere),
        "far beyond": np.where(LANE == 30, 0x7FFFFFF0, anywhere),
        "a lane before": np.where(LANE == 30, -size, anywhere),
        "not aligned": np.where(LANE == 12, anywhere + 1, anywhere),
    }


@cache
def loaded(body: str, watched: bool, threads: int) -> EmulatedKernel:
    options = EmulatorOptions(observer=object()) if watched else EmulatorOptions(threads=threads)
    return kernel(body, "ppp", options=options)


def outcome(
    body: str, offsets: np.ndarray, *, watched: bool, threads: int = 1, grid: int = 1
) -> tuple[bytes, bytes] | str:
    """Memory after a run, or its fault."""
    out, data = np.zeros(32 * 64 * grid, np.uint8), DATA.copy()
    launch = Launch((grid, 1, 1), (32, 1, 1), [out, data, offsets.astype(np.int32)], 0, ("out", "data", "offsets"))
    try:
        loaded(body, watched, threads).launch(launch)
    except KernelFault as fault:
        return str(fault)
    return out.tobytes(), data.tobytes()


def same_watched_and_not(body: str, offsets: np.ndarray, what: object = "") -> tuple[bytes, bytes] | str:
    unwatched = outcome(body, offsets, watched=False)
    assert unwatched == outcome(body, offsets, watched=True), what
    return unwatched


OFFSET = (
    "mul.wide.u32 %rd40, %lane, 4; add.u64 %rd40, %rd40, %a2; ld.global.s32 %r40, [%rd40]; cvt.s64.s32 %rd41, %r40;"
)
FILL = (  # shared memory as `data`, and back
    ".shared .align 16 .b8 m[2048]; mul.wide.u32 %rd42, %lane, 64; add.u64 %rd43, %a1, %rd42; cvt.u32.u64 %r41, %rd42;"
    " mov.u32 %r42, m; add.u32 %r41, %r41, %r42;"
)
FOUR = "{%r50, %r51, %r52, %r53}"
OF_64 = range(0, 64, 16)
IN = FILL + "".join(f"ld.global.v4.b32 {FOUR}, [%rd43+{i}]; st.shared.v4.b32 [%r41+{i}], {FOUR};" for i in OF_64)
BACK = "".join(f"ld.shared.v4.b32 {FOUR}, [%r41+{i}]; st.global.v4.b32 [%rd43+{i}], {FOUR};" for i in OF_64)
PLACES = {
    "global": ("", "add.u64 %rd44, %a1, %rd41;", ".global", "%rd44"),
    "generic": ("", "add.u64 %rd44, %a1, %rd41;", "", "%rd44"),
    "shared": (IN, "add.u32 %r44, %r42, %r40;", ".shared", "%r44"),
    "shared, 64 bits": (IN, "mov.u64 %rd45, m; add.u64 %rd44, %rd45, %rd41;", ".shared", "%rd44"),
    "generic shared": (IN, "mov.u64 %rd45, m; cvta.shared.u64 %rd45, %rd45; add.u64 %rd44, %rd45, %rd41;", "", "%rd44"),
}
CASES = [(name, count) for name, width in WIDTHS.items() for count in (1, 2, 4) if width * count <= 16]


def registers(name: str, count: int) -> tuple[list[str], str]:
    names = [f"%{REGISTER[name]}{10 + i}" for i in range(count)]
    return names, names[0] if count == 1 else "{" + ", ".join(names) + "}"


@pytest.mark.parametrize("guard", ["", "@%p1 "], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "count"), CASES)
@pytest.mark.corpus
def test_loads(name, count, place, guard):
    before, address, space, pointer = PLACES[place]
    names, operand = registers(name, count)
    vector = f".v{count}" if count > 1 else ""
    store = "".join(f"st.global.{STORE_OF[REGISTER[name]]} [%rd46+{8 * i}], {r};" for i, r in enumerate(names))
    body = (
        f"{before}{OFFSET}{address} setp.gt.u32 %p1, %lane, 3; mul.wide.u32 %rd46, %lane, 64;"
        f" add.u64 %rd46, %rd46, %a0; {guard}ld{space}{vector}.{name} {operand}, [{pointer}];{store}"
    )
    outcomes = {
        what: same_watched_and_not(body, offsets, what) for what, offsets in patterns(WIDTHS[name] * count).items()
    }
    assert not isinstance(outcomes["row"], str)
    assert outcomes["row"] != outcomes["backwards"]
    assert isinstance(outcomes["a lane beyond"], str)


@pytest.mark.parametrize("guard", ["", "@%p1 "], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "count"), CASES)
def test_stores(name, count, place, guard):
    before, address, space, pointer = PLACES[place]
    names, operand = registers(name, count)
    vector = f".v{count}" if count > 1 else ""
    letter = REGISTER[name]
    fill = "".join(
        f"add.u64 %rd47, %rd46, {(0x010203 if letter == 'f' else 0x0102030405060708) * (i + 1)};"
        + {"h": "cvt.u16.u64", "r": "cvt.u32.u64", "rd": "mov.u64", "f": "cvt.rn.f32.u64"}[letter]
        + f" {r}, %rd47;"
        for i, r in enumerate(names)
    )
    body = (
        f"{before}{OFFSET}{address} setp.gt.u32 %p1, %lane, 3; mul.wide.u32 %rd46, %lane, 0x10203;{fill}"
        f"{guard}st{space}{vector}.{name} [{pointer}], {operand};{BACK if before else ''}"
    )
    outcomes = {
        what: same_watched_and_not(body, offsets, what) for what, offsets in patterns(WIDTHS[name] * count).items()
    }
    assert not isinstance(outcomes["row"], str)
    assert outcomes["row"] != outcomes["backwards"]
    assert isinstance(outcomes["a lane beyond"], str)


@pytest.mark.parametrize("step", [0, 4, 128], ids=["the same bytes", "bytes of a neighbour", "bytes of its own"])
def test_stores_of_blocks_on_two_threads(step):
    """The last block's are left where several write the same, however many threads there are."""
    body = (
        f"mul.lo.u32 %r1, %cta, {step}; cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %rd1, %a1; mul.wide.u32 %rd2, %lane, 4;"
        " add.u64 %rd1, %rd1, %rd2; mad.lo.u32 %r2, %cta, 100, %lane; st.global.b32 [%rd1], %r2;"
    )
    nothing = np.zeros(32)
    expected = outcome(body, nothing, watched=True, grid=8)
    assert not isinstance(expected, str)
    for threads in (1, 2):
        assert outcome(body, nothing, watched=False, threads=threads, grid=8) == expected


FRAGMENTS = {
    "a.sync.aligned.row.m16n16k16{}.f16": 8,
    "a.sync.aligned.col.m16n16k16{}.f16": 8,
    "b.sync.aligned.row.m16n16k16{}.f16": 8,
    "b.sync.aligned.col.m16n16k16{}.bf16": 4,
    "a.sync.aligned.row.m32n8k16{}.f16": 8,
    "b.sync.aligned.col.m8n32k16{}.f16": 8,
    "a.sync.aligned.row.m16n16k16{}.s8": 2,
    "b.sync.aligned.row.m16n16k16{}.u8": 2,
    "a.sync.aligned.row.m16n16k8{}.tf32": 4,
    "c.sync.aligned.row.m16n16k16{}.f32": 8,
    "c.sync.aligned.col.m16n16k16{}.f32": 8,
    "c.sync.aligned.row.m16n16k16{}.f16": 4,
    "c.sync.aligned.col.m32n8k16{}.f16": 4,
    "c.sync.aligned.row.m16n16k16{}.s32": 8,
}
LEADING = [16, 24, 32, 8, 20, 17, 0]  # the last ones too short, not aligned, nothing
FROM = [0, 16, 32, 64, 8, BYTES - 512, BYTES]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fragment", FRAGMENTS)
@pytest.mark.corpus
def test_fragments(fragment, place):
    """Loaded from each place with each leading dimension; accumulators are stored to it, too."""
    before, address, space, pointer = PLACES[place]
    count = FRAGMENTS[fragment]
    letter = "f" if fragment.endswith(".f32") else "r"
    names = [f"%{letter}{10 + i}" for i in range(count)]
    list_of = "{" + ", ".join(names) + "}"
    store = "".join(f"st.global.{STORE_OF[letter]} [%rd46+{4 * i}], {r};" for i, r in enumerate(names))
    start = f"{before}{OFFSET}{address} mul.wide.u32 %rd46, %lane, 64; add.u64 %rd46, %rd46, %a0;"
    convert = "cvt.rn.f32.u32" if letter == "f" else "mov.u32"
    fill = "".join(f"mad.lo.u32 %r60, %lane, {i + 3}, {17 * i}; {convert} {r}, %r60;" for i, r in enumerate(names))
    for leading in LEADING:
        load = f"{start} wmma.load.{fragment.format(space)} {list_of}, [{pointer}], {leading};{store}"
        bodies = [load]
        if fragment.startswith("c."):
            back = BACK if before else ""
            of_d = f"d{fragment.format(space)[1:]}"
            bodies.append(f"{start}{fill} wmma.store.{of_d} [{pointer}], {list_of}, {leading};{back}")
        for body in bodies:
            outcomes = [same_watched_and_not(body, np.full(32, first), (leading, first)) for first in FROM]
            assert leading != 16 or not isinstance(outcomes[0], str)
            assert isinstance(outcomes[-1], str)
        # The lanes must agree on the address.
        assert isinstance(same_watched_and_not(load, np.where(LANE == 5, 16, 0)), str)
