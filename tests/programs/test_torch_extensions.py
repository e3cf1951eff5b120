"""`wmmadiag.torch.load`: an unchanged extension on CPU tensors, its kernels on the emulator, findings as errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'wmmadiag[torch]'")

import wmmadiag.errors  # noqa: E402
import wmmadiag.torch  # noqa: E402

FOLDER = Path(__file__).parent / "torch_extension"

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


@pytest.fixture(scope="module")
def extension() -> Any:
    return wmmadiag.torch.load("scale_add_ext", [str(FOLDER / "binding.cpp"), str(FOLDER / "kernels.cu")])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extension_computes_on_cpu_tensors_what_torch_does(extension: Any, dtype: Any) -> None:
    x, y = torch.randn(10, 25, dtype=dtype).cuda(), torch.randn(10, 25, dtype=dtype, device="cuda")
    out = extension.forward(x, y, 2.0)
    assert out.is_cuda
    torch.testing.assert_close(out, x * 2.0 + y)


def test_finding_in_a_kernel_is_raised_with_its_line_and_the_next_call_is_right(extension: Any) -> None:
    x, y = torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda")
    with pytest.raises(wmmadiag.torch.KernelFindings, match=r"kernels\.cu:9") as raised:
        extension.forward(x, y, 2.0, threads=-64)
    assert "argument 1 of forward (float32 8×8)" in str(raised.value)
    assert (extension.forward(x, y, 2.0) == 3).all()


def test_checks_of_the_launcher_hold(extension: Any) -> None:
    x = torch.ones(8, 8, device="cuda")
    with pytest.raises(RuntimeError, match="x must be contiguous"):
        extension.forward(x.t().expand(8, 8).t()[:, ::2], x, 2.0)


def test_memory_that_is_not_torchs_is_refused(extension: Any) -> None:
    import numpy as np

    x = torch.ones(8, 8)
    with pytest.raises(wmmadiag.errors.ConfigurationError, match="argument 2 of forward lies in memory"):
        extension.forward(x, torch.from_numpy(np.ones((8, 8), np.float32)), 2.0)


def test_unknown_flag_of_nvcc_is_refused() -> None:
    with pytest.raises(wmmadiag.errors.ConfigurationError, match="--relocatable"):
        wmmadiag.torch.load("never_built", ["x.cu"], extra_cuda_cflags=["-O3", "--relocatable-device-code=true"])


DRAWS = r"""
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <mutex>
#include <vector>

std::vector<int64_t> draw(int64_t count) {
    auto generator = at::cuda::detail::getDefaultCUDAGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    const at::PhiloxCudaState state = generator.get<at::CUDAGeneratorImpl>()->philox_cuda_state(count);
    return {static_cast<int64_t>(state.seed_.val), static_cast<int64_t>(state.offset_.val)};
}
"""


def test_the_devices_generator_goes_on_from_torchs_seed() -> None:
    extension = wmmadiag.torch.load_inline("draws_ext", DRAWS, "", functions="draw")
    torch.manual_seed(5)
    assert extension.draw(3) == [5, 0]
    assert extension.draw(1) == [5, 4]
    torch.manual_seed(7)
    assert extension.draw(1) == [7, 0]
