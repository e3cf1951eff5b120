// =====================================================================================
//  Final Project - Parallel Programming (CUDA part)
//  Accelerating k-means with Tensor Cores
//
//  assignment step:   label[i] = argmin_j ||x_i - c_j||^2
//                              = argmin_j ||x_i||^2 - 2 <x_i, c_j> + ||c_j||^2
//  The dot products are a matrix product  X (n x d)  *  C^T (d x k)   ==> WMMA
//
//  update step (first half): every block adds its points to the sums of their clusters,
//  the division is done by another kernel.
// =====================================================================================
#include <cstdio>
#include <cfloat>
#include <climits>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

#define THREADS      128
#define WARPS        (THREADS / 32)
#define POINTS       64                     // points per block, 16 per warp
#define CENTROIDS    32                     // centroids per round
#define MAX_DIM      64
#define LDX          (MAX_DIM + 8)
#define LDDOT        (CENTROIDS + 4)

// dim <= MAX_DIM, any number of points and centroids
__global__ void kmeans_assign(const half *points, const half *centroids, int *labels, float *min_dist,
                              float *new_sums, int *new_counts, int n, int k, int dim)
{
    __shared__ __align__(32) half  s_points[POINTS * LDX];
    __shared__ __align__(32) half  s_centroids[CENTROIDS * LDX];
    __shared__ __align__(32) float s_dot[POINTS * LDDOT];
    __shared__ float s_xnorm[POINTS];
    __shared__ float s_cnorm[CENTROIDS];
    __shared__ int   s_label[POINTS];

    const int tid     = threadIdx.x;
    const int warp_id = tid / 32;
    const int first   = blockIdx.x * POINTS;
    const int dim_pad = (dim + WMMA_K - 1) / WMMA_K * WMMA_K;

    // ---------------- load points (once), zero padding ----------------
    for (int i = tid; i < POINTS * dim_pad; i += THREADS) {
        int p = i / dim_pad;
        int d = i % dim_pad;
        half v = __float2half(0.0f);
        if (first + p < n && d < dim)
            v = points[(first + p) * dim + d];
        s_points[p * LDX + d] = v;
    }
    __syncthreads();

    // ---------------- ||x||^2, two threads per point ----------------
    {
        int p    = tid / 2;
        int part = tid % 2;
        float sum = 0.0f;
        for (int d = part; d < dim; d += 2) {
            float v = __half2float(s_points[p * LDX + d]);
            sum += v * v;
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        if (part == 0)
            s_xnorm[p] = sum;
    }

    // two threads per point: even columns and odd columns
    const int my_point = tid / 2;
    const int my_part  = tid % 2;
    float best_dist  = FLT_MAX;
    int   best_label = INT_MAX;

    for (int c0 = 0; c0 < k; c0 += CENTROIDS) {
        const int valid = min(CENTROIDS, k - c0);

        // ---------------- load centroids ----------------
        for (int i = tid; i < CENTROIDS * dim_pad; i += THREADS) {
            int c = i / dim_pad;
            int d = i % dim_pad;
            half v = __float2half(0.0f);
            if (c < valid && d < dim)
                v = centroids[(c0 + c) * dim + d];
            s_centroids[c * LDX + d] = v;
        }
        __syncthreads();

        // ---------------- ||c||^2, first warp ----------------
        if (tid < CENTROIDS) {
            float sum = 0.0f;
            for (int d = 0; d < dim; d++) {
                float v = __half2float(s_centroids[tid * LDX + d]);
                sum += v * v;
            }
            s_cnorm[tid] = sum;
        }

        // ---------------- dot products ----------------
        for (int tile = 0; tile < CENTROIDS / WMMA_N; tile++) {
            wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc;
            wmma::fill_fragment(acc, 0.0f);
            for (int kk = 0; kk < dim_pad; kk += WMMA_K) {
                wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> fx;
                wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> fc;
                wmma::load_matrix_sync(fx, s_points + warp_id * WMMA_M * LDX + kk, LDX);
                wmma::load_matrix_sync(fc, s_centroids + tile * WMMA_N * LDX + kk, LDX);
                wmma::mma_sync(acc, fx, fc, acc);
            }
            wmma::store_matrix_sync(s_dot + warp_id * WMMA_M * LDDOT + tile * WMMA_N, acc, LDDOT,
                                    wmma::mem_row_major);
        }
        __syncthreads();

        // ---------------- running minimum ----------------
        for (int c = my_part; c < valid; c += 2) {
            float dist = s_xnorm[my_point] - 2.0f * s_dot[my_point * LDDOT + c] + s_cnorm[c];
            if (dist < best_dist) {
                best_dist  = dist;
                best_label = c0 + c;
            }
        }
        __syncthreads();
    }

    // ---------------- combine both threads, lowest label wins ----------------
    float other_dist  = __shfl_xor_sync(0xffffffff, best_dist, 1);
    int   other_label = __shfl_xor_sync(0xffffffff, best_label, 1);
    if (other_dist < best_dist || (other_dist == best_dist && other_label < best_label)) {
        best_dist  = other_dist;
        best_label = other_label;
    }
    if (my_part == 0) {
        s_label[my_point] = best_label;
        if (first + my_point < n) {
            labels[first + my_point]   = best_label;
            min_dist[first + my_point] = fmaxf(best_dist, 0.0f);
            atomicAdd(&new_counts[best_label], 1);
        }
    }
    __syncthreads();

    // ---------------- add points to the sums of their clusters ----------------
    const int count = min(POINTS, n - first);
    for (int i = tid; i < count * dim; i += THREADS) {
        int p = i / dim;
        int d = i % dim;
        atomicAdd(&new_sums[s_label[p] * dim + d], __half2float(s_points[p * LDX + d]));
    }
}

void kmeans_step(const half *d_points, const half *d_centroids, int *d_labels, float *d_min_dist,
                 float *d_sums, int *d_counts, int n, int k, int dim)
{
    cudaMemset(d_sums, 0, (size_t)k * dim * sizeof(float));
    cudaMemset(d_counts, 0, k * sizeof(int));
    int blocks = (n + POINTS - 1) / POINTS;
    kmeans_assign<<<blocks, THREADS>>>(d_points, d_centroids, d_labels, d_min_dist, d_sums, d_counts, n, k, dim);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess)
        printf("CUDA error: %s\n", cudaGetErrorString(err));
}
