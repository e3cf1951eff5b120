// FlashAttention-1 forward, as little code as possible, with the two products on tensor cores.
// One block per (batch, head). The outer loop goes over keys, the inner one over queries, so O, l and m
// go through global memory as in Algorithm 1 of the paper.
//
// Called from Python:
//   minimal_attn = load(name='minimal_attn', sources=['main.cpp', 'flash_minimal.cu'], extra_cuda_cflags=['-O2'])
//   out = minimal_attn.forward(q, k, v)

#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

// warp 0 takes the upper 16 queries of a tile, warp 1 the lower ones
__global__
void forward_kernel(const half* Q, const half* K, const half* V, const int N, const int d,
                    const int Tc, const int Tr, const int Bc, const int Br, const float softmax_scale,
                    float* l, float* m, float* O) {
    int tx = threadIdx.x;
    int warp = tx / 32;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);  // offset for l and m

    // Define SRAM for Q,K,V,S,P and P*V
    extern __shared__ __align__(128) char sram[];
    half* Qi = (half*)sram;
    half* Kj = Qi + Br * d;
    half* Vj = Kj + Bc * d;
    half* P = Vj + Bc * d;
    float* S = (float*)(P + Br * Bc);
    float* PV = S + Br * Bc;

    for (int j = 0; j < Tc; j++) {

        // Load Kj, Vj to SRAM
        for (int x = tx; x < Bc * d; x += blockDim.x) {
            int key = j * Bc + x / d;
            Kj[x] = key < N ? K[qkv_offset + key * d + x % d] : __float2half(0.f);
            Vj[x] = key < N ? V[qkv_offset + key * d + x % d] : __float2half(0.f);
        }

        for (int i = 0; i < Tr; i++) {

            // Load Qi to SRAM
            for (int x = tx; x < Br * d; x += blockDim.x) {
                int query = i * Br + x / d;
                Qi[x] = query < N ? Q[qkv_offset + query * d + x % d] : __float2half(0.f);
            }
            __syncthreads();

            // S = QK^T
            for (int c = 0; c < Bc; c += 16) {
                fragment<accumulator, 16, 16, 16, float> s;
                fill_fragment(s, 0.f);
                for (int x = 0; x < d; x += 16) {
                    fragment<matrix_a, 16, 16, 16, half, row_major> a;
                    fragment<matrix_b, 16, 16, 16, half, col_major> b;
                    load_matrix_sync(a, Qi + warp * 16 * d + x, d);
                    load_matrix_sync(b, Kj + c * d + x, d);
                    mma_sync(s, a, b, s);
                }
                store_matrix_sync(S + warp * 16 * Bc + c, s, Bc, mem_row_major);
            }
            __syncthreads();

            // one thread per row: row_m = rowmax(S), P = exp(S - row_m), row_l = rowsum(P)
            float row_m = -INFINITY, row_l = 0;
            int query = i * Br + tx;
            if (tx < Br) {
                for (int y = 0; y < Bc; y++) {
                    float sum = S[tx * Bc + y] * softmax_scale;
                    if (j * Bc + y >= N) sum = -INFINITY;
                    S[tx * Bc + y] = sum;
                    if (sum > row_m) row_m = sum;
                }
                for (int y = 0; y < Bc; y++) {
                    float p = __expf(S[tx * Bc + y] - row_m);
                    row_l += p;
                    P[tx * Bc + y] = __float2half(p);
                }
            }
            __syncthreads();

            // P*V
            for (int c = 0; c < d; c += 16) {
                fragment<accumulator, 16, 16, 16, float> o;
                fill_fragment(o, 0.f);
                for (int y = 0; y < Bc; y += 16) {
                    fragment<matrix_a, 16, 16, 16, half, row_major> a;
                    fragment<matrix_b, 16, 16, 16, half, row_major> b;
                    load_matrix_sync(a, P + warp * 16 * Bc + y, Bc);
                    load_matrix_sync(b, Vj + y * d + c, d);
                    mma_sync(o, a, b, o);
                }
                store_matrix_sync(PV + warp * 16 * d + c, o, d, mem_row_major);
            }
            __syncthreads();

            // Compute new m and l, write O, l, m to HBM
            if (tx < Br && query < N) {
                float row_m_prev = m[lm_offset + query];
                float row_l_prev = l[lm_offset + query];
                float row_m_new = max(row_m_prev, row_m);
                float row_l_new = (__expf(row_m_prev - row_m_new) * row_l_prev) + (__expf(row_m - row_m_new) * row_l);

                for (int x = 0; x < d; x++) {
                    int at = qkv_offset + query * d + x;
                    O[at] = (1 / row_l_new) * ((row_l_prev * __expf(row_m_prev - row_m_new) * O[at])
                                               + (__expf(row_m - row_m_new) * PV[tx * d + x]));
                }
                m[lm_offset + query] = row_m_new;
                l[lm_offset + query] = row_l_new;
            }
        }
        __syncthreads();  // otherwise, threads can overwrite Kj, Vj in use
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
    const int Bc = 32; const int Br = 32;

    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);

    const int Tc = ceil((float) N / Bc); const int Tr = ceil((float) N / Br);
    const float softmax_scale = 1.0 / sqrt(d);

    // Initialize O, l, m to HBM
    auto options = torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA);
    auto O = torch::zeros({B, nh, N, d}, options);
    auto l = torch::zeros({B, nh, N}, options);
    auto m = torch::full({B, nh, N}, -INFINITY, options);

    // Calculate SRAM size needed per block
    const int sram_size = (Br * d + 2 * Bc * d + Br * Bc) * sizeof(half) + (Br * Bc + Br * d) * sizeof(float);
    int max_sram_size;
    cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlock, 0);
    printf("Max shared memory: %d, requested shared memory: %d \n", max_sram_size, sram_size);

    dim3 grid_dim(B, nh);  // batch_size x num_heads
    dim3 block_dim(Br / 16 * 32);  // one warp per 16 queries

    forward_kernel<<<grid_dim, block_dim, sram_size>>>(
        (half*)Q.data_ptr<at::Half>(), (half*)K.data_ptr<at::Half>(), (half*)V.data_ptr<at::Half>(),
        N, d, Tc, Tr, Bc, Br, softmax_scale,
        l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>()
    );
    return O;
}
