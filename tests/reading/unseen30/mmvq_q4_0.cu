// Matrix-vector product with q4_0 weights and a q8_1 activation vector, dp4a.
// Cut out of my fork of ggml-cuda for standalone profiling:
//   nvcc -O3 -arch=sm_75 mmvq_q4_0.cu -o mmvq && ./mmvq 4096 4096

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <vector>

#define WARP_SIZE 32
#define CUDA_QUANTIZE_BLOCK_SIZE 256
#define GGML_CUDA_MMV_Y 4

#define QK4_0 32
typedef struct {
    half    d;              // delta
    uint8_t qs[QK4_0 / 2];  // nibbles / quants
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");

#define QK8_1 32
typedef struct {
    half2   ds;             // ds.x = delta, ds.y = sum
    int8_t  qs[QK8_1];      // quants
} block_q8_1;
static_assert(sizeof(block_q8_1) == 2*sizeof(half) + QK8_1, "wrong q8_1 block size/padding");

#define CUDA_CHECK(err)                                                                  \
    do {                                                                                 \
        cudaError_t err_ = (err);                                                        \
        if (err_ != cudaSuccess) {                                                       \
            fprintf(stderr, "CUDA error %d at %s:%d: %s\n", err_, __FILE__, __LINE__,    \
                cudaGetErrorString(err_));                                               \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

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

// q4_0 blocks are 18 bytes, so their quants are only 2-byte aligned
static __device__ __forceinline__ int get_int_from_uint8(const uint8_t * x8, const int & i32) {
    const uint16_t * x16 = (const uint16_t *) (x8 + sizeof(int) * i32);

    int x32 = 0;
    x32 |= x16[0] <<  0;
    x32 |= x16[1] << 16;

    return x32;
}

static __device__ __forceinline__ int get_int_from_int8_aligned(const int8_t * x8, const int & i32) {
    return *((const int *) (x8 + sizeof(int) * i32)); // assume at least 4 byte alignment
}

// k must be a multiple of QK8_1
static __global__ void quantize_q8_1(const float * __restrict__ x, void * __restrict__ vy, const int kx) {
    const int ix = blockDim.x*blockIdx.x + threadIdx.x;

    if (ix >= kx) {
        return; // whole warps
    }

    block_q8_1 * y = (block_q8_1 *) vy;

    const int ib  = ix / QK8_1; // block index
    const int iqs = ix % QK8_1; // quant index

    const float xi = x[ix];
    float amax = fabsf(xi);
    float sum = xi;

    amax = warp_reduce_max(amax);
    sum = warp_reduce_sum(sum);

    const float d = amax / 127;
    const int8_t q = amax == 0.0f ? 0 : roundf(xi / d);

    y[ib].qs[iqs] = q;

    if (iqs > 0) {
        return;
    }

    y[ib].ds = make_half2(__float2half(d), __float2half(sum));
}

static __device__ __forceinline__ float vec_dot_q4_0_q8_1(const block_q4_0 * __restrict__ bq4_0, const block_q8_1 * __restrict__ bq8_1) {
    int sumi = 0;

#pragma unroll
    for (int i = 0; i < QK4_0/8; ++i) {
        const int v = get_int_from_uint8(bq4_0->qs, i);
        // quants 0..15 are the low nibbles, 16..31 the high nibbles of the same bytes
        const int vi0 = (v >> 0) & 0x0F0F0F0F;
        const int vi1 = (v >> 4) & 0x0F0F0F0F;
        const int u0 = get_int_from_int8_aligned(bq8_1->qs, i);
        const int u1 = get_int_from_int8_aligned(bq8_1->qs, i + QK4_0/8);

        // SIMD dot product of quantized values
        sumi = __dp4a(vi0, u0, sumi);
        sumi = __dp4a(vi1, u1, sumi);
    }

    const float2 ds8f = __half22float2(bq8_1->ds);

    // second part effectively subtracts 8 from each quant value
    return __half2float(bq4_0->d) * (sumi * ds8f.x - 8.0f * ds8f.y);
}

// one warp per row, blockDim = (WARP_SIZE, GGML_CUDA_MMV_Y)
static __global__ void mul_mat_vec_q4_0_q8_1(const void * __restrict__ vx, const void * __restrict__ vy, float * __restrict__ dst, const int ncols, const int nrows) {
    const int row = blockIdx.x*blockDim.y + threadIdx.y;

    if (row >= nrows) {
        return;
    }

    const int blocks_per_row = ncols / QK4_0;

    // partial sum for each thread
    float tmp = 0.0f;

    const block_q4_0 * x = (const block_q4_0 *) vx + (size_t) row*blocks_per_row;
    const block_q8_1 * y = (const block_q8_1 *) vy;

    for (int i = threadIdx.x; i < blocks_per_row; i += WARP_SIZE) {
        tmp += vec_dot_q4_0_q8_1(&x[i], &y[i]);
    }

    // sum up partial sums and write back result
    tmp = warp_reduce_sum(tmp);

    if (threadIdx.x == 0) {
        dst[row] = tmp;
    }
}

static void quantize_row_q8_1_cuda(const float * x, void * vy, const int kx, cudaStream_t stream) {
    const int block_num_x = (kx + CUDA_QUANTIZE_BLOCK_SIZE - 1) / CUDA_QUANTIZE_BLOCK_SIZE;
    quantize_q8_1<<<block_num_x, CUDA_QUANTIZE_BLOCK_SIZE, 0, stream>>>(x, vy, kx);
}

static void mul_mat_vec_q4_0_q8_1_cuda(const void * vx, const void * vy, float * dst, const int ncols, const int nrows, cudaStream_t stream) {
    const int block_num = (nrows + GGML_CUDA_MMV_Y - 1) / GGML_CUDA_MMV_Y;
    const dim3 block_dims(WARP_SIZE, GGML_CUDA_MMV_Y, 1);
    mul_mat_vec_q4_0_q8_1<<<block_num, block_dims, 0, stream>>>(vx, vy, dst, ncols, nrows);
}

// reference implementation for deterministic creation of model files
static void quantize_row_q4_0_reference(const float * x, block_q4_0 * y, int k) {
    const int nb = k / QK4_0;
    for (int i = 0; i < nb; i++) {
        float amax = 0.0f; // absolute max
        float max  = 0.0f;
        for (int j = 0; j < QK4_0; j++) {
            const float v = x[i*QK4_0 + j];
            if (amax < fabsf(v)) {
                amax = fabsf(v);
                max  = v;
            }
        }
        const float d  = max / -8;
        const float id = d ? 1.0f/d : 0.0f;
        y[i].d = __float2half(d);
        for (int j = 0; j < QK4_0/2; ++j) {
            const float x0 = x[i*QK4_0 + 0       + j]*id;
            const float x1 = x[i*QK4_0 + QK4_0/2 + j]*id;
            const uint8_t xi0 = (int8_t)(x0 + 8.5f) < 15 ? (int8_t)(x0 + 8.5f) : 15;
            const uint8_t xi1 = (int8_t)(x1 + 8.5f) < 15 ? (int8_t)(x1 + 8.5f) : 15;
            y[i].qs[j]  = xi0;
            y[i].qs[j] |= xi1 << 4;
        }
    }
}

int main(int argc, char ** argv) {
    const int ncols = argc > 1 ? atoi(argv[1]) : 4096;
    const int nrows = argc > 2 ? atoi(argv[2]) : 4097;
    if (ncols % QK4_0 != 0) {
        fprintf(stderr, "ncols must be a multiple of %d\n", QK4_0);
        return 1;
    }

    std::vector<float> w((size_t) nrows*ncols), x(ncols), out(nrows);
    for (auto & v : w) v = rand() / (float) RAND_MAX - 0.5f;
    for (auto & v : x) v = rand() / (float) RAND_MAX - 0.5f;
    std::vector<block_q4_0> wq((size_t) nrows*ncols/QK4_0);
    quantize_row_q4_0_reference(w.data(), wq.data(), nrows*ncols);

    void * d_w; float * d_x; void * d_y; float * d_out;
    CUDA_CHECK(cudaMalloc(&d_w, wq.size()*sizeof(block_q4_0)));
    CUDA_CHECK(cudaMalloc(&d_x, ncols*sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, ncols/QK8_1*sizeof(block_q8_1)));
    CUDA_CHECK(cudaMalloc(&d_out, nrows*sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_w, wq.data(), wq.size()*sizeof(block_q4_0), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), ncols*sizeof(float), cudaMemcpyHostToDevice));

    quantize_row_q8_1_cuda(d_x, d_y, ncols, 0);
    mul_mat_vec_q4_0_q8_1_cuda(d_w, d_y, d_out, ncols, nrows, 0);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(out.data(), d_out, nrows*sizeof(float), cudaMemcpyDeviceToHost));

    double err = 0, norm = 0;
    for (int r = 0; r < nrows; r++) {
        double ref = 0;
        for (int i = 0; i < ncols/QK4_0; i++) {
            const block_q4_0 & b = wq[(size_t) r*(ncols/QK4_0) + i];
            for (int j = 0; j < QK4_0/2; j++) {
                ref += (double) __half2float(b.d) * ((b.qs[j] & 0xF) - 8) * x[i*QK4_0 + j];
                ref += (double) __half2float(b.d) * ((b.qs[j] >>  4) - 8) * x[i*QK4_0 + j + QK4_0/2];
            }
        }
        err += (ref - out[r])*(ref - out[r]);
        norm += ref*ref;
    }
    printf("nmse = %g\n", err/norm);
    return err/norm < 5e-4 ? 0 : 1;
}
