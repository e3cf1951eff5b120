// cuSOLVER: parts of spectra, batches, inverses of triangles and refined systems, against what defines them.
#include <cusolverDn.h>

#include <cmath>
#include <cstdio>
#include <vector>

static int wrong;
static void expect(bool right, const char* what, int line) {
    if (!right) std::printf("line %d: %s\n", line, what), ++wrong;
}
#define EXPECT(what) expect(what, #what, __LINE__)
#define OK(call) EXPECT((call) == CUSOLVER_STATUS_SUCCESS)

using Matrix = std::vector<double>;  // by columns
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
/// op(A) B.
static Matrix times(const Matrix& a, const Matrix& b, int m, int k, int n, bool turned = false) {
    Matrix out(m * n);
    for (int j = 0; j < n; ++j)
        for (int p = 0; p < k; ++p)
            for (int i = 0; i < m; ++i) out[j * m + i] += (turned ? a[i * k + p] : a[p * m + i]) * b[j * k + p];
    return out;
}
static Matrix scaled(Matrix a, const double* by, int m, int n) {
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) a[j * m + i] *= by[j];
    return a;
}
static Matrix turned(const Matrix& a, int m, int n) {
    Matrix out(m * n);
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) out[i * n + j] = a[j * m + i];
    return out;
}
static double distance(const Matrix& a, const Matrix& b) {
    double sum = 0;
    for (size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return a.size() == b.size() ? std::sqrt(sum) : 1e30;
}
static bool close(const Matrix& a, const Matrix& b) { return distance(a, b) < 1e-9; }

constexpr int M = 7, N = 5;

int main() {
    cusolverDnHandle_t h;
    OK(cusolverDnCreate(&h));
    Matrix a(M * N), sums(N * N), metric;
    for (int i = 0; i < M * N; ++i) a[i] = std::sin(1.7 * i * i + 1);
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) sums[i * N + j] = std::cos(2. * i * j + i + j);
    metric = times(a, a, N, M, N, true);
    auto *info = room<int>(4), *work = reinterpret_cast<int*>(room<double>(1000));
    double* w = room<double>(2 * N);
    int count = 0, found = 0;
    auto* d_work = reinterpret_cast<double*>(work);

    OK(cusolverDnDsyevd_bufferSize(h, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, N, w, N, w, &count));
    OK(cusolverDnDsyevd(h, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, N, device(sums), N, w, d_work, count, info));
    const auto all = host(w, N);
    {  // the second to the fourth eigenvalue, and those between two numbers; with their vectors
        double* v = device(sums);
        OK(cusolverDnDsyevdx(h, CUSOLVER_EIG_MODE_VECTOR, CUSOLVER_EIG_RANGE_I, CUBLAS_FILL_MODE_LOWER, N, v, N, 0, 0, 2, 4, &found, w, d_work, count,
                             info));
        EXPECT(found == 3 && close(host(w, 3), {all[1], all[2], all[3]}));
        const auto vectors = host(v, 3 * N);
        EXPECT(close(times(sums, vectors, N, N, 3), scaled(vectors, &all[1], N, 3)));
        double low = all[0] - 1, high = (all[1] + all[2]) / 2;
        int64_t wide = 0;
        cusolverDnParams_t params;
        OK(cusolverDnCreateParams(&params));
        OK(cusolverDnXsyevdx(h, params, CUSOLVER_EIG_MODE_NOVECTOR, CUSOLVER_EIG_RANGE_V, CUBLAS_FILL_MODE_UPPER, N, CUDA_R_64F, device(sums), N,
                             &low, &high, 0, 0, &wide, CUDA_R_64F, w, CUDA_R_64F, work, 8000, nullptr, 0, info));
        EXPECT(wide == 2 && close(host(w, 2), {all[0], all[1]}));
        EXPECT(cusolverDnDsyevdx(h, CUSOLVER_EIG_MODE_VECTOR, CUSOLVER_EIG_RANGE_I, CUBLAS_FILL_MODE_LOWER, N, v, N, 0, 0, 4, 6, &found, w, d_work,
                                 count, info) == CUSOLVER_STATUS_INVALID_VALUE);
    }
    {  // A x = λ B x, by rotations, which tell how they went
        syevjInfo_t how;
        OK(cusolverDnCreateSyevjInfo(&how));
        double* v = device(sums);
        OK(cusolverDnDsygvj(h, CUSOLVER_EIG_TYPE_1, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, v, N, device(metric), N, w, d_work, count,
                            info, how));
        const auto vectors = host(v, N * N), values = host(w, N);
        EXPECT(close(times(sums, vectors, N, N, N), scaled(times(metric, vectors, N, N, N), values.data(), N, N)));
        int sweeps = 0;
        double residual = 1;
        OK(cusolverDnXsyevjGetSweeps(h, how, &sweeps));
        OK(cusolverDnXsyevjGetResidual(h, how, &residual));
        EXPECT(sweeps > 0 && sweeps < 60 && residual < 1e-12);
        double* only = room<double>(N);
        OK(cusolverDnDsygvdx(h, CUSOLVER_EIG_TYPE_1, CUSOLVER_EIG_MODE_NOVECTOR, CUSOLVER_EIG_RANGE_I, CUBLAS_FILL_MODE_LOWER, N, device(sums), N,
                             device(metric), N, 0, 0, 5, 5, &found, only, d_work, count, info));
        EXPECT(found == 1 && close(host(only, 1), {values[4]}));
    }
    {  // batches: the second matrix of each is twice the first
        Matrix two = sums, twice = a;
        for (double one : sums) two.push_back(2 * one);
        for (double one : a) twice.push_back(2 * one);
        OK(cusolverDnDsyevjBatched(h, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, N, device(two), N, w, d_work, count, info, nullptr, 2));
        const auto values = host(w, 2 * N);
        for (int i = 0; i < N; ++i) EXPECT(std::fabs(values[i] - all[i]) < 1e-9 && std::fabs(values[N + i] - 2 * all[i]) < 1e-9);
        EXPECT(host(info, 2) == std::vector<int>(2));
        auto *u = room<double>(2 * M * M), *v = room<double>(2 * N * N), *s = room<double>(2 * N);
        gesvdjInfo_t how;
        OK(cusolverDnCreateGesvdjInfo(&how));
        OK(cusolverDnDgesvdjBatched(h, CUSOLVER_EIG_MODE_VECTOR, M, N, device(twice), M, s, u, M, v, N, d_work, 1000, info, how, 2));
        const auto left = host(u, 2 * M * M), right = host(v, 2 * N * N), sizes = host(s, 2 * N);
        for (int i = 0; i < 2; ++i) {
            const Matrix some(left.begin() + i * M * M, left.begin() + i * M * M + M * N),
                other(right.begin() + i * N * N, right.begin() + (i + 1) * N * N);
            const Matrix was(twice.begin() + i * M * N, twice.begin() + (i + 1) * M * N);
            EXPECT(close(times(scaled(some, &sizes[i * N], M, N), turned(other, N, N), M, N, N), was));
        }
    }
    {  // singular values up to a rank: what is left out is told, and is what the product lacks
        constexpr int rank = 2;
        auto *u = room<double>(M * rank), *v = room<double>(N * rank), *s = room<double>(rank);
        double lacks = 0;
        OK(cusolverDnDgesvdaStridedBatched(h, CUSOLVER_EIG_MODE_VECTOR, rank, M, N, device(a), M, M * N, s, rank, u, M, M * rank, v, N, N * rank,
                                           d_work, 1000, info, &lacks, 1));
        const auto sizes = host(s, rank);
        const auto part = times(scaled(host(u, M * rank), sizes.data(), M, rank), turned(host(v, N * rank), N, rank), M, rank, N);
        EXPECT(lacks > 0 && std::fabs(distance(part, a) - lacks) < 1e-9);
        cusolverDnParams_t params;
        OK(cusolverDnCreateParams(&params));
        auto *others = room<double>(rank), *full = room<double>(N);
        OK(cusolverDnXgesvdr(h, params, 'S', 'S', M, N, rank, 1, 2, CUDA_R_64F, device(a), M, CUDA_R_64F, others, CUDA_R_64F, u, M, CUDA_R_64F, v, N,
                             CUDA_R_64F, work, 8000, nullptr, 0, info));
        EXPECT(close(host(others, rank), sizes));
        auto *thin = room<double>(M * N), *square = room<double>(N * N);
        double changed = 1;
        OK(cusolverDnXgesvdp(h, params, CUSOLVER_EIG_MODE_VECTOR, 1, M, N, CUDA_R_64F, device(a), M, CUDA_R_64F, full, CUDA_R_64F, thin, M,
                             CUDA_R_64F, square, N, CUDA_R_64F, work, 8000, nullptr, 0, info, &changed));
        EXPECT(changed == 0);
        EXPECT(close(times(scaled(host(thin, M * N), host(full, N).data(), M, N), turned(host(square, N * N), N, N), M, N, N), a));
    }
    {  // inverses of triangles; the other triangle stays
        Matrix unit(N * N);
        for (int i = 0; i < N; ++i) unit[i * N + i] = 1;
        for (const auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
            for (const auto diag : {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT}) {
                double* x = device(sums);
                OK(cusolverDnXtrtri(h, fill, diag, N, CUDA_R_64F, x, N, work, 8000, nullptr, 0, info));
                Matrix inverse = host(x, N * N), triangle = sums;
                for (int j = 0; j < N; ++j)
                    for (int i = 0; i < N; ++i) {
                        const bool within = fill == CUBLAS_FILL_MODE_LOWER ? i > j : i < j;
                        const bool kept = i == j ? diag == CUBLAS_DIAG_UNIT : !within;
                        if (kept) EXPECT(inverse[j * N + i] == sums[j * N + i]);
                        if (kept) inverse[j * N + i] = triangle[j * N + i] = i == j;
                    }
                EXPECT(close(times(triangle, inverse, N, N, N), unit));
            }
    }
    {  // refined systems: A and B stay
        Matrix b(2 * N), was = metric;
        for (int i = 0; i < 2 * N; ++i) b[i] = i - 3;
        auto *left = device(metric), *right = device(b), *x = room<double>(2 * N);
        int iterations = -1;
        OK(cusolverDnDSgesv(h, N, 2, left, N, room<int>(N), right, N, x, N, work, 8000, &iterations, info));
        EXPECT(iterations >= 0 && close(times(metric, host(x, 2 * N), N, N, 2), b));
        EXPECT(close(host(left, N * N), metric) && close(host(right, 2 * N), b));
        cusolverDnIRSParams_t params;
        cusolverDnIRSInfos_t told;
        OK(cusolverDnIRSParamsCreate(&params));
        OK(cusolverDnIRSInfosCreate(&told));
        EXPECT(cusolverDnIRSXgesv(h, params, told, N, 2, left, N, right, N, x, N, work, 8000, &iterations, info) == CUSOLVER_STATUS_NOT_SUPPORTED);
        OK(cusolverDnIRSParamsSetSolverPrecisions(params, CUSOLVER_R_64F, CUSOLVER_R_16F));
        OK(cusolverDnIRSXgesv(h, params, told, N, 2, left, N, right, N, x, N, work, 8000, &iterations, info));
        EXPECT(close(times(metric, host(x, 2 * N), N, N, 2), b) && host(info, 1)[0] == 0);
    }
    OK(cusolverDnDestroy(h));
    std::puts(wrong == 0 ? "all as expected" : "not all as expected");
    return wrong != 0;
}
