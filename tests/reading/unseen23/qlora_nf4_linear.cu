// y = x @ dequant(W)^T + scaling * (x @ A^T) @ B^T      (+ bias)
//
// W is frozen in 4 bit NormalFloat with blocks of 64 along the input features, as bitsandbytes stores it: two codes in a
// byte, the first one in the high nibble. A and B are the LoRA factors. Inference only, fp16.
#include <torch/extension.h>

#include <cuda_fp16.h>
#include <mma.h>
#include <ATen/cuda/CUDAContext.h>

#include <optional>

namespace {

namespace wmma = nvcuda::wmma;
using half_t = __half;

constexpr int kBlockSize = 64;  // of the quantization
constexpr int kTileM = 64, kTileN = 64, kTileK = kBlockSize;
constexpr int kStride = kTileK + 8;

__constant__ float kNF4[16] = {-1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f};

// t = scaling * x @ A^T, 16 rows per block. The four warps share out the input features and add up at the end.
template <int kRank>
__global__ void lora_down_kernel(const half_t* x, const half_t* lora_a, half_t* t, int rows, int in_features,
                                 float scaling) {
  __shared__ __align__(32) half_t xs[4][16][16];
  __shared__ __align__(32) float part[4][16][kRank];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = blockIdx.x * 16;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kRank / 16];
  for (auto& f : acc) wmma::fill_fragment(f, 0.f);

  for (int k = warp * 16; k < in_features; k += 64) {
    for (int i = lane; i < 256; i += 32) {
      const int r = i / 16, c = i % 16;
      xs[warp][r][c] = row0 + r < rows ? x[(size_t)(row0 + r) * in_features + k + c] : __float2half(0.f);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half_t, wmma::row_major> fx;
    wmma::load_matrix_sync(fx, &xs[warp][0][0], 16);
    for (int j = 0; j < kRank / 16; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half_t, wmma::col_major> fa;
      wmma::load_matrix_sync(fa, lora_a + (size_t)j * 16 * in_features + k, in_features);
      wmma::mma_sync(acc[j], fx, fa, acc[j]);
    }
    __syncwarp();
  }
  for (int j = 0; j < kRank / 16; ++j)
    wmma::store_matrix_sync(&part[warp][0][j * 16], acc[j], kRank, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < 16 * kRank; i += blockDim.x) {
    const int r = i / kRank, c = i % kRank;
    if (row0 + r < rows)
      t[(size_t)(row0 + r) * kRank + c] =
          __float2half(scaling * (part[0][r][c] + part[1][r][c] + part[2][r][c] + part[3][r][c]));
  }
}

__device__ __forceinline__ void copy_rows(half_t (*dst)[kStride], const half_t* src, int first, int limit, int ld,
                                          int width) {
  const int vecs = width / 8;
  for (int i = threadIdx.x; i < 64 * vecs; i += blockDim.x) {
    const int r = i / vecs, c = i % vecs * 8;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first + r < limit) v = *reinterpret_cast<const float4*>(src + (size_t)(first + r) * ld + c);
    *reinterpret_cast<float4*>(&dst[r][c]) = v;
  }
}

template <int kRank>
__global__ void __launch_bounds__(128)
    nf4_lora_kernel(const half_t* x, const uint8_t* w, const float* absmax, const half_t* t, const half_t* lora_b,
                    const half_t* bias, half_t* y, int rows, int out_features, int in_features) {
  static_assert(kRank % 16 == 0 && kRank <= kTileK, "the LoRA step uses the same tiles");
  __shared__ union {
    struct {
      __align__(32) half_t x[kTileM][kStride];
      __align__(32) half_t w[kTileN][kStride];
    } in;
    __align__(32) float out[kTileM][kTileN + 4];
  } sm;

  const int row0 = blockIdx.x * kTileM, col0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x / 32;
  const int wr = warp / 2 * 32, wc = warp % 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  auto multiply = [&](int depth) {
    for (int k = 0; k < depth; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half_t, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half_t, wmma::col_major> b[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], &sm.in.x[wr + i * 16][k], kStride);
        wmma::load_matrix_sync(b[i], &sm.in.w[wc + i * 16][k], kStride);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
  };

  const int blocks_per_row = in_features / kBlockSize;
  for (int kb = 0; kb < blocks_per_row; ++kb) {
    copy_rows(sm.in.x, x + kb * kTileK, row0, rows, in_features, kTileK);
    // one thread expands half a quantization block: 16 bytes, 32 weights
    const int r = threadIdx.x / 2, c = threadIdx.x % 2 * 32;
    if (col0 + r < out_features) {
      const float scale = absmax[(size_t)(col0 + r) * blocks_per_row + kb];
      const uint8_t* src = w + ((size_t)(col0 + r) * in_features + kb * kTileK + c) / 2;
      for (int i = 0; i < 16; ++i) {
        sm.in.w[r][c + 2 * i] = __float2half(kNF4[src[i] >> 4] * scale);
        sm.in.w[r][c + 2 * i + 1] = __float2half(kNF4[src[i] & 0xf] * scale);
      }
    } else {
      for (int i = 0; i < 32; ++i) sm.in.w[r][c + i] = __float2half(0.f);
    }
    __syncthreads();
    multiply(kTileK);
    __syncthreads();
  }

  // the low rank part is kRank more columns of x and of W
  copy_rows(sm.in.x, t, row0, rows, kRank, kRank);
  copy_rows(sm.in.w, lora_b, col0, out_features, kRank, kRank);
  __syncthreads();
  multiply(kRank);
  __syncthreads();

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&sm.out[wr + i * 16][wc + j * 16], acc[i][j], kTileN + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTileM * kTileN; i += blockDim.x) {
    const int r = i / kTileN, c = i % kTileN;
    if (row0 + r < rows && col0 + c < out_features) {
      const float b = bias ? __half2float(bias[col0 + c]) : 0.f;
      y[(size_t)(row0 + r) * out_features + col0 + c] = __float2half(sm.out[r][c] + b);
    }
  }
}

const half_t* ptr(const at::Tensor& t) { return reinterpret_cast<const half_t*>(t.data_ptr<at::Half>()); }

template <int kRank>
void run(const at::Tensor& x, const at::Tensor& w, const at::Tensor& absmax, const at::Tensor& lora_a,
         const at::Tensor& lora_b, const half_t* bias, float scaling, at::Tensor& t, at::Tensor& y) {
  const int rows = x.size(0), in_features = x.size(1), out_features = lora_b.size(0);
  auto stream = at::cuda::getCurrentCUDAStream();
  half_t* tp = reinterpret_cast<half_t*>(t.data_ptr<at::Half>());
  lora_down_kernel<kRank><<<(rows + 15) / 16, 128, 0, stream>>>(ptr(x), ptr(lora_a), tp, rows, in_features, scaling);
  dim3 grid((rows + kTileM - 1) / kTileM, (out_features + kTileN - 1) / kTileN);
  nf4_lora_kernel<kRank><<<grid, 128, 0, stream>>>(ptr(x), w.data_ptr<uint8_t>(), absmax.data_ptr<float>(), tp,
                                                   ptr(lora_b), bias,
                                                   reinterpret_cast<half_t*>(y.data_ptr<at::Half>()), rows,
                                                   out_features, in_features);
}

}  // namespace

// x [rows, in] half; w [out, in / 2] uint8; absmax [out, in / 64] float; lora_a [rank, in] half; lora_b [out, rank] half
at::Tensor nf4_lora_linear(at::Tensor x, at::Tensor w, at::Tensor absmax, at::Tensor lora_a, at::Tensor lora_b,
                           std::optional<at::Tensor> bias, double scaling) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous() && x.scalar_type() == at::kHalf, "x must be a contiguous half matrix");
  TORCH_CHECK(x.size(1) % kBlockSize == 0, "in_features must be a multiple of ", kBlockSize);
  TORCH_CHECK(w.size(0) == lora_b.size(0) && w.size(1) * 2 == x.size(1), "the shape of the packed weight is wrong");
  auto t = at::empty({x.size(0), lora_a.size(0)}, x.options());
  auto y = at::empty({x.size(0), lora_b.size(0)}, x.options());
  const half_t* bias_ptr = bias.has_value() ? ptr(*bias) : nullptr;
  switch (lora_a.size(0)) {
    case 16: run<16>(x, w, absmax, lora_a, lora_b, bias_ptr, scaling, t, y); break;
    case 32: run<32>(x, w, absmax, lora_a, lora_b, bias_ptr, scaling, t, y); break;
    case 64: run<64>(x, w, absmax, lora_a, lora_b, bias_ptr, scaling, t, y); break;
    default: TORCH_CHECK(false, "rank must be 16, 32 or 64");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("nf4_lora_linear", &nf4_lora_linear); }
