/*
 * 2D-Faltung als implizite GEMM auf den Tensor Cores
 *
 *   y[n][p][q][k] = relu( bias[k] + sum_{r,s,c} x[n][p*stride - pad + r][q*stride - pad + s][c] * w[k][r][s][c] )
 *
 * Eingabe NHWC, Filter KRSC, Ausgabe NHWC (half, Summen in float).
 * Die GEMM hat die Form  M = N*P*Q,  N = K,  K = R*S*C; die im2col-Matrix wird nie
 * gespeichert, sondern beim Laden in den Shared Memory adressiert.
 *
 * Voraussetzung: C ist ein Vielfaches von 8 (16-Byte-Zugriffe). Sonst alles beliebig.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_PRUEFEN(aufruf)                                                                            \
    do {                                                                                                \
        cudaError_t fehler = (aufruf);                                                                  \
        if (fehler != cudaSuccess) {                                                                    \
            fprintf(stderr, "CUDA-Fehler in Zeile %d: %s\n", __LINE__, cudaGetErrorString(fehler));     \
            exit(EXIT_FAILURE);                                                                         \
        }                                                                                               \
    } while (0)

struct ConvParam {
    int n, h, w, c;        // Eingabe
    int k, r, s;           // Filter
    int stride, pad;
    int p, q;              // Ausgabe: Hoehe und Breite

    ConvParam(int n, int h, int w, int c, int k, int r, int s, int stride, int pad)
        : n(n), h(h), w(w), c(c), k(k), r(r), s(s), stride(stride), pad(pad) {
        p = (h + 2 * pad - r) / stride + 1;
        q = (w + 2 * pad - s) / stride + 1;
    }
};

constexpr int KACHEL_M = 64, KACHEL_N = 64, KACHEL_K = 32;
constexpr int SCHRITT = KACHEL_K + 8;          // Zeilenabstand im Shared Memory
constexpr int FADEN = 128;                     // 4 Warps, 2 x 2, je 32 x 32

__global__ void __launch_bounds__(FADEN)
conv2d_implicit_gemm(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
                     half* __restrict__ y, ConvParam prm) {
    using namespace nvcuda;
    __shared__ __align__(32) half sA[KACHEL_M * SCHRITT];
    __shared__ __align__(32) half sB[KACHEL_N * SCHRITT];
    __shared__ __align__(32) float sC[KACHEL_M * KACHEL_N];

    const int gemmM = prm.n * prm.p * prm.q;
    const int gemmK = prm.r * prm.s * prm.c;
    const int m0 = blockIdx.x * KACHEL_M, n0 = blockIdx.y * KACHEL_N;
    const int warp = threadIdx.x / 32;
    const int wm = warp / 2 * 32, wn = warp % 2 * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (auto& zeile : acc)
        for (auto& f : zeile) wmma::fill_fragment(f, 0.f);

    for (int k0 = 0; k0 < gemmK; k0 += KACHEL_K) {
        // im2col-Kachel laden: acht Kanaele auf einmal
        for (int i = threadIdx.x; i < KACHEL_M * KACHEL_K / 8; i += FADEN) {
            int zeile = i / (KACHEL_K / 8), spalte = i % (KACHEL_K / 8) * 8;
            int m = m0 + zeile, kk = k0 + spalte;
            uint4 wert = make_uint4(0, 0, 0, 0);
            if (m < gemmM && kk < gemmK) {
                int bild = m / (prm.p * prm.q);
                int rest = m % (prm.p * prm.q);
                int op = rest / prm.q, oq = rest % prm.q;
                int kanal = kk % prm.c;
                int rs = kk / prm.c;
                int ih = op * prm.stride - prm.pad + rs / prm.s;
                int iw = oq * prm.stride - prm.pad + rs % prm.s;
                if (ih >= 0 && ih < prm.h && iw >= 0 && iw < prm.w)
                    wert = *(const uint4*)(x + (((size_t)bild * prm.h + ih) * prm.w + iw) * prm.c + kanal);
            }
            *(uint4*)(sA + zeile * SCHRITT + spalte) = wert;
        }
        // Filter: Zeile = Ausgabekanal
        for (int i = threadIdx.x; i < KACHEL_N * KACHEL_K / 8; i += FADEN) {
            int zeile = i / (KACHEL_K / 8), spalte = i % (KACHEL_K / 8) * 8;
            uint4 wert = make_uint4(0, 0, 0, 0);
            if (n0 + zeile < prm.k && k0 + spalte < gemmK)
                wert = *(const uint4*)(w + (size_t)(n0 + zeile) * gemmK + k0 + spalte);
            *(uint4*)(sB + zeile * SCHRITT + spalte) = wert;
        }
        __syncthreads();

        for (int kk = 0; kk < KACHEL_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a[i], sA + (wm + i * 16) * SCHRITT + kk, SCHRITT);
                wmma::load_matrix_sync(b[i], sB + (wn + i * 16) * SCHRITT + kk, SCHRITT);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    // Ueber den Shared Memory hinaus, damit Bias und ReLU die Spalte kennen
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(sC + (wm + i * 16) * KACHEL_N + wn + j * 16, acc[i][j], KACHEL_N,
                                    wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < KACHEL_M * KACHEL_N; i += FADEN) {
        int m = m0 + i / KACHEL_N, n = n0 + i % KACHEL_N;
        if (m < gemmM && n < prm.k) y[(size_t)m * prm.k + n] = __float2half(fmaxf(sC[i] + bias[n], 0.f));
    }
}

void faltung(const half* x, const half* w, const float* bias, half* y, const ConvParam& prm, cudaStream_t strom = 0) {
    int gemmM = prm.n * prm.p * prm.q;
    dim3 gitter((gemmM + KACHEL_M - 1) / KACHEL_M, (prm.k + KACHEL_N - 1) / KACHEL_N);
    conv2d_implicit_gemm<<<gitter, FADEN, 0, strom>>>(x, w, bias, y, prm);
    CUDA_PRUEFEN(cudaGetLastError());
}

static float zufall() { return rand() / (float)RAND_MAX * 2.f - 1.f; }

static bool teste(const ConvParam& prm) {
    std::vector<half> x((size_t)prm.n * prm.h * prm.w * prm.c), w((size_t)prm.k * prm.r * prm.s * prm.c);
    std::vector<half> y((size_t)prm.n * prm.p * prm.q * prm.k);
    std::vector<float> bias(prm.k);
    for (auto& v : x) v = __float2half(zufall());
    for (auto& v : w) v = __float2half(zufall() * 0.2f);
    for (auto& v : bias) v = zufall();

    half *dx, *dw, *dy;
    float* db;
    CUDA_PRUEFEN(cudaMalloc(&dx, x.size() * sizeof(half)));
    CUDA_PRUEFEN(cudaMalloc(&dw, w.size() * sizeof(half)));
    CUDA_PRUEFEN(cudaMalloc(&dy, y.size() * sizeof(half)));
    CUDA_PRUEFEN(cudaMalloc(&db, bias.size() * sizeof(float)));
    CUDA_PRUEFEN(cudaMemcpy(dx, x.data(), x.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_PRUEFEN(cudaMemcpy(dw, w.data(), w.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_PRUEFEN(cudaMemcpy(db, bias.data(), bias.size() * sizeof(float), cudaMemcpyHostToDevice));
    faltung(dx, dw, db, dy, prm);
    CUDA_PRUEFEN(cudaMemcpy(y.data(), dy, y.size() * sizeof(half), cudaMemcpyDeviceToHost));

    int falsch = 0;
    for (int n = 0; n < prm.n; n++)
        for (int p = 0; p < prm.p; p++)
            for (int q = 0; q < prm.q; q++)
                for (int k = 0; k < prm.k; k++) {
                    double summe = bias[k];
                    for (int r = 0; r < prm.r; r++)
                        for (int s = 0; s < prm.s; s++) {
                            int ih = p * prm.stride - prm.pad + r, iw = q * prm.stride - prm.pad + s;
                            if (ih < 0 || ih >= prm.h || iw < 0 || iw >= prm.w) continue;
                            for (int c = 0; c < prm.c; c++)
                                summe += (double)__half2float(x[((n * prm.h + ih) * prm.w + iw) * prm.c + c]) *
                                         __half2float(w[((k * prm.r + r) * prm.s + s) * prm.c + c]);
                        }
                    double soll = std::max(summe, 0.0);
                    double ist = __half2float(y[((n * prm.p + p) * prm.q + q) * prm.k + k]);
                    if (!(std::fabs(ist - soll) <= 2e-3 + 2e-3 * soll)) falsch++;
                }
    printf("N%d H%d W%d C%d K%d R%d S%d stride %d pad %d: %s (%d falsch)\n", prm.n, prm.h, prm.w, prm.c, prm.k, prm.r,
           prm.s, prm.stride, prm.pad, falsch ? "FAIL" : "PASS", falsch);
    cudaFree(dx); cudaFree(dw); cudaFree(dy); cudaFree(db);
    return falsch == 0;
}

int main() {
    bool ok = teste(ConvParam(2, 9, 7, 16, 40, 3, 3, 1, 1));
    ok = teste(ConvParam(1, 12, 10, 8, 72, 3, 5, 2, 2)) && ok;
    ok = teste(ConvParam(1, 8, 8, 32, 64, 1, 1, 1, 0)) && ok;
    return ok ? 0 : 1;
}
