// Лабораторная работа 4: транспонирование, редукция, softmax
//
//   transpose_naive / transpose_tiled : out[cols][rows] = in[rows][cols]^T, любые размеры
//   reduce_shared / reduce_shuffle    : сумма n чисел (результат прибавляется через atomicAdd, out обнулить заранее)
//   row_sum                           : сумма каждой строки, один варп на строку
//   softmax_online                    : softmax по строкам за два прохода (online normalizer)
//
// nvcc -O3 -o lab4 lab4_transpose_reduce_softmax.cu

#include <cuda_runtime.h>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CSC(call)                                                                        \
do {                                                                                     \
    cudaError_t res = call;                                                              \
    if (res != cudaSuccess) {                                                            \
        fprintf(stderr, "ERROR in %s:%d. Message: %s\n", __FILE__, __LINE__,             \
                cudaGetErrorString(res));                                                \
        exit(0);                                                                         \
    }                                                                                    \
} while (0)

#define TILE_DIM 32
#define BLOCK_ROWS 8
#define BLOCK 256

__global__ void transpose_naive(const float *in, float *out, int rows, int cols) {
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < cols && y + j < rows)
            out[x * rows + y + j] = in[(y + j) * cols + x];
}

__global__ void transpose_tiled(const float *in, float *out, int rows, int cols) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];   // +1 против конфликтов банков

    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < cols && y + j < rows)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];

    __syncthreads();

    // блок (bx, by) пишет в блок (by, bx)
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < rows && y + j < cols)
            out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void reduce_shared(const float *in, float *out, int n) {
    __shared__ float sdata[BLOCK];
    int tid = threadIdx.x;
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x)
        s += in[i];
    sdata[tid] = s;
    __syncthreads();
    for (int k = BLOCK / 2; k > 0; k >>= 1) {
        if (tid < k)
            sdata[tid] += sdata[tid + k];
        __syncthreads();
    }
    if (tid == 0)
        atomicAdd(out, sdata[0]);
}

__device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;   // верно только в нулевой нити варпа
}

__global__ void reduce_shuffle(const float *in, float *out, int n) {
    __shared__ float partial[BLOCK / 32];
    int tid = threadIdx.x;
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x)
        s += in[i];
    s = warp_sum(s);
    if (tid % 32 == 0)
        partial[tid / 32] = s;
    __syncthreads();
    if (tid < 32) {
        s = tid < BLOCK / 32 ? partial[tid] : 0.0f;
        s = warp_sum(s);
        if (tid == 0)
            atomicAdd(out, s);
    }
}

__global__ void row_sum(const float *in, float *out, int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float s = 0.0f;
    for (int c = lane; c < cols; c += 32)
        s += in[row * cols + c];
    s = warp_sum(s);
    if (lane == 0)
        out[row] = s;
}

// пара (максимум, сумма экспонент относительно этого максимума)
struct MD {
    float m;
    float d;
};

__device__ MD md_merge(MD a, MD b) {
    MD big = a.m > b.m ? a : b;
    MD small = a.m > b.m ? b : a;
    MD r;
    r.m = big.m;
    r.d = big.d + small.d * __expf(small.m - big.m);
    return r;
}

__global__ void softmax_online(const float *in, float *out, int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float *x = in + row * cols;

    MD v;
    v.m = -FLT_MAX;
    v.d = 0.0f;
    for (int c = lane; c < cols; c += 32) {
        MD e;
        e.m = x[c];
        e.d = 1.0f;
        v = md_merge(v, e);
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
        MD other;
        other.m = __shfl_xor_sync(0xffffffff, v.m, mask);
        other.d = __shfl_xor_sync(0xffffffff, v.d, mask);
        v = md_merge(v, other);
    }
    for (int c = lane; c < cols; c += 32)
        out[row * cols + c] = __expf(x[c] - v.m) / v.d;
}

template <class F>
float measure(const char *name, double bytes, F f) {
    cudaEvent_t start, stop;
    CSC(cudaEventCreate(&start));
    CSC(cudaEventCreate(&stop));
    CSC(cudaEventRecord(start));
    f();
    CSC(cudaEventRecord(stop));
    CSC(cudaEventSynchronize(stop));
    CSC(cudaGetLastError());
    float t;
    CSC(cudaEventElapsedTime(&t, start, stop));
    CSC(cudaEventDestroy(start));
    CSC(cudaEventDestroy(stop));
    printf("%-16s %8.3f ms  %8.2f GB/s\n", name, t, bytes / t * 1e-6);
    return t;
}

int main() {
    const int rows = 1000, cols = 1537;
    const int n = rows * cols;
    std::vector<float> h(n), r(n);
    for (int i = 0; i < n; i++)
        h[i] = (float)(rand() % 2001 - 1000) / 1000.0f;

    float *in, *out;
    CSC(cudaMalloc(&in, n * sizeof(float)));
    CSC(cudaMalloc(&out, n * sizeof(float)));
    CSC(cudaMemcpy(in, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    dim3 tgrid((cols + TILE_DIM - 1) / TILE_DIM, (rows + TILE_DIM - 1) / TILE_DIM);
    dim3 tblock(TILE_DIM, BLOCK_ROWS);

    for (int v = 0; v < 2; v++) {
        CSC(cudaMemset(out, 0, n * sizeof(float)));
        if (v == 0)
            measure("transpose_naive", 2.0 * n * sizeof(float), [&] { transpose_naive<<<tgrid, tblock>>>(in, out, rows, cols); });
        else
            measure("transpose_tiled", 2.0 * n * sizeof(float), [&] { transpose_tiled<<<tgrid, tblock>>>(in, out, rows, cols); });
        CSC(cudaMemcpy(r.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
        int bad = 0;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++)
                bad += r[j * rows + i] != h[i * cols + j];
        printf("  ошибок: %d\n", bad);
    }

    double total = 0;
    for (int i = 0; i < n; i++)
        total += h[i];
    for (int v = 0; v < 2; v++) {
        CSC(cudaMemset(out, 0, sizeof(float)));
        if (v == 0)
            measure("reduce_shared", 1.0 * n * sizeof(float), [&] { reduce_shared<<<128, BLOCK>>>(in, out, n); });
        else
            measure("reduce_shuffle", 1.0 * n * sizeof(float), [&] { reduce_shuffle<<<128, BLOCK>>>(in, out, n); });
        CSC(cudaMemcpy(r.data(), out, sizeof(float), cudaMemcpyDeviceToHost));
        printf("  gpu %f cpu %f\n", r[0], total);
    }

    const int wgrid = (rows * 32 + BLOCK - 1) / BLOCK;
    measure("row_sum", 1.0 * n * sizeof(float), [&] { row_sum<<<wgrid, BLOCK>>>(in, out, rows, cols); });
    CSC(cudaMemcpy(r.data(), out, rows * sizeof(float), cudaMemcpyDeviceToHost));
    double err = 0;
    for (int i = 0; i < rows; i++) {
        double s = 0;
        for (int j = 0; j < cols; j++)
            s += h[i * cols + j];
        err = fmax(err, fabs(s - r[i]));
    }
    printf("  макс. ошибка: %g\n", err);

    measure("softmax_online", 3.0 * n * sizeof(float), [&] { softmax_online<<<wgrid, BLOCK>>>(in, out, rows, cols); });
    CSC(cudaMemcpy(r.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    err = 0;
    for (int i = 0; i < rows; i++) {
        double m = -1e30, s = 0;
        for (int j = 0; j < cols; j++)
            m = fmax(m, h[i * cols + j]);
        for (int j = 0; j < cols; j++)
            s += exp(h[i * cols + j] - m);
        for (int j = 0; j < cols; j++)
            err = fmax(err, fabs(exp(h[i * cols + j] - m) / s - r[i * cols + j]));
    }
    printf("  макс. ошибка: %g\n", err);

    CSC(cudaFree(in));
    CSC(cudaFree(out));
    return 0;
}
