// Causal linear attention, chunk by chunk:
//
//   o_t = q_t * S_t,   S_t = sum_{s <= t} k_s^T v_s          (no softmax, no normaliser)
//
// For a chunk C of 16 steps:  O = Q S + tril(Q K^T) V,  then  S += K^T V.
// One block per (batch, head); each of the 4 warps owns 16 of the 64 value columns, for which it keeps the state S
// (64 x 16) in four accumulator fragments. The state's copy in half precision serves as operand.

#include <mma.h>
#include <cuda_fp16.h>

namespace wm = nvcuda::wmma;

#define CHUNK   16
#define DIM     64
#define NWARP   4
#define LDX     (DIM + 8)     // q, k, v
#define LDP     (CHUNK + 8)   // masked scores

typedef wm::fragment<wm::accumulator, 16, 16, 16, float> acc_t;
typedef wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> a_row_t;
typedef wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::col_major> a_col_t;
typedef wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> b_row_t;
typedef wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major> b_col_t;

struct __align__(128) Smem {
    half  q[CHUNK * LDX];
    half  k[CHUNK * LDX];
    half  v[CHUNK * LDX];
    half  state[NWARP][DIM * 24];
    half  p[NWARP][CHUNK * LDP];
    float tmp[NWARP][16 * 16];
};

__global__ void linear_attention_fwd(const half* Q, const half* K, const half* V, float* O, int T)
{
    __shared__ Smem sm;
    const int tid = threadIdx.x, w = tid / 32, lane = tid % 32;
    const long base = (long)blockIdx.x * T * DIM;

    acc_t S[DIM / 16];
    for (int i = 0; i < DIM / 16; i++) wm::fill_fragment(S[i], 0.f);

    for (int t0 = 0; t0 < T; t0 += CHUNK) {
        // ---- the chunk's q, k, v (zero behind the last step)
        for (int i = tid; i < CHUNK * DIM; i += NWARP * 32) {
            const int t = i / DIM, d = i % DIM;
            const bool in = t0 + t < T;
            const long g = base + (long)(t0 + t) * DIM + d;
            sm.q[t * LDX + d] = in ? Q[g] : __float2half(0.f);
            sm.k[t * LDX + d] = in ? K[g] : __float2half(0.f);
            sm.v[t * LDX + d] = in ? V[g] : __float2half(0.f);
        }

        // ---- the state so far, in half
        for (int i = 0; i < DIM / 16; i++) {
            wm::store_matrix_sync(sm.tmp[w], S[i], 16, wm::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32)
                sm.state[w][(i * 16 + e / 16) * 24 + e % 16] = __float2half(sm.tmp[w][e]);
            __syncwarp();
        }
        __syncthreads();

        // ---- scores of the chunk, causal; every warp computes them for itself
        acc_t s;
        wm::fill_fragment(s, 0.f);
        for (int d = 0; d < DIM; d += 16) {
            a_row_t q;
            b_col_t k;
            wm::load_matrix_sync(q, sm.q + d, LDX);
            wm::load_matrix_sync(k, sm.k + d, LDX);
            wm::mma_sync(s, q, k, s);
        }
        wm::store_matrix_sync(sm.tmp[w], s, 16, wm::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int i = e / 16, j = e % 16;
            sm.p[w][i * LDP + j] = __float2half(j <= i ? sm.tmp[w][e] : 0.f);
        }
        __syncwarp();

        // ---- O = tril(Q K^T) V + Q S
        acc_t o;
        wm::fill_fragment(o, 0.f);
        a_row_t p;
        b_row_t v;
        wm::load_matrix_sync(p, sm.p[w], LDP);
        wm::load_matrix_sync(v, sm.v + w * 16, LDX);
        wm::mma_sync(o, p, v, o);
        for (int d = 0; d < DIM; d += 16) {
            a_row_t q;
            b_row_t st;
            wm::load_matrix_sync(q, sm.q + d, LDX);
            wm::load_matrix_sync(st, sm.state[w] + d * 24, 24);
            wm::mma_sync(o, q, st, o);
        }

        // ---- S += K^T V: K is stored by steps, so its transpose is column-major
        for (int i = 0; i < DIM / 16; i++) {
            a_col_t kt;
            wm::load_matrix_sync(kt, sm.k + i * 16, LDX);
            wm::mma_sync(S[i], kt, v, S[i]);
        }

        // ---- write out
        wm::store_matrix_sync(sm.tmp[w], o, 16, wm::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int t = t0 + e / 16;
            if (t < T) O[base + (long)t * DIM + w * 16 + e % 16] = sm.tmp[w][e];
        }
        __syncthreads();
    }
}

void linear_attention(const half* q, const half* k, const half* v, float* o, int batch, int heads, int T,
                      cudaStream_t stream)
{
    linear_attention_fwd<<<batch * heads, NWARP * 32, 0, stream>>>(q, k, v, o, T);
}
