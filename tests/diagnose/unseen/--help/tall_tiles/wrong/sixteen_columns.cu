// D = A B^T + C in half with 32x8x16 fragments; one warp per 32 x 8 patch, a plain loop over K, operands from global memory.
#include <mma.h>
using namespace nvcuda;

struct Params {
  const half *A, *Bt;
  const float *C;
  float *D;
  int M, N, K;
};

__device__ void patch(const Params &p, int pr, int pc) {
  wmma::fragment<wmma::accumulator, 32, 8, 16, float> run, bias;
  wmma::fill_fragment(run, 0.f);
  const half *a = p.A + (long)pr * p.K;
  const half *b = p.Bt + (long)pc * p.K;
  for (int left = p.K; left > 0; left -= 16, a += 16, b += 16) {
    wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, a, p.K);
    wmma::load_matrix_sync(fb, b, p.K);
    wmma::mma_sync(run, fa, fb, run);
  }
  wmma::load_matrix_sync(bias, p.C + (long)pr * p.N + pc, p.N, wmma::mem_row_major);
  for (int i = 0; i < run.num_elements; i++) run.x[i] += bias.x[i];
  wmma::store_matrix_sync(p.D + (long)pr * p.N + pc, run, p.N, wmma::mem_row_major);
}

extern "C" __global__ void tall(const half *A, const half *Bt, const float *C, float *D, int M, int N, int K) {
  Params p{A, Bt, C, D, M, N, K};
  const int warps = (gridDim.x * blockDim.x) / warpSize;
  const int across = N / 8;
  for (int w = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize; w < (M / 32) * across; w += warps)
    patch(p, (w / across) * 32, (w % across) * 16);
}
