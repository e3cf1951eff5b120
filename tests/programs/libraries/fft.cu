// cuFFT against plain sums: lengths with small and large factors, all six types, layouts, plans in steps.
#include <cufft.h>
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>
#define CK(x)                                                  \
    do {                                                       \
        auto e_ = (x);                                         \
        if (e_ != 0) {                                         \
            printf("%s:%d %d\n", __FILE__, __LINE__, (int)e_); \
            return 1;                                          \
        }                                                      \
    } while (0)
using C = std::complex<double>;
static double noise(unsigned i) {
    i = i * 2654435761u;
    i ^= i >> 15;
    i *= 2246822519u;
    i ^= i >> 13;
    return (i % 2001) / 1000.0 - 1;
}
// plain sums over up to three dimensions
static std::vector<C> plain(const std::vector<C>& x, int a, int b, int c, int sign) {
    std::vector<C> y(x.size());
    for (int p = 0; p < a; ++p)
        for (int q = 0; q < b; ++q)
            for (int r = 0; r < c; ++r) {
                C s = 0;
                for (int i = 0; i < a; ++i)
                    for (int j = 0; j < b; ++j)
                        for (int k = 0; k < c; ++k)
                            s += x[(i * b + j) * c + k] *
                                 std::polar(1.0, sign * 2 * M_PI * (double(i * p % a) / a + double(j * q % b) / b + double(k * r % c) / c));
                y[(p * b + q) * c + r] = s;
            }
    return y;
}
template <class T>
double worst(const std::vector<T>& a, const std::vector<C>& b) {
    double w = 0;
    for (size_t i = 0; i < a.size(); ++i) w = std::max(w, std::abs(C(a[i].x, a[i].y) - b[i]));
    return w;
}
int bad = 0;
void say(const char* what, double error, double bound) {
    printf("%-34s %s\n", what, error <= bound ? "ok" : "WRONG");
    if (error > bound) printf("   %g\n", error), ++bad;
}
template <class T>
T* up(const std::vector<T>& h) {
    T* d;
    cudaMalloc(&d, h.size() * sizeof(T));
    cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}
template <class T>
std::vector<T> down(const T* d, size_t n) {
    std::vector<T> h(n);
    cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    return h;
}
int one(int n, int batch) {
    std::vector<cufftComplex> h(n * batch);
    for (int i = 0; i < n * batch; ++i) h[i] = {float(noise(i)), float(noise(i + 77777))};
    auto d = up(h);
    decltype(d) o;
    cudaMalloc(&o, h.size() * sizeof *o);
    cufftHandle p;
    CK(cufftPlan1d(&p, n, CUFFT_C2C, batch));
    CK(cufftExecC2C(p, d, o, CUFFT_FORWARD));
    double w = 0;
    auto y = down(o, h.size());
    for (int b = 0; b < batch; ++b) {
        std::vector<C> x(n);
        for (int i = 0; i < n; ++i) x[i] = C(h[b * n + i].x, h[b * n + i].y);
        w = std::max(w, worst(std::vector<cufftComplex>(y.begin() + b * n, y.begin() + b * n + n), plain(x, 1, 1, n, -1)));
    }
    CK(cufftExecC2C(p, o, o, CUFFT_INVERSE));
    y = down(o, h.size());
    for (size_t i = 0; i < h.size(); ++i) w = std::max<double>(w, std::hypot(y[i].x / n - h[i].x, y[i].y / n - h[i].y));
    char t[64];
    snprintf(t, 64, "C2C %d, batch %d", n, batch);
    say(t, w, 1e-5 * std::sqrt(n) + 1e-6);
    CK(cufftDestroy(p));
    cudaFree(d);
    cudaFree(o);
    return 0;
}
__global__ void scale(cufftComplex* x, cufftReal by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = cuCmulf(x[i], make_cuComplex(by, 0));
}

int main() {
    for (int n : {1, 2, 3, 4, 8, 12, 30, 61, 64, 67, 97, 100, 128, 134, 210, 251, 1024, 1000, 1021})
        if (one(n, n < 300 ? 3 : 1)) return 1;
    {  // 2D and 3D complex
        std::vector<cufftDoubleComplex> h(6 * 10);
        std::vector<C> x;
        for (int i = 0; i < 60; ++i) {
            h[i] = {noise(i), noise(i + 99)};
            x.push_back(C(h[i].x, h[i].y));
        }
        auto d = up(h);
        cufftHandle p;
        CK(cufftPlan2d(&p, 6, 10, CUFFT_Z2Z));
        CK(cufftExecZ2Z(p, d, d, CUFFT_INVERSE));
        say("Z2Z 6 x 10", worst(down(d, 60), plain(x, 1, 6, 10, 1)), 1e-12);
        cufftDestroy(p);
        cudaMemcpy(d, h.data(), 960, cudaMemcpyHostToDevice);
        CK(cufftPlan3d(&p, 3, 4, 5, CUFFT_Z2Z));
        CK(cufftExecZ2Z(p, d, d, CUFFT_FORWARD));
        say("Z2Z 3 x 4 x 5", worst(down(d, 60), plain(x, 3, 4, 5, -1)), 1e-12);
        cufftDestroy(p);
        cudaFree(d);
    }
    for (int n : {7, 8}) {  // real, in place and not, 2D
        std::vector<float> h(6 * n);
        std::vector<C> x;
        for (int i = 0; i < 6 * n; ++i) {
            h[i] = noise(i);
            x.push_back(h[i]);
        }
        auto want = plain(x, 1, 6, n, -1);
        std::vector<C> half;
        int m = n / 2 + 1;
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < m; ++c) half.push_back(want[r * n + c]);
        auto d = up(h);
        cufftComplex* o;
        cudaMalloc(&o, 6 * m * 8);
        cufftHandle f, b;
        CK(cufftPlan2d(&f, 6, n, CUFFT_R2C));
        CK(cufftPlan2d(&b, 6, n, CUFFT_C2R));
        CK(cufftExecR2C(f, d, o));
        say("R2C 6 x n", worst(down(o, 6 * m), half), 1e-5);
        CK(cufftExecC2R(b, o, d));
        auto y = down(d, 6 * n);
        double w = 0;
        for (int i = 0; i < 6 * n; ++i) w = std::max<double>(w, std::fabs(y[i] / (6 * n) - h[i]));
        say("C2R back", w, 1e-6);
        std::vector<float> padded(6 * 2 * m);
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < n; ++c) padded[r * 2 * m + c] = h[r * n + c];
        auto q = up(padded);
        CK(cufftExecR2C(f, q, (cufftComplex*)q));
        say("R2C in place", worst(down((cufftComplex*)q, 6 * m), half), 1e-5);
        CK(cufftExecC2R(b, (cufftComplex*)q, q));
        auto z = down(q, 12 * m);
        w = 0;
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < n; ++c) w = std::max<double>(w, std::fabs(z[r * 2 * m + c] / (6 * n) - h[r * n + c]));
        say("C2R in place", w, 1e-6);
        cufftDestroy(f);
        cufftDestroy(b);
        cudaFree(d);
        cudaFree(o);
        cudaFree(q);
    }
    {  // double, one dimension; columns of a matrix; strides and rows wider than needed
        const int n = 9;
        std::vector<double> h(4 * n);
        for (int i = 0; i < 4 * n; ++i) h[i] = noise(i * 3);
        auto d = up(h);
        cufftDoubleComplex* o;
        cudaMalloc(&o, 4 * 5 * 16);
        cufftHandle p;
        int size[] = {n};
        CK(cufftPlanMany(&p, 1, size, nullptr, 1, n, nullptr, 1, 5, CUFFT_D2Z, 4));
        CK(cufftExecD2Z(p, d, o));
        auto y = down(o, 20);
        double w = 0;
        for (int b = 0; b < 4; ++b) {
            std::vector<C> x(h.begin() + b * n, h.begin() + b * n + n);
            auto t = plain(x, 1, 1, n, -1);
            for (int i = 0; i < 5; ++i) w = std::max(w, std::abs(t[i] - C(y[b * 5 + i].x, y[b * 5 + i].y)));
        }
        say("D2Z, batch 4", w, 1e-12);
        cufftHandle q;
        CK(cufftPlanMany(&q, 1, size, nullptr, 1, 5, nullptr, 1, n, CUFFT_Z2D, 4));
        CK(cufftExecZ2D(q, o, d));
        auto z = down(d, 4 * n);
        w = 0;
        for (int i = 0; i < 4 * n; ++i) w = std::max(w, std::fabs(z[i] / n - h[i]));
        say("Z2D back", w, 1e-14);
        cufftDestroy(p);
        cufftDestroy(q);
        std::vector<cufftDoubleComplex> m(n * 4);
        for (int i = 0; i < n * 4; ++i) m[i] = {noise(i), noise(i + 5)};
        auto dm = up(m);
        int embed[] = {n};
        CK(cufftPlanMany(&p, 1, size, embed, 4, 1, embed, 4, 1, CUFFT_Z2Z, 4));
        CK(cufftExecZ2Z(p, dm, dm, CUFFT_FORWARD));
        auto r = down(dm, n * 4);
        w = 0;
        for (int b = 0; b < 4; ++b) {
            std::vector<C> x(n);
            for (int i = 0; i < n; ++i) x[i] = C(m[i * 4 + b].x, m[i * 4 + b].y);
            auto t = plain(x, 1, 1, n, -1);
            for (int i = 0; i < n; ++i) w = std::max(w, std::abs(t[i] - C(r[i * 4 + b].x, r[i * 4 + b].y)));
        }
        say("columns", w, 1e-12);
        cufftDestroy(p);
        // 3 x 4 inside rows of 6 at stride 2, two of them
        std::vector<cufftDoubleComplex> s(80);
        for (int i = 0; i < 80; ++i) s[i] = {noise(i + 1000), noise(i + 2000)};
        auto ds = up(s);
        cufftDoubleComplex* os;
        cudaMalloc(&os, 24 * 16);
        int n2[] = {3, 4}, in[] = {3, 6}, out[] = {3, 4};
        CK(cufftPlanMany(&p, 2, n2, in, 2, 40, out, 1, 12, CUFFT_Z2Z, 2));
        CK(cufftExecZ2Z(p, ds, os, CUFFT_FORWARD));
        auto g = down(os, 24);
        w = 0;
        for (int b = 0; b < 2; ++b) {
            std::vector<C> x;
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 4; ++j) {
                    auto v = s[b * 40 + (i * 6 + j) * 2];
                    x.push_back(C(v.x, v.y));
                }
            auto t = plain(x, 1, 3, 4, -1);
            for (int i = 0; i < 12; ++i) w = std::max(w, std::abs(t[i] - C(g[b * 12 + i].x, g[b * 12 + i].y)));
        }
        say("strides", w, 1e-12);
        cufftDestroy(p);
    }
    {  // made in steps, in a stream, with a work area of the program's
        cufftHandle p;
        size_t bytes;
        CK(cufftCreate(&p));
        CK(cufftSetAutoAllocation(p, 0));
        CK(cufftMakePlan1d(p, 16, CUFFT_C2C, 1, &bytes));
        void* work;
        cudaMalloc(&work, bytes);
        CK(cufftSetWorkArea(p, work));
        cudaStream_t s;
        cudaStreamCreate(&s);
        CK(cufftSetStream(p, s));
        std::vector<cufftComplex> h(16, {1, 0});
        auto d = up(h);
        CK(cufftExecC2C(p, d, d, CUFFT_FORWARD));
        cudaStreamSynchronize(s);
        auto y = down(d, 16);
        say("steps", std::fabs(y[0].x - 16) + std::fabs(y[1].x), 0);
        int v;
        CK(cufftGetVersion(&v));
        CK(cufftDestroy(p));
        printf("%d %d\n", cufftExecC2C(p, d, d, CUFFT_FORWARD) == CUFFT_INVALID_PLAN, cufftPlan1d(&p, 0, CUFFT_C2C, 1) == CUFFT_INVALID_SIZE);
    }
    {  // a kernel between two transforms
        std::vector<cufftComplex> h(48);
        for (int i = 0; i < 48; ++i) h[i] = {float(noise(i)), float(noise(i + 5))};
        auto d = up(h);
        cufftHandle p;
        CK(cufftPlan1d(&p, 48, CUFFT_C2C, 1));
        CK(cufftExecC2C(p, d, d, CUFFT_FORWARD));
        scale<<<1, 64>>>(d, 1.0f / 48, 48);
        CK(cufftExecC2C(p, d, d, CUFFT_INVERSE));
        double w = 0;
        auto y = down(d, 48);
        for (int i = 0; i < 48; ++i) w = std::max<double>(w, std::hypot(y[i].x - h[i].x, y[i].y - h[i].y));
        say("there and back", w, 1e-6);
    }
    puts(bad ? "FAILED" : "all as expected");
    return bad;
}
