// Depthwise causal 1-d convolution, channels second: x (batch, dim, seqlen), weight (dim, width), bias (dim)
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <torch/python.h>

struct ConvParamsBase {
    using index_t = uint32_t;
    int batch, dim, seqlen, width;
    bool silu_activation;
    index_t x_batch_stride;
    index_t x_c_stride;
    index_t x_l_stride;
    index_t weight_c_stride;
    index_t weight_width_stride;
    index_t out_batch_stride;
    index_t out_c_stride;
    index_t out_l_stride;
    void *__restrict__ x_ptr;
    void *__restrict__ weight_ptr;
    void *__restrict__ bias_ptr;
    void *__restrict__ out_ptr;
};

template <int kNThreads_, int kWidth_, typename input_t_, typename weight_t_>
struct Causal_conv1d_fwd_kernel_traits {
    using input_t = input_t_;
    using weight_t = weight_t_;
    static constexpr int kNThreads = kNThreads_;
    static constexpr int kWidth = kWidth_;
    static constexpr int kNBytes = sizeof(input_t);
    static constexpr int kNElts = 8;
    static constexpr int kChunk = kNThreads * kNElts;
    static constexpr int kSmemSize = kNThreads * kNElts * kNBytes;
};

template <typename Ktraits>
__global__ __launch_bounds__(Ktraits::kNThreads)
void causal_conv1d_fwd_kernel(ConvParamsBase params) {
    constexpr int kWidth = Ktraits::kWidth;
    constexpr int kNThreads = Ktraits::kNThreads;
    constexpr int kNElts = Ktraits::kNElts;
    using input_t = typename Ktraits::input_t;
    using weight_t = typename Ktraits::weight_t;

    extern __shared__ char smem_[];
    input_t *smem_tail = reinterpret_cast<input_t *>(smem_);   // last kNElts inputs of every thread

    const int tidx = threadIdx.x;
    const int batch_id = blockIdx.x;
    const int channel_id = blockIdx.y;
    input_t *x = reinterpret_cast<input_t *>(params.x_ptr) + batch_id * params.x_batch_stride + channel_id * params.x_c_stride;
    weight_t *weight = reinterpret_cast<weight_t *>(params.weight_ptr) + channel_id * params.weight_c_stride;
    input_t *out = reinterpret_cast<input_t *>(params.out_ptr) + batch_id * params.out_batch_stride + channel_id * params.out_c_stride;
    float bias_val = params.bias_ptr == nullptr ? 0.f : float(reinterpret_cast<weight_t *>(params.bias_ptr)[channel_id]);

    float weight_vals[kWidth];
    #pragma unroll
    for (int i = 0; i < kWidth; ++i) { weight_vals[i] = float(weight[i * params.weight_width_stride]); }

    input_t carry[kNElts];   // what thread kNThreads - 1 read in the previous chunk
    #pragma unroll
    for (int i = 0; i < kNElts; ++i) { carry[i] = input_t(0.f); }

    const int n_chunks = (params.seqlen + Ktraits::kChunk - 1) / Ktraits::kChunk;
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
        input_t x_vals_load[2 * kNElts];
        #pragma unroll
        for (int i = 0; i < kNElts; ++i) {
            const int l = chunk * Ktraits::kChunk + tidx * kNElts + i;
            x_vals_load[kNElts + i] = l < params.seqlen ? x[l] : input_t(0.f);
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < kNElts; ++i) { smem_tail[tidx * kNElts + i] = x_vals_load[kNElts + i]; }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < kNElts; ++i) {
            x_vals_load[i] = tidx > 0 ? smem_tail[(tidx - 1) * kNElts + i] : carry[i];
            carry[i] = smem_tail[(kNThreads - 1) * kNElts + i];
        }

        #pragma unroll
        for (int i = 0; i < kNElts; ++i) {
            float out_val = bias_val;
            #pragma unroll
            for (int w = 0; w < kWidth; ++w) {
                out_val += weight_vals[w] * float(x_vals_load[kNElts + i - (kWidth - w - 1)]);
            }
            if (params.silu_activation) { out_val = out_val / (1 + expf(-out_val)); }
            const int l = chunk * Ktraits::kChunk + tidx * kNElts + i;
            if (l < params.seqlen) { out[l] = input_t(out_val); }
        }
    }
}

template <int kNThreads, int kWidth, typename input_t, typename weight_t>
void causal_conv1d_fwd_launch(ConvParamsBase &params, cudaStream_t stream) {
    using Ktraits = Causal_conv1d_fwd_kernel_traits<kNThreads, kWidth, input_t, weight_t>;
    constexpr int kSmemSize = Ktraits::kSmemSize;
    dim3 grid(params.batch, params.dim);
    auto kernel = &causal_conv1d_fwd_kernel<Ktraits>;
    if (kSmemSize >= 48 * 1024) {
        C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemSize));
    }
    kernel<<<grid, Ktraits::kNThreads, kSmemSize, stream>>>(params);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename input_t, typename weight_t>
void causal_conv1d_fwd_cuda(ConvParamsBase &params, cudaStream_t stream) {
    if (params.width == 2) {
        causal_conv1d_fwd_launch<128, 2, input_t, weight_t>(params, stream);
    } else if (params.width == 3) {
        causal_conv1d_fwd_launch<128, 3, input_t, weight_t>(params, stream);
    } else if (params.width == 4) {
        causal_conv1d_fwd_launch<128, 4, input_t, weight_t>(params, stream);
    }
}

at::Tensor causal_conv1d_fwd(const at::Tensor &x, const at::Tensor &weight, const c10::optional<at::Tensor> &bias_,
                             bool silu_activation) {
    const int batch_size = x.size(0), dim = x.size(1), seqlen = x.size(2), width = weight.size(-1);
    TORCH_CHECK(width >= 2 && width <= 4, "causal_conv1d only supports width between 2 and 4");
    at::Tensor out = torch::empty_like(x);
    ConvParamsBase params = {};
    params.batch = batch_size;
    params.dim = dim;
    params.seqlen = seqlen;
    params.width = width;
    params.silu_activation = silu_activation;
    params.x_ptr = x.data_ptr();
    params.weight_ptr = weight.data_ptr();
    params.bias_ptr = bias_.has_value() ? bias_.value().data_ptr() : nullptr;
    params.out_ptr = out.data_ptr();
    params.x_batch_stride = x.stride(0);
    params.x_c_stride = x.stride(1);
    params.x_l_stride = x.stride(-1);
    params.weight_c_stride = weight.stride(0);
    params.weight_width_stride = weight.stride(1);
    params.out_batch_stride = out.stride(0);
    params.out_c_stride = out.stride(1);
    params.out_l_stride = out.stride(-1);
    at::cuda::CUDAGuard device_guard{(char)x.get_device()};
    auto stream = at::cuda::getCurrentCUDAStream().stream();
    causal_conv1d_fwd_cuda<__half, __half>(params, stream);
    return out;
}
