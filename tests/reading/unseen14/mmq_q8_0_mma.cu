#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

#define QK8_0 32
typedef struct {
    half   d;          // delta
    int8_t qs[QK8_0];  // quants
} block_q8_0;
static_assert(sizeof(block_q8_0) == sizeof(half) + QK8_0, "wrong q8_0 block size/padding");

#define QK8_1 32
typedef struct {
    float  d;
    int8_t qs[QK8_1];
} block_q8_1;

#define MMQ_X 32
#define MMQ_Y 64
#define WARP_SIZE 32
#define CUDA_QUANTIZE_BLOCK_SIZE 256

static __device__ __forceinline__ float warp_reduce_max(float x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, mask, 32));
    }
    return x;
}

static __global__ void quantize_q8_1(const float * __restrict__ x, block_q8_1 * __restrict__ vy, const int kx) {
    const int ix = blockDim.x * blockIdx.x + threadIdx.x;
    const int iy = blockIdx.y;
    if (ix >= kx) {
        return;
    }
    const float xi = x[iy * kx + ix];
    const float amax = warp_reduce_max(fabsf(xi));
    const float d = amax / 127;
    const int8_t q = amax == 0.0f ? 0 : roundf(xi / d);
    const int ib = (iy * kx + ix) / QK8_1;
    vy[ib].qs[ix % QK8_1] = q;
    if (ix % QK8_1 == 0) {
        vy[ib].d = d;
    }
}

static __device__ __forceinline__ int get_int_from_int8(const int8_t * x8, const int i32) {
    const uint16_t * x16 = (const uint16_t *) (x8 + sizeof(int) * i32);
    int x32 = 0;
    x32 |= x16[0] << 0;
    x32 |= x16[1] << 16;
    return x32;
}

// dst[j*nrows_dst + i] = sum_k x[i][k] * y[j][k]
static __global__ void mul_mat_q8_0_mma(const block_q8_0 * __restrict__ x, const block_q8_1 * __restrict__ y,
                                        float * __restrict__ dst, const int ncols_x, const int nrows_x,
                                        const int ncols_y, const int nrows_dst) {
    const int warp = threadIdx.y;
    const int lane = threadIdx.x;
    const int blocks_per_row = ncols_x / QK8_0;
    const int row0 = blockIdx.x * MMQ_Y + warp * 16;
    const int col0 = blockIdx.y * MMQ_X;
    const int g = lane / 4;
    const int t = lane % 4;

    float sum[MMQ_X / 8][4] = {{0.0f}};

    for (int ib = 0; ib < blocks_per_row; ++ib) {
        const int r0 = min(row0 + g, nrows_x - 1);
        const int r1 = min(row0 + g + 8, nrows_x - 1);
        const block_q8_0 * b0 = x + r0 * blocks_per_row + ib;
        const block_q8_0 * b1 = x + r1 * blocks_per_row + ib;
        const int a0 = get_int_from_int8(b0->qs, t);
        const int a1 = get_int_from_int8(b1->qs, t);
        const int a2 = get_int_from_int8(b0->qs, t + 4);
        const int a3 = get_int_from_int8(b1->qs, t + 4);
        const float d0 = __half2float(b0->d);
        const float d1 = __half2float(b1->d);
#pragma unroll
        for (int j = 0; j < MMQ_X / 8; ++j) {
            const int cb = min(col0 + j * 8 + g, ncols_y - 1);
            const int * yq = (const int *) y[cb * blocks_per_row + ib].qs;
            const int q0 = yq[t];
            const int q1 = yq[t + 4];
            int c0 = 0, c1 = 0, c2 = 0, c3 = 0;
            asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)
                : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(q0), "r"(q1));
            const int y0 = min(col0 + j * 8 + t * 2, ncols_y - 1);
            const int y1 = min(col0 + j * 8 + t * 2 + 1, ncols_y - 1);
            const float e0 = y[y0 * blocks_per_row + ib].d;
            const float e1 = y[y1 * blocks_per_row + ib].d;
            sum[j][0] += d0 * e0 * c0;
            sum[j][1] += d0 * e1 * c1;
            sum[j][2] += d1 * e0 * c2;
            sum[j][3] += d1 * e1 * c3;
        }
    }

#pragma unroll
    for (int j = 0; j < MMQ_X / 8; ++j) {
#pragma unroll
        for (int l = 0; l < 4; ++l) {
            const int i = row0 + g + (l / 2) * 8;
            const int col = col0 + j * 8 + t * 2 + l % 2;
            if (i < nrows_x && col < ncols_y) {
                dst[col * nrows_dst + i] = sum[j][l];
            }
        }
    }
}

void ggml_cuda_mul_mat_q8_0(const void * src0_q, const float * src1_f, void * src1_q8, float * dst, const int64_t ne00,
                            const int64_t ne01, const int64_t ne11, cudaStream_t stream) {
    {
        const dim3 num_blocks((ne00 + CUDA_QUANTIZE_BLOCK_SIZE - 1) / CUDA_QUANTIZE_BLOCK_SIZE, ne11, 1);
        const dim3 block_size(CUDA_QUANTIZE_BLOCK_SIZE, 1, 1);
        quantize_q8_1<<<num_blocks, block_size, 0, stream>>>(src1_f, (block_q8_1 *) src1_q8, ne00);
    }
    const dim3 block_nums((ne01 + MMQ_Y - 1) / MMQ_Y, (ne11 + MMQ_X - 1) / MMQ_X, 1);
    const dim3 block_dims(WARP_SIZE, MMQ_Y / 16, 1);
    mul_mat_q8_0_mma<<<block_nums, block_dims, 0, stream>>>((const block_q8_0 *) src0_q, (const block_q8_1 *) src1_q8, dst,
                                                           ne00, ne01, ne11, ne01);
}
