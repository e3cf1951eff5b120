// fp16 GEMM in PTX: ldmatrix + mma.m16n8k16, two stages of cp.async. C = A * B, A row major, B row major (ldmatrix.trans).
// 128 x 64 x 32 tiles, four warps of 64 x 32. M % 128 == 0, N % 64 == 0, K % 32 == 0.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace {

template <int Bytes>
__device__ __forceinline__ void cp_async(void* smem, const void* gmem) {
  uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(s), "l"(gmem), "n"(Bytes));
}
__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const half* p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t& r0, uint32_t& r1, uint32_t& r2, uint32_t& r3, const half* p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(a));
}
__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

constexpr int TM = 128, TN = 64, TK = 32;
constexpr int LDSA = TK + 8, LDSB = TN + 8;

struct SharedStorage {
  half a[2][TM * LDSA];
  half b[2][TK * LDSB];
};

__device__ __forceinline__ void load_stage(SharedStorage& s, int stage, const half* A, const half* B, int M, int N,
                                           int K, int k0) {
  // A: 128 rows of 4 pieces; B: 32 rows of 8 pieces; a piece is 16 bytes
#pragma unroll
  for (int i = 0; i < TM * TK / 8 / 128; ++i) {
    int p = threadIdx.x + i * 128;
    int r = p >> 2, c = (p & 3) << 3;
    cp_async<16>(&s.a[stage][r * LDSA + c], A + size_t(blockIdx.y * TM + r) * K + k0 + c);
  }
#pragma unroll
  for (int i = 0; i < TK * TN / 8 / 128; ++i) {
    int p = threadIdx.x + i * 128;
    int r = p >> 3, c = (p & 7) << 3;
    cp_async<16>(&s.b[stage][r * LDSB + c], B + size_t(k0 + r) * N + blockIdx.x * TN + c);
  }
}

__global__ void __launch_bounds__(128) gemm_mma_kernel(const half* __restrict__ A, const half* __restrict__ B,
                                                       half* __restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(16) unsigned char raw[];
  SharedStorage& s = *reinterpret_cast<SharedStorage*>(raw);

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int wm = (warp & 1) * 64, wn = (warp >> 1) * 32;

  float acc[4][4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;

  const int tiles = K / TK;
  load_stage(s, 0, A, B, M, N, K, 0);
  cp_async_fence();

  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) load_stage(s, (t + 1) & 1, A, B, M, N, K, (t + 1) * TK);
    cp_async_fence();
    cp_async_wait<1>();
    __syncthreads();
    const half* sa = s.a[t & 1];
    const half* sb = s.b[t & 1];
#pragma unroll
    for (int kk = 0; kk < TK; kk += 16) {
      uint32_t ra[4][4], rb[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ldsm_x4(ra[i], sa + (wm + i * 16 + (lane & 15)) * LDSA + kk + (lane >> 4) * 8);
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        ldsm_x4_t(rb[j][0], rb[j][1], rb[j + 1][0], rb[j + 1][1],
                  sb + (kk + (lane & 15)) * LDSB + wn + j * 8 + (lane >> 4) * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma16816(acc[i][j], ra[i], rb[j]);
    }
    __syncthreads();
  }

  const int g = lane >> 2, t4 = (lane & 3) * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      size_t r = blockIdx.y * TM + wm + i * 16 + g, c = blockIdx.x * TN + wn + j * 8 + t4;
      *reinterpret_cast<half2*>(C + r * N + c) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<half2*>(C + (r + 8) * N + c) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
}

}  // namespace

extern "C" cudaError_t hgemm_mma(const void* a, const void* b, void* c, int m, int n, int k, cudaStream_t stream) {
  if (m % TM != 0 || n % TN != 0 || k % TK != 0) return cudaErrorInvalidValue;
  constexpr size_t smem = sizeof(SharedStorage);
  cudaError_t err =
      cudaFuncSetAttribute(gemm_mma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem));
  if (err != cudaSuccess) return err;
  gemm_mma_kernel<<<dim3(n / TN, m / TM), 128, smem, stream>>>(static_cast<const half*>(a), static_cast<const half*>(b),
                                                              static_cast<half*>(c), m, n, k);
  return cudaGetLastError();
}
