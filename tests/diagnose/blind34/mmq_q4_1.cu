// Quantised matrix product in the manner of llama.cpp's MMQ: q4_1 weights, q8_1 activations, int8 tensor cores.
// dst[ids_dst[j]*nrows_x + i] = sum over blocks of 32:  d_w*d_a*(q_w . q_a) + m_w*s_a
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define WARP_SIZE 32
#define QK4_1 32
#define QI4_1 4            // ints of nibbles per block
#define QI8_1 8            // ints of bytes per block

#define MMQ_NWARPS 4
#define MMQ_Y 64           // weight rows of a thread block
#define MMQ_X 32           // activation columns of a thread block
#define MMQ_BLOCKS_PER_ITER 4
#define MMQ_TILE_NE_K (MMQ_BLOCKS_PER_ITER*QI8_1)
#define MMQ_STRIDE (MMQ_TILE_NE_K + 4)   // ints, shifts rows by 4 banks

struct tile_A { int x[4]; };
struct tile_B { int x[2]; };
struct tile_C {
    int x[4];
    static __device__ __forceinline__ int get_i(const int l) { return (l / 2) * 8 + threadIdx.x / 4; }
    static __device__ __forceinline__ int get_j(const int l) { return (threadIdx.x % 4) * 2 + l % 2; }
};

static __device__ __forceinline__ void load_generic(tile_A & t, const int * __restrict__ xs0, const int stride) {
#pragma unroll
    for (int l = 0; l < 4; ++l) {
        const int i = (l % 2) * 8 + threadIdx.x / 4;
        const int k = (l / 2) * 4 + threadIdx.x % 4;
        t.x[l] = xs0[i*stride + k];
    }
}

static __device__ __forceinline__ void load_generic(tile_B & t, const int * __restrict__ xs0, const int stride) {
#pragma unroll
    for (int l = 0; l < 2; ++l) {
        t.x[l] = xs0[(threadIdx.x / 4)*stride + l*4 + threadIdx.x % 4];
    }
}

static __device__ __forceinline__ void mma(tile_C & D, const tile_A & A, const tile_B & B) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(D.x[0]), "+r"(D.x[1]), "+r"(D.x[2]), "+r"(D.x[3])
        : "r"(A.x[0]), "r"(A.x[1]), "r"(A.x[2]), "r"(A.x[3]), "r"(B.x[0]), "r"(B.x[1]));
}

// low nibbles of a block are its first 16 values, high nibbles the last 16
template <bool need_check>
static __device__ __forceinline__ void load_tiles_q4_1(
        const uint32_t * __restrict__ qs, const half2 * __restrict__ dm, int * __restrict__ x_qs, half2 * __restrict__ x_dm,
        const int row0, const int kb0, const int nrows_x, const int blocks_per_row) {
    const int tid = threadIdx.y*WARP_SIZE + threadIdx.x;

#pragma unroll
    for (int i0 = 0; i0 < MMQ_Y*MMQ_BLOCKS_PER_ITER*QI4_1; i0 += MMQ_NWARPS*WARP_SIZE) {
        const int idx = i0 + tid;
        const int i   = idx / (MMQ_BLOCKS_PER_ITER*QI4_1);
        const int kqs = idx % (MMQ_BLOCKS_PER_ITER*QI4_1);
        const int kb  = kqs / QI4_1;
        int row = row0 + i;
        if (need_check) {
            row = min(row, nrows_x - 1);
        }
        const bool in_k = kb0 + kb < blocks_per_row;
        const uint32_t q = in_k ? qs[((size_t) row*blocks_per_row + kb0)*QI4_1 + kqs] : 0;
        int * dst = x_qs + i*MMQ_STRIDE + kb*QI8_1 + kqs % QI4_1;
        dst[0]     = (q >> 0) & 0x0F0F0F0F;
        dst[QI4_1] = (q >> 4) & 0x0F0F0F0F;
    }

#pragma unroll
    for (int i0 = 0; i0 < MMQ_Y*MMQ_BLOCKS_PER_ITER; i0 += MMQ_NWARPS*WARP_SIZE) {
        const int idx = i0 + tid;
        const int i   = idx / MMQ_BLOCKS_PER_ITER;
        const int kb  = idx % MMQ_BLOCKS_PER_ITER;
        int row = row0 + i;
        if (need_check) {
            row = min(row, nrows_x - 1);
        }
        const bool in_k = kb0 + kb < blocks_per_row;
        x_dm[i*(MMQ_BLOCKS_PER_ITER + 1) + kb] = in_k ? dm[(size_t) row*blocks_per_row + kb0 + kb] : make_half2(0.0f, 0.0f);
    }
}

static __device__ __forceinline__ void load_tile_y(
        const int * __restrict__ yq, const float2 * __restrict__ yds, int * __restrict__ y_qs, float2 * __restrict__ y_ds,
        const int col0, const int kb0, const int ncols_y, const int blocks_per_row) {
    const int tid = threadIdx.y*WARP_SIZE + threadIdx.x;

    for (int idx = tid; idx < MMQ_X*MMQ_TILE_NE_K; idx += MMQ_NWARPS*WARP_SIZE) {
        const int j = idx / MMQ_TILE_NE_K;
        const int k = idx % MMQ_TILE_NE_K;
        const bool ok = col0 + j < ncols_y && kb0 + k / QI8_1 < blocks_per_row;
        y_qs[j*MMQ_STRIDE + k] = ok ? yq[((size_t) (col0 + j)*blocks_per_row + kb0)*QI8_1 + k] : 0;
    }
    {
        const int j  = tid / MMQ_BLOCKS_PER_ITER;
        const int kb = tid % MMQ_BLOCKS_PER_ITER;
        const bool ok = col0 + j < ncols_y && kb0 + kb < blocks_per_row;
        y_ds[j*MMQ_BLOCKS_PER_ITER + kb] = ok ? yds[(size_t) (col0 + j)*blocks_per_row + kb0 + kb] : make_float2(0.0f, 0.0f);
    }
}

static __device__ __forceinline__ void vec_dot_q4_1_q8_1_mma(
        const int * __restrict__ x_qs, const half2 * __restrict__ x_dm, const int * __restrict__ y_qs, const float2 * __restrict__ y_ds,
        float (&sum)[MMQ_X/8][4]) {
    const int i0 = threadIdx.y*16;

#pragma unroll
    for (int kb = 0; kb < MMQ_BLOCKS_PER_ITER; ++kb) {
        tile_A A;
        load_generic(A, x_qs + i0*MMQ_STRIDE + kb*QI8_1, MMQ_STRIDE);

        float2 dmA[2];
#pragma unroll
        for (int l = 0; l < 2; ++l) {
            dmA[l] = __half22float2(x_dm[(i0 + tile_C::get_i(2*l))*(MMQ_BLOCKS_PER_ITER + 1) + kb]);
        }

#pragma unroll
        for (int j0 = 0; j0 < MMQ_X; j0 += 8) {
            tile_B B;
            tile_C C = {};
            load_generic(B, y_qs + j0*MMQ_STRIDE + kb*QI8_1, MMQ_STRIDE);
            mma(C, A, B);

#pragma unroll
            for (int l = 0; l < 4; ++l) {
                const float2 dsB = y_ds[(j0 + tile_C::get_j(l))*MMQ_BLOCKS_PER_ITER + kb];
                sum[j0/8][l] += dmA[l/2].x*dsB.x*C.x[l];
                sum[j0/8][l] += dmA[l/2].y*dsB.y;
            }
        }
    }
}

template <bool need_check>
static __global__ void __launch_bounds__(MMQ_NWARPS*WARP_SIZE) mul_mat_q4_1(
        const uint32_t * __restrict__ x_q, const half2 * __restrict__ x_d, const int * __restrict__ y_q, const float2 * __restrict__ y_d,
        const int32_t * __restrict__ ids_dst, float * __restrict__ dst,
        const int ncols_x, const int nrows_x, const int ncols_y, const int stride_col_dst) {
    __shared__ int    x_qs[MMQ_Y*MMQ_STRIDE];
    __shared__ half2  x_dm[MMQ_Y*(MMQ_BLOCKS_PER_ITER + 1)];
    __shared__ int    y_qs[MMQ_X*MMQ_STRIDE];
    __shared__ float2 y_ds[MMQ_X*MMQ_BLOCKS_PER_ITER];
    __shared__ int    ids_shared[MMQ_X];

    const int row0 = blockIdx.x*MMQ_Y;
    const int col0 = blockIdx.y*MMQ_X;
    const int blocks_per_row = ncols_x / QK4_1;

    if (threadIdx.y == 0) {
        ids_shared[threadIdx.x] = col0 + threadIdx.x < ncols_y ? ids_dst[col0 + threadIdx.x] : 0;
    }

    float sum[MMQ_X/8][4] = {};

    for (int kb0 = 0; kb0 < blocks_per_row; kb0 += MMQ_BLOCKS_PER_ITER) {
        load_tiles_q4_1<need_check>(x_q, x_d, x_qs, x_dm, row0, kb0, nrows_x, blocks_per_row);
        load_tile_y(y_q, y_d, y_qs, y_ds, col0, kb0, ncols_y, blocks_per_row);
        __syncthreads();
        vec_dot_q4_1_q8_1_mma(x_qs, x_dm, y_qs, y_ds, sum);
        __syncthreads();
    }

#pragma unroll
    for (int j0 = 0; j0 < MMQ_X; j0 += 8) {
#pragma unroll
        for (int l = 0; l < 4; ++l) {
            const int i = threadIdx.y*16 + tile_C::get_i(l);
            const int j = j0 + tile_C::get_j(l);
            if (col0 + j >= ncols_y || (need_check && row0 + i >= nrows_x)) {
                continue;
            }
            dst[(size_t) ids_shared[j]*stride_col_dst + row0 + i] = sum[j0/8][l];
        }
    }
}

static void ggml_cuda_mul_mat_q4_1(
        const uint32_t * x_q, const half2 * x_d, const int * y_q, const float2 * y_d, const int32_t * ids_dst, float * dst,
        const int ncols_x, const int nrows_x, const int ncols_y, cudaStream_t stream) {
    const dim3 grid((nrows_x + MMQ_Y - 1)/MMQ_Y, (ncols_y + MMQ_X - 1)/MMQ_X, 1);
    const dim3 block(WARP_SIZE, MMQ_NWARPS, 1);
    if (nrows_x % MMQ_Y == 0) {
        mul_mat_q4_1<false><<<grid, block, 0, stream>>>(x_q, x_d, y_q, y_d, ids_dst, dst, ncols_x, nrows_x, ncols_y, nrows_x);
    } else {
        mul_mat_q4_1<true><<<grid, block, 0, stream>>>(x_q, x_d, y_q, y_d, ids_dst, dst, ncols_x, nrows_x, ncols_y, nrows_x);
    }
}
