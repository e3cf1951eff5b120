// Attention of a sequence's new queries over its keys and values in pages, as a prefill in chunks has it: the last query is
// that of the last key, and none sees a later one.
//
// One warp per 16 queries of a head; keys are gathered from their pages 16 at a time. A lane below 16 keeps its query's
// running maximum and sum.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int D = 64;

__global__ void paged_prefill(const half* __restrict__ q, const half* __restrict__ k_cache, const half* __restrict__ v_cache,
                              half* __restrict__ out, const int* __restrict__ block_table, const int* __restrict__ seq_lens,
                              const int* __restrict__ query_start, int heads, int kv_heads, int page_size, int max_pages,
                              float scale) {
    __shared__ __align__(32) half queries[16][D], rows[16][D], weights[16][16];
    __shared__ __align__(32) float scores[16][16], sums[16][D];
    __shared__ float factors[16], totals[16];
    const int sequence = blockIdx.z, head = blockIdx.y, lane = threadIdx.x;
    const int start = query_start[sequence], count = query_start[sequence + 1] - start, first = blockIdx.x * 16;
    if (first >= count) return;
    const int length = seq_lens[sequence], before = length - count, kv_head = head / (heads / kv_heads);
    const int last = min(first + 15, count - 1) + before;

    for (int i = lane; i < 16 * D; i += 32) {
        const int row = i / D, col = i % D;
        const bool there = first + row < count;
        queries[row][col] = there ? q[((start + first + row) * heads + head) * D + col] : __float2half(0.0f);
        sums[row][col] = 0.0f;
    }
    float most = -INFINITY, total = 0.0f;
    auto gather = [&](const half* cache, int from) {
        for (int i = lane; i < 16 * D; i += 32) {
            const int key = from + i / D;
            const int page = key < length ? block_table[sequence * max_pages + key / page_size] : 0;
            const int at = (page * page_size + key % page_size) * kv_heads + kv_head;
            rows[i / D][i % D] = key < length ? cache[at * D + i % D] : __float2half(0.0f);
        }
        __syncwarp();
    };

    for (int from = 0; from <= last; from += 16) {
        __syncwarp();
        gather(k_cache, from);
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> keys;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> values;
        wmma::fill_fragment(acc, 0.0f);
        for (int i = 0; i < D; i += 16) {
            wmma::load_matrix_sync(left, &queries[0][i], D);
            wmma::load_matrix_sync(keys, &rows[0][i], D);
            wmma::mma_sync(acc, left, keys, acc);
        }
        wmma::store_matrix_sync(&scores[0][0], acc, 16, wmma::mem_row_major);
        __syncwarp();
        gather(v_cache, from);
        if (lane < 16) {
            const int seen = min(length - 1, before + first + lane) - from;  // the last key of these that it sees
            float largest = most;
            for (int i = 0; i < 16 && i <= seen; ++i) largest = fmaxf(largest, scores[lane][i] * scale);
            factors[lane] = __expf(most - largest);
            total *= factors[lane];
            for (int i = 0; i < 16; ++i) {
                const float weight = i <= seen ? __expf(scores[lane][i] * scale - largest) : 0.0f;
                weights[lane][i] = __float2half(weight);
                total += weight;
            }
            most = largest;
        }
        __syncwarp();
        for (int i = lane; i < 16 * D; i += 32) sums[i / D][i % D] *= factors[i / D];
        __syncwarp();
        wmma::load_matrix_sync(left, &weights[0][0], 16);
        for (int i = 0; i < D; i += 16) {
            wmma::load_matrix_sync(acc, &sums[0][i], D, wmma::mem_row_major);
            wmma::load_matrix_sync(values, &rows[0][i], D);
            wmma::mma_sync(acc, left, values, acc);
            wmma::store_matrix_sync(&sums[0][i], acc, D, wmma::mem_row_major);
        }
    }
    if (lane < 16) totals[lane] = total;
    __syncwarp();
    for (int i = lane; i < 16 * D; i += 32) {
        const int row = i / D, col = i % D;
        if (first + row < count)
            out[((start + first + row) * heads + head) * D + col] = __float2half(sums[row][col] / totals[row]);
    }
}
