"""Mathematics that nvcc brings to host code: as the device has it, and a program's own function of a name first."""

from __future__ import annotations

from pathlib import Path

from command import run_program

MATHS = r"""#include <cstdio>
#include <initializer_list>
double rcbrt(double x) { return x < 0 ? -1 : 7; }  // the program's own
#define ALL(X) X(sinpi, 1) X(cospi, 1) X(erfinv, 0.1) X(erfcinv, 0.3) X(erfcx, 3) X(normcdf, 1) X(normcdfinv, 0.15)
__global__ void on_device(const double* x, double* y, float* z) {
    const int i = threadIdx.x;
    int at = i;
#define PUT(name, scale) y[at] = name(x[i] * scale), z[at] = name##f(float(x[i] * scale)), at += blockDim.x;
    ALL(PUT)
    y[at] = rhypot(x[i], 2.0), z[at] = rnorm3df(x[i], 2, 3);
}
int main() {
    const int n = 6, rows = 8;
    double *x, *y;
    float* z;
    cudaMallocManaged(&x, n * 8), cudaMallocManaged(&y, n * rows * 8), cudaMallocManaged(&z, n * rows * 4);
    const double values[n] = {0.25, 0.5, 1.5, 3.75, 5, 6.6};
    for (int i = 0; i < n; ++i) x[i] = values[i];
    on_device<<<1, n>>>(x, y, z);
    cudaDeviceSynchronize();
    double worst = 0, worst_f = 0;
    for (int i = 0; i < n; ++i) {
        int at = i;
        const auto near = [&](double one, float other) {
            worst = fmax(worst, fabs(one - y[at]) / fmax(1e-300, fabs(y[at]) + (y[at] == 0)));
            worst_f = fmax(worst_f, fabs(other - z[at]) / fmax(1e-30, fabs(z[at]) + (z[at] == 0)));
            at += n;
        };
#define HOST(name, scale) near(name(x[i] * scale), name##f(float(x[i] * scale)));
        ALL(HOST)
        near(rhypot(x[i], 2.0), rnorm3df(x[i], 2, 3));
    }
    double sine, cosine;
    sincospi(0.5, &sine, &cosine);
    printf("%d %d %g %g ", worst < 1e-14, worst_f < 1e-6, sine, cosine);
    printf("%g %g %g\n", norm4d(1, 1, 1, 1), rcbrt(1.0), sinpi(1e15));
}
"""


def test_host_maths_that_nvcc_brings(tmp_path: Path) -> None:
    done = run_program(tmp_path, MATHS)
    assert done.stdout == "1 1 1 0 2 7 0\n", done.stdout + done.stderr
