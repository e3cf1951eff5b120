// C = alpha * A * A^T + beta * C for a symmetric C (n x n, float, full storage), A: n x k, half, row-major.
// Only the lower triangle of 32x32 tiles is computed; a tile below the diagonal is stored twice.
#include <cuda_fp16.h>
#include <mma.h>

typedef unsigned int uint;

#define TS 32            // tile size
#define KS 32            // depth of a stage
#define PITCH 40         // halves per row of a panel
#define CPITCH 36        // floats per row of the staged tile

#define CP_ASYNC16(dst, src, bytes)                                                                     \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

static __device__ uint to_shared(const void *p) { return (uint)__cvta_generic_to_shared(p); }

// tile number -> (row, column) of the lower triangle, column <= row
static __device__ void unrank(int p, int &ti, int &tj)
{
    ti = (int)((sqrtf(8.0f * p + 1.0f) - 1.0f) * 0.5f);
    while ((ti + 1) * (ti + 2) / 2 <= p) ++ti;
    while (ti * (ti + 1) / 2 > p) --ti;
    tj = p - ti * (ti + 1) / 2;
}

// one panel of TS rows x KS columns: a copy of 16 bytes per thread
static __device__ void fetch_panel(half *panel, const half *A, int row0, int k0, int n, int k)
{
    int r = threadIdx.x >> 2;
    int c = (threadIdx.x & 3) << 3;
    bool ok = row0 + r < n && k0 + c < k;
    const half *src = ok ? A + (long)(row0 + r) * k + k0 + c : A;
    CP_ASYNC16(to_shared(panel + r * PITCH + c), src, ok ? 16 : 0);
}

extern "C" __global__ void syrk_lower(const half *A, float *C, float alpha, float beta, int n, int k)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(128) half left[2][TS * PITCH];
    __shared__ __align__(128) half right[2][TS * PITCH];
    __shared__ __align__(128) float tile[TS * CPITCH];

    int ti, tj;
    unrank(blockIdx.x, ti, tj);
    const bool diagonal = ti == tj;
    const int row0 = ti * TS, col0 = tj * TS;
    const int w = threadIdx.x >> 5;
    const int wm = (w & 1) * 16, wn = (w >> 1) * 16;

    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);

    const int steps = (k + KS - 1) / KS;
    fetch_panel(left[0], A, row0, 0, n, k);
    if (!diagonal) fetch_panel(right[0], A, col0, 0, n, k);
    CP_COMMIT();

    for (int s = 0; s < steps; ++s) {
        const int cur = s & 1;
        if (s + 1 < steps) {
            fetch_panel(left[cur ^ 1], A, row0, (s + 1) * KS, n, k);
            if (!diagonal) fetch_panel(right[cur ^ 1], A, col0, (s + 1) * KS, n, k);
            CP_COMMIT();
            CP_WAIT(1);
        } else {
            CP_WAIT(0);
        }
        __syncthreads();

        const half *lp = left[cur];
        const half *rp = diagonal ? left[cur] : right[cur];
        for (int kk = 0; kk < KS; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> fa;
            fragment<matrix_b, 16, 16, 16, half, col_major> fb;
            load_matrix_sync(fa, lp + wm * PITCH + kk, PITCH);
            load_matrix_sync(fb, rp + wn * PITCH + kk, PITCH);
            mma_sync(acc, fa, fb, acc);
        }
        __syncthreads();
    }

    store_matrix_sync(tile + wm * CPITCH + wn, acc, CPITCH, mem_row_major);
    __syncthreads();

    // the tile itself
    for (int i = threadIdx.x; i < TS * TS; i += blockDim.x) {
        int r = i >> 5, c = i & 31;
        if (row0 + r < n && col0 + c < n) {
            long at = (long)(row0 + r) * n + col0 + c;
            C[at] = alpha * tile[r * CPITCH + c] + beta * C[at];
        }
    }
    // and its mirror image above the diagonal
    if (!diagonal) {
        for (int i = threadIdx.x; i < TS * TS; i += blockDim.x) {
            int r = i >> 5, c = i & 31;
            if (col0 + r < n && row0 + c < n) {
                long at = (long)(col0 + r) * n + row0 + c;
                C[at] = alpha * tile[c * CPITCH + r] + beta * C[at];
            }
        }
    }
}

extern "C" void syrk(const half *A, float *C, float alpha, float beta, int n, int k, cudaStream_t stream)
{
    int t = (n + TS - 1) / TS;
    syrk_lower<<<t * (t + 1) / 2, 128, 0, stream>>>(A, C, alpha, beta, n, k);
}
