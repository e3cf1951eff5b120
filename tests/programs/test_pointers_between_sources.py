"""Pointers to functions that one source of a program takes and another calls: tables, objects, names of its own."""

from __future__ import annotations

from pathlib import Path

from command import wmmadiag

from wmmadiag.ptx.calls import function_address

HEADER = r"""#pragma once
typedef float (*Op)(float);
struct Shape {
    __device__ virtual float area() const = 0;
};
extern __device__ Op table[2];
__device__ float thrice(float x);
void make(Shape **shapes, Op *ops, int n);
"""
MAKES = r"""#include "shape.h"
namespace {
struct Circle : Shape {
    float r;
    __device__ explicit Circle(float r) : r(r) {}
    __device__ float area() const override { return 3 * r * r; }
};
}
struct Square : Shape {
    float s;
    __device__ explicit Square(float s) : s(s) {}
    __device__ float area() const override { return s * s; }
};
static __device__ float own(float x) { return 2 * x; }
__device__ float thrice(float x) { return 3 * x; }
__device__ Op table[2] = {own, thrice};
__global__ void make_all(Shape **shapes, Op *ops, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    shapes[i] = i % 2 ? static_cast<Shape *>(new Circle(i)) : new Square(i);
    ops[i] = i % 3 ? own : thrice;
}
void make(Shape **shapes, Op *ops, int n) { make_all<<<1, n>>>(shapes, ops, n); }
"""
USES = r"""#include <cstdio>
#include "shape.h"
static __device__ float own(float x) { return 200 * x; }
__global__ void held(Shape **shapes, Op *ops, float *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = ops[i](shapes[i]->area());
    if (i == n) out[0] = own(1);
}
__global__ void listed(float *out) { out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x); }
int main() {
    const int n = 4;
    Shape **shapes;
    Op *ops;
    float *out, h[n];
    cudaMalloc(&shapes, n * sizeof *shapes), cudaMalloc(&ops, n * sizeof *ops), cudaMalloc(&out, sizeof h);
    make(shapes, ops, n);
    held<<<1, n>>>(shapes, ops, out, n);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    listed<<<1, n>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    puts("");
}
"""


def test_what_one_source_points_to_another_calls(tmp_path: Path) -> None:
    for name, text in (("shape.h", HEADER), ("makes.cu", MAKES), ("uses.cu", USES)):
        (tmp_path / name).write_text(text, "utf-8")
    done = wmmadiag(tmp_path, "run", "makes.cu", "uses.cu")
    assert (done.stdout, done.returncode) == ("0 6 8 81 0 3 4 9 \n", 0), done.stderr
    assert "nothing found" in done.stderr


def test_a_name_of_a_source_of_its_own_has_one_address_whichever_run_named_it() -> None:
    one, other = (f"_ZNK47_GLOBAL__N__00000000_9_shapes_cu_271a05aa_{run}6Circle4areaEv" for run in (28357, 26179))
    assert function_address(one) == function_address(other)
    assert function_address(one) != function_address(one.replace("6Circle", "6Square"))
    assert function_address(one) != function_address(one.replace("271a05aa", "371a05aa"))
    static = "_ZN37_INTERNAL_00000000_7_make_cu_c03d787e5twiceEf"  # without a run: another source's name is another's
    assert function_address(static) != function_address(static.replace("7_make_cu", "7_take_cu"))


NEVER_GIVEN = r"""#include <cstdio>
__global__ void dies(int *p) { *p = 1; }
int main() {
    int *given = nullptr, *never = reinterpret_cast<int *>(12345);
    cudaMalloc(&given, 4);
    dies<<<1, 1>>>(nullptr);
    cudaDeviceSynchronize();
    cudaMalloc(&never, 4);
    printf("%d %d\n", cudaFree(never), cudaFree(given));
}
"""


def test_what_a_dead_device_never_gave_is_no_wrong_free(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(NEVER_GIVEN, "utf-8")
    done = wmmadiag(tmp_path, "run", "program.cu")
    assert done.stdout == "700 700\n", done.stderr
    assert "1 error" in done.stderr and "start of an allocation" not in done.stderr
