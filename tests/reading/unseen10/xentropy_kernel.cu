// Fused label-smoothing softmax cross entropy, forward. One block per sample.
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>
#include <cuda_fp16.h>
#include <torch/extension.h>

using Tensor = at::Tensor;
#define ILP 4

template <typename T>
struct AddOp { __device__ __forceinline__ T operator()(const T& a, const T& b) const { return a + b; } };
template <typename T>
struct MaxOp { __device__ __forceinline__ T operator()(const T& a, const T& b) const { return fmaxf(a, b); } };

template <template <typename> class Reduction, typename AccumT>
__device__ __forceinline__ AccumT blockReduce(AccumT* smem, AccumT val, const Reduction<AccumT>& r, AccumT defaultVal) {
  // To avoid RaW races from chaining blockReduce calls together, we need a sync here
  __syncthreads();
  smem[threadIdx.x] = val;
  __syncthreads();
  AccumT warpVal = defaultVal;
  // First warp will perform per-warp reductions for the remaining warps
  uint32_t mask = (((uint64_t)1) << (blockDim.x / 32)) - 1;
  if (threadIdx.x < 32) {
    int lane = threadIdx.x % 32;
    if (lane < blockDim.x / 32) {
#pragma unroll
      for (int i = 0; i < 32; ++i) warpVal = r(warpVal, smem[lane * 32 + i]);
      __syncwarp(mask);
      smem[lane] = warpVal;
    }
  }
  __syncthreads();
  // First thread will perform a reduction of the above per-warp reductions
  AccumT blockVal = defaultVal;
  if (threadIdx.x == 0) {
    for (int i = 0; i < blockDim.x / 32; ++i) blockVal = r(blockVal, smem[i]);
    smem[0] = blockVal;
  }
  __syncthreads();
  return smem[0];
}

template <typename scalar_t, typename accscalar_t, typename outscalar_t>
__global__ void cunn_SoftMaxXEntropyForward(accscalar_t* losses, outscalar_t* max_log_sum_exp, scalar_t* input,
                                            int64_t* labels, int64_t classes, const float smoothing) {
  extern __shared__ unsigned char smem[];
  auto sdata = reinterpret_cast<accscalar_t*>(smem);
  // forward pointers to batch[blockIdx.x]; each block handles a sample in the mini-batch
  input += blockIdx.x * classes;
  int64_t label = labels[blockIdx.x];

  accscalar_t threadMax = -FLT_MAX, threadSum = 0.f;
  for (int64_t offset = threadIdx.x; offset < classes; offset += blockDim.x) {
    const accscalar_t v = static_cast<accscalar_t>(input[offset]);
    threadMax = fmaxf(threadMax, v);
    threadSum += v;
  }
  accscalar_t max_k = blockReduce<MaxOp, accscalar_t>(sdata, threadMax, MaxOp<accscalar_t>(), -FLT_MAX);
  accscalar_t sum_k = blockReduce<AddOp, accscalar_t>(sdata, threadSum, AddOp<accscalar_t>(), 0.f);

  accscalar_t threadExp = 0.f;
  for (int64_t offset = threadIdx.x; offset < classes; offset += blockDim.x)
    threadExp += std::exp(static_cast<accscalar_t>(input[offset]) - max_k);
  accscalar_t sumAll = blockReduce<AddOp, accscalar_t>(sdata, threadExp, AddOp<accscalar_t>(), 0.f);

  if (threadIdx.x == 0) {
    accscalar_t logsum = max_k + std::log(sumAll);
    accscalar_t log_prob = static_cast<accscalar_t>(input[label]) - logsum;
    losses[blockIdx.x] = (logsum - sum_k / classes) * smoothing - log_prob * (1 - smoothing);
    max_log_sum_exp[blockIdx.x] = logsum;
  }
}

inline dim3 SoftMax_getBlockSize(int ILP_, uint64_t dim_size) {
  uint64_t block_size = 1;
  uint64_t max_block_size = std::min(dim_size / ILP_, static_cast<uint64_t>(1024));
  while (block_size < (max_block_size / 2)) block_size *= 2;
  // Launch at least a single warp - the kernel assumes that.
  block_size = std::max(block_size, static_cast<uint64_t>(32));
  return dim3(block_size);
}

std::vector<Tensor> softmax_xentropy_cuda(const Tensor& input_, const Tensor& labels_, const float smoothing) {
  AT_ASSERTM(labels_.scalar_type() == at::ScalarType::Long, "Label type should be CUDA Long");
  auto input = input_.contiguous();
  Tensor max_log_sum_exp = at::empty_like(labels_, input.options().dtype(at::ScalarType::Float));
  Tensor losses = at::empty_like(labels_, input_.options().dtype(at::ScalarType::Float));

  AT_ASSERTM(input.dim() == 2, "Currently only 2 dim input supported");
  AT_ASSERTM(input.size(0) == labels_.size(0), "Input and label should have same number of examples");
  int64_t outer_size = input.size(0);
  int64_t dim_size = input.size(1);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  dim3 grid(outer_size);
  dim3 block = SoftMax_getBlockSize(ILP, dim_size);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "host_softmax_xentropy", [&] {
    using accscalar_t = at::acc_type<scalar_t, true>;
    cunn_SoftMaxXEntropyForward<scalar_t, accscalar_t, accscalar_t>
        <<<grid, block, block.x * sizeof(accscalar_t), stream>>>(
            losses.data_ptr<accscalar_t>(), max_log_sum_exp.data_ptr<accscalar_t>(), input.data_ptr<scalar_t>(),
            labels_.data_ptr<int64_t>(), dim_size, smoothing);
  });
  C10_CUDA_CHECK(cudaGetLastError());
  return {losses, max_log_sum_exp};
}
