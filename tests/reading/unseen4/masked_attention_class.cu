// Bidirectional attention with an additive mask [B, 1, S, S] (BERT encoder); the launcher is a class.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstddef>
#include <memory>

namespace encoder {

template <int kHeadSize, int kSeqTile>
__global__ void masked_attention(const half *q, const half *k, const half *v, const half *attn_mask, half *ctx,
                                 int num_heads, int seq, float rsqrt_d) {
    using namespace nvcuda;
    extern __shared__ float smem_f[];
    float *scores = smem_f;                                            // 16 x seq
    half *probs = reinterpret_cast<half *>(scores + 16 * seq);         // 16 x seq
    float *o = reinterpret_cast<float *>(probs + 16 * seq);            // 16 x kHeadSize
    const int b = blockIdx.z, h = blockIdx.y, r0 = blockIdx.x * 16;
    const size_t base = ((size_t)b * num_heads + h) * seq * kHeadSize;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int c = warp * kSeqTile; c < seq; c += warps * kSeqTile) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.f);
#pragma unroll
        for (int d = 0; d < kHeadSize; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
            wmma::load_matrix_sync(fa, q + base + (size_t)r0 * kHeadSize + d, kHeadSize);
            wmma::load_matrix_sync(fb, k + base + (size_t)c * kHeadSize + d, kHeadSize);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        wmma::store_matrix_sync(scores + c, acc, seq, wmma::mem_row_major);
    }
    __syncthreads();
    const half *mask = attn_mask + (size_t)b * seq * seq;
    for (int r = warp; r < 16; r += warps) {
        float top = -1e20f;
        for (int c = lane; c < seq; c += 32) {
            float s = scores[r * seq + c] * rsqrt_d + __half2float(mask[(size_t)(r0 + r) * seq + c]);
            scores[r * seq + c] = s;
            top = fmaxf(top, s);
        }
        for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
        float sum = 0.f;
        for (int c = lane; c < seq; c += 32) sum += __expf(scores[r * seq + c] - top);
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
        for (int c = lane; c < seq; c += 32) probs[r * seq + c] = __float2half(__fdividef(__expf(scores[r * seq + c] - top), sum));
    }
    __syncthreads();
    for (int d = warp * 16; d < kHeadSize; d += warps * 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.f);
        for (int c = 0; c < seq; c += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
            wmma::load_matrix_sync(fa, probs + c, seq);
            wmma::load_matrix_sync(fb, v + base + (size_t)c * kHeadSize + d, kHeadSize);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        wmma::store_matrix_sync(o + d, acc, kHeadSize, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * kHeadSize; i += blockDim.x) ctx[base + (size_t)r0 * kHeadSize + i] = __float2half(o[i]);
}

class AttentionLayer {
public:
    AttentionLayer(int num_heads, int head_size) : num_heads_(num_heads), head_size_(head_size) {}

    size_t workspace(int seq) const { return 16 * seq * (sizeof(float) + sizeof(half)) + 16 * head_size_ * sizeof(float); }

    void forward(const half *q, const half *k, const half *v, const half *mask, half *ctx, int batch, int seq,
                 cudaStream_t stream = 0) const {
        const dim3 grid(seq / 16, num_heads_, batch);
        masked_attention<64, 16><<<grid, kThreads, workspace(seq), stream>>>(q, k, v, mask, ctx, num_heads_, seq,
                                                                          1.0f / sqrtf((float)head_size_));
    }

private:
    static constexpr int kThreads = 128;
    int num_heads_, head_size_;
};

}  // namespace encoder

void encoder_attention(const half *q, const half *k, const half *v, const half *mask, half *ctx, int batch, int seq) {
    auto layer = std::make_unique<encoder::AttentionLayer>(12, 64);
    layer->forward(q, k, v, mask, ctx, batch, seq);
}
