// Gradients of attention: dK and dV of 16 keys per warp, dQ added up by atomics, which has to be zero before.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int D = 32, T = 16;

using Sum = fragment<accumulator, T, T, T, float>;
using A = fragment<matrix_a, T, T, T, half, row_major>;
using AT = fragment<matrix_a, T, T, T, half, col_major>;
using B = fragment<matrix_b, T, T, T, half, row_major>;
using BT = fragment<matrix_b, T, T, T, half, col_major>;

// 16 rows of both operands multiplied: left · rightᵀ, summed over D.
__device__ void rows_by_rows(float *to, const half *left, const half *right) {
    Sum sum;
    fill_fragment(sum, 0.0f);
    for (int d = 0; d < D; d += T) {
        A a;
        BT b;
        load_matrix_sync(a, left + d, D);
        load_matrix_sync(b, right + d, D);
        mma_sync(sum, a, b, sum);
    }
    store_matrix_sync(to, sum, T, mem_row_major);
}

__global__ void attention_backward(const half *q, const half *k, const half *v, const half *dout, const float *lse,
                                   const float *delta, float *dq, half *dk, half *dv, int heads, int kv_heads, int sq,
                                   int skv, float scale, int causal) {
    __shared__ __align__(32) float scores[T * T], dp[T * T], tile[T * T];
    __shared__ __align__(32) half p[T * T], ds[T * T];
    const int key = blockIdx.x * T, kv = blockIdx.y, batch = kv / kv_heads, group = heads / kv_heads;
    const size_t own = (size_t)kv * skv + key;
    Sum of_k[D / T], of_v[D / T];
    for (int n = 0; n < D / T; n++) {
        fill_fragment(of_k[n], 0.0f);
        fill_fragment(of_v[n], 0.0f);
    }
    for (int each = 0; each < group; each++) {
        const size_t head = ((size_t)batch * heads + kv % kv_heads * group + each) * sq;
        for (int query = 0; query < sq; query += T) {
            const size_t rows = head + query;
            rows_by_rows(scores, q + rows * D, k + own * D);
            rows_by_rows(dp, dout + rows * D, v + own * D);
            __syncwarp();
            for (int i = threadIdx.x; i < T * T; i += 32) {
                const int r = i / T, c = i % T;
                const bool seen = !causal || key + c <= query + r;
                const float weight = seen ? __expf(scale * scores[i] - lse[rows + r]) : 0.0f;
                p[i] = __float2half(weight);
                ds[i] = __float2half(weight * (dp[i] - delta[rows + r]) * scale);
            }
            __syncwarp();
            for (int n = 0; n < D / T; n++) {
                A a;
                AT at;
                B b;
                load_matrix_sync(at, p, T);
                load_matrix_sync(b, dout + rows * D + n * T, D);
                mma_sync(of_v[n], at, b, of_v[n]);
                load_matrix_sync(at, ds, T);
                load_matrix_sync(b, q + rows * D + n * T, D);
                mma_sync(of_k[n], at, b, of_k[n]);
                Sum of_q;
                fill_fragment(of_q, 0.0f);
                load_matrix_sync(a, ds, T);
                load_matrix_sync(b, k + own * D + n * T, D);
                mma_sync(of_q, a, b, of_q);
                store_matrix_sync(tile, of_q, T, mem_row_major);
                __syncwarp();
                for (int i = threadIdx.x; i < T * T; i += 32)
                    atomicAdd(dq + (rows + i / T) * D + n * T + i % T, tile[i]);
                __syncwarp();
            }
        }
    }
    for (int n = 0; n < D / T; n++) {
        for (int which = 0; which < 2; which++) {
            store_matrix_sync(tile, which ? of_v[n] : of_k[n], T, mem_row_major);
            __syncwarp();
            for (int i = threadIdx.x; i < T * T; i += 32)
                (which ? dv : dk)[(own + i / T) * D + n * T + i % T] = __float2half(tile[i]);
            __syncwarp();
        }
    }
}
