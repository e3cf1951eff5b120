// 4-bit weights, half activations, few rows (decoding).  GPTQ checkpoint layout:
//   qweight [k/8, n]  eight rows of k in one word, the first in the lowest bits
//   qzeros  [k/groupsize, n/8]  eight columns in one word, zero point less one
//   scales  [k/groupsize, n]
// One block: 16 rows x 128 columns, a warp 32 columns; weights go from global memory straight into fragments.
#include <cuda_fp16.h>
#include <cstdint>

#define WARPS 4
#define WARP_N 32
#define NT (WARP_N / 8)
#define BLOCK_K 64
#define A_LD (BLOCK_K + 8)

typedef union { uint32_t u; half2 h; } pack2;

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const half* p) {
  uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma_16816(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// nibbles 2*t and 2*t+1 of a word as two halves: 0x6400 | q is 1024 + q
__device__ __forceinline__ uint32_t dequant_pair(uint32_t word, int t, half2 zero, half2 scale) {
  uint32_t q = word >> (8 * t);
  pack2 v;
  v.u = (q & 0xf) | ((q & 0xf0) << 12) | 0x64006400u;
  v.h = __hmul2(__hsub2(v.h, zero), scale);
  return v.u;
}

__global__ void w4a16_small_m_kernel(const half* __restrict__ a, const uint32_t* __restrict__ qweight,
                                     const uint32_t* __restrict__ qzeros, const half* __restrict__ scales,
                                     half* __restrict__ out, int size_m, int size_n, int size_k, int groupsize) {
  __shared__ __align__(16) half a_sh[16 * A_LD];

  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int m0 = blockIdx.y * 16;
  const int n0 = blockIdx.x * WARPS * WARP_N + warp * WARP_N;

  float acc[NT][4] = {};
  half2 zero[NT], scale[NT];
  int group = -1;

  for (int k0 = 0; k0 < size_k; k0 += BLOCK_K) {
    __syncthreads();
    {
      const int row = threadIdx.x / 8, vec = threadIdx.x % 8 * 8;
      uint4 v = {0, 0, 0, 0};
      if (m0 + row < size_m && k0 + vec < size_k)
        v = *(const uint4*)(a + (size_t)(m0 + row) * size_k + k0 + vec);
      *(uint4*)(a_sh + row * A_LD + vec) = v;
    }
    __syncthreads();

    for (int kk = 0; kk < BLOCK_K && k0 + kk < size_k; kk += 16) {
      const int k = k0 + kk;
      if (k / groupsize != group) {
        group = k / groupsize;
        for (int j = 0; j < NT; ++j) {
          const int n = n0 + j * 8 + g;
          if (n >= size_n) continue;
          const uint32_t z = (qzeros[group * (size_n / 8) + n / 8] >> (n % 8 * 4)) & 0xf;
          zero[j] = __half2half2(__int2half_rn(1024 + z + 1));
          scale[j] = __half2half2(scales[group * size_n + n]);
        }
      }

      uint32_t fa[4];
      ldsm_x4(fa, a_sh + lane % 16 * A_LD + kk + lane / 16 * 8);

      for (int j = 0; j < NT; ++j) {
        const int n = n0 + j * 8 + g;
        uint32_t fb[2] = {0, 0};
        if (n < size_n) {
          const uint32_t* w = qweight + (size_t)(k / 8) * size_n + n;
          fb[0] = dequant_pair(w[0], t, zero[j], scale[j]);
          fb[1] = dequant_pair(w[size_n], t, zero[j], scale[j]);
        }
        mma_16816(acc[j], fa, fb);
      }
    }
  }

  for (int j = 0; j < NT; ++j) {
    const int n = n0 + j * 8 + t * 2;
    if (n >= size_n) continue;
    if (m0 + g < size_m)
      *(half2*)(out + (size_t)(m0 + g) * size_n + n) = __floats2half2_rn(acc[j][0], acc[j][1]);
    if (m0 + g + 8 < size_m)
      *(half2*)(out + (size_t)(m0 + g + 8) * size_n + n) = __floats2half2_rn(acc[j][2], acc[j][3]);
  }
}
