// Batched small linear systems: LU factorisation, solve and inverse with cuBLAS, checked on the CPU.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                                             \
    do {                                                                                             \
        cudaError_t err__ = (call);                                                                  \
        if (err__ != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s:%d CUDA error %s\n", __FILE__, __LINE__, cudaGetErrorString(err__)); \
            exit(EXIT_FAILURE);                                                                      \
        }                                                                                            \
    } while (0)

static const char* cublasName(cublasStatus_t s) { return cublasGetStatusString(s); }
#define CUBLAS_CHECK(call)                                                                    \
    do {                                                                                      \
        cublasStatus_t st__ = (call);                                                         \
        if (st__ != CUBLAS_STATUS_SUCCESS) {                                                  \
            fprintf(stderr, "%s:%d cuBLAS error %s\n", __FILE__, __LINE__, cublasName(st__)); \
            exit(EXIT_FAILURE);                                                               \
        }                                                                                     \
    } while (0)

template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : n_(n) { CUDA_CHECK(cudaMalloc(&p_, n * sizeof(T))); }
    ~DeviceBuffer() { cudaFree(p_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    T* get() const { return p_; }
    void upload(const std::vector<T>& h) { CUDA_CHECK(cudaMemcpy(p_, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> download() const {
        std::vector<T> h(n_);
        CUDA_CHECK(cudaMemcpy(h.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
        return h;
    }

private:
    T* p_ = nullptr;
    size_t n_;
};

__global__ void makePointers(double** out, double* base, int stride, int batch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch) out[i] = base + (size_t)i * stride;
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 12;
    const int batch = argc > 2 ? atoi(argv[2]) : 40;
    std::mt19937 rng(1234);
    std::uniform_real_distribution<double> dist(-1, 1);
    std::vector<double> A((size_t)n * n * batch), x((size_t)n * batch), b((size_t)n * batch, 0.0);
    for (auto& v : A) v = dist(rng);
    for (int k = 0; k < batch; k++)
        for (int i = 0; i < n; i++) A[(size_t)k * n * n + i * n + i] += 4.0;
    for (auto& v : x) v = dist(rng);
    for (int k = 0; k < batch; k++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) b[k * n + i] += A[(size_t)k * n * n + j * n + i] * x[k * n + j];

    DeviceBuffer<double> dA(A.size()), dInv(A.size()), dB(b.size());
    DeviceBuffer<double*> pA(batch), pInv(batch), pB(batch);
    DeviceBuffer<int> pivots((size_t)n * batch), info(batch);
    dA.upload(A);
    dB.upload(b);
    int threads = 64;
    makePointers<<<(batch + threads - 1) / threads, threads>>>(pA.get(), dA.get(), n * n, batch);
    makePointers<<<(batch + threads - 1) / threads, threads>>>(pInv.get(), dInv.get(), n * n, batch);
    makePointers<<<(batch + threads - 1) / threads, threads>>>(pB.get(), dB.get(), n, batch);
    CUDA_CHECK(cudaGetLastError());

    cublasHandle_t h;
    CUBLAS_CHECK(cublasCreate(&h));
    cudaEvent_t t0, t1;
    CUDA_CHECK(cudaEventCreate(&t0));
    CUDA_CHECK(cudaEventCreate(&t1));
    CUDA_CHECK(cudaEventRecord(t0));
    CUBLAS_CHECK(cublasDgetrfBatched(h, n, pA.get(), n, pivots.get(), info.get(), batch));
    int hostInfo = 0;
    CUBLAS_CHECK(cublasDgetrsBatched(h, CUBLAS_OP_N, n, 1, (const double* const*)pA.get(), n, pivots.get(), pB.get(), n, &hostInfo, batch));
    CUBLAS_CHECK(cublasDgetriBatched(h, n, (const double* const*)pA.get(), n, pivots.get(), pInv.get(), n, info.get(), batch));
    CUDA_CHECK(cudaEventRecord(t1));
    CUDA_CHECK(cudaEventSynchronize(t1));
    float ms;
    CUDA_CHECK(cudaEventElapsedTime(&ms, t0, t1));
    printf("batch of %d systems of order %d: %.3f ms\n", batch, n, ms);

    for (int i : info.download())
        if (i != 0) {
            printf("singular matrix, info = %d\n", i);
            return 1;
        }
    std::vector<double> got = dB.download(), inv = dInv.download();
    double worst = 0;
    for (size_t i = 0; i < got.size(); i++) worst = fmax(worst, fabs(got[i] - x[i]));
    double worstInv = 0;
    for (int k = 0; k < batch; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                double s = 0;
                for (int l = 0; l < n; l++) s += A[(size_t)k * n * n + l * n + i] * inv[(size_t)k * n * n + j * n + l];
                worstInv = fmax(worstInv, fabs(s - (i == j)));
            }
    printf("solve error %.2e, inverse error %.2e\n", worst, worstInv);
    bool ok = hostInfo == 0 && worst < 1e-10 && worstInv < 1e-10;

    // small float matrices through the short cut
    if (n <= 32) {
        std::vector<float> Af(A.begin(), A.end());
        float *df, *di, **hp = (float**)malloc(2 * batch * sizeof(float*)), **dp;
        int* dinfo;
        CUDA_CHECK(cudaMalloc((void**)&df, Af.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc((void**)&di, Af.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc((void**)&dp, 2 * batch * sizeof(float*)));
        CUDA_CHECK(cudaMalloc((void**)&dinfo, batch * sizeof(int)));
        for (int k = 0; k < batch; k++) {
            hp[k] = df + (size_t)k * n * n;
            hp[batch + k] = di + (size_t)k * n * n;
        }
        CUDA_CHECK(cudaMemcpy(df, Af.data(), Af.size() * sizeof(float), cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(dp, hp, 2 * batch * sizeof(float*), cudaMemcpyHostToDevice));
        CUBLAS_CHECK(cublasSmatinvBatched(h, n, (const float* const*)dp, n, dp + batch, n, dinfo, batch));
        std::vector<float> fi(Af.size());
        CUDA_CHECK(cudaMemcpy(fi.data(), di, Af.size() * sizeof(float), cudaMemcpyDeviceToHost));
        double w = 0;
        for (size_t i = 0; i < fi.size(); i++) w = fmax(w, fabs(fi[i] - inv[i]));
        printf("matinv against getri: %.2e\n", w);
        ok = ok && w < 1e-4;
        cudaFree(df);
        cudaFree(di);
        cudaFree(dp);
        cudaFree(dinfo);
        free(hp);
    }
    CUBLAS_CHECK(cublasDestroy(h));
    cudaEventDestroy(t0);
    cudaEventDestroy(t1);
    puts(ok ? "Test PASSED" : "Test FAILED");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
