"""The shipped kernels, optimised and as -G leaves them, in several orders, on every engine: one set of bits."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions, load, native
from wmmadiag.launch import Launch

KERNELS = Path(__file__).parents[2] / "kernels"
S, D = 40, 64
RNG = np.random.default_rng(8)
Q, K, V = (RNG.standard_normal((2, S, D)).astype(np.float16) for _ in range(3))


@cache
def compiled(name: str, debug: bool) -> str:
    macros = (
        {"HEAD_DIM": str(D), "CAUSAL": "1", "ROW_TILES": "1", "BLOCK_N": "64", "WARPS": "4"}
        if name == "attention_fused"
        else {}
    )
    # Contraction would differ between the two builds.
    options = CompileOptions(arch="sm_90", debug=debug, macros=macros, extra=("-fmad=false",))
    return compile_source(KERNELS / name / "kernel.cu", options).ptx


def launched(name: str, debug: bool = False, options: EmulatorOptions | None = None) -> bytes:
    kernel = load(compiled(name, debug), name, options=options or EmulatorOptions(threads=1))
    scale = float(np.float32(1 / np.sqrt(D)))
    if name == "qkt":
        out = np.zeros((2, S, S), np.float32)
        kernel.launch(Launch((1, 1, 2), (128, 1, 1), [Q, K, out, S, D, scale]))
        expected = Q.astype(np.float64) @ K.astype(np.float64).transpose(0, 2, 1) * scale
        assert np.abs(out - expected).max() < 1e-3
        return out.tobytes()
    half = np.zeros((2, S, D), np.float16)
    kernel.launch(Launch((1, 2, 1), (128, 1, 1), [Q, K, V, half, S, scale], 2 * D * (64 + 4 * 64)))
    assert np.isfinite(half).all() and half.any()
    return half.tobytes()


NAMES = ["qkt", "attention_fused"]


@pytest.mark.parametrize("name", NAMES)
def test_optimised_and_debug_builds(name):
    assert launched(name) == launched(name, debug=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        EmulatorOptions(threads=2),
        EmulatorOptions(threads=1, warp_order=(3, 1, 2, 0)),
        EmulatorOptions(threads=1, eager_copies=True),
        EmulatorOptions(observer=object()),
    ],
    ids=["threads", "warp-order", "eager-copies", "observed"],
)
def test_what_may_not_matter_does_not(name, options):
    assert launched(name, options=options) == launched(name)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_engines(isa, monkeypatch):
    order = ["baseline", "avx2", "avx512"]
    best = native._core.best_isa()
    if isa not in native.isas() or order.index(isa) > order.index(best):
        pytest.skip(f"no {isa} here")
    expected = [launched(name) for name in NAMES]
    monkeypatch.setenv("WMMADIAG_ISA", isa)
    native.engine.cache_clear()
    try:
        assert [launched(name) for name in NAMES] == expected
    finally:
        monkeypatch.undo()
        native.engine.cache_clear()
