// Stand-alone extraction of the quantized mat-vec path (Q4_0 weights x Q8_1 activations), the one
// that is used when generating one token at a time. No tensor cores, everything is dp4a.
//
//   y[row] = sum_k W[row][k] * x[k]
//
// W is stored as blocks of 32 weights (18 bytes), x is quantized on the fly to blocks of 32 int8
// (36 bytes) that also carry d * sum(q) so that the "-8" of Q4_0 costs one fma per block.
//
//   nvcc -O3 -arch=sm_75 mmvq_q4_0.cu -o mmvq && ./mmvq [nrows] [ncols]

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA_CHECK(err)                                                                    \
    do {                                                                                   \
        cudaError_t err_ = (err);                                                          \
        if (err_ != cudaSuccess) {                                                         \
            fprintf(stderr, "CUDA error %d at %s:%d: %s\n", (int) err_, __FILE__, __LINE__, \
                    cudaGetErrorString(err_));                                             \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

#define WARP_SIZE 32

#define QK4_0 32
#define QI4_0 (QK4_0 / 8)   // 32-bit words of quants per block
typedef struct {
    half    d;              // delta
    uint8_t qs[QK4_0 / 2];  // nibbles / quants: low nibbles are weights 0..15, high ones 16..31
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");

#define QK8_1 32
#define QI8_1 (QK8_1 / 4)
typedef struct {
    half2  ds;              // ds.x = delta, ds.y = delta * sum of the quants
    int8_t qs[QK8_1];
} block_q8_1;
static_assert(sizeof(block_q8_1) == 2 * sizeof(half) + QK8_1, "wrong q8_1 block size/padding");

#define VDR_Q4_0_Q8_1_MMVQ 2   // words of W that one thread handles per dot product
#define MMVQ_NWARPS 4
#define CUDA_QUANTIZE_BLOCK_SIZE 256

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

// blocks of 18 bytes: the quants are only 2-byte aligned
static __device__ __forceinline__ int get_int_b2(const uint8_t * x8, const int i32) {
    const uint16_t * x16 = (const uint16_t *) (x8 + sizeof(int) * i32);
    int x32 = 0;
    x32 |= x16[0] <<  0;
    x32 |= x16[1] << 16;
    return x32;
}

static __device__ __forceinline__ int get_int_b4(const int8_t * x8, const int i32) {
    return *((const int *) (x8 + sizeof(int) * i32));
}

static __device__ __forceinline__ float vec_dot_q4_0_q8_1(
    const block_q4_0 * __restrict__ bq4_0, const block_q8_1 * __restrict__ bq8_1, const int iqs) {

    int sumi = 0;
#pragma unroll
    for (int i = 0; i < VDR_Q4_0_Q8_1_MMVQ; ++i) {
        const int v  = get_int_b2(bq4_0->qs, iqs + i);
        const int u0 = get_int_b4(bq8_1->qs, iqs + i);
        const int u1 = get_int_b4(bq8_1->qs, iqs + i + QI4_0);
        const int vi0 = (v >> 0) & 0x0F0F0F0F;
        const int vi1 = (v >> 4) & 0x0F0F0F0F;
        sumi = __dp4a(vi0, u0, sumi);
        sumi = __dp4a(vi1, u1, sumi);
    }

    const float  d4   = __half2float(bq4_0->d);
    const float2 ds8f = __half22float2(bq8_1->ds);

    // the second term is shared by the QI4_0 / VDR threads of the block
    return d4 * (sumi * ds8f.x - (8 * VDR_Q4_0_Q8_1_MMVQ / QI4_0) * ds8f.y);
}

// one warp per block of 32 activations
static __global__ void quantize_q8_1(const float * __restrict__ x, block_q8_1 * __restrict__ y, const int k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= k) {   // k % 32 == 0, so this is warp-uniform
        return;
    }

    const int ib  = i / QK8_1;
    const int iqs = i % QK8_1;

    const float xi   = x[i];
    const float amax = warp_reduce_max(fabsf(xi));

    const float  d = amax / 127;
    const int8_t q = amax == 0.0f ? 0 : (int8_t) roundf(xi / d);

    y[ib].qs[iqs] = q;

    const float sum = warp_reduce_sum((float) q);
    if (iqs > 0) {
        return;
    }
    y[ib].ds = __floats2half2_rn(d, d * sum);
}

// grid: one block per row of W; block: (32, MMVQ_NWARPS)
static __global__ void mul_mat_vec_q4_0_q8_1(
    const block_q4_0 * __restrict__ vx, const block_q8_1 * __restrict__ vy, float * __restrict__ dst,
    const int ncols, const int nrows) {

    constexpr int threads_per_block = QI4_0 / VDR_Q4_0_Q8_1_MMVQ;                    // 2 threads per quant block
    constexpr int blocks_per_iter   = MMVQ_NWARPS * WARP_SIZE / threads_per_block;   // 64

    const int tid = WARP_SIZE * threadIdx.y + threadIdx.x;
    const int row = blockIdx.x;
    const int blocks_per_row = ncols / QK4_0;

    const block_q4_0 * x = vx + (int64_t) row * blocks_per_row;

    float tmp = 0.0f;
    const int kqs = VDR_Q4_0_Q8_1_MMVQ * (tid % threads_per_block);
    for (int kbx = tid / threads_per_block; kbx < blocks_per_row; kbx += blocks_per_iter) {
        tmp += vec_dot_q4_0_q8_1(&x[kbx], &vy[kbx], kqs);
    }

    __shared__ float tmp_shared[MMVQ_NWARPS - 1][WARP_SIZE];
    if (threadIdx.y > 0) {
        tmp_shared[threadIdx.y - 1][threadIdx.x] = tmp;
    }
    __syncthreads();
    if (threadIdx.y > 0) {
        return;
    }

    // sum up partial sums and write back result
#pragma unroll
    for (int l = 0; l < MMVQ_NWARPS - 1; ++l) {
        tmp += tmp_shared[l][threadIdx.x];
    }
    tmp = warp_reduce_sum(tmp);
    if (threadIdx.x == 0) {
        dst[row] = tmp;
    }
}

static void mmvq_q4_0(const block_q4_0 * W, const float * x, block_q8_1 * scratch, float * y, int ncols, int nrows,
                      cudaStream_t stream) {
    const int nblk = (ncols + CUDA_QUANTIZE_BLOCK_SIZE - 1) / CUDA_QUANTIZE_BLOCK_SIZE;
    quantize_q8_1<<<nblk, CUDA_QUANTIZE_BLOCK_SIZE, 0, stream>>>(x, scratch, ncols);

    const dim3 block_dims(WARP_SIZE, MMVQ_NWARPS, 1);
    mul_mat_vec_q4_0_q8_1<<<nrows, block_dims, 0, stream>>>(W, scratch, y, ncols, nrows);
    CUDA_CHECK(cudaGetLastError());
}

// host reference quantization, same rounding as the ggml one
static void quantize_row_q4_0_ref(const float * x, block_q4_0 * y, int k) {
    for (int i = 0; i < k / QK4_0; i++) {
        float amax = 0.0f;
        float max  = 0.0f;
        for (int j = 0; j < QK4_0; j++) {
            const float v = x[i * QK4_0 + j];
            if (amax < fabsf(v)) {
                amax = fabsf(v);
                max  = v;
            }
        }
        const float d  = max / -8;
        const float id = d ? 1.0f / d : 0.0f;
        y[i].d = __float2half(d);
        for (int j = 0; j < QK4_0 / 2; ++j) {
            const float x0 = x[i * QK4_0 + j] * id;
            const float x1 = x[i * QK4_0 + QK4_0 / 2 + j] * id;
            const int xi0 = std::min(15, (int) (x0 + 8.5f));
            const int xi1 = std::min(15, (int) (x1 + 8.5f));
            y[i].qs[j] = (uint8_t) (xi0 | (xi1 << 4));
        }
    }
}

static void dequantize_row_q4_0_ref(const block_q4_0 * x, float * y, int k) {
    for (int i = 0; i < k / QK4_0; i++) {
        const float d = __half2float(x[i].d);
        for (int j = 0; j < QK4_0 / 2; ++j) {
            y[i * QK4_0 + j]             = ((x[i].qs[j] & 0x0F) - 8) * d;
            y[i * QK4_0 + j + QK4_0 / 2] = ((x[i].qs[j] >> 4) - 8) * d;
        }
    }
}

int main(int argc, char ** argv) {
    const int nrows = argc > 1 ? atoi(argv[1]) : 4096;
    const int ncols = argc > 2 ? atoi(argv[2]) : 11008;
    if (ncols % QK4_0 != 0) {
        fprintf(stderr, "ncols must be a multiple of %d\n", QK4_0);
        return 1;
    }
    const int nb = ncols / QK4_0;

    std::vector<float> w(ncols), x(ncols), y(nrows), ref(nrows), mag(nrows);
    std::vector<block_q4_0> W((size_t) nrows * nb);
    // not centred at zero, otherwise an error in the offset term would hide in the noise
    for (int i = 0; i < ncols; ++i) {
        x[i] = 2.0f * rand() / RAND_MAX - 0.5f;
    }
    for (int r = 0; r < nrows; ++r) {
        for (int i = 0; i < ncols; ++i) {
            w[i] = 2.0f * rand() / RAND_MAX - 1.0f;
        }
        quantize_row_q4_0_ref(w.data(), &W[(size_t) r * nb], ncols);
        dequantize_row_q4_0_ref(&W[(size_t) r * nb], w.data(), ncols);
        double s = 0.0, a = 0.0;
        for (int i = 0; i < ncols; ++i) {
            s += (double) w[i] * x[i];
            a += fabs((double) w[i] * x[i]);
        }
        ref[r] = (float) s;
        mag[r] = (float) a;
    }

    block_q4_0 * d_W;
    block_q8_1 * d_q;
    float *      d_x;
    float *      d_y;
    CUDA_CHECK(cudaMalloc((void **) &d_W, W.size() * sizeof(block_q4_0)));
    CUDA_CHECK(cudaMalloc((void **) &d_q, nb * sizeof(block_q8_1)));
    CUDA_CHECK(cudaMalloc((void **) &d_x, ncols * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void **) &d_y, nrows * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_W, W.data(), W.size() * sizeof(block_q4_0), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), ncols * sizeof(float), cudaMemcpyHostToDevice));

    mmvq_q4_0(d_W, d_x, d_q, d_y, ncols, nrows, 0);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, nrows * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0.0;
    for (int r = 0; r < nrows; ++r) {
        const double e = fabs(y[r] - ref[r]) / mag[r];   // only the 8-bit rounding of x is left
        if (e > worst || std::isnan(e)) {
            worst = e;
        }
    }
    printf("%d x %d: worst relative error %.2e  %s\n", nrows, ncols, worst, worst < 2e-3 ? "OK" : "FAIL");

    cudaEvent_t e0, e1;
    CUDA_CHECK(cudaEventCreate(&e0));
    CUDA_CHECK(cudaEventCreate(&e1));
    CUDA_CHECK(cudaEventRecord(e0, 0));
    for (int i = 0; i < 100; ++i) {
        mmvq_q4_0(d_W, d_x, d_q, d_y, ncols, nrows, 0);
    }
    CUDA_CHECK(cudaEventRecord(e1, 0));
    CUDA_CHECK(cudaEventSynchronize(e1));
    float ms = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, e0, e1));
    printf("%.3f us per call, %.1f GB/s of weights\n", ms * 10.0f, W.size() * sizeof(block_q4_0) * 100 / (ms * 1e6));

    CUDA_CHECK(cudaFree(d_W));
    CUDA_CHECK(cudaFree(d_q));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    return worst < 2e-3 ? 0 : 1;
}
