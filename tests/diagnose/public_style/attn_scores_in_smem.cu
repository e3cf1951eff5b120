// Tensor-core self attention, forward only.  torch extension, JIT-compiled with
//   torch.utils.cpp_extension.load(name="wmma_attention", sources=["wmma_attention.cu"])
// One block = 16 queries of one (batch, head); scores of the whole row live in shared memory.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cfloat>

namespace wm = nvcuda::wmma;

constexpr int BR = 16;          // query rows of a block
constexpr int NWARP = 4;
constexpr int HD = 64;          // head dimension, fixed
constexpr int SKEW = 8;

__global__ void __launch_bounds__(NWARP * 32)
attn_fwd(const __half *__restrict__ Q, const __half *__restrict__ K, const __half *__restrict__ V,
         float *__restrict__ O, int seqlen, float sm_scale)
{
    extern __shared__ __align__(128) unsigned char smem_raw[];
    const int npad = (seqlen + 15) / 16 * 16;
    const int lds = npad + 8;
    float  *scores = reinterpret_cast<float *>(smem_raw);               // BR x lds
    __half *probs  = reinterpret_cast<__half *>(scores + BR * lds);     // BR x lds
    __half *kv     = probs + BR * lds;                                  // NWARP x 16 x (HD + SKEW)
    __half *q_s    = kv + NWARP * 16 * (HD + SKEW);                     // BR x (HD + SKEW)

    const int bh = blockIdx.y;
    const int q0 = blockIdx.x * BR;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    Q += (size_t)bh * seqlen * HD;
    K += (size_t)bh * seqlen * HD;
    V += (size_t)bh * seqlen * HD;
    O += (size_t)bh * seqlen * HD;

    for (int i = threadIdx.x; i < BR * HD; i += blockDim.x) {
        int r = i / HD, c = i % HD;
        q_s[r * (HD + SKEW) + c] = (q0 + r < seqlen) ? Q[(q0 + r) * HD + c] : __float2half(0.f);
    }
    __syncthreads();

    // S = Q K^T, each warp takes every NWARP-th group of 16 keys
    __half *my = kv + warp * 16 * (HD + SKEW);
    for (int kb = warp; kb < npad / 16; kb += NWARP) {
        for (int i = lane; i < 16 * HD; i += 32) {
            int r = i / HD, c = i % HD;
            int key = kb * 16 + r;
            my[r * (HD + SKEW) + c] = key < seqlen ? K[key * HD + c] : __float2half(0.f);
        }
        __syncwarp();
        wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
        wm::fill_fragment(acc, 0.f);
#pragma unroll
        for (int d = 0; d < HD; d += 16) {
            wm::fragment<wm::matrix_a, 16, 16, 16, __half, wm::row_major> qa;
            wm::fragment<wm::matrix_b, 16, 16, 16, __half, wm::col_major> kb_frag;
            wm::load_matrix_sync(qa, q_s + d, HD + SKEW);
            wm::load_matrix_sync(kb_frag, my + d, HD + SKEW);
            wm::mma_sync(acc, qa, kb_frag, acc);
        }
        for (int t = 0; t < acc.num_elements; ++t) acc.x[t] *= sm_scale;
        wm::store_matrix_sync(scores + kb * 16, acc, lds, wm::mem_row_major);
        __syncwarp();
    }
    __syncthreads();

    // softmax, a row per warp at a time
    for (int r = warp; r < BR; r += NWARP) {
        float *row = scores + r * lds;
        float m = -FLT_MAX;
        for (int j = lane; j < seqlen; j += 32) m = fmaxf(m, row[j]);
        for (int off = 16; off > 0; off >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, off));
        float sum = 0.f;
        for (int j = lane; j < seqlen; j += 32) {
            float e = __expf(row[j] - m);
            row[j] = e;
            sum += e;
        }
        for (int off = 16; off > 0; off >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, off);
        const float inv = 1.f / sum;
        for (int j = lane; j < npad; j += 32)
            probs[r * lds + j] = __float2half(j < seqlen ? row[j] * inv : 0.f);
    }
    __syncthreads();

    // O = P V, a warp owns 16 of the 64 columns
    wm::fragment<wm::accumulator, 16, 16, 16, float> out;
    wm::fill_fragment(out, 0.f);
    for (int kb = 0; kb < npad / 16; ++kb) {
        __half *vt = kv;                       // shared by all warps: 16 x HD
        for (int i = threadIdx.x; i < 16 * HD; i += blockDim.x) {
            int r = i / HD, c = i % HD;
            int key = kb * 16 + r;
            vt[r * (HD + SKEW) + c] = key < seqlen ? V[key * HD + c] : __float2half(0.f);
        }
        __syncthreads();
        wm::fragment<wm::matrix_a, 16, 16, 16, __half, wm::row_major> pa;
        wm::fragment<wm::matrix_b, 16, 16, 16, __half, wm::row_major> vb;
        wm::load_matrix_sync(pa, probs + kb * 16, lds);
        wm::load_matrix_sync(vb, vt + warp * 16, HD + SKEW);
        wm::mma_sync(out, pa, vb, out);
        __syncthreads();
    }
    wm::store_matrix_sync(scores + warp * 16, out, HD, wm::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < BR * HD; i += blockDim.x) {
        int r = i / HD, c = i % HD;
        if (q0 + r < seqlen) O[(q0 + r) * HD + c] = scores[i];
    }
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v)
{
    TORCH_CHECK(q.is_cuda() && q.scalar_type() == at::kHalf, "q must be a CUDA half tensor");
    TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous());
    const int B = q.size(0), H = q.size(1), S = q.size(2), D = q.size(3);
    TORCH_CHECK(D == HD, "head dim must be 64");
    auto out = torch::empty({B, H, S, D}, q.options().dtype(torch::kFloat32));
    const int npad = (S + 15) / 16 * 16;
    const size_t smem = BR * (npad + 8) * (sizeof(float) + sizeof(__half))
                      + NWARP * 16 * (HD + SKEW) * sizeof(__half) + BR * (HD + SKEW) * sizeof(__half);
    cudaFuncSetAttribute(attn_fwd, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    dim3 grid((S + BR - 1) / BR, B * H);
    attn_fwd<<<grid, NWARP * 32, smem, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __half *>(q.data_ptr<at::Half>()),
        reinterpret_cast<const __half *>(k.data_ptr<at::Half>()),
        reinterpret_cast<const __half *>(v.data_ptr<at::Half>()),
        out.data_ptr<float>(), S, 1.f / sqrtf((float)D));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "wmma attention"); }
