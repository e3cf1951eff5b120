// Attention forward, simplest thing that uses tensor cores: one warp handles 16 Qg rows of one head,
// keeps the whole score strip in shared memory and does an ordinary (two pass) softmax on it.
//   Q [B,H,Sq,D]  K,V [B,H,Skv,D]  O [B,H,Sq,D]
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>
using namespace nvcuda;

#ifndef HD
#define HD 64
#endif
#define KPAD(n) (((n) + 15) / 16 * 16)

extern "C" __global__ void sdpa_fwd(const half* Qg, const half* Kg, const half* Vg, half* Og,
                                         int Sq, int Skv, float sm_scale)
{
    extern __shared__ __align__(128) char pool[];
    const int ldS = KPAD(Skv) + 8;
    half* stage = (half*)pool;                       // 16 x HD
    float* scores = (float*)(pool + 16 * HD * 2);    // 16 x ldS
    half* probs = (half*)(scores + 16 * ldS);        // 16 x ldS

    const int lane = threadIdx.x;
    const int q0 = blockIdx.x * 16;
    const int bh = blockIdx.y;
    Qg += (size_t)bh * Sq * HD;
    Kg += (size_t)bh * Skv * HD;
    Vg += (size_t)bh * Skv * HD;
    Og += (size_t)bh * Sq * HD;

    // Q stays in fragments
    for (int i = lane; i < 16 * HD; i += 32)
        stage[i] = q0 + i / HD < Sq ? Qg[(q0 + i / HD) * HD + i % HD] : __float2half(0.f);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qf[HD / 16];
    for (int t = 0; t < HD / 16; ++t) wmma::load_matrix_sync(qf[t], stage + t * 16, HD);
    __syncwarp();

    for (int j0 = 0; j0 < Skv; j0 += 16) {
        for (int i = lane; i < 16 * HD; i += 32)
            stage[i] = j0 + i / HD < Skv ? Kg[(j0 + i / HD) * HD + i % HD] : __float2half(0.f);
        __syncwarp();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sf;
        wmma::fill_fragment(sf, 0.f);
        for (int t = 0; t < HD / 16; ++t) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kf;
            wmma::load_matrix_sync(kf, stage + t * 16, HD);
            wmma::mma_sync(sf, qf[t], kf, sf);
        }
        for (int t = 0; t < sf.num_elements; ++t) sf.x[t] *= sm_scale;
        wmma::store_matrix_sync(scores + j0, sf, ldS, wmma::mem_row_major);
        __syncwarp();
    }

    // softmax, row by row
    for (int r = 0; r < 16; ++r) {
        float mx = -FLT_MAX;
        for (int j = lane; j < Skv; j += 32) mx = fmaxf(mx, scores[r * ldS + j]);
        for (int o = 16; o > 0; o /= 2) mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, o));
        float sum = 0.f;
        for (int j = lane; j < Skv; j += 32) {
            const float e = expf((scores[r * ldS + j] - mx) * sm_scale);
            scores[r * ldS + j] = e;
            sum += e;
        }
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        for (int j = lane; j < KPAD(Skv); j += 32)
            probs[r * ldS + j] = __float2half(j < Skv ? scores[r * ldS + j] / sum : 0.f);
    }
    __syncwarp();

    for (int c0 = 0; c0 < HD; c0 += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> of;
        wmma::fill_fragment(of, 0.f);
        for (int j0 = 0; j0 < Skv; j0 += 16) {
            for (int i = lane; i < 256; i += 32)
                stage[i] = j0 + i / 16 < Skv ? Vg[(j0 + i / 16) * HD + c0 + i % 16] : __float2half(0.f);
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pf;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vf;
            wmma::load_matrix_sync(pf, probs + j0, ldS);
            wmma::load_matrix_sync(vf, stage, 16);
            wmma::mma_sync(of, pf, vf, of);
            __syncwarp();
        }
        wmma::store_matrix_sync(scores, of, 16, wmma::mem_row_major);
        __syncwarp();
        for (int i = lane; i < 256; i += 32)
            if (q0 + i / 16 < Sq) Og[(q0 + i / 16) * HD + c0 + i % 16] = __float2half(scores[i]);
        __syncwarp();
    }
}
