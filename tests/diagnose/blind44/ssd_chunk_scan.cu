// State-space duality (Mamba-2) forward scan in chunks, on tensor cores.
//
//   h[t] = exp(dt[t] * A) * h[t - 1] + dt[t] * B[t] (x) x[t]        h: DSTATE x HEADDIM
//   y[t] = C[t] . h[t] + D * x[t]
//
// Within a chunk the recurrence is a masked product, like attention without a softmax; between chunks the state is
// carried along in shared memory. One block scans one head of one sequence.
//
//   x, y:   [batch, seqlen, nheads, HEADDIM]
//   dt:     [batch, seqlen, nheads]
//   A, D:   [nheads]
//   B, C:   [batch, seqlen, ngroups, DSTATE]
//   states: [batch, nheads, DSTATE, HEADDIM]
//
// grid: (nheads, batch), 128 threads
#include <cuda_bf16.h>
#include <mma.h>

namespace ssd {

using namespace nvcuda;
typedef __nv_bfloat16 bf16;

constexpr int CHUNK = 32;
constexpr int DSTATE = 32;
constexpr int HEADDIM = 64;
constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;

// pitches in elements
constexpr int LDN = DSTATE + 8;   // B, C
constexpr int LDX = HEADDIM + 8;  // x, state in bf16
constexpr int LDS = CHUNK + 4;    // scores (float)
constexpr int LDP = CHUNK + 8;    // scores (bf16)
constexpr int LDF = HEADDIM + 4;  // y, state (float)

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> FragAT;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> FragB;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> FragBT;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;

__global__ void __launch_bounds__(THREADS)
ssd_chunk_scan_fwd(const bf16* __restrict__ x, const float* __restrict__ dt, const float* __restrict__ A,
                   const bf16* __restrict__ B, const bf16* __restrict__ C, const float* __restrict__ D,
                   const float* __restrict__ init_states, float* __restrict__ y, float* __restrict__ final_states,
                   int seqlen, int nheads, int ngroups)
{
    __shared__ __align__(32) bf16 sB[CHUNK * LDN];
    __shared__ __align__(32) bf16 sC[CHUNK * LDN];
    __shared__ __align__(32) bf16 sX[CHUNK * LDX];
    __shared__ __align__(32) bf16 sH[DSTATE * LDX];
    __shared__ __align__(32) bf16 sP[CHUNK * LDP];
    __shared__ __align__(32) float sS[CHUNK * LDS];
    __shared__ __align__(32) float sY[CHUNK * LDF];
    __shared__ __align__(32) float sState[DSTATE * LDF];
    __shared__ float sDt[CHUNK], sCum[CHUNK];

    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int h = blockIdx.x;
    const int b = blockIdx.y;
    const int g = h / (nheads / ngroups);

    const float a = A[h];
    const float skip = D[h];

    const size_t state_offset = (size_t)(b * nheads + h) * DSTATE * HEADDIM;
    for (int i = tid; i < DSTATE * HEADDIM; i += THREADS) {
        const float s = init_states[state_offset + i];
        sState[i / HEADDIM * LDF + i % HEADDIM] = s;
        sH[i / HEADDIM * LDX + i % HEADDIM] = __float2bfloat16(s);
    }

    for (int t0 = 0; t0 < seqlen; t0 += CHUNK) {
        // load the chunk; what is behind the end is zero
        for (int i = tid; i < CHUNK * DSTATE; i += THREADS) {
            const int row = i / DSTATE, n = i % DSTATE;
            const int t = t0 + row;
            const size_t idx = ((size_t)(b * seqlen + t) * ngroups + g) * DSTATE + n;
            sB[row * LDN + n] = t < seqlen ? B[idx] : __float2bfloat16(0.f);
            sC[row * LDN + n] = t < seqlen ? C[idx] : __float2bfloat16(0.f);
        }
        for (int i = tid; i < CHUNK * HEADDIM; i += THREADS) {
            const int row = i / HEADDIM, p = i % HEADDIM;
            const int t = t0 + row;
            sX[row * LDX + p] = t < seqlen ? x[((size_t)(b * seqlen + t) * nheads + h) * HEADDIM + p] : __float2bfloat16(0.f);
        }

        // inclusive scan of dt * A: one warp has one chunk
        if (warp == 0) {
            const int t = t0 + lane;
            const float d = t < seqlen ? dt[(size_t)(b * seqlen + t) * nheads + h] : 0.f;
            float v = d * a;
            for (int offset = 1; offset < 32; offset *= 2) {
                const float up = __shfl_up_sync(0xffffffff, v, offset);
                if (lane >= offset)
                    v += up;
            }
            sDt[lane] = d;
            sCum[lane] = v;
        }
        __syncthreads();

        // scores: S = C * B^T, one tile per warp
        {
            const int row = warp / (CHUNK / 16) * 16, col = warp % (CHUNK / 16) * 16;
            FragC acc;
            wmma::fill_fragment(acc, 0.f);
            for (int n = 0; n < DSTATE; n += 16) {
                FragA fc;
                FragBT fb;
                wmma::load_matrix_sync(fc, sC + row * LDN + n, LDN);
                wmma::load_matrix_sync(fb, sB + col * LDN + n, LDN);
                wmma::mma_sync(acc, fc, fb, acc);
            }
            wmma::store_matrix_sync(sS + row * LDS + col, acc, LDS, wmma::mem_row_major);
        }
        // what comes from the chunks before: Y = C * h
        for (int tile = warp; tile < (CHUNK / 16) * (HEADDIM / 16); tile += WARPS) {
            const int row = tile / (HEADDIM / 16) * 16, col = tile % (HEADDIM / 16) * 16;
            FragC acc;
            wmma::fill_fragment(acc, 0.f);
            for (int n = 0; n < DSTATE; n += 16) {
                FragA fc;
                FragB fh;
                wmma::load_matrix_sync(fc, sC + row * LDN + n, LDN);
                wmma::load_matrix_sync(fh, sH + n * LDX + col, LDX);
                wmma::mma_sync(acc, fc, fh, acc);
            }
            wmma::store_matrix_sync(sY + row * LDF + col, acc, LDF, wmma::mem_row_major);
        }
        __syncthreads();

        // decays: from s to t within the chunk, from the begin of the chunk to t, from s to the end of the chunk
        const float cum_last = sCum[CHUNK - 1];
        for (int i = tid; i < CHUNK * CHUNK; i += THREADS) {
            const int t = i / CHUNK, s = i % CHUNK;
            const float p = s <= t ? sS[t * LDS + s] * __expf(sCum[t] - sCum[s]) * sDt[s] : 0.f;
            sP[t * LDP + s] = __float2bfloat16(p);
        }
        for (int i = tid; i < CHUNK * HEADDIM; i += THREADS) {
            const int t = i / HEADDIM, p = i % HEADDIM;
            sY[t * LDF + p] *= __expf(sCum[t]);
        }
        for (int i = tid; i < CHUNK * DSTATE; i += THREADS) {
            const int s = i / DSTATE, n = i % DSTATE;
            const float weight = __expf(cum_last - sCum[s]) * sDt[s];
            sB[s * LDN + n] = __float2bfloat16(__bfloat162float(sB[s * LDN + n]) * weight);
        }
        __syncthreads();

        // Y += P * X
        for (int tile = warp; tile < (CHUNK / 16) * (HEADDIM / 16); tile += WARPS) {
            const int row = tile / (HEADDIM / 16) * 16, col = tile % (HEADDIM / 16) * 16;
            FragC acc;
            wmma::load_matrix_sync(acc, sY + row * LDF + col, LDF, wmma::mem_row_major);
            for (int s = 0; s < CHUNK; s += 16) {
                FragA fp;
                FragB fx;
                wmma::load_matrix_sync(fp, sP + row * LDP + s, LDP);
                wmma::load_matrix_sync(fx, sX + s * LDX + col, LDX);
                wmma::mma_sync(acc, fp, fx, acc);
            }
            wmma::store_matrix_sync(sY + row * LDF + col, acc, LDF, wmma::mem_row_major);
        }
        // h = exp(sum of dt * A) * h + B^T * X, B weighted
        const float chunk_decay = __expf(cum_last);
        for (int tile = warp; tile < (DSTATE / 16) * (HEADDIM / 16); tile += WARPS) {
            const int row = tile / (HEADDIM / 16) * 16, col = tile % (HEADDIM / 16) * 16;
            FragC acc;
            wmma::load_matrix_sync(acc, sState + row * LDF + col, LDF, wmma::mem_row_major);
            for (int e = 0; e < acc.num_elements; e++)
                acc.x[e] *= chunk_decay;
            for (int s = 0; s < CHUNK; s += 16) {
                FragAT fbt;
                FragB fxs;
                wmma::load_matrix_sync(fbt, sB + s * LDN + row, LDN);
                wmma::load_matrix_sync(fxs, sX + s * LDX + col, LDX);
                wmma::mma_sync(acc, fbt, fxs, acc);
            }
            wmma::store_matrix_sync(sState + row * LDF + col, acc, LDF, wmma::mem_row_major);
        }
        __syncthreads();

        // write y, keep the state in bf16 for the next chunk
        for (int i = tid; i < CHUNK * HEADDIM; i += THREADS) {
            const int row = i / HEADDIM, p = i % HEADDIM;
            const int t = t0 + row;
            if (t < seqlen)
                y[((size_t)(b * seqlen + t) * nheads + h) * HEADDIM + p] = sY[row * LDF + p] + skip * __bfloat162float(sX[row * LDX + p]);
        }
        for (int i = tid; i < DSTATE * HEADDIM; i += THREADS)
            sH[i / HEADDIM * LDX + i % HEADDIM] = __float2bfloat16(sState[i / HEADDIM * LDF + i % HEADDIM]);
        __syncthreads();
    }

    for (int i = tid; i < DSTATE * HEADDIM; i += THREADS)
        final_states[state_offset + i] = sState[i / HEADDIM * LDF + i % HEADDIM];
}

}  // namespace ssd
