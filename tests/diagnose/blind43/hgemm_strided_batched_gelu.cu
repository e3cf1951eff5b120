// HGEMM, strided batched, with epilogue:  D[b] = gelu(alpha * A[b] @ B[b] + beta * C[b] + bias)
// A: [M, K], B: [K, N], C, D: [M, N] row-major, fp16, accumulation in fp32. N and K are multiples of 8.
// mma m16n8k16 + ldmatrix + cp.async, 3 stages, xor swizzle in place of padding.
// block tile 64x64x32, 4 warps (2x2), warp tile 32x32
// grid((N + BN - 1) / BN, (M + BM - 1) / BM, batch), block(128)
#include <cuda_fp16.h>

#define BM 64
#define BN 64
#define BK 32
#define STAGES 3
#define WARP_TILE_M 32
#define WARP_TILE_N 32

#define CP_ASYNC_CG(dst, src, bytes) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory")
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory")
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr) : "memory")
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr) : "memory")
#define HMMA16816F32(D0, D1, D2, D3, A0, A1, A2, A3, B0, B1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" : "+f"(D0), "+f"(D1), "+f"(D2), "+f"(D3) : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1))

// rows of A are 4 chunks of 16 bytes, two rows share the 32 banks
__device__ __forceinline__ int swizzle_a(int row, int chunk) {
  return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3);
}

// rows of B are 8 chunks
__device__ __forceinline__ int swizzle_b(int row, int chunk) {
  return row * BN + ((chunk ^ (row & 7)) << 3);
}

__device__ __forceinline__ float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

__device__ __forceinline__ float epilogue(float acc, float c, float bias, float alpha, float beta) {
  return gelu_tanh(alpha * acc + beta * c + bias);
}

__global__ void __launch_bounds__(128)
hgemm_strided_batched_gelu_kernel(const half* __restrict__ A, const half* __restrict__ B,
                                  const half* __restrict__ C, const half* __restrict__ bias,
                                  half* __restrict__ D, int M, int N, int K,
                                  long long stride_a, long long stride_b, long long stride_c,
                                  float alpha, float beta) {
  __shared__ __align__(128) half s_a[STAGES][BM * BK];
  __shared__ __align__(128) half s_b[STAGES][BK * BN];

  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int warp_m = (tid >> 5) >> 1;
  const int warp_n = (tid >> 5) & 1;
  const int m0 = blockIdx.y * BM;
  const int n0 = blockIdx.x * BN;
  const int num_k_tiles = (K + BK - 1) / BK;

  A += blockIdx.z * stride_a;
  B += blockIdx.z * stride_b;
  C += blockIdx.z * stride_c;
  D += blockIdx.z * stride_c;

  auto load_stage = [&](int stage, int k_tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (tid >> 2) + i * 32;
      const int chunk = tid & 3;
      const int gm = m0 + row;
      const int gk = k_tile * BK + chunk * 8;
      const bool ok = gm < M && gk < K;
      const half* src = ok ? A + (size_t)gm * K + gk : A;
      const unsigned dst = (unsigned)__cvta_generic_to_shared(&s_a[stage][swizzle_a(row, chunk)]);
      CP_ASYNC_CG(dst, src, ok ? 16 : 0);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (tid >> 3) + i * 16;
      const int chunk = tid & 7;
      const int gk = k_tile * BK + row;
      const int gn = n0 + chunk * 8;
      const bool ok = gk < K && gn < N;
      const half* src = ok ? B + (size_t)gk * N + gn : B;
      const unsigned dst = (unsigned)__cvta_generic_to_shared(&s_b[stage][swizzle_b(row, chunk)]);
      CP_ASYNC_CG(dst, src, ok ? 16 : 0);
    }
  };

  float acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.0f;

#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < num_k_tiles) load_stage(s, s);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int kt = 0; kt < num_k_tiles; ++kt) {
    CP_ASYNC_WAIT_GROUP(STAGES - 2);
    __syncthreads();

    const int next = kt + STAGES - 1;
    if (next < num_k_tiles) load_stage(next % STAGES, next);
    CP_ASYNC_COMMIT_GROUP();

    const half* tile_a = s_a[kt % STAGES];
    const half* tile_b = s_b[kt % STAGES];
#pragma unroll
    for (int kk = 0; kk < BK / 16; ++kk) {
      unsigned ra[2][4];
      unsigned rb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp_m * WARP_TILE_M + i * 16 + (lane & 15);
        const int chunk = kk * 2 + (lane >> 4);
        const unsigned addr = (unsigned)__cvta_generic_to_shared(&tile_a[swizzle_a(row, chunk)]);
        LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], addr);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = kk * 16 + (lane & 15);
        const int chunk = warp_n * (WARP_TILE_N / 8) + j * 2 + (lane >> 4);
        const unsigned addr = (unsigned)__cvta_generic_to_shared(&tile_b[swizzle_b(row, chunk)]);
        LDMATRIX_X4_T(rb[2 * j][0], rb[2 * j][1], rb[2 * j + 1][0], rb[2 * j + 1][1], addr);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          HMMA16816F32(acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3],
                       ra[i][0], ra[i][1], ra[i][2], ra[i][3], rb[j][0], rb[j][1]);
    }
  }
  CP_ASYNC_WAIT_GROUP(0);

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m0 + warp_m * WARP_TILE_M + i * 16 + h * 8 + (lane >> 2);
      if (row >= M) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int col = n0 + warp_n * WARP_TILE_N + j * 8 + (lane & 3) * 2;
        if (col >= N) continue;
        const size_t idx = (size_t)row * N + col;
        const float2 c2 = __half22float2(*reinterpret_cast<const half2*>(C + idx));
        const float2 b2 = __half22float2(*reinterpret_cast<const half2*>(bias + col));
        const float d0 = epilogue(acc[i][j][2 * h], c2.x, b2.x, alpha, beta);
        const float d1 = epilogue(acc[i][j][2 * h + 1], c2.y, b2.y, alpha, beta);
        *reinterpret_cast<half2*>(D + idx) = __floats2half2_rn(d0, d1);
      }
    }
}
