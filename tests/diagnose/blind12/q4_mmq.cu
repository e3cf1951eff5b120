// mmq-q4.cu: Q4_0 x Q8_1 on int8 tensor cores. dst[col*nrows + row] = x[row] . y[col], x quantised weights, y tokens.
#include <cuda_fp16.h>
#include <stdint.h>

#define QK4_0 32
#define QI4_0 (QK4_0/(4*2))   // ints of packed weights in a block
#define QI8_1 (32/4)          // ints of activations in a block
#define WARP_SIZE 32
#define MMQ_NWARPS 4
#define MMQ_Y 64              // rows of x
#define MMQ_X 16              // columns of y
#define MMQ_K 4               // blocks of 32 in a step
#define X_STRIDE (MMQ_K*QI8_1 + 4)
#define Y_STRIDE (MMQ_K*QI8_1 + 4)

struct tile_A { int x[4]; };    // 16 x 8 ints
struct tile_B { int x[2]; };    //  8 x 8 ints
struct tile_C { int x[4] = {0}; };

static __device__ __forceinline__ int get_i(const int l) { return (l/2)*8 + threadIdx.x/4; }
static __device__ __forceinline__ int get_j(const int l) { return 2*(threadIdx.x%4) + l%2; }

static __device__ __forceinline__ void load_A(tile_A & t, const int * xs, const int stride) {
    const int i = threadIdx.x/4, k = threadIdx.x%4;
    t.x[0] = xs[i*stride + k];
    t.x[1] = xs[(i + 8)*stride + k];
    t.x[2] = xs[i*stride + k + 4];
    t.x[3] = xs[(i + 8)*stride + k + 4];
}

static __device__ __forceinline__ void load_B(tile_B & t, const int * ys, const int stride) {
    t.x[0] = ys[(threadIdx.x/4)*stride + threadIdx.x%4];
    t.x[1] = ys[(threadIdx.x/4)*stride + threadIdx.x%4 + 4];
}

static __device__ __forceinline__ void mma_K8(tile_C & c, const tile_A & a, const tile_B & b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c.x[0]), "+r"(c.x[1]), "+r"(c.x[2]), "+r"(c.x[3])
        : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

static __device__ __forceinline__ void load_tiles_q4_0(
        const uint8_t * x_qs, const half * x_d, int * xs, float * xd, const int row0, const int kb0,
        const int blocks_per_row, const int nrows) {
    // one thread, one packed int: 4 low nibbles are elements 4k.., 4 high nibbles 16 later
    const int kqs = threadIdx.x % QI4_0;
    const int kbx = threadIdx.x / QI4_0 % MMQ_K;
    for (int i0 = 0; i0 < MMQ_Y; i0 += 2*MMQ_NWARPS) {
        const int i = i0 + threadIdx.y*2 + threadIdx.x / (QI4_0*MMQ_K);
        const int row = min(row0 + i, nrows - 1);
        const int kb = kb0 + kbx;
        int q = 0;
        if (kb < blocks_per_row) {
            q = *(const int *) (x_qs + ((int64_t) row*blocks_per_row + kb)*(QK4_0/2) + 4*kqs);
        }
        xs[i*X_STRIDE + kbx*QI8_1 + kqs]         = (q >> 0) & 0x0F0F0F0F;
        xs[i*X_STRIDE + kbx*QI8_1 + kqs + QI4_0] = (q >> 4) & 0x0F0F0F0F;
        if (kqs == 0) {
            xd[i*MMQ_K + kbx] = kb < blocks_per_row ? __half2float(x_d[(int64_t) row*blocks_per_row + kb]) : 0.0f;
        }
    }
}

template <bool need_check>
static __global__ void mul_mat_q4_0(
        const uint8_t * __restrict__ x_qs, const half * __restrict__ x_d, const int8_t * __restrict__ y_qs,
        const float2 * __restrict__ y_ds, float * __restrict__ dst, const int ncols_x, const int nrows_x,
        const int ncols_y) {
    __shared__ int    xs[MMQ_Y*X_STRIDE];
    __shared__ float  xd[MMQ_Y*MMQ_K];
    __shared__ int    ys[MMQ_X*Y_STRIDE];
    __shared__ float2 yds[MMQ_X*MMQ_K];

    const int blocks_per_row = ncols_x / QK4_0;
    const int row0 = blockIdx.x*MMQ_Y;
    const int col0 = blockIdx.y*MMQ_X;
    const int tid  = threadIdx.y*WARP_SIZE + threadIdx.x;

    float sum[MMQ_X/8][4] = {{0.0f}};

    for (int kb0 = 0; kb0 < blocks_per_row; kb0 += MMQ_K) {
        load_tiles_q4_0(x_qs, x_d, xs, xd, row0, kb0, blocks_per_row, nrows_x);

        for (int l = tid; l < MMQ_X*MMQ_K*QI8_1; l += MMQ_NWARPS*WARP_SIZE) {
            const int j = l / (MMQ_K*QI8_1), k = l % (MMQ_K*QI8_1);
            const int col = min(col0 + j, ncols_y - 1);
            const int kb = kb0 + k/QI8_1;
            ys[j*Y_STRIDE + k] = kb < blocks_per_row
                ? ((const int *) y_qs)[((int64_t) col*blocks_per_row + kb)*QI8_1 + k%QI8_1] : 0;
        }
        if (tid < MMQ_X*MMQ_K) {
            const int col = min(col0 + tid/MMQ_K, ncols_y - 1);
            const int kb = kb0 + tid%MMQ_K;
            yds[tid] = kb < blocks_per_row ? y_ds[(int64_t) col*blocks_per_row + kb] : make_float2(0.0f, 0.0f);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < MMQ_K; ++kk) {
            tile_A A;
            load_A(A, xs + threadIdx.y*16*X_STRIDE + kk*QI8_1, X_STRIDE);
#pragma unroll
            for (int n = 0; n < MMQ_X/8; ++n) {
                tile_B B;
                tile_C C;
                load_B(B, ys + n*8*Y_STRIDE + kk*QI8_1, Y_STRIDE);
                mma_K8(C, A, B);
#pragma unroll
                for (int l = 0; l < 4; ++l) {
                    const float  d4 = xd[(threadIdx.y*16 + get_i(l))*MMQ_K + kk];
                    const float2 ds8 = yds[(n*8 + get_j(l))*MMQ_K + kk];
                    sum[n][l] += d4 * (C.x[l]*ds8.x - 8.0f*ds8.y);   // nibbles are 8 too large
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int n = 0; n < MMQ_X/8; ++n) {
#pragma unroll
        for (int l = 0; l < 4; ++l) {
            const int row = row0 + threadIdx.y*16 + get_i(l);
            const int col = col0 + n*8 + get_j(l);
            if (need_check && (row >= nrows_x || col >= ncols_y)) {
                continue;
            }
            dst[(int64_t) col*nrows_x + row] = sum[n][l];
        }
    }
}

template __global__ void mul_mat_q4_0<true>(const uint8_t *, const half *, const int8_t *, const float2 *, float *, int, int, int);
