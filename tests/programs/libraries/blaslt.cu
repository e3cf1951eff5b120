// cublasLtMatmul against plain loops on the host: orders, epilogues, scales of fp8, batches; cuRAND's distributions by their moments.
#include <cublasLt.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <curand.h>

#include <cmath>
#include <cstdio>
#include <vector>

static int failures = 0;
static void expect(bool good, const char* what) {
    if (good) return;
    ++failures;
    printf("FAILED %s\n", what);
}
static void ok(cublasStatus_t status, const char* what) { expect(status == CUBLAS_STATUS_SUCCESS, what); }

template <class T>
T* device(const std::vector<T>& host) {
    T* data;
    cudaMalloc(&data, host.size() * sizeof(T));
    cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return data;
}
template <class T>
std::vector<T> back(const T* data, size_t count) {
    std::vector<T> out(count);
    cudaMemcpy(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
}
static unsigned state = 7;
static float number() {
    state = state * 1664525u + 1013904223u;
    return (int(state >> 24) % 9 - 4) * 0.25f;
}
template <class T>
std::vector<T> random(size_t count) {
    std::vector<T> out(count);
    for (auto& x : out) x = T(number());
    return out;
}
static double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

struct Product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    Product(cublasLtHandle_t h, cudaDataType type, cudaDataType out, int m, int n, int k) : handle(h) {
        ok(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "desc");
        const cublasOperation_t t = CUBLAS_OP_T;
        ok(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t), "transa");
        ok(cublasLtMatrixLayoutCreate(&a, type, k, m, k), "a");
        ok(cublasLtMatrixLayoutCreate(&b, type, k, n, k), "b");
        ok(cublasLtMatrixLayoutCreate(&d, out, m, n, m), "d");
    }
    template <class V>
    void set(cublasLtMatmulDescAttributes_t attribute, V value) {
        ok(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value), "attribute");
    }
    void run(const void* x, const void* y, void* z, float beta = 0) {
        cublasLtMatmulPreference_t preference;
        ok(cublasLtMatmulPreferenceCreate(&preference), "preference");
        const size_t bytes = 1 << 20;
        ok(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes), "workspace");
        cublasLtMatmulHeuristicResult_t found;
        int count = 0;
        ok(cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &found, &count), "heuristic");
        expect(count == 1, "one algorithm");
        const float alpha = 1;
        ok(cublasLtMatmul(handle, desc, &alpha, x, a, y, b, &beta, z, d, z, d, &found.algo, nullptr, 0, nullptr), "matmul");
        cublasLtMatmulPreferenceDestroy(preference);
    }
    ~Product() {
        cublasLtMatmulDescDestroy(desc);
        for (auto layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    }
};

int main() {
    const int m = 6, n = 5, k = 8;
    cublasLtHandle_t handle;
    ok(cublasLtCreate(&handle), "create");
    auto a = random<float>(m * k), b = random<float>(n * k), bias = random<float>(m), before = random<float>(m * n);
    float *da = device(a), *db = device(b), *dbias = device(bias), *dd = device(before), *aux = device(std::vector<float>(8 * n));
    const auto at = [&](int i, int j) {
        double sum = 0;
        for (int p = 0; p < k; ++p) sum += a[p + i * k] * b[p + j * k];
        return sum;
    };
    struct Epilogue {
        cublasLtEpilogue_t which;
        double (*of)(double sum, double bias);
    };
    const Epilogue epilogues[] = {
        {CUBLASLT_EPILOGUE_DEFAULT, [](double s, double) { return s; }},
        {CUBLASLT_EPILOGUE_BIAS, [](double s, double b) { return s + b; }},
        {CUBLASLT_EPILOGUE_RELU_BIAS, [](double s, double b) { return std::fmax(s + b, 0); }},
        {CUBLASLT_EPILOGUE_GELU, [](double s, double) { return gelu(s); }},
        {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, [](double s, double b) { return gelu(s + b); }},
    };
    for (const auto& epilogue : epilogues) {
        Product product(handle, CUDA_R_32F, CUDA_R_32F, m, n, k);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.which);
        product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(8));
        product.run(da, db, dd);
        auto d = back(dd, m * n);
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i) expect(std::fabs(d[i + j * m] - epilogue.of(at(i, j), bias[i])) < 1e-6, "epilogue");
    }
    auto kept = back(aux, 8 * n);
    expect(kept[3 + 8 * 2] == float(at(3, 2) + bias[3]), "auxiliary output");
    {  // the backward pass of GELU, and the gradient of the bias
        Product product(handle, CUDA_R_32F, CUDA_R_32F, m, n, k);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU_BGRAD);
        product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(8));
        product.run(da, db, dd);
        const double x = kept[3 + 8 * 2], step = 1e-6, slope = (gelu(x + step) - gelu(x - step)) / (2 * step);
        auto d = back(dd, m * n);
        expect(std::fabs(d[3 + 2 * m] - at(3, 2) * slope) < 1e-5, "gelu backwards");
        double sum = 0;
        for (int j = 0; j < n; ++j) sum += d[3 + j * m];
        expect(std::fabs(back(dbias, m)[3] - sum) < 1e-5, "bias gradient");
    }
    {  // row-major output
        Product product(handle, CUDA_R_32F, CUDA_R_32F, m, n, k);
        const cublasLtOrder_t rows = CUBLASLT_ORDER_ROW;
        const int64_t ld = n;
        ok(cublasLtMatrixLayoutSetAttribute(product.d, CUBLASLT_MATRIX_LAYOUT_ORDER, &rows, sizeof rows), "order");
        ok(cublasLtMatrixLayoutSetAttribute(product.d, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld), "ld");
        product.run(da, db, dd);
        expect(back(dd, m * n)[3 * n + 2] == at(3, 2), "rows");
        product.run(da, db, dd, 1.0f);
        expect(back(dd, m * n)[3 * n + 2] == 2 * at(3, 2), "beta");
    }
    {  // fp8 with scales, to bfloat16
        auto fa = random<__nv_fp8_e4m3>(m * k), fb = random<__nv_fp8_e4m3>(n * k);
        auto *pa = device(fa), *pb = device(fb);
        auto* out = device(std::vector<__nv_bfloat16>(m * n));
        float* scale = device(std::vector<float>{0.5f, 4.0f});
        Product product(handle, CUDA_R_8F_E4M3, CUDA_R_16BF, m, n, k);
        product.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
        product.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale + 1);
        product.run(pa, pb, out);
        double sum = 0;
        for (int p = 0; p < k; ++p) sum += float(fa[p + 4 * k]) * float(fb[p + 1 * k]);
        expect(float(back(out, m * n)[4 + m]) == float(__nv_bfloat16(float(2 * sum))), "fp8");
    }
    {  // a batch whose matrices lie where arrays of pointers say
        Product product(handle, CUDA_R_32F, CUDA_R_32F, m, n, k);
        auto a2 = random<float>(m * k), b2 = random<float>(n * k);
        float *ds[2] = {device(std::vector<float>(m * n)), device(std::vector<float>(m * n))};
        float** as = device(std::vector<float*>{da, device(a2)});
        float** bs = device(std::vector<float*>{db, device(b2)});
        float** outs = device(std::vector<float*>{ds[0], ds[1]});
        const cublasLtBatchMode_t mode = CUBLASLT_BATCH_MODE_POINTER_ARRAY;
        const int batches = 2;
        for (auto layout : {product.a, product.b, product.d}) {
            ok(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches), "count");
            ok(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode, sizeof mode), "mode");
        }
        product.run(as, bs, outs);
        double sum = 0;
        for (int p = 0; p < k; ++p) sum += a2[p + 4 * k] * b2[p + 1 * k];
        expect(back(ds[0], m * n)[3 + 2 * m] == at(3, 2) && back(ds[1], m * n)[4 + m] == float(sum), "pointers");
    }
    {  // complex numbers whose parts lie apart
        auto fa = random<__half>(2 * m * k), fb = random<__half>(2 * n * k);
        auto *pa = device(fa), *pb = device(fb);
        auto* out = device(std::vector<__half>(2 * m * n));
        Product product(handle, CUDA_C_16F, CUDA_C_16F, m, n, k);
        product.set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, int(CUDA_C_32F));
        const int64_t planes[] = {m * k * 2, n * k * 2, m * n * 2};
        int which = 0;
        for (auto layout : {product.a, product.b, product.d}) {
            ok(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, &planes[which++], sizeof(int64_t)), "plane");
        }
        const float2 one = {1, 0}, none = {0, 0};
        ok(cublasLtMatmul(handle, product.desc, &one, pa, product.a, pb, product.b, &none, out, product.d, out, product.d, nullptr, nullptr, 0, 0),
           "planar");
        double real = 0, imaginary = 0;
        for (int p = 0; p < k; ++p) {
            const float ar = fa[p + 4 * k], ai = fa[m * k + p + 4 * k], br = fb[p + k], bi = fb[n * k + p + k];
            real += ar * br - ai * bi, imaginary += ar * bi + ai * br;
        }
        auto got = back(out, 2 * m * n);
        expect(float(got[4 + m]) == float(__half(float(real))) && float(got[m * n + 4 + m]) == float(__half(float(imaginary))), "planes");
    }
    {  // a type that is not offered is refused, not computed
        Product product(handle, CUDA_R_4F_E2M1, CUDA_R_32F, m, n, k);
        cublasLtMatmulHeuristicResult_t found;
        int count = 1;
        expect(cublasLtMatmulAlgoGetHeuristic(handle, product.desc, product.a, product.b, product.d, product.d, nullptr, 1, &found, &count) ==
                       CUBLAS_STATUS_NOT_SUPPORTED && count == 0, "fp4");
    }
    {  // a search over all algorithms and what they can be configured to
        Product product(handle, CUDA_R_32F, CUDA_R_32F, m, n, k);
        int ids[4] = {}, found = 0, split = 7, held = 0;
        ok(cublasLtMatmulAlgoGetIds(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, 4, ids, &found), "ids");
        expect(found == 1, "one algorithm");
        cublasLtMatmulAlgo_t algo;
        ok(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ids[0], &algo), "algorithm");
        size_t bytes = 99;
        ok(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_TILE_IDS, nullptr, 0, &bytes), "tiles");
        expect(bytes == 0, "no tiles to choose from");
        ok(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, &split, sizeof split, &bytes), "split");
        expect(split == 0 && bytes == sizeof split, "nothing to split");
        for (uint16_t shape = CUBLASLT_CLUSTER_SHAPE_AUTO; shape < CUBLASLT_CLUSTER_SHAPE_END; ++shape)
            ok(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &shape, sizeof shape), "cluster");
        held = 3;
        ok(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, &held, sizeof held), "stages");
        held = 0;
        ok(cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, &held, sizeof held, nullptr), "stages");
        expect(held == 3, "a configuration is kept");
        cublasLtMatmulHeuristicResult_t result;
        ok(cublasLtMatmulAlgoCheck(handle, product.desc, product.a, product.b, product.d, product.d, &algo, &result), "check");
        expect(result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize == 0, "checked");
    }
    ok(cublasLtDestroy(handle), "destroy");

    curandGenerator_t generator;
    expect(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT) == CURAND_STATUS_SUCCESS, "generator");
    curandSetPseudoRandomGeneratorSeed(generator, 1234ull);
    const size_t count = 40000;
    float* numbers = device(std::vector<float>(count));
    unsigned* counts = device(std::vector<unsigned>(count));
    const auto moments = [](auto values, double mean, double variance, const char* what) {
        double sum = 0, squares = 0;
        for (auto x : values) sum += x;
        for (auto x : values) squares += (x - sum / values.size()) * (x - sum / values.size());
        expect(std::fabs(sum / values.size() - mean) < 6 * std::sqrt(variance / values.size()), what);
        expect(std::fabs(squares / values.size() / variance - 1) < 0.1, what);
    };
    expect(curandGenerateUniform(generator, numbers, count) == CURAND_STATUS_SUCCESS, "uniform");
    auto uniform = back(numbers, count);
    moments(uniform, 0.5, 1 / 12.0, "uniform");
    for (float x : uniform) expect(x > 0 && x <= 1, "range");
    expect(curandGenerateNormal(generator, numbers, count, 3, 2) == CURAND_STATUS_SUCCESS, "normal");
    moments(back(numbers, count), 3, 4, "normal");
    expect(curandGenerateNormal(generator, numbers, 3, 3, 2) == CURAND_STATUS_LENGTH_NOT_MULTIPLE, "odd");
    expect(curandGeneratePoisson(generator, counts, count, 10) == CURAND_STATUS_SUCCESS, "poisson");
    moments(back(counts, count), 10, 10, "poisson");
    curandSetPseudoRandomGeneratorSeed(generator, 1234ull);
    curandGenerateUniform(generator, numbers, count);
    expect(back(numbers, count) == uniform, "the same seed, the same numbers");
    curandDestroyGenerator(generator);
    if (failures == 0) printf("blaslt, rand: all as expected\n");
    return failures;
}
