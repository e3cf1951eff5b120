// LayerNorm : проход вперёд и назад.
//
//   y    = (x - mean) * rstd * gamma + beta              x: [rows][cols]
//   dx   = rstd * (dy*gamma - mean(dy*gamma) - xhat * mean(dy*gamma * xhat))
//   dgamma = sum_rows dy * xhat,  dbeta = sum_rows dy
//
// Один блок на строку (вперёд и dx), для dgamma/dbeta - блок 32x8 на 32 столбца.
// Любые rows, cols.

#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define SAFE_CALL(call)                                                          \
{                                                                                \
    cudaError_t err = (call);                                                    \
    if (err != cudaSuccess)                                                      \
    {                                                                            \
        fprintf(stderr, "Ошибка CUDA в %s:%i : %s\n", __FILE__, __LINE__,        \
                cudaGetErrorString(err));                                        \
        exit(1);                                                                 \
    }                                                                            \
}

#define BLOCK 256

// сумма двух величин по блоку; результат получают все потоки
__device__ float2 blockSum2(float2 v)
{
    __shared__ float2 buf[BLOCK / 32];
    const int lane = threadIdx.x & 31;
    const int wid = threadIdx.x >> 5;

    for (int d = 16; d > 0; d >>= 1)
    {
        v.x += __shfl_down_sync(0xffffffffu, v.x, d);
        v.y += __shfl_down_sync(0xffffffffu, v.y, d);
    }
    __syncthreads(); // buf мог ещё читаться предыдущим вызовом
    if (lane == 0)
        buf[wid] = v;
    __syncthreads();

    float2 s = make_float2(0.f, 0.f);
    for (int i = 0; i < BLOCK / 32; i++)
    {
        s.x += buf[i].x;
        s.y += buf[i].y;
    }
    return s;
}

__global__ void layernorm_forward(const float *x, const float *gamma, const float *beta, float *y,
                                  float *mean_out, float *rstd_out, int cols, float eps)
{
    const int row = blockIdx.x;
    const float *xr = x + (size_t)row * cols;
    float *yr = y + (size_t)row * cols;

    // сдвиг на первый элемент строки - меньше потеря точности в E[x^2] - E[x]^2
    const float shift = xr[0];
    float2 s = make_float2(0.f, 0.f);
    for (int i = threadIdx.x; i < cols; i += BLOCK)
    {
        const float t = xr[i] - shift;
        s.x += t;
        s.y += t * t;
    }
    s = blockSum2(s);
    const float m = s.x / cols;
    const float var = fmaxf(s.y / cols - m * m, 0.f);
    const float mean = m + shift;
    const float rstd = rsqrtf(var + eps);

    for (int i = threadIdx.x; i < cols; i += BLOCK)
        yr[i] = (xr[i] - mean) * rstd * gamma[i] + beta[i];

    if (threadIdx.x == 0)
    {
        mean_out[row] = mean;
        rstd_out[row] = rstd;
    }
}

__global__ void layernorm_backward_dx(const float *dy, const float *x, const float *gamma, const float *mean,
                                      const float *rstd, float *dx, int cols)
{
    const int row = blockIdx.x;
    const float mu = mean[row];
    const float rs = rstd[row];
    const float *xr = x + (size_t)row * cols;
    const float *dyr = dy + (size_t)row * cols;
    float *dxr = dx + (size_t)row * cols;

    float2 s = make_float2(0.f, 0.f); // x: sum g, y: sum g * xhat
    for (int i = threadIdx.x; i < cols; i += BLOCK)
    {
        const float g = dyr[i] * gamma[i];
        s.x += g;
        s.y += g * (xr[i] - mu) * rs;
    }
    s = blockSum2(s);
    const float mg = s.x / cols;
    const float mgx = s.y / cols;

    for (int i = threadIdx.x; i < cols; i += BLOCK)
    {
        const float xhat = (xr[i] - mu) * rs;
        dxr[i] = rs * (dyr[i] * gamma[i] - mg - xhat * mgx);
    }
}

__global__ void layernorm_backward_params(const float *dy, const float *x, const float *mean, const float *rstd,
                                          float *dgamma, float *dbeta, int rows, int cols)
{
    __shared__ float sg[8][33];
    __shared__ float sb[8][33];
    const int col = blockIdx.x * 32 + threadIdx.x;

    float dg = 0.f, db = 0.f;
    if (col < cols)
    {
        for (int r = threadIdx.y; r < rows; r += 8)
        {
            const size_t i = (size_t)r * cols + col;
            dg += dy[i] * (x[i] - mean[r]) * rstd[r];
            db += dy[i];
        }
    }
    sg[threadIdx.y][threadIdx.x] = dg;
    sb[threadIdx.y][threadIdx.x] = db;
    __syncthreads();

    for (int h = 4; h > 0; h >>= 1)
    {
        if (threadIdx.y < h)
        {
            sg[threadIdx.y][threadIdx.x] += sg[threadIdx.y + h][threadIdx.x];
            sb[threadIdx.y][threadIdx.x] += sb[threadIdx.y + h][threadIdx.x];
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && col < cols)
    {
        dgamma[col] = sg[0][threadIdx.x];
        dbeta[col] = sb[0][threadIdx.x];
    }
}

static float frand() { return 2.f * rand() / RAND_MAX - 1.f; }

static float maxdiff(const float *a, const double *b, int n)
{
    double d = 0;
    for (int i = 0; i < n; i++)
        d = fmax(d, fabs(a[i] - b[i]));
    return (float)d;
}

int main(int argc, char **argv)
{
    const int rows = argc > 1 ? atoi(argv[1]) : 301;
    const int cols = argc > 2 ? atoi(argv[2]) : 777;
    const int n = rows * cols;
    const float eps = 1e-5f;

    float *x, *dy, *y, *dx, *gamma, *beta, *dgamma, *dbeta, *mean, *rstd;
    SAFE_CALL(cudaMallocManaged(&x, n * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&dy, n * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&y, n * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&dx, n * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&gamma, cols * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&beta, cols * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&dgamma, cols * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&dbeta, cols * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&mean, rows * sizeof(float)));
    SAFE_CALL(cudaMallocManaged(&rstd, rows * sizeof(float)));
    for (int i = 0; i < n; i++)
    {
        x[i] = 3.f + frand();
        dy[i] = frand();
    }
    for (int i = 0; i < cols; i++)
    {
        gamma[i] = 1.f + 0.2f * frand();
        beta[i] = frand();
    }

    layernorm_forward<<<rows, BLOCK>>>(x, gamma, beta, y, mean, rstd, cols, eps);
    layernorm_backward_dx<<<rows, BLOCK>>>(dy, x, gamma, mean, rstd, dx, cols);
    layernorm_backward_params<<<(cols + 31) / 32, dim3(32, 8)>>>(dy, x, mean, rstd, dgamma, dbeta, rows, cols);
    SAFE_CALL(cudaGetLastError());
    SAFE_CALL(cudaDeviceSynchronize());

    // проверка на CPU в двойной точности
    double *ry = new double[n], *rdx = new double[n];
    double *rdg = new double[cols](), *rdb = new double[cols]();
    for (int r = 0; r < rows; r++)
    {
        const float *xr = x + r * cols, *dr = dy + r * cols;
        double mu = 0, var = 0, mg = 0, mgx = 0;
        for (int i = 0; i < cols; i++) mu += xr[i];
        mu /= cols;
        for (int i = 0; i < cols; i++) var += (xr[i] - mu) * (xr[i] - mu);
        const double rs = 1. / sqrt(var / cols + eps);
        for (int i = 0; i < cols; i++)
        {
            const double xh = (xr[i] - mu) * rs;
            ry[r * cols + i] = xh * gamma[i] + beta[i];
            mg += dr[i] * gamma[i] / cols;
            mgx += dr[i] * gamma[i] * xh / cols;
            rdg[i] += dr[i] * xh;
            rdb[i] += dr[i];
        }
        for (int i = 0; i < cols; i++)
            rdx[r * cols + i] = rs * (dr[i] * gamma[i] - mg - (xr[i] - mu) * rs * mgx);
    }
    printf("y %g  dx %g  dgamma %g  dbeta %g\n", maxdiff(y, ry, n), maxdiff(dx, rdx, n),
           maxdiff(dgamma, rdg, cols), maxdiff(dbeta, rdb, cols));
    delete[] ry; delete[] rdx; delete[] rdg; delete[] rdb;
    cudaFree(x); cudaFree(dy); cudaFree(y); cudaFree(dx); cudaFree(gamma);
    cudaFree(beta); cudaFree(dgamma); cudaFree(dbeta); cudaFree(mean); cudaFree(rstd);
    return 0;
}
