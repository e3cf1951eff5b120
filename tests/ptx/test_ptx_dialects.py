"""PTX as other compilers write it: Triton, Numba, NVIDIA Warp, CuTe DSL, LLVM, people. It parses, runs, and is right.

The files in `dialects/` are what these compilers made of the kernels beside them (Triton 3.9, numba-cuda 0.30, Warp
1.19 without the tables of its libraries, CuTe DSL 4.8, LLVM 14); `assembled.ptx` and `numba_legacy.ptx` are written by
hand. ptxas 13.0 takes each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel, load
from wmmadiag.errors import KernelFault, UnsupportedError
from wmmadiag.launch import Launch
from wmmadiag.ptx import parse

DIALECTS = Path(__file__).parent / "dialects"
Array = NDArray[np.generic]
NOTHING = np.uint64(0)


def source(name: str) -> str:
    return (DIALECTS / f"{name}.ptx").read_text("utf-8")


def launch(kernel: EmulatedKernel, grid: int, block: int, *arguments: object, shared: int = 0) -> None:
    """Run a kernel; a tuple is a struct passed by value."""
    flat: list[object] = []
    structs: list[tuple[int, int]] = []
    for argument in arguments:
        fields = argument if isinstance(argument, tuple) else (argument,)
        if isinstance(argument, tuple):
            structs.append((len(flat), len(fields)))
        flat += fields
    kernel.launch(Launch((grid, 1, 1), (block, 1, 1), flat, shared, structs=structs))  # type: ignore[arg-type]


def random(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matmul(kernel: EmulatedKernel) -> tuple[Array, Array]:
    m, n, k = 40, 72, 56
    a, b = random(0, m, k).astype(np.float16), random(1, k, n).astype(np.float16)
    c = np.full((m, n), 7, np.float16)
    numbers = map(np.int32, (m, n, k, k, n, n))
    launch(kernel, 2 * 3, 128, a, b, c, *numbers, NOTHING, NOTHING, shared=8192)
    return c, a.astype(np.float32) @ b.astype(np.float32)


def softmax(kernel: EmulatedKernel) -> tuple[Array, Array]:
    x, y = random(0, 5, 200), np.zeros((5, 200), np.float32)
    launch(kernel, 5, 128, y, x, *map(np.int32, (200, 200, 200)), NOTHING, NOTHING, shared=16)
    return y, softmax_of(x)


def softmax_of(x: NDArray[np.float32]) -> Array:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def layernorm(kernel: EmulatedKernel) -> tuple[Array, Array]:
    shapes = ((4, 200), (200,), (200,))
    x, w, b = (random(seed, *shape).astype(ml_dtypes.bfloat16) for seed, shape in enumerate(shapes))
    y = np.zeros((4, 200), ml_dtypes.bfloat16)
    numbers = (np.int32(200), np.int32(200), np.float32(1e-5))
    launch(kernel, 4, 64, x, w, b, y, *numbers, NOTHING, NOTHING, shared=512)
    wide = x.astype(np.float32)
    d = wide - wide.mean(1, keepdims=True)
    return y, d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w.astype(np.float32) + b.astype(np.float32)


def numba_array(array: Array) -> list[object]:
    """What Numba passes for an array: meminfo, parent, elements, item size, data, shape, strides."""
    numbers = [np.int64(one) for one in (array.size, array.itemsize, *array.shape, *array.strides)]
    return [NOTHING, NOTHING, *numbers[:2], array, *numbers[2:]]


def axpy(kernel: EmulatedKernel) -> tuple[Array, Array]:
    r, x, y = np.zeros(300, np.float32), random(0, 300), random(1, 300)
    launch(kernel, 3, 128, *numba_array(r), np.float32(2.5), *numba_array(x), *numba_array(y))
    return r, np.float32(2.5) * x + y


def row_softmax(kernel: EmulatedKernel) -> tuple[Array, Array]:
    x, y = random(0, 3, 300), np.zeros((3, 300), np.float32)
    launch(kernel, 3, 128, *numba_array(x), *numba_array(y))
    return y, softmax_of(x)


def legacy(kernel: EmulatedKernel) -> tuple[Array, Array]:
    x, y = np.arange(70.0), np.zeros(70)
    launch(kernel, 2, 64, *numba_array(x), *numba_array(y), np.float64(1.5))
    return y, 1.5 * x


def warp_array(array: Array) -> tuple[object, ...]:
    """Warp's array: data, gradient, shape and strides of up to four axes, and how many there are."""
    words = [np.int32(one) for one in (*array.shape, 0, 0, 0, *array.strides, 0, 0, 0, array.ndim, 0)]
    return (array, NOTHING, *words)


def warp(kernel: EmulatedKernel) -> tuple[Array, Array]:
    x, y = random(0, 100), np.zeros(100, np.float32)
    bounds = (NOTHING, np.uint64(100), np.uint64(1))
    parameters = (np.float32(1.5), np.int32(90), *map(np.float32, (0.1, 0.2, 0.3)))
    launch(kernel, 2, 64, bounds, warp_array(x), warp_array(y), parameters, tuple(map(np.float32, (4, 5, 6))))
    expected = np.float32(1.5) * x + np.float32(4) + np.float32(0.2)
    return y, np.where(np.arange(100) < 90, expected, 0)


def cute_add(kernel: EmulatedKernel) -> tuple[Array, Array]:
    a, b, c = random(0, 200), random(1, 200), np.zeros(200, np.float32)
    launch(kernel, 2, 128, (a, NOTHING), (b, NOTHING), (c, NOTHING), np.int32(200))
    return c, a + b


def clang_filter(kernel: EmulatedKernel) -> tuple[Array, Array]:
    n = 200
    x, y, gain = random(0, n), np.zeros(n, np.float32), np.array([0.25], np.float32)
    low, high = np.float32(-1), np.float32(1.5)
    launch(kernel, 2, 128, x, y, (low, high, np.int32(n), np.int32(0), gain))
    mate = x[np.arange(n) ^ 1]
    table = np.array([1, 2, 0.5, -1], np.float32)[np.arange(n) & 3]
    kinds = [x + mate, x - mate, x * mate, x * table, -mate, 3 * x, x + gain, x + gain]
    return y, np.clip(np.choose(np.arange(n) & 7, kinds), low, high)


def assembled(kernel: EmulatedKernel) -> tuple[Array, Array]:
    x, y = random(0, 200), np.zeros(200, np.float32)
    parameters = (np.float32(3), np.float32(-1), NOTHING)
    launch(kernel, 4, 64, x, y, parameters, np.uint32(200), shared=256)
    return y, np.stack([2 * x[0::4], 3 * x[1::4] - 1, 0.5 * x[2::4], -x[3::4]], 1).ravel()


CASES: list[tuple[str, str, Callable[[EmulatedKernel], tuple[Array, Array]], float]] = [
    ("triton_matmul", "", matmul, 2e-2),
    ("triton_softmax", "", softmax, 1e-6),
    ("triton_layernorm", "", layernorm, 5e-2),
    ("numba_axpy", "", axpy, 1e-6),
    ("numba_row_softmax", "", row_softmax, 1e-6),
    ("numba_legacy", "", legacy, 0),
    ("warp_affine", "affine_2879a5aa_cuda_kernel_forward", warp, 1e-6),
    ("cute_add", "", cute_add, 0),
    ("clang_filter", "", clang_filter, 0),
    ("assembled", "chosen", assembled, 1e-6),
]
every_case = pytest.mark.parametrize(("name", "entry", "run", "tolerance"), CASES, ids=[row[0] for row in CASES])


@every_case
def test_it_runs_and_is_right(
    name: str, entry: str, run: Callable[[EmulatedKernel], tuple[Array, Array]], tolerance: float
) -> None:
    found, expected = run(
        load(source(name), entry, arch="sm_90" if name == "assembled" else "sm_80", name=f"{name}.ptx")
    )
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


# -- the same module, written in another way --------------------------------------------------------------------------

_TOKEN = re.compile(r'"[^"\n]*"|//[^\n]*|(?<=[\w\]}])(?P<gap>[ \t]*)(?=[,;])')


def commented(text: str) -> str:
    """A comment before each `,` and `;`, some of several lines."""
    return _TOKEN.sub(lambda found: found[0] if found["gap"] is None else '/* ; } " // \n*/', text)


WAYS: list[tuple[str, Callable[[str], str]]] = [
    ("as it is", lambda text: text),
    ("windows", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
    ("ends with NULs", lambda text: text + "\0\0"),
    ("comments", commented),
    ("tabs and blanks", lambda text: re.sub(r"(?<=[;{}])\n", " \t\f\n\n \t", text)),
    ("file names without quotes", lambda text: re.sub(r'(\.file\s+\d+\s+)"([^"]*)"', r"\1\2", text)),
    ("no sections", lambda text: text.partition("\t.section")[0]),
]


@pytest.mark.parametrize("change", [row[1] for row in WAYS[1:]], ids=[row[0] for row in WAYS[1:]])
@pytest.mark.parametrize("name", sorted(path.stem for path in DIALECTS.glob("*.ptx")))
def test_other_ways_to_write_the_same(name: str, change: Callable[[str], str]) -> None:
    text = source(name)
    before, after = parse(text), parse(change(text))
    assert before.variables == after.variables
    for function in before.functions.values():
        other = after.functions[function.name]
        assert (function.parameters, function.limits, function.labels) == (other.parameters, other.limits, other.labels)
        for one, two in zip(function.instructions, other.instructions, strict=True):
            assert (one.text, one.op, one.attributes, one.operands, one.guard) == (
                two.text,
                two.op,
                two.attributes,
                two.operands,
                two.guard,
            )
            if one.place.file != "<ptx>":
                assert str(one.place) == str(two.place)


# -- places -----------------------------------------------------------------------------------------------------------


def test_a_fault_is_at_the_python_line() -> None:
    kernel = load(source("triton_softmax"), arch="sm_90")
    x, y = random(0, 2, 200), np.zeros((2, 200), np.float32)
    with pytest.raises(KernelFault) as caught:
        launch(kernel, 5, 128, y, x, *map(np.int32, (200, 200, 200)), NOTHING, NOTHING, shared=16)
    assert caught.value.place is not None
    line = caught.value.place.line
    assert caught.value.place.file == "/src/kernels/triton_kernels.py"
    assert "tl.load(input_ptr" in (DIALECTS / "triton_kernels.py").read_text().splitlines()[line - 1]


def test_what_the_library_does_is_shown_at_the_users_line() -> None:
    from wmmadiag.place import own_place

    lines = (DIALECTS / "triton_kernels.py").read_text().splitlines()
    function = parse(source("triton_softmax")).functions["softmax_kernel"]
    inside = [one.place for one in function.instructions if one.place.file.endswith("triton/language/standard.py")]
    assert {lines[own_place(place).line - 1].strip() for place in inside} == {
        "x = x - tl.max(x, axis=0)",
        "den = tl.sum(num, axis=0)",
    }


def test_what_is_not_emulated_is_refused_at_the_python_line() -> None:
    with pytest.raises(UnsupportedError, match=r"wgmma \(warpgroup matrix multiply\) is not emulated") as caught:
        load(source("triton_wgmma"))
    assert caught.value.place is not None
    lines = (DIALECTS / "triton_kernels.py").read_text().splitlines()
    assert "tl.dot(a, b)" in lines[caught.value.place.line - 1]


def test_only_the_kernel_that_is_meant_counts() -> None:
    assert load(source("assembled"), "chosen", arch="sm_90").kernel.entry.name == "chosen"
    with pytest.raises(UnsupportedError, match="wgmma"):
        load(source("assembled"), "warpgroup", arch="sm_90")
