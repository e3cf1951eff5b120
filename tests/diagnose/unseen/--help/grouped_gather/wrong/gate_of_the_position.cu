// Mixture of experts, one projection: rows are gathered by expert, each block of 16 rows has one expert.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr int BM = 16;
constexpr int BN = 64;
constexpr int BK = 32;
constexpr int APAD = 8;

struct MoeArgs {
  const half* hidden;       // [tokens, K]
  const half* experts;      // [E, N, K]
  const int* sorted_rows;   // [padded], `routes` for padding
  const int* expert_of;     // [padded / BM]
  const float* gates;       // [routes]
  half* out;                // [routes, N]
  int N, K, routes, top_k;
};

__global__ void __launch_bounds__(128) moe_rows(const half* hidden, const half* experts, const int* sorted_rows,
                                                const int* expert_of, const float* gates, half* out, int N, int K,
                                                int routes, int top_k) {
  const MoeArgs args{hidden, experts, sorted_rows, expert_of, gates, out, N, K, routes, top_k};
  __shared__ __align__(32) half As[BM][BK + APAD];
  __shared__ __align__(32) half Bs[BN][BK + APAD];
  __shared__ __align__(32) float Cs[BM][BN + 4];
  __shared__ int route_of[BM];
  const int m0 = blockIdx.x * BM;
  const int n0 = blockIdx.y * BN;
  const int warp = threadIdx.x >> 5;
  if (threadIdx.x < BM) route_of[threadIdx.x] = args.sorted_rows[m0 + threadIdx.x];
  const int expert = args.expert_of[blockIdx.x];
  const half* weight = args.experts + (long long)expert * args.N * args.K;
  __syncthreads();

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
  wmma::fill_fragment(c_frag, 0.f);
  for (int k0 = 0; k0 < args.K; k0 += BK) {
    for (int idx = threadIdx.x; idx < BM * BK; idx += 128) {
      const int r = idx / BK, c = idx % BK;
      const int route = route_of[r];
      const bool ok = route < args.routes && k0 + c < args.K;
      As[r][c] = ok ? args.hidden[(long long)(route / args.top_k) * args.K + k0 + c] : __float2half(0.f);
    }
    for (int idx = threadIdx.x; idx < BN * BK; idx += 128) {
      const int r = idx / BK, c = idx % BK;
      const bool ok = n0 + r < args.N && k0 + c < args.K;
      Bs[r][c] = ok ? weight[(long long)(n0 + r) * args.K + k0 + c] : __float2half(0.f);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b_frag;
      wmma::load_matrix_sync(a_frag, &As[0][kk], BK + APAD);
      wmma::load_matrix_sync(b_frag, &Bs[warp * 16][kk], BK + APAD);
      wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(&Cs[0][warp * 16], c_frag, BN + 4, wmma::mem_row_major);
  __syncthreads();
  for (int idx = threadIdx.x; idx < BM * BN; idx += 128) {
    const int r = idx / BN, c = idx % BN;
    const int route = route_of[r];
    if (route >= args.routes || n0 + c >= args.N) continue;
    const float gate = args.gates[r];
    args.out[(long long)route * args.N + n0 + c] = __float2half(Cs[r][c] * gate);
  }
}
