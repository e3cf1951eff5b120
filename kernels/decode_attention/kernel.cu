// Attention of one query per head over a cache of keys and values, a warp per head, heads of keys shared by groups.
#include <cuda_fp16.h>

constexpr int WIDTH = 64;

__global__ void decode(const half* q, const half* k, const half* v, const int* lengths, half* o, int heads, int kv_heads,
                       int longest) {
    const int head = blockIdx.x, sequence = blockIdx.y, lane = threadIdx.x;
    const int kv_head = head / (heads / kv_heads);
    q += (static_cast<size_t>(sequence) * heads + head) * WIDTH;
    o += (static_cast<size_t>(sequence) * heads + head) * WIDTH;
    const size_t cache = (static_cast<size_t>(sequence) * kv_heads + kv_head) * longest * WIDTH;
    float most = -INFINITY, sum = 0.0f, first = 0.0f, second = 0.0f;
    for (int key = 0; key < lengths[sequence]; key++) {
        const half* row = k + cache + key * WIDTH;
        float score = __half2float(q[lane]) * __half2float(row[lane]) +
                      __half2float(q[lane + 32]) * __half2float(row[lane + 32]);
        for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
        score *= 0.125f;
        const float larger = fmaxf(most, score);
        const float kept = __expf(most - larger), weight = __expf(score - larger);
        const half* value = v + cache + key * WIDTH;
        sum = sum * kept + weight;
        first = first * kept + weight * __half2float(value[lane]);
        second = second * kept + weight * __half2float(value[lane + 32]);
        most = larger;
    }
    o[lane] = __float2half(first / sum);
    o[lane + 32] = __float2half(second / sum);
}
