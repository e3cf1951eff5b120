/***************************************************************************************************
 * volconv: 3-D convolution for volumetric networks
 *
 * Forward pass as an implicit GEMM, NDHWC activations, KTRSC filters, bfloat16 with fp32 sums:
 *
 *     GEMM M = N * Z * P * Q     GEMM N = K     GEMM K = T * R * S * C
 *
 * Y = relu(alpha * conv(X, W) + bias) + residual, if there is a residual.
 * C must be a multiple of 8. The K loop goes over filter positions (t, r, s), and within each of
 * them over blocks of channels, so that one threadblock tile lies within one filter position.
 **************************************************************************************************/
#include <cuda_bf16.h>
#include <mma.h>
#include <stdint.h>

namespace volconv {

struct Conv3dProblem {
  const __nv_bfloat16 *x;         // N D H W C
  const __nv_bfloat16 *w;         // K T R S C
  const float *bias;              // K
  const __nv_bfloat16 *residual;  // N Z P Q K, or nullptr
  __nv_bfloat16 *y;               // N Z P Q K
  int N, D, H, W, C;
  int K, T, R, S;
  int Z, P, Q;
  int pad_d, pad_h, pad_w;
  int stride_d, stride_h, stride_w;
  float alpha;
};

struct ThreadblockShape {
  static int const kM = 64;
  static int const kN = 32;
  static int const kK = 32;
};

static int const kThreads = 128;
static int const kVector = 8;  // elements per access
static int const kVectorsPerRow = ThreadblockShape::kK / kVector;
static int const kRowsPerPass = kThreads / kVectorsPerRow;
static int const kLds = ThreadblockShape::kK + 8;
static int const kLdOut = ThreadblockShape::kN + 4;

/// Which part of the GEMM's K dimension is loaded next
struct FilterPosition {
  int t, r, s, c;

  __device__ void advance(Conv3dProblem const &p) {
    c += ThreadblockShape::kK;
    if (c < p.C) return;
    c = 0;
    if (++s < p.S) return;
    s = 0;
    if (++r < p.R) return;
    r = 0;
    ++t;
  }
};

/// Activations: every thread has the same two rows (output pixels) all the time
struct ActivationIterator {
  static int const kRows = ThreadblockShape::kM / kRowsPerPass;

  int64_t image_[kRows];       // first element of the image
  int d_[kRows], h_[kRows], w_[kRows];  // input coordinates of filter position (0, 0, 0)
  bool valid_[kRows];
  int vector_;

  __device__ ActivationIterator(Conv3dProblem const &p, int m0) {
    vector_ = threadIdx.x % kVectorsPerRow * kVector;
    for (int i = 0; i < kRows; ++i) {
      int m = m0 + threadIdx.x / kVectorsPerRow + i * kRowsPerPass;
      valid_[i] = m < p.N * p.Z * p.P * p.Q;
      int q = m % p.Q;
      int zp = m / p.Q;
      int row = zp % p.P;
      int nz = zp / p.P;
      int z = nz % p.Z;
      int n = nz / p.Z;
      d_[i] = z * p.stride_d - p.pad_d;
      h_[i] = row * p.stride_h - p.pad_h;
      w_[i] = q * p.stride_w - p.pad_w;
      image_[i] = int64_t(n) * p.D * p.H * p.W * p.C;
    }
  }

  __device__ uint4 load(Conv3dProblem const &p, FilterPosition const &f, int i) const {
    int d = d_[i] + f.t;
    int h = h_[i] + f.r;
    int w = w_[i] + f.s;
    int c = f.c + vector_;
    bool inside = valid_[i] && d >= 0 && d < p.D && h >= 0 && h < p.H && w >= 0 && w < p.W && c < p.C;
    if (!inside) return make_uint4(0, 0, 0, 0);
    int64_t offset = image_[i] + (int64_t(d * p.H + h) * p.W + w) * p.C + c;
    return *reinterpret_cast<uint4 const *>(p.x + offset);
  }
};

struct FilterIterator {
  int k_, vector_;

  __device__ FilterIterator(int k0) {
    k_ = k0 + threadIdx.x / kVectorsPerRow;
    vector_ = threadIdx.x % kVectorsPerRow * kVector;
  }

  __device__ uint4 load(Conv3dProblem const &p, FilterPosition const &f) const {
    int c = f.c + vector_;
    if (k_ >= p.K || c >= p.C) return make_uint4(0, 0, 0, 0);
    int64_t offset = (int64_t((k_ * p.T + f.t) * p.R + f.r) * p.S + f.s) * p.C + c;
    return *reinterpret_cast<uint4 const *>(p.w + offset);
  }
};

union SharedStorage {
  struct {
    __nv_bfloat16 a[2][ThreadblockShape::kM][kLds];
    __nv_bfloat16 b[2][ThreadblockShape::kN][kLds];
  } main;
  float out[ThreadblockShape::kM][kLdOut];
};

__global__ void __launch_bounds__(kThreads) conv3d_fprop(Conv3dProblem p) {
  using namespace nvcuda;
  __shared__ __align__(32) SharedStorage storage;

  int const m0 = blockIdx.x * ThreadblockShape::kM;
  int const n0 = blockIdx.y * ThreadblockShape::kN;
  int const row = threadIdx.x / kVectorsPerRow;
  int const vec = threadIdx.x % kVectorsPerRow * kVector;

  // 2 x 2 warps of 32 x 16
  int const warp = threadIdx.x / 32;
  int const warp_m = warp / 2 * 32;
  int const warp_n = warp % 2 * 16;

  ActivationIterator act(p, m0);
  FilterIterator flt(n0);
  FilterPosition pos = {0, 0, 0, 0};

  uint4 ra[ActivationIterator::kRows];
  uint4 rb;
  auto fetch = [&]() {
    for (int i = 0; i < ActivationIterator::kRows; ++i) ra[i] = act.load(p, pos, i);
    rb = flt.load(p, pos);
    pos.advance(p);
  };
  auto deposit = [&](int stage) {
    for (int i = 0; i < ActivationIterator::kRows; ++i)
      *reinterpret_cast<uint4 *>(&storage.main.a[stage][row + i * kRowsPerPass][vec]) = ra[i];
    *reinterpret_cast<uint4 *>(&storage.main.b[stage][row][vec]) = rb;
  };

  wmma::fragment<wmma::accumulator, 32, 8, 16, float> acc[2];
  for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[j], 0.0f);

  int const channel_blocks = (p.C + ThreadblockShape::kK - 1) / ThreadblockShape::kK;
  int const iterations = p.T * p.R * p.S * channel_blocks;

  fetch();
  deposit(0);
  __syncthreads();

  for (int it = 0; it < iterations; ++it) {
    int const stage = it & 1;
    bool const more = it + 1 < iterations;
    if (more) fetch();

    for (int k = 0; k < ThreadblockShape::kK; k += 16) {
      wmma::fragment<wmma::matrix_a, 32, 8, 16, __nv_bfloat16, wmma::row_major> a;
      wmma::load_matrix_sync(a, &storage.main.a[stage][warp_m][k], kLds);
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 32, 8, 16, __nv_bfloat16, wmma::col_major> b;
        wmma::load_matrix_sync(b, &storage.main.b[stage][warp_n + j * 8][k], kLds);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }

    if (more) deposit(stage ^ 1);
    __syncthreads();
  }

  // Epilogue: through shared memory
  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(&storage.out[warp_m][warp_n + j * 8], acc[j], kLdOut, wmma::mem_row_major);
  __syncthreads();

  int const pixels = p.N * p.Z * p.P * p.Q;
  for (int i = threadIdx.x; i < ThreadblockShape::kM * ThreadblockShape::kN; i += kThreads) {
    int const r = i / ThreadblockShape::kN;
    int const c = i % ThreadblockShape::kN;
    int const m = m0 + r;
    int const k = n0 + c;
    if (m >= pixels || k >= p.K) continue;
    int64_t const offset = int64_t(m) * p.K + k;
    float value = fmaxf(p.alpha * storage.out[r][c] + p.bias[k], 0.0f);
    if (p.residual) value += __bfloat162float(p.residual[offset]);
    p.y[offset] = __float2bfloat16(value);
  }
}

}  // namespace volconv
