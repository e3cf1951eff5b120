#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

using bf16 = __nv_bfloat16;

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

__device__ __forceinline__ void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned b0, const unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<unsigned*>(&v);
}

__device__ __forceinline__ unsigned ld2(const bf16* p) { return *reinterpret_cast<const unsigned*>(p); }

// One block: 64 queries of one head, four warps of 16 queries. K and V tiles of 32 keys.
template <int HEAD_DIM>
__global__ void flash_fwd_causal_kernel(const bf16* __restrict__ Q, const bf16* __restrict__ K, const bf16* __restrict__ V,
                                        bf16* __restrict__ O, float* __restrict__ LSE, int seqlen, float softmax_scale) {
    constexpr int Br = 64, Bc = 32, LD = HEAD_DIM + 8;
    __shared__ bf16 sK[Bc * LD];
    __shared__ bf16 sV[Bc * LD];

    const int bh = blockIdx.y;
    const int q_tile = blockIdx.x;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int g = lane >> 2, t = lane & 3;
    const size_t base = (size_t)bh * seqlen * HEAD_DIM;
    const int row0 = q_tile * Br + warp * 16 + g;
    const int row1 = row0 + 8;

    unsigned qf[HEAD_DIM / 16][4];
    #pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; k++) {
        const bf16* p0 = Q + base + (size_t)row0 * HEAD_DIM + k * 16 + t * 2;
        const bf16* p1 = Q + base + (size_t)row1 * HEAD_DIM + k * 16 + t * 2;
        qf[k][0] = row0 < seqlen ? ld2(p0) : 0u;
        qf[k][1] = row1 < seqlen ? ld2(p1) : 0u;
        qf[k][2] = row0 < seqlen ? ld2(p0 + 8) : 0u;
        qf[k][3] = row1 < seqlen ? ld2(p1 + 8) : 0u;
    }

    float acc[HEAD_DIM / 8][4];
    #pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0.f;
    float m0 = -CUDART_INF_F, m1 = -CUDART_INF_F, l0 = 0.f, l1 = 0.f;

    const int last = min(seqlen, (q_tile + 1) * Br);
    for (int kv = 0; kv < last; kv += Bc) {
        __syncthreads();
        for (int i = threadIdx.x; i < Bc * HEAD_DIM / 8; i += blockDim.x) {
            int r = i / (HEAD_DIM / 8), c = i % (HEAD_DIM / 8) * 8;
            uint4 k4 = make_uint4(0, 0, 0, 0), v4 = k4;
            if (kv + r < seqlen) {
                k4 = *reinterpret_cast<const uint4*>(K + base + (size_t)(kv + r) * HEAD_DIM + c);
                v4 = *reinterpret_cast<const uint4*>(V + base + (size_t)(kv + r) * HEAD_DIM + c);
            }
            *reinterpret_cast<uint4*>(sK + r * LD + c) = k4;
            *reinterpret_cast<uint4*>(sV + r * LD + c) = v4;
        }
        __syncthreads();

        float s[Bc / 8][4];
        #pragma unroll
        for (int n = 0; n < Bc / 8; n++) {
            s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
            #pragma unroll
            for (int k = 0; k < HEAD_DIM / 16; k++) {
                const bf16* p = sK + (n * 8 + g) * LD + k * 16 + t * 2;
                mma_bf16(s[n], qf[k], ld2(p), ld2(p + 8));
            }
        }
        float mx0 = m0, mx1 = m1;
        #pragma unroll
        for (int n = 0; n < Bc / 8; n++) {
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                const int col = kv + n * 8 + t * 2 + (e & 1);
                const int row = e < 2 ? row0 : row1;
                s[n][e] = (col <= row && col < seqlen) ? s[n][e] * softmax_scale : -CUDART_INF_F;
            }
            mx0 = fmaxf(mx0, fmaxf(s[n][0], s[n][1]));
            mx1 = fmaxf(mx1, fmaxf(s[n][2], s[n][3]));
        }
        #pragma unroll
        for (int o = 1; o < 4; o <<= 1) {
            mx0 = fmaxf(mx0, __shfl_xor_sync(0xffffffff, mx0, o));
            mx1 = fmaxf(mx1, __shfl_xor_sync(0xffffffff, mx1, o));
        }
        const float r0 = __expf(m0 - mx0), r1 = __expf(m1 - mx1);
        m0 = mx0; m1 = mx1;
        l0 *= r0; l1 *= r1;
        #pragma unroll
        for (int n = 0; n < HEAD_DIM / 8; n++) { acc[n][0] *= r0; acc[n][1] *= r0; acc[n][2] *= r1; acc[n][3] *= r1; }
        #pragma unroll
        for (int n = 0; n < Bc / 8; n++) {
            s[n][0] = __expf(s[n][0] - m0); s[n][1] = __expf(s[n][1] - m0);
            s[n][2] = __expf(s[n][2] - m1); s[n][3] = __expf(s[n][3] - m1);
            l0 += s[n][0] + s[n][1];
            l1 += s[n][2] + s[n][3];
        }
        #pragma unroll
        for (int kk = 0; kk < Bc / 16; kk++) {
            unsigned pf[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                              pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
            #pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++) {
                const bf16* p = sV + (kk * 16 + t * 2) * LD + n * 8 + g;
                __nv_bfloat162 b0(p[0], p[LD]), b1(p[8 * LD], p[9 * LD]);
                mma_bf16(acc[n], pf, *reinterpret_cast<unsigned*>(&b0), *reinterpret_cast<unsigned*>(&b1));
            }
        }
    }
    #pragma unroll
    for (int o = 1; o < 4; o <<= 1) {
        l0 += __shfl_xor_sync(0xffffffff, l0, o);
        l1 += __shfl_xor_sync(0xffffffff, l1, o);
    }
    #pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n++) {
        if (row0 < seqlen)
            *reinterpret_cast<unsigned*>(O + base + (size_t)row0 * HEAD_DIM + n * 8 + t * 2) = pack(acc[n][0] / l0, acc[n][1] / l0);
        if (row1 < seqlen)
            *reinterpret_cast<unsigned*>(O + base + (size_t)row1 * HEAD_DIM + n * 8 + t * 2) = pack(acc[n][2] / l1, acc[n][3] / l1);
    }
    if (t == 0) {
        if (row0 < seqlen) LSE[(size_t)bh * seqlen + row0] = m0 + logf(l0);
        if (row1 < seqlen) LSE[(size_t)bh * seqlen + row1] = m1 + logf(l1);
    }
}

std::vector<torch::Tensor> flash_fwd_causal(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    CHECK_INPUT(q); CHECK_INPUT(k); CHECK_INPUT(v);
    TORCH_CHECK(q.scalar_type() == torch::kBFloat16, "only bf16 is supported");
    const int B = q.size(0), H = q.size(1), N = q.size(2), D = q.size(3);
    auto o = torch::empty_like(q);
    auto lse = torch::empty({B, H, N}, q.options().dtype(torch::kFloat32));
    const float scale = 1.0f / sqrtf((float)D);
    dim3 grid((N + 63) / 64, B * H);
    auto stream = at::cuda::getCurrentCUDAStream();
    auto ptr = [](torch::Tensor& t) { return reinterpret_cast<bf16*>(t.data_ptr<at::BFloat16>()); };
    if (D == 64) {
        flash_fwd_causal_kernel<64><<<grid, 128, 0, stream>>>(ptr(q), ptr(k), ptr(v), ptr(o), lse.data_ptr<float>(), N, scale);
    } else if (D == 128) {
        flash_fwd_causal_kernel<128><<<grid, 128, 0, stream>>>(ptr(q), ptr(k), ptr(v), ptr(o), lse.data_ptr<float>(), N, scale);
    } else {
        TORCH_CHECK(false, "unsupported head dim ", D);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {o, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("fwd", &flash_fwd_causal, "causal flash attention forward (bf16)");
}
