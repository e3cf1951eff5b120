#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cassert>

// BERT self attention: q, k, v, context are [batch, seq, heads, 64]; attention_mask [batch, seq] holds 1 for tokens
// and 0 for padding. A block computes 32 queries of one head with all scores in shared memory.
using namespace nvcuda;

#define HEAD_SIZE 64
#define QUERIES 32

__global__ void bert_attention_kernel(const half* q, const half* k, const half* v, const int* attention_mask,
                                      half* context, int seq, int heads) {
    extern __shared__ float scores[];                               // QUERIES x seq
    half* probs = reinterpret_cast<half*>(scores + QUERIES * seq);  // QUERIES x seq
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int b = blockIdx.z, h = blockIdx.y, row0 = blockIdx.x * QUERIES;
    const int ld = heads * HEAD_SIZE;
    const half* Q = q + ((size_t)b * seq + row0) * ld + h * HEAD_SIZE;
    const half* K = k + (size_t)b * seq * ld + h * HEAD_SIZE;
    const half* V = v + (size_t)b * seq * ld + h * HEAD_SIZE;
    const int* mask = attention_mask + b * seq;

    for (int tile = warp; tile < QUERIES / 16 * (seq / 16); tile += warps) {
        const int r = tile % (QUERIES / 16) * 16, c = tile / (QUERIES / 16) * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
        wmma::fill_fragment(s, 0.f);
        for (int d = 0; d < HEAD_SIZE; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kb;
            wmma::load_matrix_sync(qa, Q + r * ld + d, ld);
            wmma::load_matrix_sync(kb, K + c * ld + d, ld);
            wmma::mma_sync(s, qa, kb, s);
        }
        wmma::store_matrix_sync(scores + r * seq + c, s, seq, wmma::mem_row_major);
    }
    __syncthreads();

    for (int r = warp; r < QUERIES; r += warps) {
        float* row = scores + r * seq;
        float top = -1e30f;
        for (int c = lane; c < seq; c += 32) {
            row[c] = row[c] * 0.125f + (mask[c] ? 0.f : -10000.f);
            top = fmaxf(top, row[c]);
        }
        for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
        float sum = 0.f;
        for (int c = lane; c < seq; c += 32) {
            row[c] = __expf(row[c] - top);
            sum += row[c];
        }
        for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
        for (int c = lane; c < seq; c += 32) probs[r * seq + c] = __float2half(row[c] / sum);
    }
    __syncthreads();

    for (int tile = warp; tile < QUERIES / 16 * (HEAD_SIZE / 16); tile += warps) {
        const int r = tile % (QUERIES / 16) * 16, d = tile / (QUERIES / 16) * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> o;
        wmma::fill_fragment(o, __float2half(0.f));
        for (int c = 0; c < seq; c += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vb;
            wmma::load_matrix_sync(pa, probs + r * seq + c, seq);
            wmma::load_matrix_sync(vb, V + c * ld + d, ld);
            wmma::mma_sync(o, pa, vb, o);
        }
        wmma::store_matrix_sync(context + ((size_t)b * seq + row0 + r) * ld + h * HEAD_SIZE + d, o, ld,
                                wmma::mem_row_major);
    }
}

void invokeBertAttention(const half* q, const half* k, const half* v, const int* attention_mask, half* context,
                         int batch_size, int seq_len, int head_num, cudaStream_t stream) {
    assert(seq_len % QUERIES == 0);
    const size_t smem = QUERIES * seq_len * (sizeof(float) + sizeof(half));
    if (smem > 48 * 1024)
        cudaFuncSetAttribute(bert_attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    bert_attention_kernel<<<dim3(seq_len / QUERIES, head_num, batch_size), 128, smem, stream>>>(
        q, k, v, attention_mask, context, seq_len, head_num);
}
