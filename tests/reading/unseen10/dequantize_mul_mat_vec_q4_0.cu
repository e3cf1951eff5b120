// quantized matrix * float vector, ggml block formats
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define WARP_SIZE 32
#define GGML_CUDA_DMMV_X 32
#define GGML_CUDA_MMV_Y 2

#define CUDA_CHECK(err)                                                                                       \
    do {                                                                                                      \
        cudaError_t err_ = (err);                                                                             \
        if (err_ != cudaSuccess) {                                                                            \
            fprintf(stderr, "CUDA error %d at %s:%d: %s\n", err_, __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

typedef float dfloat;
typedef float2 dfloat2;

#define QK4_0 32
#define QR4_0 2
typedef struct {
    half    d;              // delta
    uint8_t qs[QK4_0 / 2];  // nibbles / quants
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(uint16_t) + QK4_0 / 2, "wrong q4_0 block size/padding");

#define QK8_0 32
#define QR8_0 1
typedef struct {
    half   d;          // delta
    int8_t qs[QK8_0];  // quants
} block_q8_0;
static_assert(sizeof(block_q8_0) == sizeof(uint16_t) + QK8_0, "wrong q8_0 block size/padding");

typedef void (*dequantize_kernel_t)(const void * vx, const int ib, const int iqs, dfloat2 & v);

static __device__ __forceinline__ void dequantize_q4_0(const void * vx, const int ib, const int iqs, dfloat2 & v) {
    const block_q4_0 * x = (const block_q4_0 *) vx;
    const dfloat d = x[ib].d;
    const int vui = x[ib].qs[iqs];
    v.x = vui & 0xF;
    v.y = vui >> 4;
    v.x = (v.x - 8.0f) * d;
    v.y = (v.y - 8.0f) * d;
}

static __device__ __forceinline__ void dequantize_q8_0(const void * vx, const int ib, const int iqs, dfloat2 & v) {
    const block_q8_0 * x = (const block_q8_0 *) vx;
    const dfloat d = x[ib].d;
    v.x = x[ib].qs[iqs + 0];
    v.y = x[ib].qs[iqs + 1];
    v.x *= d;
    v.y *= d;
}

template <int qk, int qr, dequantize_kernel_t dequantize_kernel>
static __global__ void dequantize_mul_mat_vec(const void * __restrict__ vx, const dfloat * __restrict__ y,
                                              float * __restrict__ dst, const int ncols, const int nrows) {
    // qk = quantized weights per x block
    // qr = number of quantized weights per data value in x block
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= nrows) {
        return;
    }
    const int tid         = threadIdx.x;
    const int iter_stride = 2 * GGML_CUDA_DMMV_X;
    const int vals_per_iter = iter_stride / WARP_SIZE;  // num quantized vals per thread and i iter
    const int y_offset    = qr == 1 ? 1 : qk / 2;

    // partial sum for each thread
    float tmp = 0.0f;

    for (int i = 0; i < ncols; i += iter_stride) {
        const int col  = i + vals_per_iter * tid;
        const int ib   = (row * ncols + col) / qk;  // x block index
        const int iqs  = (col % qk) / qr;           // x quant index
        const int iybs = col - col % qk;            // y block start index

#pragma unroll
        for (int j = 0; j < vals_per_iter; j += 2) {
            dfloat2 v;
            dequantize_kernel(vx, ib, iqs + j / qr, v);
            tmp += v.x * y[iybs + iqs + j / qr + 0];
            tmp += v.y * y[iybs + iqs + j / qr + y_offset];
        }
    }

    // sum up partial sums and write back result
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        tmp += __shfl_xor_sync(0xffffffff, tmp, mask, 32);
    }
    if (tid == 0) {
        dst[row] = tmp;
    }
}

static void dequantize_mul_mat_vec_q4_0_cuda(const void * vx, const dfloat * y, float * dst, const int ncols,
                                             const int nrows, cudaStream_t stream) {
    assert(ncols % (2 * GGML_CUDA_DMMV_X) == 0);
    const int  block_num_y = (nrows + GGML_CUDA_MMV_Y - 1) / GGML_CUDA_MMV_Y;
    const dim3 block_nums(1, block_num_y, 1);
    const dim3 block_dims(WARP_SIZE, GGML_CUDA_MMV_Y, 1);
    dequantize_mul_mat_vec<QK4_0, QR4_0, dequantize_q4_0>
        <<<block_nums, block_dims, 0, stream>>>(vx, y, dst, ncols, nrows);
}

static void dequantize_mul_mat_vec_q8_0_cuda(const void * vx, const dfloat * y, float * dst, const int ncols,
                                             const int nrows, cudaStream_t stream) {
    assert(ncols % (2 * GGML_CUDA_DMMV_X) == 0);
    const int  block_num_y = (nrows + GGML_CUDA_MMV_Y - 1) / GGML_CUDA_MMV_Y;
    const dim3 block_nums(1, block_num_y, 1);
    const dim3 block_dims(WARP_SIZE, GGML_CUDA_MMV_Y, 1);
    dequantize_mul_mat_vec<QK8_0, QR8_0, dequantize_q8_0>
        <<<block_nums, block_dims, 0, stream>>>(vx, y, dst, ncols, nrows);
}

enum ggml_type { GGML_TYPE_Q4_0 = 2, GGML_TYPE_Q8_0 = 8 };

void ggml_cuda_op_dequantize_mul_mat_vec(ggml_type type, const char * src0_dd_i, const float * src1_ddf_i,
                                         float * dst_dd_i, const int64_t ne00, const int64_t row_low,
                                         const int64_t row_high, cudaStream_t stream) {
    const int64_t row_diff = row_high - row_low;
    switch (type) {
        case GGML_TYPE_Q4_0:
            dequantize_mul_mat_vec_q4_0_cuda(src0_dd_i, src1_ddf_i, dst_dd_i, ne00, row_diff, stream);
            break;
        case GGML_TYPE_Q8_0:
            dequantize_mul_mat_vec_q8_0_cuda(src0_dd_i, src1_ddf_i, dst_dd_i, ne00, row_diff, stream);
            break;
        default:
            fprintf(stderr, "%s: unsupported type %d\n", __func__, (int) type);
            abort();
    }
    CUDA_CHECK(cudaGetLastError());
}
