// minicut: the smallest thing that looks like CUTLASS and still runs a grouped GEMM.
//   D[i, :] = relu(alpha[g] * A[i, :] * B[g]^T + bias[g, :])      for the rows i of group g
// A [M, K], B [G, N, K] (as nn.Linear), D [M, N], half; persistent blocks, multistage mainloop, swizzled tiles.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>

namespace minicut {

template <int M_, int N_, int K_>
struct GemmShape {
  static constexpr int kM = M_, kN = N_, kK = K_;
};

struct GemmCoord {
  int m, n, group;
};

namespace arch {

template <bool kZfill = true>
__device__ inline void cp_async(uint32_t dst, const void* src, bool guard) {
  int src_bytes = guard ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_bytes));
}
__device__ inline void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ inline void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ inline void ldsm(uint32_t (&d)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(addr));
}

__device__ inline void mma_16816(float (&d)[4], uint32_t const (&a)[4], uint32_t const* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace arch

// rows of 32 halves, four vectors of 16 bytes each, XORed so that ldmatrix meets no bank twice
struct SwizzledLayout {
  static constexpr int kRow = 32;
  __device__ static int offset(int row, int vec) { return row * kRow + ((vec ^ ((row >> 1) & 3)) << 3); }
};

// walks over a K-major operand, a tile of kRows x 32 at a time
template <int kRows, int kThreads>
struct TileIterator {
  static constexpr int kVecs = SwizzledLayout::kRow / 8;
  static constexpr int kIters = kRows * kVecs / kThreads;
  const half* ptr;
  int ld, row_end, k_end, k;

  __device__ TileIterator(const half* base, int ld_, int rows, int k_extent) : ptr(base), ld(ld_), row_end(rows), k_end(k_extent), k(0) {}

  __device__ void load(half* smem) const {
    uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
#pragma unroll
    for (int i = 0; i < kIters; ++i) {
      int idx = threadIdx.x + i * kThreads;
      int row = idx / kVecs, vec = idx % kVecs;
      bool guard = row < row_end && k + vec * 8 < k_end;
      const half* src = guard ? ptr + (size_t)row * ld + k + vec * 8 : ptr;
      arch::cp_async(base + SwizzledLayout::offset(row, vec) * sizeof(half), src, guard);
    }
  }
  __device__ TileIterator& operator++() {
    k += SwizzledLayout::kRow;
    return *this;
  }
};

template <typename Shape, int kStages>
struct MmaMultistage {
  static constexpr int kThreads = 128;
  static constexpr int kWarpM = Shape::kM / 2, kWarpN = Shape::kN / 2;
  static constexpr int kMmaM = kWarpM / 16, kMmaN = kWarpN / 8;
  using IteratorA = TileIterator<Shape::kM, kThreads>;
  using IteratorB = TileIterator<Shape::kN, kThreads>;
  using Accumulators = float[kMmaM][kMmaN][4];

  struct SharedStorage {
    alignas(16) half a[kStages][Shape::kM * Shape::kK];
    alignas(16) half b[kStages][Shape::kN * Shape::kK];
  };

  __device__ static void run(SharedStorage& smem, IteratorA it_a, IteratorB it_b, int k_tiles, Accumulators& acc) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int warp_m = (warp % 2) * kWarpM, warp_n = (warp / 2) * kWarpN;

#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (stage < k_tiles) {
        it_a.load(smem.a[stage]);
        it_b.load(smem.b[stage]);
        ++it_a;
        ++it_b;
      }
      arch::cp_async_fence();
    }

    int read = 0, write = kStages - 1;
    for (int tile = 0; tile < k_tiles; ++tile) {
      arch::cp_async_wait<kStages - 2>();
      __syncthreads();

      if (tile + kStages - 1 < k_tiles) {
        it_a.load(smem.a[write]);
        it_b.load(smem.b[write]);
        ++it_a;
        ++it_b;
      }
      arch::cp_async_fence();

      uint32_t base_a = (uint32_t)__cvta_generic_to_shared(smem.a[read]);
      uint32_t base_b = (uint32_t)__cvta_generic_to_shared(smem.b[read]);
#pragma unroll
      for (int kk = 0; kk < Shape::kK / 16; ++kk) {
        uint32_t frag_a[kMmaM][4], frag_b[kMmaN / 2][4];
#pragma unroll
        for (int i = 0; i < kMmaM; ++i) {
          int row = warp_m + i * 16 + lane % 16, vec = kk * 2 + lane / 16;
          arch::ldsm(frag_a[i], base_a + SwizzledLayout::offset(row, vec) * sizeof(half));
        }
#pragma unroll
        for (int j = 0; j < kMmaN / 2; ++j) {
          int row = warp_n + j * 16 + (lane / 16) * 8 + lane % 8, vec = kk * 2 + (lane / 8) % 2;
          arch::ldsm(frag_b[j], base_b + SwizzledLayout::offset(row, vec) * sizeof(half));
        }
#pragma unroll
        for (int i = 0; i < kMmaM; ++i)
#pragma unroll
          for (int j = 0; j < kMmaN; ++j) arch::mma_16816(acc[i][j], frag_a[i], &frag_b[j / 2][(j % 2) * 2]);
      }

      read = (read + 1) % kStages;
      write = (write + 1) % kStages;
    }
    arch::cp_async_wait<0>();
    __syncthreads();   // the next tile of this block fills the same stages
  }
};

struct LinearCombinationRelu {
  float alpha;
  const half* bias;
  __device__ float operator()(float acc, int n) const { return fmaxf(alpha * acc + __half2float(bias[n]), 0.f); }
};

// hands out tiles of all groups; each block asks for blockIdx.x, blockIdx.x + gridDim.x, ...
template <typename Shape>
struct GroupedProblemVisitor {
  const int* starts;
  int groups, tiles_n;
  int tile, group, group_tile0;

  __device__ GroupedProblemVisitor(const int* starts_, int groups_, int n)
      : starts(starts_), groups(groups_), tiles_n((n + Shape::kN - 1) / Shape::kN), tile(blockIdx.x), group(0), group_tile0(0) {}

  __device__ bool next(GemmCoord& coord) {
    while (group < groups) {
      int rows = starts[group + 1] - starts[group];
      int tiles = (rows + Shape::kM - 1) / Shape::kM * tiles_n;
      if (tile < group_tile0 + tiles) {
        int local = tile - group_tile0;
        coord = {local / tiles_n, local % tiles_n, group};
        return true;
      }
      group_tile0 += tiles;
      ++group;
    }
    return false;
  }
  __device__ void advance() { tile += gridDim.x; }
};

template <typename Shape, int kStages>
__global__ void __launch_bounds__(128) grouped_gemm_kernel(const half* __restrict__ A, const half* __restrict__ B, const int* __restrict__ starts,
    const float* __restrict__ alpha, const half* __restrict__ bias, half* __restrict__ D, int groups, int N, int K) {
  using Mma = MmaMultistage<Shape, kStages>;
  __shared__ typename Mma::SharedStorage smem;

  GroupedProblemVisitor<Shape> visitor(starts, groups, N);
  GemmCoord coord;
  while (visitor.next(coord)) {
    int row0 = starts[coord.group] + coord.m * Shape::kM;
    int rows = min(starts[coord.group + 1] - row0, Shape::kM);
    int col0 = coord.n * Shape::kN;
    int cols = min(N - col0, Shape::kN);

    typename Mma::IteratorA it_a(A + (size_t)row0 * K, K, rows, K);
    typename Mma::IteratorB it_b(B + ((size_t)coord.group * N + col0) * K, K, cols, K);

    typename Mma::Accumulators acc = {};
    Mma::run(smem, it_a, it_b, (K + Shape::kK - 1) / Shape::kK, acc);

    LinearCombinationRelu epilogue{alpha[coord.group], bias + coord.group * N + col0};
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int m_base = (warp % 2) * Mma::kWarpM + lane / 4, n_base = (warp / 2) * Mma::kWarpN + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Mma::kMmaM; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int m = m_base + i * 16 + h * 8;
        if (m >= rows) continue;
#pragma unroll
        for (int j = 0; j < Mma::kMmaN; ++j) {
          int n = n_base + j * 8;
          if (n >= cols) continue;   // N is even
          half2 out = __floats2half2_rn(epilogue(acc[i][j][h * 2], n), epilogue(acc[i][j][h * 2 + 1], n + 1));
          *reinterpret_cast<half2*>(&D[(size_t)(row0 + m) * N + col0 + n]) = out;
        }
      }
    visitor.advance();
  }
}

}  // namespace minicut

void grouped_gemm(const half* A, const half* B, const int* starts, const float* alpha, const half* bias, half* D, int groups, int N, int K,
                  int sms, cudaStream_t stream) {
  using Shape = minicut::GemmShape<64, 64, 32>;
  minicut::grouped_gemm_kernel<Shape, 3><<<sms, 128, 0, stream>>>(A, B, starts, alpha, bias, D, groups, N, K);
}
