// cuBLAS's batched factorisations: what they solve is put back into the equations.
#include <cublas_v2.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

using C = std::complex<double>;
int bad = 0;

double noise(unsigned i) {
    i = i * 2654435761u;
    i ^= i >> 15;
    i *= 2246822519u;
    return (i >> 8) % 2001 / 1000.0 - 1;
}
void say(const char* what, double error, double bound) {
    if (!(error <= bound)) printf("%s: %g\n", what, error), ++bad;
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
template <class T>
T** pointers(T* base, int stride, int batch) {
    std::vector<T*> all;
    for (int i = 0; i < batch; ++i) all.push_back(base + (size_t)i * stride);
    return device(all);
}

int main() {
    cublasHandle_t h;
    cublasCreate(&h);
    const int n = 7, ld = 9, batch = 3, sides = 2;
    // Complex, all three ways to solve, with and without pivots.
    for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C})
        for (bool pivoted : {true, false}) {
            std::vector<cuDoubleComplex> a(ld * n * batch), b(n * sides * batch);
            for (size_t i = 0; i < a.size(); ++i) a[i] = {noise(i), noise(i + 5000)};
            for (size_t i = 0; i < b.size(); ++i) b[i] = {noise(i + 100), noise(i + 9000)};
            if (!pivoted)
                for (int k = 0; k < batch; ++k)
                    for (int i = 0; i < n; ++i) a[k * ld * n + i * ld + i].x += 12;
            auto *da = device(a), *db = device(b);
            auto **pa = pointers(da, ld * n, batch), **pb = pointers(db, n * sides, batch);
            int *pivots = nullptr, *info, answer = -1;
            if (pivoted) cudaMalloc(&pivots, n * batch * sizeof(int));
            cudaMalloc(&info, batch * sizeof(int));
            if (cublasZgetrfBatched(h, n, pa, ld, pivots, info, batch)) ++bad;
            if (cublasZgetrsBatched(h, op, n, sides, pa, ld, pivots, pb, n, &answer, batch)) ++bad;
            for (int one : host(info, batch)) bad += one != 0;
            bad += answer != 0;
            auto x = host(db, b.size());
            double worst = 0;
            for (int k = 0; k < batch; ++k)
                for (int s = 0; s < sides; ++s)
                    for (int i = 0; i < n; ++i) {
                        C sum = 0;
                        for (int j = 0; j < n; ++j) {
                            auto e = op == CUBLAS_OP_N ? a[k * ld * n + j * ld + i] : a[k * ld * n + i * ld + j];
                            auto v = x[(k * sides + s) * n + j];
                            sum += C(e.x, op == CUBLAS_OP_C ? -e.y : e.y) * C(v.x, v.y);
                        }
                        auto want = b[(k * sides + s) * n + i];
                        worst = std::fmax(worst, std::abs(sum - C(want.x, want.y)));
                    }
            say("getrs", worst, 1e-11);
        }
    // Inverses, and a matrix that has none.
    {
        std::vector<float> a(n * n * batch);
        for (size_t i = 0; i < a.size(); ++i) a[i] = float(noise(i + 3));
        for (int i = 0; i < n; ++i) a[n * n + i * n + 2] = 0;
        auto* da = device(a);
        float* dc;
        int *info, *pivots;
        cudaMalloc(&dc, a.size() * sizeof(float));
        cudaMalloc(&info, batch * sizeof(int));
        cudaMalloc(&pivots, n * batch * sizeof(int));
        auto **pa = pointers(da, n * n, batch), **pc = pointers(dc, n * n, batch);
        cudaMemset(dc, 0, a.size() * sizeof(float));
        const auto check = [&](const char* what) {
            auto c = host(dc, a.size());
            auto found = host(info, batch);
            bad += found[0] != 0 || found[1] == 0 || found[2] != 0;
            for (int k : {0, 2})
                for (int i = 0; i < n; ++i)
                    for (int j = 0; j < n; ++j) {
                        double sum = 0;
                        for (int l = 0; l < n; ++l) sum += double(a[k * n * n + l * n + i]) * c[k * n * n + j * n + l];
                        say(what, std::fabs(sum - (i == j)), 1e-4);
                    }
        };
        if (cublasSmatinvBatched(h, n, pa, n, pc, n, info, batch)) ++bad;
        check("matinv");
        cudaMemset(dc, 0, a.size() * sizeof(float));
        if (cublasSgetrfBatched(h, n, pa, n, pivots, info, batch)) ++bad;
        if (cublasSgetriBatched(h, n, pa, n, pivots, pc, n, info, batch)) ++bad;
        check("getri");
    }
    // Least squares: what is left is orthogonal to every column. Q R: the lengths of the columns stay.
    {
        const int m = 9, k = 4;
        std::vector<double> a(m * k * batch), b(m * batch);
        for (size_t i = 0; i < a.size(); ++i) a[i] = noise(i + 17);
        for (size_t i = 0; i < b.size(); ++i) b[i] = noise(i + 4711);
        auto *da = device(a), *db = device(b);
        auto **pa = pointers(da, m * k, batch), **pb = pointers(db, m, batch);
        int info = -1, *infos;
        cudaMalloc(&infos, batch * sizeof(int));
        if (cublasDgelsBatched(h, CUBLAS_OP_N, m, k, 1, pa, m, pb, m, &info, infos, batch)) ++bad;
        bad += info != 0;
        for (int one : host(infos, batch)) bad += one != 0;
        auto x = host(db, b.size());
        for (int q = 0; q < batch; ++q)
            for (int j = 0; j < k; ++j) {
                double sum = 0;
                for (int i = 0; i < m; ++i) {
                    double left = b[q * m + i];
                    for (int l = 0; l < k; ++l) left -= a[q * m * k + l * m + i] * x[q * m + l];
                    sum += left * a[q * m * k + j * m + i];
                }
                say("gels", std::fabs(sum), 1e-12);
            }
        auto *dq = device(a), *tau = device(std::vector<double>(k * batch));
        auto **pq = pointers(dq, m * k, batch), **pt = pointers(tau, k, batch);
        if (cublasDgeqrfBatched(h, m, k, pq, m, pt, &info, batch)) ++bad;
        auto r = host(dq, a.size());
        for (int q = 0; q < batch; ++q)
            for (int j = 0; j < k; ++j) {
                double was = 0, is = 0;
                for (int i = 0; i < m; ++i) was += a[q * m * k + j * m + i] * a[q * m * k + j * m + i];
                for (int i = 0; i <= j; ++i) is += r[q * m * k + j * m + i] * r[q * m * k + j * m + i];
                say("geqrf", std::fabs(was - is), 1e-12);
            }
        // Triangles of a batch.
        double two = 2;
        auto* dx = device(b);
        auto** px = pointers(dx, m, batch);
        if (cublasDtrsmBatched(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, k, 1, &two, pq, m, px, m, batch))
            ++bad;
        auto y = host(dx, b.size());
        for (int q = 0; q < batch; ++q)
            for (int i = 0; i < k; ++i) {
                double sum = 0;
                for (int j = i; j < k; ++j) sum += r[q * m * k + j * m + i] * y[q * m + j];
                say("trsm", std::fabs(sum - 2 * b[q * m + i]), 1e-10);
            }
    }
    puts(bad ? "WRONG" : "all as expected");
    return bad;
}
