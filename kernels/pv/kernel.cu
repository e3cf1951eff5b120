// pv: O = P V, the second product of attention, by WMMA. P holds probabilities, or any other half values.
//
//   p          half, contiguous [batch * heads][seq_len][seq_len], 16-byte aligned
//   v, o       half, contiguous [batch * heads][seq_len][head_dim], 16-byte aligned
//   seq_len    any length >= 1
//   head_dim   any multiple of 8 (a row of V is then whole 16-byte chunks)
//
// Launch: grid (ceil(head_dim / 64), ceil(seq_len / 64), batch * heads): x column tiles, y query tiles. Block 128,
// static shared memory only; sm_80 or newer.
//
// A block computes one 64 x 64 tile of O, four warps 32 x 32 each. Slices of 32 keys come by cp.async into two
// buffers. A row of P is 16-byte aligned only where seq_len is a multiple of 8; elsewhere P is copied by element.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 64;
constexpr int SLICE = 32;
constexpr int THREADS = 128;
constexpr int LD_P = SLICE + 8;  // 16 bytes of padding: rows on different banks, 16x16 tiles still 32-byte aligned
constexpr int LD_V = TILE + 8;
constexpr int LD_OUT = TILE + 4;

// Starts the copy of ROWS x COLS elements of a [rows][cols] matrix into a tile of pitch LD. What lies past the last
// row or column becomes zero. With `vector`, cols is a multiple of 8 and each 16-byte chunk exists wholly or not at
// all; without, a row starts anywhere and its last chunk may be a part of one.
template <int ROWS, int COLS, int LD>
__device__ void start_slice(half* slice, const half* matrix, int first_row, int first_col, int rows, int cols,
                            bool vector) {
    for (int i = threadIdx.x; i < ROWS * COLS / 8; i += THREADS) {
        const int row = i / (COLS / 8);
        const int col = i % (COLS / 8) * 8;
        half* target = slice + row * LD + col;
        const half* source = matrix + static_cast<size_t>(first_row + row) * cols + first_col + col;
        const int count = first_row + row < rows ? min(max(cols - first_col - col, 0), 8) : 0;
        if (vector) {
            const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address),
                         "l"(count > 0 ? source : matrix), "r"(count > 0 ? 16 : 0)
                         : "memory");
        } else {
            for (int e = 0; e < 8; ++e) {
                target[e] = e < count ? source[e] : __float2half(0.0f);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pv(const half* __restrict__ p, const half* __restrict__ v, half* __restrict__ o, int seq_len, int head_dim) {
    __shared__ __align__(32) half sP[2][TILE * LD_P];
    __shared__ __align__(32) half sV[2][SLICE * LD_V];
    __shared__ __align__(32) float sOut[TILE * LD_OUT];

    p += static_cast<size_t>(blockIdx.z) * seq_len * seq_len;
    v += static_cast<size_t>(blockIdx.z) * seq_len * head_dim;
    o += static_cast<size_t>(blockIdx.z) * seq_len * head_dim;
    const int first_query = blockIdx.y * TILE;
    const int first_col = blockIdx.x * TILE;
    const int warp_row = threadIdx.x / 64 * 32;
    const int warp_col = threadIdx.x / 32 % 2 * 32;
    const bool aligned_p = seq_len % 8 == 0;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        wmma::fill_fragment(acc[i / 2][i % 2], 0.0f);
    }

    const int slices = (seq_len + SLICE - 1) / SLICE;
    start_slice<TILE, SLICE, LD_P>(sP[0], p, first_query, 0, seq_len, seq_len, aligned_p);
    start_slice<SLICE, TILE, LD_V>(sV[0], v, 0, first_col, seq_len, head_dim, true);
    asm volatile("cp.async.commit_group;\n" ::: "memory");

    for (int slice = 0; slice < slices; ++slice) {
        const int now = slice % 2;
        if (slice + 1 < slices) {
            const int first_key = (slice + 1) * SLICE;
            start_slice<TILE, SLICE, LD_P>(sP[1 - now], p, first_query, first_key, seq_len, seq_len, aligned_p);
            start_slice<SLICE, TILE, LD_V>(sV[1 - now], v, first_key, first_col, seq_len, head_dim, true);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");  // empty at the end: the count below stays right
        asm volatile("cp.async.wait_group 1;\n" ::: "memory");  // all but the newest group: this slice has arrived
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < SLICE; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], sP[now] + (warp_row + i * 16) * LD_P + kk, LD_P);
                wmma::load_matrix_sync(b[i], sV[now] + kk * LD_V + warp_col + i * 16, LD_V);
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
        float* tile = sOut + (warp_row + i / 2 * 16) * LD_OUT + warp_col + i % 2 * 16;
        wmma::store_matrix_sync(tile, acc[i / 2][i % 2], LD_OUT, wmma::mem_row_major);
    }
    __syncthreads();

    // Eight columns at a time: head_dim is a multiple of 8, so that a chunk exists wholly or not at all.
    for (int i = threadIdx.x; i < TILE * TILE / 8; i += THREADS) {
        const int row = i / (TILE / 8);
        const int col = i % (TILE / 8) * 8;
        if (first_query + row < seq_len && first_col + col < head_dim) {
            const float* source = sOut + row * LD_OUT + col;
            __align__(16) half2 chunk[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                chunk[e] = __floats2half2_rn(source[2 * e], source[2 * e + 1]);
            }
            half* target = o + static_cast<size_t>(first_query + row) * head_dim + first_col + col;
            *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(chunk);
        }
    }
}
