#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <vector>

/**
 * Batched GEMM over arrays of pointers, as cublasHgemmBatched takes them:
 *   C[i] = alpha * A[i] * B[i]^T + beta * C[i],  A[i]: M x K, B[i]: N x K, C[i]: M x N, all row-major
 */
template <typename Element, typename Accumulator, int kTileM, int kTileN>
struct BatchedGemm {
  struct Arguments {
    int M, N, K;
    Element const* const* A;
    Element const* const* B;
    Element* const* C;
    float alpha, beta;
    int batch;
  };
  static constexpr int kThreads = (kTileM / 16) * (kTileN / 16) * 32;

  static __device__ void compute(Arguments const& args) {
    using namespace nvcuda::wmma;
    Element const* A = args.A[blockIdx.z];
    Element const* B = args.B[blockIdx.z];
    Element* C = args.C[blockIdx.z];
    int const warp = threadIdx.x / 32;
    int const row = blockIdx.x * kTileM + warp / (kTileN / 16) * 16;
    int const col = blockIdx.y * kTileN + warp % (kTileN / 16) * 16;

    fragment<accumulator, 16, 16, 16, Accumulator> acc, old;
    fill_fragment(acc, Accumulator(0.f));
    for (int k = 0; k < args.K; k += 16) {
      fragment<matrix_a, 16, 16, 16, Element, row_major> a;
      fragment<matrix_b, 16, 16, 16, Element, col_major> b;
      load_matrix_sync(a, A + row * args.K + k, args.K);
      load_matrix_sync(b, B + col * args.K + k, args.K);
      mma_sync(acc, a, b, acc);
    }
    load_matrix_sync(old, C + row * args.N + col, args.N, mem_row_major);
    for (int i = 0; i < acc.num_elements; ++i)
      acc.x[i] = Accumulator(args.alpha * float(acc.x[i]) + args.beta * float(old.x[i]));
    store_matrix_sync(C + row * args.N + col, acc, args.N, mem_row_major);
  }
};

template <typename Gemm>
__global__ void __launch_bounds__(Gemm::kThreads) gemm_kernel(typename Gemm::Arguments args) {
  Gemm::compute(args);
}

template <typename Gemm>
cudaError_t run(typename Gemm::Arguments const& args, int tile_m, int tile_n, cudaStream_t stream) {
  if (args.M % tile_m || args.N % tile_n || args.K % 16) return cudaErrorInvalidValue;
  dim3 grid(args.M / tile_m, args.N / tile_n, args.batch);
  gemm_kernel<Gemm><<<grid, Gemm::kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t hgemm_batched(int M, int N, int K, float alpha, half const* const* A, half const* const* B, float beta,
                          half* const* C, int batch, cudaStream_t stream) {
  using Gemm = BatchedGemm<half, half, 32, 32>;
  return run<Gemm>({M, N, K, A, B, C, alpha, beta, batch}, 32, 32, stream);
}
