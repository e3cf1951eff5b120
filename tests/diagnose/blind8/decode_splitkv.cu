/*
 * Split-KV decoding ("flash-decoding"), phase 1: one query token, the cache cut into num_splits pieces.
 * All query heads of one KV head go through the tensor cores together, as the rows of one m16 tile.
 *
 *   o_part[split][b][h][d]   normalised output of the piece
 *   lse_part[split][b][h]    its log-sum-exp (natural), -inf for an empty piece
 *
 * The second kernel (combine) weighs the pieces by exp(lse - max lse).
 */
#include <cuda_fp16.h>
#include <stdint.h>

#define HEAD_DIM 64
#define TILE 64
#define LDS (HEAD_DIM + 8)
#define NTHREADS 128
#define LN2 0.69314718055994531f

struct SplitKVParams {
    const half *q;          // [B, H, D]
    const half *k_cache;    // [B, max_len, Hkv, D]
    const half *v_cache;    // [B, max_len, Hkv, D]
    const int *seqlens;     // [B]
    float *o_part;
    float *lse_part;
    int heads, kv_heads, max_len, num_splits;
    float scale_log2;       // softmax scale * log2(e)
};

__host__ __device__ inline int div_up(int a, int b) { return (a + b - 1) / b; }

__device__ __forceinline__ void cp16(half *dst, const half *src, bool in)
{
    uint32_t d = (uint32_t)__cvta_generic_to_shared(dst);
    int n = in ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(n));
}

__device__ __forceinline__ void ldsm_x4(uint32_t r[4], const half *p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t r[4], const half *p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}

__device__ __forceinline__ void mma16816(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void fetch_tile(half (*dst)[LDS], const half *src, size_t row_stride, int first, int end)
{
    for (int i = threadIdx.x; i < TILE * HEAD_DIM / 8; i += NTHREADS) {
        int r = i / (HEAD_DIM / 8), c = i % (HEAD_DIM / 8) * 8;
        bool in = first + r < end;
        cp16(&dst[r][c], src + (in ? (first + r) * row_stride + c : 0), in);
    }
}

extern "C" __global__ void __launch_bounds__(NTHREADS) decode_splitkv(SplitKVParams p)
{
    __shared__ __align__(16) half sQ[16][LDS];
    __shared__ __align__(16) half sK[2][TILE][LDS];
    __shared__ __align__(16) half sV[2][TILE][LDS];
    __shared__ float sS[16][TILE + 4];
    __shared__ __align__(16) half sP[16][TILE + 8];
    __shared__ float sCorr[16];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int split = blockIdx.x, hk = blockIdx.y, b = blockIdx.z;
    const int group = p.heads / p.kv_heads;
    const int len = p.seqlens[b];

    // pieces are whole tiles; the last ones may be empty
    const int chunk = div_up(div_up(len, p.num_splits), TILE) * TILE;
    const int begin = split * chunk;
    const int end = min(begin + chunk, len);

    const size_t out_row = ((size_t)split * gridDim.z + b) * p.heads + hk * group;
    float *o = p.o_part + out_row * HEAD_DIM;
    float *lse = p.lse_part + out_row;

    if (begin >= end) {
        for (int i = tid; i < group * HEAD_DIM; i += NTHREADS) o[i] = 0.f;
        if (tid < group) lse[tid] = -INFINITY;
        return;
    }

    const size_t row_stride = (size_t)p.kv_heads * HEAD_DIM;
    const half *K = p.k_cache + (size_t)b * p.max_len * row_stride + hk * HEAD_DIM;
    const half *V = p.v_cache + (size_t)b * p.max_len * row_stride + hk * HEAD_DIM;
    const half *Q = p.q + ((size_t)b * p.heads + hk * group) * HEAD_DIM;

    fetch_tile(sK[0], K, row_stride, begin, end);
    fetch_tile(sV[0], V, row_stride, begin, end);
    asm volatile("cp.async.commit_group;\n");

    for (int i = tid; i < 16 * HEAD_DIM / 8; i += NTHREADS) {
        int r = i / (HEAD_DIM / 8), c = i % (HEAD_DIM / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (r < group) v = *(const uint4 *)(Q + r * HEAD_DIM + c);
        *(uint4 *)&sQ[r][c] = v;
    }
    __syncthreads();

    uint32_t qf[HEAD_DIM / 16][4];
    for (int d = 0; d < HEAD_DIM / 16; ++d) ldsm_x4(qf[d], &sQ[lane % 16][d * 16 + lane / 16 * 8]);

    float acc[2][4] = {};
    const int srow = tid / 8, spart = tid % 8;      // eight threads share a row of scores
    float m = -INFINITY, l = 0.f;

    const int n_tiles = div_up(end - begin, TILE);
    for (int t = 0; t < n_tiles; ++t) {
        const int cur = t & 1;
        const int tile0 = begin + t * TILE;
        if (t + 1 < n_tiles) {
            fetch_tile(sK[cur ^ 1], K, row_stride, tile0 + TILE, end);
            fetch_tile(sV[cur ^ 1], V, row_stride, tile0 + TILE, end);
            asm volatile("cp.async.commit_group;\n");
            asm volatile("cp.async.wait_group 1;\n");
        } else {
            asm volatile("cp.async.wait_group 0;\n");
        }
        __syncthreads();

        // S = Q K^T: a warp has 16 keys
        float s[2][4] = {};
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            uint32_t kf[4];
            ldsm_x4(kf, &sK[cur][warp * 16 + lane / 16 * 8 + lane % 8][d * 16 + lane / 8 % 2 * 8]);
            mma16816(s[0], qf[d], kf[0], kf[1]);
            mma16816(s[1], qf[d], kf[2], kf[3]);
        }
        for (int n = 0; n < 2; ++n)
            for (int e = 0; e < 4; ++e) {
                int row = lane / 4 + e / 2 * 8;
                int col = warp * 16 + n * 8 + lane % 4 * 2 + e % 2;
                sS[row][col] = tile0 + col < end ? s[n][e] * p.scale_log2 : -INFINITY;
            }
        __syncthreads();

        float m_new = m;
        for (int c = spart; c < TILE; c += 8) m_new = fmaxf(m_new, sS[srow][c]);
        for (int w = 4; w > 0; w >>= 1) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, w));
        float sum = 0.f;
        for (int c = spart; c < TILE; c += 8) {
            float e = exp2f(sS[srow][c] - m_new);
            sP[srow][c] = __float2half(e);
            sum += e;
        }
        for (int w = 4; w > 0; w >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, w);
        const float corr = exp2f(m - m_new);
        l = l * corr + sum;
        m = m_new;
        if (spart == 0) sCorr[srow] = corr;
        __syncthreads();

        // O = O * corr + P V: a warp has 16 channels
        const float c0 = sCorr[lane / 4], c1 = sCorr[lane / 4 + 8];
        for (int n = 0; n < 2; ++n) {
            acc[n][0] *= c0;
            acc[n][1] *= c0;
            acc[n][2] *= c1;
            acc[n][3] *= c1;
        }
        for (int kk = 0; kk < TILE / 16; ++kk) {
            uint32_t pf[4], vf[4];
            ldsm_x4(pf, &sP[lane % 16][kk * 16 + lane / 16 * 8]);
            ldsm_x4_t(vf, &sV[cur][kk * 16 + lane % 16][warp * 16 + lane / 16 * 8]);
            mma16816(acc[0], pf, vf[0], vf[1]);
            mma16816(acc[1], pf, vf[2], vf[3]);
        }
        __syncthreads();
    }

    if (spart == 0) {
        sCorr[srow] = 1.f / l;
        if (srow < group) lse[srow] = m * LN2 + logf(l);
    }
    __syncthreads();

    for (int n = 0; n < 2; ++n)
        for (int e = 0; e < 4; ++e) {
            int row = lane / 4 + e / 2 * 8;
            int col = warp * 16 + n * 8 + lane % 4 * 2 + e % 2;
            if (row < group) o[row * HEAD_DIM + col] = acc[n][e] * sCorr[row];
        }
}
