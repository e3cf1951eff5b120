// A small flash attention forward pass with tensor cores. q, k, v: [batch, heads, seq, 64], fp16. One warp works on
// 16 rows of Q, a block has four of them; the scores and the output live in shared memory as float.
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

constexpr int kHeadDim = 64;
constexpr int Br = 16;
constexpr int Bc = 32;
constexpr int kWarps = 4;

namespace wmma = nvcuda::wmma;

__global__ void forward_kernel(const half* Q, const half* K, const half* V, const int N, const int d, const int Tc,
                               const float softmax_scale, float* l, float* m, half* O) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int bx = blockIdx.x, by = blockIdx.y;  // batch and head index
  const int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);
  const int lm_offset = (bx * gridDim.y * N) + (by * N);
  const int row0 = (blockIdx.z * kWarps + warp) * Br;

  __shared__ half Kj[Bc * kHeadDim];
  __shared__ half Vj[Bc * kHeadDim];
  __shared__ float S[kWarps][Br * Bc];
  __shared__ half P[kWarps][Br * Bc];
  __shared__ float Oi[kWarps][Br * kHeadDim];

  float row_m = -INFINITY, row_l = 0.f;  // lanes 0..15 keep the statistics of a row each
  for (int x = lane; x < Br * kHeadDim; x += 32) Oi[warp][x] = 0.f;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qf[kHeadDim / 16];
  const bool active = row0 < N;
  if (active)
    for (int x = 0; x < kHeadDim / 16; x++)
      wmma::load_matrix_sync(qf[x], Q + qkv_offset + row0 * d + x * 16, d);

  for (int j = 0; j < Tc; j++) {
    __syncthreads();
    for (int x = threadIdx.x * 8; x < Bc * kHeadDim; x += blockDim.x * 8) {
      *reinterpret_cast<float4*>(Kj + x) = *reinterpret_cast<const float4*>(K + qkv_offset + Bc * d * j + x);
      *reinterpret_cast<float4*>(Vj + x) = *reinterpret_cast<const float4*>(V + qkv_offset + Bc * d * j + x);
    }
    __syncthreads();
    if (!active) continue;

    // S = Q K^T
    for (int y = 0; y < Bc / 16; y++) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> sf;
      wmma::fill_fragment(sf, 0.f);
      for (int x = 0; x < kHeadDim / 16; x++) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kf;
        wmma::load_matrix_sync(kf, Kj + y * 16 * kHeadDim + x * 16, kHeadDim);
        wmma::mma_sync(sf, qf[x], kf, sf);
      }
      wmma::store_matrix_sync(&S[warp][y * 16], sf, Bc, wmma::mem_row_major);
    }
    __syncwarp();

    if (lane < Br) {
      float row_m_new = row_m;
      for (int y = 0; y < Bc; y++) {
        S[warp][lane * Bc + y] *= softmax_scale;
        row_m_new = fmaxf(row_m_new, S[warp][lane * Bc + y]);
      }
      float sum = 0.f;
      for (int y = 0; y < Bc; y++) {
        float p = __expf(S[warp][lane * Bc + y] - row_m_new);
        sum += p;
        P[warp][lane * Bc + y] = __float2half(p);
      }
      const float rescale = __expf(row_m - row_m_new);
      for (int x = 0; x < kHeadDim; x++) Oi[warp][lane * kHeadDim + x] *= rescale;
      row_l = rescale * row_l + sum;
      row_m = row_m_new;
    }
    __syncwarp();

    // O += P V
    for (int x = 0; x < kHeadDim / 16; x++) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> of;
      wmma::load_matrix_sync(of, &Oi[warp][x * 16], kHeadDim, wmma::mem_row_major);
      for (int y = 0; y < Bc / 16; y++) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vf;
        wmma::load_matrix_sync(pf, &P[warp][y * 16], Bc);
        wmma::load_matrix_sync(vf, Vj + y * 16 * kHeadDim + x * 16, kHeadDim);
        wmma::mma_sync(of, pf, vf, of);
      }
      wmma::store_matrix_sync(&Oi[warp][x * 16], of, kHeadDim, wmma::mem_row_major);
    }
    __syncwarp();
  }

  if (active && lane < Br) {
    for (int x = 0; x < kHeadDim; x++)
      O[qkv_offset + (row0 + lane) * d + x] = __float2half(Oi[warp][lane * kHeadDim + x] / row_l);
    l[lm_offset + row0 + lane] = row_l;
    m[lm_offset + row0 + lane] = row_m;
  }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  CHECK_INPUT(Q);
  CHECK_INPUT(K);
  CHECK_INPUT(V);
  const int B = Q.size(0);
  const int nh = Q.size(1);
  const int N = Q.size(2);
  const int d = Q.size(3);
  TORCH_CHECK(d == kHeadDim, "head dim must be 64");
  TORCH_CHECK(N % Bc == 0, "sequence length must be a multiple of 32");

  const int Tc = ceil((float)N / Bc);
  const float softmax_scale = 1.0 / sqrt(d);

  auto O = torch::zeros_like(Q);
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(Q.device());
  auto l = torch::zeros({B, nh, N}, options);
  auto m = torch::full({B, nh, N}, -INFINITY, options);

  dim3 grid_dim(B, nh, (N + Br * kWarps - 1) / (Br * kWarps));
  dim3 block_dim(32 * kWarps);
  forward_kernel<<<grid_dim, block_dim>>>(
      reinterpret_cast<half*>(Q.data_ptr<at::Half>()), reinterpret_cast<half*>(K.data_ptr<at::Half>()),
      reinterpret_cast<half*>(V.data_ptr<at::Half>()), N, d, Tc, softmax_scale, l.data_ptr<float>(),
      m.data_ptr<float>(), reinterpret_cast<half*>(O.data_ptr<at::Half>()));
  return O;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", torch::wrap_pybind_function(forward), "forward");
}
