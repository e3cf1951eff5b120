"""The Python interface: compile, launch, compare, check; the examples in its docstrings are run."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import wmmadiag

ROOT = Path(__file__).parents[1]

SCALARS = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Pair { int a; float b; };
extern "C" __global__ void scalars(const half* p, float* out, int n, half h, __nv_bfloat16 t, Pair s, bool f,
                                   long long z, unsigned char u)
{
    out[0] = n; out[1] = __half2float(h); out[2] = __bfloat162float(t); out[3] = s.a; out[4] = s.b; out[5] = f;
    out[6] = z; out[7] = u; out[8] = p == nullptr;
}
"""
SCALE = """
#include <cuda_fp16.h>
#include <cstdio>
template <int FACTOR> __global__ void scale(const half* x, float* y, int n)
{
    extern __shared__ float staged[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[threadIdx.x] = i < n ? __half2float(x[i]) : 0.0f;
    __syncthreads();
    if (i < n) y[i] = FACTOR * staged[threadIdx.x];
    if (i == 0) printf("n = %d\\n", n);
}
"""
ATTENTION = """
#include <cuda_fp16.h>
extern "C" __global__ void attend(const half* q, const half* k, const half* v, half* o, int S, float scale)
{
    int row = threadIdx.x;
    float sum = 0, out[8] = {};
    for (int j = 0; j <= row; ++j) {
        float s = 0;
        for (int d = 0; d < 8; ++d) s += __half2float(q[row * 8 + d]) * __half2float(k[j * 8 + d]);
        float p = expf(s * scale);
        sum += p;
        for (int d = 0; d < 8; ++d) out[d] += p * __half2float(v[j * 8 + d]);
    }
    for (int d = 0; d < 8; ++d) o[row * 8 + d] = __float2half(out[d] / sum);
}
"""


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("name", ["api", "api.fragment_layouts", "api.judging", "api.launchable"])
def test_examples_in_docstrings(name):
    result = doctest.testmod(import_module(f"wmmadiag.{name}"), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 0 or name == "api.launchable"


def test_every_public_name_is_there_and_described():
    for name in wmmadiag.__all__:
        value = getattr(wmmadiag, name)
        assert name == "__version__" or value.__doc__
    assert set(wmmadiag.__all__) <= set(dir(wmmadiag))
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        _ = wmmadiag.chek  # type: ignore[attr-defined]


def test_public_names_survive_the_import_of_every_part():
    """A subpackage of the same name would take a function's place the moment that it is imported."""
    code = "import wmmadiag, wmmadiag.cli.check, wmmadiag.subject.check, wmmadiag.emulator, wmmadiag.report.terminal;"
    code += "assert all(not hasattr(getattr(wmmadiag, n), '__path__') for n in wmmadiag.__all__)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_it_imports_nothing_else():
    code = "import sys, wmmadiag; sys.exit(bool({'numpy', 'cuda', 'wmmadiag.compile'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_template_with_shared_memory_and_printf():
    scale = wmmadiag.kernel(SCALE, "scale<3>", arch="sm_80")
    x, y = np.arange(100).astype(np.float16), np.full(100, np.nan, np.float32)
    stats = scale.launch((4,), [32, 1], x, y, 100, shared=128)
    assert (y == 3 * np.arange(100)).all()
    assert stats.output == "n = 100\n" and stats.warp_instructions > 0
    assert scale.name == "scale<3>" and scale.arch == "sm_80" and str(scale.place) == "kernel.cu:4:39"
    assert scale.resources().registers > 0
    assert repr(scale) == "<wmmadiag kernel scale<3> for sm_80 at kernel.cu:4:39>"


def test_a_kernel_of_a_compilation_and_of_ptx(tmp_path):
    made = wmmadiag.compile_cuda(SCALE, entry="scale<2>")
    x, y = np.ones(32, np.float16), np.zeros(32, np.float32)
    wmmadiag.kernel(made).launch(1, 32, x, y, 32, shared=128)
    assert (y == 2).all()
    (tmp_path / "k.ptx").write_text(made.ptx)
    for source in (tmp_path / "k.ptx", str(tmp_path / "k.ptx"), made.ptx):
        y[:] = 0
        wmmadiag.kernel(source).launch(1, 32, x, y, np.int32(32), shared=128)
        assert (y == 2).all()


def test_scalars_take_the_parameters_type():
    kernel = wmmadiag.kernel(SCALARS)
    pair = np.array([(3, 4.5)], [("a", "i4"), ("b", "f4")])
    want = [5, 1.5, 2.5, 3, 4.5, 1, -7, 200, 1]
    out = np.zeros(9, np.float32)
    kernel.launch(1, 1, None, out, 5, 1.5, 2.5, pair.tobytes(), True, -7, 200)
    assert out.tolist() == want
    out[:] = 0
    t = ml_dtypes.bfloat16(2.5)
    numbers = (np.int64(5), np.float16(1.5), t, pair[0], np.bool_(True), np.int64(-7), np.uint8(200))
    kernel.launch(np.int64(1), 1, None, out, *numbers)
    assert out.tolist() == want
    out[:] = 0
    kernel.launch(1, 1, np.zeros(1, np.uint16), out, 5, np.float64(1.5), 2.5, pair[0], 1, -7, 200)
    assert out.tolist() == [*want[:8], 0]


PAIR = bytes(8)
GOOD = (None, np.zeros(9, np.float32), 5, 1.5, 2.5, PAIR, True, -7, 200)


@pytest.mark.parametrize(
    ("index", "argument", "message"),
    [
        (0, 0, "p: cannot pass a int for `const half *`"),
        (0, [1.0], "p: cannot pass a list"),
        (0, np.zeros(4, np.float32), "p: an array of float32 was given for `const half *`, whose elements are f16"),
        (0, np.zeros(4, np.int16), "p: an array of int16"),
        (0, np.zeros(8, np.float16)[::2], "C-contiguous"),
        (1, np.zeros(9), "pass array.astype(np.float32)"),
        (1, None, None),
        (2, 2.0, "n: 2.0 was given for an integer parameter"),
        (2, np.float32(2), "n: a float32 was given for `int`"),
        (2, 2**32, "n: 4294967296 does not fit 32 bits"),
        (2, np.int16(2), "n: 2 bytes given for a parameter of 4 bytes"),
        (2, "2", "n: cannot pass a str for `int`"),
        (2, np.zeros(1, np.int32), "n: an array was given for the number `int`"),
        (5, bytes(4), "s: 4 bytes given for a parameter of 8 bytes"),
        (8, 256, "u: 256 does not fit 8 bits"),
    ],
)
def test_wrong_arguments_are_refused(index, argument, message):
    kernel = wmmadiag.kernel(SCALARS)
    arguments = [*GOOD[:index], argument, *GOOD[index + 1 :]]
    with pytest.raises(wmmadiag.WmmadiagError) as caught:
        kernel.launch(1, 1, *arguments)
    if message is None:  # a null pointer is a fault once it is used, and only then
        assert isinstance(caught.value, wmmadiag.KernelFault)
    else:
        assert isinstance(caught.value, wmmadiag.ConfigurationError) and message in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        (0, 1, 0, "grid: 0 is less than 1"),
        ((), 1, 0, "grid () is not one to three numbers"),
        ((1, 1, 1, 1), 1, 0, "not one to three numbers"),
        (1, "32", 0, "block '32' is not one to three numbers"),
        (1, 1.5, 0, "block: 1.5 is no whole number"),
        (True, 1, 0, "grid: True is no whole number"),
        (1, 1, -4, "shared: -4 is less than 0"),
    ],
)
def test_wrong_launches_are_refused(grid, block, shared, message):
    with pytest.raises(wmmadiag.ConfigurationError) as caught:
        wmmadiag.kernel(SCALARS).launch(grid, block, *GOOD, shared=shared)
    assert message in str(caught.value)


def test_the_number_of_arguments():
    with pytest.raises(wmmadiag.ConfigurationError, match="takes 9 arguments, 1 were given") as caught:
        wmmadiag.kernel(SCALARS).launch(1, 1, None)
    assert "const half * p, float * out, int n" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("", {}, "the source is empty"),
        ("gone.cu", {}, "gone.cu: no such file"),
        ("int x;\n", {}, "the source has no kernel"),
        (SCALARS, {"entry": "scalar"}, "did you mean 'scalars'?"),
        (SCALARS, {"backend": "abacus"}, "unknown backend 'abacus'"),
        (SCALARS, {"arch": "sm_1"}, "unknown architecture"),
        (SCALARS, {"limits": wmmadiag.RunLimits(seconds=-1.0)}, "cannot have -1.0 seconds"),
        (SCALE, {}, "is a template: name an instantiation"),
    ],
)
def test_wrong_kernels_are_refused(source, options, message):
    with pytest.raises(wmmadiag.ConfigurationError) as caught:
        wmmadiag.kernel(source, **options)
    assert message in str(caught.value)


def test_limits_of_a_run():
    source = 'extern "C" __global__ void loop(volatile int* go) { while (*go) {} }'
    loop = wmmadiag.kernel(source, limits=wmmadiag.RunLimits(threads=1, instructions=1000))
    with pytest.raises(wmmadiag.BudgetError, match="did not end within its budget of 1,000 warp instructions"):
        loop.launch(1, 32, np.ones(1, np.int32))


def test_attention_against_its_reference_and_a_wrong_one():
    attend = wmmadiag.kernel(ATTENTION)
    q, k, v = np.random.default_rng(0).standard_normal((3, 32, 8)).astype(np.float16)
    o = np.zeros((32, 8), np.float16)
    attend.launch(1, 32, q, k, v, o, 32, 8**-0.5)
    assert wmmadiag.compare_arrays(o, wmmadiag.reference("attention", q=q, k=k, v=v, causal=True)).passed
    seen = wmmadiag.compare_arrays(o, wmmadiag.reference("attention", q=q, k=k, v=v), name="o")
    assert seen.wrong > 200 and seen.output == "o" and seen.criterion == "rounding bound"


def test_check_returns_data_and_render_text():
    card = wmmadiag.open_card(ROOT / "kernels" / "gemm" / "kernel.toml")
    report = wmmadiag.check(card, cases=[card.cases[0].name], resources=True, arch="sm_80")
    assert (report.status, report.exit_code, report.arch) == ("passed", 0, "sm_80")
    assert report.compiled[0].resources is not None and report.compiled[0].resources.registers > 0
    assert "ok: " in wmmadiag.render(report)


def test_check_of_a_source(tmp_path):
    path = tmp_path / "attend.cu"
    path.write_text(ATTENTION)
    options = {"computes": "attention", "grid": [1], "block": ["S"], "symbols": {"S": 32, "D": 8, "H": 1}}
    # Nobody said that it is causal: what the result fits is assumed, and said.
    assumed = wmmadiag.check(path, **options, cases=["small"])
    assert (assumed.status, assumed.assumed) == ("passed", ("a causal mask, which is what the result fits",))
    options["symbols"]["causal"] = 1
    told = wmmadiag.check(path, **options, cases=["small"])
    assert (told.status, told.assumed) == ("passed", ())


def test_check_is_told_what_it_cannot_do(tmp_path):
    card = ROOT / "kernels" / "pv" / "kernel.toml"
    for options, message in (
        ({"cases": ["none"]}, "has no case 'none'"),
        ({"inputs": "norml"}, "did you mean 'normal'?"),
        ({"computes": "gemm"}, "computes 'pv'"),
        ({"backend": "abacus"}, "unknown backend"),
        ({"symbols": {"1S": 2}}, "'1S' cannot be a symbol"),
        ({"symbols": {"SS": 64}}, "nothing in the card uses the symbol 'SS'"),
    ):
        with pytest.raises(wmmadiag.ConfigurationError) as caught:
            wmmadiag.check(card, **options)
        assert message in str(caught.value)
    with pytest.raises(wmmadiag.ConfigurationError, match="no such file"):
        wmmadiag.check(tmp_path / "gone.toml")
