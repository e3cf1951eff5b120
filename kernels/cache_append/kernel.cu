// New keys and values of a step, each into its slot of a cache in pages: keys in pieces of 16 bytes, as vLLM has them.
#include <cuda_fp16.h>

__global__ void cache_append(const half* key, const half* value, half* k_cache, half* v_cache, const int* slots,
                             int heads, int dim, int page) {
    const int slot = slots[blockIdx.x], at = slot / page, row = slot % page, piece = 8;
    for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) {
        const int head = i / dim, d = i % dim;
        const size_t of = (size_t)at * heads + head;
        k_cache[((of * (dim / piece) + d / piece) * page + row) * piece + d % piece] = key[blockIdx.x * heads * dim + i];
        v_cache[(of * dim + d) * page + row] = value[blockIdx.x * heads * dim + i];
    }
}
