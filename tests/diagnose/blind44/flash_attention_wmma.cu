// Flash attention forward pass on tensor cores, written to learn the WMMA API.
//
// One block computes a tile of BR query rows of one head. It walks over the keys in tiles of BC and keeps the
// running maximum and sum of the softmax for each row (4 threads share a row). All matrices live in shared memory:
//
//   S = Q * K^T      (BR x BC, float)
//   P = softmax(S)   (BR x BC, half)
//   O = O + P * V    (BR x HEAD_DIM, float)
//
// Q, K, V, O: [batch, heads, N, HEAD_DIM]
// launch: grid(ceil(N / BR), heads, batch), 128 threads
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BR 32
#define BC 32
#define HEAD_DIM 64
#define NUM_THREADS 128
#define NUM_WARPS (NUM_THREADS / 32)
#define PAD 8
#define NEG_INF -1e30f

__global__ void flash_attn_wmma_kernel(const half* Q, const half* K, const half* V, float* O,
                                       int N, float softmax_scale, int causal)
{
    __shared__ __align__(32) half sQ[BR][HEAD_DIM + PAD];
    __shared__ __align__(32) half sK[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half sV[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half sP[BR][BC + PAD];
    __shared__ __align__(32) float sS[BR][BC + 4];
    __shared__ __align__(32) float sO[BR][HEAD_DIM + 4];

    int tid = threadIdx.x;
    int warp_id = tid / 32;
    int q_tile = blockIdx.x;
    int head = blockIdx.y;
    int batch = blockIdx.z;

    // start of this head
    size_t base = ((size_t)batch * gridDim.y + head) * N * HEAD_DIM;

    // softmax: thread works on row r, on every 4th column beginning with part
    int r = tid / 4;
    int part = tid % 4;
    int q_idx = q_tile * BR + r;
    float m_i = NEG_INF;
    float l_i = 0.0f;

    // load the Q tile (8 halfs at a time), clear O
    for (int i = tid; i < BR * HEAD_DIM / 8; i += NUM_THREADS) {
        int row = i / (HEAD_DIM / 8);
        int col = i % (HEAD_DIM / 8) * 8;
        int q_row = q_tile * BR + row;
        float4 val = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (q_row < N)
            val = *(const float4*)&Q[base + q_row * HEAD_DIM + col];
        *(float4*)&sQ[row][col] = val;
        for (int c = 0; c < 8; c++)
            sO[row][col + c] = 0.0f;
    }

    int num_kv_tiles = (N + BC - 1) / BC;
    for (int j = 0; j < num_kv_tiles; j++) {
        int kv_start = j * BC;

        // all keys of this tile and of those behind it are in the future
        if (causal && kv_start > q_tile * BR + BR - 1)
            break;

        // load K and V tiles
        for (int i = tid; i < BC * HEAD_DIM / 8; i += NUM_THREADS) {
            int row = i / (HEAD_DIM / 8);
            int col = i % (HEAD_DIM / 8) * 8;
            int kv_row = kv_start + row;
            float4 k_val = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            float4 v_val = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (kv_row < N) {
                k_val = *(const float4*)&K[base + kv_row * HEAD_DIM + col];
                v_val = *(const float4*)&V[base + kv_row * HEAD_DIM + col];
            }
            *(float4*)&sK[row][col] = k_val;
            *(float4*)&sV[row][col] = v_val;
        }
        __syncthreads();

        // S = Q * K^T, every warp computes one 16x16 tile of the 32x32
        {
            int wr = warp_id / 2;
            int wc = warp_id % 2;
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.0f);
            for (int k = 0; k < HEAD_DIM; k += 16) {
                wmma::load_matrix_sync(q_frag, &sQ[wr * 16][k], HEAD_DIM + PAD);
                wmma::load_matrix_sync(k_frag, &sK[wc * 16][k], HEAD_DIM + PAD);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            for (int t = 0; t < s_frag.num_elements; t++)
                s_frag.x[t] *= softmax_scale;
            wmma::store_matrix_sync(&sS[wr * 16][wc * 16], s_frag, BC + 4, wmma::mem_row_major);
        }
        __syncthreads();

        // mask and row maximum
        float m_new = m_i;
        for (int c = part; c < BC; c += 4) {
            int k_idx = kv_start + c;
            if (k_idx >= N || (causal && k_idx > q_idx))
                sS[r][c] = NEG_INF;
            m_new = fmaxf(m_new, sS[r][c]);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 2));

        // P = exp(S - m) and row sum
        float row_sum = 0.0f;
        for (int c = part; c < BC; c += 4) {
            float p = __expf(sS[r][c] - m_new);
            row_sum += p;
            sP[r][c] = __float2half(p);
        }
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, 1);
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, 2);

        // rescale what we have so far
        float alpha = __expf(m_i - m_new);
        for (int c = part; c < HEAD_DIM; c += 4)
            sO[r][c] *= alpha;
        l_i = l_i * alpha + row_sum;
        m_i = m_new;
        __syncthreads();

        // O += P * V, 8 tiles of 16x16 for 4 warps
        for (int t = warp_id; t < (BR / 16) * (HEAD_DIM / 16); t += NUM_WARPS) {
            int o_row = t / (HEAD_DIM / 16) * 16;
            int o_col = t % (HEAD_DIM / 16) * 16;
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, &sO[o_row][o_col], HEAD_DIM + 4, wmma::mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                wmma::load_matrix_sync(p_frag, &sP[o_row][k], BC + PAD);
                wmma::load_matrix_sync(v_frag, &sV[k][o_col], HEAD_DIM + PAD);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(&sO[o_row][o_col], o_frag, HEAD_DIM + 4, wmma::mem_row_major);
        }
        __syncthreads(); // K, V and P are overwritten in the next iteration
    }

    // divide by the sum and write the tile
    if (q_idx < N) {
        for (int c = part; c < HEAD_DIM; c += 4)
            O[base + q_idx * HEAD_DIM + c] = sO[r][c] / l_i;
    }
}
