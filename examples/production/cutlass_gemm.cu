// A CUTLASS 2.x device GEMM for sm_80: D = alpha A B + beta C, half inputs, sums and output in f32, B column-major.
//
// Its own kernel is cutlass::Kernel<GemmKernel>, whose one parameter is a struct of iterators' state that the host
// fills. The wrapper below fills it from pointers and sizes, so that a card can say what they are, and runs the same
// GemmKernel.
#include "cutlass/gemm/device/gemm.h"

using Half = cutlass::half_t;
using Gemm = cutlass::gemm::device::Gemm<
    Half, cutlass::layout::RowMajor, Half, cutlass::layout::ColumnMajor, float, cutlass::layout::RowMajor, float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<128, 128, 32>,
    cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, 4, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;
using Kernel = Gemm::GemmKernel;
using Tile = Gemm::ThreadblockShape;

__global__ void __launch_bounds__(Kernel::kThreadCount)
cutlass_gemm(Half *a, Half *b, float *c, int m, int n, int k, float alpha, float beta) {
  extern __shared__ __align__(16) unsigned char memory[];
  Gemm::ThreadblockSwizzle swizzle;
  cutlass::gemm::GemmCoord size(m, n, k);
  cutlass::gemm::GemmCoord tiles = swizzle.get_tiled_shape(size, {Tile::kM, Tile::kN, Tile::kK}, 1);
  Kernel::Params params(size, tiles, {a, k}, {b, k}, {c, n}, {c, n}, {alpha, beta}, nullptr);
  Kernel kernel;
  kernel(params, *reinterpret_cast<Kernel::SharedStorage *>(memory));
}

void launch(Half *a, Half *b, float *c, int m, int n, int k, float alpha, float beta, cudaStream_t stream) {
  int bytes = int(sizeof(Kernel::SharedStorage));
  cudaFuncSetAttribute(cutlass_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  dim3 grid((m + Tile::kM - 1) / Tile::kM, (n + Tile::kN - 1) / Tile::kN);
  cutlass_gemm<<<grid, Kernel::kThreadCount, bytes, stream>>>(a, b, c, m, n, k, alpha, beta);
}
