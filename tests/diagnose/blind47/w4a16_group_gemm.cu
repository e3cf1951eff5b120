// Weight-only 4-bit GEMM with group-wise scales and zero points (GPTQ checkpoints), half activations.
//
//   out[m, n] = sum_k in[m, k] * (q[k, n] - zero[k / group_size, n]) * scale[k / group_size, n] + bias[n]
//
//   qweight [k / 8, n]               eight values of k in a word, the first in the lowest bits
//   scales  [k / group_size, n]
//   qzeros  [k / group_size, n / 8]  eight columns in a word; what is stored is the zero point less 1
//
// k is a multiple of group_size, group_size of 8, n of 8.
#include <cuda_fp16.h>

namespace engine {
namespace kernels {

constexpr int kTileM   = 32;
constexpr int kTileN   = 64;
constexpr int kTileK   = 64;
constexpr int kThreads = 128;
constexpr int kPitch   = kTileK + 8;                             // halfs in a row of either tile
constexpr int kWords   = kTileK / 8 * kTileN / kThreads;         // words of weights per thread

struct WeightRegs {
    unsigned word[kWords];
    half     scale[kWords];
    int      zero[kWords];
};

__device__ __forceinline__ unsigned smem_addr(const void* ptr)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(ptr));
}

__device__ __forceinline__ void cp_async_zfill(unsigned dst, const void* src, int src_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_bytes) : "memory");
}

__device__ __forceinline__ void cp_async_wait_all()
{
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const half* ptr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(ptr)) : "memory");
}

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// (q & mask) | magic, magic being 1024 in both halves
__device__ __forceinline__ unsigned lop3_magic(unsigned q)
{
    unsigned res;
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(res) : "r"(q), "n"(0x000f000f), "n"(0x64006400), "n"(0xea));
    return res;
}

// eight values of a word become halfs 1024 + q by bits alone; those that come out together are four apart
__device__ __forceinline__ void dequantize(half* dst, unsigned word, half scale, int zero)
{
    const half2 zero2  = __half2half2(__int2half_rn(1024 + zero));
    const half2 scale2 = __half2half2(scale);
    __align__(16) half w[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const unsigned bits = lop3_magic(word >> (4 * j));
        const half2    q2   = *reinterpret_cast<const half2*>(&bits);
        const half2    v    = __hmul2(__hsub2(q2, zero2), scale2);
        w[j]     = __low2half(v);
        w[j + 4] = __high2half(v);
    }
    *reinterpret_cast<uint4*>(dst) = *reinterpret_cast<const uint4*>(w);
}

__device__ __forceinline__ void fetch_weights(WeightRegs& regs, const unsigned* qweight, const half* scales,
                                              const unsigned* qzeros, int k0, int n0, int n, int k, int group_size)
{
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        const int idx = threadIdx.x + i * kThreads;
        const int row = k0 / 8 + idx / kTileN;
        const int col = n0 + idx % kTileN;
        regs.word[i]  = 0;
        regs.scale[i] = __float2half(0.f);
        regs.zero[i]  = 0;
        if (row < k / 8 && col < n) {
            const int g   = row * 8 / group_size;
            regs.word[i]  = qweight[row * n + col];
            regs.scale[i] = scales[g * n + col];
            regs.zero[i]  = ((qzeros[g * (n / 8) + col / 8] >> (col % 8 * 4)) & 0xf) + 1;
        }
    }
}

__device__ __forceinline__ void fetch_activations(half* tile, const half* in, int m0, int k0, int m, int k)
{
    for (int i = threadIdx.x; i < kTileM * kTileK / 8; i += kThreads) {
        const int  row   = i / (kTileK / 8);
        const int  col   = i % (kTileK / 8) * 8;
        const bool valid = m0 + row < m && k0 + col < k;
        const half* src  = valid ? in + static_cast<size_t>(m0 + row) * k + k0 + col : in;
        cp_async_zfill(smem_addr(tile + row * kPitch + col), src, valid ? 16 : 0);
    }
}

__global__ void __launch_bounds__(kThreads)
w4a16_group_gemm_kernel(half* __restrict__ out, const half* __restrict__ in, const unsigned* __restrict__ qweight,
                        const half* __restrict__ scales, const unsigned* __restrict__ qzeros,
                        const half* __restrict__ bias, int m, int n, int k, int group_size)
{
    __shared__ __align__(16) half s_a[2][kTileM * kPitch];
    __shared__ __align__(16) half s_w[kTileN * kPitch];          // row n, column k

    const int warp_m = threadIdx.x / 32 % 2;
    const int warp_n = threadIdx.x / 64;
    const int lane   = threadIdx.x % 32;
    const int m0     = blockIdx.y * kTileM;
    const int n0     = blockIdx.x * kTileN;

    float      acc[4][4] = {};
    WeightRegs regs;
    int        stage = 0;

    fetch_activations(s_a[0], in, m0, 0, m, k);
    fetch_weights(regs, qweight, scales, qzeros, 0, n0, n, k, group_size);

    for (int k0 = 0; k0 < k; k0 += kTileK) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const int idx = threadIdx.x + i * kThreads;
            dequantize(s_w + idx % kTileN * kPitch + idx / kTileN * 8, regs.word[i], regs.scale[i], regs.zero[i]);
        }
        cp_async_wait_all();
        __syncthreads();

        if (k0 + kTileK < k) {
            fetch_activations(s_a[stage ^ 1], in, m0, k0 + kTileK, m, k);
            fetch_weights(regs, qweight, scales, qzeros, k0 + kTileK, n0, n, k, group_size);
        }

#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 16) {
            unsigned a[4];
            ldsm_x4(a, s_a[stage] + (warp_m * 16 + lane % 16) * kPitch + kk + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                unsigned  b[4];
                const int row = warp_n * 32 + j * 16 + lane / 16 * 8 + lane % 8;
                ldsm_x4(b, s_w + row * kPitch + kk + lane / 8 % 2 * 8);
                mma_m16n8k16(acc[2 * j], a, b[0], b[1]);
                mma_m16n8k16(acc[2 * j + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();
        stage ^= 1;
    }

#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int col = n0 + warp_n * 32 + j * 8 + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = m0 + warp_m * 16 + r * 8 + lane / 4;
            if (row < m && col < n) {
                const float v0 = acc[j][2 * r] + __half2float(bias[col]);
                const float v1 = acc[j][2 * r + 1] + __half2float(bias[col + 1]);
                *reinterpret_cast<half2*>(out + static_cast<size_t>(row) * n + col) = __floats2half2_rn(v0, v1);
            }
        }
    }
}

}  // namespace kernels
}  // namespace engine
