// tinyllama.cu - my llama inference from scratch, step 6
//
// prefill was 90% FFN so here is the first half of it in one kernel:
//
//    h = rmsnorm(x) * gamma
//    out = silu(h @ w1^T) * (h @ w3^T)
//
// x [n_tokens, dim], w1 / w3 [hidden_dim, dim] like in the checkpoint, out [n_tokens, hidden_dim]
// all fp16, fp32 accumulate
//
// TODO: w2 + residual
// TODO: try cp.async
#include <iostream>
#include <vector>
#include <random>
#include <cmath>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

struct Config {
    int dim        = 512;
    int hidden_dim = 1376;
    float norm_eps = 1e-5f;
};

#define TOK 32     // tokens per block
#define HID 32     // hidden units per block
#define KSTEP 64
#define LD (KSTEP + 8)

#define cudaOk(x) { cudaError_t e = (x); if (e != cudaSuccess) { std::cerr << cudaGetErrorString(e) << " line " << __LINE__ << std::endl; std::exit(1); } }

__device__ inline float warp_sum(float v) {
    for (int off = 16; off > 0; off /= 2)
        v += __shfl_xor_sync(0xffffffff, v, off);
    return v;
}

__device__ inline float silu(float v) { return v / (1.0f + expf(-v)); }

// grid (hidden_dim / 32, ceil(n_tokens / 32)), 128 threads. Each warp one 16x16 tile of both products
__global__ void ffn_gate_up_kernel(half* out, const half* x, const half* gamma, const half* w1, const half* w3,
                                   int n_tokens, int dim, int hidden_dim, float eps) {
    __shared__ float inv_rms[TOK];
    __shared__ __align__(32) half h[TOK * LD];
    __shared__ __align__(32) half g[HID * LD];
    __shared__ __align__(32) half u[HID * LD];
    __shared__ __align__(32) float res[2][TOK][HID + 4];

    int tid = threadIdx.x;
    int warp = tid / 32, lane = tid % 32;
    int tok0 = blockIdx.y * TOK;
    int hid0 = blockIdx.x * HID;

    // 1. rms of the 32 rows, 8 rows per warp
    for (int r = warp; r < TOK; r += 4) {
        float ss = 0.0f;
        if (tok0 + r < n_tokens) {
            const half2* row = (const half2*)(x + (size_t)(tok0 + r) * dim);
            for (int i = lane; i < dim / 2; i += 32) {
                float2 v = __half22float2(row[i]);
                ss += v.x * v.x + v.y * v.y;
            }
        }
        ss = warp_sum(ss);
        if (lane == 0) inv_rms[r] = rsqrtf(ss / dim + eps);
    }
    __syncthreads();

    // 2. both products
    fragment<accumulator, 16, 16, 16, float> acc1, acc3;
    fill_fragment(acc1, 0.0f);
    fill_fragment(acc3, 0.0f);
    int wr = (warp & 1) * 16;
    int wc = (warp >> 1) * 16;

    for (int k0 = 0; k0 < dim; k0 += KSTEP) {
        // normalize on the way into shared memory
        for (int i = tid; i < TOK * KSTEP / 2; i += 128) {
            int r = i / (KSTEP / 2);
            int k = i % (KSTEP / 2) * 2;
            float2 v = make_float2(0.0f, 0.0f);
            if (tok0 + r < n_tokens) {
                v = __half22float2(*(const half2*)(x + (size_t)(tok0 + r) * dim + k0 + k));
                float2 w = __half22float2(*(const half2*)(gamma + k0 + k));
                v.x *= inv_rms[r] * w.x;
                v.y *= inv_rms[r] * w.y;
            }
            *(half2*)(h + r * LD + k) = __float22half2_rn(v);
        }
        for (int i = tid; i < HID * KSTEP / 8; i += 128) {
            int r = i / (KSTEP / 8);
            int k = i % (KSTEP / 8) * 8;
            size_t off = (size_t)(hid0 + r) * dim + k0 + k;
            *(float4*)(g + r * LD + k) = *(const float4*)(w1 + off);
            *(float4*)(u + r * LD + k) = *(const float4*)(w3 + off);
        }
        __syncthreads();

        for (int k = 0; k < KSTEP; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            fragment<matrix_b, 16, 16, 16, half, col_major> b;
            load_matrix_sync(a, h + wr * LD + k, LD);
            load_matrix_sync(b, g + wc * LD + k, LD);
            mma_sync(acc1, a, b, acc1);
            load_matrix_sync(b, u + wc * LD + k, LD);
            mma_sync(acc3, a, b, acc3);
        }
        __syncthreads();
    }

    // 3. silu(gate) * up
    store_matrix_sync(&res[0][wr][wc], acc1, HID + 4, mem_row_major);
    store_matrix_sync(&res[1][wr][wc], acc3, HID + 4, mem_row_major);
    __syncthreads();
    for (int i = tid; i < TOK * HID; i += 128) {
        int r = i / HID, c = i % HID;
        if (tok0 + r < n_tokens)
            out[(size_t)(tok0 + r) * hidden_dim + hid0 + c] = __float2half(silu(res[0][r][c]) * res[1][r][c]);
    }
}

void ffn_gate_up(half* out, const half* x, const half* gamma, const half* w1, const half* w3, int n_tokens,
                 const Config& cfg) {
    dim3 grid(cfg.hidden_dim / HID, (n_tokens + TOK - 1) / TOK);
    ffn_gate_up_kernel<<<grid, 128>>>(out, x, gamma, w1, w3, n_tokens, cfg.dim, cfg.hidden_dim, cfg.norm_eps);
    cudaOk(cudaGetLastError());
}

int main() {
    Config cfg;
    const int n_tokens = 77;
    std::mt19937 rng(7);
    std::normal_distribution<float> dist(0.0f, 1.0f);
    auto randn = [&](size_t n, float mean, float std) {
        std::vector<half> v(n);
        for (auto& e : v) e = __float2half(mean + std * dist(rng));
        return v;
    };
    auto upload = [](const std::vector<half>& v) {
        half* d;
        cudaOk(cudaMalloc(&d, v.size() * sizeof(half)));
        cudaOk(cudaMemcpy(d, v.data(), v.size() * sizeof(half), cudaMemcpyHostToDevice));
        return d;
    };
    auto x = randn((size_t)n_tokens * cfg.dim, 0.0f, 3.0f);
    auto gamma = randn(cfg.dim, 1.0f, 0.2f);
    auto w1 = randn((size_t)cfg.hidden_dim * cfg.dim, 0.0f, 0.05f);
    auto w3 = randn((size_t)cfg.hidden_dim * cfg.dim, 0.0f, 0.05f);
    std::vector<half> out((size_t)n_tokens * cfg.hidden_dim);
    half *dx = upload(x), *dg = upload(gamma), *d1 = upload(w1), *d3 = upload(w3), *dout = upload(out);

    ffn_gate_up(dout, dx, dg, d1, d3, n_tokens, cfg);
    cudaOk(cudaMemcpy(out.data(), dout, out.size() * sizeof(half), cudaMemcpyDeviceToHost));

    float max_diff = 0.0f;
    std::vector<float> hn(cfg.dim);
    for (int t = 0; t < n_tokens; t++) {
        float ss = 0.0f;
        for (int i = 0; i < cfg.dim; i++) {
            float v = __half2float(x[(size_t)t * cfg.dim + i]);
            ss += v * v;
        }
        for (int i = 0; i < cfg.dim; i++)
            hn[i] = __half2float(x[(size_t)t * cfg.dim + i]) / std::sqrt(ss / cfg.dim + cfg.norm_eps) * __half2float(gamma[i]);
        for (int j = 0; j < cfg.hidden_dim; j++) {
            float a = 0.0f, b = 0.0f;
            for (int i = 0; i < cfg.dim; i++) {
                a += hn[i] * __half2float(w1[(size_t)j * cfg.dim + i]);
                b += hn[i] * __half2float(w3[(size_t)j * cfg.dim + i]);
            }
            float ref = a / (1.0f + std::exp(-a)) * b;
            max_diff = std::max(max_diff, std::fabs(ref - __half2float(out[(size_t)t * cfg.hidden_dim + j])));
        }
    }
    std::cout << "max diff " << max_diff << (max_diff < 2e-2f ? "  looks good" : "  :(") << std::endl;
}
