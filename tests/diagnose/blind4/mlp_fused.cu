// Fully fused multilayer perceptron, 64 neurons wide, inference only: activations stay in shared memory from the
// first layer to the last, weights are read from global memory (L2) as fragments.
//
//   input  : batch x IN_DIM      (row-major)
//   weights: WIDTH x IN_DIM, then n_hidden_matmuls times WIDTH x WIDTH, then OUT_DIM x WIDTH, all row-major
//   output : batch x OUT_DIM
//
// Rows of a layer's output are rounded to half between the layers.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

enum class Activation { ReLU, LeakyReLU, None };

constexpr uint32_t WIDTH = 64;
constexpr uint32_t SKEW = 8;
constexpr uint32_t N_BLOCK_ROWS = WIDTH / 16;   // = warps: each has 16 neurons
constexpr uint32_t N_ITERS = 2;                 // batch rows per block / 16
constexpr uint32_t ROWS = 16 * N_ITERS;
constexpr uint32_t OUT_DIM = 16;

template <typename Fragment>
__device__ void warp_activation(Activation activation, Fragment& frag) {
    switch (activation) {
        case Activation::ReLU:
            for (int t = 0; t < frag.num_elements; t++) frag.x[t] = fmaxf(frag.x[t], 0.0f);
            return;
        case Activation::LeakyReLU:
            for (int t = 0; t < frag.num_elements; t++) frag.x[t] = frag.x[t] > 0.0f ? frag.x[t] : 0.01f * frag.x[t];
            return;
        case Activation::None:
            return;
    }
}

// act_out = activation(act_in * W^T): every warp computes 16 neurons of all rows. In and out may be the same memory.
template <Activation ACTIVATION>
__device__ void threadblock_layer(__half* act_shmem, float* staging, const __half* __restrict__ weights,
                                  uint32_t in_dim) {
    using namespace nvcuda;
    const uint32_t li = threadIdx.x;  // lane
    const uint32_t wi = threadIdx.y;  // warp
    const uint32_t weights_col = 16 * wi;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> result_frag[N_ITERS];
    for (uint32_t l = 0; l < N_ITERS; ++l) wmma::fill_fragment(result_frag[l], 0.0f);

    for (uint32_t k = 0; k < in_dim; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag;
        wmma::load_matrix_sync(weights_frag, weights + weights_col * in_dim + k, in_dim);
        for (uint32_t l = 0; l < N_ITERS; ++l) {
            wmma::load_matrix_sync(act_frag, act_shmem + 16 * l * (WIDTH + SKEW) + k, WIDTH + SKEW);
            wmma::mma_sync(result_frag[l], act_frag, weights_frag, result_frag[l]);
        }
    }
    __syncthreads();  // all warps have read the layer's input

    float* mine = staging + wi * 256;
    for (uint32_t l = 0; l < N_ITERS; ++l) {
        warp_activation(ACTIVATION, result_frag[l]);
        wmma::store_matrix_sync(mine, result_frag[l], 16, wmma::mem_row_major);
        __syncwarp();
        for (uint32_t i = li; i < 256; i += 32)
            act_shmem[(16 * l + i / 16) * (WIDTH + SKEW) + weights_col + i % 16] = __float2half(mine[i]);
        __syncwarp();
    }
    __syncthreads();
}

// the last layer has 16 outputs: one fragment per 16 rows, warp l computes those of row block l
__device__ void threadblock_last_layer(const __half* act_shmem, float* staging, const __half* __restrict__ weights,
                                       __half* __restrict__ out, uint32_t rows_left) {
    using namespace nvcuda;
    const uint32_t li = threadIdx.x;
    const uint32_t wi = threadIdx.y;
    if (wi >= N_ITERS) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> result_frag;
    wmma::fill_fragment(result_frag, 0.0f);
    for (uint32_t k = 0; k < WIDTH; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag;
        wmma::load_matrix_sync(act_frag, act_shmem + 16 * wi * (WIDTH + SKEW) + k, WIDTH + SKEW);
        wmma::load_matrix_sync(weights_frag, weights + k, WIDTH);
        wmma::mma_sync(result_frag, act_frag, weights_frag, result_frag);
    }
    float* mine = staging + wi * 256;
    wmma::store_matrix_sync(mine, result_frag, OUT_DIM, wmma::mem_row_major);
    __syncwarp();
    for (uint32_t i = li; i < 256; i += 32) {
        const uint32_t row = 16 * wi + i / OUT_DIM;
        if (row < rows_left) out[row * OUT_DIM + i % OUT_DIM] = __float2half(mine[i]);
    }
}

template <Activation ACTIVATION, uint32_t IN_DIM>
__global__ void kernel_mlp_fused(const __half* __restrict__ input, const __half* __restrict__ weights,
                                 __half* __restrict__ output, uint32_t batch_size, uint32_t n_hidden_matmuls) {
    __shared__ __align__(32) __half act_shmem[ROWS * (WIDTH + SKEW)];
    __shared__ __align__(32) float staging[N_BLOCK_ROWS * 256];

    const uint32_t elem_idx = ROWS * blockIdx.x;
    const uint32_t rows_left = batch_size - elem_idx;
    const uint32_t thread = threadIdx.x + 32 * threadIdx.y;

    for (uint32_t i = thread; i < ROWS * IN_DIM; i += 32 * N_BLOCK_ROWS) {
        const uint32_t row = i / IN_DIM, col = i % IN_DIM;
        act_shmem[row * (WIDTH + SKEW) + col] =
            row < rows_left ? input[(elem_idx + row) * IN_DIM + col] : __float2half(0.0f);
    }
    __syncthreads();

    threadblock_layer<ACTIVATION>(act_shmem, staging, weights, IN_DIM);
    weights += WIDTH * IN_DIM;
    for (uint32_t layer = 0; layer < n_hidden_matmuls; ++layer)
        threadblock_layer<ACTIVATION>(act_shmem, staging, weights + layer * WIDTH * WIDTH, WIDTH);
    threadblock_last_layer(act_shmem, staging, weights + n_hidden_matmuls * WIDTH * WIDTH,
                           output + elem_idx * OUT_DIM, rows_left);
}

void mlp_fused_forward(cudaStream_t stream, const __half* input, const __half* weights, __half* output,
                       uint32_t batch_size, uint32_t n_hidden_matmuls) {
    const dim3 threads{32u, N_BLOCK_ROWS, 1u};
    kernel_mlp_fused<Activation::ReLU, 32>
        <<<(batch_size + ROWS - 1) / ROWS, threads, 0, stream>>>(input, weights, output, batch_size, n_hidden_matmuls);
}
