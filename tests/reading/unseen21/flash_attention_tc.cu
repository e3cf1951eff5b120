// A small flash attention on tensor cores (WMMA), with a CPU check.
//
//   nvcc -arch=sm_80 -O2 flash_attention_tc.cu -o flash && ./flash
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define D 64        // head dimension
#define BR 32       // rows of Q per block
#define BC 32       // rows of K, V per step
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

// Q, K, V, O: (B, nh, N, d)
__global__ void flash_attention_forward_kernel(const half *Q, const half *K, const half *V, float *O, int N,
                                               int Tc, int Tr, float softmax_scale) {
    __shared__ half Qs[BR][D];
    __shared__ half Ks[BC][D];
    __shared__ half Vs[BC][D];
    __shared__ float Ss[BR][BC];
    __shared__ half Ps[BR][BC];
    __shared__ float Os[BR][D];
    __shared__ float m[BR], l[BR];

    int tx = threadIdx.x;
    int warp = tx / 32;
    int bx = blockIdx.x, by = blockIdx.y;  // batch and head
    int qkv_offset = (bx * gridDim.y * N * D) + (by * N * D);
    int i = blockIdx.z;                    // which rows of Q

    for (int x = tx; x < BR * D; x += NUM_THREADS) {
        int r = x / D, c = x % D;
        Qs[r][c] = Q[qkv_offset + (i * BR + r) * D + c];
        Os[r][c] = 0.f;
    }
    if (tx < BR) {
        m[tx] = -INFINITY;
        l[tx] = 0.f;
    }

    for (int j = 0; j < Tc; j++) {
        __syncthreads();
        for (int x = tx; x < BC * D; x += NUM_THREADS) {
            int r = x / D, c = x % D;
            Ks[r][c] = K[qkv_offset + (j * BC + r) * D + c];
            Vs[r][c] = V[qkv_offset + (j * BC + r) * D + c];
        }
        __syncthreads();

        // S = Q K^T, each warp has one of the 2x2 tiles
        {
            int wr = (warp / 2) * 16, wc = (warp % 2) * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.f);
            for (int k = 0; k < D; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, &Qs[wr][k], D);
                wmma::load_matrix_sync(k_frag, &Ks[wc][k], D);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            for (int t = 0; t < s_frag.num_elements; t++) s_frag.x[t] *= softmax_scale;
            wmma::store_matrix_sync(&Ss[wr][wc], s_frag, BC, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax, four threads a row
        {
            int r = tx / 4, sub = tx % 4;
            float row_m_prev = m[r];
            float row_m = row_m_prev;
            for (int c = sub; c < BC; c += 4) row_m = fmaxf(row_m, Ss[r][c]);
            row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, 1));
            row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, 2));
            float row_l = 0.f;
            for (int c = sub; c < BC; c += 4) {
                float p = __expf(Ss[r][c] - row_m);
                Ps[r][c] = __float2half(p);
                row_l += p;
            }
            row_l += __shfl_xor_sync(0xffffffff, row_l, 1);
            row_l += __shfl_xor_sync(0xffffffff, row_l, 2);
            float correction = __expf(row_m_prev - row_m);
            for (int c = sub; c < D; c += 4) Os[r][c] *= correction;
            if (sub == 0) {
                l[r] = l[r] * correction + row_l;
                m[r] = row_m;
            }
        }
        __syncthreads();

        // O += P V, each warp has 16 rows and 32 columns
        {
            int wr = (warp / 2) * 16, wc = (warp % 2) * 32;
            for (int n = 0; n < 32; n += 16) {
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
                wmma::load_matrix_sync(o_frag, &Os[wr][wc + n], D, wmma::mem_row_major);
                for (int k = 0; k < BC; k += 16) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                    wmma::load_matrix_sync(p_frag, &Ps[wr][k], BC);
                    wmma::load_matrix_sync(v_frag, &Vs[k][wc + n], D);
                    wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
                }
                wmma::store_matrix_sync(&Os[wr][wc + n], o_frag, D, wmma::mem_row_major);
            }
        }
    }
    __syncthreads();

    for (int x = tx; x < BR * D; x += NUM_THREADS) {
        int r = x / D, c = x % D;
        O[qkv_offset + (i * BR + r) * D + c] = Os[r][c] / l[r];
    }
}

void attention_cpu(const half *Q, const half *K, const half *V, float *O, int BH, int N) {
    float *s = (float *)malloc(N * sizeof(float));
    for (int bh = 0; bh < BH; bh++) {
        for (int i = 0; i < N; i++) {
            float mx = -INFINITY, sum = 0.f;
            for (int j = 0; j < N; j++) {
                float acc = 0.f;
                for (int d = 0; d < D; d++)
                    acc += __half2float(Q[(bh * N + i) * D + d]) * __half2float(K[(bh * N + j) * D + d]);
                s[j] = acc / sqrtf((float)D);
                if (s[j] > mx) mx = s[j];
            }
            for (int j = 0; j < N; j++) {
                s[j] = expf(s[j] - mx);
                sum += s[j];
            }
            for (int d = 0; d < D; d++) {
                float acc = 0.f;
                for (int j = 0; j < N; j++) acc += s[j] / sum * __half2float(V[(bh * N + j) * D + d]);
                O[(bh * N + i) * D + d] = acc;
            }
        }
    }
    free(s);
}

int main() {
    const int batch_size = 2, n_head = 2, seq_len = 128;
    const int total = batch_size * n_head * seq_len * D;
    half *h_Q = (half *)malloc(total * sizeof(half));
    half *h_K = (half *)malloc(total * sizeof(half));
    half *h_V = (half *)malloc(total * sizeof(half));
    float *h_O = (float *)malloc(total * sizeof(float));
    float *h_ref = (float *)malloc(total * sizeof(float));
    for (int i = 0; i < total; i++) {
        h_Q[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
        h_K[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
        h_V[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
    }
    half *d_Q, *d_K, *d_V;
    float *d_O;
    cudaCheck(cudaMalloc((void **)&d_Q, total * sizeof(half)));
    cudaCheck(cudaMalloc((void **)&d_K, total * sizeof(half)));
    cudaCheck(cudaMalloc((void **)&d_V, total * sizeof(half)));
    cudaCheck(cudaMalloc((void **)&d_O, total * sizeof(float)));
    cudaCheck(cudaMemcpy(d_Q, h_Q, total * sizeof(half), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_K, h_K, total * sizeof(half), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_V, h_V, total * sizeof(half), cudaMemcpyHostToDevice));

    const int Tc = seq_len / BC, Tr = seq_len / BR;
    const float softmax_scale = 1.0 / sqrt(D);
    dim3 grid_dim(batch_size, n_head, Tr);
    dim3 block_dim(NUM_THREADS);
    flash_attention_forward_kernel<<<grid_dim, block_dim>>>(d_Q, d_K, d_V, d_O, seq_len, Tc, Tr, softmax_scale);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaDeviceSynchronize());
    cudaCheck(cudaMemcpy(h_O, d_O, total * sizeof(float), cudaMemcpyDeviceToHost));

    attention_cpu(h_Q, h_K, h_V, h_ref, batch_size * n_head, seq_len);
    float max_diff = 0.f;
    for (int i = 0; i < total; i++) max_diff = fmaxf(max_diff, fabsf(h_O[i] - h_ref[i]));
    printf("max diff: %f  %s\n", max_diff, max_diff < 2e-3f ? "OK" : "MISMATCH");
    cudaFree(d_Q); cudaFree(d_K); cudaFree(d_V); cudaFree(d_O);
    free(h_Q); free(h_K); free(h_V); free(h_O); free(h_ref);
    return max_diff < 2e-3f ? 0 : 1;
}
