// csrc/quantization/awq/awq_gemm_w4a16.cu
//
// AWQ (4 bit weights, fp16 activations) GEMM for small batches.
//
// out[M, N] = in[M, K] * dequant(qweight)
//
//   qweight  [K, N / 8]            8 columns per word, nibble order of AutoAWQ (0 2 4 6 1 3 5 7)
//   qzeros   [K / group, N / 8]    same packing
//   scales   [K / group, N]        fp16
//
//   w = (q - z) * s
//
// N % 128 == 0, K % 32 == 0, group % 32 == 0. M is arbitrary.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace engine {
namespace awq {

constexpr int CTA_M = 16;
constexpr int CTA_N = 128;
constexpr int CTA_K = 32;
constexpr int THREADS = 128;
constexpr int A_STRIDE = CTA_K + 8;
constexpr int B_STRIDE = CTA_N + 8;

// 8 nibbles -> 8 halves (still biased by 1024), in column order:
// the packing puts columns (0, 1), (2, 3), .. 16 bits apart, so that one lop3 gives a half2
__device__ __forceinline__ void unpack_biased(uint32_t w, __half2 *h) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t r = ((w >> (4 * i)) & 0x000f000fu) | 0x64006400u;
    h[i] = *reinterpret_cast<__half2 *>(&r);
  }
}

__global__ void __launch_bounds__(THREADS)
gemm_w4a16_kernel(__half *__restrict__ out, const __half *__restrict__ in, const uint32_t *__restrict__ qweight,
                  const uint32_t *__restrict__ qzeros, const __half *__restrict__ scales, int M, int N, int K,
                  int group_size) {
  __shared__ __align__(16) __half A_shared[CTA_M * A_STRIDE];
  __shared__ __align__(16) __half B_shared[CTA_K * B_STRIDE];

  const int tid = threadIdx.x;
  const int warp = tid >> 5;
  const int lane = tid & 31;
  const int n_base = blockIdx.x * CTA_N;
  const int m_base = blockIdx.y * CTA_M;

  // A: 16 rows of 4 vectors, first two warps only
  const int a_row = tid >> 2;
  const int a_col = (tid & 3) * 8;
  const bool a_load = tid < CTA_M * CTA_K / 8;
  const bool a_valid = a_load && m_base + a_row < M;
  const __half *a_ptr = in + (size_t)(m_base + a_row) * K + a_col;

  // B: 16 words per row, a thread keeps its word column
  const int b_word = tid & 15;
  const int b_row = tid >> 4;
  const int words_per_row = N / 8;
  const uint32_t *b_ptr = qweight + n_base / 8 + b_word;

  float acc[4][4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[j][e] = 0.f;

  const int k_tiles = K / CTA_K;
  for (int k_tile = blockIdx.z; k_tile < k_tiles; k_tile += gridDim.z) {
    const int k0 = k_tile * CTA_K;
    __syncthreads();
    if (a_load) {
      uint4 v = make_uint4(0, 0, 0, 0);
      if (a_valid) v = *reinterpret_cast<const uint4 *>(a_ptr + k0);
      *reinterpret_cast<uint4 *>(A_shared + a_row * A_STRIDE + a_col) = v;
    }

    const int g = k0 / group_size;
    __half2 zero[4];
    unpack_biased(qzeros[(size_t)g * words_per_row + n_base / 8 + b_word], zero);
    const uint4 s_raw = *reinterpret_cast<const uint4 *>(scales + (size_t)g * N + n_base + b_word * 8);
    const __half2 *scale = reinterpret_cast<const __half2 *>(&s_raw);
#pragma unroll
    for (int r = 0; r < CTA_K; r += THREADS / 16) {
      __half2 q[4];
      unpack_biased(b_ptr[(size_t)(k0 + r + b_row) * words_per_row], q);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __half2 d = __hsub2(q[i], zero[i]);  // the 1024s cancel
        q[i] = __hmul2(d, scale[i]);
      }
      __half2 *dst = reinterpret_cast<__half2 *>(B_shared + (r + b_row) * B_STRIDE + b_word * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) dst[i] = q[i];
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < CTA_K; kk += 16) {
      uint32_t a[4], b[2][4];
      {
        uint32_t addr = (uint32_t)__cvta_generic_to_shared(A_shared + (lane & 15) * A_STRIDE + kk + (lane >> 4) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(addr));
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t addr = (uint32_t)__cvta_generic_to_shared(B_shared + (kk + (lane & 15)) * B_STRIDE + warp * 32 +
                                                           j * 16 + (lane >> 4) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j][2]), "=r"(b[j][3])
                     : "r"(addr));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};\n"
            : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
      }
    }
  }

  out += (size_t)blockIdx.z * M * N;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int col = n_base + warp * 32 + j * 8 + (lane & 3) * 2;
    const int row = m_base + (lane >> 2);
    if (row < M)
      *reinterpret_cast<__half2 *>(out + (size_t)row * N + col) = __floats2half2_rn(acc[j][0], acc[j][1]);
    if (row + 8 < M)
      *reinterpret_cast<__half2 *>(out + (size_t)(row + 8) * N + col) = __floats2half2_rn(acc[j][2], acc[j][3]);
  }
}

__global__ void sum_splits_kernel(__half *out, const __half *partial, int splits, size_t count) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float s = 0.f;
  for (int z = 0; z < splits; ++z) s += __half2float(partial[z * count + i]);
  out[i] = __float2half(s);
}

}  // namespace awq

// workspace: split_k * M * N halves, not used with split_k == 1
cudaError_t invokeAwqGemm(__half *out, const __half *in, const uint32_t *qweight, const uint32_t *qzeros,
                          const __half *scales, __half *workspace, int M, int N, int K, int group_size, int split_k,
                          cudaStream_t stream) {
  if (N % awq::CTA_N != 0 || K % awq::CTA_K != 0 || group_size % awq::CTA_K != 0) return cudaErrorInvalidValue;
  if (M == 0) return cudaSuccess;
  const dim3 grid(N / awq::CTA_N, (M + awq::CTA_M - 1) / awq::CTA_M, split_k);
  __half *dst = split_k > 1 ? workspace : out;
  awq::gemm_w4a16_kernel<<<grid, awq::THREADS, 0, stream>>>(dst, in, qweight, qzeros, scales, M, N, K, group_size);
  if (split_k > 1) {
    const size_t count = (size_t)M * N;
    awq::sum_splits_kernel<<<(unsigned)((count + 255) / 256), 256, 0, stream>>>(out, workspace, split_k, count);
  }
  return cudaGetLastError();
}

}  // namespace engine
