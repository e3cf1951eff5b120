// Flash attention in ~100 lines, forked from the usual minimal version.
// Added here: causal masking and sequence lengths that are no multiple of the tile.
//
//   Q, K, V : (B, nh, N, d) float32, contiguous
//   grid    : (B, nh), one block does a whole head
//   block   : Bc threads, thread tx owns row tx of the current Q tile
//
// Compiled by bench.py:
//   minimal_attn = load(name='minimal_attn', sources=['main.cpp', 'flash.cu'], extra_cuda_cflags=['-O2'])

#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>

__global__
void forward_kernel(const float* Q, const float* K, const float* V, const int N, const int d,
                    const int Tc, const int Tr, const int Bc, const int Br, const float softmax_scale,
                    const bool causal, float* l, float *m, float* O) {
    int tx = threadIdx.x;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);  // offset for l and m

    // Define SRAM for Q,K,V,S
    extern __shared__ float sram[];
    int tile_size = Bc * d;  // size of Qi, Kj, Vj
    float* Qi = sram;
    float* Kj = &sram[tile_size];
    float* Vj = &sram[tile_size * 2];
    float* S = &sram[tile_size * 3];

    for (int j = 0; j < Tc; j++) {

        // Load Kj, Vj to SRAM, the last tile may stick out over N
        int k_row = Bc * j + tx;
        for (int x = 0; x < d; x++) {
            Kj[(tx * d) + x] = k_row < N ? K[qkv_offset + (k_row * d) + x] : 0.f;
            Vj[(tx * d) + x] = k_row < N ? V[qkv_offset + (k_row * d) + x] : 0.f;
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        int k_count = min(Bc, N - Bc * j);  // keys that really exist in this tile

        for (int i = 0; i < Tr; i++)  {
            int q_row = Br * i + tx;

            // Nothing of this tile is visible from my row: leave O, l, m as they are
            if (q_row >= N || (causal && q_row < Bc * j)) continue;

            // Load Qi to SRAM, l and m to registers
            for (int x = 0; x < d; x++) {
                Qi[(tx * d) + x] = Q[qkv_offset + (q_row * d) + x];
            }
            float row_m_prev = m[lm_offset + q_row];
            float row_l_prev = l[lm_offset + q_row];

            // keys 0..cols-1 of the tile are visible
            int cols = causal ? min(k_count, q_row - Bc * j + 1) : k_count;

            // S = QK^T, row_m = rowmax(S)
            float row_m = -INFINITY;
            for (int y = 0; y < cols; y++) {
                float sum = 0;
                for (int x = 0; x < d; x++) {
                    sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
                }
                sum *= softmax_scale;
                S[(Bc * tx) + y] = sum;

                if (sum > row_m)
                    row_m = sum;
            }

            // P = exp(S - row_m), row_l = rowsum(P)
            float row_l = 0;
            for (int y = 0; y < cols; y++) {
                S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m);
                row_l += S[(Bc * tx) + y];
            }

            // Compute new m and l
            float row_m_new = max(row_m_prev, row_m);
            float alpha = __expf(row_m_prev - row_m_new);
            float beta = __expf(row_m - row_m_new);
            float row_l_new = (alpha * row_l_prev) + (beta * row_l);

            // Write O, l, m to HBM
            for (int x = 0; x < d; x++) {
                float pv = 0;  // Pij * Vj
                for (int y = 0; y < cols; y++) {
                    pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
                }
                float o_prev = O[qkv_offset + (q_row * d) + x];
                O[qkv_offset + (q_row * d) + x] = (1 / row_l_new)
                    * ((row_l_prev * alpha * o_prev) + (beta * pv));
            }
            m[lm_offset + q_row] = row_m_new;
            l[lm_offset + q_row] = row_l_new;
        }
        __syncthreads();  // otherwise, thread can use the wrong Kj, Vj in inner loop
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, bool causal) {
    // TODO: determine Bc, Br dynamically
    const int Bc = 32; const int Br = 32;

    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);

    const int Tc = (N + Bc - 1) / Bc;
    const int Tr = (N + Br - 1) / Br;
    const float softmax_scale = 1.0 / sqrt(d);

    // Initialize O, l, m to HBM
    auto O = torch::zeros_like(Q);
    auto l = torch::zeros({B, nh, N}, Q.options());
    auto m = torch::full({B, nh, N}, -INFINITY, Q.options());

    // Calculate SRAM size needed per block
    const int sram_size = (3 * Bc * d * sizeof(float)) + (Bc * Br * sizeof(float));
    int max_sram_size;
    cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlock, 0);
    TORCH_CHECK(sram_size <= max_sram_size, "head dim too large: ", sram_size, " bytes of shared memory wanted");

    dim3 grid_dim(B, nh);  // batch_size x num_heads
    dim3 block_dim(Bc);  // Bc threads per block

    forward_kernel<<<grid_dim, block_dim, sram_size>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(),
        N, d, Tc, Tr, Bc, Br, softmax_scale, causal,
        l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>()
    );
    return O;
}
