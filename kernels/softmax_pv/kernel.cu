// softmax(scale · S, keys hidden by a mask) · V: 16 queries per warp, sums of rows first.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int T = 16;

__global__ void softmax_pv(const float *s, const unsigned char *mask, const half *v, half *o, int heads, int sq, int skv,
                           int dim, float scale) {
    __shared__ __align__(32) half p[T * T];
    __shared__ __align__(32) float tile[T * T];
    __shared__ float most[T], total[T];
    const int head = blockIdx.y, batch = head / heads, row = blockIdx.x * T, col = blockIdx.z * T;
    s += (size_t)(head * sq + row) * skv;
    v += (size_t)head * skv * dim + col;
    mask += batch * skv;
    if (threadIdx.x < T) {
        const float *own = s + threadIdx.x * skv;
        float largest = -1e30f, sum = 0.0f;
        for (int j = 0; j < skv; j++)
            if (mask[j]) largest = fmaxf(largest, scale * own[j]);
        for (int j = 0; j < skv; j++)
            if (mask[j]) sum += expf(scale * own[j] - largest);
        most[threadIdx.x] = largest;
        total[threadIdx.x] = sum;
    }
    __syncwarp();
    fragment<accumulator, T, T, T, float> out;
    fill_fragment(out, 0.0f);
    for (int key = 0; key < skv; key += T) {
        for (int i = threadIdx.x; i < T * T; i += 32) {
            const int r = i / T, j = key + i % T;
            p[i] = __float2half(mask[j] ? expf(scale * s[r * skv + j] - most[r]) / total[r] : 0.0f);
        }
        __syncwarp();
        fragment<matrix_a, T, T, T, half, row_major> a;
        fragment<matrix_b, T, T, T, half, row_major> b;
        load_matrix_sync(a, p, T);
        load_matrix_sync(b, v + (size_t)key * dim, dim);
        mma_sync(out, a, b, out);
        __syncwarp();
    }
    store_matrix_sync(tile, out, T, mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < T * T; i += 32)
        o[(size_t)(head * sq + row + i / T) * dim + col + i % T] = __float2half(tile[i]);
}
