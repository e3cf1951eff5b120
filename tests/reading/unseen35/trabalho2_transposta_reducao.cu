/* ============================================================================
 * Programação Paralela - Trabalho 2
 *
 * Parte A: transposta de matriz
 *    A.1 versão ingênua
 *    A.2 memória compartilhada com padding (sem conflito de bancos)
 * Parte B: redução (soma) de um vetor
 *    B.1 árvore em memória compartilhada
 *    B.2 __shfl_down_sync + atomicAdd
 * Parte C: soma das linhas e das colunas de uma matriz
 *
 * Compilar:  nvcc -O2 -o trabalho2 trabalho2_transposta_reducao.cu
 * Executar:  ./trabalho2 [linhas colunas]
 * ==========================================================================*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define TILE 32
#define LINHAS_BLOCO 8      /* cada thread copia TILE / LINHAS_BLOCO = 4 elementos */
#define THREADS 256

#define VERIFICA(chamada)                                                     \
    do {                                                                      \
        cudaError_t e = (chamada);                                            \
        if (e != cudaSuccess) {                                               \
            fprintf(stderr, "Erro CUDA (%s, linha %d): %s\n", __FILE__,       \
                    __LINE__, cudaGetErrorString(e));                         \
            exit(EXIT_FAILURE);                                               \
        }                                                                     \
    } while (0)

/* ------------------------------- Parte A -------------------------------- */

/* A.1 - leitura coalescida, escrita com passo "linhas" (lenta) */
__global__ void transposta_ingenua(float *saida, const float *entrada, int linhas, int colunas)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;   /* coluna */
    int y = blockIdx.y * blockDim.y + threadIdx.y;   /* linha  */
    if (x < colunas && y < linhas)
        saida[x * linhas + y] = entrada[y * colunas + x];
}

/* A.2 - bloco de 32 x 8 threads, ladrilho de 32 x 32 */
__global__ void transposta_compartilhada(float *saida, const float *entrada, int linhas, int colunas)
{
    __shared__ float ladrilho[TILE][TILE + 1];   /* +1 evita conflito de bancos */

    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += LINHAS_BLOCO)
        if (x < colunas && y + j < linhas)
            ladrilho[threadIdx.y + j][threadIdx.x] = entrada[(y + j) * colunas + x];

    __syncthreads();

    /* troca o papel dos índices do bloco: agora x percorre as linhas da entrada */
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += LINHAS_BLOCO)
        if (x < linhas && y + j < colunas)
            saida[(y + j) * linhas + x] = ladrilho[threadIdx.x][threadIdx.y + j];
}

/* ------------------------------- Parte B -------------------------------- */

/* B.1 - cada bloco escreve uma soma parcial; o host termina a conta */
__global__ void reducao_arvore(const float *v, float *parcial, int n)
{
    __shared__ float s[THREADS];
    int tid = threadIdx.x;
    int i = blockIdx.x * (2 * THREADS) + tid;

    float soma = 0.0f;
    if (i < n) soma = v[i];
    if (i + THREADS < n) soma += v[i + THREADS];   /* primeira soma já na carga */
    s[tid] = soma;
    __syncthreads();

    for (int passo = THREADS / 2; passo > 0; passo /= 2) {
        if (tid < passo) s[tid] += s[tid + passo];
        __syncthreads();
    }
    if (tid == 0) parcial[blockIdx.x] = s[0];
}

__device__ float soma_warp(float x)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
    return x;
}

/* B.2 - grade fixa (grid-stride loop), resultado com atomicAdd. *total deve começar em 0 */
__global__ void reducao_shuffle(const float *v, float *total, int n)
{
    __shared__ float por_warp[THREADS / 32];
    float soma = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        soma += v[i];

    soma = soma_warp(soma);
    if (threadIdx.x % 32 == 0) por_warp[threadIdx.x / 32] = soma;
    __syncthreads();

    if (threadIdx.x < 32) {
        soma = threadIdx.x < THREADS / 32 ? por_warp[threadIdx.x] : 0.0f;
        soma = soma_warp(soma);
        if (threadIdx.x == 0) atomicAdd(total, soma);
    }
}

/* ------------------------------- Parte C -------------------------------- */

/* um warp por linha; bloco de THREADS threads = 8 linhas */
__global__ void soma_linhas(const float *m, float *res, int linhas, int colunas)
{
    int linha = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (linha >= linhas) return;   /* o warp inteiro sai junto */

    float soma = 0.0f;
    for (int c = lane; c < colunas; c += 32) soma += m[linha * colunas + c];
    soma = soma_warp(soma);
    if (lane == 0) res[linha] = soma;
}

/* uma thread por coluna: os acessos de um warp são vizinhos na memória */
__global__ void soma_colunas(const float *m, float *res, int linhas, int colunas)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= colunas) return;
    float soma = 0.0f;
    for (int l = 0; l < linhas; l++) soma += m[l * colunas + c];
    res[c] = soma;
}

/* ------------------------------------------------------------------------ */

static int teste_transposta(const float *e, const float *s, int linhas, int colunas)
{
    for (int i = 0; i < linhas; i++)
        for (int j = 0; j < colunas; j++)
            if (s[j * linhas + i] != e[i * colunas + j]) return 0;
    return 1;
}

static int perto(double a, double b, double escala)
{
    return fabs(a - b) <= 1e-4 * escala;
}

int main(int argc, char **argv)
{
    int linhas = 1000, colunas = 770;
    if (argc == 3) {
        linhas = atoi(argv[1]);
        colunas = atoi(argv[2]);
    }
    int n = linhas * colunas;
    size_t bytes = n * sizeof(float);
    float *h_m = (float *)malloc(bytes), *h_t = (float *)malloc(bytes);
    for (int i = 0; i < n; i++) h_m[i] = (float)rand() / RAND_MAX;

    float *d_m, *d_t, *d_res;
    int blocos_arvore = (n + 2 * THREADS - 1) / (2 * THREADS);
    int maior = linhas > colunas ? linhas : colunas;
    if (blocos_arvore > maior) maior = blocos_arvore;
    float *h_res = (float *)malloc(maior * sizeof(float));
    VERIFICA(cudaMalloc((void **)&d_m, bytes));
    VERIFICA(cudaMalloc((void **)&d_t, bytes));
    VERIFICA(cudaMalloc((void **)&d_res, maior * sizeof(float)));
    VERIFICA(cudaMemcpy(d_m, h_m, bytes, cudaMemcpyHostToDevice));

    cudaEvent_t ini, fim;
    VERIFICA(cudaEventCreate(&ini));
    VERIFICA(cudaEventCreate(&fim));
    float ms;
    int erros = 0;

    /* Parte A */
    dim3 grade((colunas + TILE - 1) / TILE, (linhas + TILE - 1) / TILE);
    for (int versao = 1; versao <= 2; versao++) {
        VERIFICA(cudaMemset(d_t, 0, bytes));
        VERIFICA(cudaEventRecord(ini));
        if (versao == 1)
            transposta_ingenua<<<grade, dim3(TILE, TILE)>>>(d_t, d_m, linhas, colunas);
        else
            transposta_compartilhada<<<grade, dim3(TILE, LINHAS_BLOCO)>>>(d_t, d_m, linhas, colunas);
        VERIFICA(cudaEventRecord(fim));
        VERIFICA(cudaGetLastError());
        VERIFICA(cudaEventSynchronize(fim));
        VERIFICA(cudaEventElapsedTime(&ms, ini, fim));
        VERIFICA(cudaMemcpy(h_t, d_t, bytes, cudaMemcpyDeviceToHost));
        int ok = teste_transposta(h_m, h_t, linhas, colunas);
        erros += !ok;
        printf("A.%d transposta   %8.4f ms  %7.2f GB/s  %s\n", versao, ms, 2.0 * bytes / ms * 1e-6,
               ok ? "certo" : "ERRADO");
    }

    /* Parte B */
    double ref = 0.0;
    for (int i = 0; i < n; i++) ref += h_m[i];

    reducao_arvore<<<blocos_arvore, THREADS>>>(d_m, d_res, n);
    VERIFICA(cudaGetLastError());
    VERIFICA(cudaMemcpy(h_res, d_res, blocos_arvore * sizeof(float), cudaMemcpyDeviceToHost));
    double soma = 0.0;
    for (int i = 0; i < blocos_arvore; i++) soma += h_res[i];
    erros += !perto(soma, ref, ref);
    printf("B.1 soma = %.4f (referência %.4f)\n", soma, ref);

    VERIFICA(cudaMemset(d_res, 0, sizeof(float)));
    reducao_shuffle<<<128, THREADS>>>(d_m, d_res, n);
    VERIFICA(cudaGetLastError());
    VERIFICA(cudaMemcpy(h_res, d_res, sizeof(float), cudaMemcpyDeviceToHost));
    erros += !perto(h_res[0], ref, ref);
    printf("B.2 soma = %.4f (referência %.4f)\n", h_res[0], ref);

    /* Parte C */
    soma_linhas<<<(linhas + THREADS / 32 - 1) / (THREADS / 32), THREADS>>>(d_m, d_res, linhas, colunas);
    VERIFICA(cudaGetLastError());
    VERIFICA(cudaMemcpy(h_res, d_res, linhas * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < linhas; i++) {
        double r = 0.0;
        for (int j = 0; j < colunas; j++) r += h_m[i * colunas + j];
        if (!perto(h_res[i], r, r)) { erros++; break; }
    }

    soma_colunas<<<(colunas + THREADS - 1) / THREADS, THREADS>>>(d_m, d_res, linhas, colunas);
    VERIFICA(cudaGetLastError());
    VERIFICA(cudaMemcpy(h_res, d_res, colunas * sizeof(float), cudaMemcpyDeviceToHost));
    for (int j = 0; j < colunas; j++) {
        double r = 0.0;
        for (int i = 0; i < linhas; i++) r += h_m[i * colunas + j];
        if (!perto(h_res[j], r, r)) { erros++; break; }
    }

    printf(erros == 0 ? "Todos os testes passaram.\n" : "%d teste(s) falharam!\n", erros);
    VERIFICA(cudaFree(d_m));
    VERIFICA(cudaFree(d_t));
    VERIFICA(cudaFree(d_res));
    free(h_m);
    free(h_t);
    free(h_res);
    return erros != 0;
}
