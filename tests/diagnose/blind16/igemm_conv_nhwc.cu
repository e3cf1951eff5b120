/*! \file
    \brief Forward convolution as an implicit GEMM: NHWC activations, KRSC filters, NPQK output, half with float sums.

    GEMM M is N*P*Q (output pixels), GEMM N is K (filters), GEMM K is R*S*C. The activation iterator holds, for each
    access of a thread, where its output pixel's window begins, and walks over filter taps; within a tap it walks over
    channels, a tile at a time.
*/
#include <cuda_fp16.h>
#include <cstdint>

namespace conv {

struct Conv2dProblem {
  int N, H, W, C;
  int K, R, S;
  int P, Q;
  int pad_h, pad_w;
  int stride_h, stride_w;
};

template <int M, int N, int K>
struct GemmShape {
  static int const kM = M, kN = N, kK = K;
};

/// Global-memory iterator over the activations' tiles: rows are output pixels.
template <typename Shape, int kThreads>
struct ActivationIterator {
  static int const kVecsPerRow = Shape::kK / 8;
  static int const kAccesses = Shape::kM * kVecsPerRow / kThreads;

  Conv2dProblem const &problem;
  half const *pointer;
  int offset_n[kAccesses], offset_h[kAccesses], offset_w[kAccesses];
  bool row_valid[kAccesses];
  int vec;

  __device__ ActivationIterator(Conv2dProblem const &problem_, half const *pointer_, int first_row, int thread)
      : problem(problem_), pointer(pointer_), vec(thread % kVecsPerRow * 8) {
#pragma unroll
    for (int i = 0; i < kAccesses; ++i) {
      int npq = first_row + thread / kVecsPerRow + i * (kThreads / kVecsPerRow);
      row_valid[i] = npq < problem.N * problem.P * problem.Q;
      offset_n[i] = npq / (problem.P * problem.Q);
      int residual = npq % (problem.P * problem.Q);
      int p = residual / problem.Q;
      int q = residual % problem.Q;
      offset_h[i] = p * problem.stride_h - problem.pad_h;
      offset_w[i] = q * problem.stride_w - problem.pad_w;
    }
  }

  __device__ uint4 load(int i, int r, int s, int c0) const {
    int h = offset_h[i] + r;
    int w = offset_w[i] + s;
    int c = c0 + vec;
    bool valid = row_valid[i] && h >= 0 && h < problem.H && w >= 0 && w < problem.W && c < problem.C;
    if (!valid) return make_uint4(0, 0, 0, 0);
    int64_t offset = ((int64_t(offset_n[i]) * problem.H + h) * problem.W + w) * problem.C + c;
    return *reinterpret_cast<uint4 const *>(pointer + offset);
  }
};

/// Global-memory iterator over the filters' tiles: rows are filters.
template <typename Shape, int kThreads>
struct FilterIterator {
  static int const kVecsPerRow = Shape::kK / 8;
  static int const kAccesses = Shape::kN * kVecsPerRow / kThreads;

  Conv2dProblem const &problem;
  half const *pointer;
  int first_filter, vec;

  __device__ FilterIterator(Conv2dProblem const &problem_, half const *pointer_, int first_row, int thread)
      : problem(problem_), pointer(pointer_), first_filter(first_row + thread / kVecsPerRow), vec(thread % kVecsPerRow * 8) {}

  __device__ uint4 load(int i, int r, int s, int c0) const {
    int k = first_filter + i * (kThreads / kVecsPerRow);
    int c = c0 + vec;
    if (k >= problem.K || c >= problem.C) return make_uint4(0, 0, 0, 0);
    int64_t offset = ((int64_t(k) * problem.R + r) * problem.S + s) * problem.C + c;
    return *reinterpret_cast<uint4 const *>(pointer + offset);
  }
};

__device__ inline void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <typename Shape, int kWarpsM, int kWarpsN>
__global__ void implicit_gemm_fprop(Conv2dProblem problem, half const *activations, half const *filters,
                                    half const *bias, half *output) {
  static int const kThreads = 32 * kWarpsM * kWarpsN;
  static int const kLd = Shape::kK + 8;
  static int const kWarpM = Shape::kM / kWarpsM, kWarpN = Shape::kN / kWarpsN;
  static int const kMmaM = kWarpM / 16, kMmaN = kWarpN / 8;
  using IteratorA = ActivationIterator<Shape, kThreads>;
  using IteratorB = FilterIterator<Shape, kThreads>;

  __shared__ __align__(16) half smem_a[Shape::kM * kLd];
  __shared__ __align__(16) half smem_b[Shape::kN * kLd];

  int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  int warp_m = warp % kWarpsM * kWarpM, warp_n = warp / kWarpsM * kWarpN;
  int quad = lane / 4, pair = lane % 4 * 2;
  int block_m = blockIdx.x * Shape::kM, block_n = blockIdx.y * Shape::kN;

  IteratorA iterator_a(problem, activations, block_m, thread);
  IteratorB iterator_b(problem, filters, block_n, thread);

  float accum[kMmaM][kMmaN][4];
#pragma unroll
  for (int i = 0; i < kMmaM * kMmaN * 4; ++i) (&accum[0][0][0])[i] = 0.f;

  int r = 0, s = 0, c0 = 0;
  int iterations = problem.R * problem.S * ((problem.C + Shape::kK - 1) / Shape::kK);
  for (; iterations > 0; --iterations) {
    int row = thread / IteratorA::kVecsPerRow, vec = thread % IteratorA::kVecsPerRow * 8;
#pragma unroll
    for (int i = 0; i < IteratorA::kAccesses; ++i) {
      int at = (row + i * (kThreads / IteratorA::kVecsPerRow)) * kLd + vec;
      *reinterpret_cast<uint4 *>(&smem_a[at]) = iterator_a.load(i, r, s, c0);
    }
#pragma unroll
    for (int i = 0; i < IteratorB::kAccesses; ++i) {
      int at = (row + i * (kThreads / IteratorB::kVecsPerRow)) * kLd + vec;
      *reinterpret_cast<uint4 *>(&smem_b[at]) = iterator_b.load(i, r, s, c0);
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < Shape::kK; k += 16) {
      uint32_t frag_a[kMmaM][4], frag_b[kMmaN][2];
#pragma unroll
      for (int i = 0; i < kMmaM; ++i) {
        half const *tile = &smem_a[(warp_m + i * 16 + quad) * kLd + k + pair];
        frag_a[i][0] = *reinterpret_cast<uint32_t const *>(tile);
        frag_a[i][1] = *reinterpret_cast<uint32_t const *>(tile + 8 * kLd);
        frag_a[i][2] = *reinterpret_cast<uint32_t const *>(tile + 8);
        frag_a[i][3] = *reinterpret_cast<uint32_t const *>(tile + 8 * kLd + 8);
      }
#pragma unroll
      for (int j = 0; j < kMmaN; ++j) {
        half const *tile = &smem_b[(warp_n + j * 8 + quad) * kLd + k + pair];
        frag_b[j][0] = *reinterpret_cast<uint32_t const *>(tile);
        frag_b[j][1] = *reinterpret_cast<uint32_t const *>(tile + 8);
      }
#pragma unroll
      for (int i = 0; i < kMmaM; ++i)
#pragma unroll
        for (int j = 0; j < kMmaN; ++j) mma(accum[i][j], frag_a[i], frag_b[j]);
    }
    __syncthreads();

    // next tile: channels first, then along the filter's row, then its next row
    c0 += Shape::kK;
    if (c0 >= problem.C) {
      c0 = 0;
      if (++s == problem.S) {
        s = 0;
        ++r;
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kMmaM; ++i) {
#pragma unroll
    for (int j = 0; j < kMmaN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int npq = block_m + warp_m + i * 16 + quad + e / 2 * 8;
        int k = block_n + warp_n + j * 8 + pair + e % 2;
        if (npq < problem.N * problem.P * problem.Q && k < problem.K) {
          float x = accum[i][j][e] + __half2float(bias[k]);
          output[int64_t(npq) * problem.K + k] = __float2half(x / (1.f + __expf(-x)));
        }
      }
    }
  }
}

}  // namespace conv

using Tile = conv::GemmShape<64, 32, 32>;
template __global__ void conv::implicit_gemm_fprop<Tile, 2, 2>(conv::Conv2dProblem, half const *, half const *,
                                                               half const *, half *);
