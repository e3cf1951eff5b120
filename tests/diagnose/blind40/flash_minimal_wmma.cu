// Flash attention (v1) forward pass, as short as I could make it while still using the tensor cores.
// Follows Algorithm 1 of the paper literally: outer loop over blocks of K/V, inner loop over blocks of Q, and
// O, l, m live in HBM between the outer iterations. The host sets O = 0, l = 0, m = -inf.
//
//   auto minimal_attn = load(name='minimal_attn', sources=['main.cpp', 'flash_minimal_wmma.cu'], ...)
//   minimal_attn.forward(q, k, v, causal)
#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int Br = 32;        // rows of Q in SRAM
const int Bc = 32;        // rows of K, V in SRAM
const int NTHREADS = 128; // 4 warps, each does a 16x16 quarter of S

__global__
void forward_kernel(const float* Q, const float* K, const float* V, const int N, const int d,
                    const int Tc, const int Tr, const float softmax_scale, const bool causal,
                    float* l, float* m, float* O) {
    int tx = threadIdx.x;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index
    int warp = tx / 32;

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);           // offset for l and m

    // Define SRAM for Q,K,V,S,P and the product P*V
    extern __shared__ __align__(128) unsigned char sram[];
    const int ld = d + 8;          // padded, in halfs
    const int ld_s = Bc + 4;       // in floats
    const int ld_p = Bc + 8;
    const int ld_o = d + 4;
    half* Qi = reinterpret_cast<half*>(sram);
    half* Kj = Qi + Br * ld;
    half* Vj = Kj + Bc * ld;
    half* P  = Vj + Bc * ld;
    float* S = reinterpret_cast<float*>(P + Br * ld_p);
    float* PV = S + Br * ld_s;

    // softmax: 4 threads per row
    int my_row = tx / 4;
    int my_col = tx % 4;

    for (int j = 0; j < Tc; j++) {

        // Load Kj, Vj to SRAM, zeros behind the end of the sequence
        for (int idx = tx; idx < Bc * d; idx += NTHREADS) {
            int y = idx / d;
            int x = idx % d;
            int row = j * Bc + y;
            Kj[y * ld + x] = __float2half(row < N ? K[qkv_offset + row * d + x] : 0.f);
            Vj[y * ld + x] = __float2half(row < N ? V[qkv_offset + row * d + x] : 0.f);
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        for (int i = 0; i < Tr; i++) {
            if (causal && i * Br + Br - 1 < j * Bc)
                continue;  // all of this block is masked

            // Load Qi to SRAM
            for (int idx = tx; idx < Br * d; idx += NTHREADS) {
                int y = idx / d;
                int x = idx % d;
                int row = i * Br + y;
                Qi[y * ld + x] = __float2half(row < N ? Q[qkv_offset + row * d + x] : 0.f);
            }
            __syncthreads();

            // S = QK^T
            {
                int sr = (warp / 2) * 16;
                int sc = (warp % 2) * 16;
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
                wmma::fill_fragment(s_frag, 0.f);
                for (int k = 0; k < d; k += 16) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                    wmma::load_matrix_sync(q_frag, Qi + sr * ld + k, ld);
                    wmma::load_matrix_sync(k_frag, Kj + sc * ld + k, ld);
                    wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
                }
                for (int t = 0; t < s_frag.num_elements; t++)
                    s_frag.x[t] *= softmax_scale;
                wmma::store_matrix_sync(S + sr * ld_s + sc, s_frag, ld_s, wmma::mem_row_major);
            }
            __syncthreads();

            int q_idx = i * Br + my_row;
            float row_m_prev = q_idx < N ? m[lm_offset + q_idx] : -INFINITY;
            float row_l_prev = q_idx < N ? l[lm_offset + q_idx] : 0.f;

            // row_m = rowmax(S), masked
            float row_m = -INFINITY;
            for (int x = my_col; x < Bc; x += 4) {
                int k_idx = j * Bc + x;
                float val = S[my_row * ld_s + x];
                if (k_idx >= N || (causal && k_idx > q_idx)) {
                    val = -INFINITY;
                    S[my_row * ld_s + x] = val;
                }
                row_m = fmaxf(row_m, val);
            }
            for (int offset = 1; offset < 4; offset *= 2)
                row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, offset));

            // Compute new m; P = exp(S - m_new), row_l = rowsum(P)
            float row_m_new = fmaxf(row_m_prev, row_m);
            float row_l = 0.f;
            for (int x = my_col; x < Bc; x += 4) {
                float p = __expf(S[my_row * ld_s + x] - row_m_new);
                P[my_row * ld_p + x] = __float2half(p);
                row_l += p;
            }
            for (int offset = 1; offset < 4; offset *= 2)
                row_l += __shfl_xor_sync(0xffffffff, row_l, offset);
            float correction = __expf(row_m_prev - row_m_new);
            float row_l_new = correction * row_l_prev + row_l;
            __syncthreads();

            // PV = P * Vj, warps take turns at the 16x16 tiles of the result
            int col_tiles = d / 16;
            for (int tile = warp; tile < (Br / 16) * col_tiles; tile += NTHREADS / 32) {
                int r = tile / col_tiles * 16;
                int c = tile % col_tiles * 16;
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
                wmma::fill_fragment(o_frag, 0.f);
                for (int k = 0; k < Bc; k += 16) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                    wmma::load_matrix_sync(p_frag, P + r * ld_p + k, ld_p);
                    wmma::load_matrix_sync(v_frag, Vj + k * ld + c, ld);
                    wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
                }
                wmma::store_matrix_sync(PV + r * ld_o + c, o_frag, ld_o, wmma::mem_row_major);
            }
            __syncthreads();

            // Write O, l, m to HBM
            if (q_idx < N) {
                for (int x = my_col; x < d; x += 4) {
                    float* o = O + qkv_offset + q_idx * d + x;
                    *o = (1 / row_l_new) * (row_l_prev * correction * *o + PV[my_row * ld_o + x]);
                }
                if (my_col == 0) {
                    m[lm_offset + q_idx] = row_m_new;
                    l[lm_offset + q_idx] = row_l_new;
                }
            }
            // the next block of Q may only come when all are done with this one
            __syncthreads();
        }
        __syncthreads();  // otherwise, a thread can use the wrong Kj, Vj in inner loop
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, bool causal) {
    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);
    TORCH_CHECK(d % 16 == 0 && d <= 64, "head dim must be 16, 32, 48 or 64");

    const int Tc = ceil((float) N / Bc); const int Tr = ceil((float) N / Br);
    const float softmax_scale = 1.0 / sqrt(d);

    // Initialize O, l, m to HBM
    auto O = torch::zeros_like(Q);
    auto l = torch::zeros({B, nh, N}, Q.options());
    auto m = torch::full({B, nh, N}, -INFINITY, Q.options());

    const int sram_size = (3 * Br * (d + 8) + Br * (Bc + 8)) * sizeof(half)
                        + (Br * (Bc + 4) + Br * (d + 4)) * sizeof(float);
    dim3 grid_dim(B, nh);  // batch_size x num_heads
    forward_kernel<<<grid_dim, NTHREADS, sram_size>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), N, d, Tc, Tr, softmax_scale, causal,
        l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>());
    return O;
}
