// W4A4 GEMM with group-wise scales: out[m][n] = sum_g sa[m][g] * sw[n][g] * (A[m, g] . W[n, g]), one mma.m16n8k64 per group.
// A and W hold signed nibbles, eight to a word, lowest first. 32x32 output tile, 2x2 warps, cp.async ring of STAGES groups.
#include <cuda_fp16.h>
#include <stdint.h>

#define BM 32
#define BN 32
#define GROUP 64
#define WORDS (GROUP / 8)            // words of a row in one group
#define ROW (WORDS + 4)              // ... in shared memory: still 16 byte aligned
#define STAGES 3
#define THREADS 128

static __device__ __forceinline__ void cp16(uint32_t *smem, const uint32_t *gmem, int pred)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                 "  @p cp.async.cg.shared.global [%0], [%1], 16;\n"
                 "  @!p st.shared.v4.b32 [%0], {%3, %3, %3, %3}; }\n" :: "r"(s), "l"(gmem), "r"(pred), "r"(0) : "memory");
}

static __device__ __forceinline__ void imma_s4(int *c, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};\n"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}

struct Stage {
    uint32_t a[BM][ROW];
    uint32_t w[BN][ROW];
    float sa[BM];
    float sw[BN];
};

// 2 chunks of 16 bytes a row, 64 rows: one for each thread
static __device__ void fetch(Stage *st, const uint32_t *A, const uint32_t *W, const half *sa, const half *sw,
                             int m0, int n0, int M, int N, int K, int group)
{
    const int words = K / 8, groups = K / GROUP;
    const int row = threadIdx.x / 2 % 32, part = threadIdx.x % 2;
    if (threadIdx.x < 64) {
        const int m = m0 + row;
        cp16(&st->a[row][part * 4], A + (size_t)min(m, M - 1) * words + group * WORDS + part * 4, m < M);
        if (part == 0) st->sa[row] = m < M ? __half2float(sa[(size_t)m * groups + group]) : 0.f;
    } else {
        const int n = n0 + row;
        cp16(&st->w[row][part * 4], W + (size_t)min(n, N - 1) * words + group * WORDS + part * 4, n < N);
        if (part == 0) st->sw[row] = n < N ? __half2float(sw[(size_t)n * groups + group]) : 0.f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
w4a4_gemm_group64(const uint32_t *__restrict__ A, const uint32_t *__restrict__ W, const half *__restrict__ sa,
                  const half *__restrict__ sw, half *__restrict__ out, int M, int N, int K)
{
    __shared__ __align__(16) Stage ring[STAGES];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wm = warp / 2 * 16, wn = warp % 2 * 16;
    const int gid = lane >> 2, tig = lane & 3;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int groups = K / GROUP;

    float acc[2][4];
    for (int j = 0; j < 2; j++)
        for (int e = 0; e < 4; e++) acc[j][e] = 0.f;

    for (int s = 0; s < STAGES - 1; s++) {
        if (s < groups) fetch(&ring[s], A, W, sa, sw, m0, n0, M, N, K, s);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    }

    for (int g = 0; g < groups; g++) {
        asm volatile("cp.async.wait_group %0;\n" :: "n"(STAGES - 2) : "memory");
        __syncthreads();               // everyone has this stage, and is done with the one before

        const int ahead = g + STAGES - 1;
        if (ahead < groups) fetch(&ring[ahead % STAGES], A, W, sa, sw, m0, n0, M, N, K, ahead);
        asm volatile("cp.async.commit_group;\n" ::: "memory");

        const Stage *st = &ring[g % STAGES];
        uint32_t a[4];
        a[0] = st->a[wm + gid][tig];
        a[1] = st->a[wm + gid + 8][tig];
        a[2] = st->a[wm + gid][tig + 4];
        a[3] = st->a[wm + gid + 8][tig + 4];
        const float s0 = st->sa[wm + gid], s1 = st->sa[wm + gid + 8];

#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t b[2];
            int dot[4];
            b[0] = st->w[wn + j * 8 + gid][tig];
            b[1] = st->w[wn + j * 8 + gid][tig + 4];
            imma_s4(dot, a, b);
            const float w0 = st->sw[wn + j * 8 + tig * 2], w1 = st->sw[wn + j * 8 + tig * 2 + 1];
            acc[j][0] += s0 * w0 * (float)dot[0];
            acc[j][1] += s0 * w1 * (float)dot[1];
            acc[j][2] += s1 * w0 * (float)dot[2];
            acc[j][3] += s1 * w1 * (float)dot[3];
        }
    }

#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int m = m0 + wm + gid + e / 2 * 8;
            const int n = n0 + wn + j * 8 + tig * 2 + e % 2;
            if (m < M && n < N) out[(size_t)m * N + n] = __float2half(acc[j][e]);
        }
}
