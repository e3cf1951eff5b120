// bf16 GEMM, B transposed (nn.Linear weights): producers and consumers split by warp, cuda::barrier hand-over.
#pragma nv_diag_suppress static_var_with_dynamic_init
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <mma.h>
#include <cublas_v2.h>
#include <curand.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace cg = cooperative_groups;
namespace wm = nvcuda::wmma;
using barrier_t = cuda::barrier<cuda::thread_scope_block>;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

static constexpr int TM = 64, TN = 64, TK = 32, LD = TK + 16;
static constexpr int CONSUMERS = 4, PRODUCERS = 2;
static constexpr int THREADS = (CONSUMERS + PRODUCERS) * 32;

__device__ void produce(barrier_t ready[], barrier_t filled[], __nv_bfloat16 *tile,
                        const __nv_bfloat16 *__restrict__ x, const __nv_bfloat16 *__restrict__ w,
                        int m, int n, int k, int row0, int col0)
{
    const int t = threadIdx.x - CONSUMERS * 32;
    for (int it = 0; it < k / TK; ++it) {
        const int s = it & 1;
        ready[s].arrive_and_wait();   // the buffer is free
        __nv_bfloat16 *dst = tile + s * (TM + TN) * LD;
        for (int i = t; i < (TM + TN) * (TK / 8); i += PRODUCERS * 32) {
            const int r = i / (TK / 8), c = i % (TK / 8) * 8;
            uint4 v = make_uint4(0u, 0u, 0u, 0u);
            if (r < TM) {
                if (row0 + r < m) v = *reinterpret_cast<const uint4 *>(x + (size_t)(row0 + r) * k + it * TK + c);
            } else {
                if (col0 + r - TM < n) v = *reinterpret_cast<const uint4 *>(w + (size_t)(col0 + r - TM) * k + it * TK + c);
            }
            *reinterpret_cast<uint4 *>(dst + r * LD + c) = v;
        }
        barrier_t::arrival_token token = filled[s].arrive();
        (void)token;
    }
}

__device__ void consume(barrier_t ready[], barrier_t filled[], const __nv_bfloat16 *tile, float *stage,
                        __nv_bfloat16 *__restrict__ y, int m, int n, int k, int row0, int col0)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wm::fragment<wm::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; ++j) wm::fill_fragment(acc[j], 0.f);

    (void)ready[0].arrive();
    (void)ready[1].arrive();
    for (int it = 0; it < k / TK; ++it) {
        const int s = it & 1;
        filled[s].arrive_and_wait();
        const __nv_bfloat16 *sx = tile + s * (TM + TN) * LD;
        const __nv_bfloat16 *sw = sx + TM * LD;
        for (int kk = 0; kk < TK; kk += 16) {
            wm::fragment<wm::matrix_a, 16, 16, 16, __nv_bfloat16, wm::row_major> a;
            wm::load_matrix_sync(a, sx + warp * 16 * LD + kk, LD);
            for (int j = 0; j < 4; ++j) {
                wm::fragment<wm::matrix_b, 16, 16, 16, __nv_bfloat16, wm::col_major> b;
                wm::load_matrix_sync(b, sw + j * 16 * LD + kk, LD);
                wm::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        if (it + 2 < k / TK) (void)ready[s].arrive();   // hand the buffer back
    }

    float *mine = stage + warp * 16 * 20;
    for (int j = 0; j < 4; ++j) {
        wm::store_matrix_sync(mine, acc[j], 20, wm::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int r = row0 + warp * 16 + e / 16, c = col0 + j * 16 + e % 16;
            if (r < m && c < n) y[(size_t)r * n + c] = __float2bfloat16(mine[e / 16 * 20 + e % 16]);
        }
        __syncwarp();
    }
}

__global__ void __launch_bounds__(THREADS) linear_bf16(const __nv_bfloat16 *x, const __nv_bfloat16 *w,
                                                       __nv_bfloat16 *y, int m, int n, int k)
{
    __shared__ __align__(128) __nv_bfloat16 tile[2 * (TM + TN) * LD];
    __shared__ __align__(128) float stage[CONSUMERS * 16 * 20];
    __shared__ barrier_t bars[4];
    auto block = cg::this_thread_block();
    if (block.thread_rank() < 4) init(bars + block.thread_rank(), block.size());
    block.sync();

    const int row0 = blockIdx.y * TM, col0 = blockIdx.x * TN;
    if (threadIdx.x >= CONSUMERS * 32)
        produce(bars, bars + 2, tile, x, w, m, n, k, row0, col0);
    else
        consume(bars, bars + 2, tile, stage, y, m, n, k, row0, col0);
}

int main(int argc, char **argv)
{
    int m = 1000, n = 768, k = 512;
    bool verify = false;
    for (int i = 1; i < argc; ++i) {
        if (!strcmp(argv[i], "-m") && i + 1 < argc) m = std::atoi(argv[++i]);
        else if (!strcmp(argv[i], "-n") && i + 1 < argc) n = std::atoi(argv[++i]);
        else if (!strcmp(argv[i], "-k") && i + 1 < argc) k = std::atoi(argv[++i]);
        else if (std::string(argv[i]) == "--verify") verify = true;
        else { printf("usage: %s [-m M] [-n N] [-k K] [--verify]\n", argv[0]); return 1; }
    }
    if (k % TK) { printf("k must be a multiple of %d\n", TK); return 1; }
    __nv_bfloat16 *x, *w, *y;
    gpuErrchk(cudaMallocManaged(&x, sizeof(__nv_bfloat16) * m * k));
    gpuErrchk(cudaMallocManaged(&w, sizeof(__nv_bfloat16) * n * k));
    gpuErrchk(cudaMallocManaged(&y, sizeof(__nv_bfloat16) * m * n));
    for (int i = 0; i < m * k; ++i) x[i] = __float2bfloat16(drand48() - 0.5);
    for (int i = 0; i < n * k; ++i) w[i] = __float2bfloat16(drand48() - 0.5);
    dim3 grid((n + TN - 1) / TN, (m + TM - 1) / TM);
    linear_bf16<<<grid, THREADS>>>(x, w, y, m, n, k);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaDeviceSynchronize());
    if (verify) {
        cublasHandle_t handle;
        cublasCreate(&handle);
        __nv_bfloat16 *ref;
        gpuErrchk(cudaMallocManaged(&ref, sizeof(__nv_bfloat16) * m * n));
        const float one = 1.f, zero = 0.f;
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, w, CUDA_R_16BF, k, x, CUDA_R_16BF, k, &zero, ref,
                     CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
        cudaDeviceSynchronize();
        double worst = 0;
        for (int i = 0; i < m * n; ++i) worst = fmax(worst, fabs(__bfloat162float(y[i]) - __bfloat162float(ref[i])));
        printf("max diff %g\n", worst);
        cublasDestroy(handle);
    }
    return 0;
}
