/*
 * Batched int8 matmul with requantisation, SmoothQuant style (bmm_s8t_s8n_s8t):
 *     out[b] = clamp(round(alpha * A[b] @ B[b]^T + bias), -128, 127)
 * A is [batch, M, K], B is [batch, N, K], both K-contiguous.
 */
#include <mma.h>
#include <stdint.h>
using namespace nvcuda::wmma;

typedef signed char s8;

enum { TILE_M = 32, TILE_N = 64, TILE_K = 32, WARPS = 4, THREADS = WARPS * 32, PAD = 16, LDS_ = TILE_K + PAD };

typedef struct {
    int m, n, k;
    long long stride_a, stride_b, stride_c;   /* elements from one matrix to the next */
    float alpha;
} bmm_args;

static __device__ s8 requantise(int acc, float alpha, float bias) {
    float v = rintf(acc * alpha + bias);
    v = fminf(fmaxf(v, -128.f), 127.f);
    return (s8)v;
}

/* rows x TILE_K bytes, 4 at a time; what lies outside is 0 */
static __device__ void fetch_tile(int *regs, const s8 *src, int rows, int row0, int row_end, int k0, int k_end) {
    for (int i = 0; i < rows * TILE_K / 4 / THREADS; ++i) {
        int idx = threadIdx.x + i * THREADS;
        int r = row0 + idx / (TILE_K / 4), c = k0 + idx % (TILE_K / 4) * 4;
        regs[i] = (r < row_end && c < k_end) ? *(const int *)&src[(long long)r * k_end + c] : 0;
    }
}

static __device__ void put_tile(s8 *dst, const int *regs, int rows) {
    for (int i = 0; i < rows * TILE_K / 4 / THREADS; ++i) {
        int idx = threadIdx.x + i * THREADS;
        *(int *)&dst[idx / (TILE_K / 4) * LDS_ + idx % (TILE_K / 4) * 4] = regs[i];
    }
}

extern "C" __global__ void bmm_s8_requant(const s8 *A, const s8 *B, const float *bias, s8 *C, bmm_args p) {
    __shared__ __align__(32) s8 sA[2][TILE_M * LDS_];
    __shared__ __align__(32) s8 sB[2][TILE_N * LDS_];
    __shared__ __align__(32) int sC[WARPS][16 * 16];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * TILE_M, col0 = blockIdx.x * TILE_N;
    A += blockIdx.z * p.stride_a;
    B += blockIdx.z * p.stride_b;
    C += blockIdx.z * p.stride_c;

    /* warp w: rows 16*(w%2), columns 32*(w/2) */
    const int wr = warp % 2 * 16, wc = warp / 2 * 32;
    fragment<accumulator, 16, 16, 16, int> acc[2];
    fill_fragment(acc[0], 0);
    fill_fragment(acc[1], 0);

    int ra[TILE_M * TILE_K / 4 / THREADS], rb[TILE_N * TILE_K / 4 / THREADS];
    fetch_tile(ra, A, TILE_M, row0, p.m, 0, p.k);
    fetch_tile(rb, B, TILE_N, col0, p.n, 0, p.k);
    put_tile(sA[0], ra, TILE_M);
    put_tile(sB[0], rb, TILE_N);
    __syncthreads();

    const int steps = (p.k + TILE_K - 1) / TILE_K;
    for (int s = 0; s < steps; ++s) {
        const int cur = s & 1;
        if (s + 1 < steps) {
            fetch_tile(ra, A, TILE_M, row0, p.m, (s + 1) * TILE_K, p.k);
            fetch_tile(rb, B, TILE_N, col0, p.n, (s + 1) * TILE_K, p.k);
        }
        for (int kk = 0; kk < TILE_K; kk += 16) {
            fragment<matrix_a, 16, 16, 16, s8, row_major> fa;
            load_matrix_sync(fa, &sA[cur][wr * LDS_ + kk], LDS_);
            for (int j = 0; j < 2; ++j) {
                fragment<matrix_b, 16, 16, 16, s8, col_major> fb;
                load_matrix_sync(fb, &sB[cur][(wc + j * 16) * LDS_ + kk], LDS_);
                mma_sync(acc[j], fa, fb, acc[j]);
            }
        }
        if (s + 1 < steps) {
            put_tile(sA[cur ^ 1], ra, TILE_M);
            put_tile(sB[cur ^ 1], rb, TILE_N);
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; ++j) {
        store_matrix_sync(sC[warp], acc[j], 16, mem_row_major);
        __syncwarp();
        for (int i = lane; i < 256; i += 32) {
            int r = row0 + wr + i / 16, c = col0 + wc + j * 16 + i % 16;
            if (r < p.m && c < p.n) C[(long long)r * p.n + c] = requantise(sC[warp][i], p.alpha, bias[c]);
        }
        __syncwarp();   /* sC is used again */
    }
}
