/*
 * w4_skinny.cu -- 4 bit linear layers of the decoder, for batches of up to a few dozen tokens
 *
 *   out[m][n] = sum_k x[m][k] * (q[k][n] - (z[k/gs][n] + 1)) * s[k/gs][n]  + bias[n]
 *
 * Weights as AutoGPTQ writes them (no act-order):
 *   qweight [K/8][N]    int32, 8 nibbles along K, first one lowest
 *   qzeros  [K/gs][N/8] int32, 8 nibbles along N, each one too small by 1
 *   scales  [K/gs][N]   half
 *
 * A block makes 16 rows x 32 columns. Its warps take turns along K (16 at a time) and everything is
 * summed up in shared memory at the end. Nothing is shared between warps before that, so x and the
 * weights go from global memory straight into the mma's registers.
 *
 * K % 16 == 0, gs % 16 == 0, N % 8 == 0
 */
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define ROWS   16
#define COLS   32
#define NT     (COLS / 8)       /* n8 tiles of a warp */
#define WARPS  4

typedef struct {
    uint32_t x[4];              /* A: 16x16 of x */
    uint32_t q[NT][2];          /* two words of 8 nibbles for each n8 tile */
} step_t;

static __device__ __forceinline__ void mma16816(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t as_u32(half2 h) { return *reinterpret_cast<uint32_t *>(&h); }

/* nibbles 2*t and 2*t+1 of a word, as halves: 0x6400 is 1024, where one ulp is 1 */
static __device__ __forceinline__ uint32_t dequant2(uint32_t word, int t, half2 zero, half2 scale)
{
    uint32_t v = word >> (8 * t);
    uint32_t u = (v & 0x0000000f) | ((v & 0x000000f0) << 12) | 0x64006400;
    half2 h = *reinterpret_cast<half2 *>(&u);
    return as_u32(__hmul2(__hsub2(h, zero), scale));
}

static __device__ __forceinline__ void fetch(step_t *st, const half *x, const uint32_t *qweight,
                                             int m0, int n0, int k0, int M, int N, int K, int g, int t)
{
    const int lo = m0 + g, hi = m0 + g + 8;
    const int k = k0 + 2 * t;
    st->x[0] = lo < M ? *(const uint32_t *)(x + (size_t)lo * K + k)     : 0;
    st->x[1] = hi < M ? *(const uint32_t *)(x + (size_t)hi * K + k)     : 0;
    st->x[2] = lo < M ? *(const uint32_t *)(x + (size_t)lo * K + k + 8) : 0;
    st->x[3] = hi < M ? *(const uint32_t *)(x + (size_t)hi * K + k + 8) : 0;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int n = n0 + j * 8 + g;
        const uint32_t *q = qweight + (size_t)(k0 / 8) * N + n;
        st->q[j][0] = n < N ? q[0] : 0;
        st->q[j][1] = n < N ? q[N] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
w4_linear(const half *__restrict__ x, const uint32_t *__restrict__ qweight, const uint32_t *__restrict__ qzeros,
          const half *__restrict__ scales, const half *__restrict__ bias, half *__restrict__ out,
          int M, int N, int K, int group_size)
{
    __shared__ float part[WARPS][ROWS][COLS + 1];

    const int warp = threadIdx.x >> 5;
    const int lane = threadIdx.x & 31;
    const int g    = lane >> 2;         /* groupID in the PTX manual's pictures */
    const int t    = lane & 3;          /* threadID_in_group */
    const int n0   = blockIdx.x * COLS;
    const int m0   = blockIdx.y * ROWS;

    float acc[NT][4] = {};
    half2 zero[NT], scale[NT];
    int   group = -1;
    step_t cur, next;

    if (warp * 16 < K)
        fetch(&cur, x, qweight, m0, n0, warp * 16, M, N, K, g, t);

    for (int k0 = warp * 16; k0 < K; k0 += WARPS * 16) {
        /* the next step's loads are under way while this one computes */
        const int k1 = k0 + WARPS * 16;
        if (k1 < K)
            fetch(&next, x, qweight, m0, n0, k1, M, N, K, g, t);

        if (k0 / group_size != group) {
            group = k0 / group_size;
#pragma unroll
            for (int j = 0; j < NT; j++) {
                const int n = n0 + j * 8 + g;
                if (n < N) {
                    const uint32_t zw = qzeros[(size_t)group * (N / 8) + n / 8];
                    const int z = ((zw >> ((n & 7) * 4)) & 15) + 1;
                    zero[j]  = __half2half2(__int2half_rn(1024 + z));
                    scale[j] = __half2half2(scales[(size_t)group * N + n]);
                } else {
                    zero[j]  = __half2half2(__int2half_rn(1024));
                    scale[j] = __half2half2(__int2half_rn(0));
                }
            }
        }

#pragma unroll
        for (int j = 0; j < NT; j++) {
            const uint32_t b0 = dequant2(cur.q[j][0], t, zero[j], scale[j]);
            const uint32_t b1 = dequant2(cur.q[j][1], t, zero[j], scale[j]);
            mma16816(acc[j], cur.x, b0, b1);
        }
        cur = next;
    }

#pragma unroll
    for (int j = 0; j < NT; j++) {
        part[warp][g    ][j * 8 + 2 * t    ] = acc[j][0];
        part[warp][g    ][j * 8 + 2 * t + 1] = acc[j][1];
        part[warp][g + 8][j * 8 + 2 * t    ] = acc[j][2];
        part[warp][g + 8][j * 8 + 2 * t + 1] = acc[j][3];
    }
    __syncthreads();

    for (int i = threadIdx.x; i < ROWS * COLS; i += WARPS * 32) {
        const int row = i / COLS, col = i % COLS;
        const int m = m0 + row, n = n0 + col;
        if (m >= M || n >= N)
            continue;
        float sum = 0.f;
        for (int w = 0; w < WARPS; w++)
            sum += part[w][row][col];
        if (bias)
            sum += __half2float(bias[n]);
        out[(size_t)m * N + n] = __float2half(sum);
    }
}

void w4_linear_forward(const half *x, const uint32_t *qweight, const uint32_t *qzeros, const half *scales,
                       const half *bias, half *out, int M, int N, int K, int group_size, cudaStream_t stream)
{
    dim3 grid((N + COLS - 1) / COLS, (M + ROWS - 1) / ROWS);
    w4_linear<<<grid, WARPS * 32, 0, stream>>>(x, qweight, qzeros, scales, bias, out, M, N, K, group_size);
}
