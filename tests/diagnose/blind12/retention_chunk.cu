// RetNet retention, chunkwise recurrent form.
//   o_i = sum_{j <= i} gamma^(i-j) (q_i . k_j) v_j
// One block per (head, batch) goes over the chunks; the state S [DK, DV] stays in shared memory.
#include <cuda_fp16.h>
#include <mma.h>

namespace wm = nvcuda::wmma;

constexpr int C = 32;     // chunk
constexpr int DK = 32;
constexpr int DV = 32;
constexpr int LH = 40;    // leading dimension of half tiles
constexpr int LF = 36;    // of float tiles

using fa_row = wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major>;
using fa_col = wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::col_major>;
using fb_row = wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major>;
using fb_col = wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major>;
using facc = wm::fragment<wm::accumulator, 16, 16, 16, float>;

// acc += A(16 x 32 at a) * B(32 x 16 at b)
template <class FA, class FB>
__device__ void mma32(facc &acc, const half *a, int step_a, const half *b, int step_b) {
    for (int k = 0; k < 32; k += 16) {
        FA fa;
        FB fb;
        wm::load_matrix_sync(fa, a + k * step_a, LH);
        wm::load_matrix_sync(fb, b + k * step_b, LH);
        wm::mma_sync(acc, fa, fb, acc);
    }
}

__global__ void retention_fwd(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
                              const float *__restrict__ log_gamma, float *__restrict__ o,
                              float *__restrict__ final_state, int T, int H) {
    __shared__ __align__(32) half sq[C * LH], sk[C * LH], sv[C * LH], sa[C * LH], ss[DK * LH];
    __shared__ __align__(32) float state[DK * LF], tmp[C * LF];
    __shared__ float decay[C + 1];           // gamma^n

    const int h = blockIdx.x, b = blockIdx.y;
    const int tid = threadIdx.x, warp = tid / 32;
    const int r0 = warp / 2 * 16, c0 = warp % 2 * 16;
    const float lg = log_gamma[h];

    if (tid <= C) decay[tid] = expf(lg * tid);
    for (int i = tid; i < DK * LF; i += blockDim.x) state[i] = 0.f;

    for (int t0 = 0; t0 < T; t0 += C) {
        const int len = min(C, T - t0);
        // [B, T, H, D]
        for (int i = tid; i < C * 32; i += blockDim.x) {
            const int r = i / 32, c = i % 32;
            const size_t src = (((size_t)b * T + t0 + r) * H + h) * 32 + c;
            sq[r * LH + c] = r < len ? q[src] : __float2half(0.f);
            sk[r * LH + c] = r < len ? k[src] : __float2half(0.f);
            sv[r * LH + c] = r < len ? v[src] : __float2half(0.f);
        }
        __syncthreads();
        for (int i = tid; i < DK * DV; i += blockDim.x)
            ss[i / DV * LH + i % DV] = __float2half(state[i / DV * LF + i % DV]);

        // within the chunk: A = (Q K^T) o D
        facc acc;
        wm::fill_fragment(acc, 0.f);
        mma32<fa_row, fb_col>(acc, sq + r0 * LH, 1, sk + c0 * LH, 1);
        wm::store_matrix_sync(tmp + r0 * LF + c0, acc, LF, wm::mem_row_major);
        __syncthreads();
        for (int i = tid; i < C * C; i += blockDim.x) {
            const int r = i / C, c = i % C;
            sa[r * LH + c] = __float2half(c <= r ? tmp[r * LF + c] * decay[r - c] : 0.f);
        }
        __syncthreads();

        // from the chunks before: Q S, decayed by the position in the chunk
        wm::fill_fragment(acc, 0.f);
        mma32<fa_row, fb_row>(acc, sq + r0 * LH, 1, ss + c0, LH);
        wm::store_matrix_sync(tmp + r0 * LF + c0, acc, LF, wm::mem_row_major);
        __syncthreads();
        for (int i = tid; i < C * DV; i += blockDim.x) tmp[i / DV * LF + i % DV] *= decay[i / DV + 1];
        __syncthreads();
        wm::load_matrix_sync(acc, tmp + r0 * LF + c0, LF, wm::mem_row_major);
        mma32<fa_row, fb_row>(acc, sa + r0 * LH, 1, sv + c0, LH);
        wm::store_matrix_sync(tmp + r0 * LF + c0, acc, LF, wm::mem_row_major);
        __syncthreads();
        for (int i = tid; i < len * DV; i += blockDim.x)
            o[(((size_t)b * T + t0 + i / DV) * H + h) * DV + i % DV] = tmp[i / DV * LF + i % DV];

        // S = gamma^len S + K^T V, keys decayed by what follows them
        for (int i = tid; i < len * DK; i += blockDim.x) {
            const int r = i / DK, c = i % DK;
            sk[r * LH + c] = __float2half(__half2float(sk[r * LH + c]) * decay[len - 1 - r]);
        }
        for (int i = tid; i < DK * DV; i += blockDim.x) state[i / DV * LF + i % DV] *= decay[len];
        __syncthreads();
        wm::load_matrix_sync(acc, state + r0 * LF + c0, LF, wm::mem_row_major);
        mma32<fa_col, fb_row>(acc, sk + r0, LH, sv + c0, LH);
        wm::store_matrix_sync(state + r0 * LF + c0, acc, LF, wm::mem_row_major);
        __syncthreads();
    }

    for (int i = tid; i < DK * DV; i += blockDim.x)
        final_state[((size_t)b * H + h) * DK * DV + i] = state[i / DV * LF + i % DV];
}
