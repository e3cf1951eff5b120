/* One step of a GRU (cuDNN's variant: the reset gate is applied behind the recurrent product)
 *   r = sigmoid(Wr x + Ur h + br + cr)      z = sigmoid(Wz x + Uz h + bz + cz)
 *   n = tanh(Wn x + bn + r * (Un h + cn))   h' = (1 - z) * n + z * h
 * W: [3, H, I], U: [3, H, H], gates in the order r, z, n.  A block: 16 samples x 16 units, one sum per warp:
 * warp 0 r, warp 1 z, warp 2 the input's part of n, warp 3 the recurrent part.
 */
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 bf;
using namespace nvcuda;

#define TILE 16
#define KSTEP 32
#define LDK (KSTEP + 8)

__device__ __forceinline__ float sigm(float x) { return 1.0f / (1.0f + __expf(-x)); }

struct Operand {
    const bf *act;      /* [batch, depth] */
    const bf *wgt;      /* [3, hidden, depth] */
    int depth;
};

__global__ void gru_step(const bf *x, const bf *h, const bf *w, const bf *u, const float *b_ih, const float *b_hh,
                         bf *h_out, int batch, int in_size, int hidden) {
    __shared__ __align__(32) bf s_act[TILE * LDK];
    __shared__ __align__(32) bf s_wgt[3][TILE * LDK];
    __shared__ __align__(32) float s_sum[4][TILE * TILE];

    const int gate = threadIdx.x >> 5;
    const int unit0 = blockIdx.x * TILE, row0 = blockIdx.y * TILE;
    const Operand part[2] = {{x, w, in_size}, {h, u, hidden}};

    wmma::fragment<wmma::accumulator, TILE, TILE, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);

    for (int p = 0; p < 2; p++) {
        const Operand op = part[p];
        /* r and z take part in both products, the two halves of n in one each */
        const bool mine = gate < 2 || gate == 2 + p;
        const int slot = gate < 2 ? gate : 2;

        for (int k0 = 0; k0 < op.depth; k0 += KSTEP) {
            for (int i = threadIdx.x; i < TILE * KSTEP; i += blockDim.x) {
                int r = i / KSTEP, c = i % KSTEP;
                bool ok = k0 + c < op.depth;
                s_act[r * LDK + c] =
                    ok && row0 + r < batch ? op.act[(size_t)(row0 + r) * op.depth + k0 + c] : __float2bfloat16(0.0f);
                for (int g = 0; g < 3; g++)
                    s_wgt[g][r * LDK + c] =
                        ok && unit0 + r < hidden
                            ? op.wgt[((size_t)g * hidden + unit0 + r) * op.depth + k0 + c] : __float2bfloat16(0.0f);
            }
            __syncthreads();
            if (mine) {
                for (int k = 0; k < KSTEP; k += 16) {
                    wmma::fragment<wmma::matrix_a, TILE, TILE, 16, bf, wmma::row_major> fa;
                    wmma::fragment<wmma::matrix_b, TILE, TILE, 16, bf, wmma::col_major> fw;
                    wmma::load_matrix_sync(fa, &s_act[k], LDK);
                    wmma::load_matrix_sync(fw, &s_wgt[slot][k], LDK);
                    wmma::mma_sync(sum, fa, fw, sum);
                }
            }
            __syncthreads();
        }
    }

    wmma::store_matrix_sync(s_sum[gate], sum, TILE, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {
        int row = row0 + i / TILE, unit = unit0 + i % TILE;
        if (row >= batch || unit >= hidden) continue;
        float r = sigm(s_sum[0][i] + b_ih[unit] + b_hh[unit]);
        float z = sigm(s_sum[1][i] + b_ih[hidden + unit] + b_hh[hidden + unit]);
        float n = tanhf(s_sum[2][i] + b_ih[2 * hidden + unit] + r * (s_sum[3][i] + b_hh[2 * hidden + unit]));
        float before = __bfloat162float(h[(size_t)row * hidden + unit]);
        h_out[(size_t)row * hidden + unit] = __float2bfloat16((1.0f - z) * n + z * before);
    }
}
