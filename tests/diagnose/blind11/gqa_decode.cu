// Decoding with grouped queries: one block per key/value head and sequence; its query heads are the rows of a tile.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define HEAD_DIM 64
#define TILE 64
#define LDH (HEAD_DIM + 8)
#define LDS (TILE + 4)
#define LDP (TILE + 8)

// q: [B][Hq][64], caches: [B][max_len][Hkv][64], out: [B][Hq][64]
__global__ void gqa_decode(const half *q, const half *k_cache, const half *v_cache, const int *cache_len, float *out,
                           int Hq, int Hkv, int max_len, float scale) {
    __shared__ __align__(32) half q_s[16 * LDH];
    __shared__ __align__(32) half kv_s[TILE * LDH];
    __shared__ __align__(32) float s_s[16 * LDS];
    __shared__ __align__(32) half p_s[16 * LDP];
    __shared__ __align__(32) float o_s[16 * LDS];
    __shared__ float row_max[16], row_sum[16];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int kv_head = blockIdx.x, b = blockIdx.y;
    const int group = Hq / Hkv;
    const int len = cache_len[b];
    const half zero = __float2half(0.f);

    for (int i = tid; i < 16 * HEAD_DIM; i += 128) {
        int g = i / HEAD_DIM, d = i % HEAD_DIM;
        int head = kv_head * group + g;
        q_s[g * LDH + d] = g < group ? q[(b * Hq + head) * HEAD_DIM + d] : zero;
        o_s[g * LDS + d] = 0.f;
    }
    if (tid < 16) {
        row_max[tid] = -1e30f;
        row_sum[tid] = 0.f;
    }

    const size_t batch_at = (size_t)b * max_len * Hkv * HEAD_DIM;
    for (int t0 = 0; t0 < len; t0 += TILE) {
        for (int i = tid; i < TILE * HEAD_DIM; i += 128) {
            int t = i / HEAD_DIM, d = i % HEAD_DIM;
            kv_s[t * LDH + d] = t0 + t < len ? k_cache[batch_at + ((t0 + t) * Hkv + kv_head) * HEAD_DIM + d] : zero;
        }
        __syncthreads();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fill_fragment(c, 0.f);
        for (int d = 0; d < HEAD_DIM; d += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kt;
            wmma::load_matrix_sync(a, q_s + d, LDH);
            wmma::load_matrix_sync(kt, kv_s + warp * 16 * LDH + d, LDH);
            wmma::mma_sync(c, a, kt, c);
        }
        wmma::store_matrix_sync(s_s + warp * 16, c, LDS, wmma::mem_row_major);
        __syncthreads();

        for (int i = tid; i < TILE * HEAD_DIM; i += 128) {
            int t = i / HEAD_DIM, d = i % HEAD_DIM;
            kv_s[t * LDH + d] = t0 + t < len ? v_cache[batch_at + ((t0 + t) * Hkv + kv_head) * HEAD_DIM + d] : zero;
        }
        for (int r = warp; r < 16; r += 4) {
            float x0 = t0 + lane < len ? s_s[r * LDS + lane] * scale : -1e30f;
            float x1 = t0 + lane + 32 < len ? s_s[r * LDS + lane + 32] * scale : -1e30f;
            float m = fmaxf(x0, x1);
            for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
            m = fmaxf(m, row_max[r]);
            float fix = __expf(row_max[r] - m);
            x0 = __expf(x0 - m);
            x1 = __expf(x1 - m);
            p_s[r * LDP + lane] = __float2half(x0);
            p_s[r * LDP + lane + 32] = __float2half(x1);
            float sum = x0 + x1;
            for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
            o_s[r * LDS + lane] *= fix;
            o_s[r * LDS + lane + 32] *= fix;
            __syncwarp();
            if (lane == 0) {
                row_sum[r] = row_sum[r] * fix + sum;
                row_max[r] = m;
            }
        }
        __syncthreads();

        wmma::load_matrix_sync(c, o_s + warp * 16, LDS, wmma::mem_row_major);
        for (int t = 0; t < TILE; t += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v;
            wmma::load_matrix_sync(a, p_s + t, LDP);
            wmma::load_matrix_sync(v, kv_s + t * LDH + warp * 16, LDH);
            wmma::mma_sync(c, a, v, c);
        }
        wmma::store_matrix_sync(o_s + warp * 16, c, LDS, wmma::mem_row_major);
        __syncthreads();
    }

    for (int i = tid; i < group * HEAD_DIM; i += 128) {
        int g = i / HEAD_DIM, d = i % HEAD_DIM;
        out[(b * Hq + kv_head * group + g) * HEAD_DIM + d] = o_s[g * LDS + d] / row_sum[g];
    }
}
