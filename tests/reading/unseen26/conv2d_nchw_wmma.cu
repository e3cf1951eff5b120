// Progetto del corso di Architetture Parallele, a.a. 2023/24
// Convoluzione 2D come prodotto di matrici implicito (implicit GEMM) con WMMA
//
//   y[n, m, p, q] = bias[m] + somma su (c, r, s) di
//                   x[n, c, p * passo - pad_h + r * dil, q * passo - pad_w + s * dil] * w[m, c, r, s]
//
// Il prodotto ha queste dimensioni:
//   righe   = filtri              (M)
//   colonne = pixel di uscita     (N * P * Q)
//   somma   = C * R * S           in quest'ordine: c, poi r, poi s, come i pesi in memoria
//
// x e w sono half, y e bias float, tutto in formato NCHW. Nessuna dimensione deve essere multipla di 16.
//
//   nvcc -arch=sm_70 -o conv conv2d_nchw_wmma.cu && ./conv
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace nvcuda;

struct Conv {
    int N, C, H, W;      // ingresso
    int M, R, S;         // filtri
    int passo, dil, pad_h, pad_w;
    int P, Q;            // uscita
};

const int TM = 32;       // filtri per blocco
const int TN = 32;       // pixel per blocco
const int TK = 32;       // passo lungo C * R * S
const int THREADS = 128; // 4 warp, ognuno una tessera 16 x 16

__global__ void conv_wmma(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
                          float* __restrict__ y, Conv cv) {
    __shared__ __align__(32) half sw[TM][TK + 8];    // pesi    [filtro][k]
    __shared__ __align__(32) half sx[TK][TN + 8];    // im2col  [k][pixel]
    __shared__ __align__(32) float sy[TM][TN + 4];

    const int m0 = blockIdx.y * TM;
    const int pix0 = blockIdx.x * TN;
    const int PQ = cv.P * cv.Q;
    const int pixels = cv.N * PQ;
    const int RS = cv.R * cv.S;
    const int CRS = cv.C * RS;

    const int warp = threadIdx.x / 32;
    const int wm = warp / 2 * 16;
    const int wn = warp % 2 * 16;

    // Ogni thread riempie sempre la stessa colonna di sx: le coordinate del pixel si calcolano una volta sola.
    const int col = threadIdx.x % TN;
    const int pix = pix0 + col;
    const bool pixel_valido = pix < pixels;
    const int n = pix / PQ;
    const int p = pix % PQ / cv.Q;
    const int q = pix % PQ % cv.Q;
    const int h0 = p * cv.passo - cv.pad_h;
    const int w0 = q * cv.passo - cv.pad_w;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < CRS; k0 += TK) {
        // pesi: gia' contigui lungo k
        for (int i = threadIdx.x; i < TM * TK; i += THREADS) {
            const int r = i / TK, c = i % TK;
            const bool ok = m0 + r < cv.M && k0 + c < CRS;
            sw[r][c] = ok ? w[(size_t)(m0 + r) * CRS + k0 + c] : __float2half(0.0f);
        }
        // immagine: k -> (c, r, s), zero fuori dai bordi
        for (int kk = threadIdx.x / TN; kk < TK; kk += THREADS / TN) {
            const int k = k0 + kk;
            half v = __float2half(0.0f);
            if (pixel_valido && k < CRS) {
                const int c = k / RS;
                const int r = k % RS / cv.S;
                const int s = k % RS % cv.S;
                const int ih = h0 + r * cv.dil;
                const int iw = w0 + s * cv.dil;
                if (ih >= 0 && ih < cv.H && iw >= 0 && iw < cv.W)
                    v = x[(((size_t)n * cv.C + c) * cv.H + ih) * cv.W + iw];
            }
            sx[kk][col] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < TK; kk += 16) {
            wmma::load_matrix_sync(fa, &sw[wm][kk], TK + 8);
            wmma::load_matrix_sync(fb, &sx[kk][wn], TN + 8);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&sy[wm][wn], acc, TN + 4, wmma::mem_row_major);
    __syncthreads();

    if (pixel_valido) {
        for (int r = threadIdx.x / TN; r < TM; r += THREADS / TN) {
            const int m = m0 + r;
            if (m < cv.M)
                y[((size_t)n * cv.M + m) * PQ + p * cv.Q + q] = sy[r][col] + bias[m];
        }
    }
}

static void conv_cpu(const std::vector<half>& x, const std::vector<half>& w, const std::vector<float>& bias,
                     std::vector<float>& y, const Conv& cv) {
    for (int n = 0; n < cv.N; n++)
        for (int m = 0; m < cv.M; m++)
            for (int p = 0; p < cv.P; p++)
                for (int q = 0; q < cv.Q; q++) {
                    float somma = bias[m];
                    for (int c = 0; c < cv.C; c++)
                        for (int r = 0; r < cv.R; r++)
                            for (int s = 0; s < cv.S; s++) {
                                int ih = p * cv.passo - cv.pad_h + r * cv.dil;
                                int iw = q * cv.passo - cv.pad_w + s * cv.dil;
                                if (ih < 0 || ih >= cv.H || iw < 0 || iw >= cv.W) continue;
                                somma += __half2float(x[(((size_t)n * cv.C + c) * cv.H + ih) * cv.W + iw]) *
                                         __half2float(w[(((size_t)m * cv.C + c) * cv.R + r) * cv.S + s]);
                            }
                    y[(((size_t)n * cv.M + m) * cv.P + p) * cv.Q + q] = somma;
                }
}

int main() {
    Conv cv;
    cv.N = 3; cv.C = 20; cv.H = 30; cv.W = 41;
    cv.M = 72; cv.R = 3; cv.S = 5;
    cv.passo = 2; cv.dil = 2; cv.pad_h = 2; cv.pad_w = 4;
    cv.P = (cv.H + 2 * cv.pad_h - cv.dil * (cv.R - 1) - 1) / cv.passo + 1;
    cv.Q = (cv.W + 2 * cv.pad_w - cv.dil * (cv.S - 1) - 1) / cv.passo + 1;
    printf("uscita: %d x %d x %d x %d\n", cv.N, cv.M, cv.P, cv.Q);

    std::vector<half> x((size_t)cv.N * cv.C * cv.H * cv.W), w((size_t)cv.M * cv.C * cv.R * cv.S);
    std::vector<float> bias(cv.M), y((size_t)cv.N * cv.M * cv.P * cv.Q), ref(y.size());
    srand(1);
    for (auto& v : x) v = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto& v : w) v = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto& v : bias) v = rand() / (float)RAND_MAX;

    half *dx, *dw;
    float *db, *dy;
    cudaMalloc(&dx, x.size() * sizeof(half));
    cudaMalloc(&dw, w.size() * sizeof(half));
    cudaMalloc(&db, bias.size() * sizeof(float));
    cudaMalloc(&dy, y.size() * sizeof(float));
    cudaMemcpy(dx, x.data(), x.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), w.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(db, bias.data(), bias.size() * sizeof(float), cudaMemcpyHostToDevice);

    const int pixels = cv.N * cv.P * cv.Q;
    dim3 griglia((pixels + TN - 1) / TN, (cv.M + TM - 1) / TM);
    conv_wmma<<<griglia, THREADS>>>(dx, dw, db, dy, cv);
    cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) {
        printf("errore: %s\n", cudaGetErrorString(e));
        return 1;
    }
    cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);

    conv_cpu(x, w, bias, ref, cv);
    float err = 0;
    for (size_t i = 0; i < y.size(); i++) err = fmaxf(err, fabsf(y[i] - ref[i]));
    printf("errore massimo: %g -> %s\n", err, err < 1e-3f ? "tutto bene" : "SBAGLIATO");

    cudaFree(dx); cudaFree(dw); cudaFree(db); cudaFree(dy);
    return err < 1e-3f ? 0 : 1;
}
