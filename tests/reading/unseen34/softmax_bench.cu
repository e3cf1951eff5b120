// Row-wise softmax, five ways, and what each step buys you.
//
//   1  one thread per row (3 passes)
//   2  one block per row, tree reduction in shared memory
//   3  one warp per row, shuffles
//   4  one block per row, online softmax (2 passes over the input), shuffles + shared
//   5  like 4 with float4 loads and stores   (cols % 4 == 0)
//
// $ nvcc -O3 --use_fast_math -o softmax_bench softmax_bench.cu
// $ ./softmax_bench 4096 8192
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define FULL_MASK 0xffffffffu

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ---------------------------------------------------------------------------------------
// 1
__global__ void softmax_kernel1(const float *inp, float *out, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        const float *x = inp + (size_t)i * cols;
        float *y = out + (size_t)i * cols;
        float maxval = -INFINITY;
        for (int j = 0; j < cols; j++) {
            maxval = fmaxf(maxval, x[j]);
        }
        float sum = 0.f;
        for (int j = 0; j < cols; j++) {
            y[j] = expf(x[j] - maxval);
            sum += y[j];
        }
        for (int j = 0; j < cols; j++) {
            y[j] /= sum;
        }
    }
}

// ---------------------------------------------------------------------------------------
// 2: blockDim.x has to be a power of two
__global__ void softmax_kernel2(const float *inp, float *out, int rows, int cols) {
    extern __shared__ float shared[];
    int row = blockIdx.x;
    int tid = threadIdx.x;
    int block_size = blockDim.x;
    const float *x = inp + (size_t)row * cols;
    float *y = out + (size_t)row * cols;

    // thread coarsening
    float maxval = -INFINITY;
    for (int i = tid; i < cols; i += block_size) {
        maxval = fmaxf(maxval, x[i]);
    }
    shared[tid] = maxval;
    __syncthreads();
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        if (tid < stride) {
            shared[tid] = fmaxf(shared[tid], shared[tid + stride]);
        }
        __syncthreads();
    }
    float row_max = shared[0];
    __syncthreads();  // everyone has read shared[0] before it is reused for the sum

    float sum = 0.f;
    for (int i = tid; i < cols; i += block_size) {
        float e = expf(x[i] - row_max);
        y[i] = e;
        sum += e;
    }
    shared[tid] = sum;
    __syncthreads();
    for (int stride = block_size / 2; stride >= 1; stride /= 2) {
        if (tid < stride) {
            shared[tid] += shared[tid + stride];
        }
        __syncthreads();
    }
    float norm = 1.f / shared[0];

    for (int i = tid; i < cols; i += block_size) {
        y[i] *= norm;
    }
}

// ---------------------------------------------------------------------------------------
// 3: blockDim.x = 32 * (rows per block)
__global__ void softmax_kernel3(const float *inp, float *out, int rows, int cols) {
    int warps_per_block = blockDim.x / 32;
    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;
    int row = blockIdx.x * warps_per_block + warp_id;
    if (row >= rows) {
        return;
    }
    const float *x = inp + (size_t)row * cols;
    float *y = out + (size_t)row * cols;

    float maxval = -INFINITY;
    for (int i = lane_id; i < cols; i += 32) {
        maxval = fmaxf(maxval, x[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        maxval = fmaxf(maxval, __shfl_xor_sync(FULL_MASK, maxval, offset));
    }

    float sum = 0.f;
    for (int i = lane_id; i < cols; i += 32) {
        sum += expf(x[i] - maxval);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(FULL_MASK, sum, offset);
    }

    float norm = 1.f / sum;
    for (int i = lane_id; i < cols; i += 32) {
        y[i] = expf(x[i] - maxval) * norm;
    }
}

// ---------------------------------------------------------------------------------------
// 4, 5: running maximum m and running sum d, "Online normalizer calculation for softmax"
struct __align__(8) MD {
    float m;
    float d;
};

__device__ __forceinline__ MD md_combine(MD a, MD b) {
    bool a_bigger = a.m > b.m;
    MD big = a_bigger ? a : b;
    MD small = a_bigger ? b : a;
    MD res;
    res.m = big.m;
    res.d = big.d + small.d * expf(small.m - big.m);
    return res;
}

__device__ __forceinline__ MD warp_reduce_md(MD v) {
    for (int mask = 16; mask > 0; mask >>= 1) {
        MD other;
        other.m = __shfl_xor_sync(FULL_MASK, v.m, mask);
        other.d = __shfl_xor_sync(FULL_MASK, v.d, mask);
        v = md_combine(v, other);
    }
    return v;
}

// all threads return the (m, d) of the whole block, at most 1024 threads
__device__ MD block_reduce_md(MD v) {
    __shared__ MD warp_md[32];
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    int num_warps = blockDim.x / 32;
    v = warp_reduce_md(v);
    if (lane == 0) {
        warp_md[warp] = v;
    }
    __syncthreads();
    // every warp does the last step redundantly, saves the broadcast
    // -FLT_MAX and not -INFINITY: (-inf) - (-inf) would be a NaN
    MD w = {-FLT_MAX, 0.f};
    if (lane < num_warps) {
        w = warp_md[lane];
    }
    return warp_reduce_md(w);
}

__global__ void softmax_kernel4(const float *inp, float *out, int rows, int cols) {
    const float *x = inp + (size_t)blockIdx.x * cols;
    float *y = out + (size_t)blockIdx.x * cols;

    MD md = {-FLT_MAX, 0.f};
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        MD e = {x[i], 1.f};
        md = md_combine(md, e);
    }
    md = block_reduce_md(md);

    float norm = 1.f / md.d;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        y[i] = expf(x[i] - md.m) * norm;
    }
}

__global__ void softmax_kernel5(const float *inp, float *out, int rows, int cols) {
    const float4 *x = reinterpret_cast<const float4 *>(inp + (size_t)blockIdx.x * cols);
    float4 *y = reinterpret_cast<float4 *>(out + (size_t)blockIdx.x * cols);
    int cols4 = cols / 4;

    MD md = {-FLT_MAX, 0.f};
    for (int i = threadIdx.x; i < cols4; i += blockDim.x) {
        float4 v = x[i];
        MD e;
        e.m = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        e.d = expf(v.x - e.m) + expf(v.y - e.m) + expf(v.z - e.m) + expf(v.w - e.m);
        md = md_combine(md, e);
    }
    md = block_reduce_md(md);

    float norm = 1.f / md.d;
    for (int i = threadIdx.x; i < cols4; i += blockDim.x) {
        float4 v = x[i];
        v.x = expf(v.x - md.m) * norm;
        v.y = expf(v.y - md.m) * norm;
        v.z = expf(v.z - md.m) * norm;
        v.w = expf(v.w - md.m) * norm;
        y[i] = v;
    }
}

// ---------------------------------------------------------------------------------------
void softmax(int kernel_num, const float *inp, float *out, int rows, int cols, int block_size) {
    switch (kernel_num) {
    case 1:
        softmax_kernel1<<<CEIL_DIV(rows, block_size), block_size>>>(inp, out, rows, cols);
        break;
    case 2:
        softmax_kernel2<<<rows, block_size, block_size * sizeof(float)>>>(inp, out, rows, cols);
        break;
    case 3:
        softmax_kernel3<<<CEIL_DIV(rows, block_size / 32), block_size>>>(inp, out, rows, cols);
        break;
    case 4:
        softmax_kernel4<<<rows, block_size>>>(inp, out, rows, cols);
        break;
    case 5:
        assert(cols % 4 == 0);
        softmax_kernel5<<<rows, block_size>>>(inp, out, rows, cols);
        break;
    default:
        printf("Invalid kernel number\n");
        exit(1);
    }
    cudaCheck(cudaGetLastError());
}

void softmax_cpu(const float *inp, float *out, int rows, int cols) {
    for (int i = 0; i < rows; i++) {
        const float *x = inp + (size_t)i * cols;
        float *y = out + (size_t)i * cols;
        float maxval = -INFINITY;
        for (int j = 0; j < cols; j++) {
            if (x[j] > maxval) maxval = x[j];
        }
        double sum = 0.0;
        for (int j = 0; j < cols; j++) {
            y[j] = expf(x[j] - maxval);
            sum += y[j];
        }
        for (int j = 0; j < cols; j++) {
            y[j] /= (float)sum;
        }
    }
}

int main(int argc, char **argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 4096;
    int cols = argc > 2 ? atoi(argv[2]) : 8192;
    size_t n = (size_t)rows * cols;

    float *h_inp = (float *)malloc(n * sizeof(float));
    float *h_out = (float *)malloc(n * sizeof(float));
    float *h_ref = (float *)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        h_inp[i] = ((float)rand() / RAND_MAX) * 20.f - 10.f;
    }
    // a few outliers per row, this is what breaks a softmax without the max
    for (int i = 0; i < rows; i++) {
        h_inp[(size_t)i * cols + rand() % cols] = 120.f;
        h_inp[(size_t)i * cols + rand() % cols] = 119.f;
    }
    softmax_cpu(h_inp, h_ref, rows, cols);

    float *d_inp, *d_out;
    cudaCheck(cudaMalloc((void **)&d_inp, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&d_out, n * sizeof(float)));
    cudaCheck(cudaMemcpy(d_inp, h_inp, n * sizeof(float), cudaMemcpyHostToDevice));

    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    int failed = 0;
    for (int k = 1; k <= 5; k++) {
        for (int b = 0; b < 6; b++) {
            int block_size = block_sizes[b];
            cudaCheck(cudaMemset(d_out, 0, n * sizeof(float)));
            softmax(k, d_inp, d_out, rows, cols, block_size);
            cudaCheck(cudaDeviceSynchronize());
            cudaCheck(cudaMemcpy(h_out, d_out, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < n; i++) {
                if (!(fabsf(h_out[i] - h_ref[i]) <= 1e-5f)) {
                    printf("kernel %d, block %d: mismatch at %zu: %f vs %f\n", k, block_size, i, h_out[i], h_ref[i]);
                    failed = 1;
                    break;
                }
            }

            int repeat = 10;
            cudaEvent_t start, stop;
            cudaCheck(cudaEventCreate(&start));
            cudaCheck(cudaEventCreate(&stop));
            cudaCheck(cudaEventRecord(start, 0));
            for (int r = 0; r < repeat; r++) {
                softmax(k, d_inp, d_out, rows, cols, block_size);
            }
            cudaCheck(cudaEventRecord(stop, 0));
            cudaCheck(cudaEventSynchronize(stop));
            float ms;
            cudaCheck(cudaEventElapsedTime(&ms, start, stop));
            ms /= repeat;
            printf("kernel %d | block_size %4d | time %8.4f ms | %8.2f GB/s\n", k, block_size, ms,
                   2.0 * n * sizeof(float) / ms * 1e-6);
        }
    }
    free(h_inp);
    free(h_out);
    free(h_ref);
    cudaCheck(cudaFree(d_inp));
    cudaCheck(cudaFree(d_out));
    return failed;
}
