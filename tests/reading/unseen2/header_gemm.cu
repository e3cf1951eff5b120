#include "include/gemm_kernel.cuh"
#include <cassert>

namespace gemm {
void launch_gemm_tn(const half* A, const half* B, half* C, int M, int N, int K, cudaStream_t stream) {
  using Cfg = TileConfig;
  assert(M % Cfg::kBM == 0 && N % Cfg::kBN == 0 && K % Cfg::kBK == 0);
  const dim3 grid{static_cast<unsigned>(N / Cfg::kBN), static_cast<unsigned>(M / Cfg::kBM)};
  gemm_tn<Cfg><<<grid, Cfg::kThreads, 0, stream>>>(A, B, C, M, N, K);
}
}  // namespace gemm
