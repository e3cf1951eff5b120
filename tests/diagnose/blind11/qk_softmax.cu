// probs[b] = softmax(scale * Q[b] K[b]^T) over the first lens[b] keys; one block makes 16 rows; all scores in shared.
#include <cuda_bf16.h>
#include <float.h>
#include <mma.h>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

static constexpr int ROWS = 16;
static constexpr int KEYS = 64;  // of one step: 16 for each of 4 warps

template <int HD>
__global__ void qk_softmax(const bf16 *q, const bf16 *k, const int *lens, float *probs, int sq, int sk, float scale) {
    constexpr int ld = HD + 8;
    extern __shared__ __align__(128) unsigned char raw[];
    bf16 *qs = reinterpret_cast<bf16 *>(raw);
    bf16 *ks = qs + ROWS * ld;
    float *scores = reinterpret_cast<float *>(ks + KEYS * ld);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int batch = blockIdx.y, row0 = blockIdx.x * ROWS;
    const int skp = (sk + KEYS - 1) / KEYS * KEYS;
    const int len = lens[batch];
    q += (size_t)batch * sq * HD;
    k += (size_t)batch * sk * HD;
    probs += (size_t)batch * sq * sk;

    for (int i = threadIdx.x; i < ROWS * HD; i += blockDim.x)
        qs[i / HD * ld + i % HD] = row0 + i / HD < sq ? q[(size_t)(row0 + i / HD) * HD + i % HD] : __float2bfloat16(0.f);

    for (int k0 = 0; k0 < sk; k0 += KEYS) {
        for (int i = threadIdx.x; i < KEYS * HD; i += blockDim.x)
            ks[i / HD * ld + i % HD] = k0 + i / HD < sk ? k[(size_t)(k0 + i / HD) * HD + i % HD] : __float2bfloat16(0.f);
        __syncthreads();

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.f);
        for (int d = 0; d < HD; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> qf;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> kf;
            wmma::load_matrix_sync(qf, qs + d, ld);
            wmma::load_matrix_sync(kf, ks + warp * 16 * ld + d, ld);
            wmma::mma_sync(acc, qf, kf, acc);
        }
        for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= scale;
        wmma::store_matrix_sync(scores + k0 + warp * 16, acc, skp, wmma::mem_row_major);
        __syncthreads();
    }

    for (int r = warp; r < ROWS; r += 4) {
        float *s = scores + r * skp;
        if (row0 + r >= sq) continue;
        float top = -FLT_MAX;
        for (int c = lane; c < sk; c += 32) {
            if (c >= len) s[c] = -FLT_MAX;
            top = fmaxf(top, s[c]);
        }
        for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
        float total = 0.f;
        for (int c = lane; c < sk; c += 32) {
            s[c] = __expf(s[c] - top);
            total += s[c];
        }
        for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(~0u, total, o);
        for (int c = lane; c < sk; c += 32) probs[(size_t)(row0 + r) * sk + c] = s[c] / total;
    }
}

template __global__ void qk_softmax<32>(const bf16 *, const bf16 *, const int *, float *, int, int, float);
