#include <cuda_fp16.h>
#include <mma.h>
#include <cassert>
#include <memory>

template <typename T, int BlockM, int BlockN>
class TensorCoreGemm {
 public:
  TensorCoreGemm(int m, int n, int k) : m_(m), n_(n), k_(k) {
    assert(m % BlockM == 0 && n % BlockN == 0 && k % 16 == 0);
  }
  void run(const T* a, const T* b, T* c, float alpha, float beta, cudaStream_t stream) const;

 private:
  int m_, n_, k_;
};

template <typename T, int BlockM, int BlockN>
__global__ void tc_gemm_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k,
                               float alpha, float beta) {
  namespace wmma = nvcuda::wmma;
  __shared__ float out_tile[BlockM * BlockN];
  constexpr int kTiles = (BlockM / 16) * (BlockN / 16);
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int m0 = blockIdx.x * BlockM, n0 = blockIdx.y * BlockN;
  for (int t = warp; t < kTiles; t += warps) {
    const int tr = t / (BlockN / 16) * 16, tc = t % (BlockN / 16) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int p = 0; p < k; p += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
      wmma::load_matrix_sync(fa, a + size_t(m0 + tr) * k + p, k);
      wmma::load_matrix_sync(fb, b + size_t(p) * n + n0 + tc, n);
      wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(out_tile + tr * BlockN + tc, acc, BlockN, wmma::mem_row_major);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BlockM * BlockN; i += blockDim.x) {
    T* dst = c + size_t(m0 + i / BlockN) * n + n0 + i % BlockN;
    *dst = T(alpha * out_tile[i] + beta * float(*dst));
  }
}

template <typename T, int BlockM, int BlockN>
void TensorCoreGemm<T, BlockM, BlockN>::run(const T* a, const T* b, T* c, float alpha, float beta, cudaStream_t stream) const {
  const dim3 grid(m_ / BlockM, n_ / BlockN);
  tc_gemm_kernel<T, BlockM, BlockN><<<grid, 128, 0, stream>>>(a, b, c, m_, n_, k_, alpha, beta);
}

template class TensorCoreGemm<half, 64, 64>;

void half_gemm(const half* a, const half* b, half* c, int m, int n, int k, float alpha, float beta, cudaStream_t stream) {
  auto gemm = std::make_unique<TensorCoreGemm<half, 64, 64>>(m, n, k);
  gemm->run(a, b, c, alpha, beta, stream);
}
