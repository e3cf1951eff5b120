// Attention over sequences of different lengths that lie behind one another ("varlen", "unpadded"):
//   q, k, v, out: [total_tokens, nheads, 64], sequence b has tokens cu_seqlens[b] to cu_seqlens[b + 1] - 1
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace {

constexpr int kHeadDim = 64;
constexpr int kRows = 32;    // queries per block, two warps
constexpr int kKeys = 32;
constexpr int kPad = 8;

__global__ void __launch_bounds__(64)
attention_varlen_fwd(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                     half* __restrict__ out, const int32_t* __restrict__ cu_seqlens, float softmax_scale) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) half sQ[kRows][kHeadDim + kPad];
    __shared__ __align__(32) half sKV[kKeys][kHeadDim + kPad];
    __shared__ __align__(32) half sP[kRows][kKeys + kPad];
    __shared__ __align__(32) float sS[kRows][kKeys + kPad];
    __shared__ __align__(32) float sO[kRows][kHeadDim + kPad];
    __shared__ float sMax[kRows], sSum[kRows];

    const int seq_start = cu_seqlens[blockIdx.z];
    const int seq_len = cu_seqlens[blockIdx.z + 1] - seq_start;
    const int row_start = blockIdx.x * kRows;
    if (row_start >= seq_len) return;

    const int head = blockIdx.y;
    const int token_stride = gridDim.y * kHeadDim;
    const int offset = seq_start * token_stride + head * kHeadDim;
    const int warp_row = threadIdx.x / 32 * 16;

    for (int i = threadIdx.x; i < kRows * kHeadDim; i += blockDim.x) {
        const int r = i / kHeadDim, c = i % kHeadDim;
        sQ[r][c] = row_start + r < seq_len ? q[offset + (row_start + r) * token_stride + c] : half(0.f);
        sO[r][c] = 0.f;
    }
    if (threadIdx.x < kRows) {
        sMax[threadIdx.x] = -INFINITY;
        sSum[threadIdx.x] = 0.f;
    }

    for (int key_start = 0; key_start < seq_len; key_start += kKeys) {
        __syncthreads();
        for (int i = threadIdx.x; i < kKeys * kHeadDim; i += blockDim.x) {
            const int r = i / kHeadDim, c = i % kHeadDim;
            sKV[r][c] = key_start + r < seq_len ? k[offset + (key_start + r) * token_stride + c] : half(0.f);
        }
        __syncthreads();
        for (int n = 0; n < kKeys; n += 16) {
            fragment<accumulator, 16, 16, 16, float> s;
            fill_fragment(s, 0.f);
            for (int d = 0; d < kHeadDim; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> fq;
                fragment<matrix_b, 16, 16, 16, half, col_major> fk;
                load_matrix_sync(fq, &sQ[warp_row][d], kHeadDim + kPad);
                load_matrix_sync(fk, &sKV[n][d], kHeadDim + kPad);
                mma_sync(s, fq, fk, s);
            }
            store_matrix_sync(&sS[warp_row][n], s, kKeys + kPad, mem_row_major);
        }
        __syncthreads();
        if (threadIdx.x < kRows) {
            const int r = threadIdx.x;
            const int keys = min(kKeys, seq_len - key_start);
            float new_max = sMax[r];
            for (int j = 0; j < keys; ++j) new_max = fmaxf(new_max, sS[r][j] * softmax_scale);
            const float rescale = __expf(sMax[r] - new_max);
            float sum = sSum[r] * rescale;
            for (int j = 0; j < kKeys; ++j) {
                const float p = j < keys ? __expf(sS[r][j] * softmax_scale - new_max) : 0.f;
                sum += p;
                sP[r][j] = __float2half(p);
            }
            for (int d = 0; d < kHeadDim; ++d) sO[r][d] *= rescale;
            sMax[r] = new_max;
            sSum[r] = sum;
        }
        for (int i = threadIdx.x; i < kKeys * kHeadDim; i += blockDim.x) {
            const int r = i / kHeadDim, c = i % kHeadDim;
            sKV[r][c] = key_start + r < seq_len ? v[offset + (key_start + r) * token_stride + c] : half(0.f);
        }
        __syncthreads();
        for (int d = 0; d < kHeadDim; d += 16) {
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(o, &sO[warp_row][d], kHeadDim + kPad, mem_row_major);
            for (int j = 0; j < kKeys; j += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> fp;
                fragment<matrix_b, 16, 16, 16, half, row_major> fv;
                load_matrix_sync(fp, &sP[warp_row][j], kKeys + kPad);
                load_matrix_sync(fv, &sKV[j][d], kHeadDim + kPad);
                mma_sync(o, fp, fv, o);
            }
            store_matrix_sync(&sO[warp_row][d], o, kHeadDim + kPad, mem_row_major);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kHeadDim; i += blockDim.x) {
        const int r = i / kHeadDim, c = i % kHeadDim;
        if (row_start + r < seq_len) out[offset + (row_start + r) * token_stride + c] = __float2half(sO[r][c] / sSum[r]);
    }
}

}  // namespace

torch::Tensor attention_varlen(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor cu_seqlens,
                               int64_t max_seqlen) {
    TORCH_CHECK(q.size(2) == kHeadDim, "head size 64 only");
    TORCH_CHECK(cu_seqlens.dtype() == torch::kInt32);
    auto out = torch::empty_like(q);
    const int batch = cu_seqlens.numel() - 1;
    const dim3 grid((max_seqlen + kRows - 1) / kRows, q.size(1), batch);
    attention_varlen_fwd<<<grid, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<half*>(q.data_ptr()), reinterpret_cast<half*>(k.data_ptr()),
        reinterpret_cast<half*>(v.data_ptr()), reinterpret_cast<half*>(out.data_ptr()), cu_seqlens.data_ptr<int32_t>(),
        1.f / sqrtf(kHeadDim));
    return out;
}

TORCH_LIBRARY(varlen, m) { m.def("attention(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens, int max_seqlen) -> Tensor", attention_varlen); }
