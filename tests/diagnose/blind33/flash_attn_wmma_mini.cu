// flash attention forward in ~150 lines, now with tensor cores (wmma) instead of the naive dot products.
// based on "flash-attention-minimal", FA2 loop order: one block = one tile of Q, loop over tiles of K / V.
// Q, K, V, O: (B, nh, N, d), half. L: (B, nh, N) logsumexp of each row, float (needed by backward).
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda::wmma;

#define Br 32
#define Bc 32
#define N_WARPS 4
#define N_THREADS (N_WARPS * 32)
#define TPR (N_THREADS / Br)   // threads per row in the softmax part (4 neighbours)

template <int d>
__global__
void forward_kernel(const half* Q, const half* K, const half* V, const int N, const int Tc,
                    const float softmax_scale, const int is_causal, half* O, float* L) {
    int tx = threadIdx.x;
    int warp = tx / 32;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index
    int i = blockIdx.z;                        // tile of Q

    // Offset into Q,K,V,O and L - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);  // gridDim.y = nh
    int l_offset = (bx * gridDim.y * N) + (by * N);

    // Define SRAM for Q,K,V,S,P,O
    constexpr int ld_h = d + 8;     // leading dims, padded
    constexpr int ld_s = Bc + 4;
    constexpr int ld_p = Bc + 8;
    constexpr int ld_o = d + 4;
    extern __shared__ __align__(128) char sram[];
    half* Qi = (half*)sram;                         // Br x d
    half* Kj = Qi + Br * ld_h;                      // Bc x d
    half* Vj = Kj + Bc * ld_h;                      // Bc x d
    half* P  = Vj + Bc * ld_h;                      // Br x Bc
    float* S = (float*)(P + Br * ld_p);             // Br x Bc
    float* Oi = S + Br * ld_s;                      // Br x d

    // Load Qi to SRAM, zero Oi
    for (int idx = tx; idx < Br * d; idx += N_THREADS) {
        int r = idx / d, x = idx % d;
        int q_row = i * Br + r;
        Qi[r * ld_h + x] = q_row < N ? Q[qkv_offset + q_row * d + x] : __float2half(0.f);
        Oi[r * ld_o + x] = 0.f;
    }

    // running max and sum of the row this thread helps with
    int row = tx / TPR;
    int sub = tx % TPR;
    int q_pos = i * Br + row;
    float row_m_prev = -INFINITY;
    float row_l_prev = 0.f;

    // tiles right of the diagonal are fully masked
    int j_end = is_causal ? min(Tc, (i * Br + Br + Bc - 1) / Bc) : Tc;
    for (int j = 0; j < j_end; j++) {
        // Load Kj, Vj to SRAM
        for (int idx = tx; idx < Bc * d; idx += N_THREADS) {
            int r = idx / d, x = idx % d;
            int k_row = j * Bc + r;
            bool ok = k_row < N;
            Kj[r * ld_h + x] = ok ? K[qkv_offset + k_row * d + x] : __float2half(0.f);
            Vj[r * ld_h + x] = ok ? V[qkv_offset + k_row * d + x] : __float2half(0.f);
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        // S = QK^T: 2 x 2 tiles of 16 x 16, one per warp
        {
            int tr = warp / (Bc / 16), tc = warp % (Bc / 16);
            fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
            fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
            fragment<accumulator, 16, 16, 16, float> s_frag;
            fill_fragment(s_frag, 0.f);
            for (int x = 0; x < d; x += 16) {
                load_matrix_sync(q_frag, Qi + tr * 16 * ld_h + x, ld_h);
                load_matrix_sync(k_frag, Kj + tc * 16 * ld_h + x, ld_h);
                mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            store_matrix_sync(S + tr * 16 * ld_s + tc * 16, s_frag, ld_s, mem_row_major);
        }
        __syncthreads();

        // row_m = rowmax(S)
        float row_m = -INFINITY;
        for (int y = sub; y < Bc; y += TPR) {
            int k_pos = j * Bc + y;
            float sum = S[row * ld_s + y] * softmax_scale;
            if (k_pos >= N || (is_causal && k_pos > q_pos)) sum = -INFINITY;
            S[row * ld_s + y] = sum;
            row_m = fmaxf(row_m, sum);
        }
        for (int off = 1; off < TPR; off *= 2)
            row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, off));
        float row_m_new = fmaxf(row_m_prev, row_m);

        // P = exp(S - row_m), row_l = rowsum(P)
        float row_l = 0.f;
        for (int y = sub; y < Bc; y += TPR) {
            float p = __expf(S[row * ld_s + y] - row_m_new);
            P[row * ld_p + y] = __float2half(p);
            row_l += p;
        }
        for (int off = 1; off < TPR; off *= 2)
            row_l += __shfl_xor_sync(0xffffffff, row_l, off);

        // rescale what we have so far
        float alpha = __expf(row_m_prev - row_m_new);
        for (int x = sub; x < d; x += TPR)
            Oi[row * ld_o + x] *= alpha;
        row_l_prev = alpha * row_l_prev + row_l;
        row_m_prev = row_m_new;
        __syncthreads();

        // O += PV: 2 x (d / 16) tiles, the warps share them
        for (int t = warp; t < (Br / 16) * (d / 16); t += N_WARPS) {
            int tr = t / (d / 16), tc = t % (d / 16);
            fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
            fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
            fragment<accumulator, 16, 16, 16, float> o_frag;
            float* o_tile = Oi + tr * 16 * ld_o + tc * 16;
            load_matrix_sync(o_frag, o_tile, ld_o, mem_row_major);
            for (int y = 0; y < Bc; y += 16) {
                load_matrix_sync(p_frag, P + tr * 16 * ld_p + y, ld_p);
                load_matrix_sync(v_frag, Vj + y * ld_h + tc * 16, ld_h);
                mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            store_matrix_sync(o_tile, o_frag, ld_o, mem_row_major);
        }
        __syncthreads();  // otherwise, thread can use the wrong Kj, Vj in inner loop
    }

    // Write O, L to HBM
    if (q_pos < N) {
        for (int x = sub; x < d; x += TPR)
            O[qkv_offset + q_pos * d + x] = __float2half(Oi[row * ld_o + x] / row_l_prev);
        if (sub == 0)
            L[l_offset + q_pos] = row_m_prev + __logf(row_l_prev);
    }
}

void forward(const half* Q, const half* K, const half* V, half* O, float* L, int B, int nh, int N, bool causal) {
    const int d = 64;
    const int Tc = (N + Bc - 1) / Bc; const int Tr = (N + Br - 1) / Br;
    const float softmax_scale = 1.0f / sqrtf(d);

    // Calculate SRAM size needed per block
    const int sram_size = (Br + 2 * Bc) * (d + 8) * sizeof(half) + Br * (Bc + 8) * sizeof(half)
                        + Br * (Bc + 4) * sizeof(float) + Br * (d + 4) * sizeof(float);

    dim3 grid_dim(B, nh, Tr);  // batch_size x num_heads x tiles
    forward_kernel<64><<<grid_dim, N_THREADS, sram_size>>>(Q, K, V, N, Tc, softmax_scale, causal, O, L);
}
