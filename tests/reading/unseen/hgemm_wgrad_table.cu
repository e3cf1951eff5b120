// Weight gradient of a linear layer:  dW[in, out] = X^T dY
//    X  [tokens, in]   half, row major  -> enters as A^T
//    dY [tokens, out]  half, row major
//    dW [in, out]      float
//
// A few tile configurations are kept in a table; pick one at run time by index
// (the autotuner of the training loop does that and remembers the winner).
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using half_t = __half;

template <int TM, int TN, int TK, int WARPS_M, int WARPS_N>
__global__ void wgrad_kernel(const half_t *X, const half_t *dY, float *dW, int tokens, int in, int out)
{
    using namespace nvcuda::wmma;
    constexpr int kWM = TM / WARPS_M, kWN = TN / WARPS_N;
    static_assert(kWM % 16 == 0 && kWN % 16 == 0 && TK % 16 == 0, "");
    constexpr int kFragsM = kWM / 16, kFragsN = kWN / 16;
    constexpr int kThreads = WARPS_M * WARPS_N * 32;

    // both tiles are [TK][tile], exactly as they lie in memory
    __shared__ __align__(32) half_t sx[TK][TM + 8];
    __shared__ __align__(32) half_t sy[TK][TN + 8];

    const int i0 = blockIdx.y * TM;
    const int o0 = blockIdx.x * TN;
    const int w = threadIdx.x / 32;
    const int wi = w / WARPS_N * kWM;
    const int wo = w % WARPS_N * kWN;

    fragment<accumulator, 16, 16, 16, float> acc[kFragsM][kFragsN];
    for (int i = 0; i < kFragsM; i++)
        for (int j = 0; j < kFragsN; j++)
            fill_fragment(acc[i][j], 0.0f);

    for (int t0 = 0; t0 < tokens; t0 += TK) {
        for (int e = threadIdx.x; e < TK * TM / 8; e += kThreads) {
            const int t = e / (TM / 8), c = e % (TM / 8) * 8;
            int4 v = {0, 0, 0, 0};
            if (t0 + t < tokens) v = *(const int4 *)&X[(size_t)(t0 + t) * in + i0 + c];
            *(int4 *)&sx[t][c] = v;
        }
        for (int e = threadIdx.x; e < TK * TN / 8; e += kThreads) {
            const int t = e / (TN / 8), c = e % (TN / 8) * 8;
            int4 v = {0, 0, 0, 0};
            if (t0 + t < tokens) v = *(const int4 *)&dY[(size_t)(t0 + t) * out + o0 + c];
            *(int4 *)&sy[t][c] = v;
        }
        __syncthreads();
        for (int kk = 0; kk < TK; kk += 16) {
            fragment<matrix_b, 16, 16, 16, half_t, row_major> fy[kFragsN];
            for (int j = 0; j < kFragsN; j++)
                load_matrix_sync(fy[j], &sy[kk][wo + j * 16], TN + 8);
            for (int i = 0; i < kFragsM; i++) {
                fragment<matrix_a, 16, 16, 16, half_t, col_major> fx;   // X^T
                load_matrix_sync(fx, &sx[kk][wi + i * 16], TM + 8);
                for (int j = 0; j < kFragsN; j++)
                    mma_sync(acc[i][j], fx, fy[j], acc[i][j]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < kFragsM; i++)
        for (int j = 0; j < kFragsN; j++)
            store_matrix_sync(dW + (size_t)(i0 + wi + i * 16) * out + o0 + wo + j * 16, acc[i][j], out, mem_row_major);
}

using kernel_fn = void (*)(const half_t *, const half_t *, float *, int, int, int);

struct Candidate {
    const char *name;
    kernel_fn fn;
    int tile_m, tile_n;
    int threads;
};

static const Candidate kCandidates[] = {
    {"64x64x32 (4 warps)", wgrad_kernel<64, 64, 32, 2, 2>, 64, 64, 128},
    {"128x64x32 (4 warps)", wgrad_kernel<128, 64, 32, 4, 1>, 128, 64, 128},
    {"128x128x32 (8 warps)", wgrad_kernel<128, 128, 32, 4, 2>, 128, 128, 256},
};

cudaError_t wgrad(int which, const half_t *X, const half_t *dY, float *dW, int tokens, int in, int out,
                  cudaStream_t stream)
{
    const Candidate &c = kCandidates[which];
    if (in % c.tile_m || out % c.tile_n)
        return cudaErrorInvalidValue;
    dim3 grid(out / c.tile_n, in / c.tile_m, 1);
    dim3 block(c.threads, 1, 1);
    void *args[] = {&X, &dY, &dW, &tokens, &in, &out};
    return cudaLaunchKernel((const void *)c.fn, grid, block, args, 0, stream);
}

int autotune(const half_t *X, const half_t *dY, float *dW, int tokens, int in, int out)
{
    int best = -1;
    float best_ms = 1e30f;
    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    for (int i = 0; i < (int)(sizeof(kCandidates) / sizeof(kCandidates[0])); i++) {
        if (wgrad(i, X, dY, dW, tokens, in, out, 0) != cudaSuccess) continue;
        cudaEventRecord(a);
        for (int r = 0; r < 10; r++) wgrad(i, X, dY, dW, tokens, in, out, 0);
        cudaEventRecord(b);
        cudaEventSynchronize(b);
        float ms;
        cudaEventElapsedTime(&ms, a, b);
        printf("%-24s %8.3f us\n", kCandidates[i].name, ms * 100.f);
        if (ms < best_ms) { best_ms = ms; best = i; }
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    return best;
}
