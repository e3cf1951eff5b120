// mini_flash_wmma.cu
// ---------------------------------------------------------------------------
// "flash-attention in ~100 lines", tensor core edition.
//
// The well known minimal version uses one thread per query row and plain FMAs.
// Here the two matrix products go through nvcuda::wmma; everything else (online
// softmax, rescaling) stays in shared memory so that the code reads like
// algorithm 1 of the paper.
//
//   Q, K, V: (B, nh, N, d) half       O: (B, nh, N, d) float
//
// non-causal, N a multiple of 32, d is a compile-time constant (32 or 64)
// ---------------------------------------------------------------------------
#include <cuda_fp16.h>
#include <mma.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace nvcuda::wmma;

#ifndef BR
#define BR 32   // rows of Q per block
#endif
#ifndef BC
#define BC 32   // rows of K, V per step
#endif
#define NWARPS 4
#define NTHREADS (NWARPS * 32)

using FragA  = fragment<matrix_a, 16, 16, 16, half, row_major>;
using FragB  = fragment<matrix_b, 16, 16, 16, half, row_major>;
using FragBt = fragment<matrix_b, 16, 16, 16, half, col_major>;
using FragC  = fragment<accumulator, 16, 16, 16, float>;

// shared memory of one block, in bytes
template <int d>
constexpr int smem_bytes() {
    return (BR * d + 2 * BC * d) * sizeof(half)      // Qi, Kj, Vj
         + BR * BC * (sizeof(float) + sizeof(half))  // S, P
         + BR * d * sizeof(float)                    // Oi
         + 2 * BR * sizeof(float);                   // m, l
}

template <int d>
__global__ void flash_forward_kernel(const half *Q, const half *K, const half *V, float *O,
                                     const int N, const float softmax_scale) {
    const int tx = threadIdx.x;
    const int warp = tx / 32;
    const int bx = blockIdx.x, by = blockIdx.y;           // batch, head
    const int i0 = blockIdx.z * BR;                       // first query row
    const size_t base = ((size_t)bx * gridDim.y + by) * N * d;

    extern __shared__ __align__(128) char sram[];
    half *Qi = (half *)sram;
    half *Kj = Qi + BR * d;
    half *Vj = Kj + BC * d;
    float *S = (float *)(Vj + BC * d);
    float *Oi = S + BR * BC;
    half *P = (half *)(Oi + BR * d);
    float *m = (float *)(P + BR * BC);
    float *l = m + BR;

    for (int x = tx; x < BR * d; x += NTHREADS) {
        Qi[x] = Q[base + (size_t)i0 * d + x];
        Oi[x] = 0.f;
    }
    if (tx < BR) {
        m[tx] = -INFINITY;
        l[tx] = 0.f;
    }

    for (int j0 = 0; j0 < N; j0 += BC) {
        __syncthreads();
        for (int x = tx; x < BC * d; x += NTHREADS) {
            Kj[x] = K[base + (size_t)j0 * d + x];
            Vj[x] = V[base + (size_t)j0 * d + x];
        }
        __syncthreads();

        // S = Qi Kj^T   (BR/16 x BC/16 tiles, distributed over the warps)
        for (int t = warp; t < (BR / 16) * (BC / 16); t += NWARPS) {
            const int r = t / (BC / 16) * 16, c = t % (BC / 16) * 16;
            FragC acc;
            fill_fragment(acc, 0.f);
            for (int k = 0; k < d; k += 16) {
                FragA a;
                FragBt b;
                load_matrix_sync(a, Qi + r * d + k, d);
                load_matrix_sync(b, Kj + c * d + k, d);   // col_major: K^T for free
                mma_sync(acc, a, b, acc);
            }
            for (int e = 0; e < acc.num_elements; e++) acc.x[e] *= softmax_scale;
            store_matrix_sync(S + r * BC + c, acc, BC, mem_row_major);
        }
        __syncthreads();

        // online softmax, one warp per row
        for (int r = warp; r < BR; r += NWARPS) {
            const int lane = tx % 32;
            float row_m = -INFINITY;
            for (int c = lane; c < BC; c += 32) row_m = fmaxf(row_m, S[r * BC + c]);
            for (int o = 16; o > 0; o >>= 1) row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, o));

            const float m_prev = m[r];
            const float m_new = fmaxf(m_prev, row_m);
            float row_l = 0.f;
            for (int c = lane; c < BC; c += 32) {
                const float p = __expf(S[r * BC + c] - m_new);
                P[r * BC + c] = __float2half(p);
                row_l += p;
            }
            for (int o = 16; o > 0; o >>= 1) row_l += __shfl_xor_sync(0xffffffff, row_l, o);

            const float correction = __expf(m_prev - m_new);
            for (int c = lane; c < d; c += 32) Oi[r * d + c] *= correction;
            __syncwarp();                                 // m_prev was read by all lanes
            if (lane == 0) {
                l[r] = correction * l[r] + row_l;
                m[r] = m_new;
            }
        }
        __syncthreads();

        // Oi += P Vj
        for (int t = warp; t < (BR / 16) * (d / 16); t += NWARPS) {
            const int r = t / (d / 16) * 16, c = t % (d / 16) * 16;
            FragC acc;
            load_matrix_sync(acc, Oi + r * d + c, d, mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                FragA a;
                FragB b;
                load_matrix_sync(a, P + r * BC + k, BC);
                load_matrix_sync(b, Vj + k * d + c, d);
                mma_sync(acc, a, b, acc);
            }
            store_matrix_sync(Oi + r * d + c, acc, d, mem_row_major);
        }
    }
    __syncthreads();

    for (int x = tx; x < BR * d; x += NTHREADS)
        O[base + (size_t)i0 * d + x] = Oi[x] / l[x / d];
}

// ------------------------------------------------------------------ host side
bool launch_flash_forward(const half *Q, const half *K, const half *V, float *O, int B, int nh, int N, int d) {
    if (N % BR != 0 || N % BC != 0) {
        fprintf(stderr, "N must be a multiple of %d and %d\n", BR, BC);
        return false;
    }
    const float scale = 1.0f / sqrtf((float)d);
    dim3 grid(B, nh, N / BR);
    switch (d) {
    case 32:
        flash_forward_kernel<32><<<grid, NTHREADS, smem_bytes<32>()>>>(Q, K, V, O, N, scale);
        break;
    case 64:
        flash_forward_kernel<64><<<grid, NTHREADS, smem_bytes<64>()>>>(Q, K, V, O, N, scale);
        break;
    default:
        fprintf(stderr, "head dimension %d is not supported\n", d);
        return false;
    }
    return cudaGetLastError() == cudaSuccess;
}

static void attention_cpu(const std::vector<half> &Q, const std::vector<half> &K, const std::vector<half> &V,
                          std::vector<float> &O, int BH, int N, int d) {
    std::vector<double> p(N);
    for (int b = 0; b < BH; b++)
        for (int i = 0; i < N; i++) {
            const half *q = &Q[((size_t)b * N + i) * d];
            double mx = -1e300, sum = 0;
            for (int j = 0; j < N; j++) {
                const half *k = &K[((size_t)b * N + j) * d];
                double s = 0;
                for (int x = 0; x < d; x++) s += (double)__half2float(q[x]) * __half2float(k[x]);
                p[j] = s / sqrt((double)d);
                mx = std::max(mx, p[j]);
            }
            for (int j = 0; j < N; j++) sum += (p[j] = exp(p[j] - mx));
            for (int x = 0; x < d; x++) {
                double o = 0;
                for (int j = 0; j < N; j++) o += p[j] * __half2float(V[((size_t)b * N + j) * d + x]);
                O[((size_t)b * N + i) * d + x] = (float)(o / sum);
            }
        }
}

static int test(int B, int nh, int N, int d) {
    const size_t n = (size_t)B * nh * N * d;
    std::vector<half> Q(n), K(n), V(n);
    std::vector<float> O(n), ref(n);
    for (size_t i = 0; i < n; i++) {
        Q[i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
        K[i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
        V[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
    }
    half *dQ, *dK, *dV;
    float *dO;
    cudaMalloc(&dQ, n * sizeof(half));
    cudaMalloc(&dK, n * sizeof(half));
    cudaMalloc(&dV, n * sizeof(half));
    cudaMalloc(&dO, n * sizeof(float));
    cudaMemcpy(dQ, Q.data(), n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dK, K.data(), n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dV, V.data(), n * sizeof(half), cudaMemcpyHostToDevice);

    const auto t0 = std::chrono::steady_clock::now();
    bool ok = launch_flash_forward(dQ, dK, dV, dO, B, nh, N, d);
    cudaDeviceSynchronize();
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t0).count();
    cudaMemcpy(O.data(), dO, n * sizeof(float), cudaMemcpyDeviceToHost);
    attention_cpu(Q, K, V, ref, B * nh, N, d);

    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double diff = std::fabs((double)O[i] - ref[i]);
        if (std::isnan(diff)) ok = false;
        worst = std::max(worst, diff);
    }
    ok = ok && worst < 2e-3;
    printf("B=%d nh=%d N=%d d=%d: max diff %.2e, %.0f us  %s\n", B, nh, N, d, worst, us, ok ? "PASS" : "FAIL");
    cudaFree(dQ);
    cudaFree(dK);
    cudaFree(dV);
    cudaFree(dO);
    return ok ? 0 : 1;
}

int main() {
    int failed = 0;
    failed += test(1, 1, 64, 32);
    failed += test(2, 3, 96, 64);
    failed += test(1, 2, 128, 32);
    printf(failed ? "%d tests FAILED\n" : "all tests passed\n", failed);
    return failed;
}
