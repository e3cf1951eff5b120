/*
 * Toy FlashAttention forward pass with tensor cores (WMMA).
 *
 *   Q, K, V, O : [B, H, N, D] fp16
 *
 * One thread block handles Br query rows of one (batch, head). K and V are walked in tiles of Bc rows.
 * Everything lives in shared memory: Qs, Ks, Vs (half), S (float), P (half), Oacc (float), running max m and
 * running sum l. Not the fastest, but easy to follow next to Algorithm 1 of the paper.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kPad = 8;

__device__ __forceinline__ float warp_reduce_max(float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, mask));
    return v;
}

__device__ __forceinline__ float warp_reduce_sum(float v) {
#pragma unroll
    for (int delta = 16; delta > 0; delta >>= 1) v += __shfl_xor_sync(0xffffffffu, v, delta);
    return v;
}

// copies `rows` x D halves, 8 at a time; rows past the end of the sequence become zeros
template <int rows, int D>
__device__ void load_tile(half *dst, const half *src, int first_row, int N) {
    constexpr int vecs = D / 8;
    for (int i = threadIdx.x; i < rows * vecs; i += kThreads) {
        int r = i / vecs;
        int c = (i % vecs) * 8;
        float4 val = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first_row + r < N) {
            val = *reinterpret_cast<const float4 *>(src + (size_t)(first_row + r) * D + c);
        }
        *reinterpret_cast<float4 *>(dst + r * (D + kPad) + c) = val;
    }
}

template <int Br, int Bc, int D>
__global__ void flash_attention_forward(const half *__restrict__ Q, const half *__restrict__ K,
                                        const half *__restrict__ V, half *__restrict__ O, int N, float softmax_scale,
                                        int is_causal) {
    constexpr int ldH = D + kPad;   // Q, K, V
    constexpr int ldS = Bc + 4;     // S (float)
    constexpr int ldP = Bc + kPad;  // P (half)
    constexpr int ldO = D + 4;      // O (float)

    extern __shared__ __align__(128) char smem[];
    half *Qs = reinterpret_cast<half *>(smem);
    half *Ks = Qs + Br * ldH;
    half *Vs = Ks + Bc * ldH;
    half *P = Vs + Bc * ldH;
    float *S = reinterpret_cast<float *>(P + Br * ldP);
    float *Oacc = S + Br * ldS;
    float *m = Oacc + Br * ldO;
    float *l = m + Br;

    const int tid = threadIdx.x;
    const int warp_id = tid / 32;
    const int lane = tid % 32;
    const int q0 = blockIdx.x * Br;

    const size_t head_offset = (size_t)(blockIdx.z * gridDim.y + blockIdx.y) * N * D;
    const half *q = Q + head_offset;
    const half *k = K + head_offset;
    const half *v = V + head_offset;
    half *o = O + head_offset;

    load_tile<Br, D>(Qs, q, q0, N);
    for (int i = tid; i < Br * ldO; i += kThreads) Oacc[i] = 0.f;
    for (int i = tid; i < Br; i += kThreads) {
        m[i] = -CUDART_INF_F;
        l[i] = 0.f;
    }

    // tiles right of the diagonal are skipped
    const int kv_end = is_causal ? min(N, q0 + Br) : N;
    for (int kv0 = 0; kv0 < kv_end; kv0 += Bc) {
        __syncthreads();  // everybody is done with the last K, V
        load_tile<Bc, D>(Ks, k, kv0, N);
        load_tile<Bc, D>(Vs, v, kv0, N);
        __syncthreads();

        // S = Q K^T, 16x16 tiles round robin over the warps
        for (int t = warp_id; t < (Br / 16) * (Bc / 16); t += kWarps) {
            const int ti = t / (Bc / 16);
            const int tj = t % (Bc / 16);
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.f);
#pragma unroll
            for (int d = 0; d < D; d += 16) {
                wmma::load_matrix_sync(q_frag, Qs + ti * 16 * ldH + d, ldH);
                wmma::load_matrix_sync(k_frag, Ks + tj * 16 * ldH + d, ldH);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(S + ti * 16 * ldS + tj * 16, s_frag, ldS, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax, one row per warp at a time
        for (int r = warp_id; r < Br; r += kWarps) {
            const int q_idx = q0 + r;
            float tile_max = -CUDART_INF_F;
            for (int c = lane; c < Bc; c += 32) {
                const int k_idx = kv0 + c;
                float s = S[r * ldS + c] * softmax_scale;
                if (k_idx >= N || (is_causal && k_idx > q_idx)) s = -CUDART_INF_F;
                S[r * ldS + c] = s;
                tile_max = fmaxf(tile_max, s);
            }
            tile_max = warp_reduce_max(tile_max);

            const float m_old = m[r];
            const float m_new = fmaxf(m_old, tile_max);
            const float correction = __expf(m_old - m_new);
            float tile_sum = 0.f;
            for (int c = lane; c < Bc; c += 32) {
                const float p = __expf(S[r * ldS + c] - m_new);
                P[r * ldP + c] = __float2half(p);
                tile_sum += p;
            }
            tile_sum = warp_reduce_sum(tile_sum);
            for (int d = lane; d < D; d += 32) Oacc[r * ldO + d] *= correction;
            __syncwarp();  // all lanes have read m[r]
            if (lane == 0) {
                m[r] = m_new;
                l[r] = l[r] * correction + tile_sum;
            }
        }
        __syncthreads();

        // O += P V
        for (int t = warp_id; t < (Br / 16) * (D / 16); t += kWarps) {
            const int ti = t / (D / 16);
            const int td = t % (D / 16);
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, Oacc + ti * 16 * ldO + td * 16, ldO, wmma::mem_row_major);
#pragma unroll
            for (int j = 0; j < Bc; j += 16) {
                wmma::load_matrix_sync(p_frag, P + ti * 16 * ldP + j, ldP);
                wmma::load_matrix_sync(v_frag, Vs + j * ldH + td * 16, ldH);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(Oacc + ti * 16 * ldO + td * 16, o_frag, ldO, wmma::mem_row_major);
        }
    }
    __syncthreads();

    // normalise and write back
    for (int i = tid; i < Br * D / 2; i += kThreads) {
        const int r = i / (D / 2);
        const int d = (i % (D / 2)) * 2;
        if (q0 + r < N) {
            const float inv_l = 1.f / l[r];
            half2 out = __floats2half2_rn(Oacc[r * ldO + d] * inv_l, Oacc[r * ldO + d + 1] * inv_l);
            *reinterpret_cast<half2 *>(o + (size_t)(q0 + r) * D + d) = out;
        }
    }
}

template <int Br, int Bc, int D>
constexpr size_t smem_size() {
    return (Br + 2 * Bc) * (D + kPad) * sizeof(half) + Br * (Bc + kPad) * sizeof(half) +
           Br * (Bc + 4 + D + 4 + 2) * sizeof(float);
}

void launch_flash_attention(const half *Q, const half *K, const half *V, half *O, int B, int H, int N, bool causal) {
    constexpr int Br = 64, Bc = 32, D = 64;
    dim3 grid((N + Br - 1) / Br, H, B);
    auto kernel = flash_attention_forward<Br, Bc, D>;
    const size_t bytes = smem_size<Br, Bc, D>();
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<grid, kThreads, bytes>>>(Q, K, V, O, N, 1.0f / sqrtf((float)D), causal);
}
