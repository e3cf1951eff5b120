// Flash attention forward, one warp per 16 query rows, WMMA, causal and GQA. Params by struct.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

namespace fa {

struct Flash_fwd_params {
  const half* __restrict__ q_ptr;
  const half* __restrict__ k_ptr;
  const half* __restrict__ v_ptr;
  half* __restrict__ o_ptr;
  float* __restrict__ softmax_lse_ptr;
  // strides in elements
  int64_t q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
  int64_t q_row_stride, k_row_stride, v_row_stride, o_row_stride;
  int64_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;
  int b, h, h_k, h_h_k_ratio;
  int seqlen_q, seqlen_k, d;
  float scale_softmax;
  bool is_causal;
};

template <int kHeadDim>
__global__ void flash_fwd_kernel(const Flash_fwd_params params) {
  using namespace nvcuda;
  constexpr int kBlockM = 16, kBlockN = 16;
  __shared__ half sQ[kBlockM][kHeadDim];
  __shared__ half sK[kBlockN][kHeadDim];
  __shared__ half sV[kBlockN][kHeadDim];
  __shared__ float sS[kBlockM][kBlockN];
  __shared__ half sP[kBlockM][kBlockN];
  __shared__ float sPV[kBlockM][kHeadDim];
  __shared__ float sO[kBlockM][kHeadDim];
  __shared__ float row_max[kBlockM], row_sum[kBlockM], row_scale[kBlockM];

  const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
  const int lane = threadIdx.x;
  const int kv_h = bidh / params.h_h_k_ratio;
  const half* q = params.q_ptr + bidb * params.q_batch_stride + bidh * params.q_head_stride;
  const half* k = params.k_ptr + bidb * params.k_batch_stride + kv_h * params.k_head_stride;
  const half* v = params.v_ptr + bidb * params.v_batch_stride + kv_h * params.v_head_stride;
  half* o = params.o_ptr + bidb * params.o_batch_stride + bidh * params.o_head_stride;

  for (int i = lane; i < kBlockM * kHeadDim; i += 32) {
    int r = i / kHeadDim, c = i % kHeadDim, m = m_block * kBlockM + r;
    sQ[r][c] = m < params.seqlen_q ? q[m * params.q_row_stride + c] : __float2half(0.f);
    sO[r][c] = 0.f;
  }
  if (lane < kBlockM) {
    row_max[lane] = -INFINITY;
    row_sum[lane] = 0.f;
  }
  const int offset = params.seqlen_k - params.seqlen_q;
  int n_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
  if (params.is_causal) n_max = min(n_max, ((m_block + 1) * kBlockM + offset + kBlockN - 1) / kBlockN);
  for (int n_block = 0; n_block < n_max; ++n_block) {
    __syncwarp();
    for (int i = lane; i < kBlockN * kHeadDim; i += 32) {
      int r = i / kHeadDim, c = i % kHeadDim, n = n_block * kBlockN + r;
      bool in = n < params.seqlen_k;
      sK[r][c] = in ? k[n * params.k_row_stride + c] : __float2half(0.f);
      sV[r][c] = in ? v[n * params.v_row_stride + c] : __float2half(0.f);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fs;
    wmma::fill_fragment(fs, 0.f);
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::load_matrix_sync(fq, &sQ[0][d], kHeadDim);
      wmma::load_matrix_sync(fk, &sK[0][d], kHeadDim);
      wmma::mma_sync(fs, fq, fk, fs);
    }
    wmma::store_matrix_sync(&sS[0][0], fs, kBlockN, wmma::mem_row_major);
    __syncwarp();
    if (lane < kBlockM) {
      int m = m_block * kBlockM + lane;
      float mx = row_max[lane];
      for (int c = 0; c < kBlockN; ++c) {
        int n = n_block * kBlockN + c;
        float s = sS[lane][c] * params.scale_softmax;
        if (n >= params.seqlen_k || (params.is_causal && n > m + offset)) s = -INFINITY;
        sS[lane][c] = s;
        mx = fmaxf(mx, s);
      }
      float safe = mx == -INFINITY ? 0.f : mx;
      float corr = __expf(row_max[lane] - safe);
      float sum = row_sum[lane] * corr;
      for (int c = 0; c < kBlockN; ++c) {
        float p = __expf(sS[lane][c] - safe);
        sum += p;
        sP[lane][c] = __float2half(p);
      }
      row_max[lane] = mx;
      row_sum[lane] = sum;
      row_scale[lane] = corr;
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
    wmma::load_matrix_sync(fp, &sP[0][0], kBlockN);
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> fo;
      wmma::fill_fragment(fo, 0.f);
      wmma::load_matrix_sync(fv, &sV[0][d], kHeadDim);
      wmma::mma_sync(fo, fp, fv, fo);
      wmma::store_matrix_sync(&sPV[0][d], fo, kHeadDim, wmma::mem_row_major);
    }
    __syncwarp();
    for (int i = lane; i < kBlockM * kHeadDim; i += 32) {
      int r = i / kHeadDim, c = i % kHeadDim;
      sO[r][c] = sO[r][c] * row_scale[r] + sPV[r][c];
    }
  }
  __syncwarp();
  for (int i = lane; i < kBlockM * kHeadDim; i += 32) {
    int r = i / kHeadDim, c = i % kHeadDim, m = m_block * kBlockM + r;
    if (m < params.seqlen_q) o[m * params.o_row_stride + c] = __float2half(row_sum[r] > 0.f ? sO[r][c] / row_sum[r] : 0.f);
  }
  if (lane < kBlockM && m_block * kBlockM + lane < params.seqlen_q && params.softmax_lse_ptr)
    params.softmax_lse_ptr[((int64_t)bidb * params.h + bidh) * params.seqlen_q + m_block * kBlockM + lane] =
        row_max[lane] + logf(row_sum[lane]);
}

template <int kHeadDim>
void run_flash_fwd(Flash_fwd_params& params, cudaStream_t stream) {
  dim3 grid((params.seqlen_q + 15) / 16, params.b, params.h);
  flash_fwd_kernel<kHeadDim><<<grid, 32, 0, stream>>>(params);
}

}  // namespace fa

// q, o: [b, s, h, d]; k, v: [b, s_k, h_k, d]
void mha_fwd(const half* q, const half* k, const half* v, half* out, float* lse, int b, int seqlen_q, int seqlen_k, int h,
             int h_k, int d, float softmax_scale, bool is_causal, cudaStream_t stream) {
  fa::Flash_fwd_params p = {};
  p.q_ptr = q;
  p.k_ptr = k;
  p.v_ptr = v;
  p.o_ptr = out;
  p.softmax_lse_ptr = lse;
  p.q_row_stride = p.o_row_stride = (int64_t)h * d;
  p.k_row_stride = p.v_row_stride = (int64_t)h_k * d;
  p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = d;
  p.q_batch_stride = p.o_batch_stride = (int64_t)seqlen_q * h * d;
  p.k_batch_stride = p.v_batch_stride = (int64_t)seqlen_k * h_k * d;
  p.b = b;
  p.h = h;
  p.h_k = h_k;
  p.h_h_k_ratio = h / h_k;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  p.d = d;
  p.scale_softmax = softmax_scale;
  p.is_causal = is_causal;
  if (d == 64) fa::run_flash_fwd<64>(p, stream);
  else if (d == 32) fa::run_flash_fwd<32>(p, stream);
}
