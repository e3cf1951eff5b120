// Weight gradient: dW[I][O] = X^T dY with X [T][I] and dY [T][O] in bf16; X's tile is transposed on the way in.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TI = 32, TO = 64, TT = 32;
constexpr int PAD = 8;

__global__ void grad_weight_tn(const __nv_bfloat16 *X, const __nv_bfloat16 *dY, float *dW, int T, int I, int O,
                               int accumulate) {
    __shared__ __align__(32) __nv_bfloat16 xt[TI * (TT + PAD)];
    __shared__ __align__(32) __nv_bfloat16 dy[TT * (TO + PAD)];
    __shared__ __align__(32) float dw[TI * (TO + 4)];

    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int threads = blockDim.x * blockDim.y;
    const int warp = tid / 32;
    const int wi = warp / 4 * 16, wo = warp % 4 * 16;
    const int i0 = blockIdx.y * TI, o0 = blockIdx.x * TO;
    const __nv_bfloat16 none = __float2bfloat16(0.0f);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int t0 = 0; t0 < T; t0 += TT) {
        for (int e = tid; e < TT * TI; e += threads) {
            int t = e / TI, i = e % TI;
            xt[i * (TT + PAD) + t] = t0 + t < T && i0 + i < I ? X[(t0 + t) * I + i0 + i] : none;
        }
        for (int e = tid; e < TT * TO; e += threads) {
            int t = e / TO, o = e % TO;
            dy[t * (TO + PAD) + o] = t0 + t < T && o0 + o < O ? dY[(t0 + t) * O + o0 + o] : none;
        }
        __syncthreads();

        for (int t = 0; t < TT; t += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fx;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fy;
            wmma::load_matrix_sync(fx, xt + wi * (TT + PAD) + t, TT + PAD);
            wmma::load_matrix_sync(fy, dy + t * (TO + PAD) + wo, TO + PAD);
            wmma::mma_sync(acc, fx, fy, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(dw + wi * (TO + 4) + wo, acc, TO + 4, wmma::mem_row_major);
    __syncthreads();
    for (int e = tid; e < TI * TO; e += threads) {
        int i = e / TO, o = e % TO;
        if (i0 + i >= I || o0 + o >= O) continue;
        float g = dw[i * (TO + 4) + o];
        float *at = dW + (size_t)(i0 + i) * O + o0 + o;
        if (accumulate)
            *at += g;
        else
            *at = g;
    }
}
