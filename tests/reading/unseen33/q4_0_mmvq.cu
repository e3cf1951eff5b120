// Matrix-vector product with 4-bit block quantised weights (GGML q4_0 layout).
//
//   weights: rows x (ncols / 32) blocks, each block 32 values:
//            d (half), qs[16]; value i      = d * ((qs[i] & 0xF) - 8)   i = 0..15
//                              value i + 16 = d * ((qs[i] >> 4)  - 8)
//   the vector is quantised to q8_1 on the fly: 32 int8, d = amax / 127, s = d * sum(q)
//
//   dot(block) = d4 * (d8 * sumi - 8 * s8),  sumi = sum over q4 * q8 with dp4a
//
// ncols % 32 == 0. No host code except the launchers.

#include <cuda_fp16.h>
#include <stdint.h>

#define QK4_0 32
#define QK8_1 32
#define WARP_SIZE 32
#define MMVQ_ROWS_PER_BLOCK 4
#define CUDA_QUANTIZE_BLOCK_SIZE 256

typedef struct {
    half    d;               // delta
    uint8_t qs[QK4_0 / 2];   // nibbles
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");

typedef struct {
    half2   ds;              // d, s
    int8_t  qs[QK8_1];
} block_q8_1;
static_assert(sizeof(block_q8_1) == 2 * sizeof(half) + QK8_1, "wrong q8_1 block size/padding");

static __device__ __forceinline__ float warp_reduce_sum(float x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        x += __shfl_xor_sync(0xffffffff, x, mask, 32);
    }
    return x;
}

static __device__ __forceinline__ float warp_reduce_max(float x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, mask, 32));
    }
    return x;
}

// block_q4_0 is only aligned to 2 bytes
static __device__ __forceinline__ int get_int_from_uint8(const uint8_t * x8, const int & i32) {
    const uint16_t * x16 = (const uint16_t *) (x8 + sizeof(int) * i32);
    int x32 = 0;
    x32 |= x16[0] <<  0;
    x32 |= x16[1] << 16;
    return x32;
}

static __device__ __forceinline__ int get_int_from_int8_aligned(const int8_t * x8, const int & i32) {
    return *((const int *) (x8 + sizeof(int) * i32));
}

// a warp quantises one block of 32
static __global__ void quantize_q8_1(const float * __restrict__ x, void * __restrict__ vy, const int kx) {
    const int ix = blockDim.x * blockIdx.x + threadIdx.x;
    if (ix >= kx) {
        return;   // kx is a multiple of 32, whole warps leave
    }
    block_q8_1 * y = (block_q8_1 *) vy;
    const int ib  = ix / QK8_1;
    const int iqs = ix % QK8_1;

    const float xi = x[ix];
    const float amax = warp_reduce_max(fabsf(xi));
    const float d = amax / 127;
    const int8_t q = amax == 0.0f ? 0 : (int8_t) roundf(xi / d);
    const float sum = warp_reduce_sum((float) q) * d;

    y[ib].qs[iqs] = q;
    if (iqs == 0) {
        y[ib].ds = __floats2half2_rn(d, sum);
    }
}

// half a block: the 16 nibbles of two ints with four ints of q8_1
static __device__ __forceinline__ float vec_dot_q4_0_q8_1(
    const block_q4_0 * __restrict__ bq4, const block_q8_1 * __restrict__ bq8, const int iqs) {

    int sumi = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int v  = get_int_from_uint8(bq4->qs, iqs + i);
        const int u0 = get_int_from_int8_aligned(bq8->qs, iqs + i);
        const int u1 = get_int_from_int8_aligned(bq8->qs, iqs + i + QK8_1 / 8);
        const int vi0 = (v >> 0) & 0x0F0F0F0F;
        const int vi1 = (v >> 4) & 0x0F0F0F0F;
        sumi = __dp4a(vi0, u0, sumi);
        sumi = __dp4a(vi1, u1, sumi);
    }
    const float d4 = __half2float(bq4->d);
    const float2 ds8 = __half22float2(bq8->ds);
    // two lanes share a block, each takes half of the offset of 8
    return d4 * (sumi * ds8.x - (8 * 2 / 4) * ds8.y);
}

// one warp per row, 2 lanes per block, 16 blocks per step
static __global__ void mul_mat_vec_q4_0_q8_1(
    const void * __restrict__ vx, const void * __restrict__ vy, float * __restrict__ dst,
    const int ncols, const int nrows) {

    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= nrows) {
        return;
    }
    const int blocks_per_row  = ncols / QK4_0;
    const int blocks_per_warp = WARP_SIZE / 2;

    const block_q4_0 * x = (const block_q4_0 *) vx + (size_t) row * blocks_per_row;
    const block_q8_1 * y = (const block_q8_1 *) vy;

    float tmp = 0.0f;
    for (int i = threadIdx.x / 2; i < blocks_per_row; i += blocks_per_warp) {
        const int iqs = 2 * (threadIdx.x % 2);
        tmp += vec_dot_q4_0_q8_1(&x[i], &y[i], iqs);
    }
    tmp = warp_reduce_sum(tmp);
    if (threadIdx.x == 0) {
        dst[row] = tmp;
    }
}

// fp32 = dequantised q4_0, one thread per pair of values of a block
static __global__ void dequantize_block_q4_0(const void * __restrict__ vx, float * __restrict__ y, const int k) {
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= k / 2) {
        return;
    }
    const block_q4_0 * x = (const block_q4_0 *) vx;
    const int ib  = i / (QK4_0 / 2);
    const int iqs = i % (QK4_0 / 2);
    const float d = __half2float(x[ib].d);
    const int vui = x[ib].qs[iqs];
    y[ib * QK4_0 + iqs]             = d * ((vui & 0xF) - 8);
    y[ib * QK4_0 + iqs + QK4_0 / 2] = d * ((vui >> 4) - 8);
}

void quantize_row_q8_1_cuda(const float * x, void * vy, const int kx, cudaStream_t stream) {
    const int num_blocks = (kx + CUDA_QUANTIZE_BLOCK_SIZE - 1) / CUDA_QUANTIZE_BLOCK_SIZE;
    quantize_q8_1<<<num_blocks, CUDA_QUANTIZE_BLOCK_SIZE, 0, stream>>>(x, vy, kx);
}

void mul_mat_vec_q4_0_q8_1_cuda(const void * vx, const void * vy, float * dst, const int ncols, const int nrows,
                                cudaStream_t stream) {
    const dim3 block_dims(WARP_SIZE, MMVQ_ROWS_PER_BLOCK, 1);
    const int num_blocks = (nrows + MMVQ_ROWS_PER_BLOCK - 1) / MMVQ_ROWS_PER_BLOCK;
    mul_mat_vec_q4_0_q8_1<<<num_blocks, block_dims, 0, stream>>>(vx, vy, dst, ncols, nrows);
}

void dequantize_row_q4_0_cuda(const void * vx, float * y, const int k, cudaStream_t stream) {
    const int num_blocks = (k / 2 + 255) / 256;
    dequantize_block_q4_0<<<num_blocks, 256, 0, stream>>>(vx, y, k);
}
