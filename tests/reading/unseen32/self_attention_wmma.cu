// self_attention_wmma.cu
// 用 Tensor Core (WMMA) 实现的多头自注意力: S = QK^T/sqrt(d), P = softmax(S), O = PV
// Q/K/V/O 布局: [batch, head, seq, dim], half
// 编译: nvcc -O3 -arch=sm_80 self_attention_wmma.cu -o self_attention_wmma
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define CHECK_CUDA(call)                                                      \
    do {                                                                      \
        cudaError_t err_ = (call);                                            \
        if (err_ != cudaSuccess) {                                            \
            fprintf(stderr, "CUDA error %s:%d: %s\n", __FILE__, __LINE__,     \
                    cudaGetErrorString(err_));                                \
            exit(EXIT_FAILURE);                                               \
        }                                                                     \
    } while (0)

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;
const int WARPS_PER_BLOCK = 4;

// ---------------------------------------------------------------------------
// kernel 1: 每个 warp 计算 S 的一个 16x16 tile
// grid: (seq/16, ceil(seq/16/4), batch*head)   block: (32, 4)
// ---------------------------------------------------------------------------
__global__ void qk_wmma_kernel(const half *__restrict__ Q, const half *__restrict__ K,
                               float *__restrict__ S, int seq_len, int dim, float scale)
{
    const int tile_row = blockIdx.y * WARPS_PER_BLOCK + threadIdx.y;
    const int tile_col = blockIdx.x;
    if (tile_row * WMMA_M >= seq_len) return;   // 整个 warp 一起退出

    const size_t bh = blockIdx.z;
    const half *q = Q + bh * seq_len * dim + (size_t)tile_row * WMMA_M * dim;
    const half *k = K + bh * seq_len * dim + (size_t)tile_col * WMMA_N * dim;
    float *s = S + bh * seq_len * seq_len + (size_t)tile_row * WMMA_M * seq_len + tile_col * WMMA_N;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> q_frag;
    // K 按行存储 [seq, dim], 看成 K^T 时就是列主序
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> k_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int kk = 0; kk < dim; kk += WMMA_K) {
        wmma::load_matrix_sync(q_frag, q + kk, dim);
        wmma::load_matrix_sync(k_frag, k + kk, dim);
        wmma::mma_sync(acc, q_frag, k_frag, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= scale;
    wmma::store_matrix_sync(s, acc, seq_len, wmma::mem_row_major);
}

// ---------------------------------------------------------------------------
// kernel 2: 行 softmax, 一个 block 处理一行 (256 线程)
// ---------------------------------------------------------------------------
__inline__ __device__ float warp_max(float v)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, offset));
    return v;
}

__inline__ __device__ float warp_sum(float v)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

__global__ void softmax_kernel(const float *__restrict__ S, half *__restrict__ P, int seq_len)
{
    __shared__ float red[32];
    const float *row = S + (size_t)blockIdx.x * seq_len;
    half *out = P + (size_t)blockIdx.x * seq_len;
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    const int nwarps = blockDim.x >> 5;

    float m = -INFINITY;
    for (int i = threadIdx.x; i < seq_len; i += blockDim.x) m = fmaxf(m, row[i]);
    m = warp_max(m);
    if (lane == 0) red[wid] = m;
    __syncthreads();
    m = (lane < nwarps) ? red[lane] : -INFINITY;
    m = warp_max(m);
    __syncthreads();   // red 要复用

    float sum = 0.f;
    for (int i = threadIdx.x; i < seq_len; i += blockDim.x) sum += expf(row[i] - m);
    sum = warp_sum(sum);
    if (lane == 0) red[wid] = sum;
    __syncthreads();
    sum = (lane < nwarps) ? red[lane] : 0.f;
    sum = warp_sum(sum);

    const float inv = 1.0f / sum;
    for (int i = threadIdx.x; i < seq_len; i += blockDim.x)
        out[i] = __float2half(expf(row[i] - m) * inv);
}

// ---------------------------------------------------------------------------
// kernel 3: O = P V, 每个 warp 一个 16x16 tile, 通过 shared memory 转成 half
// grid: (dim/16, ceil(seq/16/4), batch*head)   block: (32, 4)
// ---------------------------------------------------------------------------
__global__ void pv_wmma_kernel(const half *__restrict__ P, const half *__restrict__ V,
                               half *__restrict__ O, int seq_len, int dim)
{
    __shared__ float tile[WARPS_PER_BLOCK][WMMA_M * WMMA_N];

    const int tile_row = blockIdx.y * WARPS_PER_BLOCK + threadIdx.y;
    const int tile_col = blockIdx.x;
    if (tile_row * WMMA_M >= seq_len) return;

    const size_t bh = blockIdx.z;
    const half *p = P + bh * seq_len * seq_len + (size_t)tile_row * WMMA_M * seq_len;
    const half *v = V + bh * seq_len * dim + tile_col * WMMA_N;
    half *o = O + bh * seq_len * dim + (size_t)tile_row * WMMA_M * dim + tile_col * WMMA_N;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> p_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> v_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int j = 0; j < seq_len; j += WMMA_K) {
        wmma::load_matrix_sync(p_frag, p + j, seq_len);
        wmma::load_matrix_sync(v_frag, v + (size_t)j * dim, dim);
        wmma::mma_sync(acc, p_frag, v_frag, acc);
    }

    float *t = tile[threadIdx.y];
    wmma::store_matrix_sync(t, acc, WMMA_N, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < WMMA_M * WMMA_N; i += 32) {
        const int r = i / WMMA_N, c = i % WMMA_N;
        o[(size_t)r * dim + c] = __float2half(t[i]);
    }
}

void attention_forward(const half *dQ, const half *dK, const half *dV, float *dS, half *dP, half *dO,
                       int batch, int heads, int seq_len, int dim)
{
    const int tiles = seq_len / WMMA_M;
    dim3 block(32, WARPS_PER_BLOCK);
    dim3 grid_qk(tiles, (tiles + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK, batch * heads);
    dim3 grid_pv(dim / WMMA_N, (tiles + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK, batch * heads);

    qk_wmma_kernel<<<grid_qk, block>>>(dQ, dK, dS, seq_len, dim, 1.0f / sqrtf((float)dim));
    softmax_kernel<<<batch * heads * seq_len, 256>>>(dS, dP, seq_len);
    pv_wmma_kernel<<<grid_pv, block>>>(dP, dV, dO, seq_len, dim);
}

// CPU 参考实现
static void attention_cpu(const std::vector<float> &Q, const std::vector<float> &K, const std::vector<float> &V,
                          std::vector<float> &O, int bh, int n, int d)
{
    std::vector<float> s(n);
    for (int b = 0; b < bh; b++)
        for (int i = 0; i < n; i++) {
            const float *q = &Q[((size_t)b * n + i) * d];
            float mx = -1e30f, sum = 0.f;
            for (int j = 0; j < n; j++) {
                const float *k = &K[((size_t)b * n + j) * d];
                float a = 0.f;
                for (int x = 0; x < d; x++) a += q[x] * k[x];
                s[j] = a / sqrtf((float)d);
                mx = fmaxf(mx, s[j]);
            }
            for (int j = 0; j < n; j++) { s[j] = expf(s[j] - mx); sum += s[j]; }
            for (int x = 0; x < d; x++) {
                float a = 0.f;
                for (int j = 0; j < n; j++) a += s[j] * V[((size_t)b * n + j) * d + x];
                O[((size_t)b * n + i) * d + x] = a / sum;
            }
        }
}

int main(int argc, char **argv)
{
    const int batch = 2, heads = 4, dim = 64;
    int seq_len = (argc > 1) ? atoi(argv[1]) : 208;
    if (seq_len % 16 != 0) { printf("seq_len 必须是 16 的倍数\n"); return 1; }

    const size_t n_qkv = (size_t)batch * heads * seq_len * dim;
    const size_t n_s = (size_t)batch * heads * seq_len * seq_len;
    std::vector<half> hQ(n_qkv), hK(n_qkv), hV(n_qkv), hO(n_qkv);
    std::vector<float> fQ(n_qkv), fK(n_qkv), fV(n_qkv), ref(n_qkv);
    srand(2024);
    for (size_t i = 0; i < n_qkv; i++) {
        hQ[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1); fQ[i] = __half2float(hQ[i]);
        hK[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1); fK[i] = __half2float(hK[i]);
        hV[i] = __float2half(rand() / (float)RAND_MAX * 2 - 1); fV[i] = __half2float(hV[i]);
    }

    half *dQ, *dK, *dV, *dO, *dP;
    float *dS;
    CHECK_CUDA(cudaMalloc(&dQ, n_qkv * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dK, n_qkv * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dV, n_qkv * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dO, n_qkv * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dS, n_s * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&dP, n_s * sizeof(half)));
    CHECK_CUDA(cudaMemcpy(dQ, hQ.data(), n_qkv * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dK, hK.data(), n_qkv * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dV, hV.data(), n_qkv * sizeof(half), cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    cudaEventCreate(&start); cudaEventCreate(&stop);
    attention_forward(dQ, dK, dV, dS, dP, dO, batch, heads, seq_len, dim);   // 预热
    cudaEventRecord(start);
    attention_forward(dQ, dK, dV, dS, dP, dO, batch, heads, seq_len, dim);
    cudaEventRecord(stop);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaEventSynchronize(stop));
    float ms; cudaEventElapsedTime(&ms, start, stop);

    CHECK_CUDA(cudaMemcpy(hO.data(), dO, n_qkv * sizeof(half), cudaMemcpyDeviceToHost));
    attention_cpu(fQ, fK, fV, ref, batch * heads, seq_len, dim);
    float max_err = 0.f;
    for (size_t i = 0; i < n_qkv; i++) max_err = fmaxf(max_err, fabsf(ref[i] - __half2float(hO[i])));
    printf("seq=%d dim=%d time=%.3f ms max_err=%g %s\n", seq_len, dim, ms, max_err, max_err < 5e-3f ? "PASS" : "FAIL");

    cudaFree(dQ); cudaFree(dK); cudaFree(dV); cudaFree(dO); cudaFree(dS); cudaFree(dP);
    return 0;
}
