// hgemm: A row-major [M,K], B "column-major" i.e. stored [N,K]; XOR-swizzled shared memory, two cp.async stages
#include <cuda_fp16.h>
#include <cstdint>

#define BM 64
#define BN 64
#define BK 64
#define NT 128
#define CP_ASYNC_CG(dst, src) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" \
               : "=r"(RD0), "=r"(RD1) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

__device__ __forceinline__ int swz(int row, int chunk) { return row * BK + ((chunk ^ (row & 7)) << 3); }

__global__ void __launch_bounds__(NT) hgemm_mma_stages_swizzle_tn_kernel(half* A, half* B, half* C, int M, int N, int K) {
  __shared__ __align__(128) half smem[2][(BM + BN) * BK];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
  const half* gA = A + (size_t)blockIdx.y * BM * K;
  const half* gB = B + (size_t)blockIdx.x * BN * K;
  auto load_stage = [&](int stage, int kt) {
    half* sA = smem[stage];
    half* sB = sA + BM * BK;
#pragma unroll
    for (int i = tid; i < BM * (BK / 8); i += NT) {
      int r = i / (BK / 8), ch = i % (BK / 8);
      uint32_t da = (uint32_t)__cvta_generic_to_shared(sA + swz(r, ch));
      CP_ASYNC_CG(da, gA + r * K + kt * BK + ch * 8);
    }
#pragma unroll
    for (int i = tid; i < BN * (BK / 8); i += NT) {
      int r = i / (BK / 8), ch = i % (BK / 8);
      uint32_t db = (uint32_t)__cvta_generic_to_shared(sB + swz(r, ch));
      CP_ASYNC_CG(db, gB + r * K + kt * BK + ch * 8);
    }
    CP_ASYNC_COMMIT_GROUP();
  };
  uint32_t RC[2][4][2] = {};
  const int KT = K / BK;
  load_stage(0, 0);
  for (int kt = 0; kt < KT; ++kt) {
    if (kt + 1 < KT) { load_stage((kt + 1) & 1, kt + 1); CP_ASYNC_WAIT_GROUP(1); }
    else { CP_ASYNC_WAIT_GROUP(0); }
    __syncthreads();
    half* sA = smem[kt & 1];
    half* sB = sA + BM * BK;
#pragma unroll
    for (int kk = 0; kk < BK / 16; ++kk) {
      uint32_t RA[2][4], RB[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int r = wm + i * 16 + (lane & 15);
        uint32_t p = (uint32_t)__cvta_generic_to_shared(sA + swz(r, kk * 2 + (lane >> 4)));
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], p);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        int r = wn + j * 16 + (lane & 7) + ((lane >> 4) << 3);
        uint32_t p = (uint32_t)__cvta_generic_to_shared(sB + swz(r, kk * 2 + ((lane >> 3) & 1)));
        LDMATRIX_X4(RB[2 * j][0], RB[2 * j][1], RB[2 * j + 1][0], RB[2 * j + 1][1], p);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1], RC[i][j][0], RC[i][j][1]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int row = blockIdx.y * BM + wm + i * 16 + lane / 4, col = blockIdx.x * BN + wn + j * 8 + (lane % 4) * 2;
      *(uint32_t*)(C + row * N + col) = RC[i][j][0];
      *(uint32_t*)(C + (row + 8) * N + col) = RC[i][j][1];
    }
}

void hgemm_mma_stages_swizzle_tn(torch::Tensor a, torch::Tensor b, torch::Tensor c, bool swizzle, int swizzle_stride) {
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  dim3 block(NT);
  dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  hgemm_mma_stages_swizzle_tn_kernel<<<grid, block>>>(reinterpret_cast<half*>(a.data_ptr()), reinterpret_cast<half*>(b.data_ptr()),
    reinterpret_cast<half*>(c.data_ptr()), M, N, K);
}
