// Selective state space scan (S6), forward. One warp per (batch, channel); lanes scan a chunk of 32 time steps.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define CHECK_SHAPE(x, ...) TORCH_CHECK(x.sizes() == torch::IntArrayRef({__VA_ARGS__}), #x " must have shape (" #__VA_ARGS__ ")")

#define BOOL_SWITCH(COND, CONST_NAME, ...)      \
    [&] {                                       \
        if (COND) {                             \
            constexpr bool CONST_NAME = true;   \
            return __VA_ARGS__();               \
        } else {                                \
            constexpr bool CONST_NAME = false;  \
            return __VA_ARGS__();               \
        }                                       \
    }()

struct SSMParamsBase {
    using index_t = uint32_t;

    int batch, dim, seqlen, dstate;
    bool delta_softplus;

    index_t u_batch_stride;
    index_t u_d_stride;
    index_t delta_batch_stride;
    index_t delta_d_stride;
    index_t B_batch_stride;
    index_t C_batch_stride;
    index_t out_batch_stride;
    index_t out_d_stride;

    void *__restrict__ A_ptr;
    void *__restrict__ B_ptr;
    void *__restrict__ C_ptr;
    void *__restrict__ D_ptr;
    void *__restrict__ u_ptr;
    void *__restrict__ delta_ptr;
    void *__restrict__ delta_bias_ptr;
    void *__restrict__ out_ptr;
};

struct SSMScanOp {
    __device__ __forceinline__ float2 operator()(const float2 &ab0, const float2 &ab1) const {
        return make_float2(ab1.x * ab0.x, ab1.x * ab0.y + ab1.y);
    }
};

template <int kNWarps_, bool kHasDeltaBias_, typename input_t_, typename weight_t_>
struct Selective_Scan_fwd_kernel_traits {
    static constexpr int kNWarps = kNWarps_;
    static constexpr int kNThreads = kNWarps_ * 32;
    static constexpr bool kHasDeltaBias = kHasDeltaBias_;
    using input_t = input_t_;
    using weight_t = weight_t_;
};

template <typename Ktraits>
__global__ __launch_bounds__(Ktraits::kNThreads, 4)
void selective_scan_fwd_kernel(SSMParamsBase params) {
    using input_t = typename Ktraits::input_t;
    using weight_t = typename Ktraits::weight_t;
    const int lane = threadIdx.x & 31;
    const int dim_id = blockIdx.y * Ktraits::kNWarps + (threadIdx.x >> 5);
    const int batch_id = blockIdx.x;
    if (dim_id >= params.dim) { return; }

    const input_t *u = reinterpret_cast<const input_t *>(params.u_ptr) + batch_id * params.u_batch_stride + dim_id * params.u_d_stride;
    const input_t *delta = reinterpret_cast<const input_t *>(params.delta_ptr) + batch_id * params.delta_batch_stride + dim_id * params.delta_d_stride;
    const weight_t *A = reinterpret_cast<const weight_t *>(params.A_ptr) + dim_id * params.dstate;
    const input_t *Bvar = reinterpret_cast<const input_t *>(params.B_ptr) + batch_id * params.B_batch_stride;
    const input_t *Cvar = reinterpret_cast<const input_t *>(params.C_ptr) + batch_id * params.C_batch_stride;
    input_t *out = reinterpret_cast<input_t *>(params.out_ptr) + batch_id * params.out_batch_stride + dim_id * params.out_d_stride;
    const float D_val = params.D_ptr == nullptr ? 0.f : reinterpret_cast<const float *>(params.D_ptr)[dim_id];
    float delta_bias = 0.f;
    if constexpr (Ktraits::kHasDeltaBias) { delta_bias = reinterpret_cast<const float *>(params.delta_bias_ptr)[dim_id]; }

    constexpr float kLog2e = 1.4426950408889634f;
    float running[16];
    #pragma unroll
    for (int s = 0; s < 16; ++s) { running[s] = 0.f; }

    SSMScanOp op;
    for (int t0 = 0; t0 < params.seqlen; t0 += 32) {
        const int t = t0 + lane;
        const bool ok = t < params.seqlen;
        const float u_val = ok ? float(u[t]) : 0.f;
        float delta_val = ok ? float(delta[t]) + delta_bias : 0.f;
        if (ok && params.delta_softplus) { delta_val = delta_val <= 20.f ? log1pf(expf(delta_val)) : delta_val; }
        float y = D_val * u_val;
        #pragma unroll
        for (int s = 0; s < 16; ++s) {
            if (s >= params.dstate) { break; }
            const float a = exp2f(delta_val * float(A[s]) * kLog2e);
            const float b = ok ? delta_val * u_val * float(Bvar[s * params.seqlen + t]) : 0.f;
            float2 ab = make_float2(a, b);
            #pragma unroll
            for (int o = 1; o < 32; o <<= 1) {
                float2 prev = make_float2(__shfl_up_sync(0xffffffffu, ab.x, o), __shfl_up_sync(0xffffffffu, ab.y, o));
                if (lane >= o) { ab = op(prev, ab); }
            }
            const float h = ab.x * running[s] + ab.y;
            running[s] = __shfl_sync(0xffffffffu, h, 31);
            if (ok) { y += h * float(Cvar[s * params.seqlen + t]); }
        }
        if (ok) { out[t] = input_t(y); }
    }
}

template <typename input_t, typename weight_t>
void selective_scan_fwd_cuda(SSMParamsBase &params, cudaStream_t stream) {
    BOOL_SWITCH(params.delta_bias_ptr != nullptr, kHasDeltaBias, [&] {
        using Ktraits = Selective_Scan_fwd_kernel_traits<4, kHasDeltaBias, input_t, weight_t>;
        dim3 grid(params.batch, (params.dim + Ktraits::kNWarps - 1) / Ktraits::kNWarps);
        auto kernel = &selective_scan_fwd_kernel<Ktraits>;
        kernel<<<grid, Ktraits::kNThreads, 0, stream>>>(params);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
}

at::Tensor selective_scan_fwd(const at::Tensor &u, const at::Tensor &delta, const at::Tensor &A, const at::Tensor &B,
                              const at::Tensor &C, const c10::optional<at::Tensor> &D_,
                              const c10::optional<at::Tensor> &delta_bias_, bool delta_softplus) {
    TORCH_CHECK(u.scalar_type() == at::ScalarType::Float);
    const int batch_size = u.size(0);
    const int dim = u.size(1);
    const int seqlen = u.size(2);
    const int dstate = A.size(1);
    TORCH_CHECK(dstate <= 16, "selective_scan only supports state dimension <= 16");
    CHECK_SHAPE(delta, batch_size, dim, seqlen);
    CHECK_SHAPE(A, dim, dstate);
    CHECK_SHAPE(B, batch_size, dstate, seqlen);
    CHECK_SHAPE(C, batch_size, dstate, seqlen);

    at::Tensor out = torch::empty_like(delta);
    SSMParamsBase params;
    memset(&params, 0, sizeof(params));
    params.batch = batch_size;
    params.dim = dim;
    params.seqlen = seqlen;
    params.dstate = dstate;
    params.delta_softplus = delta_softplus;
    params.A_ptr = A.data_ptr();
    params.B_ptr = B.data_ptr();
    params.C_ptr = C.data_ptr();
    params.D_ptr = D_.has_value() ? D_.value().data_ptr() : nullptr;
    params.u_ptr = u.data_ptr();
    params.delta_ptr = delta.data_ptr();
    params.delta_bias_ptr = delta_bias_.has_value() ? delta_bias_.value().data_ptr() : nullptr;
    params.out_ptr = out.data_ptr();
    params.u_batch_stride = u.stride(0);
    params.u_d_stride = u.stride(1);
    params.delta_batch_stride = delta.stride(0);
    params.delta_d_stride = delta.stride(1);
    params.B_batch_stride = B.stride(0);
    params.C_batch_stride = C.stride(0);
    params.out_batch_stride = out.stride(0);
    params.out_d_stride = out.stride(1);
    auto stream = at::cuda::getCurrentCUDAStream().stream();
    selective_scan_fwd_cuda<float, float>(params, stream);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("fwd", &selective_scan_fwd, "Selective scan forward");
}
