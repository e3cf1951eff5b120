#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// One block per (batch, head); tiles of 16 keys outside, 16 queries inside. fp16 inputs, fp32 gradients.
__global__ void backward_kernel(const half* Q, const half* K, const half* V, const half* dO, const float* L, const float* Delta,
                                const int N, const int d, const float softmax_scale, float* dQ, float* dK, float* dV) {
    const int bx = blockIdx.x, by = blockIdx.y;
    const int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);
    const int lm_offset = (bx * gridDim.y * N) + (by * N);
    const int tx = threadIdx.x;

    extern __shared__ float sram[];
    float* S = sram;             // 16 x 16
    float* dP = S + 256;         // 16 x 16
    float* acc = dP + 256;       // 16 x 16
    half* P = (half*)(acc + 256);
    half* dS = P + 256;

    for (int j = 0; j < N; j += 16) {
        for (int i = 0; i < N; i += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s, dp;
            wmma::fill_fragment(s, 0.0f);
            wmma::fill_fragment(dp, 0.0f);
            for (int x = 0; x < d; x += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q, g;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k, v;
                wmma::load_matrix_sync(q, Q + qkv_offset + i * d + x, d);
                wmma::load_matrix_sync(k, K + qkv_offset + j * d + x, d);
                wmma::mma_sync(s, q, k, s);
                wmma::load_matrix_sync(g, dO + qkv_offset + i * d + x, d);
                wmma::load_matrix_sync(v, V + qkv_offset + j * d + x, d);
                wmma::mma_sync(dp, g, v, dp);
            }
            wmma::store_matrix_sync(S, s, 16, wmma::mem_row_major);
            wmma::store_matrix_sync(dP, dp, 16, wmma::mem_row_major);
            __syncwarp();
            for (int e = tx; e < 256; e += 32) {
                const int row = i + e / 16;
                const float p = __expf(softmax_scale * S[e] - L[lm_offset + row]);
                P[e] = __float2half(p);
                dS[e] = __float2half(p * (dP[e] - Delta[lm_offset + row]) * softmax_scale);
            }
            __syncwarp();
            for (int x = 0; x < d; x += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> pT, dsT;
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> ds;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> g, q, k;
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> dv, dk, dq;
                wmma::load_matrix_sync(dv, dV + qkv_offset + j * d + x, d, wmma::mem_row_major);
                wmma::load_matrix_sync(dk, dK + qkv_offset + j * d + x, d, wmma::mem_row_major);
                wmma::load_matrix_sync(dq, dQ + qkv_offset + i * d + x, d, wmma::mem_row_major);
                wmma::load_matrix_sync(pT, P, 16);
                wmma::load_matrix_sync(g, dO + qkv_offset + i * d + x, d);
                wmma::mma_sync(dv, pT, g, dv);
                wmma::load_matrix_sync(dsT, dS, 16);
                wmma::load_matrix_sync(q, Q + qkv_offset + i * d + x, d);
                wmma::mma_sync(dk, dsT, q, dk);
                wmma::load_matrix_sync(ds, dS, 16);
                wmma::load_matrix_sync(k, K + qkv_offset + j * d + x, d);
                wmma::mma_sync(dq, ds, k, dq);
                wmma::store_matrix_sync(dV + qkv_offset + j * d + x, dv, d, wmma::mem_row_major);
                wmma::store_matrix_sync(dK + qkv_offset + j * d + x, dk, d, wmma::mem_row_major);
                wmma::store_matrix_sync(dQ + qkv_offset + i * d + x, dq, d, wmma::mem_row_major);
            }
            __syncwarp();
        }
    }
}

std::vector<torch::Tensor> backward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O, torch::Tensor dO,
                                    torch::Tensor L) {
    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);
    const float softmax_scale = 1.0 / sqrt(d);

    auto Delta = (dO.to(torch::kFloat) * O.to(torch::kFloat)).sum(-1);
    auto opts = Q.options().dtype(torch::kFloat);
    auto dQ = torch::zeros({B, nh, N, d}, opts);
    auto dK = torch::zeros({B, nh, N, d}, opts);
    auto dV = torch::zeros({B, nh, N, d}, opts);

    const int sram_size = (3 * 256 * sizeof(float)) + (2 * 256 * sizeof(half));
    dim3 grid_dim(B, nh);
    dim3 block_dim(32);
    backward_kernel<<<grid_dim, block_dim, sram_size>>>(
        reinterpret_cast<half*>(Q.data_ptr<at::Half>()), reinterpret_cast<half*>(K.data_ptr<at::Half>()),
        reinterpret_cast<half*>(V.data_ptr<at::Half>()), reinterpret_cast<half*>(dO.data_ptr<at::Half>()),
        L.data_ptr<float>(), Delta.data_ptr<float>(), N, d, softmax_scale,
        dQ.data_ptr<float>(), dK.data_ptr<float>(), dV.data_ptr<float>());
    return {dQ, dK, dV};
}
