// naive causal attention, bf16, one block per (batch, head, 16 query rows)
//
//   phase 1: scores = Q K^T          (wmma, into shared memory)
//   phase 2: masked softmax          (one warp per row)
//   phase 3: O = P V                 (wmma)
//
// q, k, v come packed as [B, T, 3, H, HS] (the output of c_attn), out is [B, T, H * HS].
// T may be anything up to MAX_T.

#include <cuda_bf16.h>
#include <mma.h>
#include <assert.h>
#include <float.h>

#define ROWS 16
#define MAX_T 128
#define HS 32
#define WARPS 4
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

typedef __nv_bfloat16 floatX;
namespace w = nvcuda::wmma;

__device__ inline float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val = fmaxf(val, __shfl_xor_sync(0xFFFFFFFF, val, offset));
    }
    return val;
}

__device__ inline float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

__device__ void load_head(floatX (*dst)[HS + 8], const floatX* inp, int first, int rows, int T, int row_stride) {
    for (int i = threadIdx.x; i < rows * HS; i += WARPS * 32) {
        int t = i / HS;
        int d = i % HS;
        dst[t][d] = first + t < T ? inp[(first + t) * row_stride + d] : __float2bfloat16(0.0f);
    }
}

__device__ void scores_phase(float (*att)[MAX_T + 4], floatX (*sq)[HS + 8], floatX (*sk)[HS + 8], int n_keys) {
    int warp = threadIdx.x / 32;
    for (int t = warp; t < CEIL_DIV(n_keys, 16); t += WARPS) {
        w::fragment<w::accumulator, 16, 16, 16, float> c;
        w::fill_fragment(c, 0.0f);
        for (int d = 0; d < HS; d += 16) {
            w::fragment<w::matrix_a, 16, 16, 16, floatX, w::row_major> a;
            w::fragment<w::matrix_b, 16, 16, 16, floatX, w::col_major> b;
            w::load_matrix_sync(a, &sq[0][d], HS + 8);
            w::load_matrix_sync(b, &sk[t * 16][d], HS + 8);
            w::mma_sync(c, a, b, c);
        }
        w::store_matrix_sync(&att[0][t * 16], c, MAX_T + 4, w::mem_row_major);
    }
}

__device__ void softmax_phase(floatX (*probs)[MAX_T + 8], float (*att)[MAX_T + 4], int row0, int n_keys, int T,
                              float scale) {
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int padded = CEIL_DIV(n_keys, 16) * 16;
    for (int r = warp; r < ROWS; r += WARPS) {
        int own_pos = row0 + r;
        float maxval = -FLT_MAX;
        for (int j = lane; j < n_keys; j += 32) {
            if (j <= own_pos) {
                maxval = fmaxf(maxval, att[r][j] * scale);
            }
        }
        maxval = warpReduceMax(maxval);
        float sum = 0.0f;
        for (int j = lane; j < n_keys; j += 32) {
            float e = j <= own_pos ? expf(att[r][j] * scale - maxval) : 0.0f;
            att[r][j] = e;
            sum += e;
        }
        sum = warpReduceSum(sum);
        float norm = 1.0f / sum;
        for (int j = lane; j < padded; j += 32) {
            probs[r][j] = __float2bfloat16(j < n_keys ? att[r][j] * norm : 0.0f);
        }
    }
}

__device__ void values_phase(float (*res)[HS + 4], floatX (*probs)[MAX_T + 8], floatX (*sv)[HS + 8], int n_keys) {
    int warp = threadIdx.x / 32;
    if (warp >= HS / 16) return;
    w::fragment<w::accumulator, 16, 16, 16, float> c;
    w::fill_fragment(c, 0.0f);
    for (int t = 0; t < CEIL_DIV(n_keys, 16); t++) {
        w::fragment<w::matrix_a, 16, 16, 16, floatX, w::row_major> a;
        w::fragment<w::matrix_b, 16, 16, 16, floatX, w::row_major> b;
        w::load_matrix_sync(a, &probs[0][t * 16], MAX_T + 8);
        w::load_matrix_sync(b, &sv[t * 16][warp * 16], HS + 8);
        w::mma_sync(c, a, b, c);
    }
    w::store_matrix_sync(&res[0][warp * 16], c, HS + 4, w::mem_row_major);
}

__global__ void attention_forward_kernel(floatX* out, const floatX* qkv, int T, int NH) {
    __shared__ __align__(32) floatX sq[ROWS][HS + 8];
    __shared__ __align__(32) floatX skv[MAX_T][HS + 8];   // first the keys, then the values
    __shared__ __align__(32) float att[ROWS][MAX_T + 4];
    __shared__ __align__(32) floatX probs[ROWS][MAX_T + 8];
    __shared__ __align__(32) float res[ROWS][HS + 4];

    int row0 = blockIdx.x * ROWS;
    int h = blockIdx.y;
    int b = blockIdx.z;
    int C = NH * HS;
    int row_stride = 3 * C;
    const floatX* q = qkv + b * T * row_stride + h * HS;
    const floatX* k = q + C;
    const floatX* v = q + 2 * C;
    int n_keys = min(T, row0 + ROWS);   // nothing to the right of the diagonal
    int padded = CEIL_DIV(n_keys, 16) * 16;
    float scale = rsqrtf((float)HS);

    load_head(sq, q, row0, ROWS, T, row_stride);
    load_head(skv, k, 0, padded, T, row_stride);
    __syncthreads();

    scores_phase(att, sq, skv, n_keys);
    __syncthreads();

    softmax_phase(probs, att, row0, n_keys, T, scale);
    load_head(skv, v, 0, padded, T, row_stride);
    __syncthreads();

    values_phase(res, probs, skv, n_keys);
    __syncthreads();

    for (int i = threadIdx.x; i < ROWS * HS; i += WARPS * 32) {
        int r = i / HS;
        int d = i % HS;
        if (row0 + r < T) {
            out[(b * T + row0 + r) * C + h * HS + d] = __float2bfloat16(res[r][d]);
        }
    }
}

void attention_forward(floatX* out, const floatX* qkv, int B, int T, int C, int NH, cudaStream_t stream) {
    assert(C / NH == HS);
    assert(T <= MAX_T);
    attention_forward_kernel<<<dim3(CEIL_DIV(T, ROWS), NH, B), WARPS * 32, 0, stream>>>(out, qkv, T, NH);
}
