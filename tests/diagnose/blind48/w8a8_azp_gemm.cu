// INT8 GEMM of the engine's quantised linear layers.
//   out[m, n] = input_scale[m] * weight_scale[n] * (sum_k input[m, k] * weight[n, k] - input_zp[m] * weight_sum[n]) + bias[n]
// input: [m, k] int8, quantised per token, asymmetric; weight: [n, k] int8, quantised per channel, symmetric;
// weight_sum is summed over k once, when the model is loaded. k must be a multiple of 16, n of 2.
#include <cuda_fp16.h>

namespace engine {
namespace {

constexpr int kTileM   = 64;
constexpr int kTileN   = 64;
constexpr int kTileK   = 64;            // bytes
constexpr int kPitch   = kTileK + 16;   // of a row in shared memory
constexpr int kStages  = 3;
constexpr int kThreads = 128;           // 2 x 2 warps of 32 x 32

__device__ __forceinline__ unsigned smem_u32(const void* ptr)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(ptr));
}

__device__ __forceinline__ void cp_async_16B_zfill(unsigned dst, const void* src, int src_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_bytes));
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::);
}

template <int kPending>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], unsigned addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}

__device__ __forceinline__ void imma_16832(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 64 rows of kTileK bytes; what lies outside of the matrix is zero
__device__ __forceinline__ void fetch_tile(signed char* tile, const signed char* src, int rows, int k0, int k)
{
#pragma unroll
    for (int i = 0; i < 64 * (kTileK / 16) / kThreads; ++i) {
        const int  chunk = i * kThreads + threadIdx.x;
        const int  row   = chunk / (kTileK / 16);
        const int  col   = chunk % (kTileK / 16) * 16;
        const bool valid = row < rows && k0 + col < k;
        cp_async_16B_zfill(smem_u32(tile + row * kPitch + col), src + static_cast<size_t>(row) * k + k0 + col, valid ? 16 : 0);
    }
}

}    // namespace

__global__ void __launch_bounds__(kThreads) w8a8_azp_gemm_kernel(half* __restrict__ out,
                                                                 const signed char* __restrict__ input,
                                                                 const signed char* __restrict__ weight,
                                                                 const float* __restrict__ input_scale,
                                                                 const float* __restrict__ weight_scale,
                                                                 const int* __restrict__ input_zp,
                                                                 const int* __restrict__ weight_sum,
                                                                 const half* __restrict__ bias,
                                                                 int m,
                                                                 int n,
                                                                 int k)
{
    __shared__ __align__(128) signed char s_in[kStages][kTileM * kPitch];
    __shared__ __align__(128) signed char s_wt[kStages][kTileN * kPitch];

    const int lane   = threadIdx.x % 32;
    const int warp_m = threadIdx.x / 32 / 2;
    const int warp_n = threadIdx.x / 32 % 2;
    const int m0     = blockIdx.y * kTileM;
    const int n0     = blockIdx.x * kTileN;

    const signed char* in_ptr = input + static_cast<size_t>(m0) * k;
    const signed char* wt_ptr = weight + static_cast<size_t>(n0) * k;
    const int          tiles  = (k + kTileK - 1) / kTileK;

#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < tiles) {
            fetch_tile(s_in[s], in_ptr, m - m0, s * kTileK, k);
            fetch_tile(s_wt[s], wt_ptr, n - n0, s * kTileK, k);
        }
        cp_async_commit();
    }

    int acc[2][4][4] = {};

    for (int t = 0; t < tiles; ++t) {
        cp_async_wait<kStages - 2>();
        __syncthreads();

        // into the stage that was multiplied last
        const int next = t + kStages - 1;
        if (next < tiles) {
            const int slot = next % kStages;
            fetch_tile(s_in[slot], in_ptr, m - m0, next * kTileK, k);
            fetch_tile(s_wt[slot], wt_ptr, n - n0, next * kTileK, k);
        }
        cp_async_commit();    // an empty group at the end, so that the wait above counts right

        const int stage = t % kStages;
#pragma unroll
        for (int kk = 0; kk < kTileK / 32; ++kk) {
            unsigned a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_m * 32 + i * 16 + lane % 16;
                ldsm_x4(a[i], smem_u32(s_in[stage] + row * kPitch + kk * 32 + lane / 16 * 16));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = warp_n * 32 + j * 16 + lane / 16 * 8 + lane % 8;
                ldsm_x4(b[j], smem_u32(s_wt[stage] + row * kPitch + kk * 32 + lane / 8 % 2 * 16));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    imma_16832(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = m0 + warp_m * 32 + i * 16 + r * 8 + lane / 4;
            if (row >= m) {
                continue;
            }
            const float token_scale = input_scale[row];
            const int   token_zp    = input_zp[row];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int col = n0 + warp_n * 32 + j * 8 + lane % 4 * 2;
                if (col >= n) {
                    continue;
                }
                float v[2];
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int   sum   = acc[i][j][2 * r + e] - token_zp * weight_sum[col + e];
                    const float scale = token_scale * weight_scale[col + e];
                    v[e]              = static_cast<float>(sum) * scale + __half2float(bias[col + e]);
                }
                *reinterpret_cast<half2*>(out + static_cast<size_t>(row) * n + col) = __floats2half2_rn(v[0], v[1]);
            }
        }
    }
}

}    // namespace engine
