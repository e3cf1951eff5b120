"""The check `coverage`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.errors import KernelFault
from wmmadiag.launch import ArgumentView

_LINE = """__global__ void k(const float* x, float* out) {
    int warp = threadIdx.x / 32;
    %s
}"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if (warp < 2) out[threadIdx.x] = 1;", "warps 2, 3 of each block's 4 do nothing"),
        ("if (warp != 1) out[threadIdx.x] = 1;", "warp 1 of each block's 4 does nothing"),
        ("out[threadIdx.x] = 1;", None),
        ("if (warp >= blockIdx.x) out[threadIdx.x] = 1;", None),
        ("if (x[0] > 1) out[threadIdx.x] = 1;", None),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_idle_warps(line: str, expected: str | None, threads: int) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(128, np.float32)
    findings = found("coverage", _LINE % line, x, out, grid=3, block=128, threads=threads)
    assert [one.message for one in findings] == ([expected] if expected else [])


def _outputs(line: str, *, shape: tuple[int, ...] = (16, 32), threads: int = 1) -> tuple[Finding, ...]:
    """Findings for two blocks of four warps whose output is `out`, 16 x 32 floats."""
    source = """__global__ void k(const float* x, float* out) {
        int warp = threadIdx.x / 32, lane = threadIdx.x & 31, b = blockIdx.x;
        %s
    }"""
    x, out = np.arange(1024, dtype=np.float32) + 1, np.full(512, np.nan, np.float32)
    view = ArgumentView(
        1, "O", shape, tuple(np.cumprod((1, *shape[:0:-1]))[::-1].tolist()), written=True, complete=True
    )
    return found(
        "coverage", source % line, x, out, names=("x", "out"), grid=2, block=128, threads=threads,
        fresh=((1, range(out.nbytes)),), views=(ArgumentView(0, "x", (1024,), (1,)), view),
    )  # fmt: skip


UNWRITTEN = {
    "a warp too few": (
        "if (warp < 3) for (int r = warp; r < 8; r += 4) out[(b * 8 + r) * 32 + lane] = x[r];",
        ["128 of 512 elements of O are never written"],
        "not written: rows 3, 7, … 15 of O[16,32]",
    ),
    "a block too few": (
        "if (b == 0) for (int r = warp; r < 8; r += 4) out[r * 32 + lane] = x[r];",
        ["256 of 512 elements of O are never written"],
        "not written: rows 8 to 15 of O[16,32]",
    ),
    "columns": (
        "for (int r = warp; r < 8; r += 4) if (lane < 30) out[(b * 8 + r) * 32 + lane] = x[r];",
        ["32 of 512 elements of O are never written"],
        "not written: columns 30 to 31 of O[16,32]",
    ),
    "nothing at all": ("if (x[0] > 5) out[0] = 1;", ["512 of 512 elements of O are never written"], "all of O[16,32]"),
}


@pytest.mark.parametrize("name", UNWRITTEN)
@pytest.mark.parametrize("threads", [1, 3])
def test_unwritten(name: str, threads: int) -> None:
    line, messages, detail = UNWRITTEN[name]
    findings = [one for one in _outputs(line, threads=threads) if one.kind == "unwritten"]
    assert [one.message for one in findings] == messages
    assert findings[0].level is Level.ERROR
    assert detail in findings[0].detail[0]


def test_who_wrote_the_rest() -> None:
    (finding,) = [one for one in _outputs(UNWRITTEN["a warp too few"][0]) if one.kind == "unwritten"]
    assert finding.place.line == 6
    assert finding.detail[1:] == (
        "2 of 2 blocks wrote to it",
        "block (0, 0, 0), warp 0 wrote rows 0 and 4 of O[16,32]",
        "block (0, 0, 0), warp 1 wrote rows 1 and 5 of O[16,32]",
        "block (0, 0, 0), warp 2 wrote rows 2 and 6 of O[16,32]",
        "of that block's warps 3 wrote nothing to it",
    )


_ALL = "for (int r = warp; r < 8; r += 4) out[(b * 8 + r) * 32 + lane] = x[r + b];"
WRITTEN = {
    "each once": _ALL,
    "zeroed first": "out[b * 256 + threadIdx.x] = 0; out[b * 256 + 128 + threadIdx.x] = 0; __syncthreads();" + _ALL,
    "a running sum of each thread": _ALL + _ALL.replace("x[r + b]", "x[r + b + 9]"),
    "read, and written by others": _ALL
    + "__syncthreads(); for (int r = 3 - warp; r < 8; r += 4) out[(b * 8 + r) * 32 + lane] *= 2;",
    "the same twice": _ALL + "__syncthreads();" + _ALL.replace("r = warp", "r = 3 - warp"),
    "atomics of both blocks": "for (int r = warp; r < 16; r += 4) atomicAdd(out + r * 32 + lane, x[r + b]);",
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("threads", [1, 3])
def test_written(name: str, threads: int) -> None:
    assert _outputs(WRITTEN[name], threads=threads) == ()


LOST = {
    "another warp": (
        _ALL + "__syncthreads(); for (int r = 3 - warp; r < 8; r += 4) out[(b * 8 + r) * 32 + lane] = x[r] + 50;",
        Level.WARNING,
        512,
    ),
    "another block": (
        "for (int r = warp; r < 16; r += 4) out[r * 32 + lane] = x[r + b];",
        Level.ERROR,
        512,
    ),
    "another block, with sums of a warp": (
        "int n = __reduce_add_sync(~0u, 1) / 32; for (int r = warp; r < 16; r += 4) out[r * 32 + lane] = x[r + b] * n;",
        Level.ERROR,
        512,
    ),
    "another block, with fences": (
        "for (int r = warp; r < 16; r += 4) out[r * 32 + lane] = x[r + b]; __threadfence();",
        Level.WARNING,
        512,
    ),
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("threads", [1, 3])
def test_lost(name: str, threads: int) -> None:
    line, level, count = LOST[name]
    (finding,) = _outputs(line, threads=threads)
    assert (finding.kind, finding.level, finding.count) == ("lost-result", level, count)


def test_of_a_run_that_died_nothing_is_missing() -> None:
    with pytest.raises(KernelFault):  # as it has no findings
        _outputs("out[threadIdx.x] = 1; if (b) out[x[0] > 0 ? 100000 : 0] = 1;")
