// out = softmax(scores * scale, masked by padding) x value, without writing the probabilities.
//   scores [batch, heads, q_len, k_len]  float, row-major, what the QK^T GEMM wrote
//   key_padding_mask [batch, k_len]      uint8, 1 where the key is padding, may be nullptr
//   value  [batch, heads, k_len, kDim]   half
//   out    [batch, heads, q_len, kDim]   half
// One online pass over the keys: running maximum and sum per row, accumulators are rescaled.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>

namespace attn {

constexpr int kRowsPerBlock = 16;
constexpr int kKeysPerStep = 32;
constexpr int kNumThreads = 64;

template <int kDim>
__global__ void MaskedSoftmaxBmmKernel(const float* __restrict__ scores, const uint8_t* __restrict__ key_padding_mask,
                                       const half* __restrict__ value, half* __restrict__ out, int num_heads, int q_len,
                                       int k_len, float scale) {
  using namespace nvcuda;
  __shared__ __align__(32) half probs[kRowsPerBlock][kKeysPerStep + 8];
  __shared__ __align__(32) half v_smem[kKeysPerStep][kDim + 8];
  __shared__ __align__(32) float acc_smem[kRowsPerBlock][kDim + 4];

  const int tid = threadIdx.x;
  const int warp = tid >> 5;
  const int q_base = blockIdx.x * kRowsPerBlock;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int64_t bh = (int64_t)batch * num_heads + head;
  const float* s_ptr = scores + bh * q_len * k_len;
  const half* v_ptr = value + bh * k_len * kDim;
  half* o_ptr = out + bh * q_len * kDim;

  // four neighbours share a row
  const int row = tid >> 2;
  const int quarter = tid & 3;
  const int q = q_base + row;
  float running_max = -1e30f;
  float running_sum = 0.f;

  for (int d = quarter; d < kDim; d += 4) acc_smem[row][d] = 0.f;

  for (int k_base = 0; k_base < k_len; k_base += kKeysPerStep) {
    float x[kKeysPerStep / 4];
    float local_max = running_max;
#pragma unroll
    for (int i = 0; i < kKeysPerStep / 4; ++i) {
      const int k = k_base + quarter + i * 4;
      bool keep = q < q_len && k < k_len;
      if (keep && key_padding_mask) keep = key_padding_mask[(int64_t)batch * k_len + k] == 0;
      x[i] = keep ? s_ptr[(int64_t)q * k_len + k] * scale : -INFINITY;
      local_max = fmaxf(local_max, x[i]);
    }
    local_max = fmaxf(local_max, __shfl_xor_sync(0xffffffffu, local_max, 1));
    local_max = fmaxf(local_max, __shfl_xor_sync(0xffffffffu, local_max, 2));

    float local_sum = 0.f;
#pragma unroll
    for (int i = 0; i < kKeysPerStep / 4; ++i) {
      const float p = __expf(x[i] - local_max);
      probs[row][quarter + i * 4] = __float2half(p);
      local_sum += p;
    }
    local_sum += __shfl_xor_sync(0xffffffffu, local_sum, 1);
    local_sum += __shfl_xor_sync(0xffffffffu, local_sum, 2);

    const float correction = __expf(running_max - local_max);
    running_sum = running_sum * correction + local_sum;
    running_max = local_max;
    for (int d = quarter; d < kDim; d += 4) acc_smem[row][d] *= correction;

    for (int i = tid; i < kKeysPerStep * kDim / 8; i += kNumThreads) {
      const int r = i / (kDim / 8), c = i % (kDim / 8) * 8;
      int4 chunk = make_int4(0, 0, 0, 0);
      if (k_base + r < k_len) chunk = *reinterpret_cast<const int4*>(v_ptr + (int64_t)(k_base + r) * kDim + c);
      *reinterpret_cast<int4*>(&v_smem[r][c]) = chunk;
    }
    __syncthreads();

    for (int d = warp * 16; d < kDim; d += 32) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, &acc_smem[0][d], kDim + 4, wmma::mem_row_major);
#pragma unroll
      for (int k = 0; k < kKeysPerStep; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
        wmma::load_matrix_sync(p_frag, &probs[0][k], kKeysPerStep + 8);
        wmma::load_matrix_sync(v_frag, &v_smem[k][d], kDim + 8);
        wmma::mma_sync(acc, p_frag, v_frag, acc);
      }
      wmma::store_matrix_sync(&acc_smem[0][d], acc, kDim + 4, wmma::mem_row_major);
    }
    __syncthreads();
  }

  if (q < q_len) {
    const float inv = running_sum > 0.f ? 1.f / running_sum : 0.f;
    for (int d = quarter; d < kDim; d += 4) o_ptr[(int64_t)q * kDim + d] = __float2half(acc_smem[row][d] * inv);
  }
}

template <int kDim>
cudaError_t LaunchMaskedSoftmaxBmm(const float* scores, const uint8_t* key_padding_mask, const half* value, half* out,
                                   int batch, int num_heads, int q_len, int k_len, float scale, cudaStream_t stream) {
  const dim3 grid((q_len + kRowsPerBlock - 1) / kRowsPerBlock, num_heads, batch);
  MaskedSoftmaxBmmKernel<kDim><<<grid, kNumThreads, 0, stream>>>(scores, key_padding_mask, value, out, num_heads, q_len,
                                                                 k_len, scale);
  return cudaGetLastError();
}

cudaError_t MaskedSoftmaxBmm(const float* scores, const uint8_t* key_padding_mask, const half* value, half* out, int batch,
                             int num_heads, int q_len, int k_len, int head_size, float scale, cudaStream_t stream) {
  switch (head_size) {
    case 32:
      return LaunchMaskedSoftmaxBmm<32>(scores, key_padding_mask, value, out, batch, num_heads, q_len, k_len, scale, stream);
    case 64:
      return LaunchMaskedSoftmaxBmm<64>(scores, key_padding_mask, value, out, batch, num_heads, q_len, k_len, scale, stream);
    case 128:
      return LaunchMaskedSoftmaxBmm<128>(scores, key_padding_mask, value, out, batch, num_heads, q_len, k_len, scale, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace attn
