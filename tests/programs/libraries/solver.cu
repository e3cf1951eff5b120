// cuSOLVER's dense part: what its factors give back, against the matrices that they were made of.
#include <cusolverDn.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

static int wrong;
static void expect(bool right, const char* what, int line) {
    if (!right) std::printf("line %d: %s\n", line, what), ++wrong;
}
#define EXPECT(what) expect(what, #what, __LINE__)
#define OK(call) EXPECT((call) == CUSOLVER_STATUS_SUCCESS)

using Z = std::complex<double>;
using Matrix = std::vector<Z>;  // by columns

template <class T>
T* device(const std::vector<T>& host) {
    T* out;
    cudaMalloc(&out, host.size() * sizeof(T));
    cudaMemcpy(out, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return out;
}
template <class T>
std::vector<T> host(const T* from, size_t n) {
    std::vector<T> out(n);
    cudaMemcpy(out.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
}
template <class T>
T* room(size_t n) {
    T* out;
    cudaMalloc(&out, n * sizeof(T));
    return out;
}
static Matrix times(const Matrix& a, const Matrix& b, int m, int k, int n) {
    Matrix out(m * n);
    for (int j = 0; j < n; ++j)
        for (int p = 0; p < k; ++p)
            for (int i = 0; i < m; ++i) out[j * m + i] += a[p * m + i] * b[j * k + p];
    return out;
}
static Matrix adjoint(const Matrix& a, int m, int n) {
    Matrix out(m * n);
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) out[i * n + j] = std::conj(a[j * m + i]);
    return out;
}
static bool close(const Matrix& a, const Matrix& b) {
    for (size_t i = 0; i < b.size(); ++i)
        if (!(std::abs(a[i] - b[i]) < 1e-9)) return false;
    return a.size() == b.size();
}
static cuDoubleComplex* c(Z* p) { return reinterpret_cast<cuDoubleComplex*>(p); }

constexpr int M = 9, N = 6;

int main() {
    cusolverDnHandle_t h;
    OK(cusolverDnCreate(&h));
    Matrix a(M * N), s(N * N), b(N * 2);
    unsigned seed = 7;
    const auto next = [&] { return double((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5; };
    for (auto* one : {&a, &s, &b})
        for (auto& v : *one) v = Z(next(), next());
    const Matrix square = s, positive = [&] {
        auto out = times(adjoint(s, N, N), s, N, N, N);
        for (int i = 0; i < N; ++i) out[i * N + i] += 1;
        return out;
    }();
    int *info = room<int>(2), count = 0;
    auto* work = c(room<Z>(4096));

    {  // P A = L U, complex and with its adjoint; 64-bit pivots in float64
        auto *lu = device(square), *x = device(b);
        auto* pivots = room<int>(N);
        OK(cusolverDnZgetrf_bufferSize(h, N, N, c(lu), N, &count));
        OK(cusolverDnZgetrf(h, N, N, c(lu), N, work, pivots, info));
        OK(cusolverDnZgetrs(h, CUBLAS_OP_C, N, 2, c(lu), N, pivots, c(x), N, info));
        EXPECT(close(times(adjoint(square, N, N), host(x, N * 2), N, N, 2), b));
        std::vector<double> real(N * N), right(N);
        for (int i = 0; i < N * N; ++i) real[i] = square[i].real();
        for (int i = 0; i < N; ++i) right[i] = i + 1;
        auto *dr = device(real), *dx = device(right);
        auto* wide = room<int64_t>(N);
        size_t on_device, on_host;
        cusolverDnParams_t params;
        OK(cusolverDnCreateParams(&params));
        OK(cusolverDnXgetrf_bufferSize(h, params, N, N, CUDA_R_64F, dr, N, CUDA_R_64F, &on_device, &on_host));
        OK(cusolverDnXgetrf(h, params, N, N, CUDA_R_64F, dr, N, wide, CUDA_R_64F, room<char>(on_device), on_device, nullptr, on_host, info));
        OK(cusolverDnXgetrs(h, params, CUBLAS_OP_N, N, 1, CUDA_R_64F, dr, N, wide, CUDA_R_64F, dx, N, info));
        const auto got = host(dx, N);
        for (int i = 0; i < N; ++i) {
            double sum = 0;
            for (int j = 0; j < N; ++j) sum += real[j * N + i] * got[j];
            EXPECT(std::fabs(sum - right[i]) < 1e-9);
        }
        OK(cusolverDnDestroyParams(params));
    }
    for (const auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER}) {  // Cholesky's, the inverse, and a batch of one
        auto *l = device(positive), *x = device(b);
        OK(cusolverDnZpotrf_bufferSize(h, fill, N, c(l), N, &count));
        OK(cusolverDnZpotrf(h, fill, N, c(l), N, work, count, info));
        OK(cusolverDnZpotrs(h, fill, N, 2, c(l), N, c(x), N, info));
        EXPECT(close(times(positive, host(x, N * 2), N, N, 2), b));
        OK(cusolverDnZpotri(h, fill, N, c(l), N, work, count, info));
        auto inverse = host(l, N * N);
        for (int j = 0; j < N; ++j)
            for (int i = j + 1; i < N; ++i)
                if (fill == CUBLAS_FILL_MODE_LOWER) inverse[i * N + j] = std::conj(inverse[j * N + i]);
                else inverse[j * N + i] = std::conj(inverse[i * N + j]);
        Matrix unit(N * N);
        for (int i = 0; i < N; ++i) unit[i * N + i] = 1;
        EXPECT(close(times(positive, inverse, N, N, N), unit));
        auto *again = device(positive), *y = device(Matrix(b.begin(), b.begin() + N));
        auto **as = device(std::vector<cuDoubleComplex*>{c(again)}), **ys = device(std::vector<cuDoubleComplex*>{c(y)});
        OK(cusolverDnZpotrfBatched(h, fill, N, as, N, info, 1));
        OK(cusolverDnZpotrsBatched(h, fill, N, 1, as, N, ys, N, info, 1));
        EXPECT(close(times(positive, host(y, N), N, N, 1), Matrix(b.begin(), b.begin() + N)));
    }
    {  // not positive: the first minor that is not
        std::vector<float> bad = {1, 2, 2, 1};
        auto* d = device(bad);
        OK(cusolverDnSpotrf(h, CUBLAS_FILL_MODE_LOWER, 2, d, 2, room<float>(64), 64, info));
        EXPECT(host(info, 1)[0] == 2);
    }
    {  // Q R
        auto *q = device(a), *tau = room<Z>(N), *x = device(a);
        OK(cusolverDnZgeqrf_bufferSize(h, M, N, c(q), M, &count));
        OK(cusolverDnZgeqrf(h, M, N, c(q), M, c(tau), work, count, info));
        auto r = host(q, M * N);
        Matrix upper(N * N);
        for (int j = 0; j < N; ++j)
            for (int i = 0; i <= j; ++i) upper[j * N + i] = r[j * M + i];
        OK(cusolverDnZunmqr(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_C, M, N, N, c(q), M, c(tau), c(x), M, work, count, info));  // Qᴴ A = R
        for (int j = 0; j < N; ++j)
            for (int i = 0; i < M; ++i) r[j * M + i] = i <= j ? upper[j * N + i] : 0;
        EXPECT(close(host(x, M * N), r));
        auto* across = device(adjoint(a, M, N));
        OK(cusolverDnZunmqr(h, CUBLAS_SIDE_RIGHT, CUBLAS_OP_N, N, M, N, c(q), M, c(tau), c(across), N, work, count, info));  // Aᴴ Q = Rᴴ
        EXPECT(close(host(across, M * N), adjoint(r, M, N)));
        OK(cusolverDnZungqr(h, M, N, N, c(q), M, c(tau), work, count, info));
        EXPECT(close(times(host(q, M * N), upper, M, N, N), a));
    }
    {  // eigenvalues, plain and with B
        auto *v = device(positive), *g = device(positive), *metric = device(positive);
        auto* w = room<double>(N);
        OK(cusolverDnZheevd_bufferSize(h, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, c(v), N, w, &count));
        OK(cusolverDnZheevd(h, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, c(v), N, w, work, count, info));
        auto vectors = host(v, N * N), scaled = vectors;
        const auto values = host(w, N);
        for (int j = 0; j < N; ++j)
            for (int i = 0; i < N; ++i) scaled[j * N + i] *= values[j];
        EXPECT(close(times(positive, vectors, N, N, N), scaled));
        for (int j = 1; j < N; ++j) EXPECT(values[j - 1] <= values[j]);
        Matrix mixed = times(adjoint(square, N, N), square, N, N, N);
        cudaMemcpy(g, mixed.data(), N * N * 16, cudaMemcpyHostToDevice);
        OK(cusolverDnZhegvd(h, CUSOLVER_EIG_TYPE_1, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, N, c(g), N, c(metric), N, w, work, count,
                            info));
        vectors = host(g, N * N);
        scaled = times(positive, vectors, N, N, N);
        const auto general = host(w, N);
        for (int j = 0; j < N; ++j)
            for (int i = 0; i < N; ++i) scaled[j * N + i] *= general[j];
        EXPECT(close(times(mixed, vectors, N, N, N), scaled));
    }
    {  // singular values: all vectors, thin ones by rotations of a wide matrix, and a matrix of less than full rank
        Matrix flat = a;
        for (int i = 0; i < M; ++i) flat[5 * M + i] = flat[4 * M + i];
        for (const auto& from : {a, flat}) {
            auto *d = device(from), *u = room<Z>(M * M), *v = room<Z>(N * N);
            auto* values = room<double>(N);
            OK(cusolverDnZgesvd_bufferSize(h, M, N, &count));
            OK(cusolverDnZgesvd(h, 'A', 'A', M, N, c(d), M, values, c(u), M, c(v), N, work, count, nullptr, info));
            const auto left = host(u, M * M), right = host(v, N * N);
            const auto sizes = host(values, N);
            Matrix middle(M * N), unit(M * M);
            for (int i = 0; i < N; ++i) middle[i * M + i] = sizes[i];
            for (int i = 0; i < M; ++i) unit[i * M + i] = 1;
            EXPECT(close(times(times(left, middle, M, M, N), right, M, N, N), from));
            EXPECT(close(times(adjoint(left, M, M), left, M, M, M), unit));
            for (int i = 1; i < N; ++i) EXPECT(sizes[i - 1] >= sizes[i]);
        }
        const auto wide = adjoint(a, M, N);
        auto *d = device(wide), *u = room<Z>(N * N), *v = room<Z>(M * N);
        auto* values = room<double>(N);
        gesvdjInfo_t how;
        OK(cusolverDnCreateGesvdjInfo(&how));
        OK(cusolverDnZgesvdj(h, CUSOLVER_EIG_MODE_VECTOR, 1, N, M, c(d), N, values, c(u), N, c(v), M, work, count, info, how));
        Matrix scaled = host(u, N * N);
        for (int j = 0; j < N; ++j)
            for (int i = 0; i < N; ++i) scaled[j * N + i] *= host(values, N)[j];
        EXPECT(close(times(scaled, adjoint(host(v, M * N), M, N), N, N, M), wide));
    }
    {  // what does not fit is refused
        auto* d = room<double>(4);
        EXPECT(cusolverDnDgetrf(h, 3, 3, d, 2, d, info, info) == CUSOLVER_STATUS_INVALID_VALUE);
    }
    OK(cusolverDnDestroy(h));
    std::puts(wrong == 0 ? "all as expected" : "not all as expected");
    return wrong != 0;
}
