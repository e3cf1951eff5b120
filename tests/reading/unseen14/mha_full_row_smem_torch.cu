#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda::wmma;

// One block handles 16 queries of one head. The whole row of scores stays in shared memory.
template <int D, int WARPS>
__global__ void mha_kernel(const __half *__restrict__ query, const __half *__restrict__ key,
                           const __half *__restrict__ value, __half *__restrict__ out, const int heads, const int Tq,
                           const int Tk, const float inv_sqrt_d, const bool causal) {
    extern __shared__ __align__(128) unsigned char raw[];
    float *scores = reinterpret_cast<float *>(raw);                // 16 x Tk
    __half *probs = reinterpret_cast<__half *>(scores + 16 * Tk);  // 16 x Tk
    float *tile = reinterpret_cast<float *>(probs + 16 * Tk);      // 16 x D

    const int b = blockIdx.z, h = blockIdx.y, q0 = blockIdx.x * 16;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    // (batch, time, heads, D)
    const int row_stride = heads * D;
    const __half *q = query + ((size_t)b * Tq + q0) * row_stride + h * D;
    const __half *k = key + (size_t)b * Tk * row_stride + h * D;
    const __half *v = value + (size_t)b * Tk * row_stride + h * D;
    __half *o = out + ((size_t)b * Tq + q0) * row_stride + h * D;

    for (int n = warp * 16; n < Tk; n += WARPS * 16) {
        fragment<accumulator, 16, 16, 16, float> s;
        fill_fragment(s, 0.f);
#pragma unroll
        for (int d = 0; d < D; d += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> fq;
            fragment<matrix_b, 16, 16, 16, __half, col_major> fk;
            load_matrix_sync(fq, q + d, row_stride);
            load_matrix_sync(fk, k + (size_t)n * row_stride + d, row_stride);
            mma_sync(s, fq, fk, s);
        }
        store_matrix_sync(scores + n, s, Tk, mem_row_major);
    }
    __syncthreads();

    for (int r = warp; r < 16; r += WARPS) {
        const int last = causal ? min(q0 + r + (Tk - Tq), Tk - 1) : Tk - 1;
        float peak = -INFINITY;
        for (int c = lane; c <= last; c += 32) peak = fmaxf(peak, scores[r * Tk + c] * inv_sqrt_d);
        for (int m = 16; m; m >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, m));
        float total = 0.f;
        for (int c = lane; c < Tk; c += 32) {
            float e = c <= last ? __expf(scores[r * Tk + c] * inv_sqrt_d - peak) : 0.f;
            scores[r * Tk + c] = e;
            total += e;
        }
        for (int m = 16; m; m >>= 1) total += __shfl_xor_sync(~0u, total, m);
        for (int c = lane; c < Tk; c += 32) probs[r * Tk + c] = __float2half(scores[r * Tk + c] / total);
    }
    __syncthreads();

    for (int d = warp * 16; d < D; d += WARPS * 16) {
        fragment<accumulator, 16, 16, 16, float> acc;
        fill_fragment(acc, 0.f);
        for (int n = 0; n < Tk; n += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> fp;
            fragment<matrix_b, 16, 16, 16, __half, row_major> fv;
            load_matrix_sync(fp, probs + n, Tk);
            load_matrix_sync(fv, v + (size_t)n * row_stride + d, row_stride);
            mma_sync(acc, fp, fv, acc);
        }
        store_matrix_sync(tile + d, acc, D, mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * D; i += WARPS * 32) o[(size_t)(i / D) * row_stride + i % D] = __float2half(tile[i]);
}

at::Tensor mha_forward(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value, bool causal) {
    TORCH_CHECK(query.is_cuda() && query.scalar_type() == at::kHalf, "query must be a half CUDA tensor");
    TORCH_CHECK(query.size(3) == 64, "head dimension must be 64");
    const at::cuda::OptionalCUDAGuard guard(device_of(query));
    const int B = query.size(0), Tq = query.size(1), H = query.size(2), D = query.size(3);
    const int Tk = key.size(1);
    TORCH_CHECK(Tq % 16 == 0 && Tk % 16 == 0);
    auto out = at::empty_like(query);
    const dim3 grid(Tq / 16, H, B);
    const size_t smem = 16 * Tk * (sizeof(float) + sizeof(__half)) + 16 * D * sizeof(float);
    auto kernel = mha_kernel<64, 4>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    kernel<<<grid, 128, smem, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __half *>(query.data_ptr<at::Half>()), reinterpret_cast<const __half *>(key.data_ptr<at::Half>()),
        reinterpret_cast<const __half *>(value.data_ptr<at::Half>()), reinterpret_cast<__half *>(out.data_ptr<at::Half>()), H, Tq,
        Tk, 1.0f / sqrtf(D), causal);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

TORCH_LIBRARY(mha, m) { m.def("forward", mha_forward); }
