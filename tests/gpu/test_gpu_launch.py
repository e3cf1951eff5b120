"""Launches on a real GPU: results, guards, faults, limits. One fault must not spoil the next launch."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import compiled, needs_gpu, zeros

from wmmadiag.errors import BudgetError, ConfigurationError, KernelFault
from wmmadiag.gpu import device
from wmmadiag.gpu.kernel import GpuKernel
from wmmadiag.launch import Launch

ADD_ONE = "p[threadIdx.x + blockIdx.x * blockDim.x] += 1;"


def _still_works() -> None:
    data = zeros()
    compiled(ADD_ONE).launch(2, 32, data)
    assert (data == 1).all()


@needs_gpu
def test_arrays_are_changed_in_place() -> None:
    _still_works()


@needs_gpu
def test_scalars() -> None:
    out = np.zeros(4, np.float64)
    parameters = "double* p, short a, float b, long long c, double d"
    compiled("p[0] = a; p[1] = b; p[2] = c; p[3] = d;", parameters=parameters).launch(1, 1, out, -3, 0.5, 1 << 40, 2.25)
    assert out.tolist() == [-3, 0.5, 2.0**40, 2.25]


@needs_gpu
def test_views_of_one_buffer_overlap_on_the_device() -> None:
    data = zeros(8)
    kernel = compiled("p[0] = 5; q[1] = p[4];", parameters="int* p, int* q")
    data[4] = 7
    kernel.launch(1, 1, data, data[2:])
    assert data.tolist() == [5, 0, 0, 7, 7, 0, 0, 0]


@needs_gpu
@pytest.mark.parametrize(
    ("index", "where", "distance"),
    [("64", "past the end", 0), ("80", "past the end", 64), ("-1", "before the start", 0)],
)
def test_writes_beside_an_array_are_found(index: str, where: str, distance: int) -> None:
    with pytest.raises(KernelFault, match=f"{distance} bytes {where} of p") as caught:
        compiled(f"p[threadIdx.x] = 3; if (threadIdx.x == 0) p[{index}] = 1;").launch(1, 64, zeros())
    assert caught.value.kind == "out-of-bounds"


@needs_gpu
def test_read_only_arrays_stay_so() -> None:
    data = zeros()
    data.flags.writeable = False
    with pytest.raises(KernelFault, match="read-only") as caught:
        compiled(ADD_ONE).launch(2, 32, data)
    assert caught.value.kind == "read-only"


@needs_gpu
@pytest.mark.parametrize(
    ("body", "kind", "name"),
    [
        ("p[1ll << 40] = 1;", "out-of-bounds", "ILLEGAL_ADDRESS"),
        ("*(int4*)(p + 1) = int4{1, 2, 3, 4};", "misaligned", "MISALIGNED_ADDRESS"),
        ('asm volatile("trap;");', "launch-failed", "LAUNCH_FAILED"),
        ("assert(p[0] == 1);", "assertion", "ASSERT"),
    ],
    ids=["address", "misaligned", "trap", "assert"],
)
def test_faults_are_named_and_do_not_last(body: str, kind: str, name: str) -> None:
    with pytest.raises(KernelFault, match=name) as caught:
        compiled(body).launch(1, 1, zeros())
    assert caught.value.kind == kind
    assert caught.value.hint
    assert caught.value.place is not None
    _still_works()


@needs_gpu
def test_an_assertion_shows_its_text() -> None:
    with pytest.raises(KernelFault) as caught:
        compiled("assert(p[0] == 41);").launch(1, 1, zeros())
    assert "p[0] == 41" in caught.value.detail


@needs_gpu
def test_an_endless_loop_ends() -> None:
    with pytest.raises(BudgetError, match="2 s"):
        compiled("while (atomicAdd(p, 0) == 0) { }", seconds=2).launch(1, 1, zeros())
    _still_works()


@needs_gpu
def test_limits_of_a_launch() -> None:
    with pytest.raises(KernelFault, match="threads") as caught:
        compiled(ADD_ONE).launch(1, 2048, zeros(2048))
    assert caught.value.kind == "launch-limits"
    with pytest.raises(KernelFault, match="shared memory") as caught:
        compiled(ADD_ONE).launch(2, 32, zeros(), shared=400_000)
    assert caught.value.kind == "launch-limits"
    _still_works()


@needs_gpu
def test_shared_memory_above_48_kilobytes() -> None:
    data = zeros()
    body = (
        "extern __shared__ int s[]; s[20000 + threadIdx.x] = threadIdx.x; __syncthreads();\n"
        "p[threadIdx.x] = s[20063 - threadIdx.x];"
    )
    compiled(body).launch(1, 64, data, shared=90_000)
    assert data.tolist() == list(range(63, -1, -1))


@needs_gpu
def test_device_printf_is_captured() -> None:
    stats = compiled(r'printf("%d says %s\n", 7, "hello");').launch(1, 1, zeros())
    assert stats.output == "7 says hello\n"


@needs_gpu
def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="2 were given"):
        compiled(ADD_ONE).launch(1, 1, zeros(), 3)


@needs_gpu
def test_times() -> None:
    loaded = compiled(ADD_ONE)._loaded
    assert isinstance(loaded, GpuKernel)
    data = zeros()
    timing = loaded.time(Launch((2, 1, 1), (32, 1, 1), [data]), warm_up=2, repeats=5)
    assert len(timing.seconds) == 5
    assert all(0 < seconds < 1 for seconds in timing.seconds)
    assert timing.attributes.registers > 0
    assert timing.attributes.blocks > 0
    assert (data == 0).all()


@needs_gpu
def test_torch_and_cupy_arrays_are_used_where_they_are() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(64, dtype=torch.int32, device=f"cuda:{device().index}")
    torch.cuda.synchronize()
    compiled(ADD_ONE).launch(2, 32, tensor)
    assert bool((tensor == 1).all())
    cpu = torch.zeros(64, dtype=torch.int32)
    compiled(ADD_ONE).launch(2, 32, cpu)
    assert bool((cpu == 1).all())
    cupy = pytest.importorskip("cupy")
    array = cupy.zeros(64, dtype=cupy.int32)
    cupy.cuda.Device().synchronize()
    compiled(ADD_ONE).launch(2, 32, array)
    assert bool((array == 1).all())


@needs_gpu
def test_the_device_says_what_it_is() -> None:
    found = device()
    assert found.arch.startswith("sm_")
    assert found.multiprocessors > 0
    with pytest.raises(ConfigurationError, match="no GPU 99"):
        device(99)


@needs_gpu
def test_pointers_in_a_struct() -> None:
    given, taken = zeros(32), zeros(32)
    given[:] = np.arange(32)
    head = "struct S { int* to; short plus; const int* from; };"
    loaded = compiled("s.to[threadIdx.x] = s.from[threadIdx.x] + s.plus;", parameters="S s", head=head)._loaded
    loaded.launch(Launch((1, 1, 1), (32, 1, 1), (taken, np.int16(7), given), structs=((0, 3),)))
    assert taken.tolist() == [i + 7 for i in range(32)]


@needs_gpu
def test_blocks_of_a_cooperative_launch_wait_for_each_other() -> None:
    out, parts = zeros(4 * 32), zeros(4 * 32)
    code = """const int i = blockIdx.x * 32 + threadIdx.x;
    q[i] = i; cooperative_groups::this_grid().sync(); p[i] = q[(i + 32) % 128];"""
    compiled(code, parameters="int* p, int* q", head="#include <cooperative_groups.h>").launch(4, 32, out, parts)
    assert out.tolist() == [(i + 32) % 128 for i in range(128)]
