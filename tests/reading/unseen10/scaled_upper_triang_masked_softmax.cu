/* Fused scale + causal mask + softmax, one warp per row (or two rows), for attention scores [attn_batches, sq, sk]. */
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <assert.h>
#include <c10/macros/Macros.h>
#include <cuda_fp16.h>
#include <cfloat>
#include <limits>
#include <stdint.h>
#include <torch/extension.h>

namespace multihead_attn {
namespace fused_softmax {
namespace scaled_upper_triang_masked_softmax {

template <typename Datatype, int ELEMENTS_PER_LDG>
__device__ __inline__ void copy_vector(Datatype *dst, const Datatype *src);
template <>
__device__ __inline__ void copy_vector<__half, 1>(__half *dst, const __half *src) { *dst = *src; }
template <>
__device__ __inline__ void copy_vector<__half, 4>(__half *dst, const __half *src) { *((float2 *)dst) = *((float2 *)src); }

int log2_ceil(int value) {
  int log2_value = 0;
  while ((1 << log2_value) < value) ++log2_value;
  return log2_value;
}

template <typename T>
struct Add { __device__ __forceinline__ T operator()(T a, T b) const { return a + b; } };
template <typename T>
struct Max { __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; } };

template <typename acc_t, int WARP_BATCH, int WARP_SIZE, template <typename> class ReduceOp>
__device__ __forceinline__ void warp_reduce(acc_t *sum) {
  ReduceOp<acc_t> r;
#pragma unroll
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) {
      acc_t b = __shfl_xor_sync(0xffffffff, sum[i], offset, WARP_SIZE);
      sum[i] = r(sum[i], b);
    }
  }
}

template <typename input_t, typename output_t, typename acc_t, int log2_elements>
__global__ void scaled_upper_triang_masked_softmax_warp_forward(output_t *dst, const input_t *src, const acc_t scale,
                                                                int micro_batch_size, int stride, int element_count) {
  // WARP_SIZE and WARP_BATCH must match the return values batches_per_warp and warp_size of the dispatch method
  constexpr int next_power_of_two = 1 << log2_elements;
  constexpr int WARP_SIZE = (next_power_of_two < 32) ? next_power_of_two : 32;
  constexpr int WARP_ITERATIONS = next_power_of_two / WARP_SIZE;
  constexpr int WARP_BATCH = (next_power_of_two <= 128) ? 2 : 1;
  constexpr int ELEMENTS_PER_LDG_STG = (WARP_ITERATIONS < 4) ? 1 : 4;

  int first_batch = (blockDim.y * blockIdx.y + threadIdx.y) * gridDim.x * WARP_BATCH + blockIdx.x;
  int local_seq = blockIdx.x + 1;
  int warp_iteration_limit = (local_seq + ELEMENTS_PER_LDG_STG * WARP_SIZE - 1) / WARP_SIZE;

  int local_batches = micro_batch_size - first_batch;
  if (local_batches > WARP_BATCH) local_batches = WARP_BATCH;

  int local_idx = threadIdx.x;
  src += first_batch * stride + ELEMENTS_PER_LDG_STG * local_idx;
  dst += first_batch * stride + ELEMENTS_PER_LDG_STG * local_idx;

  acc_t elements[WARP_BATCH][WARP_ITERATIONS];
  input_t temp_data[ELEMENTS_PER_LDG_STG];
#pragma unroll
  for (int i = 0; i < WARP_BATCH; ++i) {
    int batch_element_count = (i >= local_batches) ? 0 : local_seq;
#pragma unroll
    for (int it = 0; it < WARP_ITERATIONS; it += ELEMENTS_PER_LDG_STG) {
      int element_index = ELEMENTS_PER_LDG_STG * local_idx + it * WARP_SIZE;
      if (element_index < batch_element_count) {
        copy_vector<input_t, ELEMENTS_PER_LDG_STG>(temp_data, src + i * element_count * stride + it * WARP_SIZE);
#pragma unroll
        for (int element = 0; element < ELEMENTS_PER_LDG_STG; ++element) {
          if ((element_index + element) < batch_element_count)
            elements[i][it + element] = (acc_t)temp_data[element] * scale;
          else
            elements[i][it + element] = -std::numeric_limits<acc_t>::infinity();
        }
      } else {
#pragma unroll
        for (int element = 0; element < ELEMENTS_PER_LDG_STG; ++element)
          elements[i][it + element] = -std::numeric_limits<acc_t>::infinity();
      }
    }
  }

  acc_t max_value[WARP_BATCH];
#pragma unroll
  for (int i = 0; i < WARP_BATCH; ++i) {
    max_value[i] = elements[i][0];
#pragma unroll
    for (int it = 1; it < WARP_ITERATIONS; ++it)
      max_value[i] = (max_value[i] > elements[i][it]) ? max_value[i] : elements[i][it];
  }
  warp_reduce<acc_t, WARP_BATCH, WARP_SIZE, Max>(max_value);

  acc_t sum[WARP_BATCH]{0.0f};
#pragma unroll
  for (int i = 0; i < WARP_BATCH; ++i) {
#pragma unroll
    for (int it = 0; it < WARP_ITERATIONS; ++it) {
      if (it < warp_iteration_limit) {
        elements[i][it] = std::exp((elements[i][it] - max_value[i]));
        sum[i] += elements[i][it];
      }
    }
  }
  warp_reduce<acc_t, WARP_BATCH, WARP_SIZE, Add>(sum);

  output_t out[ELEMENTS_PER_LDG_STG];
#pragma unroll
  for (int i = 0; i < WARP_BATCH; ++i) {
    if (i >= local_batches) break;
#pragma unroll
    for (int it = 0; it < WARP_ITERATIONS; it += ELEMENTS_PER_LDG_STG) {
      int element_index = ELEMENTS_PER_LDG_STG * local_idx + it * WARP_SIZE;
      if (element_index < local_seq) {
#pragma unroll
        for (int element = 0; element < ELEMENTS_PER_LDG_STG; ++element)
          out[element] = (element_index + element < local_seq) ? output_t(elements[i][it + element] / sum[i]) : output_t(0.f);
        copy_vector<output_t, ELEMENTS_PER_LDG_STG>(dst + i * element_count * stride + it * WARP_SIZE, out);
      } else if (element_index < element_count) {
#pragma unroll
        for (int element = 0; element < ELEMENTS_PER_LDG_STG; ++element) out[element] = output_t(0.f);
        copy_vector<output_t, ELEMENTS_PER_LDG_STG>(dst + i * element_count * stride + it * WARP_SIZE, out);
      } else {
        break;
      }
    }
  }
}

}  // namespace scaled_upper_triang_masked_softmax
}  // namespace fused_softmax
}  // namespace multihead_attn

using namespace multihead_attn::fused_softmax::scaled_upper_triang_masked_softmax;

template <typename input_t, typename output_t, typename acc_t>
void dispatch_scaled_upper_triang_masked_softmax_forward(output_t *dst, const input_t *src, const input_t scale,
                                                         int softmax_elements, int softmax_elements_stride,
                                                         int attn_batches) {
  TORCH_INTERNAL_ASSERT(softmax_elements >= 0 && softmax_elements <= 1024);
  if (softmax_elements == 0) {
    return;
  } else {
    int log2_elements = log2_ceil(softmax_elements);
    const int next_power_of_two = 1 << log2_elements;
    int seq_len = softmax_elements;
    int batch_count = attn_batches * seq_len;
    int warp_size = (next_power_of_two < C10_WARP_SIZE) ? next_power_of_two : C10_WARP_SIZE;
    int batches_per_warp = (next_power_of_two <= 128) ? 2 : 1;
    constexpr int threads_per_block = 128;

    int warps_per_block = (threads_per_block / warp_size);
    int batches_per_block = warps_per_block * batches_per_warp;
    TORCH_INTERNAL_ASSERT(attn_batches % batches_per_block == 0);
    int blocks_per_seq = attn_batches / batches_per_block;
    dim3 blocks(seq_len, blocks_per_seq, 1);
    dim3 threads(warp_size, warps_per_block, 1);
    switch (log2_elements) {
#define LAUNCH_CASE(L)                                                                                          \
  case L:                                                                                                       \
    scaled_upper_triang_masked_softmax_warp_forward<input_t, output_t, acc_t, L>                                \
        <<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(dst, src, scale, batch_count,                 \
                                                                   softmax_elements_stride, softmax_elements);   \
    break;
      LAUNCH_CASE(4)
      LAUNCH_CASE(5)
      LAUNCH_CASE(6)
      LAUNCH_CASE(7)
      LAUNCH_CASE(8)
      LAUNCH_CASE(9)
      LAUNCH_CASE(10)
      default:
        break;
    }
  }
}

torch::Tensor fwd_cuda(torch::Tensor const &input, float scale_factor) {
  // input is a 3d tensor with dimensions [attn_batches, seq_len, seq_len]
  const int attn_batches = input.size(0);
  const int seq_len = input.size(1);
  TORCH_INTERNAL_ASSERT(seq_len <= 1024 && seq_len % 4 == 0);

  auto act_options = input.options().requires_grad(false);
  torch::Tensor softmax_results = torch::empty({attn_batches, seq_len, seq_len}, act_options);

  void *input_ptr = static_cast<void *>(input.data_ptr());
  void *softmax_results_ptr = static_cast<void *>(softmax_results.data_ptr());
  dispatch_scaled_upper_triang_masked_softmax_forward<half, half, float>(
      reinterpret_cast<half *>(softmax_results_ptr), reinterpret_cast<const half *>(input_ptr), scale_factor, seq_len,
      seq_len, attn_batches);
  return softmax_results;
}
