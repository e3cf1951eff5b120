// Split-KV attention for decoding (flash decoding), first pass.
//
// One query token per sequence. The query heads that share a KV head are the 16 rows of a WMMA tile, so K and V are read
// once for all of them. blockIdx.x is the split: each block walks its part of the keys and leaves a normalised partial
// output and its logsumexp; the second pass (not here) weighs the parts by exp(lse - max lse).
//
//   q            [batch, num_heads, 64]                     half
//   k_cache      [batch, max_len, num_kv_heads, 64]         half
//   v_cache      [batch, max_len, num_kv_heads, 64]         half
//   partial_out  [batch, num_heads, num_splits, 64]         float
//   partial_lse  [batch, num_heads, num_splits]             float, -inf where a split has no key
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int HEAD_DIM = 64;
constexpr int ROWS = 16;      // query heads of one KV head, padded
constexpr int CHUNK = 64;     // keys in one step, 16 of each warp
constexpr int NUM_WARPS = 4;
constexpr int NUM_THREADS = NUM_WARPS * 32;
constexpr int THREADS_PER_ROW = NUM_THREADS / ROWS;  // 8, neighbours in a warp

constexpr int KV_LD = HEAD_DIM + 8;
constexpr int S_LD = CHUNK + 4;
constexpr int P_LD = CHUNK + 8;
constexpr int O_LD = HEAD_DIM + 4;

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragKt = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using FragV = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

struct SharedStorage {
    alignas(32) half q[ROWS * KV_LD];
    alignas(32) half k[CHUNK * KV_LD];
    alignas(32) half v[CHUNK * KV_LD];
    alignas(32) float s[ROWS * S_LD];
    alignas(32) half p[ROWS * P_LD];
    alignas(32) float o[ROWS * O_LD];
};

// over the 8 threads of a row
__device__ inline float row_max(float x)
{
    for (int offset = THREADS_PER_ROW / 2; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

__device__ inline float row_sum(float x)
{
    for (int offset = THREADS_PER_ROW / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

__global__ __launch_bounds__(NUM_THREADS)
void splitkv_decode_kernel(const half* __restrict__ q, const half* __restrict__ k_cache, const half* __restrict__ v_cache,
                           const int* __restrict__ seq_lens, float* __restrict__ partial_out,
                           float* __restrict__ partial_lse, int max_len, int num_heads, int num_kv_heads, float scale)
{
    __shared__ SharedStorage smem;

    const int split = blockIdx.x, num_splits = gridDim.x;
    const int kv_head = blockIdx.y;
    const int b = blockIdx.z;
    const int group_size = num_heads / num_kv_heads;
    const int warp_id = threadIdx.x / 32;
    const int row = threadIdx.x / THREADS_PER_ROW;
    const int sub = threadIdx.x % THREADS_PER_ROW;

    // whole chunks go to each split, the last ones get less or nothing
    const int seq_len = seq_lens[b];
    const int num_chunks = (seq_len + CHUNK - 1) / CHUNK;
    const int chunks_per_split = (num_chunks + num_splits - 1) / num_splits;
    const int start = split * chunks_per_split * CHUNK;
    const int end = min(seq_len, start + chunks_per_split * CHUNK);

    // the group's queries, scaled; rows beyond the group are zero
    const half* q_group = q + ((size_t)b * num_heads + kv_head * group_size) * HEAD_DIM;
    for (int i = threadIdx.x; i < ROWS * HEAD_DIM; i += NUM_THREADS) {
        const int r = i / HEAD_DIM, d = i % HEAD_DIM;
        const float x = r < group_size ? __half2float(q_group[r * HEAD_DIM + d]) : 0.0f;
        smem.q[r * KV_LD + d] = __float2half(x * scale);
        smem.o[r * O_LD + d] = 0.0f;
    }

    float m = -INFINITY;  // every thread of a row has the row's
    float l = 0.0f;

    const size_t token_stride = (size_t)num_kv_heads * HEAD_DIM;
    const size_t cache_base = (size_t)b * max_len * token_stride + kv_head * HEAD_DIM;

    for (int base = start; base < end; base += CHUNK) {
        // 16 bytes a thread; keys behind the end are zero, since 0 * garbage may be NaN in P V
        for (int i = threadIdx.x; i < CHUNK * (HEAD_DIM / 8); i += NUM_THREADS) {
            const int r = i / (HEAD_DIM / 8);
            const int d = i % (HEAD_DIM / 8) * 8;
            float4 k4 = make_float4(0, 0, 0, 0), v4 = make_float4(0, 0, 0, 0);
            if (base + r < end) {
                const size_t at = cache_base + (base + r) * token_stride + d;
                k4 = *reinterpret_cast<const float4*>(k_cache + at);
                v4 = *reinterpret_cast<const float4*>(v_cache + at);
            }
            *reinterpret_cast<float4*>(&smem.k[r * KV_LD + d]) = k4;
            *reinterpret_cast<float4*>(&smem.v[r * KV_LD + d]) = v4;
        }
        __syncthreads();

        // scores of 16 keys by each warp
        {
            FragC acc;
            wmma::fill_fragment(acc, 0.0f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                FragA q_frag;
                FragKt k_frag;
                wmma::load_matrix_sync(q_frag, &smem.q[d], KV_LD);
                wmma::load_matrix_sync(k_frag, &smem.k[warp_id * 16 * KV_LD + d], KV_LD);
                wmma::mma_sync(acc, q_frag, k_frag, acc);
            }
            wmma::store_matrix_sync(&smem.s[warp_id * 16], acc, S_LD, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax, 8 threads a row, and the output so far is brought to the new maximum
        {
            float chunk_max = -INFINITY;
            for (int j = sub; j < CHUNK; j += THREADS_PER_ROW)
                if (base + j < end) chunk_max = fmaxf(chunk_max, smem.s[row * S_LD + j]);
            const float m_new = fmaxf(m, row_max(chunk_max));
            const float correction = __expf(m - m_new);

            float chunk_sum = 0.0f;
            for (int j = sub; j < CHUNK; j += THREADS_PER_ROW) {
                const float e = base + j < end ? __expf(smem.s[row * S_LD + j] - m_new) : 0.0f;
                smem.p[row * P_LD + j] = __float2half(e);
                chunk_sum += e;
            }
            l = l * correction + row_sum(chunk_sum);
            m = m_new;
            for (int d = sub; d < HEAD_DIM; d += THREADS_PER_ROW)
                smem.o[row * O_LD + d] *= correction;
        }
        __syncthreads();

        // O += P V, 16 columns by each warp
        {
            FragC acc;
            wmma::load_matrix_sync(acc, &smem.o[warp_id * 16], O_LD, wmma::mem_row_major);
            for (int j = 0; j < CHUNK; j += 16) {
                FragA p_frag;
                FragV v_frag;
                wmma::load_matrix_sync(p_frag, &smem.p[j], P_LD);
                wmma::load_matrix_sync(v_frag, &smem.v[j * KV_LD + warp_id * 16], KV_LD);
                wmma::mma_sync(acc, p_frag, v_frag, acc);
            }
            wmma::store_matrix_sync(&smem.o[warp_id * 16], acc, O_LD, wmma::mem_row_major);
        }
        __syncthreads();  // before the next chunk, and before the end
    }
    __syncthreads();

    if (row < group_size) {
        const size_t part = ((size_t)b * num_heads + kv_head * group_size + row) * num_splits + split;
        const float inv = l > 0.0f ? 1.0f / l : 0.0f;
        for (int d = sub; d < HEAD_DIM; d += THREADS_PER_ROW)
            partial_out[part * HEAD_DIM + d] = smem.o[row * O_LD + d] * inv;
        if (sub == 0) partial_lse[part] = l > 0.0f ? m + logf(l) : -INFINITY;
    }
}

void splitkv_decode(const half* q, const half* k_cache, const half* v_cache, const int* seq_lens, float* partial_out,
                    float* partial_lse, int batch, int max_len, int num_heads, int num_kv_heads, int num_splits,
                    cudaStream_t stream)
{
    dim3 grid(num_splits, num_kv_heads, batch);
    splitkv_decode_kernel<<<grid, NUM_THREADS, 0, stream>>>(q, k_cache, v_cache, seq_lens, partial_out, partial_lse,
                                                            max_len, num_heads, num_kv_heads, 0.125f);
}
