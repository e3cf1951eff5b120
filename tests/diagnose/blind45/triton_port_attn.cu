// A hand port of the Triton tutorial's fused attention (06-fused-attention.py) to CUDA C++.
//   Q, K, V, Out   half, [Z, N_CTX, H, HEAD_DIM] by way of the strides, HEAD_DIM = 64
//   L              float, [Z, H, N_CTX], log of the sum of exponentials
//   grid = (cdiv(N_CTX, BLOCK_M), Z * H), 4 warps
// What Triton keeps in registers (qk, p, acc) lives in shared memory here, since nobody
// may know which thread has which element of a wmma fragment.
#include <cuda_fp16.h>
#include <mma.h>

#ifndef INFINITY   // NVRTC has no math.h
#define INFINITY __int_as_float(0x7f800000)
#endif

namespace wmma = nvcuda::wmma;

constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 32;
constexpr int HEAD_DIM = 64;
constexpr int NUM_THREADS = 128;

constexpr int LD_H = HEAD_DIM + 8;   // q, k, v
constexpr int LD_S = BLOCK_N + 4;    // qk, float
constexpr int LD_P = BLOCK_N + 8;    // p, half
constexpr int LD_A = HEAD_DIM + 4;   // acc, float

// tl.load(ptr + offs, mask=offs_n < n_ctx, other=0.0)
__device__ __forceinline__ void load_block(half* dst, const half* src, int rows, int start, int n_ctx, int stride)
{
    for (int i = threadIdx.x; i < rows * (HEAD_DIM / 8); i += NUM_THREADS) {
        const int r = i / (HEAD_DIM / 8);
        const int c = (i % (HEAD_DIM / 8)) * 8;
        uint4 val = make_uint4(0u, 0u, 0u, 0u);
        if (start + r < n_ctx)
            val = *reinterpret_cast<const uint4*>(src + (size_t)(start + r) * stride + c);
        *reinterpret_cast<uint4*>(dst + r * LD_H + c) = val;
    }
}

template <bool CAUSAL>
__global__ void __launch_bounds__(NUM_THREADS)
attn_fwd_ported(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                float sm_scale, float* __restrict__ L, half* __restrict__ Out,
                int stride_z, int stride_h, int stride_n, int H, int N_CTX)
{
    __shared__ __align__(128) half  q_s[BLOCK_M * LD_H];
    __shared__ __align__(128) half  k_s[BLOCK_N * LD_H];
    __shared__ __align__(128) half  v_s[BLOCK_N * LD_H];
    __shared__ __align__(128) float qk_s[BLOCK_M * LD_S];
    __shared__ __align__(128) half  p_s[BLOCK_M * LD_P];
    __shared__ __align__(128) float acc_s[BLOCK_M * LD_A];

    const int start_m = blockIdx.x;
    const int off_hz  = blockIdx.y;
    const int off_z   = off_hz / H;
    const int off_h   = off_hz % H;
    const size_t qkv_offset = (size_t)off_z * stride_z + (size_t)off_h * stride_h;

    const int warp = threadIdx.x / 32;
    const int wm   = warp / 2;           // 16 queries
    const int wn   = warp % 2;           // 16 keys of qk, 32 columns of acc

    const int row  = threadIdx.x / 4;    // four threads share a row of the softmax
    const int part = threadIdx.x % 4;
    const int offs_m = start_m * BLOCK_M + row;

    const float qk_scale = sm_scale * 1.44269504f;   // 1 / log(2)
    float m_i = -INFINITY;
    float l_i = 0.0f;

    load_block(q_s, Q + qkv_offset, BLOCK_M, start_m * BLOCK_M, N_CTX, stride_n);
    for (int i = threadIdx.x; i < BLOCK_M * LD_A; i += NUM_THREADS)
        acc_s[i] = 0.0f;

    const int hi = CAUSAL ? min(N_CTX, (start_m + 1) * BLOCK_M) : N_CTX;
    for (int start_n = 0; start_n < hi; start_n += BLOCK_N) {
        __syncthreads();   // k, v, p of the block before are done with
        load_block(k_s, K + qkv_offset, BLOCK_N, start_n, N_CTX, stride_n);
        load_block(v_s, V + qkv_offset, BLOCK_N, start_n, N_CTX, stride_n);
        __syncthreads();

        // -- qk = tl.dot(q, k.T) --
        {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> qk;
            wmma::fill_fragment(qk, 0.0f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k;
                wmma::load_matrix_sync(q, q_s + wm * 16 * LD_H + d, LD_H);
                wmma::load_matrix_sync(k, k_s + wn * 16 * LD_H + d, LD_H);
                wmma::mma_sync(qk, q, k, qk);
            }
            wmma::store_matrix_sync(qk_s + wm * 16 * LD_S + wn * 16, qk, LD_S, wmma::mem_row_major);
        }
        __syncthreads();   // qk is complete

        // -- online softmax --
        float qk[BLOCK_N / 4];
        float m_ij = m_i;
        for (int j = 0; j < BLOCK_N / 4; j++) {
            const int c = j * 4 + part;
            const int offs_n = start_n + c;
            qk[j] = qk_s[row * LD_S + c] * qk_scale;
            if (offs_n >= N_CTX || (CAUSAL && offs_n > offs_m))
                qk[j] = -INFINITY;
            m_ij = fmaxf(m_ij, qk[j]);
        }
        m_ij = fmaxf(m_ij, __shfl_xor_sync(0xffffffffu, m_ij, 1));
        m_ij = fmaxf(m_ij, __shfl_xor_sync(0xffffffffu, m_ij, 2));

        float l_ij = 0.0f;
        for (int j = 0; j < BLOCK_N / 4; j++) {
            const float p = exp2f(qk[j] - m_ij);
            l_ij += p;
            p_s[row * LD_P + j * 4 + part] = __float2half(p);
        }
        l_ij += __shfl_xor_sync(0xffffffffu, l_ij, 1);
        l_ij += __shfl_xor_sync(0xffffffffu, l_ij, 2);

        const float alpha = exp2f(m_i - m_ij);
        l_i = l_i * alpha + l_ij;
        m_i = m_ij;
        for (int c = part; c < HEAD_DIM; c += 4)
            acc_s[row * LD_A + c] *= alpha;
        __syncthreads();

        // -- acc += tl.dot(p, v) --
        for (int n = 0; n < 2; n++) {
            float* out_tile = acc_s + wm * 16 * LD_A + (wn * 2 + n) * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, out_tile, LD_A, wmma::mem_row_major);
            for (int k = 0; k < BLOCK_N; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v;
                wmma::load_matrix_sync(p, p_s + wm * 16 * LD_P + k, LD_P);
                wmma::load_matrix_sync(v, v_s + k * LD_H + (wn * 2 + n) * 16, LD_H);
                wmma::mma_sync(acc, p, v, acc);
            }
            wmma::store_matrix_sync(out_tile, acc, LD_A, wmma::mem_row_major);
        }
    }
    __syncthreads();

    // -- epilogue --
    if (offs_m < N_CTX) {
        const float inv_l = 1.0f / l_i;
        half* out_row = Out + qkv_offset + (size_t)offs_m * stride_n;
        for (int c = part; c < HEAD_DIM; c += 4)
            out_row[c] = __float2half(acc_s[row * LD_A + c] * inv_l);
        if (part == 0)
            L[(size_t)off_hz * N_CTX + offs_m] = (m_i + log2f(l_i)) * 0.69314718f;
    }
}
