// qkt: scores = scale * Q K^T, without softmax or mask, by WMMA.
//
//   q, k       half, contiguous [batch * heads][seq_len][head_dim], 16-byte aligned
//   scores     float, contiguous [batch * heads][seq_len][seq_len]
//   seq_len    any length >= 1
//   head_dim   any multiple of 8 (a row is then whole 16-byte chunks)
//
// Launch: grid (ceil(seq_len / 64), ceil(seq_len / 64), batch * heads): x key tiles, y query tiles. Block 128, static
// shared memory only; sm_80 or newer.
//
// A block computes one 64 x 64 tile of scores, four warps 32 x 32 each. Slices of 32 along head_dim come by cp.async
// into two buffers: while one is multiplied, the next is on its way.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 64;
constexpr int SLICE = 32;
constexpr int THREADS = 128;
constexpr int LD = SLICE + 8;  // 16 bytes of padding: rows on different banks, 16x16 tiles still 32-byte aligned
constexpr int LD_OUT = TILE + 4;

// Copies 16 bytes from global to shared memory, or writes 16 zero bytes where there is nothing to copy.
__device__ void copy_or_zero(half* target, const half* source, bool exists) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
    const int bytes = exists ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(source), "r"(bytes) : "memory");
}

// Starts the copy of 64 rows x 32 columns. What lies past the last row or column becomes zero; the source address
// given for it is the matrix itself, which is always valid.
__device__ void start_slice(half* slice, const half* matrix, int first_row, int first_col, int rows, int cols) {
    for (int i = threadIdx.x; i < TILE * SLICE / 8; i += THREADS) {
        const int row = i / (SLICE / 8);
        const int col = i % (SLICE / 8) * 8;
        const bool exists = first_row + row < rows && first_col + col < cols;
        const half* source = exists ? matrix + static_cast<size_t>(first_row + row) * cols + first_col + col : matrix;
        copy_or_zero(slice + row * LD + col, source, exists);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qkt(const half* __restrict__ q, const half* __restrict__ k, float* __restrict__ scores, int seq_len, int head_dim,
        float scale) {
    __shared__ __align__(32) half sQ[2][TILE * LD];
    __shared__ __align__(32) half sK[2][TILE * LD];
    __shared__ __align__(32) float sOut[TILE * LD_OUT];

    q += static_cast<size_t>(blockIdx.z) * seq_len * head_dim;
    k += static_cast<size_t>(blockIdx.z) * seq_len * head_dim;
    scores += static_cast<size_t>(blockIdx.z) * seq_len * seq_len;
    const int first_query = blockIdx.y * TILE;
    const int first_key = blockIdx.x * TILE;
    const int warp_row = threadIdx.x / 64 * 32;
    const int warp_col = threadIdx.x / 32 % 2 * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        wmma::fill_fragment(acc[i / 2][i % 2], 0.0f);
    }

    const int slices = (head_dim + SLICE - 1) / SLICE;
    start_slice(sQ[0], q, first_query, 0, seq_len, head_dim);
    start_slice(sK[0], k, first_key, 0, seq_len, head_dim);
    asm volatile("cp.async.commit_group;\n" ::: "memory");

    for (int slice = 0; slice < slices; ++slice) {
        const int now = slice % 2;
        if (slice + 1 < slices) {
            start_slice(sQ[1 - now], q, first_query, (slice + 1) * SLICE, seq_len, head_dim);
            start_slice(sK[1 - now], k, first_key, (slice + 1) * SLICE, seq_len, head_dim);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");  // empty at the end: the count below stays right
        asm volatile("cp.async.wait_group 1;\n" ::: "memory");  // all but the newest group: this slice has arrived
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < SLICE; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[2];  // K [key][d] is K^T by columns
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], sQ[now] + (warp_row + i * 16) * LD + kk, LD);
                wmma::load_matrix_sync(b[i], sK[now] + (warp_col + i * 16) * LD + kk, LD);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                wmma::mma_sync(acc[i / 2][i % 2], a[i / 2], b[i % 2], acc[i / 2][i % 2]);
            }
        }
        __syncthreads();  // this slice's buffers are free for the copy that the next round starts
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
        auto& c = acc[i / 2][i % 2];
        for (int e = 0; e < c.num_elements; ++e) {
            c.x[e] *= scale;
        }
        float* tile = sOut + (warp_row + i / 2 * 16) * LD_OUT + warp_col + i % 2 * 16;
        wmma::store_matrix_sync(tile, c, LD_OUT, wmma::mem_row_major);
    }
    __syncthreads();

    // Rows of the output are 16-byte aligned only where seq_len is a multiple of 4.
    const bool aligned = seq_len % 4 == 0;
    for (int i = threadIdx.x; i < TILE * TILE / 4; i += THREADS) {
        const int row = i / (TILE / 4);
        const int col = i % (TILE / 4) * 4;
        if (first_query + row >= seq_len) {
            break;  // rows only grow from here
        }
        float* target = scores + static_cast<size_t>(first_query + row) * seq_len + first_key + col;
        const float* source = sOut + row * LD_OUT + col;
        if (aligned && first_key + col < seq_len) {
            *reinterpret_cast<float4*>(target) = *reinterpret_cast<const float4*>(source);
        } else {
            for (int e = 0; e < 4 && first_key + col + e < seq_len; ++e) {
                target[e] = source[e];
            }
        }
    }
}
