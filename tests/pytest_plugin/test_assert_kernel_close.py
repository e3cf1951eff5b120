"""`assert_kernel_close`: arrays of any library, callables, references, tolerances, and what it refuses."""

from __future__ import annotations

import sys
import types

import ml_dtypes
import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.testing import KernelMismatch, assert_kernel_close
from wmmadiag.testing.close import host_array

pytest_plugins = ["pytester"]
RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((2, 32, 32)).astype(np.float16)
PRODUCT = (A.astype(np.float64) @ B.astype(np.float64)).astype(np.float32)


def shifted(array, by=1.0):
    changed = array.copy()
    changed[3, 5] += by
    return changed


def test_an_operation_with_its_bound():
    assert assert_kernel_close(PRODUCT, operation="gemm", a=A, b=B).passed
    with pytest.raises(KernelMismatch, match=r"\[3,5\]") as caught:
        assert_kernel_close(shifted(PRODUCT), operation="gemm", a=A, b=B, name="C")
    assert caught.value.observation.wrong == 1 and str(caught.value).startswith("C is wrong")


def test_parameters_of_the_operation():
    q, k, v = RNG.standard_normal((3, 16, 32)).astype(np.float16)
    value = wmmadiag.reference("attention", q=q, k=k, v=v, causal=True).value.astype(np.float16)
    assert_kernel_close(value, operation="attention", q=q, k=k, v=v, causal=True)
    with pytest.raises(KernelMismatch):
        assert_kernel_close(value, operation="attention", q=q, k=k, v=v)


def test_the_bound_is_that_of_the_outputs_type():
    half = PRODUCT.astype(np.float16)
    assert_kernel_close(half, operation="gemm", a=A, b=B)
    with pytest.raises(KernelMismatch):
        assert_kernel_close(half.astype(np.float32), operation="gemm", a=A, b=B)
    assert_kernel_close(half.astype(np.float32), operation="gemm", a=A, b=B, dtype="f16")


@pytest.mark.parametrize(
    ("allowed", "passes"),
    [({}, False), ({"bound": 0.4}, False), ({"bound": 0.6}, True), ({"atol": 0.6}, True), ({"rtol": 1e-6}, False),
     ({"bound": np.full((32, 32), 0.6)}, True)],
    ids=str,
)  # fmt: skip
def test_an_array_with_a_tolerance(allowed, passes):
    wrong = shifted(PRODUCT, 0.5)
    if passes:
        assert_kernel_close(wrong, PRODUCT, **allowed)
    else:
        with pytest.raises(KernelMismatch):
            assert_kernel_close(wrong, PRODUCT, **allowed)
    assert_kernel_close(PRODUCT, PRODUCT)


def test_nan_is_never_close():
    with pytest.raises(KernelMismatch):
        assert_kernel_close(shifted(PRODUCT, np.nan), PRODUCT, bound=1e9)


def test_a_black_box():
    def kernel(a, b):
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float32)

    assert_kernel_close(kernel, operation="gemm", a=A, b=B)
    assert_kernel_close(lambda *args: [kernel(*args)], operation="gemm", a=A, b=B)
    with pytest.raises(KernelMismatch):
        assert_kernel_close(lambda a, b: kernel(b, a), operation="gemm", a=A, b=B)


def attention(q, k, v, causal):
    return wmmadiag.reference("attention", q=q, k=k, v=v, causal=causal).value.astype(np.float32)


CALLABLES = {
    "by position or name": lambda q, k, v, causal=False: attention(q, k, v, causal),
    "by name only": lambda q, k, v, *, causal: attention(q, k, v, causal),
    "under any name": lambda q, k, v, **others: attention(q, k, v, others["causal"]),
    "fixed": lambda q, k, v: attention(q, k, v, True),
}


@pytest.mark.parametrize("how", CALLABLES)
def test_a_callable_gets_the_parameters_that_it_takes(how):
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 16, 8)).astype(np.float16)
    assert_kernel_close(CALLABLES[how], operation="attention", q=q, k=k, v=v, causal=True)
    if how != "fixed":
        assert_kernel_close(CALLABLES[how], operation="attention", q=q, k=k, v=v, causal=False)


def test_a_parameter_does_not_take_the_place_of_an_input():
    """A callable may call an input as the operation calls a parameter."""
    a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)
    assert_kernel_close(lambda alpha, beta: 2 * (alpha @ beta), operation="gemm", a=a, b=b, alpha=2.0)


def test_a_black_box_that_writes_to_an_array():
    out = np.zeros((32, 32), np.float32)

    def kernel(a, b):
        np.matmul(a.astype(np.float32), b.astype(np.float32), out=out)

    assert_kernel_close(kernel, operation="gemm", a=A, b=B, out=out)
    with pytest.raises(ConfigurationError, match="nothing to compare"):
        assert_kernel_close(kernel, operation="gemm", a=A, b=B)


def test_a_black_box_that_changes_its_input():
    a = A.copy()

    def kernel(a, b):
        result = a.astype(np.float32) @ b.astype(np.float32)
        a[0, 0] = 7
        return result

    with pytest.raises(KernelMismatch, match="changed its input a") as caught:
        assert_kernel_close(kernel, operation="gemm", a=a, b=B)
    assert caught.value.observation is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"observed": PRODUCT}, "either what is expected or the operation"),
        ({"observed": PRODUCT, "expected": PRODUCT, "operation": "gemm"}, "either what is expected"),
        ({"observed": PRODUCT, "expected": PRODUCT, "bound": 1, "atol": 1}, "either bound or atol"),
        ({"observed": PRODUCT, "operation": "gemm", "a": A, "b": B, "atol": 1}, "its own bound"),
        ({"observed": PRODUCT, "operation": "gmem", "a": A, "b": B}, "unknown operation"),
        ({"observed": PRODUCT, "operation": "gemm", "a": A}, "needs the input 'b'"),
        ({"observed": PRODUCT, "expected": PRODUCT[:3]}, "has shape"),
        ({"observed": PRODUCT, "expected": PRODUCT, "out": PRODUCT}, "out is for callables"),
        ({"observed": lambda a, b: (a, b), "operation": "gemm", "a": A, "b": B}, "returned 2 things"),
        ({"observed": object(), "expected": PRODUCT}, "is no array"),
        ({"observed": "text", "expected": PRODUCT}, "is no array"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_refused(words, message):
    with pytest.raises(ConfigurationError, match=message):
        assert_kernel_close(**words)


class OnlyDlpack:
    """An array that only speaks DLPack."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class OnlyArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class OnGpu:
    """As CuPy's arrays: `__array__` refuses."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {}

    def get(self):
        return self.array

    def __array__(self, dtype=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")


@pytest.fixture
def torch(monkeypatch):
    """As much of torch as is used: tensors whose bfloat16 NumPy cannot hold."""
    module = types.ModuleType("torch")
    module.int16, module.uint8 = "torch.int16", "torch.uint8"

    class Tensor:
        def __init__(self, array, dtype=None, where="cuda"):
            self.array, self.where = array, where
            self.dtype = dtype or f"torch.{array.dtype.name}"

        def detach(self):
            return self

        def cpu(self):
            return Tensor(self.array, self.dtype, "cpu")

        def view(self, dtype):
            return Tensor(self.array.view(dtype.split(".")[1]), dtype, self.where)

        def numpy(self):
            if self.where != "cpu" or self.dtype == "torch.bfloat16":
                raise TypeError("Got unsupported ScalarType BFloat16")
            return self.array

    Tensor.__module__ = "torch"
    module.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_arrays_of_other_libraries(torch):
    bits = A.astype(ml_dtypes.bfloat16)
    for made in (OnlyDlpack(A), OnlyArray(A), OnGpu(A), torch.Tensor(A), A.tolist()):
        assert (host_array(made) == A).all()
    found = host_array(torch.Tensor(bits, "torch.bfloat16"))
    assert found.dtype == bits.dtype and found.tobytes() == bits.tobytes()
    with pytest.raises(ConfigurationError, match="device's memory"):
        host_array(OnlyDlpack(A, device=2))
    with pytest.raises(ConfigurationError, match=r"the output .* cannot be read"):
        host_array(type("Odd", (), {"__array__": lambda self: 1 / 0})(), "the output")


def test_they_can_be_compared_and_called(torch):
    tensors = {"a": torch.Tensor(A), "b": torch.Tensor(B)}
    assert_kernel_close(lambda a, b: OnGpu(PRODUCT), operation="gemm", **tensors)
    assert_kernel_close(torch.Tensor(PRODUCT), operation="gemm", **tensors)
    assert_kernel_close(OnlyDlpack(PRODUCT), OnlyArray(PRODUCT))


def test_a_failing_test_names_its_report(pytester):
    pytester.makepyfile(
        """
        import numpy as np
        from wmmadiag.testing import assert_kernel_close

        def test_close():
            assert_kernel_close(np.ones((20, 20), np.float32), np.zeros((20, 20)), bound=0.5)
        """
    )
    result = pytester.runpytest("--wmmadiag-reports", "found")
    result.assert_outcomes(failed=1)
    (page,) = (pytester.path / "found").glob("*.html")
    text = result.stdout.str()
    assert f"report: {page}" in text and "all 400 elements wrong" in text and "def assert_kernel_close" not in text
