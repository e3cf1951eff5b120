// Convolution 2D (NCHW) comme un GEMM implicite avec WMMA.
//
//   y[n][k][p][q] = ReLU( bias[k] + somme_{c,r,s} w[k][c][r][s] * x[n][c][p*stride - pad + r][q*stride - pad + s] )
//
//   M = K (filtres), N = P*Q (pixels de sortie d'une image), profondeur = C*R*S
//   aucune contrainte de taille : tout ce qui dépasse est mis à zéro dans la mémoire partagée
//
// nvcc -O3 -arch=sm_75 conv2d_wmma_nchw.cu -o conv2d
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define LDA (TILE_K + 8)
#define LDB (TILE_N + 8)
#define LDC (TILE_N + 4)
#define THREADS 128

struct ConvParams {
    int N, C, H, W;      // entrée
    int K, R, S;         // filtres
    int P, Q;            // sortie
    int stride, pad;
};

#define cudaSafe(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        exit(code);
    }
}

__global__ void conv2dImplicitGemm(const half *__restrict__ x, const half *__restrict__ w,
                                   const float *__restrict__ bias, half *__restrict__ y, ConvParams prm)
{
    __shared__ __align__(32) half sA[TILE_M * LDA];
    __shared__ __align__(32) half sB[TILE_K * LDB];
    __shared__ __align__(32) float sC[TILE_M * LDC];

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int warpM = (warp >> 1) * 32;
    const int warpN = (warp & 1) * 32;

    const int k0 = blockIdx.y * TILE_M;      // premier filtre du bloc
    const int pix0 = blockIdx.x * TILE_N;    // premier pixel du bloc
    const int img = blockIdx.z;

    const int PQ = prm.P * prm.Q;
    const int RS = prm.R * prm.S;
    const int CRS = prm.C * RS;
    const half *xi = x + (size_t)img * prm.C * prm.H * prm.W;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            fill_fragment(acc[i][j], 0.0f);

    for (int kk = 0; kk < CRS; kk += TILE_K) {
        // filtres : [K][CRS], déjà une matrice
        for (int i = tid; i < TILE_M * TILE_K; i += THREADS) {
            const int r = i / TILE_K, c = i % TILE_K;
            half v = __float2half(0.f);
            if (k0 + r < prm.K && kk + c < CRS)
                v = w[(size_t)(k0 + r) * CRS + kk + c];
            sA[r * LDA + c] = v;
        }
        // im2col à la volée
        for (int i = tid; i < TILE_K * TILE_N; i += THREADS) {
            const int r = i / TILE_N, c = i % TILE_N;
            const int crs = kk + r;
            const int pix = pix0 + c;
            half v = __float2half(0.f);
            if (crs < CRS && pix < PQ) {
                const int ch = crs / RS;
                const int fr = (crs % RS) / prm.S;
                const int fs = crs % prm.S;
                const int h = (pix / prm.Q) * prm.stride - prm.pad + fr;
                const int ww = (pix % prm.Q) * prm.stride - prm.pad + fs;
                if (h >= 0 && h < prm.H && ww >= 0 && ww < prm.W)
                    v = xi[((size_t)ch * prm.H + h) * prm.W + ww];
            }
            sB[r * LDB + c] = v;
        }
        __syncthreads();

        fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
        fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
        for (int i = 0; i < 2; i++) {
            load_matrix_sync(a[i], &sA[(warpM + i * 16) * LDA], LDA);
            load_matrix_sync(b[i], &sB[warpN + i * 16], LDB);
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(&sC[(warpM + i * 16) * LDC + warpN + j * 16], acc[i][j], LDC, mem_row_major);
    __syncthreads();

    for (int i = tid; i < TILE_M * TILE_N; i += THREADS) {
        const int r = i / TILE_N, c = i % TILE_N;
        if (k0 + r < prm.K && pix0 + c < PQ) {
            const float v = sC[r * LDC + c] + bias[k0 + r];
            y[((size_t)img * prm.K + k0 + r) * PQ + pix0 + c] = __float2half(fmaxf(v, 0.f));
        }
    }
}

void conv2d(const half *x, const half *w, const float *bias, half *y, const ConvParams &p)
{
    dim3 grid((p.P * p.Q + TILE_N - 1) / TILE_N, (p.K + TILE_M - 1) / TILE_M, p.N);
    conv2dImplicitGemm<<<grid, THREADS>>>(x, w, bias, y, p);
    cudaSafe(cudaGetLastError());
}

int main()
{
    ConvParams p;
    p.N = 2; p.C = 19; p.H = 30; p.W = 27;
    p.K = 72; p.R = 3; p.S = 3;
    p.stride = 2; p.pad = 1;
    p.P = (p.H + 2 * p.pad - p.R) / p.stride + 1;
    p.Q = (p.W + 2 * p.pad - p.S) / p.stride + 1;

    const size_t nx = (size_t)p.N * p.C * p.H * p.W, nw = (size_t)p.K * p.C * p.R * p.S;
    const size_t ny = (size_t)p.N * p.K * p.P * p.Q;
    half *hx = (half *)malloc(nx * sizeof(half)), *hw = (half *)malloc(nw * sizeof(half));
    half *hy = (half *)malloc(ny * sizeof(half));
    float *hb = (float *)malloc(p.K * sizeof(float));
    for (size_t i = 0; i < nx; i++) hx[i] = __float2half((float)rand() / RAND_MAX - 0.5f);
    for (size_t i = 0; i < nw; i++) hw[i] = __float2half((float)rand() / RAND_MAX - 0.5f);
    for (int i = 0; i < p.K; i++) hb[i] = (float)rand() / RAND_MAX - 0.5f;

    half *dx, *dw, *dy;
    float *db;
    cudaSafe(cudaMalloc((void **)&dx, nx * sizeof(half)));
    cudaSafe(cudaMalloc((void **)&dw, nw * sizeof(half)));
    cudaSafe(cudaMalloc((void **)&dy, ny * sizeof(half)));
    cudaSafe(cudaMalloc((void **)&db, p.K * sizeof(float)));
    cudaSafe(cudaMemcpy(dx, hx, nx * sizeof(half), cudaMemcpyHostToDevice));
    cudaSafe(cudaMemcpy(dw, hw, nw * sizeof(half), cudaMemcpyHostToDevice));
    cudaSafe(cudaMemcpy(db, hb, p.K * sizeof(float), cudaMemcpyHostToDevice));
    conv2d(dx, dw, db, dy, p);
    cudaSafe(cudaMemcpy(hy, dy, ny * sizeof(half), cudaMemcpyDeviceToHost));

    // vérification directe
    float maxErr = 0.f;
    for (int n = 0; n < p.N; n++)
        for (int k = 0; k < p.K; k++)
            for (int oy = 0; oy < p.P; oy++)
                for (int ox = 0; ox < p.Q; ox++) {
                    float s = hb[k];
                    for (int c = 0; c < p.C; c++)
                        for (int r = 0; r < p.R; r++)
                            for (int t = 0; t < p.S; t++) {
                                int h = oy * p.stride - p.pad + r, w2 = ox * p.stride - p.pad + t;
                                if (h < 0 || h >= p.H || w2 < 0 || w2 >= p.W) continue;
                                s += __half2float(hw[((k * p.C + c) * p.R + r) * p.S + t]) *
                                     __half2float(hx[((n * p.C + c) * p.H + h) * p.W + w2]);
                            }
                    s = s > 0 ? s : 0;
                    float e = fabsf(s - __half2float(hy[((n * p.K + k) * p.P + oy) * p.Q + ox]));
                    if (e > maxErr) maxErr = e;
                }
    printf("erreur max = %f  %s\n", maxErr, maxErr < 1e-2f ? "OK" : "ERREUR");

    cudaFree(dx); cudaFree(dw); cudaFree(dy); cudaFree(db);
    free(hx); free(hw); free(hy); free(hb);
    return 0;
}
