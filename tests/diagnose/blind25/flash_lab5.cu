/*
 * Parallel Programming, Lab 5: FlashAttention (forward) on Tensor Cores
 *
 *   O = softmax(Q K^T * scale) V        Q, K, V, O: [B, H, N, D], half
 *   L = logsumexp of every row          L: [B, H, N], float (needed by the backward pass, part 2 of the lab)
 *
 * One thread block works on BR = 32 queries of one head. 4 warps in a 2 x 2 grid:
 *
 *      S (32 x 32):  warp w computes the 16 x 16 tile    (w / 2, w % 2)
 *      O (32 x D):   warp w computes 16 rows x D/2 cols  (w / 2, w % 2)
 *
 * Softmax is done by all 128 threads, 4 neighbouring threads share a row.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

#define BR 32
#define BC 32
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)
#define TPR (NUM_THREADS / BR) // threads per row

// leading dimensions, padded against bank conflicts
#define LDH(D) ((D) + 8)
#define LDS (BC + 4)
#define LDP (BC + 8)
#define LDO(D) ((D) + 4)

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragBT;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> FragB;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;

__device__ float row_max(float x)
{
    for (int off = TPR / 2; off > 0; off >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, off));
    return x;
}

__device__ float row_sum(float x)
{
    for (int off = TPR / 2; off > 0; off >>= 1)
        x += __shfl_xor_sync(0xffffffff, x, off);
    return x;
}

// Copies a (rows x D) tile to shared memory, 8 halfs per thread. Rows >= valid become 0.
template <int D>
__device__ void load_tile(half *dst, const half *src, int rows, int valid)
{
    for (int idx = threadIdx.x; idx < rows * (D / 8); idx += NUM_THREADS) {
        int r = idx / (D / 8);
        int c = idx % (D / 8) * 8;
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
        if (r < valid)
            v = *reinterpret_cast<const float4 *>(src + r * D + c);
        *reinterpret_cast<float4 *>(dst + r * LDH(D) + c) = v;
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(NUM_THREADS)
    flash_forward(const half *Q, const half *K, const half *V, half *O, float *L, int N, float scale)
{
    // ---- shared memory ----
    extern __shared__ __align__(128) unsigned char smem[];
    half *Qs = reinterpret_cast<half *>(smem);
    half *Ks = Qs + BR * LDH(D);
    half *Vs = Ks + BC * LDH(D);
    half *Ps = Vs + BC * LDH(D);
    float *Ss = reinterpret_cast<float *>(Ps + BR * LDP);
    float *Os = Ss + BR * LDS;

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wr = warp / 2; // which 16 rows
    const int wc = warp % 2; // which columns
    const int row = tid / TPR;
    const int sub = tid % TPR;

    const int q0 = blockIdx.x * BR;
    const size_t head = (size_t)blockIdx.y * N * D;
    Q += head;
    K += head;
    V += head;
    O += head;

    load_tile<D>(Qs, Q + (size_t)q0 * D, BR, N - q0);
    for (int i = tid; i < BR * LDO(D); i += NUM_THREADS)
        Os[i] = 0.f;

    // running maximum and sum of my row (the 4 threads of a row have the same copy)
    float m = -INFINITY;
    float l = 0.f;

    int num_tiles = (N + BC - 1) / BC;
    if (CAUSAL)
        num_tiles = min(num_tiles, (q0 + BR - 1) / BC + 1); // nothing to do above the diagonal

    for (int j = 0; j < num_tiles; j++) {
        const int k0 = j * BC;
        load_tile<D>(Ks, K + (size_t)k0 * D, BC, N - k0);
        load_tile<D>(Vs, V + (size_t)k0 * D, BC, N - k0);
        __syncthreads();

        // ---- step 1: S = Q K^T ----
        FragC s_frag;
        wmma::fill_fragment(s_frag, 0.f);
        for (int k = 0; k < D; k += 16) {
            FragA q_frag;
            FragBT k_frag;
            wmma::load_matrix_sync(q_frag, Qs + wr * 16 * LDH(D) + k, LDH(D));
            wmma::load_matrix_sync(k_frag, Ks + wc * 16 * LDH(D) + k, LDH(D));
            wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
        }
        wmma::store_matrix_sync(Ss + wr * 16 * LDS + wc * 16, s_frag, LDS, wmma::mem_row_major);
        __syncthreads();

        // ---- step 2: online softmax ----
        float s[BC / TPR];
        float m_tile = -INFINITY;
        for (int i = 0; i < BC / TPR; i++) {
            const int c = i * TPR + sub;
            s[i] = Ss[row * LDS + c] * scale;
            if (k0 + c >= N)
                s[i] = -INFINITY;
            if (CAUSAL && k0 + c > q0 + row)
                s[i] = -INFINITY;
            m_tile = fmaxf(m_tile, s[i]);
        }
        m_tile = row_max(m_tile);
        const float m_new = fmaxf(m, m_tile);
        const float alpha = expf(m - m_new);

        float l_tile = 0.f;
        for (int i = 0; i < BC / TPR; i++) {
            const float p = expf(s[i] - m_new);
            Ps[row * LDP + i * TPR + sub] = __float2half(p);
            l_tile += p;
        }
        l = l * alpha + row_sum(l_tile);
        m = m_new;

        for (int c = sub; c < D; c += TPR)
            Os[row * LDO(D) + c] *= alpha;
        __syncthreads();

        // ---- step 3: O += P V ----
        for (int n = 0; n < D / 2; n += 16) {
            const int col = wc * (D / 2) + n;
            FragC o_frag;
            wmma::load_matrix_sync(o_frag, Os + wr * 16 * LDO(D) + col, LDO(D), wmma::mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                FragA p_frag;
                FragB v_frag;
                wmma::load_matrix_sync(p_frag, Ps + wr * 16 * LDP + k, LDP);
                wmma::load_matrix_sync(v_frag, Vs + k * LDH(D) + col, LDH(D));
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(Os + wr * 16 * LDO(D) + col, o_frag, LDO(D), wmma::mem_row_major);
        }
        __syncthreads(); // K, V, P are overwritten by the next tile
    }

    // ---- step 4: normalise and write back ----
    if (q0 + row < N) {
        const float inv_l = 1.f / l;
        for (int c = sub; c < D; c += TPR)
            O[(size_t)(q0 + row) * D + c] = __float2half(Os[row * LDO(D) + c] * inv_l);
        if (sub == 0)
            L[(size_t)blockIdx.y * N + q0 + row] = m + logf(l);
    }
}

template <int D>
size_t smem_size()
{
    return sizeof(half) * ((BR + 2 * BC) * LDH(D) + BR * LDP) + sizeof(float) * (BR * LDS + BR * LDO(D));
}

template <int D>
void flash_attention(const half *Q, const half *K, const half *V, half *O, float *L, int B, int H, int N, bool causal)
{
    dim3 grid((N + BR - 1) / BR, B * H);
    const float scale = 1.f / sqrtf((float)D);
    if (causal)
        flash_forward<D, true><<<grid, NUM_THREADS, smem_size<D>()>>>(Q, K, V, O, L, N, scale);
    else
        flash_forward<D, false><<<grid, NUM_THREADS, smem_size<D>()>>>(Q, K, V, O, L, N, scale);
}

template void flash_attention<64>(const half *, const half *, const half *, half *, float *, int, int, int, bool);
