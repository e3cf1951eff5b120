"""Calls through pointers to functions in whole programs: tables, symbols, virtual functions, and what is refused."""

from __future__ import annotations

from pathlib import Path

from command import run_program

POINTERS = r"""
#include <cstdio>
typedef float (*op_t)(float, float);
__device__ float add(float a, float b) { return a + b; }
__device__ float mul(float a, float b) { return a * b; }
static __device__ float sub(float a, float b) { return a - b; }
template <int N> __device__ float power(float a, float) { float r = 1; for (int i = 0; i < N; i++) r *= a; return r; }
__device__ int other(int a) { return a; }
__device__ op_t p_add = add;
__device__ op_t p_power = power<3>;
__device__ op_t table[3] = {add, mul, sub};
__constant__ op_t fixed[2] = {sub, mul};
__device__ int (*unlike)(int) = other;
__global__ void given(float* y, op_t f) { y[threadIdx.x] = f(threadIdx.x, 2); }
__global__ void chosen(float* y) {
    int i = threadIdx.x;
    y[i] = i < 6 ? table[i % 3](i, 2) : fixed[i % 2](i, unlike(3));
}
int main() {
    float *y, h[8];
    cudaMalloc(&y, sizeof h);
    op_t f;
    cudaMemcpyFromSymbol(&f, p_add, sizeof f);
    given<<<1, 8>>>(y, f);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    cudaMemcpyFromSymbol(&f, p_power, sizeof f);
    given<<<1, 8>>>(y, f);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    cudaMemcpyToSymbol(table, &f, sizeof f, 2 * sizeof f);
    chosen<<<1, 8>>>(y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (float v : h) printf("%g ", v);
    puts("");
    return cudaGetLastError();
}
"""
SHAPES = r"""
#include <cstdio>
struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area() const override { return a * a; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3 * r * r; }
};
struct Several : Shape {
    Shape** of;
    int n;
    __device__ Several(Shape** of, int n) : of(of), n(n) {}
    __device__ float area() const override {
        float sum = 0;
        for (int i = 0; i < n; i++)
            sum += of[i]->area();
        return sum;
    }
};
__global__ void make(Shape** s, int nested) {
    for (int i = 0; i < 4; i++) s[i] = i % 2 ? (Shape*)new Square(i + 1) : (Shape*)new Circle(i + 1);
    s[4] = new Several(s, 4);
    for (int i = 0; i < nested; i++) s[5 + i] = new Several(s + 4 + i, 1);
}
__global__ void areas(Shape** s, float* y) { y[threadIdx.x] = s[threadIdx.x]->area(); }
__global__ void gone(Shape** s, int n) { for (int i = 0; i < n; i++) delete s[i]; }
int main(int argc, char** argv) {
    int nested = argc - 1, n = 5 + nested;
    Shape** s;
    float *y, h[16];
    cudaMalloc(&s, 16 * sizeof *s);
    cudaMalloc(&y, sizeof h);
    make<<<1, 1>>>(s, nested);
    areas<<<1, n>>>(s, y);
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    gone<<<1, 1>>>(s, n);
    for (int i = 0; i < n; i++) printf("%g ", h[i]);
    puts("");
    return cudaDeviceSynchronize();
}
"""
NOWHERE = r"""
__device__ int one(int x) { return x + 1; }
__device__ int (*nowhere)(int);
__device__ int (*somewhere)(int) = one;
__global__ void k(int* y) {
    y[0] = somewhere(1);
    y[1] = nowhere(2);
}
int main() {
    int* y;
    cudaMalloc(&y, 8);
    k<<<1, 1>>>(y);
    return cudaDeviceSynchronize() != cudaSuccess;
}
"""
# Functions as arguments of kernel templates: instantiations and plain ones, and one that takes a function itself.
ARGUMENTS = r"""
#include <cstdio>
namespace ops {
template <class T> __device__ T add(T a, T b) { return a + b; }
template <int (*F)(int)> __device__ int twice(int a, int b) { return F(F(a)) + b; }
}
__device__ int next(int a) { return a + 1; }
__device__ int less(int a, int b) { return a - b; }
template <class T, T (*F)(T, T)> __global__ void each(T* x, T b) { x[threadIdx.x] = F(x[threadIdx.x], b); }
int main() {
    int* x;
    cudaMallocManaged(&x, 8);
    x[0] = 1, x[1] = 2;
    each<int, ops::add<int>><<<1, 2>>>(x, 10);
    each<int, less><<<1, 2>>>(x, 3);
    each<int, ops::twice<next>><<<1, 2>>>(x, 100);
    cudaDeviceSynchronize();
    printf("%d %d\n", x[0], x[1]);
    return cudaGetLastError();
}
"""


def test_pointers_to_functions_in_symbols_tables_and_arguments(tmp_path: Path) -> None:
    done = run_program(tmp_path, POINTERS)
    expected = [
        *(i + 2 for i in range(8)),
        *(i**3 for i in range(8)),
        *(0 + 2, 1 * 2, 2**3, 3 + 2, 4 * 2, 5**3, 6 - 3, 7 * 3),
    ]
    assert done.stdout.split() == [str(one) for one in expected], done.stderr
    assert done.returncode == 0, done.stderr


def test_functions_are_arguments_of_kernel_templates(tmp_path: Path) -> None:
    done = run_program(tmp_path, ARGUMENTS)
    assert (done.returncode, done.stdout) == (0, "110 111\n"), done.stderr


def test_objects_with_virtual_functions_live_from_launch_to_launch(tmp_path: Path) -> None:
    done = run_program(tmp_path, SHAPES)
    assert done.stdout == "3 4 27 16 50 \n", done.stderr
    assert done.returncode == 0, done.stderr


def test_recursion_is_refused_at_the_call_that_a_lane_comes_to(tmp_path: Path) -> None:
    """Of a source in which one virtual function may call itself, what does not do so runs (above)."""
    done = run_program(tmp_path, SHAPES, "--", "x")
    line = 1 + SHAPES[: SHAPES.index("of[i]->area()")].count("\n")
    assert done.returncode == 3 and "50" not in done.stdout, done.stdout
    assert f"program.cu:{line}" in done.stderr and "recursion: a call that may come to itself again" in done.stderr


def test_a_pointer_that_holds_no_function_is_a_fault_at_its_line(tmp_path: Path) -> None:
    done = run_program(tmp_path, NOWHERE)
    assert done.returncode == 1, done.stderr
    line = 1 + NOWHERE[: NOWHERE.index("y[1] = nowhere")].count("\n")
    assert f"program.cu:{line}" in done.stderr
    assert "call through a pointer that holds no function's address" in " ".join(done.stderr.split())


HANDED_ON = r"""
#include <cstdio>
typedef float (*op_t)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }
__global__ void get(op_t* f, int which) {
    f[0] = which ? (op_t)twice : (op_t)[](float x) { return -x; };
}
__global__ void given(float* y, op_t f) { y[threadIdx.x] = f(threadIdx.x); }
__global__ void stored(float* y, const op_t* f) { y[threadIdx.x] += f[0](threadIdx.x); }
int main() {
    float *y, h[4];
    op_t *at, f;
    cudaMalloc(&y, sizeof h);
    cudaMalloc(&at, sizeof f);
    for (int which = 0; which < 2; which++) {
        get<<<1, 1>>>(at, which);
        cudaMemcpy(&f, at, sizeof f, cudaMemcpyDeviceToHost);
        given<<<1, 4>>>(y, f);
        stored<<<1, 4>>>(y, at);
        cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
        for (float v : h) printf("%g ", v);
    }
    return cudaGetLastError();
}
"""


def test_a_pointer_that_another_kernel_took_is_called(tmp_path: Path) -> None:
    done = run_program(tmp_path, HANDED_ON)
    assert (done.stdout, done.returncode) == ("-0 -2 -4 -6 0 4 8 12 ", 0), done.stderr
