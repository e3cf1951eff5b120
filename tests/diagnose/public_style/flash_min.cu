// Minimal flash attention: one file, no dependencies but torch's headers. The running maximum and sum of every
// row live in global memory between passes over the key blocks (keys outside, queries inside).
#include <cmath>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
#include <torch/types.h>

__device__ __forceinline__ float dot4(float4 a, float4 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

__global__ void flash_fwd(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                          int N, int d, int Br, int Bc, float softmax_scale,
                          float* l, float* m, float* __restrict__ O)
{
    const int t = threadIdx.x;                       // a row of the query block, or of the key block
    const int head = blockIdx.x * gridDim.y + blockIdx.y;   // (batch, head)
    Q += (size_t)head * N * d;
    K += (size_t)head * N * d;
    V += (size_t)head * N * d;
    O += (size_t)head * N * d;
    l += (size_t)head * N;
    m += (size_t)head * N;

    // carve the dynamic shared memory into Q, K, V and S
    extern __shared__ float sram[];
    float* sQ = sram;
    float* sK = sQ + Br * d;
    float* sV = sK + Bc * d;
    float* sS = sV + Bc * d;
    const int d4 = d / 4;

    for (int kb = 0; kb < N; kb += Bc) {
        const int keys = min(Bc, N - kb);
        for (int e = t; e < keys * d4; e += blockDim.x) {
            reinterpret_cast<float4*>(sK)[e] = reinterpret_cast<const float4*>(K + (size_t)kb * d)[e];
            reinterpret_cast<float4*>(sV)[e] = reinterpret_cast<const float4*>(V + (size_t)kb * d)[e];
        }
        __syncthreads();

        for (int qb = 0; qb < N; qb += Br) {
            const int rows = min(Br, N - qb);
            for (int e = t; e < rows * d4; e += blockDim.x)
                reinterpret_cast<float4*>(sQ)[e] = reinterpret_cast<const float4*>(Q + (size_t)qb * d)[e];
            __syncthreads();

            if (t < rows) {
                const float4* q = reinterpret_cast<const float4*>(sQ + t * d);
                float* s = sS + t * Bc;

                float m_blk = -INFINITY;
                for (int j = 0; j < keys; ++j) {
                    const float4* k = reinterpret_cast<const float4*>(sK + j * d);
                    float acc = 0.f;
                    for (int x = 0; x < d4; ++x) acc += dot4(q[x], k[x]);
                    s[j] = acc * softmax_scale;
                    m_blk = fmaxf(m_blk, s[j]);
                }
                float l_blk = 0.f;
                for (int j = 0; j < keys; ++j) {
                    s[j] = __expf(s[j] - m_blk);
                    l_blk += s[j];
                }

                const float m_prev = m[qb + t], l_prev = l[qb + t];
                const float m_new = fmaxf(m_prev, m_blk);
                const float w_prev = __expf(m_prev - m_new), w_blk = __expf(m_blk - m_new);
                const float l_new = w_prev * l_prev + w_blk * l_blk;

                float4* o = reinterpret_cast<float4*>(O + (size_t)(qb + t) * d);
                for (int x = 0; x < d4; ++x) {
                    float4 pv = make_float4(0.f, 0.f, 0.f, 0.f);
                    for (int j = 0; j < keys; ++j) {
                        const float4 v = reinterpret_cast<const float4*>(sV + j * d)[x];
                        pv.x += s[j] * v.x; pv.y += s[j] * v.y; pv.z += s[j] * v.z; pv.w += s[j] * v.w;
                    }
                    const float a = l_prev * w_prev / l_new, b = w_blk / l_new;
                    float4 was = o[x];
                    o[x] = make_float4(a * was.x + b * pv.x, a * was.y + b * pv.y,
                                       a * was.z + b * pv.z, a * was.w + b * pv.w);
                }
                m[qb + t] = m_new;
                l[qb + t] = l_new;
            }
            __syncthreads();
        }
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
    const int Br = 32, Bc = 32;
    const int B = Q.size(0), nh = Q.size(1), N = Q.size(2), d = Q.size(3);
    const float softmax_scale = 1.0 / sqrt(d);

    auto O = torch::zeros_like(Q);
    auto opts = Q.options();
    auto l = torch::zeros({B, nh, N}, opts);
    auto m = torch::full({B, nh, N}, -INFINITY, opts);

    const int sram_size = (Br * d + 2 * Bc * d + Br * Bc) * sizeof(float);
    int max_sram_size;
    cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlock, 0);
    printf("max shared memory %d, requested %d\n", max_sram_size, sram_size);

    dim3 grid(B, nh);
    dim3 block(Br);
    flash_fwd<<<grid, block, sram_size>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(),
        N, d, Br, Bc, softmax_scale,
        l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>());
    return O;
}
