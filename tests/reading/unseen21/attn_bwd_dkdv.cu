// Backward pass of scaled dot-product attention: gradients of keys and values.
//
//   P  = exp(scale * Q K^T - LSE)          recomputed from the forward's log-sum-exp
//   dV = P^T dO
//   dP = dO V^T
//   dS = P * (dP - delta),   delta_i = sum_d O_id dO_id
//   dK = scale * dS^T Q
//
// All of q, k, v, o, dout, dk, dv are [batch, heads, seqlen, 64] fp16, lse and delta [batch, heads, seqlen] fp32.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

#define HEAD_DIM 64
#define BLOCK_KV 64
#define BLOCK_Q 32
#define NTHREADS 128
#define LDH (HEAD_DIM + 8)
#define LDS (BLOCK_KV + 4)
#define LDP (BLOCK_KV + 8)

using namespace nvcuda;

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragAT = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major>;
using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using FragBT = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

struct __align__(128) SharedStorage {
  half k[BLOCK_KV * LDH];
  half v[BLOCK_KV * LDH];
  half q[BLOCK_Q * LDH];
  half dout[BLOCK_Q * LDH];
  float s[BLOCK_Q * LDS];
  float dp[BLOCK_Q * LDS];
  half p[BLOCK_Q * LDP];
  half ds[BLOCK_Q * LDP];
};

// one warp per row
__global__ void compute_delta_kernel(const half* __restrict__ out, const half* __restrict__ dout,
                                     float* __restrict__ delta, int rows) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.f;
  for (int d = lane; d < HEAD_DIM; d += 32)
    sum += __half2float(out[(int64_t)row * HEAD_DIM + d]) * __half2float(dout[(int64_t)row * HEAD_DIM + d]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (lane == 0) delta[row] = sum;
}

__device__ void load_tile(half* smem, const half* gmem, int rows, int valid_rows) {
  for (int i = threadIdx.x; i < rows * HEAD_DIM / 8; i += NTHREADS) {
    int r = i / (HEAD_DIM / 8), c = (i % (HEAD_DIM / 8)) * 8;
    float4 val = {0.f, 0.f, 0.f, 0.f};
    if (r < valid_rows) val = *(const float4*)(gmem + (int64_t)r * HEAD_DIM + c);
    *(float4*)(smem + r * LDH + c) = val;
  }
}

// a 64x64 gradient tile, one 16-row strip per warp, through shared memory to half
__device__ void store_grad(half* gmem, FragC (&acc)[4], float* scratch, int warp, int valid_rows, float scale) {
  const int lane = threadIdx.x % 32;
  float* strip = scratch + warp * 16 * 20;
  for (int n = 0; n < 4; n++) {
    wmma::store_matrix_sync(strip, acc[n], 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
      int r = i / 16, c = i % 16;
      if (warp * 16 + r < valid_rows)
        gmem[(int64_t)(warp * 16 + r) * HEAD_DIM + n * 16 + c] = __float2half(strip[r * 20 + c] * scale);
    }
    __syncwarp();
  }
}

__global__ void __launch_bounds__(NTHREADS)
attn_bwd_dkdv_kernel(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                     const half* __restrict__ dout, const float* __restrict__ lse, const float* __restrict__ delta,
                     half* __restrict__ dk, half* __restrict__ dv, int seqlen, float scale) {
  extern __shared__ __align__(128) char smem_buf[];
  SharedStorage& sm = *reinterpret_cast<SharedStorage*>(smem_buf);

  const int warp = threadIdx.x / 32;
  const int kv0 = blockIdx.x * BLOCK_KV;
  const int64_t bh = blockIdx.y;
  const int64_t offset = bh * seqlen * HEAD_DIM;
  q += offset;
  k += offset;
  v += offset;
  dout += offset;
  lse += bh * seqlen;
  delta += bh * seqlen;

  load_tile(sm.k, k + (int64_t)kv0 * HEAD_DIM, BLOCK_KV, seqlen - kv0);
  load_tile(sm.v, v + (int64_t)kv0 * HEAD_DIM, BLOCK_KV, seqlen - kv0);

  FragC acc_dk[4], acc_dv[4];
  for (int n = 0; n < 4; n++) {
    wmma::fill_fragment(acc_dk[n], 0.f);
    wmma::fill_fragment(acc_dv[n], 0.f);
  }

  for (int q0 = 0; q0 < seqlen; q0 += BLOCK_Q) {
    load_tile(sm.q, q + (int64_t)q0 * HEAD_DIM, BLOCK_Q, seqlen - q0);
    load_tile(sm.dout, dout + (int64_t)q0 * HEAD_DIM, BLOCK_Q, seqlen - q0);
    __syncthreads();

    // S = Q K^T and dP = dO V^T: each warp has 16 keys
    for (int m = 0; m < BLOCK_Q; m += 16) {
      FragC s_frag, dp_frag;
      wmma::fill_fragment(s_frag, 0.f);
      wmma::fill_fragment(dp_frag, 0.f);
      for (int d = 0; d < HEAD_DIM; d += 16) {
        FragA a;
        FragBT b;
        wmma::load_matrix_sync(a, sm.q + m * LDH + d, LDH);
        wmma::load_matrix_sync(b, sm.k + warp * 16 * LDH + d, LDH);
        wmma::mma_sync(s_frag, a, b, s_frag);
        wmma::load_matrix_sync(a, sm.dout + m * LDH + d, LDH);
        wmma::load_matrix_sync(b, sm.v + warp * 16 * LDH + d, LDH);
        wmma::mma_sync(dp_frag, a, b, dp_frag);
      }
      wmma::store_matrix_sync(sm.s + m * LDS + warp * 16, s_frag, LDS, wmma::mem_row_major);
      wmma::store_matrix_sync(sm.dp + m * LDS + warp * 16, dp_frag, LDS, wmma::mem_row_major);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < BLOCK_Q * BLOCK_KV; i += NTHREADS) {
      const int r = i / BLOCK_KV, c = i % BLOCK_KV;
      float p = 0.f, ds = 0.f;
      if (q0 + r < seqlen && kv0 + c < seqlen) {
        p = __expf(scale * sm.s[r * LDS + c] - lse[q0 + r]);
        ds = p * (sm.dp[r * LDS + c] - delta[q0 + r]);
      }
      sm.p[r * LDP + c] = __float2half(p);
      sm.ds[r * LDP + c] = __float2half(ds);
    }
    __syncthreads();

    // dV += P^T dO, dK += dS^T Q: each warp has the rows of its 16 keys
    for (int m = 0; m < BLOCK_Q; m += 16) {
      FragAT pt, dst;
      wmma::load_matrix_sync(pt, sm.p + m * LDP + warp * 16, LDP);
      wmma::load_matrix_sync(dst, sm.ds + m * LDP + warp * 16, LDP);
      for (int n = 0; n < 4; n++) {
        FragB b;
        wmma::load_matrix_sync(b, sm.dout + m * LDH + n * 16, LDH);
        wmma::mma_sync(acc_dv[n], pt, b, acc_dv[n]);
        wmma::load_matrix_sync(b, sm.q + m * LDH + n * 16, LDH);
        wmma::mma_sync(acc_dk[n], dst, b, acc_dk[n]);
      }
    }
    __syncthreads();
  }

  store_grad(dv + offset + (int64_t)kv0 * HEAD_DIM, acc_dv, sm.s, warp, seqlen - kv0, 1.f);
  store_grad(dk + offset + (int64_t)kv0 * HEAD_DIM, acc_dk, sm.s, warp, seqlen - kv0, scale);
}

std::vector<torch::Tensor> attention_backward_dkdv(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor o,
                                                   torch::Tensor dout, torch::Tensor lse) {
  TORCH_CHECK(q.is_cuda() && q.dtype() == torch::kHalf, "q must be a half CUDA tensor");
  TORCH_CHECK(q.size(3) == HEAD_DIM, "head dim must be 64");
  const int batch = q.size(0), heads = q.size(1), seqlen = q.size(2);
  auto delta = torch::empty_like(lse);
  auto dk = torch::empty_like(k);
  auto dv = torch::empty_like(v);
  auto stream = at::cuda::getCurrentCUDAStream();

  const int rows = batch * heads * seqlen;
  compute_delta_kernel<<<(rows + 3) / 4, 128, 0, stream>>>((half*)o.data_ptr(), (half*)dout.data_ptr(),
                                                          delta.data_ptr<float>(), rows);
  dim3 grid((seqlen + BLOCK_KV - 1) / BLOCK_KV, batch * heads);
  cudaFuncSetAttribute(attn_bwd_dkdv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedStorage));
  attn_bwd_dkdv_kernel<<<grid, NTHREADS, sizeof(SharedStorage), stream>>>(
      (half*)q.data_ptr(), (half*)k.data_ptr(), (half*)v.data_ptr(), (half*)dout.data_ptr(), lse.data_ptr<float>(),
      delta.data_ptr<float>(), (half*)dk.data_ptr(), (half*)dv.data_ptr(), seqlen, 1.0f / sqrtf(HEAD_DIM));
  return {dk, dv};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward_dkdv", &attention_backward_dkdv); }
