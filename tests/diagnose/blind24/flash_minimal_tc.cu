// minimal flash attention (v1) with tensor cores, forward only
//
// same loop order as Algorithm 1 of the paper: outer loop over K/V tiles, inner loop over Q tiles, with O, l and m
// living in HBM. one block per (batch, head). host must init O = 0, l = 0, m = -inf
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

template <int Br, int Bc, int d>
__global__ void forward_kernel(const half* Q, const half* K, const half* V, const int N,
                               const int Tc, const int Tr, const float softmax_scale,
                               float* l, float* m, float* O) {
    constexpr int nwarps = 4;
    constexpr int dp = d + 8;      // padded row of Q, K, V tiles
    constexpr int Sp = Bc + 4;     // padded row of S
    constexpr int Pp = Bc + 8;     // padded row of P
    constexpr int Op = d + 4;

    int tx = threadIdx.x;
    int warp = tx / 32, lane = tx % 32;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);  // offset for l and m

    // Define SRAM for Q,K,V,S,P,PV
    __shared__ __align__(32) half Qi[Br * dp];
    __shared__ __align__(32) half Kj[Bc * dp];
    __shared__ __align__(32) half Vj[Bc * dp];
    __shared__ __align__(32) float S[Br * Sp];
    __shared__ __align__(32) half P[Br * Pp];
    __shared__ __align__(32) float PV[Br * Op];

    for (int j = 0; j < Tc; j++) {

        // Load Kj, Vj to SRAM
        for (int x = tx; x < Bc * d; x += blockDim.x) {
            int r = x / d, c = x % d;
            bool in = j * Bc + r < N;
            Kj[r * dp + c] = in ? K[qkv_offset + (j * Bc + r) * d + c] : __float2half(0.f);
            Vj[r * dp + c] = in ? V[qkv_offset + (j * Bc + r) * d + c] : __float2half(0.f);
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        for (int i = 0; i < Tr; i++) {

            // Load Qi to SRAM
            for (int x = tx; x < Br * d; x += blockDim.x) {
                int r = x / d, c = x % d;
                bool in = i * Br + r < N;
                Qi[r * dp + c] = in ? Q[qkv_offset + (i * Br + r) * d + c] : __float2half(0.f);
            }
            __syncthreads();

            // S = QK^T, one 16x16 tile per warp at a time
            for (int tile = warp; tile < (Br / 16) * (Bc / 16); tile += nwarps) {
                int ti = tile / (Bc / 16), tj = tile % (Bc / 16);
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
                wmma::fill_fragment(s_frag, 0.f);
                for (int x = 0; x < d; x += 16) {
                    wmma::load_matrix_sync(q_frag, &Qi[ti * 16 * dp + x], dp);
                    wmma::load_matrix_sync(k_frag, &Kj[tj * 16 * dp + x], dp);
                    wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
                }
                wmma::store_matrix_sync(&S[ti * 16 * Sp + tj * 16], s_frag, Sp, wmma::mem_row_major);
            }
            __syncthreads();

            // P = exp(S - rowmax(S)), each warp takes whole rows, lanes run over the columns
            float row_m_prev[Br / nwarps], row_l_prev[Br / nwarps];
            float row_m[Br / nwarps], row_l[Br / nwarps];
            #pragma unroll
            for (int rr = 0; rr < Br / nwarps; rr++) {
                int r = warp * (Br / nwarps) + rr;
                int q_idx = i * Br + r;
                row_m_prev[rr] = q_idx < N ? m[lm_offset + q_idx] : -INFINITY;
                row_l_prev[rr] = q_idx < N ? l[lm_offset + q_idx] : 0.f;

                float mx = -INFINITY;
                for (int y = lane; y < Bc; y += 32) {
                    float s = j * Bc + y < N ? S[r * Sp + y] * softmax_scale : -INFINITY;
                    S[r * Sp + y] = s;
                    mx = fmaxf(mx, s);
                }
                for (int o = 16; o > 0; o >>= 1)
                    mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, o));

                float sum = 0.f;
                for (int y = lane; y < Bc; y += 32) {
                    float p = __expf(S[r * Sp + y] - mx);
                    P[r * Pp + y] = __float2half(p);
                    sum += p;
                }
                for (int o = 16; o > 0; o >>= 1)
                    sum += __shfl_xor_sync(0xffffffff, sum, o);
                row_m[rr] = mx;
                row_l[rr] = sum;
            }
            __syncthreads();

            // PV
            for (int tile = warp; tile < (Br / 16) * (d / 16); tile += nwarps) {
                int ti = tile / (d / 16), tj = tile % (d / 16);
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
                wmma::fill_fragment(o_frag, 0.f);
                for (int x = 0; x < Bc; x += 16) {
                    wmma::load_matrix_sync(p_frag, &P[ti * 16 * Pp + x], Pp);
                    wmma::load_matrix_sync(v_frag, &Vj[x * dp + tj * 16], dp);
                    wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
                }
                wmma::store_matrix_sync(&PV[ti * 16 * Op + tj * 16], o_frag, Op, wmma::mem_row_major);
            }
            __syncthreads();

            // Compute new m and l, write O, l, m to HBM
            #pragma unroll
            for (int rr = 0; rr < Br / nwarps; rr++) {
                int r = warp * (Br / nwarps) + rr;
                int q_idx = i * Br + r;
                if (q_idx >= N) continue;

                float row_m_new = fmaxf(row_m_prev[rr], row_m[rr]);
                float alpha = __expf(row_m_prev[rr] - row_m_new);
                float beta = __expf(row_m[rr] - row_m_new);
                float row_l_new = alpha * row_l_prev[rr] + beta * row_l[rr];

                for (int x = lane; x < d; x += 32) {
                    float* o = &O[qkv_offset + q_idx * d + x];
                    *o = (1 / row_l_new) * (row_l_prev[rr] * alpha * (*o) + beta * PV[r * Op + x]);
                }
                if (lane == 0) {
                    m[lm_offset + q_idx] = row_m_new;
                    l[lm_offset + q_idx] = row_l_new;
                }
            }
        }
        __syncthreads();  // otherwise, thread can use the wrong Kj, Vj in inner loop
    }
}

void forward(const half* Q, const half* K, const half* V, float* O, float* l, float* m, int B, int nh, int N) {
    const int Br = 32, Bc = 32, d = 64;
    const int Tc = (N + Bc - 1) / Bc, Tr = (N + Br - 1) / Br;
    const float softmax_scale = 1.0 / sqrt((double)d);
    dim3 grid_dim(B, nh);  // batch_size x num_heads
    dim3 block_dim(128);
    forward_kernel<Br, Bc, d><<<grid_dim, block_dim>>>(Q, K, V, N, Tc, Tr, softmax_scale, l, m, O);
}
