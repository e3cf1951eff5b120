// tcmm_batched.cu -- header-only strided batched TF32 matmul. Include it and call tcmm::launch<...>.
//
//   C[b] = alpha * op(A[b]) * B[b] + beta * C[b],   op(A) = A or A^T, row major, float
#ifndef TCMM_BATCHED_CU_
#define TCMM_BATCHED_CU_

#include <cuda_runtime.h>
#include <mma.h>

namespace tcmm {

enum class Trans { No, Yes };

template <int Bm_, int Bn_, int Bk_, int WarpsM_, int WarpsN_>
struct TileShape {
  static constexpr int Bm = Bm_, Bn = Bn_, Bk = Bk_;
  static constexpr int WarpsM = WarpsM_, WarpsN = WarpsN_;
  static constexpr int Threads = WarpsM * WarpsN * 32;
  static constexpr int MmaM = Bm / WarpsM / 16;
  static constexpr int MmaN = Bn / WarpsN / 16;
  static constexpr int LdA = Bk + 4, LdB = Bn + 4, LdC = Bn + 4;
  static_assert(Bm % (WarpsM * 16) == 0 && Bn % (WarpsN * 16) == 0 && Bk % 8 == 0, "tile shape");
};

using Small = TileShape<32, 32, 16, 2, 2>;
using Wide = TileShape<32, 64, 16, 2, 2>;

template <typename Tile>
union Storage {
  struct {
    float a[Tile::Bm * Tile::LdA];
    float b[Tile::Bk * Tile::LdB];
  } in;
  float c[Tile::Bm * Tile::LdC];
};

struct Problem {
  int m, n, k;
  long long stride_a, stride_b, stride_c;
  float alpha, beta;
};

template <typename Tile, Trans kTransA>
__global__ void __launch_bounds__(Tile::Threads)
batched_kernel(Problem p, const float* A, const float* B, float* C) {
  using namespace nvcuda;
  __shared__ __align__(128) Storage<Tile> smem;

  const float* a = A + blockIdx.z * p.stride_a;
  const float* b = B + blockIdx.z * p.stride_b;
  float* c = C + blockIdx.z * p.stride_c;
  const int row0 = blockIdx.y * Tile::Bm, col0 = blockIdx.x * Tile::Bn;
  const int warp = threadIdx.x / 32;
  const int wm = warp / Tile::WarpsN * (Tile::MmaM * 16), wn = warp % Tile::WarpsN * (Tile::MmaN * 16);

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[Tile::MmaM][Tile::MmaN];
  for (int i = 0; i < Tile::MmaM; ++i)
    for (int j = 0; j < Tile::MmaN; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  for (int k0 = 0; k0 < p.k; k0 += Tile::Bk) {
    for (int i = threadIdx.x; i < Tile::Bm * Tile::Bk; i += Tile::Threads) {
      int r, kk;
      if constexpr (kTransA == Trans::Yes) {
        r = i % Tile::Bm;
        kk = i / Tile::Bm;
      } else {
        r = i / Tile::Bk;
        kk = i % Tile::Bk;
      }
      float v = 0.f;
      if (row0 + r < p.m && k0 + kk < p.k) {
        if constexpr (kTransA == Trans::Yes)
          v = a[(long long)(k0 + kk) * p.m + row0 + r];
        else
          v = a[(long long)(row0 + r) * p.k + k0 + kk];
      }
      smem.in.a[r * Tile::LdA + kk] = wmma::__float_to_tf32(v);
    }
    for (int i = threadIdx.x; i < Tile::Bk * Tile::Bn; i += Tile::Threads) {
      const int kk = i / Tile::Bn, col = i % Tile::Bn;
      float v = 0.f;
      if (k0 + kk < p.k && col0 + col < p.n) v = b[(long long)(k0 + kk) * p.n + col0 + col];
      smem.in.b[kk * Tile::LdB + col] = wmma::__float_to_tf32(v);
    }
    __syncthreads();

    for (int kk = 0; kk < Tile::Bk; kk += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa[Tile::MmaM];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb[Tile::MmaN];
      for (int i = 0; i < Tile::MmaM; ++i)
        wmma::load_matrix_sync(fa[i], &smem.in.a[(wm + i * 16) * Tile::LdA + kk], Tile::LdA);
      for (int j = 0; j < Tile::MmaN; ++j)
        wmma::load_matrix_sync(fb[j], &smem.in.b[kk * Tile::LdB + wn + j * 16], Tile::LdB);
      for (int i = 0; i < Tile::MmaM; ++i)
        for (int j = 0; j < Tile::MmaN; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < Tile::MmaM; ++i)
    for (int j = 0; j < Tile::MmaN; ++j)
      wmma::store_matrix_sync(&smem.c[(wm + i * 16) * Tile::LdC + wn + j * 16], acc[i][j], Tile::LdC, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < Tile::Bm * Tile::Bn; i += Tile::Threads) {
    const int r = i / Tile::Bn, col = i % Tile::Bn;
    if (row0 + r >= p.m || col0 + col >= p.n) continue;
    float* dst = c + (long long)(row0 + r) * p.n + col0 + col;
    const float v = p.alpha * smem.c[r * Tile::LdC + col];
    *dst = p.beta == 0.f ? v : v + p.beta * *dst;
  }
}

template <typename Tile, Trans kTransA>
inline cudaError_t launch(const Problem& p, const float* A, const float* B, float* C, int batch, cudaStream_t stream = 0) {
  const dim3 grid((p.n + Tile::Bn - 1) / Tile::Bn, (p.m + Tile::Bm - 1) / Tile::Bm, batch);
  batched_kernel<Tile, kTransA><<<grid, Tile::Threads, 0, stream>>>(p, A, B, C);
  return cudaGetLastError();
}

// C is contiguous per batch, as are A and B
inline cudaError_t matmul(bool trans_a, int batch, int m, int n, int k, float alpha, const float* A, const float* B,
                          float beta, float* C, cudaStream_t stream = 0) {
  Problem p{m, n, k, (long long)m * k, (long long)k * n, (long long)m * n, alpha, beta};
  if (n <= 32)
    return trans_a ? launch<Small, Trans::Yes>(p, A, B, C, batch, stream) : launch<Small, Trans::No>(p, A, B, C, batch, stream);
  return trans_a ? launch<Wide, Trans::Yes>(p, A, B, C, batch, stream) : launch<Wide, Trans::No>(p, A, B, C, batch, stream);
}

}  // namespace tcmm

#endif  // TCMM_BATCHED_CU_
