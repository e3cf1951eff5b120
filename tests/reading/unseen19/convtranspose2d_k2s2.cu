// U-Net "up" layer: ConvTranspose2d(Cin, Cout, kernel_size=2, stride=2) + ReLU on tensor cores.
// With kernel == stride no two outputs overlap, so each of the four taps is a GEMM whose rows are scattered.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

using namespace nvcuda::wmma;

#define TILE_P 64   // input pixels
#define TILE_C 64   // output channels
#define TILE_K 32
#define SKEW 8
#define THREADS 256

// x [N, H, W, Cin], wt [Cin, Cout, 2, 2] (as torch has it), bias [Cout], y [N, 2H, 2W, Cout]
__global__ void upconv2x2_relu(const half *x, const half *wt, const float *bias, half *y, int N, int H, int W,
                               int Cin, int Cout)
{
    __shared__ __align__(32) half xs[TILE_P][TILE_K + SKEW];
    __shared__ __align__(32) half ws[TILE_K][TILE_C + SKEW];
    __shared__ __align__(32) float ys[TILE_P][TILE_C + 8];

    const int npix = N * H * W;
    const int p0 = blockIdx.x * TILE_P;
    const int c0 = blockIdx.y * TILE_C;
    const int kh = blockIdx.z >> 1, kw = blockIdx.z & 1;
    const int wid = threadIdx.x >> 5;
    const int wp = (wid & 3) * 16;      // 4 warps along the pixels,
    const int wc = (wid >> 2) * 32;     // 2 along the channels

    fragment<accumulator, 16, 16, 16, float> acc[2];
    fill_fragment(acc[0], 0.0f);
    fill_fragment(acc[1], 0.0f);

    for (int k0 = 0; k0 < Cin; k0 += TILE_K) {
        for (int i = threadIdx.x; i < TILE_P * TILE_K; i += THREADS) {
            int r = i / TILE_K, k = i % TILE_K;
            half v = __float2half(0.0f);
            if (p0 + r < npix && k0 + k < Cin)
                v = x[(size_t)(p0 + r) * Cin + k0 + k];
            xs[r][k] = v;
        }
        for (int i = threadIdx.x; i < TILE_K * TILE_C; i += THREADS) {
            int k = i / TILE_C, c = i % TILE_C;
            half v = __float2half(0.0f);
            if (k0 + k < Cin && c0 + c < Cout)
                v = wt[((size_t)(k0 + k) * Cout + c0 + c) * 4 + kh * 2 + kw];
            ws[k][c] = v;
        }
        __syncthreads();

        for (int k = 0; k < TILE_K; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            load_matrix_sync(a, &xs[wp][k], TILE_K + SKEW);
            for (int j = 0; j < 2; j++) {
                fragment<matrix_b, 16, 16, 16, half, row_major> b;
                load_matrix_sync(b, &ws[k][wc + j * 16], TILE_C + SKEW);
                mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    store_matrix_sync(&ys[wp][wc], acc[0], TILE_C + 8, mem_row_major);
    store_matrix_sync(&ys[wp][wc + 16], acc[1], TILE_C + 8, mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE_P * TILE_C; i += THREADS) {
        int r = i / TILE_C, c = i % TILE_C;
        int p = p0 + r, co = c0 + c;
        if (p >= npix || co >= Cout)
            continue;
        int w = p % W, h = p / W % H, n = p / (W * H);
        float v = ys[r][c] + bias[co];
        v = v > 0.0f ? v : 0.0f;
        size_t o = (((size_t)n * 2 * H + 2 * h + kh) * 2 * W + 2 * w + kw) * Cout + co;
        y[o] = __float2half(v);
    }
}

static void reference(const half *x, const half *wt, const float *bias, float *y, int N, int H, int W, int Cin,
                      int Cout)
{
    for (int n = 0; n < N; n++)
        for (int oh = 0; oh < 2 * H; oh++)
            for (int ow = 0; ow < 2 * W; ow++)
                for (int co = 0; co < Cout; co++) {
                    double s = bias[co];
                    const half *px = x + (((size_t)n * H + oh / 2) * W + ow / 2) * Cin;
                    for (int ci = 0; ci < Cin; ci++)
                        s += (double)__half2float(px[ci]) *
                             __half2float(wt[(((size_t)ci * Cout + co) * 2 + oh % 2) * 2 + ow % 2]);
                    y[(((size_t)n * 2 * H + oh) * 2 * W + ow) * Cout + co] = s > 0 ? (float)s : 0.0f;
                }
}

static float frand() { return rand() / (float)RAND_MAX * 2.0f - 1.0f; }

int main()
{
    const int N = 2, H = 9, W = 7, Cin = 72, Cout = 40;
    const size_t nx = (size_t)N * H * W * Cin, nw = (size_t)Cin * Cout * 4, ny = (size_t)N * 4 * H * W * Cout;

    half *hx = (half *)malloc(nx * sizeof(half)), *hw = (half *)malloc(nw * sizeof(half));
    half *hy = (half *)malloc(ny * sizeof(half));
    float *hb = (float *)malloc(Cout * sizeof(float)), *ref = (float *)malloc(ny * sizeof(float));
    srand(1);
    for (size_t i = 0; i < nx; i++) hx[i] = __float2half(frand());
    for (size_t i = 0; i < nw; i++) hw[i] = __float2half(frand() * 0.25f);
    for (int i = 0; i < Cout; i++) hb[i] = frand();

    half *dx, *dw, *dy;
    float *db;
    cudaMalloc((void **)&dx, nx * sizeof(half));
    cudaMalloc((void **)&dw, nw * sizeof(half));
    cudaMalloc((void **)&dy, ny * sizeof(half));
    cudaMalloc((void **)&db, Cout * sizeof(float));
    cudaMemcpy(dx, hx, nx * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dw, hw, nw * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(db, hb, Cout * sizeof(float), cudaMemcpyHostToDevice);

    dim3 grid((N * H * W + TILE_P - 1) / TILE_P, (Cout + TILE_C - 1) / TILE_C, 4);
    cudaEvent_t t0, t1;
    cudaEventCreate(&t0);
    cudaEventCreate(&t1);
    cudaEventRecord(t0);
    upconv2x2_relu<<<grid, THREADS>>>(dx, dw, db, dy, N, H, W, Cin, Cout);
    cudaEventRecord(t1);
    cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) {
        printf("kernel failed: %s\n", cudaGetErrorString(e));
        return 1;
    }
    float ms = 0.0f;
    cudaEventElapsedTime(&ms, t0, t1);
    cudaMemcpy(hy, dy, ny * sizeof(half), cudaMemcpyDeviceToHost);

    reference(hx, hw, hb, ref, N, H, W, Cin, Cout);
    double worst = 0.0;
    size_t bad = 0;
    for (size_t i = 0; i < ny; i++) {
        double d = fabs(__half2float(hy[i]) - ref[i]);
        if (d > worst) worst = d;
        if (d > 1e-2 + 2e-3 * fabs(ref[i])) bad++;
    }
    printf("%.3f ms, max difference %.5f, %zu of %zu wrong\n", ms, worst, bad, ny);
    printf(bad ? "TEST FAILED\n" : "TEST PASSED\n");

    cudaEventDestroy(t0);
    cudaEventDestroy(t1);
    cudaFree(dx);
    cudaFree(dw);
    cudaFree(dy);
    cudaFree(db);
    free(hx);
    free(hw);
    free(hy);
    free(hb);
    free(ref);
    return bad ? 1 : 0;
}
