// W4A16 linear with FP4 (E2M1) weights and fp16 scales for every 16 values of K; y = x W^T + bias.
//
// Weights go from global memory into the B fragments without a detour: one 32-bit word holds eight values of a column
// that are neighbours along K, and the four lanes of a quad hold 32 values of K. Which value of K stands in which
// slot of the MMA does not matter as long as operand A has the same order, so that of A is permuted instead:
//
//   word:  v7 v6 v5 v4 v3 v2 v1 v0          step 0:  b0 = {v0, v4}, b1 = {v1, v5}
//                                           step 1:  b0 = {v2, v6}, b1 = {v3, v7}
//
// E2M1 -> half: sign to bit 15, exponent and mantissa to bits 11..9, times 2^14 for the difference of the biases
// (subnormals come out right, too).
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <cstdint>

#define GROUP_SIZE 16
#define WARPS 4
#define N_PER_WARP 16              // two MMAs wide
#define K_STEP 32
#define K_CHUNK 64                 // of x, in shared memory at a time
#define X_PITCH (K_CHUNK + 8)

__device__ __forceinline__ void mma_m16n8k16_f16(float *c, const uint32_t *a, const uint32_t *b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// the values i and i + 4 of the word, those of K that share a register
template <int I>
__device__ __forceinline__ uint32_t fp4x2_to_half2(uint32_t w, half2 scale) {
  w <<= 4 * (3 - I);  // now at the top of each half
  uint32_t bits = (w & 0x80008000u) | ((w & 0x70007000u) >> 3);
  half2 h = *reinterpret_cast<half2 *>(&bits);
  h = __hmul2(h, __float2half2_rn(16384.f));
  h = __hmul2(h, scale);
  return *reinterpret_cast<uint32_t *>(&h);
}

template <int M_TILES, bool HAS_BIAS>
__global__ void __launch_bounds__(WARPS * 32)
fp4_linear_kernel(const half *__restrict__ x,            // [M, K]
                  const uint32_t *__restrict__ qweight,  // [K / 8, N]
                  const half *__restrict__ scales,       // [K / GROUP_SIZE, N]
                  const half *__restrict__ bias,         // [N]
                  half *__restrict__ y,                  // [M, N]
                  int M, int N, int K) {
  __shared__ __align__(16) half xs[M_TILES * 16][X_PITCH];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int m_base = blockIdx.y * M_TILES * 16;
  const int n_base = (blockIdx.x * WARPS + warp) * N_PER_WARP;

  float acc[M_TILES][2][4];
#pragma unroll
  for (int i = 0; i < M_TILES; i++)
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) acc[i][j][e] = 0.f;

  for (int kc = 0; kc < K; kc += K_CHUNK) {
    __syncthreads();
    for (int i = threadIdx.x; i < M_TILES * 16 * (K_CHUNK / 8); i += blockDim.x) {
      const int r = i / (K_CHUNK / 8);
      const int c = i % (K_CHUNK / 8) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m_base + r < M && kc + c < K) v = *reinterpret_cast<const uint4 *>(x + (size_t)(m_base + r) * K + kc + c);
      *reinterpret_cast<uint4 *>(&xs[r][c]) = v;
    }
    __syncthreads();

    const int k_end = min(K_CHUNK, K - kc);
    for (int ks = 0; ks < k_end; ks += K_STEP) {
      const int k = kc + ks + t * 8;  // first of this lane's eight values

      uint32_t b[2][2][2];  // [columns of 8][step][register]
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int n = n_base + j * 8 + g;
        uint32_t w = 0;
        half s = __float2half(0.f);
        if (n < N && k < K) {
          w = qweight[(size_t)(k / 8) * N + n];
          s = scales[(size_t)(k / GROUP_SIZE) * N + n];
        }
        const half2 s2 = __half2half2(s);
        b[j][0][0] = fp4x2_to_half2<0>(w, s2);
        b[j][0][1] = fp4x2_to_half2<1>(w, s2);
        b[j][1][0] = fp4x2_to_half2<2>(w, s2);
        b[j][1][1] = fp4x2_to_half2<3>(w, s2);
      }

#pragma unroll
      for (int i = 0; i < M_TILES; i++) {
        const uint4 lo = *reinterpret_cast<const uint4 *>(&xs[i * 16 + g][ks + t * 8]);
        const uint4 hi = *reinterpret_cast<const uint4 *>(&xs[i * 16 + g + 8][ks + t * 8]);
        // {x0, x4}, {x1, x5} and {x2, x6}, {x3, x7}
        const uint32_t a0[4] = {__byte_perm(lo.x, lo.z, 0x5410), __byte_perm(hi.x, hi.z, 0x5410),
                                __byte_perm(lo.x, lo.z, 0x7632), __byte_perm(hi.x, hi.z, 0x7632)};
        const uint32_t a1[4] = {__byte_perm(lo.y, lo.w, 0x5410), __byte_perm(hi.y, hi.w, 0x5410),
                                __byte_perm(lo.y, lo.w, 0x7632), __byte_perm(hi.y, hi.w, 0x7632)};
#pragma unroll
        for (int j = 0; j < 2; j++) {
          mma_m16n8k16_f16(acc[i][j], a0, b[j][0]);
          mma_m16n8k16_f16(acc[i][j], a1, b[j][1]);
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < M_TILES; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const int n = n_base + j * 8 + t * 2;
      if (n >= N) continue;  // N is even
      float2 add = make_float2(0.f, 0.f);
      if (HAS_BIAS) add = __half22float2(*reinterpret_cast<const half2 *>(bias + n));
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int m = m_base + i * 16 + g + h * 8;
        if (m >= M) continue;
        *reinterpret_cast<half2 *>(y + (size_t)m * N + n) =
            __floats2half2_rn(acc[i][j][h * 2] + add.x, acc[i][j][h * 2 + 1] + add.y);
      }
    }
}

torch::Tensor fp4_linear(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales, torch::Tensor bias) {
  const int M = x.size(0), K = x.size(1), N = qweight.size(1);
  TORCH_CHECK(K % GROUP_SIZE == 0 && N % 2 == 0);
  auto y = torch::empty({M, N}, x.options());
  const dim3 grid((N + WARPS * N_PER_WARP - 1) / (WARPS * N_PER_WARP), (M + 31) / 32);
  fp4_linear_kernel<2, true><<<grid, WARPS * 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half *>(x.data_ptr<at::Half>()), reinterpret_cast<const uint32_t *>(qweight.data_ptr<int>()),
      reinterpret_cast<const half *>(scales.data_ptr<at::Half>()),
      reinterpret_cast<const half *>(bias.data_ptr<at::Half>()), reinterpret_cast<half *>(y.data_ptr<at::Half>()), M, N, K);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fp4_linear", &fp4_linear, "W4A16 linear, E2M1 weights"); }
