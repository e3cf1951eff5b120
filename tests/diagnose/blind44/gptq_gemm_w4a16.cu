// W4A16 GEMM of the decoder for small batches (GPTQ checkpoints, no act-order).
//
//   out[m, n] = sum_k a[m, k] * (q[k, n] - (z[k / group, n] + 1)) * scale[k / group, n] + bias[n]
//
// qweight: [K / 8, N] words of 8 values, the lowest bits have the first k
// qzeros:  [K / group, N / 8] words of 8 values, the lowest bits have the first n
//
// The weights go from global memory straight into mma fragments. The 4 warps of a block split each step of 64 along K
// and add up their sums at the end. N is a multiple of 8, K and group of 32.
#include <cuda_fp16.h>

namespace engine {
namespace kernels {

constexpr int kTileM = 16;
constexpr int kTileN = 32;
constexpr int kTileK = 64;
constexpr int kWarps = 4;
constexpr int kPad = 8;

__device__ __forceinline__ void cp_async_16B(void* smem_ptr, const void* glob_ptr, bool pred) {
  const unsigned smem = static_cast<unsigned>(__cvta_generic_to_shared(smem_ptr));
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem), "l"(glob_ptr), "r"(bytes));
}

__device__ __forceinline__ void ldmatrix_a(unsigned (&frag)[4], const half* smem_ptr) {
  const unsigned smem = static_cast<unsigned>(__cvta_generic_to_shared(smem_ptr));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(frag[0]), "=r"(frag[1]), "=r"(frag[2]), "=r"(frag[3]) : "r"(smem));
}

__device__ __forceinline__ void mma_16816(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two values of a word as halfs. 0x6400 is 1024, whose lowest bit counts 1: 0x6400 | q is 1024 + q, and the zero
// point has the same offset, so that it falls out of the difference.
__device__ __forceinline__ unsigned dequant_pair(unsigned word, int pair, half2 zero_1024, half2 scale) {
  const unsigned x = word >> (8 * pair);
  unsigned bits = (x & 0x0000000f) | ((x & 0x000000f0) << 12) | 0x64006400;
  half2 w = *reinterpret_cast<half2*>(&bits);
  w = __hmul2(__hsub2(w, zero_1024), scale);
  return *reinterpret_cast<unsigned*>(&w);
}

__global__ void __launch_bounds__(kWarps * 32)
gptq_gemm_w4a16_kernel(const half* __restrict__ a, const unsigned* __restrict__ qweight,
                       const unsigned* __restrict__ qzeros, const half* __restrict__ scales,
                       const half* __restrict__ bias, half* __restrict__ out, int M, int N, int K, int group_size) {
  __shared__ __align__(16) half sh_a[2][kTileM][kTileK + kPad];
  __shared__ __align__(16) float sh_red[kWarps][kTileM][kTileN + 4];

  const int tid = threadIdx.x;
  const int warp = tid / 32, lane = tid % 32;
  const int gid = lane / 4, tig = lane % 4;  // group of the lane, and its place there
  const int n0 = blockIdx.x * kTileN, m0 = blockIdx.y * kTileM;

  // 128 threads copy 16 rows of 8 chunks
  auto fetch_a = [&](int buf, int k0) {
    const int row = tid / 8, col = tid % 8 * 8;
    const bool pred = m0 + row < M && k0 + col < K;
    cp_async_16B(&sh_a[buf][row][col], pred ? a + (m0 + row) * K + k0 + col : a, pred);
    asm volatile("cp.async.commit_group;\n" ::);
  };

  float acc[kTileN / 8][4] = {};

  fetch_a(0, 0);
  const int steps = (K + kTileK - 1) / kTileK;
  for (int step = 0; step < steps; ++step) {
    const int k0 = step * kTileK;
    if (step + 1 < steps) {
      fetch_a((step + 1) & 1, k0 + kTileK);
      asm volatile("cp.async.wait_group %0;\n" ::"n"(1));
    } else {
      asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
    }
    __syncthreads();

    const int k = k0 + warp * 16;  // this warp's part
    if (k < K) {
      unsigned a_frag[4];
      ldmatrix_a(a_frag, &sh_a[step & 1][lane % 16][warp * 16 + lane / 16 * 8]);

      const int g = k / group_size;
#pragma unroll
      for (int nb = 0; nb < kTileN / 8; ++nb) {
        const int n = n0 + nb * 8 + gid;
        if (n0 + nb * 8 >= N) break;
        const unsigned* word = qweight + (k / 8) * N + n;
        const int zero = ((qzeros[g * (N / 8) + n / 8] >> (4 * (n % 8))) & 0xf) + 1;
        const half2 zero_1024 = __half2half2(__int2half_rn(1024 + zero));
        const half2 scale = __half2half2(scales[g * N + n]);
        unsigned b_frag[2];
        b_frag[0] = dequant_pair(word[0], tig, zero_1024, scale);
        b_frag[1] = dequant_pair(word[N], tig, zero_1024, scale);
        mma_16816(acc[nb], a_frag, b_frag);
      }
    }
    __syncthreads();
  }

  // sum of the warps
#pragma unroll
  for (int nb = 0; nb < kTileN / 8; ++nb) {
    float* red = &sh_red[warp][gid][nb * 8 + tig * 2];
    red[0] = acc[nb][0];
    red[1] = acc[nb][1];
    red[8 * (kTileN + 4)] = acc[nb][2];
    red[8 * (kTileN + 4) + 1] = acc[nb][3];
  }
  __syncthreads();

  for (int i = tid; i < kTileM * kTileN / 2; i += kWarps * 32) {
    const int row = i / (kTileN / 2), col = i % (kTileN / 2) * 2;
    const int m = m0 + row, n = n0 + col;
    if (m >= M || n >= N) continue;
    float2 v = __half22float2(*reinterpret_cast<const half2*>(bias + n));
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      v.x += sh_red[w][row][col];
      v.y += sh_red[w][row][col + 1];
    }
    *reinterpret_cast<half2*>(out + m * N + n) = __floats2half2_rn(v.x, v.y);
  }
}

}  // namespace kernels
}  // namespace engine
