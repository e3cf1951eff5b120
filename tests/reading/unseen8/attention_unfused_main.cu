// Scaled dot product attention in three kernels, checked against the CPU.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace nvcuda;

#define checkCuda(val) check((val), #val, __FILE__, __LINE__)
void check(cudaError_t err, const char* const func, const char* const file, const int line) {
    if (err != cudaSuccess) {
        fprintf(stderr, "CUDA error at %s:%d: %s %s\n", file, line, cudaGetErrorString(err), func);
        exit(EXIT_FAILURE);
    }
}

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// S = Q K^T / sqrt(d), one warp per tile; z = batch * heads
__global__ void qk_kernel(half* q, half* k, float* s, int n, int d, float scale) {
    int tileRow = blockIdx.y, tileCol = blockIdx.x, bh = blockIdx.z;
    half* qb = q + bh * n * d;
    half* kb = k + bh * n * d;
    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> qf;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> kf;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> sf;
    wmma::fill_fragment(sf, 0.0f);
    for (int i = 0; i < d; i += WMMA_K) {
        wmma::load_matrix_sync(qf, qb + tileRow * WMMA_M * d + i, d);
        wmma::load_matrix_sync(kf, kb + tileCol * WMMA_N * d + i, d);
        wmma::mma_sync(sf, qf, kf, sf);
    }
    for (int i = 0; i < sf.num_elements; i++) sf.x[i] *= scale;
    wmma::store_matrix_sync(s + bh * n * n + tileRow * WMMA_M * n + tileCol * WMMA_N, sf, n, wmma::mem_row_major);
}

// one block per row
__global__ void softmax_kernel(float* s, half* p, int n) {
    __shared__ float shared[32];
    float* row = s + (size_t)blockIdx.x * n;
    half* out = p + (size_t)blockIdx.x * n;
    float m = -FLT_MAX;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
    for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_down_sync(0xffffffff, m, o));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < blockDim.x / 32; i++) shared[0] = fmaxf(shared[0], shared[i]);
    __syncthreads();
    m = shared[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - m);
    for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < blockDim.x / 32; i++) shared[0] += shared[i];
    __syncthreads();
    sum = shared[0];
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __float2half(expf(row[i] - m) / sum);
}

// O = P V
__global__ void pv_kernel(half* p, half* v, float* o, int n, int d) {
    int tileRow = blockIdx.y, tileCol = blockIdx.x, bh = blockIdx.z;
    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> pf;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> vf;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> of;
    wmma::fill_fragment(of, 0.0f);
    for (int i = 0; i < n; i += WMMA_K) {
        wmma::load_matrix_sync(pf, p + bh * n * n + tileRow * WMMA_M * n + i, n);
        wmma::load_matrix_sync(vf, v + bh * n * d + i * d + tileCol * WMMA_N, d);
        wmma::mma_sync(of, pf, vf, of);
    }
    wmma::store_matrix_sync(o + bh * n * d + tileRow * WMMA_M * d + tileCol * WMMA_N, of, d, wmma::mem_row_major);
}

void attention_cpu(const half* q, const half* k, const half* v, float* o, int bh, int n, int d) {
    float* s = (float*)malloc(n * sizeof(float));
    for (int b = 0; b < bh; b++)
        for (int i = 0; i < n; i++) {
            float m = -FLT_MAX, sum = 0;
            for (int j = 0; j < n; j++) {
                s[j] = 0;
                for (int x = 0; x < d; x++)
                    s[j] += __half2float(q[(b * n + i) * d + x]) * __half2float(k[(b * n + j) * d + x]);
                s[j] /= sqrtf((float)d);
                m = fmaxf(m, s[j]);
            }
            for (int j = 0; j < n; j++) sum += s[j] = expf(s[j] - m);
            for (int x = 0; x < d; x++) {
                float acc = 0;
                for (int j = 0; j < n; j++) acc += s[j] / sum * __half2float(v[(b * n + j) * d + x]);
                o[(b * n + i) * d + x] = acc;
            }
        }
    free(s);
}

int main() {
    const int B = 1, H = 2, N = 64, D = 32;
    const int BH = B * H;
    half *q, *k, *v, *p;
    float *s, *o;
    checkCuda(cudaMallocManaged(&q, BH * N * D * sizeof(half)));
    checkCuda(cudaMallocManaged(&k, BH * N * D * sizeof(half)));
    checkCuda(cudaMallocManaged(&v, BH * N * D * sizeof(half)));
    checkCuda(cudaMallocManaged(&s, BH * N * N * sizeof(float)));
    checkCuda(cudaMallocManaged(&p, BH * N * N * sizeof(half)));
    checkCuda(cudaMallocManaged(&o, BH * N * D * sizeof(float)));
    for (int i = 0; i < BH * N * D; i++) {
        q[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1);
        k[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1);
        v[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1);
    }
    qk_kernel<<<dim3(N / 16, N / 16, BH), 32>>>(q, k, s, N, D, 1.0f / sqrtf((float)D));
    softmax_kernel<<<BH * N, 64>>>(s, p, N);
    pv_kernel<<<dim3(D / 16, N / 16, BH), 32>>>(p, v, o, N, D);
    checkCuda(cudaGetLastError());
    checkCuda(cudaDeviceSynchronize());

    float* want = (float*)malloc(BH * N * D * sizeof(float));
    attention_cpu(q, k, v, want, BH, N, D);
    float worst = 0;
    for (int i = 0; i < BH * N * D; i++) worst = fmaxf(worst, fabsf(want[i] - o[i]));
    printf("max error: %e\n", worst);
    printf(worst < 1e-3 ? "Results match\n" : "Results do NOT match\n");
    cudaFree(q); cudaFree(k); cudaFree(v); cudaFree(s); cudaFree(p); cudaFree(o);
    free(want);
    return worst < 1e-3 ? 0 : -1;
}
