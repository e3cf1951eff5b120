// DLRM dot-based feature interaction, forward, half precision.
//
// input : [batch, num_rows, num_cols]   row 0 is the bottom MLP's output, the others are embeddings
// output: [batch, output_size]          row 0, then <row i, row j> for j < i, then zeros up to output_size
//
// One warp handles one sample; its rows lie in shared memory, padded to 32 x num_cols_padded, and the
// products of all pairs are three 16x16 tiles (the upper one of the two off the diagonal is not needed).

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

typedef unsigned int uint;

template <uint WARPS_PER_BLOCK, uint TILE_DIM, uint WARP_SIZE = 32>
__launch_bounds__(WARPS_PER_BLOCK * WARP_SIZE)
__global__ void dotBasedInteractFwdKernel(const __half *__restrict input, __half *__restrict output, uint batch_size, uint num_rows,
                                          uint num_cols, uint num_rows_after_padding, uint num_cols_after_padding,
                                          uint smem_stride, uint smem_stride_acc, uint smem_bytes_per_warp, uint output_size)
{
    using namespace nvcuda;
    extern __shared__ __align__(32) unsigned char smem_raw[];

    const uint warp_id = threadIdx.x / WARP_SIZE;
    const uint lane_id = threadIdx.x % WARP_SIZE;
    const uint sample_id = blockIdx.x * WARPS_PER_BLOCK + warp_id;
    if (sample_id >= batch_size) return;

    __half *shmem = reinterpret_cast<__half *>(smem_raw + warp_id * smem_bytes_per_warp);
    const __half *sample_input = input + (size_t)sample_id * num_rows * num_cols;
    __half *sample_output = output + (size_t)sample_id * output_size;

    // rows, four halfs at a time
    for (uint row = 0; row < num_rows; ++row) {
        for (uint col = lane_id << 2; col < num_cols; col += WARP_SIZE << 2) {
            *reinterpret_cast<float2 *>(shmem + row * smem_stride + col) =
                *reinterpret_cast<const float2 *>(sample_input + row * num_cols + col);
        }
        for (uint col = num_cols + lane_id; col < num_cols_after_padding; col += WARP_SIZE) {
            shmem[row * smem_stride + col] = __float2half(0.f);
        }
    }
    for (uint row = num_rows; row < num_rows_after_padding; ++row) {
        for (uint col = lane_id; col < num_cols_after_padding; col += WARP_SIZE) {
            shmem[row * smem_stride + col] = __float2half(0.f);
        }
    }
    __syncwarp();

    // the bottom MLP's output goes through
    for (uint col = lane_id << 2; col < num_cols; col += WARP_SIZE << 2) {
        const float2 v = *reinterpret_cast<float2 *>(shmem + col);
        const __half2 *pair = reinterpret_cast<const __half2 *>(&v);
        sample_output[col + 0] = __low2half(pair[0]);
        sample_output[col + 1] = __high2half(pair[0]);
        sample_output[col + 2] = __low2half(pair[1]);
        sample_output[col + 3] = __high2half(pair[1]);
    }

    wmma::fragment<wmma::accumulator, TILE_DIM, TILE_DIM, TILE_DIM, float> acc[3];
    for (uint t = 0; t < 3; ++t) wmma::fill_fragment(acc[t], 0.f);

    for (uint k = 0; k < num_cols_after_padding; k += TILE_DIM) {
        wmma::fragment<wmma::matrix_a, TILE_DIM, TILE_DIM, TILE_DIM, __half, wmma::row_major> a[2];
        wmma::fragment<wmma::matrix_b, TILE_DIM, TILE_DIM, TILE_DIM, __half, wmma::col_major> b[2];
        for (uint i = 0; i < 2; ++i) {
            const __half *tile = shmem + i * TILE_DIM * smem_stride + k;
            wmma::load_matrix_sync(a[i], tile, smem_stride);
            wmma::load_matrix_sync(b[i], tile, smem_stride);
        }
        wmma::mma_sync(acc[0], a[0], b[0], acc[0]);
        wmma::mma_sync(acc[1], a[1], b[0], acc[1]);
        wmma::mma_sync(acc[2], a[1], b[1], acc[2]);
    }
    __syncwarp();

    // the inputs are no longer needed: their memory takes the products
    float *shmem_store = reinterpret_cast<float *>(shmem);
    wmma::store_matrix_sync(shmem_store, acc[0], smem_stride_acc, wmma::mem_row_major);
    wmma::store_matrix_sync(shmem_store + TILE_DIM * smem_stride_acc, acc[1], smem_stride_acc, wmma::mem_row_major);
    wmma::store_matrix_sync(shmem_store + TILE_DIM * smem_stride_acc + TILE_DIM, acc[2], smem_stride_acc, wmma::mem_row_major);
    __syncwarp();

    __half *interactions = sample_output + num_cols;
    for (uint row = 1; row < num_rows; ++row) {
        const uint offset = row * (row - 1) / 2;
        for (uint col = lane_id; col < row; col += WARP_SIZE) {
            interactions[offset + col] = __float2half(shmem_store[row * smem_stride_acc + col]);
        }
    }

    const uint used = num_cols + num_rows * (num_rows - 1) / 2;
    for (uint i = used + lane_id; i < output_size; i += WARP_SIZE) sample_output[i] = __float2half(0.f);
}

template __global__ void dotBasedInteractFwdKernel<4, 16, 32>(const __half *, __half *, uint, uint, uint, uint, uint, uint, uint, uint, uint);

void dotBasedInteractFwd(const void *input, void *output, uint batch_size, uint num_rows, uint num_cols, cudaStream_t stream)
{
    const uint kWarps = 4, kPad = 8;
    const uint cols_pad = (num_cols + 15) / 16 * 16;
    const uint stride = cols_pad + kPad, stride_acc = 32 + kPad;
    const uint bytes = 32 * (stride * sizeof(__half) > stride_acc * sizeof(float) ? stride * sizeof(__half) : stride_acc * sizeof(float));
    const uint output_size = (num_cols + num_rows * (num_rows - 1) / 2 + 7) / 8 * 8;
    dotBasedInteractFwdKernel<4, 16, 32><<<(batch_size + kWarps - 1) / kWarps, kWarps * 32, kWarps * bytes, stream>>>(
        (const __half *)input, (__half *)output, batch_size, num_rows, num_cols, 32, cols_pad, stride, stride_acc, bytes, output_size);
}
