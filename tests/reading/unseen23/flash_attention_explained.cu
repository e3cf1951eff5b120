// Flash attention, explained.
//
// Companion code of the blog post. The aim is to be read, not to be fast: one kernel, no templates, no swizzling.
//
// Ordinary attention writes the N x N matrix of scores to memory. Flash attention never does. A block keeps a few
// rows of Q, walks over K and V in tiles, and carries three things from tile to tile:
//
//     m   the largest score that each row has seen so far
//     l   the sum of exp(score - m) so far
//     O   the sum of exp(score - m) * v so far
//
// When a tile has a larger score than m, the old l and O are multiplied with exp(m_old - m_new), and all is well.
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda::wmma;

#define D 64          // size of a head
#define ROWS 32       // queries of a block
#define KEYS 32       // keys of a tile
#define NUM_THREADS 128

__global__ void flash_attention(const half* Q, const half* K, const half* V, float* Out, int N, float softmax_scale)
{
    // (wmma wants its tiles at multiples of 32 bytes)
    __shared__ __align__(32) half q_tile[ROWS][D];
    __shared__ __align__(32) half kv_tile[KEYS][D];   // first K, later V
    __shared__ __align__(32) float s_tile[ROWS][KEYS];
    __shared__ __align__(32) half p_tile[ROWS][KEYS];
    __shared__ __align__(32) float o_tile[ROWS][D];
    __shared__ float m[ROWS], l[ROWS];

    // blockIdx.y is the head. All heads lie one after another.
    const size_t head = (size_t)blockIdx.y * N * D;
    const int first_row = blockIdx.x * ROWS;
    const int warp = threadIdx.x / 32;

    for (int i = threadIdx.x; i < ROWS * D; i += NUM_THREADS) {
        int r = i / D, c = i % D;
        q_tile[r][c] = first_row + r < N ? Q[head + (first_row + r) * D + c] : __float2half(0.f);
        o_tile[r][c] = 0.f;
    }
    if (threadIdx.x < ROWS) {
        m[threadIdx.x] = -INFINITY;
        l[threadIdx.x] = 0.f;
    }

    for (int first_key = 0; first_key < N; first_key += KEYS) {
        // 1. bring a tile of K
        for (int i = threadIdx.x; i < KEYS * D; i += NUM_THREADS) {
            int r = i / D, c = i % D;
            kv_tile[r][c] = first_key + r < N ? K[head + (first_key + r) * D + c] : __float2half(0.f);
        }
        __syncthreads();

        // 2. S = Q K^T. S has 2 x 2 tiles of 16 x 16, and we have four warps.
        //    K^T needs no transposing: reading K as "col_major" does it.
        {
            int ti = warp / 2, tj = warp % 2;
            fragment<accumulator, 16, 16, 16, float> s;
            fill_fragment(s, 0.f);
            for (int d = 0; d < D; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> a;
                fragment<matrix_b, 16, 16, 16, half, col_major> b;
                load_matrix_sync(a, &q_tile[ti * 16][d], D);
                load_matrix_sync(b, &kv_tile[tj * 16][d], D);
                mma_sync(s, a, b, s);
            }
            store_matrix_sync(&s_tile[ti * 16][tj * 16], s, KEYS, mem_row_major);
        }
        __syncthreads();

        // 3. K is used up, so bring V in its place. Meanwhile 32 threads do the softmax, a row each.
        for (int i = threadIdx.x; i < KEYS * D; i += NUM_THREADS) {
            int r = i / D, c = i % D;
            kv_tile[r][c] = first_key + r < N ? V[head + (first_key + r) * D + c] : __float2half(0.f);
        }
        if (threadIdx.x < ROWS) {
            int r = threadIdx.x;
            int valid = min(KEYS, N - first_key);  // the last tile may have fewer keys
            float m_new = m[r];
            for (int c = 0; c < valid; c++)
                m_new = fmaxf(m_new, s_tile[r][c] * softmax_scale);

            float sum = 0.f;
            for (int c = 0; c < KEYS; c++) {
                float p = c < valid ? expf(s_tile[r][c] * softmax_scale - m_new) : 0.f;
                p_tile[r][c] = __float2half(p);
                sum += p;
            }
            float correction = expf(m[r] - m_new);  // exp(-inf) = 0 at the first tile
            l[r] = l[r] * correction + sum;
            m[r] = m_new;
            for (int c = 0; c < D; c++)
                o_tile[r][c] *= correction;
        }
        __syncthreads();

        // 4. O += P V. O has 2 x 4 tiles, two for each warp.
        for (int t = warp; t < 8; t += 4) {
            int ti = t / 4, tj = t % 4;
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(o, &o_tile[ti * 16][tj * 16], D, mem_row_major);
            for (int k = 0; k < KEYS; k += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> a;
                fragment<matrix_b, 16, 16, 16, half, row_major> b;
                load_matrix_sync(a, &p_tile[ti * 16][k], KEYS);
                load_matrix_sync(b, &kv_tile[k][tj * 16], D);
                mma_sync(o, a, b, o);
            }
            store_matrix_sync(&o_tile[ti * 16][tj * 16], o, D, mem_row_major);
        }
        __syncthreads();
    }

    // 5. divide once, at the very end
    for (int i = threadIdx.x; i < ROWS * D; i += NUM_THREADS) {
        int r = i / D, c = i % D;
        if (first_row + r < N)
            Out[head + (first_row + r) * D + c] = o_tile[r][c] / l[r];
    }
}

void attention_on_cpu(const half* Q, const half* K, const half* V, float* Out, int heads, int N, float scale)
{
    float* p = (float*)malloc(N * sizeof(float));
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < N; i++) {
            const half* q = Q + ((size_t)h * N + i) * D;
            float biggest = -INFINITY, sum = 0.f;
            for (int j = 0; j < N; j++) {
                p[j] = 0.f;
                for (int d = 0; d < D; d++)
                    p[j] += __half2float(q[d]) * __half2float(K[((size_t)h * N + j) * D + d]);
                p[j] *= scale;
                if (p[j] > biggest) biggest = p[j];
            }
            for (int j = 0; j < N; j++) {
                p[j] = expf(p[j] - biggest);
                sum += p[j];
            }
            for (int d = 0; d < D; d++) {
                float o = 0.f;
                for (int j = 0; j < N; j++)
                    o += p[j] * __half2float(V[((size_t)h * N + j) * D + d]);
                Out[((size_t)h * N + i) * D + d] = o / sum;
            }
        }
    free(p);
}

int main()
{
    const int heads = 2, N = 80;   // 80 is not a multiple of 32, on purpose
    const size_t count = (size_t)heads * N * D;
    half* h[3];
    half* d[3];
    for (int t = 0; t < 3; t++) {
        h[t] = (half*)malloc(count * sizeof(half));
        for (size_t i = 0; i < count; i++)
            h[t][i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
        cudaMalloc(&d[t], count * sizeof(half));
        cudaMemcpy(d[t], h[t], count * sizeof(half), cudaMemcpyHostToDevice);
    }
    float* d_out;
    float* out = (float*)malloc(count * sizeof(float));
    float* expected = (float*)malloc(count * sizeof(float));
    cudaMalloc(&d_out, count * sizeof(float));

    const float scale = 1.f / sqrtf((float)D);
    dim3 grid((N + ROWS - 1) / ROWS, heads);
    flash_attention<<<grid, NUM_THREADS>>>(d[0], d[1], d[2], d_out, N, scale);
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) {
        printf("kernel failed: %s\n", cudaGetErrorString(err));
        return 1;
    }
    cudaMemcpy(out, d_out, count * sizeof(float), cudaMemcpyDeviceToHost);

    attention_on_cpu(h[0], h[1], h[2], expected, heads, N, scale);
    int bad = 0;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(out[i] - expected[i]) < 5e-3f)) {
            if (bad++ < 5) printf("  at %zu: %f, expected %f\n", i, out[i], expected[i]);
        }
    printf(bad ? "%d values are wrong\n" : "all values match\n", bad);
    return bad != 0;
}
