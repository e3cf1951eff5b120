// Chunkwise retention (linear attention with an exponential decay per head), forward.
//
//   o_t = sum_{s <= t} g^(t-s) (q_t . k_s) v_s
//
// computed chunk by chunk:  O = (Q K^T * D) V + diag(g^(i+1)) Q S,   S <- g^C S + K^T diag(g^(C-1-j)) V
// q, k, v, o: [BH][T][DIM] fp32, state_out: [BH][DIM][DIM] fp32, log2_decay: [H].  TF32 tensor cores.

#include <cuda_runtime.h>
#include <mma.h>

namespace retention {

namespace w = nvcuda::wmma;

constexpr int DIM = 32;
constexpr int CHUNK = 32;
constexpr int LD = 36;

using FragA = w::fragment<w::matrix_a, 16, 16, 8, w::precision::tf32, w::row_major>;
using FragAT = w::fragment<w::matrix_a, 16, 16, 8, w::precision::tf32, w::col_major>;
using FragB = w::fragment<w::matrix_b, 16, 16, 8, w::precision::tf32, w::row_major>;
using FragBT = w::fragment<w::matrix_b, 16, 16, 8, w::precision::tf32, w::col_major>;
using FragC = w::fragment<w::accumulator, 16, 16, 8, float>;

template <class Frag>
__device__ __forceinline__ void load_tf32(Frag &f, const float *p)
{
    w::load_matrix_sync(f, p, LD);
#pragma unroll
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = w::__float_to_tf32(f.x[i]);
}

// how element (r, c) of an operand lies in memory: plain or transposed
template <class Frag> struct is_col { static constexpr bool value = false; };
template <> struct is_col<FragAT> { static constexpr bool value = true; };
template <> struct is_col<FragBT> { static constexpr bool value = true; };

template <class A, class B, int DEPTH>
__device__ void tile_product(FragC &c, const float *a, const float *b, int row, int col)
{
    for (int d = 0; d < DEPTH; d += 8) {
        A fa;
        B fb;
        load_tf32(fa, is_col<A>::value ? a + d * LD + row : a + row * LD + d);
        load_tf32(fb, is_col<B>::value ? b + col * LD + d : b + d * LD + col);
        w::mma_sync(c, fa, fb, c);
    }
}

struct Shared {
    float q[CHUNK * LD];
    float k[CHUNK * LD];
    float v[CHUNK * LD];
    float att[CHUNK * LD];
    float state[DIM * LD];
};

__global__ void __launch_bounds__(128)
retention_fwd(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
              const float *__restrict__ log2_decay, float *__restrict__ o, float *__restrict__ state_out, int T, int H)
{
    __shared__ __align__(128) Shared sm;

    const int bh = blockIdx.x;
    const size_t base = (size_t)bh * T * DIM;
    const float lg = log2_decay[bh % H];
    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int row = (warp / 2) * 16, col = (warp % 2) * 16;      // of this warp's tile in every 32x32 product

    for (int i = tid; i < DIM * LD; i += blockDim.x) sm.state[i] = 0.f;

    for (int t0 = 0; t0 < T; t0 += CHUNK) {
        const int len = min(CHUNK, T - t0);

        for (int i = tid; i < CHUNK * DIM; i += blockDim.x) {
            const int t = i / DIM, d = i % DIM;
            const bool in = t < len;
            const size_t g = base + (size_t)(t0 + t) * DIM + d;
            sm.q[t * LD + d] = in ? q[g] : 0.f;
            sm.k[t * LD + d] = in ? k[g] : 0.f;
            sm.v[t * LD + d] = in ? v[g] : 0.f;
        }
        __syncthreads();

        // within the chunk: decayed, causal scores
        FragC s;
        w::fill_fragment(s, 0.f);
        tile_product<FragA, FragBT, DIM>(s, sm.q, sm.k, row, col);
        w::store_matrix_sync(sm.att + row * LD + col, s, LD, w::mem_row_major);
        __syncthreads();
        for (int e = tid; e < CHUNK * CHUNK; e += blockDim.x) {
            const int i = e / CHUNK, j = e % CHUNK;
            sm.att[i * LD + j] = j <= i ? sm.att[i * LD + j] * exp2f(lg * (i - j)) : 0.f;
        }
        // queries decay with their distance from the chunk's start, values to its end
        for (int e = tid; e < CHUNK * DIM; e += blockDim.x) {
            const int t = e / DIM, d = e % DIM;
            sm.q[t * LD + d] *= exp2f(lg * (t + 1));
        }
        __syncthreads();

        FragC out;
        w::fill_fragment(out, 0.f);
        tile_product<FragA, FragB, CHUNK>(out, sm.att, sm.v, row, col);
        tile_product<FragA, FragB, DIM>(out, sm.q, sm.state, row, col);
        __syncthreads();

        w::store_matrix_sync(sm.att + row * LD + col, out, LD, w::mem_row_major);
        for (int e = tid; e < CHUNK * DIM; e += blockDim.x) {
            const int t = e / DIM, d = e % DIM;
            sm.v[t * LD + d] *= t < len ? exp2f(lg * (len - 1 - t)) : 0.f;
        }
        __syncthreads();

        for (int i = tid; i < len * DIM; i += blockDim.x)
            o[base + (size_t)t0 * DIM + i] = sm.att[(i / DIM) * LD + i % DIM];

        // the state at the end of the chunk
        FragC st;
        w::load_matrix_sync(st, sm.state + row * LD + col, LD, w::mem_row_major);
        const float chunk_decay = exp2f(lg * len);
#pragma unroll
        for (int i = 0; i < st.num_elements; ++i) st.x[i] *= chunk_decay;
        tile_product<FragAT, FragB, CHUNK>(st, sm.k, sm.v, row, col);
        w::store_matrix_sync(sm.state + row * LD + col, st, LD, w::mem_row_major);
        __syncthreads();
    }

    for (int i = tid; i < DIM * DIM; i += blockDim.x)
        state_out[(size_t)bh * DIM * DIM + i] = sm.state[(i / DIM) * LD + i % DIM];
}

inline void launch(const float *q, const float *k, const float *v, const float *log2_decay, float *o, float *state, int B,
                   int H, int T, cudaStream_t stream)
{
    retention_fwd<<<B * H, 128, 0, stream>>>(q, k, v, log2_decay, o, state, T, H);
}

} // namespace retention
