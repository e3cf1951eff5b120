// Attention with a learned relative position bias, bias [H, S, S], q k v o [B, H, S, 64] (Swin / T5 style).
#include <cuda_fp16.h>
#include <mma.h>

#define HEAD_SIZE 64
#define MAX_SEQ 128
#define NUM_WARPS 4
#define LDS (MAX_SEQ + 8)

// the whole row of scores fits: no online softmax
__global__ void relpos_attention_kernel(const __half *Q, const __half *K, const __half *V, const __half *rel_bias,
                                        __half *O, int H, int S, float scale) {
    __shared__ float scores[16][LDS];
    __shared__ __half probs[16][LDS];
    __shared__ float outs[16][HEAD_SIZE];
    const int bh = blockIdx.y, h = bh % H;
    const int row0 = blockIdx.x * 16;
    const int warp = threadIdx.y, lane = threadIdx.x;
    const __half *q = Q + (size_t)bh * S * HEAD_SIZE;
    const __half *k = K + (size_t)bh * S * HEAD_SIZE;
    const __half *v = V + (size_t)bh * S * HEAD_SIZE;
    const __half *bias = rel_bias + (size_t)h * S * S;

    for (int n = warp * 16; n < S; n += NUM_WARPS * 16) {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
        nvcuda::wmma::fill_fragment(c, 0.0f);
        for (int d = 0; d < HEAD_SIZE; d += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> b;
            nvcuda::wmma::load_matrix_sync(a, q + row0 * HEAD_SIZE + d, HEAD_SIZE);
            nvcuda::wmma::load_matrix_sync(b, k + n * HEAD_SIZE + d, HEAD_SIZE);
            nvcuda::wmma::mma_sync(c, a, b, c);
        }
        nvcuda::wmma::store_matrix_sync(&scores[0][n], c, LDS, nvcuda::wmma::mem_row_major);
    }
    __syncthreads();
    for (int r = warp; r < 16; r += NUM_WARPS) {
        float mx = -3.0e38f;
        for (int n = lane; n < S; n += 32) {
            float x = scores[r][n] * scale + __half2float(bias[(row0 + r) * S + n]);
            scores[r][n] = x;
            mx = fmaxf(mx, x);
        }
        for (int o = 16; o > 0; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, o));
        float sum = 0.f;
        for (int n = lane; n < S; n += 32) {
            float e = __expf(scores[r][n] - mx);
            scores[r][n] = e;
            sum += e;
        }
        for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        float inv = 1.0f / sum;
        for (int n = lane; n < S; n += 32) probs[r][n] = __float2half(scores[r][n] * inv);
    }
    __syncthreads();
    {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
        nvcuda::wmma::fill_fragment(c, 0.0f);
        for (int n = 0; n < S; n += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::row_major> b;
            nvcuda::wmma::load_matrix_sync(a, &probs[0][n], LDS);
            nvcuda::wmma::load_matrix_sync(b, v + n * HEAD_SIZE + warp * 16, HEAD_SIZE);
            nvcuda::wmma::mma_sync(c, a, b, c);
        }
        nvcuda::wmma::store_matrix_sync(&outs[0][warp * 16], c, HEAD_SIZE, nvcuda::wmma::mem_row_major);
    }
    __syncthreads();
    __half *out = O + (size_t)bh * S * HEAD_SIZE + row0 * HEAD_SIZE;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 16 * HEAD_SIZE; i += NUM_WARPS * 32)
        out[i] = __float2half(outs[i / HEAD_SIZE][i % HEAD_SIZE]);
}

int relpos_attention(const void *q, const void *k, const void *v, const void *bias, void *o, int batch, int heads,
                     int seq, cudaStream_t stream) {
    if (seq > MAX_SEQ || seq % 16 != 0) return 1;
    relpos_attention_kernel<<<dim3(seq / 16, batch * heads), dim3(32, NUM_WARPS), 0, stream>>>(
        (const __half *)q, (const __half *)k, (const __half *)v, (const __half *)bias, (__half *)o, heads, seq, 0.125f);
    return 0;
}
