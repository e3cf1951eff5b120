// Лабораторная работа №5: свёртка на тензорных ядрах (implicit GEMM, WMMA)
//
// Вход   x : [N, C, H, W]    half  (NCHW)
// Фильтр w : [F, C, R, S]    half
// Смещение b : [F]           float
// Выход  y : [N, F, P, Q]    float, после ReLU
//
// Свёртка сводится к умножению матриц
//      Y[F x (N*P*Q)] = W[F x (C*R*S)] * X[(C*R*S) x (N*P*Q)],
// матрица X (im2col) в памяти не строится, её элементы вычисляются при загрузке в shared memory.
// Размеры могут быть любыми: всё, что выходит за границы, заполняется нулями.
//
// Сборка: nvcc -O2 -arch=sm_75 conv2d_wmma_implicit_gemm.cu -o conv && ./conv

#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CSC(call)                                                                     \
do {                                                                                  \
    cudaError_t res = (call);                                                         \
    if (res != cudaSuccess) {                                                         \
        fprintf(stderr, "ERROR in %s:%d. Message: %s\n",                              \
                __FILE__, __LINE__, cudaGetErrorString(res));                         \
        exit(0);                                                                      \
    }                                                                                 \
} while (0)

struct ConvParams {
    int N, C, H, W;       // вход
    int F, R, S;          // фильтры
    int pad, stride, dil;
    int P, Q;             // выход
};

static ConvParams make_params(int N, int C, int H, int W, int F, int R, int S, int pad, int stride, int dil) {
    ConvParams p = {N, C, H, W, F, R, S, pad, stride, dil, 0, 0};
    p.P = (H + 2 * pad - dil * (R - 1) - 1) / stride + 1;
    p.Q = (W + 2 * pad - dil * (S - 1) - 1) / stride + 1;
    return p;
}

const int TILE_M = 64;    // фильтры
const int TILE_N = 64;    // пиксели выхода
const int TILE_K = 32;    // кусок C*R*S
const int THREADS = 128;  // 4 варпа, 2 x 2, каждый считает 32 x 32
const int LDA = TILE_K + 8;
const int LDB = TILE_N + 8;
const int LDC = TILE_N + 4;

__global__ void conv2d_wmma(const half *x, const half *w, const float *bias, float *y, ConvParams p) {
    __shared__ __align__(32) half sA[TILE_M * LDA];
    __shared__ __align__(32) half sB[TILE_K * LDB];
    __shared__ __align__(32) float sC[TILE_M * LDC];

    const int M = p.F;
    const int NPQ = p.N * p.P * p.Q;
    const int K = p.C * p.R * p.S;

    const int m0 = blockIdx.y * TILE_M;
    const int n0 = blockIdx.x * TILE_N;
    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wm = (warp / 2) * 32;
    const int wn = (warp % 2) * 32;

    // Каждая нить загружает всегда один и тот же столбец матрицы X, т.е. один выходной пиксель;
    // координаты пикселя считаем один раз
    const int colB = tid % TILE_N;
    const int n = n0 + colB;
    const bool pixel = n < NPQ;
    const int img = pixel ? n / (p.P * p.Q) : 0;
    const int rest = pixel ? n % (p.P * p.Q) : 0;
    const int h0 = rest / p.Q * p.stride - p.pad;
    const int w0 = rest % p.Q * p.stride - p.pad;
    const half *xi = x + (size_t)img * p.C * p.H * p.W;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        // фильтры: 64 x 32
        for (int i = tid; i < TILE_M * TILE_K; i += THREADS) {
            int r = i / TILE_K, c = i % TILE_K;
            half v = __float2half(0.0f);
            if (m0 + r < M && k0 + c < K)
                v = w[(size_t)(m0 + r) * K + k0 + c];
            sA[r * LDA + c] = v;
        }
        // вход: 32 x 64, за один проход две строки
        for (int r = tid / TILE_N; r < TILE_K; r += THREADS / TILE_N) {
            int k = k0 + r;
            half v = __float2half(0.0f);
            if (pixel && k < K) {
                int c = k / (p.R * p.S);
                int rs = k % (p.R * p.S);
                int h = h0 + rs / p.S * p.dil;
                int q = w0 + rs % p.S * p.dil;
                if (h >= 0 && h < p.H && q >= 0 && q < p.W)
                    v = xi[((size_t)c * p.H + h) * p.W + q];
            }
            sB[r * LDB + colB] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(fa[i], sA + (wm + 16 * i) * LDA + kk, LDA);
                wmma::load_matrix_sync(fb[i], sB + kk * LDB + wn + 16 * i, LDB);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(sC + (wm + 16 * i) * LDC + wn + 16 * j, acc[i][j], LDC, wmma::mem_row_major);
    __syncthreads();

    // запись результата: смещение, ReLU, перестановка [F, N, P, Q] -> [N, F, P, Q]
    if (pixel) {
        for (int r = tid / TILE_N; r < TILE_M; r += THREADS / TILE_N) {
            int f = m0 + r;
            if (f >= M) break;
            float v = sC[r * LDC + colB] + bias[f];
            y[((size_t)img * M + f) * p.P * p.Q + rest] = v > 0.0f ? v : 0.0f;
        }
    }
}

// Проверка на процессоре
static void conv2d_cpu(const std::vector<float> &x, const std::vector<float> &w, const std::vector<float> &b,
                       std::vector<float> &y, const ConvParams &p) {
    for (int n = 0; n < p.N; n++)
        for (int f = 0; f < p.F; f++)
            for (int i = 0; i < p.P; i++)
                for (int j = 0; j < p.Q; j++) {
                    double s = b[f];
                    for (int c = 0; c < p.C; c++)
                        for (int r = 0; r < p.R; r++)
                            for (int q = 0; q < p.S; q++) {
                                int h = i * p.stride - p.pad + r * p.dil;
                                int v = j * p.stride - p.pad + q * p.dil;
                                if (h < 0 || h >= p.H || v < 0 || v >= p.W) continue;
                                s += x[((size_t)(n * p.C + c) * p.H + h) * p.W + v] *
                                     w[((size_t)(f * p.C + c) * p.R + r) * p.S + q];
                            }
                    y[((size_t)(n * p.F + f) * p.P + i) * p.Q + j] = s > 0 ? (float)s : 0.0f;
                }
}

static bool run(const ConvParams &p) {
    size_t nx = (size_t)p.N * p.C * p.H * p.W;
    size_t nw = (size_t)p.F * p.C * p.R * p.S;
    size_t ny = (size_t)p.N * p.F * p.P * p.Q;
    std::vector<float> x(nx), w(nw), b(p.F), ref(ny), y(ny);
    std::vector<half> hx(nx), hw(nw);
    for (size_t i = 0; i < nx; i++) { hx[i] = __float2half(rand() / (float)RAND_MAX - 0.5f); x[i] = __half2float(hx[i]); }
    for (size_t i = 0; i < nw; i++) { hw[i] = __float2half(rand() / (float)RAND_MAX - 0.5f); w[i] = __half2float(hw[i]); }
    for (int i = 0; i < p.F; i++) b[i] = rand() / (float)RAND_MAX - 0.5f;

    half *dx, *dw;
    float *db, *dy;
    CSC(cudaMalloc(&dx, nx * sizeof(half)));
    CSC(cudaMalloc(&dw, nw * sizeof(half)));
    CSC(cudaMalloc(&db, p.F * sizeof(float)));
    CSC(cudaMalloc(&dy, ny * sizeof(float)));
    CSC(cudaMemcpy(dx, hx.data(), nx * sizeof(half), cudaMemcpyHostToDevice));
    CSC(cudaMemcpy(dw, hw.data(), nw * sizeof(half), cudaMemcpyHostToDevice));
    CSC(cudaMemcpy(db, b.data(), p.F * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    CSC(cudaEventCreate(&start));
    CSC(cudaEventCreate(&stop));
    dim3 grid((p.N * p.P * p.Q + TILE_N - 1) / TILE_N, (p.F + TILE_M - 1) / TILE_M);
    CSC(cudaEventRecord(start));
    conv2d_wmma<<<grid, THREADS>>>(dx, dw, db, dy, p);
    CSC(cudaGetLastError());
    CSC(cudaEventRecord(stop));
    CSC(cudaEventSynchronize(stop));
    float t;
    CSC(cudaEventElapsedTime(&t, start, stop));
    CSC(cudaMemcpy(y.data(), dy, ny * sizeof(float), cudaMemcpyDeviceToHost));

    conv2d_cpu(x, w, b, ref, p);
    double maxerr = 0;
    for (size_t i = 0; i < ny; i++) {
        double e = fabs(y[i] - ref[i]);
        if (!(e <= maxerr)) maxerr = e;
    }
    bool ok = maxerr < 1e-2;
    printf("N=%d C=%d %dx%d F=%d %dx%d pad=%d stride=%d dil=%d -> %dx%d: %.3f ms, ошибка %.2e %s\n", p.N, p.C, p.H, p.W,
           p.F, p.R, p.S, p.pad, p.stride, p.dil, p.P, p.Q, t, maxerr, ok ? "OK" : "ОШИБКА");

    CSC(cudaEventDestroy(start));
    CSC(cudaEventDestroy(stop));
    CSC(cudaFree(dx));
    CSC(cudaFree(dw));
    CSC(cudaFree(db));
    CSC(cudaFree(dy));
    return ok;
}

int main() {
    bool ok = true;
    ok &= run(make_params(2, 16, 28, 28, 64, 3, 3, 1, 1, 1));
    ok &= run(make_params(1, 3, 32, 32, 24, 7, 7, 3, 2, 1));    // первый слой ResNet
    ok &= run(make_params(4, 64, 14, 14, 96, 1, 1, 0, 1, 1));
    ok &= run(make_params(1, 5, 17, 23, 70, 3, 5, 2, 1, 2));
    return ok ? 0 : 1;
}
