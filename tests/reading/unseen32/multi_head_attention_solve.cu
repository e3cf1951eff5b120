#include <cuda_runtime.h>
#include <mma.h>
#include <float.h>

// Multi-Head Attention.
// Q, K, V, output: device pointers, N x d_model, row-major fp32.
// head i uses the columns [i * d_k, (i + 1) * d_k), d_k = d_model / h.
// 1 <= N <= 10000, 2 <= d_model <= 1024, d_model % h == 0
// tf32 tensor cores, tiles go through shared memory so N and d_k may be anything.

using namespace nvcuda;

#define TILE 16
#define KSTEP 8

__device__ __forceinline__ int cdiv(int a, int b) { return (a + b - 1) / b; }

// one warp = one 16x16 tile of scores[head]
__global__ void scores_kernel(const float* Q, const float* K, float* scores, int N, int d_model, int d_k) {
    __shared__ __align__(128) float sq[TILE * TILE];
    __shared__ __align__(128) float sk[TILE * TILE];
    __shared__ __align__(128) float so[TILE * TILE];

    int lane = threadIdx.x;
    int head = blockIdx.z;
    int row0 = blockIdx.y * TILE;
    int col0 = blockIdx.x * TILE;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < d_k; k0 += TILE) {
        for (int i = lane; i < TILE * TILE; i += 32) {
            int r = i / TILE, c = i % TILE;
            int d = k0 + c;
            sq[i] = (row0 + r < N && d < d_k) ? Q[(size_t)(row0 + r) * d_model + head * d_k + d] : 0.0f;
            sk[i] = (col0 + r < N && d < d_k) ? K[(size_t)(col0 + r) * d_model + head * d_k + d] : 0.0f;
        }
        __syncthreads();
        for (int kk = 0; kk < TILE; kk += KSTEP) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> b;
            wmma::load_matrix_sync(a, sq + kk, TILE);
            wmma::load_matrix_sync(b, sk + kk, TILE);
            for (int t = 0; t < a.num_elements; t++) a.x[t] = wmma::__float_to_tf32(a.x[t]);
            for (int t = 0; t < b.num_elements; t++) b.x[t] = wmma::__float_to_tf32(b.x[t]);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(so, acc, TILE, wmma::mem_row_major);
    __syncthreads();
    float scale = rsqrtf((float)d_k);
    for (int i = lane; i < TILE * TILE; i += 32) {
        int r = row0 + i / TILE, c = col0 + i % TILE;
        if (r < N && c < N) scores[((size_t)head * N + r) * N + c] = so[i] * scale;
    }
}

// one block of 256 threads = one row, in place
__global__ void softmax_rows(float* scores, int N) {
    __shared__ float buf[256];
    float* row = scores + (size_t)blockIdx.x * N;
    int tid = threadIdx.x;

    float mx = -FLT_MAX;
    for (int i = tid; i < N; i += 256) mx = fmaxf(mx, row[i]);
    buf[tid] = mx;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (tid < s) buf[tid] = fmaxf(buf[tid], buf[tid + s]);
        __syncthreads();
    }
    mx = buf[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = tid; i < N; i += 256) {
        float e = expf(row[i] - mx);
        row[i] = e;
        sum += e;
    }
    buf[tid] = sum;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (tid < s) buf[tid] += buf[tid + s];
        __syncthreads();
    }
    float inv = 1.0f / buf[0];
    for (int i = tid; i < N; i += 256) row[i] *= inv;
}

// one warp = one 16x16 tile of the head's output
__global__ void context_kernel(const float* P, const float* V, float* out, int N, int d_model, int d_k) {
    __shared__ __align__(128) float sp[TILE * TILE];
    __shared__ __align__(128) float sv[TILE * TILE];

    int lane = threadIdx.x;
    int head = blockIdx.z;
    int row0 = blockIdx.y * TILE;
    int col0 = blockIdx.x * TILE;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int j0 = 0; j0 < N; j0 += TILE) {
        for (int i = lane; i < TILE * TILE; i += 32) {
            int r = i / TILE, c = i % TILE;
            sp[i] = (row0 + r < N && j0 + c < N) ? P[((size_t)head * N + row0 + r) * N + j0 + c] : 0.0f;
            sv[i] = (j0 + r < N && col0 + c < d_k) ? V[(size_t)(j0 + r) * d_model + head * d_k + col0 + c] : 0.0f;
        }
        __syncthreads();
        for (int kk = 0; kk < TILE; kk += KSTEP) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
            wmma::load_matrix_sync(a, sp + kk, TILE);
            wmma::load_matrix_sync(b, sv + kk * TILE, TILE);
            for (int t = 0; t < a.num_elements; t++) a.x[t] = wmma::__float_to_tf32(a.x[t]);
            for (int t = 0; t < b.num_elements; t++) b.x[t] = wmma::__float_to_tf32(b.x[t]);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(sp, acc, TILE, wmma::mem_row_major);
    __syncthreads();
    for (int i = lane; i < TILE * TILE; i += 32) {
        int r = row0 + i / TILE, c = col0 + i % TILE;
        if (r < N && c < d_k) out[(size_t)r * d_model + head * d_k + c] = sp[i];
    }
}

// Q, K, V, output are device pointers
extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d_model, int h) {
    int d_k = d_model / h;
    float* scores = nullptr;
    cudaMalloc(&scores, sizeof(float) * (size_t)h * N * N);

    int nt = (N + TILE - 1) / TILE;
    int dt = (d_k + TILE - 1) / TILE;
    scores_kernel<<<dim3(nt, nt, h), 32>>>(Q, K, scores, N, d_model, d_k);
    softmax_rows<<<h * N, 256>>>(scores, N);
    context_kernel<<<dim3(dt, nt, h), 32>>>(scores, V, output, N, d_model, d_k);

    cudaDeviceSynchronize();
    cudaFree(scores);
}
