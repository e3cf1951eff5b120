// Batched small complex products  C[b] = A[b] * B[b]^H  (n x n, n <= 16), one warp per matrix.
//
// Complex numbers are interleaved: A, B as half2 (re, im), C as float2.  With
//   Re C = Ar Br^T + Ai Bi^T,    Im C = Ai Br^T - Ar Bi^T
// a product is four real ones on tensor cores; the minus comes from negating the fragment of Ar.
// The grid is persistent: warp w of the grid takes matrices w, w + (warps of the grid), ...

#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

template <int N_MAX = 16, int WARPS = 4>
class SmallComplexGemm {
 public:
  static constexpr int kLdh = N_MAX + 8;     // of a plane in half
  static constexpr int kLdf = N_MAX + 4;     // of a plane in float

  struct WarpStorage {
    alignas(32) half a_re[N_MAX * kLdh];
    alignas(32) half a_im[N_MAX * kLdh];
    alignas(32) half b_re[N_MAX * kLdh];
    alignas(32) half b_im[N_MAX * kLdh];
    alignas(32) float c_re[N_MAX * kLdf];
    alignas(32) float c_im[N_MAX * kLdf];
  };

  using Storage = WarpStorage[WARPS];
  using FA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
  using FB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
  using FC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

  __device__ SmallComplexGemm(WarpStorage &s, int n) : s_(s), n_(n), lane_(threadIdx.x & 31) {}

  __device__ void load(const half2 *a, const half2 *b) {
    auto split = [this](const half2 *src, half *re, half *im) {
      for (int e = lane_; e < N_MAX * N_MAX; e += 32) {
        const int r = e / N_MAX, c = e % N_MAX;
        half2 v = __floats2half2_rn(0.f, 0.f);
        if (r < n_ && c < n_) v = src[r * n_ + c];
        re[r * kLdh + c] = __low2half(v);
        im[r * kLdh + c] = __high2half(v);
      }
    };
    split(a, s_.a_re, s_.a_im);
    split(b, s_.b_re, s_.b_im);
    __syncwarp();
  }

  __device__ void multiply() {
    FA ar, ai;
    FB br, bi;
    wmma::load_matrix_sync(ar, s_.a_re, kLdh);
    wmma::load_matrix_sync(ai, s_.a_im, kLdh);
    wmma::load_matrix_sync(br, s_.b_re, kLdh);
    wmma::load_matrix_sync(bi, s_.b_im, kLdh);

    FC re, im;
    wmma::fill_fragment(re, 0.f);
    wmma::fill_fragment(im, 0.f);
    wmma::mma_sync(re, ar, br, re);
    wmma::mma_sync(re, ai, bi, re);
    wmma::mma_sync(im, ai, br, im);
    for (int i = 0; i < ar.num_elements; ++i) ar.x[i] = __hneg(ar.x[i]);
    wmma::mma_sync(im, ar, bi, im);

    wmma::store_matrix_sync(s_.c_re, re, kLdf, wmma::mem_row_major);
    wmma::store_matrix_sync(s_.c_im, im, kLdf, wmma::mem_row_major);
    __syncwarp();
  }

  __device__ void store(float2 *c, float scale) {
    for (int e = lane_; e < n_ * n_; e += 32) {
      const int row = e / n_, col = e % n_;
      c[e] = make_float2(scale * s_.c_re[row * kLdf + col], scale * s_.c_im[row * kLdf + col]);
    }
    __syncwarp();
  }

  // sum over the diagonal, to every lane
  __device__ float2 trace() const {
    float re = lane_ < n_ ? s_.c_re[lane_ * kLdf + lane_] : 0.f;
    float im = lane_ < n_ ? s_.c_im[lane_ * kLdf + lane_] : 0.f;
    for (int d = 8; d >= 1; d >>= 1) {
      re += __shfl_xor_sync(0xffffffffu, re, d);
      im += __shfl_xor_sync(0xffffffffu, im, d);
    }
    return make_float2(re, im);
  }

 private:
  WarpStorage &s_;
  const int n_;
  const int lane_;
};

// traces[b] gets the trace of the unscaled product
template <int WARPS>
__global__ void cgemm_abh(const half2 *__restrict__ A, const half2 *__restrict__ B, float2 *__restrict__ C,
                          float2 *__restrict__ traces, const float *__restrict__ scale, int n, int batch) {
  using Gemm = SmallComplexGemm<16, WARPS>;
  __shared__ typename Gemm::Storage storage;

  const int warp = threadIdx.x / 32;
  Gemm gemm(storage[warp], n);
  const size_t elems = (size_t)n * n;

  for (int b = blockIdx.x * WARPS + warp; b < batch; b += gridDim.x * WARPS) {
    gemm.load(A + b * elems, B + b * elems);
    gemm.multiply();
    const float2 tr = gemm.trace();
    if (threadIdx.x % 32 == 0) traces[b] = tr;
    gemm.store(C + b * elems, scale[b]);
  }
}

template __global__ void cgemm_abh<4>(const half2 *, const half2 *, float2 *, float2 *, const float *, int, int);

void cgemm_batched(const half2 *A, const half2 *B, float2 *C, float2 *traces, const float *scale, int n, int batch,
                   int sms, cudaStream_t stream) {
  cgemm_abh<4><<<sms, 128, 0, stream>>>(A, B, C, traces, scale, n, batch);
}
