/**
 * Multi-Head Self-Attention with Tensor Cores (WMMA)
 * ==================================================
 *
 * Pipeline (unfused, easy to follow):
 *
 *   1. split_heads        packed QKV [B, S, 3, H, D]  ->  Q, K, V [B*H, S, D]
 *   2. batched_gemm (NT)  scores[b] = (Q[b] x K[b]^T) * 1/sqrt(D)
 *   3. causal_softmax     probs[b][i][0..i], zeros elsewhere
 *   4. batched_gemm (NN)  ctx[b] = probs[b] x V[b]
 *   5. merge_heads        [B*H, S, D] -> [B, S, H*D]
 *
 * Key points:
 *   ✅ One warp computes one 16x16 output tile, fp16 inputs / fp32 accumulation
 *   ✅ Strided-batched: batch index in blockIdx.z
 *   ✅ Verified against a straightforward CPU implementation
 *
 * Requirements: S % 16 == 0, D % 16 == 0, compute capability >= 7.0
 *
 * Compile: nvcc -O2 -arch=sm_70 -o mha multi_head_attention.cu
 */

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

using namespace nvcuda;

// Error checking macro
#define CUDA_CHECK(call)                                                          \
    do {                                                                          \
        cudaError_t err = call;                                                   \
        if (err != cudaSuccess) {                                                 \
            fprintf(stderr, "CUDA error in %s:%d: %s\n", __FILE__, __LINE__,      \
                    cudaGetErrorString(err));                                     \
            exit(EXIT_FAILURE);                                                   \
        }                                                                         \
    } while (0)

#define TILE 16
#define WARPS_PER_BLOCK 4

// ---------------------------------------------------------------------------
// Step 1: split the packed QKV tensor into per-head matrices
// ---------------------------------------------------------------------------
__global__ void split_heads_kernel(const half* qkv, half* q, half* k, half* v,
                                   int B, int S, int H, int D) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = B * S * H * D;
    if (idx >= total) return;

    // idx enumerates the output layout [B, H, S, D]
    int d = idx % D;
    int s = (idx / D) % S;
    int h = (idx / (D * S)) % H;
    int b = idx / (D * S * H);

    int src = ((b * S + s) * 3 * H + h) * D + d;   // "q" part of token (b, s)
    q[idx] = qkv[src];
    k[idx] = qkv[src + H * D];
    v[idx] = qkv[src + 2 * H * D];
}

// ---------------------------------------------------------------------------
// Steps 2 and 4: strided-batched GEMM, one warp per 16x16 tile
//   C[b] (M x N, fp32) = alpha * A[b] (M x K) * op(B[b])
//   TRANS_B = false: B is K x N row-major
//   TRANS_B = true : B is N x K row-major (i.e. K x N column-major)
// ---------------------------------------------------------------------------
template <bool TRANS_B>
__global__ void batched_gemm_wmma_kernel(const half* A, const half* B, float* C,
                                         int M, int N, int K,
                                         int lda, int ldb, int ldc,
                                         long long strideA, long long strideB, long long strideC,
                                         float alpha) {
    int batch = blockIdx.z;
    int tile_row = blockIdx.y * WARPS_PER_BLOCK + threadIdx.y;
    int tile_col = blockIdx.x;
    if (tile_row * TILE >= M || tile_col * TILE >= N) return;

    const half* a_ptr = A + batch * strideA + (long long)tile_row * TILE * lda;
    const half* b_ptr = B + batch * strideB;
    float* c_ptr = C + batch * strideC + (long long)tile_row * TILE * ldc + tile_col * TILE;

    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k = 0; k < K; k += TILE) {
        wmma::load_matrix_sync(a_frag, a_ptr + k, lda);
        if (TRANS_B) {
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::col_major> b_frag;
            wmma::load_matrix_sync(b_frag, b_ptr + (long long)tile_col * TILE * ldb + k, ldb);
            wmma::mma_sync(acc, a_frag, b_frag, acc);
        } else {
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> b_frag;
            wmma::load_matrix_sync(b_frag, b_ptr + (long long)k * ldb + tile_col * TILE, ldb);
            wmma::mma_sync(acc, a_frag, b_frag, acc);
        }
    }

    // Scale every element owned by this thread
    for (int i = 0; i < acc.num_elements; i++) {
        acc.x[i] *= alpha;
    }
    wmma::store_matrix_sync(c_ptr, acc, ldc, wmma::mem_row_major);
}

// ---------------------------------------------------------------------------
// Step 3: causal softmax, one block (128 threads) per row
// ---------------------------------------------------------------------------
__global__ void causal_softmax_kernel(const float* scores, half* probs, int S) {
    __shared__ float red[128];

    int row = blockIdx.x;                      // query position
    long long base = ((long long)blockIdx.y * S + row) * S;
    int tid = threadIdx.x;
    int valid = row + 1;                       // keys 0..row

    // Find the row maximum
    float local_max = -INFINITY;
    for (int j = tid; j < valid; j += blockDim.x)
        local_max = fmaxf(local_max, scores[base + j]);
    red[tid] = local_max;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] = fmaxf(red[tid], red[tid + s]);
        __syncthreads();
    }
    float row_max = red[0];
    __syncthreads();

    // Sum of exponentials
    float local_sum = 0.0f;
    for (int j = tid; j < valid; j += blockDim.x)
        local_sum += expf(scores[base + j] - row_max);
    red[tid] = local_sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) red[tid] += red[tid + s];
        __syncthreads();
    }
    float inv_sum = 1.0f / red[0];

    // Write the probabilities; masked positions must be zero, the next GEMM reads the full row
    for (int j = tid; j < S; j += blockDim.x) {
        float p = (j < valid) ? expf(scores[base + j] - row_max) * inv_sum : 0.0f;
        probs[base + j] = __float2half(p);
    }
}

// ---------------------------------------------------------------------------
// Step 5: merge heads
// ---------------------------------------------------------------------------
__global__ void merge_heads_kernel(const float* ctx, float* out, int B, int S, int H, int D) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * S * H * D) return;

    // idx enumerates the output layout [B, S, H, D]
    int d = idx % D;
    int h = (idx / D) % H;
    int s = (idx / (D * H)) % S;
    int b = idx / (D * H * S);
    out[idx] = ctx[((b * H + h) * S + s) * D + d];
}

// ---------------------------------------------------------------------------
// Host wrapper
// ---------------------------------------------------------------------------
void multi_head_attention(const half* d_qkv, float* d_out, int B, int S, int H, int D) {
    int BH = B * H;
    size_t n = (size_t)B * S * H * D;
    half *d_q, *d_k, *d_v, *d_probs;
    float *d_scores, *d_ctx;
    CUDA_CHECK(cudaMalloc((void**)&d_q, n * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void**)&d_k, n * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void**)&d_v, n * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void**)&d_probs, (size_t)BH * S * S * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void**)&d_scores, (size_t)BH * S * S * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void**)&d_ctx, n * sizeof(float)));

    int threads = 256;
    int blocks = (int)((n + threads - 1) / threads);
    split_heads_kernel<<<blocks, threads>>>(d_qkv, d_q, d_k, d_v, B, S, H, D);
    CUDA_CHECK(cudaGetLastError());

    dim3 block(32, WARPS_PER_BLOCK);
    int row_blocks = (S / TILE + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK;

    // scores = Q * K^T / sqrt(D)
    dim3 grid_qk(S / TILE, row_blocks, BH);
    batched_gemm_wmma_kernel<true><<<grid_qk, block>>>(
        d_q, d_k, d_scores, S, S, D, D, D, S,
        (long long)S * D, (long long)S * D, (long long)S * S, 1.0f / sqrtf((float)D));
    CUDA_CHECK(cudaGetLastError());

    dim3 grid_sm(S, BH);
    causal_softmax_kernel<<<grid_sm, 128>>>(d_scores, d_probs, S);
    CUDA_CHECK(cudaGetLastError());

    // ctx = probs * V
    dim3 grid_pv(D / TILE, row_blocks, BH);
    batched_gemm_wmma_kernel<false><<<grid_pv, block>>>(
        d_probs, d_v, d_ctx, S, D, S, S, D, D,
        (long long)S * S, (long long)S * D, (long long)S * D, 1.0f);
    CUDA_CHECK(cudaGetLastError());

    merge_heads_kernel<<<blocks, threads>>>(d_ctx, d_out, B, S, H, D);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    cudaFree(d_q);
    cudaFree(d_k);
    cudaFree(d_v);
    cudaFree(d_probs);
    cudaFree(d_scores);
    cudaFree(d_ctx);
}

// ---------------------------------------------------------------------------
// CPU reference
// ---------------------------------------------------------------------------
void attention_cpu(const half* qkv, float* out, int B, int S, int H, int D) {
    float* p = (float*)malloc(S * sizeof(float));
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            for (int i = 0; i < S; i++) {
                const half* q = qkv + ((size_t)(b * S + i) * 3 * H + h) * D;
                float mx = -INFINITY;
                for (int j = 0; j <= i; j++) {
                    const half* k = qkv + ((size_t)(b * S + j) * 3 * H + H + h) * D;
                    float dot = 0.0f;
                    for (int d = 0; d < D; d++) dot += __half2float(q[d]) * __half2float(k[d]);
                    p[j] = dot / sqrtf((float)D);
                    if (p[j] > mx) mx = p[j];
                }
                float sum = 0.0f;
                for (int j = 0; j <= i; j++) {
                    p[j] = expf(p[j] - mx);
                    sum += p[j];
                }
                for (int d = 0; d < D; d++) {
                    float acc = 0.0f;
                    for (int j = 0; j <= i; j++) {
                        const half* v = qkv + ((size_t)(b * S + j) * 3 * H + 2 * H + h) * D;
                        acc += p[j] / sum * __half2float(v[d]);
                    }
                    out[((size_t)(b * S + i) * H + h) * D + d] = acc;
                }
            }
        }
    }
    free(p);
}

int main() {
    const int B = 2, S = 144, H = 3, D = 32;
    printf("Multi-head attention: B=%d S=%d H=%d D=%d\n", B, S, H, D);

    size_t n_qkv = (size_t)B * S * 3 * H * D;
    size_t n_out = (size_t)B * S * H * D;
    half* h_qkv = (half*)malloc(n_qkv * sizeof(half));
    float* h_out = (float*)malloc(n_out * sizeof(float));
    float* h_ref = (float*)malloc(n_out * sizeof(float));

    srand(42);
    for (size_t i = 0; i < n_qkv; i++) {
        h_qkv[i] = __float2half(3.0f * ((float)rand() / RAND_MAX) - 1.5f);
    }

    half* d_qkv;
    float* d_out;
    CUDA_CHECK(cudaMalloc((void**)&d_qkv, n_qkv * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void**)&d_out, n_out * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_qkv, h_qkv, n_qkv * sizeof(half), cudaMemcpyHostToDevice));

    multi_head_attention(d_qkv, d_out, B, S, H, D);
    CUDA_CHECK(cudaMemcpy(h_out, d_out, n_out * sizeof(float), cudaMemcpyDeviceToHost));

    attention_cpu(h_qkv, h_ref, B, S, H, D);

    float max_diff = 0.0f;
    for (size_t i = 0; i < n_out; i++) {
        float diff = fabsf(h_out[i] - h_ref[i]);
        if (diff > max_diff || isnan(diff)) max_diff = diff;
    }
    printf("Max difference: %e\n", max_diff);
    bool passed = max_diff < 2e-3f;
    printf("%s\n", passed ? "✅ Test PASSED" : "❌ Test FAILED");

    free(h_qkv);
    free(h_out);
    free(h_ref);
    CUDA_CHECK(cudaFree(d_qkv));
    CUDA_CHECK(cudaFree(d_out));
    return passed ? 0 : 1;
}
