"""What is launched and is no kernel, as far as the sources tell, ends the program by name and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
__global__ void add(int* x, int v) { x[threadIdx.x] += v; }
void plain(int* x) { x[0] = 7; }
template <class T> void of_types(T* x) { x[0] = 7; }
int* made() { int* x; cudaMallocManaged(&x, 128); add<<<1, 32>>>(x, 1); return x; }
int thrower() { throw std::runtime_error("no"); }
void guarded(int* x) { try { add<<<1, 32>>>(x, thrower()); } catch (std::exception& e) { puts(e.what()); } }
#define LAUNCH(k, ...) k<<<1, 32>>>(__VA_ARGS__)
template <class... T> void all(T... x) { (add<<<1, 32>>>(x, 1), ...); }
int main(int argc, char** argv) {
    int *x, *y, zero = 0;
    cudaMallocManaged(&x, 128);
    cudaMalloc(&y, 128);
    cudaMemset(y, 0, 128);
    switch (atoi(argv[1])) {
        case 0: plain<<<1, 32>>>(x); break;
        case 1: plain<<<1, 32>>>(y); break;
        case 2: of_types<int><<<1, 32>>>(x); break;
        case 3: LAUNCH(plain, x); break;
        case 4: { void* a[] = {&x}; cudaLaunchKernel((void*)plain, dim3(1), dim3(32), a, 0, 0); break; }
        case 5: add<<<1, 32>>>(made(), 2); break;
        case 6: guarded(x); guarded(x); add<<<1, 32>>>(x, 3); break;
        case 7: add<<<1, 32>>>(x, 3), add<<<1, 32>>>(x, 4); break;
        case 8: all(x, y, x); break;
        case 9: { auto f = add; f<<<1, 32>>>(x, zero); break; }
        case 10: add(x, 3); break;
        case 11: add<<<1, 32>>>(x, *y); break;
    }
    cudaDeviceSynchronize();
    printf("done %d\n", x[0]);
}
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_launch_of_what_is_no_kernel_ends_the_program(tmp_path: Path) -> None:
    for case, name in enumerate(("plain", "plain", "of_types<int>", "plain", "plain")):
        done = run_program(tmp_path, PROGRAM, "--", str(case))
        said = f"program.cu:{19 + case}: {name} is launched, and is not recognised as a kernel"
        assert (done.returncode, said in done.stderr, done.stdout) == (3, True, ""), done.stderr


@pytest.mark.slow
@pytest.mark.subprocess
def test_launches_in_arguments_and_beside_each_other(tmp_path: Path) -> None:
    for case, shown, launches in (
        (5, "done 0", "2 launches"), (6, "no\nno\ndone 3", "1 launch"), (7, "done 7", "2 launches"),
        (8, "done 2", "3 launches"), (9, "done 0", "1 launch"),
    ):  # fmt: skip
        done = run_program(tmp_path, PROGRAM, "--", str(case))
        assert (done.returncode, done.stdout) == (0, shown + "\n"), done.stderr
        assert f"wmmadiag: {launches}" in done.stderr
        assert "nothing found" in done.stderr


@pytest.mark.slow
@pytest.mark.subprocess
def test_mistakes_of_the_program_stay_its_own(tmp_path: Path) -> None:
    done = run_program(tmp_path, PROGRAM, "--", "10")
    assert "error [launch]: program.cu:5: a kernel is called as a function is" in done.stderr
    assert done.returncode == 1
    done = run_program(tmp_path, PROGRAM, "--", "11")
    assert "error [memory]: program.cu:30: host code touches device memory: y" in done.stderr
    assert done.returncode == 1
