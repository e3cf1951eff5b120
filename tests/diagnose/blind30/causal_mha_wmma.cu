// Minimal flash attention forward, causal, on tensor cores (nvcuda::wmma).
//
//   Q, K, V, O : half  [B][H][N][D]     L : float [B][H][N]   (log-sum-exp, for the backward pass)
//
// One block has Br = 64 queries of one head and walks over the keys in tiles of Bc = 32. Each of the 4 warps has 16
// rows of S, P and O for itself, all of them live in shared memory:
//     S = Q K^T            (float)
//     P = exp(S - m)       (half)
//     O = O * exp(m_old - m_new) + P V   (float)
// Not the fastest (O goes through shared memory for each tile), but everything can be read off.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

constexpr int Br = 64;
constexpr int Bc = 32;
constexpr int NUM_WARPS = 4;
constexpr int NUM_THREADS = NUM_WARPS * 32;
constexpr int WM = 16, WN = 16, WK = 16;

template <int D>
struct Smem {
    static constexpr int LDQ = D + 8;    // halves
    static constexpr int LDS = Bc + 4;   // floats
    static constexpr int LDP = Bc + 8;   // halves
    static constexpr int LDO = D + 4;    // floats
    half q[Br * LDQ];
    half k[Bc * LDQ];
    half v[Bc * LDQ];
    half p[Br * LDP];
    float s[Br * LDS];
    float o[Br * LDO];
};

// rows [row0, row0 + ROWS) of a [N][D] matrix; rows behind N become 0
template <int ROWS, int D>
__device__ void load_rows(half *dst, const half *src, int row0, int N)
{
    constexpr int PER_ROW = D / 8;
    for (int i = threadIdx.x; i < ROWS * PER_ROW; i += NUM_THREADS) {
        int r = i / PER_ROW;
        int c = (i % PER_ROW) * 8;
        uint4 val = make_uint4(0, 0, 0, 0);
        if (row0 + r < N)
            val = *reinterpret_cast<const uint4 *>(src + (size_t)(row0 + r) * D + c);
        *reinterpret_cast<uint4 *>(dst + r * Smem<D>::LDQ + c) = val;
    }
}

template <int D>
__global__ void flash_attn_causal_fwd(const half *__restrict__ Q, const half *__restrict__ K,
                                      const half *__restrict__ V, half *__restrict__ O, float *__restrict__ L,
                                      int H, int N, float softmax_scale)
{
    extern __shared__ __align__(128) unsigned char smem_raw[];
    Smem<D> &sm = *reinterpret_cast<Smem<D> *>(smem_raw);
    constexpr int LDQ = Smem<D>::LDQ, LDS = Smem<D>::LDS, LDP = Smem<D>::LDP, LDO = Smem<D>::LDO;

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int q0 = blockIdx.x * Br;
    const int bh = blockIdx.z * H + blockIdx.y;
    const size_t head_offset = (size_t)bh * N * D;
    Q += head_offset;
    K += head_offset;
    V += head_offset;
    O += head_offset;

    load_rows<Br, D>(sm.q, Q, q0, N);
    for (int i = threadIdx.x; i < Br * LDO; i += NUM_THREADS)
        sm.o[i] = 0.0f;
    __syncthreads();

    // what this warp has of each matrix
    half *q_w = sm.q + warp * WM * LDQ;
    half *p_w = sm.p + warp * WM * LDP;
    float *s_w = sm.s + warp * WM * LDS;
    float *o_w = sm.o + warp * WM * LDO;

    // two lanes share a row: lane / 2 is the row, lane % 2 the half of its columns
    const int row = lane / 2;
    const int part = lane % 2;
    const int q_idx = q0 + warp * WM + row;
    float m_i = -INFINITY;
    float l_i = 0.0f;

    const int last_query = min(q0 + Br, N) - 1;
    const int num_tiles = last_query / Bc + 1;    // tiles behind the diagonal are skipped

    for (int j = 0; j < num_tiles; j++) {
        const int k0 = j * Bc;
        load_rows<Bc, D>(sm.k, K, k0, N);
        load_rows<Bc, D>(sm.v, V, k0, N);
        __syncthreads();

        // S = Q K^T: K is [key][d], which is K^T column-major
        for (int n = 0; n < Bc; n += WN) {
            wmma::fragment<wmma::accumulator, WM, WN, WK, float> s_frag;
            wmma::fill_fragment(s_frag, 0.0f);
            for (int d = 0; d < D; d += WK) {
                wmma::fragment<wmma::matrix_a, WM, WN, WK, half, wmma::row_major> q_frag;
                wmma::fragment<wmma::matrix_b, WM, WN, WK, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, q_w + d, LDQ);
                wmma::load_matrix_sync(k_frag, sm.k + n * LDQ + d, LDQ);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(s_w + n, s_frag, LDS, wmma::mem_row_major);
        }
        __syncwarp();

        // online softmax
        float m_tile = -INFINITY;
        for (int c = part * (Bc / 2); c < (part + 1) * (Bc / 2); c++) {
            float s = s_w[row * LDS + c] * softmax_scale;
            if (k0 + c > q_idx || k0 + c >= N)
                s = -INFINITY;
            s_w[row * LDS + c] = s;
            m_tile = fmaxf(m_tile, s);
        }
        m_tile = fmaxf(m_tile, __shfl_xor_sync(0xffffffff, m_tile, 1));
        const float m_new = fmaxf(m_i, m_tile);
        const float alpha = __expf(m_i - m_new);

        float l_tile = 0.0f;
        for (int c = part * (Bc / 2); c < (part + 1) * (Bc / 2); c++) {
            float p = __expf(s_w[row * LDS + c] - m_new);
            l_tile += p;
            p_w[row * LDP + c] = __float2half(p);
        }
        l_tile += __shfl_xor_sync(0xffffffff, l_tile, 1);
        l_i = l_i * alpha + l_tile;
        m_i = m_new;

        // what O has so far refers to the old maximum
        for (int c = part * (D / 2); c < (part + 1) * (D / 2); c++)
            o_w[row * LDO + c] *= alpha;
        __syncwarp();

        // O += P V
        for (int n = 0; n < D; n += WN) {
            wmma::fragment<wmma::accumulator, WM, WN, WK, float> o_frag;
            wmma::load_matrix_sync(o_frag, o_w + n, LDO, wmma::mem_row_major);
            for (int kk = 0; kk < Bc; kk += WK) {
                wmma::fragment<wmma::matrix_a, WM, WN, WK, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, WM, WN, WK, half, wmma::row_major> v_frag;
                wmma::load_matrix_sync(p_frag, p_w + kk, LDP);
                wmma::load_matrix_sync(v_frag, sm.v + kk * LDQ + n, LDQ);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(o_w + n, o_frag, LDO, wmma::mem_row_major);
        }
        __syncthreads();    // K and V are overwritten next
    }

    if (q_idx < N) {
        const float inv_l = 1.0f / l_i;
        for (int c = part * (D / 2); c < (part + 1) * (D / 2); c += 2) {
            const float *o = o_w + row * LDO + c;
            *reinterpret_cast<half2 *>(O + (size_t)q_idx * D + c) = __floats2half2_rn(o[0] * inv_l, o[1] * inv_l);
        }
        if (part == 0)
            L[(size_t)bh * N + q_idx] = m_i + __logf(l_i);
    }
}

template <int D>
void flash_attn_causal(const half *q, const half *k, const half *v, half *o, float *lse, int B, int H, int N)
{
    const int smem = sizeof(Smem<D>);
    cudaFuncSetAttribute(flash_attn_causal_fwd<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
    dim3 grid((N + Br - 1) / Br, H, B);
    flash_attn_causal_fwd<D><<<grid, NUM_THREADS, smem>>>(q, k, v, o, lse, H, N, 1.0f / sqrtf((float)D));
}

template void flash_attn_causal<64>(const half *, const half *, const half *, half *, float *, int, int, int);
