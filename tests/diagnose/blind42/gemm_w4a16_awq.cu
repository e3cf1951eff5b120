// W4A16 GEMM: half activations, 4 bit weights in the order of AWQ, a scale and a zero point per group of rows.
#include <cuda_fp16.h>

namespace engine {
namespace kernels {

constexpr int kCtaM = 32;
constexpr int kCtaN = 64;
constexpr int kCtaK = 32;
constexpr int kThreads = 128;  // warps: 2 along M, 2 along N
constexpr int kWarpN = 32;
constexpr int kPack = 8;       // weights of an int32
constexpr int kStrideA = kCtaK + 8;
constexpr int kStrideB = kCtaN + 8;

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const half* smem) {
  const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void ldsm_x4_trans(unsigned (&r)[4], const half* smem) {
  const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// even columns are in the low four nibbles, odd ones in the high four
__device__ __forceinline__ int unpack_awq(unsigned word, int column) {
  const int nibble = column / 2 + (column % 2) * 4;
  return (word >> (nibble * 4)) & 0xF;
}

// eight weights of one row of K
__device__ __forceinline__ void dequantize_row(half* out, unsigned qweight, unsigned qzero, const half* scale) {
  half w[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const int q = unpack_awq(qweight, i) - unpack_awq(qzero, i);
    w[i] = __hmul(__int2half_rn(q), scale[i]);
  }
#pragma unroll
  for (int i = 0; i < kPack; i += 2) {
    *reinterpret_cast<half2*>(out + i) = __halves2half2(w[i], w[i + 1]);
  }
}

// input [M, K], qweight [K, N / 8], scales [K / group_size, N], qzeros [K / group_size, N / 8], bias [N], output [M, N]
__global__ void __launch_bounds__(kThreads)
gemm_w4a16_awq_kernel(half* __restrict__ output, const half* __restrict__ input, const int* __restrict__ qweight,
                      const half* __restrict__ scales, const int* __restrict__ qzeros, const half* __restrict__ bias,
                      int m, int n, int k, int group_size) {
  __shared__ __align__(16) half smem_a[kCtaM * kStrideA];
  __shared__ __align__(16) half smem_b[kCtaK * kStrideB];

  const int cta_m = blockIdx.y * kCtaM;
  const int cta_n = blockIdx.x * kCtaN;
  const int warp_id = threadIdx.x / 32;
  const int lane_id = threadIdx.x % 32;
  const int warp_m = (warp_id & 1) * 16;
  const int warp_n = (warp_id >> 1) * kWarpN;
  const int packed_n = n / kPack;

  // a thread copies 8 activations, and dequantizes 8 weights of two rows
  const int a_row = threadIdx.x / (kCtaK / 8);
  const int a_col = threadIdx.x % (kCtaK / 8) * 8;
  const int b_row = threadIdx.x / (kCtaN / kPack);
  const int b_word = threadIdx.x % (kCtaN / kPack);
  const int g_word = cta_n / kPack + b_word;

  float accum[4][4] = {};
  uint4 a_reg;
  unsigned w_reg[2];

  auto fetch = [&](int k0) {
    a_reg = make_uint4(0, 0, 0, 0);
    if (cta_m + a_row < m) {
      a_reg = *reinterpret_cast<const uint4*>(input + (size_t)(cta_m + a_row) * k + k0 + a_col);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w_reg[i] = 0;
      if (g_word < packed_n) {
        w_reg[i] = static_cast<unsigned>(qweight[(size_t)(k0 + b_row + i * 16) * packed_n + g_word]);
      }
    }
  };

  fetch(0);
  for (int k0 = 0; k0 < k; k0 += kCtaK) {
    *reinterpret_cast<uint4*>(smem_a + a_row * kStrideA + a_col) = a_reg;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = b_row + i * 16;
      __align__(16) half scale[kPack];
      unsigned zero = 0;
#pragma unroll
      for (int j = 0; j < kPack; ++j) scale[j] = __float2half(0.0f);
      if (g_word < packed_n) {
        const int group = (k0 + row) / group_size;
        zero = static_cast<unsigned>(qzeros[group * packed_n + g_word]);
        *reinterpret_cast<uint4*>(scale) = *reinterpret_cast<const uint4*>(scales + (size_t)group * n + g_word * kPack);
      }
      dequantize_row(smem_b + row * kStrideB + b_word * kPack, w_reg[i], zero, scale);
    }
    __syncthreads();

    if (k0 + kCtaK < k) {
      fetch(k0 + kCtaK);
    }

#pragma unroll
    for (int kk = 0; kk < kCtaK; kk += 16) {
      unsigned a_frag[4];
      ldsm_x4(a_frag, smem_a + (warp_m + lane_id % 16) * kStrideA + kk + lane_id / 16 * 8);
#pragma unroll
      for (int nn = 0; nn < kWarpN; nn += 16) {
        unsigned b_frag[4];
        ldsm_x4_trans(b_frag, smem_b + (kk + lane_id % 16) * kStrideB + warp_n + nn + lane_id / 16 * 8);
        mma_m16n8k16(accum[nn / 8], a_frag, b_frag[0], b_frag[1]);
        mma_m16n8k16(accum[nn / 8 + 1], a_frag, b_frag[2], b_frag[3]);
      }
    }
    __syncthreads();
  }

  const int out_row = cta_m + warp_m + lane_id / 4;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int out_col = cta_n + warp_n + j * 8 + lane_id % 4 * 2;
    if (out_col >= n) continue;
    const float bias0 = __half2float(bias[out_col]);
    const float bias1 = __half2float(bias[out_col + 1]);
    if (out_row < m) {
      *reinterpret_cast<half2*>(output + (size_t)out_row * n + out_col) =
          __floats2half2_rn(accum[j][0] + bias0, accum[j][1] + bias1);
    }
    if (out_row + 8 < m) {
      *reinterpret_cast<half2*>(output + (size_t)(out_row + 8) * n + out_col) =
          __floats2half2_rn(accum[j][2] + bias0, accum[j][3] + bias1);
    }
  }
}

}  // namespace kernels
}  // namespace engine
