// grouped_gemm.cuh -- many GEMMs of different sizes in one launch.
//
// The problems live in device memory. A fixed number of blocks walks over all tiles of all problems, so that small
// and large problems share the GPU. Row-major operands:
//     D_i = alpha * A_i * B_i + beta * C_i        A_i: m x k,  B_i: k x n,  C_i and D_i: m x n
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace grouped {

template <typename Element>
struct Problem {
  int m, n, k;
  const Element* a;
  int lda;
  const Element* b;
  int ldb;
  const Element* c;  // read if beta is not 0
  int ldc;
  Element* d;
  int ldd;
};

template <typename Element_, int TileM_, int TileN_, int TileK_, int WarpsM_, int WarpsN_>
struct Policy {
  using Element = Element_;
  using Accum = float;
  static constexpr int TileM = TileM_, TileN = TileN_, TileK = TileK_;
  static constexpr int WarpsM = WarpsM_, WarpsN = WarpsN_;
  static constexpr int Threads = WarpsM * WarpsN * 32;
  static constexpr int FragsM = TileM / WarpsM / 16, FragsN = TileN / WarpsN / 16;
  static constexpr int LdA = TileK + 8, LdB = TileN + 8, LdD = TileN + 4;
  static_assert(TileM % (WarpsM * 16) == 0 && TileN % (WarpsN * 16) == 0 && TileK % 16 == 0, "tiles of 16");

  struct Mainloop {
    alignas(32) Element a[TileM * LdA];
    alignas(32) Element b[TileK * LdB];
  };
  union Shared {
    Mainloop main;
    alignas(32) Accum d[TileM * LdD];
  };
};

template <typename P>
class TileVisitor {
 public:
  __device__ TileVisitor(const Problem<typename P::Element>* problems, int count)
      : problems_(problems), count_(count), index_(0), begin_(0), tile_(blockIdx.x) {}

  // false once all tiles are taken
  __device__ bool next(int& problem, int& tile_m, int& tile_n) {
    while (index_ < count_) {
      const int tn = (problems_[index_].n + P::TileN - 1) / P::TileN;
      const int tm = (problems_[index_].m + P::TileM - 1) / P::TileM;
      if (tile_ < begin_ + tm * tn) {
        problem = index_;
        tile_m = (tile_ - begin_) / tn * P::TileM;
        tile_n = (tile_ - begin_) % tn * P::TileN;
        tile_ += gridDim.x;
        return true;
      }
      begin_ += tm * tn;
      ++index_;
    }
    return false;
  }

 private:
  const Problem<typename P::Element>* problems_;
  int count_, index_, begin_, tile_;
};

template <typename Element, int Rows, int Cols, int Ld, int Threads>
__device__ inline void load_tile(Element* smem, const Element* g, int ld, int row0, int col0, int rows, int cols) {
#pragma unroll
  for (int i = threadIdx.x; i < Rows * Cols; i += Threads) {
    const int r = i / Cols, c = i % Cols;
    const bool inside = row0 + r < rows && col0 + c < cols;
    smem[r * Ld + c] = inside ? g[(long long)(row0 + r) * ld + col0 + c] : Element(0.f);
  }
}

template <typename P>
__global__ void __launch_bounds__(P::Threads)
    grouped_gemm_kernel(const Problem<typename P::Element>* problems, int count, float alpha, float beta) {
  using namespace nvcuda;
  using Element = typename P::Element;
  __shared__ typename P::Shared smem;

  const int warp = threadIdx.x / 32;
  const int wm = warp / P::WarpsN * P::FragsM * 16;
  const int wn = warp % P::WarpsN * P::FragsN * 16;

  TileVisitor<P> visitor(problems, count);
  int idx, m0, n0;
  while (visitor.next(idx, m0, n0)) {
    const Problem<Element> p = problems[idx];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[P::FragsM][P::FragsN];
#pragma unroll
    for (int i = 0; i < P::FragsM; ++i)
#pragma unroll
      for (int j = 0; j < P::FragsN; ++j) wmma::fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < p.k; k0 += P::TileK) {
      load_tile<Element, P::TileM, P::TileK, P::LdA, P::Threads>(smem.main.a, p.a, p.lda, m0, k0, p.m, p.k);
      load_tile<Element, P::TileK, P::TileN, P::LdB, P::Threads>(smem.main.b, p.b, p.ldb, k0, n0, p.k, p.n);
      __syncthreads();
#pragma unroll
      for (int kk = 0; kk < P::TileK; kk += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, wmma::row_major> fa[P::FragsM];
#pragma unroll
        for (int i = 0; i < P::FragsM; ++i)
          wmma::load_matrix_sync(fa[i], smem.main.a + (wm + i * 16) * P::LdA + kk, P::LdA);
#pragma unroll
        for (int j = 0; j < P::FragsN; ++j) {
          wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, wmma::row_major> fb;
          wmma::load_matrix_sync(fb, smem.main.b + kk * P::LdB + wn + j * 16, P::LdB);
#pragma unroll
          for (int i = 0; i < P::FragsM; ++i) wmma::mma_sync(acc[i][j], fa[i], fb, acc[i][j]);
        }
      }
      __syncthreads();
    }

    // the accumulators go where the operands were
#pragma unroll
    for (int i = 0; i < P::FragsM; ++i)
#pragma unroll
      for (int j = 0; j < P::FragsN; ++j)
        wmma::store_matrix_sync(smem.d + (wm + i * 16) * P::LdD + wn + j * 16, acc[i][j], P::LdD,
                                wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < P::TileM * P::TileN; i += P::Threads) {
      const int r = i / P::TileN, c = i % P::TileN;
      if (m0 + r < p.m && n0 + c < p.n) {
        float v = alpha * smem.d[r * P::LdD + c];
        if (beta != 0.f) v += beta * float(p.c[(long long)(m0 + r) * p.ldc + n0 + c]);
        p.d[(long long)(m0 + r) * p.ldd + n0 + c] = Element(v);
      }
    }
    __syncthreads();
  }
}

template <typename P>
cudaError_t grouped_gemm(const Problem<typename P::Element>* device_problems, int count, float alpha, float beta,
                         cudaStream_t stream = 0) {
  if (count <= 0) return cudaSuccess;
  int device = 0, sms = 0, per_sm = 0;
  cudaError_t err = cudaGetDevice(&device);
  if (err != cudaSuccess) return err;
  err = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (err != cudaSuccess) return err;
  err = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, grouped_gemm_kernel<P>, P::Threads, 0);
  if (err != cudaSuccess) return err;
  grouped_gemm_kernel<P><<<sms * per_sm, P::Threads, 0, stream>>>(device_problems, count, alpha, beta);
  return cudaGetLastError();
}

using BF16Policy = Policy<__nv_bfloat16, 64, 64, 32, 2, 2>;
using HalfPolicy = Policy<__half, 128, 64, 32, 4, 2>;

template cudaError_t grouped_gemm<BF16Policy>(const Problem<__nv_bfloat16>*, int, float, float, cudaStream_t);
template cudaError_t grouped_gemm<HalfPolicy>(const Problem<__half>*, int, float, float, cudaStream_t);

}  // namespace grouped
