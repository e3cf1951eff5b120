// Trabalho 4 - Programacao Paralela: Flash Attention com Tensor Cores (WMMA)
//
// O = softmax(Q K^T / sqrt(d)) V      Q, K, V, O: [BH, N, 64] em half, linha a linha
//
// Um bloco de 4 warps por (cabeca, 64 linhas de Q). Cada warp cuida de 16 linhas.
// Compilar: nvcc -O2 -arch=sm_80 trabalho4_flash_attention.cu -o flash
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define D 64          // dimensao da cabeca
#define BR 64         // linhas de Q por bloco
#define BC 32         // linhas de K/V por iteracao
#define LDH (D + 8)   // passo de Q, K, V em smem
#define LDP (BC + 8)  // passo de P em smem

__global__ void flash_attention(const half *Q, const half *K, const half *V, half *O, int N, float escala, int causal) {
    __shared__ __align__(128) half sQ[BR * LDH];
    __shared__ __align__(128) half sK[BC * LDH];
    __shared__ __align__(128) half sV[BC * LDH];
    __shared__ __align__(128) float sS[BR * BC];
    __shared__ __align__(128) half sP[BR * LDP];
    __shared__ __align__(128) float sO[BR * D];

    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    int q0 = blockIdx.x * BR;
    size_t base = (size_t)blockIdx.y * N * D;
    int minha = warp * 16;  // primeira linha do warp dentro do bloco

    // carrega Q (linhas que nao existem viram zero) e zera O
    for (int i = tid; i < BR * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        sQ[r * LDH + c] = (q0 + r < N) ? Q[base + (size_t)(q0 + r) * D + c] : __float2half(0.0f);
        sO[i] = 0.0f;
    }

    // estado do softmax online: uma linha por lane (lanes 0..15)
    float m_i = -INFINITY, l_i = 0.0f;
    int linha_q = q0 + minha + lane;

    int fim = N;
    if (causal && q0 + BR < N) fim = q0 + BR;  // chaves depois do bloco nao sao vistas

    for (int k0 = 0; k0 < fim; k0 += BC) {
        __syncthreads();  // ninguem mais usa K/V da iteracao anterior
        for (int i = tid; i < BC * D; i += blockDim.x) {
            int r = i / D, c = i % D;
            bool existe = k0 + r < N;
            size_t g = base + (size_t)(k0 + r) * D + c;
            sK[r * LDH + c] = existe ? K[g] : __float2half(0.0f);
            sV[r * LDH + c] = existe ? V[g] : __float2half(0.0f);
        }
        __syncthreads();

        // S (16 x 32) = Q (16 x 64) * K^T
        for (int j = 0; j < BC / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.0f);
            for (int k = 0; k < D; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
                wmma::load_matrix_sync(fq, sQ + minha * LDH + k, LDH);
                wmma::load_matrix_sync(fk, sK + j * 16 * LDH + k, LDH);
                wmma::mma_sync(s, fq, fk, s);
            }
            wmma::store_matrix_sync(sS + minha * BC + j * 16, s, BC, wmma::mem_row_major);
        }
        __syncwarp();

        // softmax online: cada lane (0..15) trata a sua linha
        if (lane < 16) {
            float *s = sS + (minha + lane) * BC;
            half *p = sP + (minha + lane) * LDP;
            float *o = sO + (minha + lane) * D;
            float m_novo = m_i;
            for (int c = 0; c < BC; c++) {
                int col = k0 + c;
                bool visivel = col < N && (!causal || col <= linha_q);
                s[c] = visivel ? s[c] * escala : -INFINITY;
                m_novo = fmaxf(m_novo, s[c]);
            }
            float corr = expf(m_i - m_novo);
            float soma = 0.0f;
            for (int c = 0; c < BC; c++) {
                float e = expf(s[c] - m_novo);
                p[c] = __float2half(e);
                soma += e;
            }
            l_i = l_i * corr + soma;
            m_i = m_novo;
            for (int c = 0; c < D; c++) o[c] *= corr;
        }
        __syncwarp();

        // O += P * V
        for (int j = 0; j < D / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(o, sO + minha * D + j * 16, D, wmma::mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
                wmma::load_matrix_sync(fp, sP + minha * LDP + k, LDP);
                wmma::load_matrix_sync(fv, sV + k * LDH + j * 16, LDH);
                wmma::mma_sync(o, fp, fv, o);
            }
            wmma::store_matrix_sync(sO + minha * D + j * 16, o, D, wmma::mem_row_major);
        }
        __syncwarp();
    }

    if (lane < 16 && linha_q < N) {
        for (int c = 0; c < D; c++)
            O[base + (size_t)linha_q * D + c] = __float2half(sO[(minha + lane) * D + c] / l_i);
    }
}

// referencia na CPU, sem truques
static void atencao_cpu(const half *Q, const half *K, const half *V, float *O, int BH, int N, float escala, int causal) {
    float *s = (float *)malloc(N * sizeof(float));
    for (int b = 0; b < BH; b++)
        for (int i = 0; i < N; i++) {
            int fim = causal ? i + 1 : N;
            float mx = -INFINITY, soma = 0.0f;
            for (int j = 0; j < fim; j++) {
                float a = 0.0f;
                for (int c = 0; c < D; c++)
                    a += __half2float(Q[(b * N + i) * D + c]) * __half2float(K[(b * N + j) * D + c]);
                s[j] = a * escala;
                mx = fmaxf(mx, s[j]);
            }
            for (int j = 0; j < fim; j++) {
                s[j] = expf(s[j] - mx);
                soma += s[j];
            }
            for (int c = 0; c < D; c++) {
                float a = 0.0f;
                for (int j = 0; j < fim; j++) a += s[j] * __half2float(V[(b * N + j) * D + c]);
                O[(b * N + i) * D + c] = a / soma;
            }
        }
    free(s);
}

int main() {
    const int BH = 4, N = 200;
    const int total = BH * N * D;
    const float escala = 1.0f / sqrtf((float)D);
    half *h[4], *d[4];
    for (int t = 0; t < 4; t++) {
        h[t] = (half *)malloc(total * sizeof(half));
        cudaMalloc((void **)&d[t], total * sizeof(half));
    }
    srand(7);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < total; i++) h[t][i] = __float2half(2.0f * rand() / RAND_MAX - 1.0f);
        cudaMemcpy(d[t], h[t], total * sizeof(half), cudaMemcpyHostToDevice);
    }
    float *ref = (float *)malloc(total * sizeof(float));
    int falhas = 0;
    for (int causal = 0; causal < 2; causal++) {
        dim3 grade((N + BR - 1) / BR, BH);
        flash_attention<<<grade, 128>>>(d[0], d[1], d[2], d[3], N, escala, causal);
        cudaError_t e = cudaDeviceSynchronize();
        if (e != cudaSuccess) {
            printf("erro: %s\n", cudaGetErrorString(e));
            return 1;
        }
        cudaMemcpy(h[3], d[3], total * sizeof(half), cudaMemcpyDeviceToHost);
        atencao_cpu(h[0], h[1], h[2], ref, BH, N, escala, causal);
        float erro = 0.0f;
        for (int i = 0; i < total; i++) erro = fmaxf(erro, fabsf(__half2float(h[3][i]) - ref[i]));
        printf("causal=%d erro maximo = %g -> %s\n", causal, erro, erro < 5e-3f ? "OK" : "ERRADO");
        if (!(erro < 5e-3f)) falhas++;
    }
    for (int t = 0; t < 4; t++) {
        free(h[t]);
        cudaFree(d[t]);
    }
    free(ref);
    return falhas;
}
