// W4A16 GEMM for small batches (decode), weights as GPTQ stores them:
//   qweight  [K / 8, N]            8 values of 4 bits along K in a 32-bit word, the first in the low bits
//   qzeros   [K / group, N / 8]    8 zero points of 4 bits along N in a word, stored less one
//   scales   [K / group, N]        half
//   C[m, n] = sum_k A[m, k] * (q[k, n] - (z[g, n] + 1)) * s[g, n] + bias[n],  g = k / group
//
// A block computes 16 x 32 of C. Its four warps share out the 64 values of K of each step,
// 16 each (one mma.m16n8k16 deep), and add their sums up in shared memory at the end.
// Needs K % 16 == 0, group % 16 == 0, N % 8 == 0.
#include <cuda_fp16.h>

namespace engine {

constexpr int kBlockM = 16;
constexpr int kBlockN = 32;
constexpr int kBlockK = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kTilesN = kBlockN / 8;
constexpr int kPitchA = kBlockK + 8;

__device__ __forceinline__ void cp_async_16(half* smem, const half* gmem, bool pred) {
  const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  const int bytes = pred ? 16 : 0;   // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(gmem), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const half* smem) {
  const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}

__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Values 2 * quad and 2 * quad + 1 of a word, as halfs. 0x6400 is 1024, whose last four bits count ones.
__device__ __forceinline__ unsigned dequant_pair(unsigned word, int quad, half2 zero, half2 scale) {
  const unsigned x = (word >> (quad * 8)) & 0xffu;
  unsigned bits = (x & 0x0fu) | ((x & 0xf0u) << 12) | 0x64006400u;
  half2 w = __hmul2(__hsub2(*reinterpret_cast<half2*>(&bits), zero), scale);
  return *reinterpret_cast<unsigned*>(&w);
}

__global__ void __launch_bounds__(kThreads)
w4a16_gemm_kernel(const half* __restrict__ A, const unsigned* __restrict__ qweight,
                  const unsigned* __restrict__ qzeros, const half* __restrict__ scales,
                  const half* __restrict__ bias, half* __restrict__ C,
                  int M, int N, int K, int group_size) {
  __shared__ __align__(16) half smem_a[2][kBlockM * kPitchA];
  __shared__ float red[kWarps][kBlockM][kBlockN + 1];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int lane = tid % 32;
  const int gid = lane / 4;     // row of A and C, column of B
  const int quad = lane % 4;
  const int m0 = blockIdx.y * kBlockM;
  const int n0 = blockIdx.x * kBlockN;

  auto load_a = [&](int stage, int kt) {
    const int row = tid / (kBlockK / 8);
    const int col = tid % (kBlockK / 8) * 8;
    const int k = kt * kBlockK + col;
    const bool pred = m0 + row < M && k < K;
    const half* src = pred ? A + static_cast<size_t>(m0 + row) * K + k : A;
    cp_async_16(&smem_a[stage][row * kPitchA + col], src, pred);
  };

  float acc[kTilesN][4] = {};

  const int k_tiles = (K + kBlockK - 1) / kBlockK;
  load_a(0, 0);
  cp_async_commit();

  for (int kt = 0; kt < k_tiles; ++kt) {
    if (kt + 1 < k_tiles) load_a((kt + 1) % 2, kt + 1);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();

    const int k = kt * kBlockK + warp * 16;   // this warp's 16 values
    if (k < K) {
      unsigned a[4];
      ldmatrix_x4(a, &smem_a[kt % 2][(lane % 16) * kPitchA + warp * 16 + (lane / 16) * 8]);
      const int g = k / group_size;
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        const int n = n0 + j * 8 + gid;
        if (n < N) {
          const unsigned w0 = qweight[static_cast<size_t>(k / 8) * N + n];
          const unsigned w1 = qweight[static_cast<size_t>(k / 8 + 1) * N + n];
          const unsigned z = ((qzeros[static_cast<size_t>(g) * (N / 8) + n / 8] >> (n % 8 * 4)) & 0xfu) + 1u;
          const half2 zero = __half2half2(__ushort_as_half(static_cast<unsigned short>(0x6400u | z)));
          const half2 scale = __half2half2(scales[static_cast<size_t>(g) * N + n]);
          const unsigned b0 = dequant_pair(w0, quad, zero, scale);
          const unsigned b1 = dequant_pair(w1, quad, zero, scale);
          mma_m16n8k16(acc[j], a, b0, b1);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < kTilesN; ++j) {
    const int col = j * 8 + quad * 2;
    red[warp][gid][col] = acc[j][0];
    red[warp][gid][col + 1] = acc[j][1];
    red[warp][gid + 8][col] = acc[j][2];
    red[warp][gid + 8][col + 1] = acc[j][3];
  }
  __syncthreads();

  for (int i = tid; i < kBlockM * kBlockN; i += kThreads) {
    const int row = i / kBlockN;
    const int col = i % kBlockN;
    if (m0 + row < M && n0 + col < N) {
      float sum = __half2float(bias[n0 + col]);
      for (int w = 0; w < kWarps; ++w) sum += red[w][row][col];
      C[static_cast<size_t>(m0 + row) * N + n0 + col] = __float2half(sum);
    }
  }
}

}  // namespace engine
