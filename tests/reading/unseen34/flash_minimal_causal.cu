// A fork of the "minimal flash attention" forward pass: fp32, one block per (batch, head),
// ~80 lines of kernel. Changes against the version everybody knows:
//   * optional causal mask
//   * the sequence length does not have to be a multiple of the tile
//   * exponentials are taken against the *new* maximum, so a tile never produces exp(x - (-inf))
//
// Educational only: the outer loop goes over K/V like in the first paper, l and m live in HBM.
#include <torch/types.h>
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <math.h>

__global__
void forward_kernel(const float* Q, const float* K, const float* V, const int N, const int d,
                    const int Tc, const int Tr, const int Bc, const int Br, const float softmax_scale,
                    const bool causal, float* l, float* m, float* O) {
    int tx = threadIdx.x;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);  // offset for l and m

    // Define SRAM for Q,K,V,S
    extern __shared__ float sram[];
    int tile_size = Bc * d;  // size of Qi, Kj, Vj (Br == Bc)
    float* Qi = sram;
    float* Kj = &sram[tile_size];
    float* Vj = &sram[tile_size * 2];
    float* S = &sram[tile_size * 3];

    for (int j = 0; j < Tc; j++) {

        // Load Kj, Vj to SRAM, thread tx brings row tx
        if (j * Bc + tx < N) {
            for (int x = 0; x < d; x++) {
                Kj[(tx * d) + x] = K[qkv_offset + (tile_size * j) + (tx * d) + x];
                Vj[(tx * d) + x] = V[qkv_offset + (tile_size * j) + (tx * d) + x];
            }
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        for (int i = 0; i < Tr; i++) {
            // every key of this tile is in the future of every query of that tile
            if (causal && i * Br + Br - 1 < j * Bc)
                continue;
            const int row = i * Br + tx;
            if (row < N) {
                // keys this row may look at in tile j
                int n_keys = min(Bc, N - j * Bc);
                if (causal)
                    n_keys = min(n_keys, row - j * Bc + 1);

                // Load Qi to SRAM, l and m to registers
                for (int x = 0; x < d; x++) {
                    Qi[(tx * d) + x] = Q[qkv_offset + (row * d) + x];
                }
                float row_m_prev = m[lm_offset + row];
                float row_l_prev = l[lm_offset + row];

                // S = QK^T, row_m = rowmax(S)
                float row_m = -INFINITY;
                for (int y = 0; y < n_keys; y++) {
                    float sum = 0;
                    for (int x = 0; x < d; x++) {
                        sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
                    }
                    sum *= softmax_scale;
                    S[(Bc * tx) + y] = sum;

                    if (sum > row_m)
                        row_m = sum;
                }
                float row_m_new = max(row_m_prev, row_m);

                // P = exp(S - row_m_new), row_l = rowsum(P)
                float row_l = 0;
                for (int y = 0; y < n_keys; y++) {
                    S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m_new);
                    row_l += S[(Bc * tx) + y];
                }

                // Compute new l
                float correction = __expf(row_m_prev - row_m_new);  // 0 the first time
                float row_l_new = (correction * row_l_prev) + row_l;

                // Write O, l, m to HBM
                for (int x = 0; x < d; x++) {
                    float pv = 0;  // Pij * Vj
                    for (int y = 0; y < n_keys; y++) {
                        pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
                    }
                    O[qkv_offset + (row * d) + x] = (1 / row_l_new) \
                        * ((row_l_prev * correction * O[qkv_offset + (row * d) + x]) + pv);
                }
                m[lm_offset + row] = row_m_new;
                l[lm_offset + row] = row_l_new;
            }
        }
        __syncthreads();  // otherwise, a thread can use the wrong Kj, Vj in the inner loop
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, bool causal) {
    TORCH_CHECK(Q.is_cuda() && K.is_cuda() && V.is_cuda(), "tensors must live on the GPU");
    TORCH_CHECK(Q.scalar_type() == torch::kFloat32, "fp32 only");
    Q = Q.contiguous(); K = K.contiguous(); V = V.contiguous();

    const int Bc = 32; const int Br = 32;

    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);

    const int Tc = (N + Bc - 1) / Bc; const int Tr = (N + Br - 1) / Br;
    const float softmax_scale = 1.0 / sqrt(d);

    // Initialize O, l, m in HBM
    auto O = torch::zeros_like(Q);
    auto l = torch::zeros({B, nh, N}, Q.options());
    auto m = torch::full({B, nh, N}, -INFINITY, Q.options());

    // Calculate SRAM size needed per block
    const int sram_size = (3 * Bc * d * sizeof(float)) + (Bc * Br * sizeof(float));
    int max_sram_size;
    cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlock, 0);
    TORCH_CHECK(sram_size <= max_sram_size, "head dim too large: needs ", sram_size, " bytes of shared memory");

    dim3 grid_dim(B, nh);  // batch_size x num_heads
    dim3 block_dim(Bc);  // Bc threads per block

    forward_kernel<<<grid_dim, block_dim, sram_size>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(),
        N, d, Tc, Tr, Bc, Br, softmax_scale, causal,
        l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>()
    );
    return O;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", torch::wrap_pybind_function(forward), "minimal flash attention forward",
          py::arg("q"), py::arg("k"), py::arg("v"), py::arg("causal") = false);
}
