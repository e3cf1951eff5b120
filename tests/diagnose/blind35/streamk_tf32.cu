// Part 7 of "matmuls from scratch": stream-K.
//
// Weight gradients are C = alpha * A^T * B with few output tiles and a long K (= tokens). One CTA per tile leaves most
// SMs idle, so instead of tiles we hand out *MAC iterations*: all tiles * all k-steps are laid in a row and every CTA
// gets an equal piece of the row. A piece may begin and end in the middle of a tile; CTAs which own a whole tile store
// it, all others add their part atomically to C, which the host has cleared.
//
//   A: K x M row major (lda), B: K x N row major (ldb), C: M x N row major (ldc), all float, multiplied as tf32
#include <cuda_runtime.h>
#include <cstdint>

template <int TM_, int TN_, int TK_>
struct Tile {
  static constexpr int TM = TM_, TN = TN_, TK = TK_;
  static constexpr int WM = TM / 2, WN = TN / 2;     // 2 x 2 warps
  static constexpr int MI = WM / 16, NI = WN / 8;    // mma tiles of a warp
  static constexpr int SA = TM + 8, SB = TN + 8;     // pitches: fragments without bank conflicts
};

struct Problem {
  const float *A, *B;
  float *C;
  int M, N, K;
  int lda, ldb, ldc;
  float alpha;
};

__device__ static inline uint32_t to_tf32(float x) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

__device__ static inline void mma1688(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// TK rows of COLS floats -> shared, rounded to tf32
template <int TK, int COLS, int PITCH>
__device__ static void stage(uint32_t *s, const float *g, int ld, int k0, int c0, int K, int cols) {
  for (int i = threadIdx.x; i < TK * COLS; i += blockDim.x) {
    int k = i / COLS, c = i % COLS;
    float x = (k0 + k < K && c0 + c < cols) ? g[(size_t)(k0 + k) * ld + c0 + c] : 0.f;
    s[k * PITCH + c] = to_tf32(x);
  }
}

// sums k-steps [first, last) of the tile at (m0, n0)
template <class T>
__device__ static void mac_loop(float (&acc)[T::MI][T::NI][4], uint32_t *sA, uint32_t *sB, const Problem &p, int m0,
                                int n0, int first, int last) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int wm = (warp / 2) * T::WM, wn = (warp % 2) * T::WN;
  const int g = lane >> 2, t = lane & 3;

  for (int step = first; step < last; ++step) {
    stage<T::TK, T::TM, T::SA>(sA, p.A, p.lda, step * T::TK, m0, p.K, p.M);
    stage<T::TK, T::TN, T::SB>(sB, p.B, p.ldb, step * T::TK, n0, p.K, p.N);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T::TK; k += 8) {
      uint32_t b[T::NI][2];
#pragma unroll
      for (int j = 0; j < T::NI; ++j) {
        const uint32_t *q = sB + (k + t) * T::SB + wn + j * 8 + g;
        b[j][0] = q[0];
        b[j][1] = q[4 * T::SB];
      }
#pragma unroll
      for (int i = 0; i < T::MI; ++i) {
        const uint32_t *q = sA + (k + t) * T::SA + wm + i * 16 + g;
        const uint32_t a[4] = {q[0], q[8], q[4 * T::SA], q[4 * T::SA + 8]};
#pragma unroll
        for (int j = 0; j < T::NI; ++j) mma1688(acc[i][j], a, b[j]);
      }
    }
    __syncthreads();
  }
}

template <class T>
__device__ static void write_tile(const float (&acc)[T::MI][T::NI][4], const Problem &p, int m0, int n0, bool whole) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int wm = (warp / 2) * T::WM, wn = (warp % 2) * T::WN;
#pragma unroll
  for (int i = 0; i < T::MI; ++i) {
#pragma unroll
    for (int j = 0; j < T::NI; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int m = m0 + wm + i * 16 + (lane >> 2) + (e >> 1) * 8;
        const int n = n0 + wn + j * 8 + (lane & 3) * 2 + (e & 1);
        if (m >= p.M || n >= p.N) continue;
        float *c = p.C + (size_t)m * p.ldc + n;
        const float x = p.alpha * acc[i][j][e];
        if (whole)
          *c = x;
        else
          atomicAdd(c, x);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(128) gemm_tn_streamk(Problem p) {
  __shared__ uint32_t sA[T::TK * T::SA];
  __shared__ uint32_t sB[T::TK * T::SB];

  const int tiles_n = (p.N + T::TN - 1) / T::TN;
  const int tiles_m = (p.M + T::TM - 1) / T::TM;
  const int steps = (p.K + T::TK - 1) / T::TK;  // of one tile
  const int total = tiles_m * tiles_n * steps;

  // my piece of all iterations
  const int share = (total + gridDim.x - 1) / gridDim.x;
  int iter = blockIdx.x * share;
  const int end = min(iter + share, total);

  while (iter < end) {
    const int tile = iter / steps;
    const int first = iter - tile * steps;
    const int last = min(steps, first + (end - iter));
    const int m0 = (tile / tiles_n) * T::TM;
    const int n0 = (tile % tiles_n) * T::TN;

    float acc[T::MI][T::NI][4] = {};
    mac_loop<T>(acc, sA, sB, p, m0, n0, first, last);
    write_tile<T>(acc, p, m0, n0, first == 0 && last == steps);
    iter += last - first;
  }
}

using Tile64 = Tile<64, 64, 16>;

void run_gemm_tn_streamk(const Problem &p, int num_sms) {
  cudaMemset2D(p.C, p.ldc * sizeof(float), 0, p.N * sizeof(float), p.M);
  gemm_tn_streamk<Tile64><<<num_sms, 128>>>(p);
}
