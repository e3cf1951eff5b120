// Forward convolution as an implicit GEMM on tensor cores (sm_80+).
//
//   input   NHWC, half            filter  KRSC, half
//   bias    [K], half             output  NPQK, half:  y = relu(conv(x, w) + bias)
//
//   GEMM:  M = N*P*Q output pixels, N = K filters, K = R*S*C
//
// C must be a multiple of 8 so that a 16 byte vector never straddles two filter taps. Zero padding, and whatever lies
// behind the borders of the GEMM, comes from cp.async with a source size of 0.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct ConvProblem {
    int n, h, w, c;      // input
    int k, r, s;         // filter
    int p, q;            // output
    int pad_h, pad_w;
    int stride_h, stride_w;
    int dil_h, dil_w;
};

static constexpr int TILE_M = 64;
static constexpr int TILE_N = 32;
static constexpr int TILE_K = 32;
static constexpr int STAGES = 3;
static constexpr int NUM_WARPS = 4;  // 4 x 1: 16 pixels x 32 filters each
static constexpr int NUM_THREADS = NUM_WARPS * 32;
static constexpr int LD = TILE_K + 8;
static constexpr int VECS = TILE_K / 8;                       // 16 byte vectors of a row of a tile
static constexpr int ROWS_PER_PASS = NUM_THREADS / VECS;      // 32
static constexpr int PIX_PER_THREAD = TILE_M / ROWS_PER_PASS; // 2

__device__ __forceinline__ unsigned to_shared(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes, or zeros
__device__ __forceinline__ void cp_async_zfill(void *smem, const void *gmem, bool valid)
{
    const int src_bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_shared(smem)), "l"(gmem), "r"(src_bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void cp_async_wait_for() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

__device__ __forceinline__ void ldsm4(unsigned (&f)[4], const half *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(to_shared(p)) : "memory");
}

__device__ __forceinline__ void mma16816(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(NUM_THREADS)
conv2d_fprop_igemm(const half *__restrict__ x, const half *__restrict__ w, const half *__restrict__ bias,
                   half *__restrict__ y, ConvProblem pr, int relu)
{
    __shared__ __align__(16) half sm_x[STAGES][TILE_M][LD];
    __shared__ __align__(16) half sm_w[STAGES][TILE_N][LD];

    const int t = threadIdx.x;
    const int lane = t & 31, warp = t >> 5;
    const int gemm_m = pr.n * pr.p * pr.q;
    const int gemm_k = pr.r * pr.s * pr.c;
    const int m_base = blockIdx.x * TILE_M;
    const int n_base = blockIdx.y * TILE_N;

    // Every thread fetches the same column of vectors for fixed pixels: split these pixels up once.
    const int ld_row = t / VECS;
    const int ld_col = (t % VECS) * 8;
    const half *img[PIX_PER_THREAD];
    int ih0[PIX_PER_THREAD], iw0[PIX_PER_THREAD];
#pragma unroll
    for (int i = 0; i < PIX_PER_THREAD; ++i) {
        const int m = m_base + ld_row + i * ROWS_PER_PASS;
        const int batch = m / (pr.p * pr.q);
        const int pq = m % (pr.p * pr.q);
        const int op = pq / pr.q;
        const int oq = pq % pr.q;
        img[i] = x + (size_t)batch * pr.h * pr.w * pr.c;
        ih0[i] = m < gemm_m ? op * pr.stride_h - pr.pad_h : -(1 << 20);  // never inside
        iw0[i] = oq * pr.stride_w - pr.pad_w;
    }

    auto load_stage = [&](int stage, int k_tile) {
        const int kk = k_tile * TILE_K + ld_col;
        const bool k_ok = kk < gemm_k;
        const int tap = kk / pr.c;
        const int ch = kk % pr.c;
        const int fr = tap / pr.s;
        const int fs = tap % pr.s;
#pragma unroll
        for (int i = 0; i < PIX_PER_THREAD; ++i) {
            const int ih = ih0[i] + fr * pr.dil_h;
            const int iw = iw0[i] + fs * pr.dil_w;
            const bool ok = k_ok && ih >= 0 && ih < pr.h && iw >= 0 && iw < pr.w;
            const half *src = ok ? img[i] + ((size_t)ih * pr.w + iw) * pr.c + ch : x;
            cp_async_zfill(&sm_x[stage][ld_row + i * ROWS_PER_PASS][ld_col], src, ok);
        }
        // the filter is K x (R*S*C) in memory already
        const int f = n_base + ld_row;
        const bool w_ok = k_ok && f < pr.k;
        cp_async_zfill(&sm_w[stage][ld_row][ld_col], w_ok ? w + (size_t)f * gemm_k + kk : w, w_ok);
    };

    const int num_k_tiles = (gemm_k + TILE_K - 1) / TILE_K;
#pragma unroll
    for (int st = 0; st < STAGES - 1; ++st) {
        if (st < num_k_tiles) load_stage(st, st);
        cp_async_commit();
    }

    float acc[TILE_N / 8][4];
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[j][e] = 0.0f;

    int rd = 0, wr = STAGES - 1;
    for (int kt = 0; kt < num_k_tiles; ++kt) {
        cp_async_wait_for<STAGES - 2>();
        __syncthreads();

        // the stage that was consumed in the last round
        if (kt + STAGES - 1 < num_k_tiles) load_stage(wr, kt + STAGES - 1);
        cp_async_commit();

#pragma unroll
        for (int ks = 0; ks < TILE_K; ks += 16) {
            unsigned a[4];
            ldsm4(a, &sm_x[rd][warp * 16 + (lane & 15)][ks + (lane >> 4) * 8]);
#pragma unroll
            for (int j = 0; j < TILE_N / 16; ++j) {
                unsigned b[4];
                ldsm4(b, &sm_w[rd][j * 16 + (lane & 7) + (lane >> 4) * 8][ks + ((lane >> 3) & 1) * 8]);
                mma16816(acc[2 * j], a, b[0], b[1]);
                mma16816(acc[2 * j + 1], a, b[2], b[3]);
            }
        }
        rd = rd + 1 == STAGES ? 0 : rd + 1;
        wr = wr + 1 == STAGES ? 0 : wr + 1;
    }

    // bias, relu, store: NPQK is the row major GEMM output
    const int g = lane >> 2, tg = lane & 3;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int m = m_base + warp * 16 + g + (e >> 1) * 8;
            const int n = n_base + j * 8 + tg * 2 + (e & 1);
            if (m < gemm_m && n < pr.k) {
                float v = acc[j][e] + __half2float(bias[n]);
                if (relu) v = v > 0.0f ? v : 0.0f;
                y[(size_t)m * pr.k + n] = __float2half_rn(v);
            }
        }
    }
}

int conv2d_forward(const half *x, const half *w, const half *bias, half *y, ConvProblem pr, bool relu, cudaStream_t s)
{
    if (pr.c % 8 != 0) return -1;
    pr.p = (pr.h + 2 * pr.pad_h - pr.dil_h * (pr.r - 1) - 1) / pr.stride_h + 1;
    pr.q = (pr.w + 2 * pr.pad_w - pr.dil_w * (pr.s - 1) - 1) / pr.stride_w + 1;
    const int gemm_m = pr.n * pr.p * pr.q;
    dim3 grid((gemm_m + TILE_M - 1) / TILE_M, (pr.k + TILE_N - 1) / TILE_N);
    conv2d_fprop_igemm<<<grid, NUM_THREADS, 0, s>>>(x, w, bias, y, pr, relu ? 1 : 0);
    return cudaGetLastError() == cudaSuccess ? 0 : -2;
}
