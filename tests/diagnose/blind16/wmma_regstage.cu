// D = alpha * A * B^T + beta * D, half in and out, float sums.  A: M x K, B: N x K, D: M x N, all row-major.
// Two tiles in shared memory; the next one travels through registers while the present one is multiplied.
// K and the pointers must allow 16-byte loads (K % 8 == 0); M and N are free.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstddef>

template <int BM_, int BN_, int BK_, int WarpsM_, int WarpsN_>
struct GemmConfig {
  static constexpr int BM = BM_, BN = BN_, BK = BK_;
  static constexpr int WarpsM = WarpsM_, WarpsN = WarpsN_;
  static constexpr int Threads = 32 * WarpsM * WarpsN;
  static constexpr int WM = BM / WarpsM, WN = BN / WarpsN;
  static constexpr int FragsM = WM / 16, FragsN = WN / 16;
  static constexpr int Ld = BK + 8;
  static constexpr int VecsPerRow = BK / 8;
  static constexpr int StageLd = 20;
};

/// Moves Rows x BK tiles of a row-major matrix to shared memory in two steps.
template <class Cfg, int Rows>
struct TileLoader {
  static constexpr int Vecs = Rows * Cfg::VecsPerRow / Cfg::Threads;

  const half *src;
  int rows_left, depth;
  uint4 staged[Vecs];

  __device__ TileLoader(const half *matrix, int first_row, int rows, int k)
      : src(matrix + static_cast<size_t>(first_row) * k), rows_left(rows - first_row), depth(k) {}

  __device__ void fetch(int k0) {
#pragma unroll
    for (int v = 0; v < Vecs; ++v) {
      const int idx = threadIdx.x + v * Cfg::Threads;
      const int r = idx / Cfg::VecsPerRow, c = idx % Cfg::VecsPerRow * 8;
      const bool inside = r < rows_left && k0 + c < depth;
      staged[v] = make_uint4(0u, 0u, 0u, 0u);
      if (inside) staged[v] = *reinterpret_cast<const uint4 *>(src + static_cast<size_t>(r) * depth + k0 + c);
    }
  }

  __device__ void commit(half *tile) const {
#pragma unroll
    for (int v = 0; v < Vecs; ++v) {
      const int idx = threadIdx.x + v * Cfg::Threads;
      const int r = idx / Cfg::VecsPerRow, c = idx % Cfg::VecsPerRow * 8;
      *reinterpret_cast<uint4 *>(tile + r * Cfg::Ld + c) = staged[v];
    }
  }
};

template <class Cfg>
__global__ void __launch_bounds__(Cfg::Threads)
    hgemm_nt_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ D, float alpha, float beta,
                    int M, int N, int K) {
  using namespace nvcuda;

  __shared__ __align__(128) half As[2][Cfg::BM * Cfg::Ld];
  __shared__ __align__(128) half Bs[2][Cfg::BN * Cfg::Ld];
  __shared__ __align__(128) float Stage[Cfg::WarpsM * Cfg::WarpsN][16 * Cfg::StageLd];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / Cfg::WarpsN, warp_n = warp % Cfg::WarpsN;
  const int m0 = blockIdx.y * Cfg::BM, n0 = blockIdx.x * Cfg::BN;

  TileLoader<Cfg, Cfg::BM> load_a(A, m0, M, K);
  TileLoader<Cfg, Cfg::BN> load_b(B, n0, N, K);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[Cfg::FragsM][Cfg::FragsN];
  for (auto &row : acc)
    for (auto &f : row) wmma::fill_fragment(f, 0.0f);

  load_a.fetch(0);
  load_b.fetch(0);
  load_a.commit(As[0]);
  load_b.commit(Bs[0]);
  __syncthreads();

  const int tiles = (K + Cfg::BK - 1) / Cfg::BK;
  for (int t = 0; t < tiles; ++t) {
    const int now = t & 1;
    const bool more = t + 1 < tiles;
    if (more) {
      load_a.fetch((t + 1) * Cfg::BK);
      load_b.fetch((t + 1) * Cfg::BK);
    }

#pragma unroll
    for (int kk = 0; kk < Cfg::BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[Cfg::FragsM];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb[Cfg::FragsN];
#pragma unroll
      for (int i = 0; i < Cfg::FragsM; ++i)
        wmma::load_matrix_sync(fa[i], &As[now][(warp_m * Cfg::WM + i * 16) * Cfg::Ld + kk], Cfg::Ld);
#pragma unroll
      for (int j = 0; j < Cfg::FragsN; ++j)
        wmma::load_matrix_sync(fb[j], &Bs[now][(warp_n * Cfg::WN + j * 16) * Cfg::Ld + kk], Cfg::Ld);
#pragma unroll
      for (int i = 0; i < Cfg::FragsM; ++i)
#pragma unroll
        for (int j = 0; j < Cfg::FragsN; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }

    if (more) {
      load_a.commit(As[now ^ 1]);
      load_b.commit(Bs[now ^ 1]);
    }
    __syncthreads();
  }

  float *stage = Stage[warp];
  const int row_in = lane / 2, col_in = lane % 2 * 8;
  for (int i = 0; i < Cfg::FragsM; ++i) {
    for (int j = 0; j < Cfg::FragsN; ++j) {
      wmma::store_matrix_sync(stage, acc[i][j], Cfg::StageLd, wmma::mem_row_major);
      __syncwarp();
      const int m = m0 + warp_m * Cfg::WM + i * 16 + row_in;
      const int n = n0 + warp_n * Cfg::WN + j * 16 + col_in;
      for (int e = 0; e < 8; ++e) {
        if (m < M && n + e < N) {
          half &d = D[static_cast<size_t>(m) * N + n + e];
          const float old = beta != 0.0f ? beta * __half2float(d) : 0.0f;
          d = __float2half(alpha * stage[row_in * Cfg::StageLd + col_in + e] + old);
        }
      }
      __syncwarp();
    }
  }
}

using Cfg64x64 = GemmConfig<64, 64, 32, 2, 2>;
template __global__ void hgemm_nt_kernel<Cfg64x64>(const half *, const half *, half *, float, float, int, int, int);
