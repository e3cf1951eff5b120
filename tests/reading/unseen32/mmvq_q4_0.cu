// Standalone version of the ggml style matrix-vector product: q4_0 weights x q8_1 activations with dp4a.
//
// x : nrows x ncols weights, q4_0 (32 weights per block: a half scale and 16 bytes of nibbles, zero is 8)
// y : ncols floats, quantized on the fly to q8_1
// dst : nrows floats
//
// ncols % 32 == 0
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define WARP_SIZE 32
#define CUDA_QUANTIZE_BLOCK_SIZE 256
#define MMV_Y 4

#define QK4_0 32
#define QI4_0 4   // ints of nibbles per block
#define VDR_Q4_0_Q8_1_MMVQ 2   // ints a lane handles at a time
typedef struct {
    half    d;              // delta
    uint8_t qs[QK4_0 / 2];  // nibbles / quants: low nibble j, high nibble j + 16
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");

#define QK8_1 32
typedef struct {
    half2   ds;         // ds.x = delta, ds.y = delta * sum of the quants
    int8_t  qs[QK8_1];
} block_q8_1;
static_assert(sizeof(block_q8_1) == 2 * sizeof(half) + QK8_1, "wrong q8_1 block size/padding");

#define CUDA_CHECK(err)                                                                     \
    do {                                                                                    \
        cudaError_t err_ = (err);                                                           \
        if (err_ != cudaSuccess) {                                                          \
            fprintf(stderr, "CUDA error %d at %s:%d: %s\n", err_, __FILE__, __LINE__,       \
                    cudaGetErrorString(err_));                                              \
            exit(1);                                                                        \
        }                                                                                   \
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

// the q4_0 block is only aligned to 2 bytes
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

// one warp = one block of 32 values
static __global__ void quantize_q8_1(const float * __restrict__ x, void * __restrict__ vy, const int kx) {
    const int ix = blockDim.x * blockIdx.x + threadIdx.x;
    if (ix >= kx) {
        return;
    }
    block_q8_1 * y = (block_q8_1 *) vy;
    const int ib  = ix / QK8_1; // block index
    const int iqs = ix % QK8_1; // quant index

    const float xi = x[ix];
    const float amax = warp_reduce_max(fabsf(xi));

    const float d = amax / 127;
    const int8_t q = amax == 0.0f ? 0 : roundf(xi / d);
    const float sum = warp_reduce_sum((float) q);

    y[ib].qs[iqs] = q;
    if (iqs > 0) {
        return;
    }
    y[ib].ds = make_half2(__float2half(d), __float2half(d * sum));
}

template <int vdr>
static __device__ __forceinline__ float vec_dot_q4_0_q8_1_impl(const int * v, const int * u, const float & d4, const half2 & ds8) {
    int sumi = 0;
#pragma unroll
    for (int i = 0; i < vdr; ++i) {
        const int vi0 = (v[i] >> 0) & 0x0F0F0F0F;
        const int vi1 = (v[i] >> 4) & 0x0F0F0F0F;

        // SIMD dot product of quantized values
        sumi = __dp4a(vi0, u[2*i+0], sumi);
        sumi = __dp4a(vi1, u[2*i+1], sumi);
    }
    const float2 ds8f = __half22float2(ds8);

    // second part effectively subtracts 8 from each quant value
    return d4 * (sumi * ds8f.x - (8*vdr/QI4_0) * ds8f.y);
}

static __device__ __forceinline__ float vec_dot_q4_0_q8_1(const block_q4_0 * bq4_0, const block_q8_1 * bq8_1, const int & iqs) {
    int v[VDR_Q4_0_Q8_1_MMVQ];
    int u[2*VDR_Q4_0_Q8_1_MMVQ];
#pragma unroll
    for (int i = 0; i < VDR_Q4_0_Q8_1_MMVQ; ++i) {
        v[i]     = get_int_from_uint8(bq4_0->qs, iqs + i);
        u[2*i+0] = get_int_from_int8_aligned(bq8_1->qs, iqs + i);
        u[2*i+1] = get_int_from_int8_aligned(bq8_1->qs, iqs + i + QI4_0);
    }
    return vec_dot_q4_0_q8_1_impl<VDR_Q4_0_Q8_1_MMVQ>(v, u, __half2float(bq4_0->d), bq8_1->ds);
}

// block (32, MMV_Y): one warp per row
static __global__ void mul_mat_vec_q4_0_q8_1(const void * __restrict__ vx, const void * __restrict__ vy,
                                             float * __restrict__ dst, const int ncols, const int nrows) {
    const int row = blockIdx.x*blockDim.y + threadIdx.y;
    if (row >= nrows) {
        return;
    }

    const int blocks_per_row  = ncols / QK4_0;
    const int lanes_per_block = QI4_0 / VDR_Q4_0_Q8_1_MMVQ;         // 2
    const int blocks_per_warp = WARP_SIZE / lanes_per_block;        // 16

    const block_q4_0 * x = (const block_q4_0 *) vx + (size_t) row*blocks_per_row;
    const block_q8_1 * y = (const block_q8_1 *) vy;

    float tmp = 0.0f; // partial sum for thread
    const int iqs = VDR_Q4_0_Q8_1_MMVQ * (threadIdx.x % lanes_per_block);
    for (int ib = threadIdx.x / lanes_per_block; ib < blocks_per_row; ib += blocks_per_warp) {
        tmp += vec_dot_q4_0_q8_1(&x[ib], &y[ib], iqs);
    }

    // sum up partial sums and write back result
    tmp = warp_reduce_sum(tmp);
    if (threadIdx.x == 0) {
        dst[row] = tmp;
    }
}

static void quantize_row_q4_0_reference(const float * x, block_q4_0 * y, int k) {
    for (int i = 0; i < k / QK4_0; i++) {
        float amax = 0.0f, max = 0.0f;
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
            const uint8_t xi0 = std::min(15, (int)(x[i*QK4_0 + j]*id + 8.5f));
            const uint8_t xi1 = std::min(15, (int)(x[i*QK4_0 + QK4_0/2 + j]*id + 8.5f));
            y[i].qs[j] = xi0 | (xi1 << 4);
        }
    }
}

int main(int argc, char ** argv) {
    const int nrows = argc > 1 ? atoi(argv[1]) : 1030;
    const int ncols = argc > 2 ? atoi(argv[2]) : 4128;
    assert(ncols % QK4_0 == 0);

    std::vector<float> w((size_t) nrows*ncols), y(ncols), res(nrows);
    for (auto & v : w) v = 2.0f*rand()/RAND_MAX - 1.0f;
    for (auto & v : y) v = 2.0f*rand()/RAND_MAX - 1.0f;
    std::vector<block_q4_0> wq((size_t) nrows*ncols/QK4_0);
    quantize_row_q4_0_reference(w.data(), wq.data(), nrows*ncols);

    void * d_x, * d_yq;
    float * d_y, * d_dst;
    CUDA_CHECK(cudaMalloc(&d_x, wq.size()*sizeof(block_q4_0)));
    CUDA_CHECK(cudaMalloc(&d_yq, ncols/QK8_1*sizeof(block_q8_1)));
    CUDA_CHECK(cudaMalloc(&d_y, ncols*sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_dst, nrows*sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, wq.data(), wq.size()*sizeof(block_q4_0), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_y, y.data(), ncols*sizeof(float), cudaMemcpyHostToDevice));

    quantize_q8_1<<<(ncols + CUDA_QUANTIZE_BLOCK_SIZE - 1)/CUDA_QUANTIZE_BLOCK_SIZE, CUDA_QUANTIZE_BLOCK_SIZE>>>(d_y, d_yq, ncols);
    mul_mat_vec_q4_0_q8_1<<<(nrows + MMV_Y - 1)/MMV_Y, dim3(WARP_SIZE, MMV_Y)>>>(d_x, d_yq, d_dst, ncols, nrows);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(res.data(), d_dst, nrows*sizeof(float), cudaMemcpyDeviceToHost));

    double err = 0.0, ref2 = 0.0;
    for (int r = 0; r < nrows; r++) {
        double s = 0.0;
        for (int c = 0; c < ncols; c++) {
            const block_q4_0 & b = wq[((size_t) r*ncols + c)/QK4_0];
            const int j = c % QK4_0;
            const int q = j < 16 ? (b.qs[j] & 0xF) : (b.qs[j - 16] >> 4);
            s += (double) __half2float(b.d)*(q - 8)*y[c];
        }
        err  += (s - res[r])*(s - res[r]);
        ref2 += s*s;
    }
    const double nmse = err/ref2;
    printf("nrows = %d ncols = %d nmse = %g %s\n", nrows, ncols, nmse, nmse < 1e-3 ? "ok" : "FAIL");

    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_yq));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_dst));
    return nmse < 1e-3 ? 0 : 1;
}
