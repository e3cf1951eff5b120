/*
    Day 37 / 100 days of CUDA
    -------------------------
    Today: normalisation layers.

      1. LayerNorm forward   - one block per row, saves mean and rstd for the backward pass
      2. LayerNorm backward  - dX only (dGamma/dBeta is tomorrow)
      3. RMSNorm + residual  - the Llama flavour, one WARP per row, float4 loads

    What I learned:
      - two __syncthreads() around the broadcast of a block reduction are NOT optional when the
        helper is called twice in a row
      - var = E[(x - mean)^2] instead of E[x^2] - mean^2, the second one bit me with large means
*/
#include <cuda_runtime.h>
#include <iostream>
#include <vector>
#include <cmath>
#include <cstdlib>

#define cudaCheck(x) { cudaError_t err = x; if (err != cudaSuccess) { \
    std::cerr << "CUDA error: " << cudaGetErrorString(err) << " line " << __LINE__ << std::endl; exit(1); } }

#define WARP 32
#define BLOCK 256

__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        val += __shfl_down_sync(0xffffffff, val, offset);
    return val;   // lane 0 has the sum
}

// every thread gets the sum; blockDim.x must be a multiple of 32
__inline__ __device__ float blockReduceSum(float val) {
    __shared__ float partial[32];
    __shared__ float total;
    int lane = threadIdx.x % WARP;
    int wid = threadIdx.x / WARP;

    val = warpReduceSum(val);
    if (lane == 0) partial[wid] = val;
    __syncthreads();

    if (wid == 0) {
        val = (lane < blockDim.x / WARP) ? partial[lane] : 0.0f;
        val = warpReduceSum(val);
        if (lane == 0) total = val;
    }
    __syncthreads();
    float result = total;
    __syncthreads();   // protects partial/total for the next call
    return result;
}

__global__ void layernorm_forward(const float* x, const float* gamma, const float* beta, float* y,
                                  float* mean_out, float* rstd_out, int rows, int cols, float eps) {
    int row = blockIdx.x;
    if (row >= rows) return;
    const float* xr = x + (size_t)row * cols;
    float* yr = y + (size_t)row * cols;

    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += xr[c];
    float mean = blockReduceSum(s) / cols;

    float v = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float d = xr[c] - mean;
        v += d * d;
    }
    float var = blockReduceSum(v) / cols;
    float rstd = rsqrtf(var + eps);

    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        yr[c] = (xr[c] - mean) * rstd * gamma[c] + beta[c];

    if (threadIdx.x == 0) {
        mean_out[row] = mean;
        rstd_out[row] = rstd;
    }
}

// dx = rstd * (dy*gamma - mean(dy*gamma) - xhat * mean(dy*gamma*xhat))
__global__ void layernorm_backward_dx(const float* dy, const float* x, const float* gamma, const float* mean,
                                      const float* rstd, float* dx, int rows, int cols) {
    int row = blockIdx.x;
    if (row >= rows) return;
    const float* dyr = dy + (size_t)row * cols;
    const float* xr = x + (size_t)row * cols;
    float mu = mean[row], rs = rstd[row];

    float s1 = 0.0f, s2 = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float g = dyr[c] * gamma[c];
        float xhat = (xr[c] - mu) * rs;
        s1 += g;
        s2 += g * xhat;
    }
    s1 = blockReduceSum(s1) / cols;
    s2 = blockReduceSum(s2) / cols;

    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float g = dyr[c] * gamma[c];
        float xhat = (xr[c] - mu) * rs;
        dx[(size_t)row * cols + c] = rs * (g - s1 - xhat * s2);
    }
}

// residual += x ; y = residual / rms(residual) * weight
// blockDim = (32, 8): 8 rows per block, cols must be a multiple of 4
__global__ void rmsnorm_residual(const float* x, float* residual, const float* weight, float* y,
                                 int rows, int cols, float eps) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;   // whole warps only

    const float4* x4 = reinterpret_cast<const float4*>(x + (size_t)row * cols);
    float4* r4 = reinterpret_cast<float4*>(residual + (size_t)row * cols);
    const float4* w4 = reinterpret_cast<const float4*>(weight);
    float4* y4 = reinterpret_cast<float4*>(y + (size_t)row * cols);
    int n4 = cols / 4;

    float ss = 0.0f;
    for (int i = threadIdx.x; i < n4; i += WARP) {
        float4 a = x4[i], r = r4[i];
        r.x += a.x; r.y += a.y; r.z += a.z; r.w += a.w;
        r4[i] = r;
        ss += r.x * r.x + r.y * r.y + r.z * r.z + r.w * r.w;
    }
    for (int mask = WARP / 2; mask > 0; mask >>= 1)
        ss += __shfl_xor_sync(0xffffffff, ss, mask);
    float scale = rsqrtf(ss / cols + eps);

    for (int i = threadIdx.x; i < n4; i += WARP) {
        float4 r = r4[i], w = w4[i];   // same thread wrote this element above
        y4[i] = make_float4(r.x * scale * w.x, r.y * scale * w.y, r.z * scale * w.z, r.w * scale * w.w);
    }
}

float randf() { return 2.0f * rand() / RAND_MAX - 1.0f; }

bool compare(const char* name, const std::vector<float>& a, const std::vector<float>& b) {
    float worst = 0.0f;
    for (size_t i = 0; i < a.size(); i++) {
        float e = std::fabs(a[i] - b[i]);
        if (e > worst || std::isnan(e)) worst = e;
    }
    bool ok = worst < 1e-3f;
    std::cout << name << ": max diff " << worst << (ok ? "  OK" : "  WRONG") << std::endl;
    return ok;
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 517;
    int cols = argc > 2 ? atoi(argv[2]) : 1000;   // multiple of 4
    const float eps = 1e-5f;
    size_t n = (size_t)rows * cols;

    std::vector<float> x(n), dy(n), res(n), gamma(cols), beta(cols);
    for (auto& v : x) v = randf() * 2.0f + 3.0f;
    for (auto& v : dy) v = randf();
    for (auto& v : res) v = randf();
    for (auto& v : gamma) v = randf() + 1.0f;
    for (auto& v : beta) v = randf();

    // ---- CPU ----
    std::vector<float> y_ref(n), dx_ref(n), rms_ref(n), res_ref(n);
    for (int r = 0; r < rows; r++) {
        double mu = 0, var = 0, s1 = 0, s2 = 0, ss = 0;
        for (int c = 0; c < cols; c++) mu += x[(size_t)r * cols + c];
        mu /= cols;
        for (int c = 0; c < cols; c++) var += (x[(size_t)r * cols + c] - mu) * (x[(size_t)r * cols + c] - mu);
        double rs = 1.0 / std::sqrt(var / cols + eps);
        for (int c = 0; c < cols; c++) {
            size_t i = (size_t)r * cols + c;
            double xhat = (x[i] - mu) * rs;
            y_ref[i] = xhat * gamma[c] + beta[c];
            s1 += dy[i] * gamma[c];
            s2 += dy[i] * gamma[c] * xhat;
            res_ref[i] = res[i] + x[i];
            ss += (double)res_ref[i] * res_ref[i];
        }
        double rr = 1.0 / std::sqrt(ss / cols + eps);
        for (int c = 0; c < cols; c++) {
            size_t i = (size_t)r * cols + c;
            double xhat = (x[i] - mu) * rs;
            dx_ref[i] = rs * (dy[i] * gamma[c] - s1 / cols - xhat * s2 / cols);
            rms_ref[i] = res_ref[i] * rr * gamma[c];
        }
    }

    // ---- GPU ----
    float *d_x, *d_dy, *d_res, *d_gamma, *d_beta, *d_y, *d_dx, *d_mean, *d_rstd;
    cudaCheck(cudaMalloc((void**)&d_x, n * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_dy, n * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_res, n * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_y, n * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_dx, n * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_gamma, cols * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_beta, cols * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_mean, rows * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_rstd, rows * sizeof(float)));
    cudaCheck(cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_dy, dy.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_res, res.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_gamma, gamma.data(), cols * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_beta, beta.data(), cols * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<float> out(n);
    bool ok = true;

    layernorm_forward<<<rows, BLOCK>>>(d_x, d_gamma, d_beta, d_y, d_mean, d_rstd, rows, cols, eps);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(out.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost));
    ok &= compare("layernorm forward ", out, y_ref);

    layernorm_backward_dx<<<rows, BLOCK>>>(d_dy, d_x, d_gamma, d_mean, d_rstd, d_dx, rows, cols);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(out.data(), d_dx, n * sizeof(float), cudaMemcpyDeviceToHost));
    ok &= compare("layernorm backward", out, dx_ref);

    dim3 block(WARP, 8);
    rmsnorm_residual<<<(rows + 7) / 8, block>>>(d_x, d_res, d_gamma, d_y, rows, cols, eps);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(out.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost));
    ok &= compare("rmsnorm + residual", out, rms_ref);
    cudaCheck(cudaMemcpy(out.data(), d_res, n * sizeof(float), cudaMemcpyDeviceToHost));
    ok &= compare("residual stream   ", out, res_ref);

    cudaFree(d_x); cudaFree(d_dy); cudaFree(d_res); cudaFree(d_y); cudaFree(d_dx);
    cudaFree(d_gamma); cudaFree(d_beta); cudaFree(d_mean); cudaFree(d_rstd);
    return ok ? 0 : 1;
}
