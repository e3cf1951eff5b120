// y = x w + b in bfloat16, checked on the host. Thrust does the memory.

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/random.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cstdio>

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr unsigned kWarpsPerBlock = 8;

template <bool kBias>
__global__ void gemm_bias(const bf16* __restrict__ x, const bf16* __restrict__ w, const float* __restrict__ b,
                          float* __restrict__ y, unsigned rows, unsigned cols, unsigned depth)
{
    __shared__ float start[kWarpsPerBlock][16 * 16];

    const unsigned warp = threadIdx.x / warpSize;
    const unsigned lane = threadIdx.x % warpSize;
    const unsigned tile = blockIdx.x * kWarpsPerBlock + warp;
    const unsigned tiles_across = cols / 16;
    if (tile >= tiles_across * (rows / 16)) return;
    const unsigned row = tile / tiles_across * 16;
    const unsigned col = tile % tiles_across * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    if constexpr (kBias) {
        for (unsigned i = lane; i < 256; i += warpSize) start[warp][i] = b[col + i % 16];
        __syncwarp();
        wmma::load_matrix_sync(sum, start[warp], 16, wmma::mem_row_major);
    } else {
        wmma::fill_fragment(sum, 0.f);
    }
    for (unsigned d = 0; d < depth; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fx;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fw;
        wmma::load_matrix_sync(fx, x + row * depth + d, depth);
        wmma::load_matrix_sync(fw, w + d * cols + col, cols);
        wmma::mma_sync(sum, fx, fw, sum);
    }
    wmma::store_matrix_sync(y + row * cols + col, sum, cols, wmma::mem_row_major);
}

int main()
{
    const unsigned rows = 256, cols = 384, depth = 128;
    thrust::default_random_engine engine(1);
    thrust::uniform_real_distribution<float> uniform(-1.f, 1.f);
    thrust::host_vector<bf16> x(rows * depth), w(depth * cols);
    thrust::host_vector<float> b(cols);
    for (auto& v : x) v = __float2bfloat16(uniform(engine));
    for (auto& v : w) v = __float2bfloat16(uniform(engine));
    for (auto& v : b) v = uniform(engine);

    thrust::device_vector<bf16> dx = x, dw = w;
    thrust::device_vector<float> db = b, dy(rows * cols);
    const unsigned tiles = (rows / 16) * (cols / 16);
    gemm_bias<true><<<(tiles + kWarpsPerBlock - 1) / kWarpsPerBlock, kWarpsPerBlock * 32>>>(
        thrust::raw_pointer_cast(dx.data()), thrust::raw_pointer_cast(dw.data()), thrust::raw_pointer_cast(db.data()),
        thrust::raw_pointer_cast(dy.data()), rows, cols, depth);
    thrust::host_vector<float> y = dy;

    float worst = 0.f;
    for (unsigned i = 0; i < rows; ++i)
        for (unsigned j = 0; j < cols; ++j) {
            float expected = b[j];
            for (unsigned k = 0; k < depth; ++k)
                expected += __bfloat162float(x[i * depth + k]) * __bfloat162float(w[k * cols + j]);
            worst = fmaxf(worst, fabsf(expected - y[i * cols + j]));
        }
    std::printf("largest difference %g\n", worst);
    return worst < 1e-3f ? 0 : 1;
}
