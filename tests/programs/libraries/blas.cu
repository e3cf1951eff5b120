// Every cuBLAS function that is offered against plain loops in double on the host. Exit code: the number of those that differ.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

static int failures = 0;

static void expect(bool good, const char* what) {
    if (good) return;
    ++failures;
    printf("FAILED %s\n", what);
}
static void ok(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS) printf("%s: %s\n", what, cublasGetStatusName(status));
    expect(status == CUBLAS_STATUS_SUCCESS, what);
}

template <class T>
struct Device {
    T* data;
    size_t count;
    Device(const std::vector<T>& host) : count(host.size()) {
        cudaMalloc(&data, count * sizeof(T));
        cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice);
    }
    ~Device() { cudaFree(data); }
    std::vector<T> host() const {
        std::vector<T> out(count);
        cudaMemcpy(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost);
        return out;
    }
};

static unsigned state = 1;
// Small multiples of 1/4: products and sums are exact in every type that is tried.
static double number() {
    state = state * 1664525u + 1013904223u;
    return (int(state >> 24) % 9 - 4) * 0.25;
}
template <class T>
T make(double x) { return T(float(x)); }
template <>
int8_t make(double x) { return int8_t(x * 4); }
template <>
int make(double x) { return int(x * 4); }
template <>
double make(double x) { return x; }
template <class T>
double value(T x) { return double(float(x)); }
template <>
double value(double x) { return x; }
template <>
double value(int x) { return x; }

template <class T>
std::vector<T> random(size_t count) {
    std::vector<T> out(count);
    for (auto& x : out) x = make<T>(number());
    return out;
}

template <class A, class C, class S>
void gemm_case(cublasHandle_t h, cudaDataType at, cudaDataType ct, cublasComputeType_t compute, const char* what) {
    const int m = 5, n = 7, k = 12, lda = 14, ldb = 15, ldc = 9;
    for (auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
        for (auto tb : {CUBLAS_OP_N, CUBLAS_OP_C}) {
            auto a = random<A>(lda * 14), b = random<A>(ldb * 14);
            auto c = random<C>(ldc * n);
            Device<A> da(a), db(b);
            Device<C> dc(c);
            const S alpha = make<S>(0.5), beta = make<S>(0.25);
            ok(cublasGemmEx(h, ta, tb, m, n, k, &alpha, da.data, at, lda, db.data, at, ldb, &beta, dc.data, ct, ldc, compute, CUBLAS_GEMM_DEFAULT), what);
            auto got = dc.host();
            for (int j = 0; j < n; ++j)
                for (int i = 0; i < ldc; ++i) {
                    double sum = 0;
                    for (int p = 0; p < k && i < m; ++p)
                        sum += value(ta == CUBLAS_OP_N ? a[i + p * lda] : a[p + i * lda]) * value(tb == CUBLAS_OP_N ? b[p + j * ldb] : b[j + p * ldb]);
                    const C before = c[i + j * ldc];
                    const double expected = i < m ? value(alpha) * sum + value(beta) * value(before) : value(before);
                    if (value(got[i + j * ldc]) != value(C(expected))) return expect(false, what);
                }
        }
}

static void batches(cublasHandle_t h) {
    const int m = 3, n = 2, k = 4, batch = 3;
    auto a = random<float>(m * k * batch), b = random<float>(k * n * batch), c = random<float>(m * n * batch);
    Device<float> da(a), db(b), dc(c), dd(c);
    const float one = 1, zero = 0;
    ok(cublasSgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da.data, m, m * k, db.data, k, k * n, &zero, dc.data, m, m * n, batch), "strided");
    std::vector<const float*> as, bs;
    std::vector<float*> ds;
    for (int i = 0; i < batch; ++i) as.push_back(da.data + i * m * k), bs.push_back(db.data + i * k * n), ds.push_back(dd.data + i * m * n);
    Device<const float*> pa(as), pb(bs);
    Device<float*> pd(ds);
    ok(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, pa.data, m, pb.data, k, &zero, pd.data, m, batch), "pointers");
    auto x = dc.host(), y = dd.host();
    for (int i = 0; i < batch; ++i)
        for (int j = 0; j < n; ++j)
            for (int r = 0; r < m; ++r) {
                double sum = 0;
                for (int p = 0; p < k; ++p) sum += a[i * m * k + r + p * m] * b[i * k * n + p + j * k];
                expect(x[i * m * n + r + j * m] == sum && y[i * m * n + r + j * m] == sum, "batches");
            }
}

static void vectors(cublasHandle_t h) {
    const int n = 11;
    auto x = random<double>(2 * n), y = random<double>(n);
    Device<double> dx(x), dy(y), result({0.0});
    const double alpha = 0.5;
    ok(cublasDaxpy(h, n, &alpha, dx.data, 2, dy.data, -1), "axpy");
    auto z = dy.host();
    for (int i = 0; i < n; ++i) expect(z[n - 1 - i] == alpha * x[2 * i] + y[n - 1 - i], "axpy");
    double dot = 0, sum = 0, squares = 0, got;
    int largest = 0, smallest = 0, index;
    for (int i = 0; i < n; ++i) {
        dot += x[2 * i] * z[i], sum += std::fabs(z[i]), squares += z[i] * z[i];
        if (std::fabs(z[i]) > std::fabs(z[largest])) largest = i;
        if (std::fabs(z[i]) < std::fabs(z[smallest])) smallest = i;
    }
    ok(cublasDdot(h, n, dx.data, 2, dy.data, 1, &got), "dot");
    expect(got == dot, "dot");
    ok(cublasDasum(h, n, dy.data, 1, &got), "asum");
    expect(got == sum, "asum");
    ok(cublasDnrm2(h, n, dy.data, 1, &got), "nrm2");
    expect(std::fabs(got - std::sqrt(squares)) < 1e-14, "nrm2");
    ok(cublasIdamax(h, n, dy.data, 1, &index), "amax");
    expect(index == largest + 1, "amax");
    ok(cublasIdamin(h, n, dy.data, 1, &index), "amin");
    expect(index == smallest + 1, "amin");
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    ok(cublasDdot(h, n, dx.data, 2, dy.data, 1, result.data), "device dot");
    expect(result.host()[0] == dot, "device dot");
    ok(cublasDscal(h, n, result.data, dy.data, 1), "device scal");
    expect(dy.host()[3] == dot * z[3], "device scal");
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST);
    ok(cublasDcopy(h, n, dx.data, 1, dy.data, 1), "copy");
    expect(dy.host()[5] == x[5], "copy");
    Device<double> du(x);
    ok(cublasDswap(h, n, du.data + n, 1, dy.data, 1), "swap");
    expect(dy.host()[2] == x[n + 2] && du.host()[n + 2] == x[2], "swap");
}

static void matrices(cublasHandle_t h) {
    const int m = 4, n = 3, lda = 5;
    auto a = random<float>(lda * m), x = random<float>(m), y = random<float>(m), b = random<float>(m * n);
    for (int i = 0; i < m; ++i) a[i + i * lda] = 2;  // a diagonal that can be divided by
    Device<float> da(a), dx(x), dy(y), db(b), dc(b);
    const float alpha = 0.5, beta = 2, one = 1, zero = 0;
    ok(cublasSgemv(h, CUBLAS_OP_T, m, n, &alpha, da.data, lda, dx.data, 1, &beta, dy.data, 1), "gemv");
    auto z = dy.host();
    for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int i = 0; i < m; ++i) sum += a[i + j * lda] * x[i];
        expect(z[j] == float(alpha * sum + beta * y[j]), "gemv");
    }
    ok(cublasSger(h, m, n, &alpha, dx.data, 1, dy.data, 1, dc.data, m), "ger");
    auto g = dc.host();
    expect(g[2 + 1 * m] == float(b[2 + m] + double(alpha) * x[2] * z[1]), "ger");
    ok(cublasSgeam(h, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one, da.data, lda, &beta, db.data, m, dc.data, m), "geam");
    g = dc.host();
    expect(g[1 + 2 * m] == a[2 + 1 * lda] + beta * b[1 + 2 * m], "geam");
    ok(cublasSgeam(h, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one, da.data, lda, &zero, nullptr, m, dc.data, m), "transpose");
    g = dc.host();
    expect(g[1 + 2 * m] == a[2 + 1 * lda], "transpose");
    Device<float> ds(std::vector<float>(m * m, 7));
    float* unwritten;  // beta is zero: C is not read
    cudaMalloc(&unwritten, m * m * sizeof(float));
    ok(cublasSsyrk(h, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, m, n, &one, db.data, m, &zero, unwritten, m), "syrk to new memory");
    cudaFree(unwritten);
    ok(cublasSsyrk(h, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, m, n, &one, db.data, m, &zero, ds.data, m), "syrk");
    auto s = ds.host();
    double sum = 0;
    for (int p = 0; p < n; ++p) sum += b[3 + p * m] * b[1 + p * m];
    expect(s[3 + 1 * m] == sum && s[1 + 3 * m] == 7, "syrk");
    // Solve and multiply back, from each side and triangle.
    for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT})
        for (auto fill : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER})
            for (auto t : {CUBLAS_OP_N, CUBLAS_OP_T})
                for (auto diag : {CUBLAS_DIAG_UNIT, CUBLAS_DIAG_NON_UNIT}) {
                    Device<float> dz(b), dw(b);
                    ok(cublasStrsm(h, side, fill, t, diag, m, n, &one, da.data, lda, dz.data, m), "trsm");
                    ok(cublasStrmm(h, side, fill, t, diag, m, n, &one, da.data, lda, dz.data, m, dw.data, m), "trmm");
                    auto back = dw.host();
                    for (int i = 0; i < m * n; ++i) expect(std::fabs(back[i] - b[i]) < 1e-5, "trsm");
                }
    ok(cublasSsymm(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, m, n, &one, da.data, lda, db.data, m, &zero, dc.data, m), "symm");
    g = dc.host();
    sum = 0;
    for (int p = 0; p < m; ++p) sum += a[std::min(2, p) + std::max(2, p) * lda] * b[p + m];
    expect(g[2 + m] == float(sum), "symm");
    ok(cublasSdgmm(h, CUBLAS_SIDE_RIGHT, m, n, db.data, m, dx.data, 1, dc.data, m), "dgmm");
    expect(dc.host()[3 + 2 * m] == b[3 + 2 * m] * x[2], "dgmm");
}

static void complexes(cublasHandle_t h) {
    using C = std::complex<float>;
    const int n = 3;
    std::vector<cuComplex> a(n * n), b(n * n);
    for (auto* matrix : {&a, &b})
        for (auto& x : *matrix) x = make_cuComplex(float(number()), float(number()));
    Device<cuComplex> da(a), db(b), dc(a);
    const cuComplex one = make_cuComplex(1, 0), i = make_cuComplex(0, 1);
    ok(cublasCgemm(h, CUBLAS_OP_C, CUBLAS_OP_T, n, n, n, &i, da.data, n, db.data, n, &one, dc.data, n), "complex gemm");
    auto got = dc.host();
    for (int r = 0; r < n; ++r)
        for (int s = 0; s < n; ++s) {
            C sum = 0;
            for (int p = 0; p < n; ++p) sum += C(a[p + r * n].x, -a[p + r * n].y) * C(b[s + p * n].x, b[s + p * n].y);
            const C expected = C(0, 1) * sum + C(a[r + s * n].x, a[r + s * n].y);
            expect(C(got[r + s * n].x, got[r + s * n].y) == expected, "complex gemm");
        }
}

int main() {
    cublasHandle_t h;
    ok(cublasCreate(&h), "create");
    ok(cublasSetMathMode(h, CUBLAS_TF32_TENSOR_OP_MATH), "math mode");
    int version, major, minor, processors;
    ok(cublasGetVersion(h, &version), "version");
    ok(cublasGetProperty(MAJOR_VERSION, &major), "major version");
    ok(cublasGetProperty(MINOR_VERSION, &minor), "minor version");
    expect(version / 100 == major * 100 + minor, "parts of the version");
    expect(cublasGetCudartVersion() == CUDART_VERSION, "version of the runtime");
    ok(cublasSetSmCountTarget(h, 7), "processors");
    ok(cublasGetSmCountTarget(h, &processors), "processors that were set");
    expect(processors == 7, "processors that were set");
    expect(cublasSetSmCountTarget(h, -1) == CUBLAS_STATUS_INVALID_VALUE, "processors below zero");
    gemm_case<float, float, float>(h, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, "gemm f32");
    gemm_case<double, double, double>(h, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, "gemm f64");
    gemm_case<__half, __half, __half>(h, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F, "gemm f16");
    gemm_case<__half, float, float>(h, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, "gemm f16 to f32");
    gemm_case<__nv_bfloat16, __nv_bfloat16, float>(h, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, "gemm bf16");
    gemm_case<__nv_fp8_e4m3, float, float>(h, CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F, "gemm e4m3");
    gemm_case<__nv_fp8_e5m2, __half, float>(h, CUDA_R_8F_E5M2, CUDA_R_16F, CUBLAS_COMPUTE_32F, "gemm e5m2");
    gemm_case<int8_t, int, int>(h, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, "gemm s8");
    batches(h);
    vectors(h);
    matrices(h);
    complexes(h);
    float one = 1;
    expect(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, &one, 4, &one, 8, &one, &one, 8) == CUBLAS_STATUS_INVALID_VALUE, "lda too small");
    ok(cublasDestroy(h), "destroy");
    if (failures == 0) printf("blas: all as expected\n");
    return failures;
}
