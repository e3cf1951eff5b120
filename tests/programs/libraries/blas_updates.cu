// cuBLAS: updates of symmetric and Hermitian matrices, products with Hermitian ones, packed halves, modified rotations.
#include <cublas_v2.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

using C = std::complex<double>;
int bad = 0;

C noise(unsigned i) {
    i = i * 2654435761u;
    i ^= i >> 15;
    i *= 2246822519u;
    return {(i >> 8) % 2001 / 1000.0 - 1, (i >> 5) % 2001 / 1000.0 - 1};
}
template <class T>
T* device(const std::vector<T>& h) {
    T* d;
    cudaMalloc(&d, h.size() * sizeof(T));
    cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}
template <class T>
std::vector<T> host(const T* d, size_t n) {
    std::vector<T> h(n);
    cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    return h;
}
cuDoubleComplex* z(const C* p) { return (cuDoubleComplex*)p; }
const int n = 6, k = 4, ld = 8;

// What is in the half that is stored is as `want` says, the other half as it was.
template <class Want>
void check(const char* what, C* d, const std::vector<C>& before, cublasFillMode_t fill, Want want) {
    auto c = host(d, before.size());
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i) {
            const bool stored = fill == CUBLAS_FILL_MODE_UPPER ? i <= j : i >= j;
            const C expected = stored ? want(i, j) : before[j * ld + i];
            if (!(std::abs(c[j * ld + i] - expected) < 1e-12)) printf("%s %d %d: %g %g\n", what, i, j, c[j * ld + i].real(), expected.real()), ++bad;
        }
}

int main() {
    cublasHandle_t h;
    cublasCreate(&h);
    std::vector<C> a(ld * ld), b(ld * ld), c(ld * ld);
    for (int i = 0; i < ld * ld; ++i) a[i] = noise(i), b[i] = noise(i + 1000), c[i] = noise(i + 2000);
    auto *da = device(a), *db = device(b);
    const C alpha(0.5, -1.5), beta(2, 0.25);
    const double real_alpha = 1.5, real_beta = -0.5;
    for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
        for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
            const auto at = [&](const std::vector<C>& m, int i, int p) {
                return op == CUBLAS_OP_N ? m[p * ld + i] : op == CUBLAS_OP_T ? m[i * ld + p] : std::conj(m[i * ld + p]);
            };
            const auto product = [&](const std::vector<C>& x, const std::vector<C>& y, int i, int j, bool turned) {
                C sum = 0;
                for (int p = 0; p < k; ++p) sum += at(x, i, p) * (turned ? std::conj(at(y, j, p)) : at(y, j, p));
                return sum;
            };
            auto* dc = device(c);
            if (op != CUBLAS_OP_C) {
                cublasZsyr2k(h, fill, op, n, k, z(&alpha), z(da), ld, z(db), ld, z(&beta), z(dc), ld);
                check("syr2k", dc, c, fill,
                      [&](int i, int j) { return alpha * (product(a, b, i, j, false) + product(b, a, i, j, false)) + beta * c[j * ld + i]; });
                dc = device(c);
                cublasZsyrkx(h, fill, op, n, k, z(&alpha), z(da), ld, z(db), ld, z(&beta), z(dc), ld);
                check("syrkx", dc, c, fill, [&](int i, int j) { return alpha * product(a, b, i, j, false) + beta * c[j * ld + i]; });
            }
            if (op == CUBLAS_OP_T) continue;
            const auto diagonal = [](int i, int j, C x) { return i == j ? C(x.real()) : x; };
            dc = device(c);
            cublasZher2k(h, fill, op, n, k, z(&alpha), z(da), ld, z(db), ld, &real_beta, z(dc), ld);
            check("her2k", dc, c, fill, [&](int i, int j) {
                return diagonal(i, j, alpha * product(a, b, i, j, true) + std::conj(alpha) * product(b, a, i, j, true) + real_beta * c[j * ld + i]);
            });
            dc = device(c);
            cublasZherk(h, fill, op, n, k, &real_alpha, z(da), ld, &real_beta, z(dc), ld);
            check("herk", dc, c, fill,
                  [&](int i, int j) { return diagonal(i, j, real_alpha * product(a, a, i, j, true) + real_beta * c[j * ld + i]); });
        }
    for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT})
        for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER}) {
            auto* dc = device(c);
            cublasZhemm(h, side, fill, n, n, z(&alpha), z(da), ld, z(db), ld, z(&beta), z(dc), ld);
            const auto whole = [&](int i, int j) {
                if (i == j) return C(a[i * ld + i].real());
                const bool stored = fill == CUBLAS_FILL_MODE_UPPER ? i < j : i > j;
                return stored ? a[j * ld + i] : std::conj(a[i * ld + j]);
            };
            auto found = host(dc, c.size());
            for (int i = 0; i < n; ++i)
                for (int j = 0; j < n; ++j) {
                    C sum = beta * c[j * ld + i];
                    for (int p = 0; p < n; ++p) sum += alpha * (side == CUBLAS_SIDE_LEFT ? whole(i, p) * b[j * ld + p] : b[p * ld + i] * whole(p, j));
                    if (!(std::abs(sum - found[j * ld + i]) < 1e-12)) printf("hemm %d %d\n", i, j), ++bad;
                }
        }
    // Packed and back.
    for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER}) {
        C *packed, *dc = device(c);
        cudaMalloc(&packed, n * (n + 1) / 2 * sizeof(C));
        cublasZtrttp(h, fill, n, z(da), ld, z(packed));
        auto p = host(packed, n * (n + 1) / 2);
        bad += p[1] != (fill == CUBLAS_FILL_MODE_LOWER ? a[1] : a[ld]);
        cublasZtpttr(h, fill, n, z(packed), z(dc), ld);
        check("tpttr", dc, c, fill, [&](int i, int j) { return a[j * ld + i]; });
    }
    // A modified rotation makes the second number zero: of sqrt(d1) x and sqrt(d2) y.
    for (double y : {0.3, 5.0})
        for (double d : {1e-12, 0.7, 1e10}) {
            double d1 = d, d2 = 0.5, x = 1.25, p[5] = {9, 9, 9, 9, 9};
            if (cublasDrotmg(h, &d1, &d2, &x, &y, p)) ++bad;
            auto *dx = device(std::vector<double>{1.25, 1}), *dy = device(std::vector<double>{y, 2});
            if (cublasDrotm(h, 2, dx, 1, dy, 1, p)) ++bad;
            auto hx = host(dx, 2), hy = host(dy, 2);
            const double length = std::sqrt(d * 1.25 * 1.25 + 0.5 * y * y);
            bad += !(std::fabs(hy[0]) * std::sqrt(d2) < 1e-12 * length) || !(std::fabs(hx[0] - x) < 1e-12 * std::fabs(x));
            bad += !(std::fabs(std::sqrt(d1) * std::fabs(x) - length) < 1e-12 * length);
        }
    puts(bad ? "WRONG" : "all as expected");
    return bad;
}
