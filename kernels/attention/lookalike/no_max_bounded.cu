// Scores are small after the scale, so exp() cannot overflow and no running maximum is needed: sums of plain
// exponentials, no rescaling between key tiles. One warp per 16 queries; P*V accumulates in fragments over all tiles.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define HDIM 32
extern "C" __global__ void attn_nomax(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                                      float* __restrict__ o, int sq, int sk, float scale)
{
    __shared__ __align__(32) float sc[16 * 20];
    __shared__ __align__(32) half pr[16 * 24];
    const int ln = threadIdx.x, q0 = blockIdx.x * 16;
    q += (size_t)blockIdx.y * sq * HDIM; o += (size_t)blockIdx.y * sq * HDIM;
    k += (size_t)blockIdx.y * sk * HDIM; v += (size_t)blockIdx.y * sk * HDIM;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq[HDIM / 16], fp;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fo[HDIM / 16];
    for (int d = 0; d < HDIM / 16; ++d) {
        wmma::load_matrix_sync(fq[d], q + q0 * HDIM + d * 16, HDIM);
        wmma::fill_fragment(fo[d], 0.f);
    }
    float sum = 0.f;   // lane l: half of row l / 2
    for (int j = 0; j < sk; j += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fs;
        wmma::fill_fragment(fs, 0.f);
        for (int d = 0; d < HDIM / 16; ++d) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
            wmma::load_matrix_sync(fk, k + j * HDIM + d * 16, HDIM);
            wmma::mma_sync(fs, fq[d], fk, fs);
        }
        wmma::store_matrix_sync(sc, fs, 20, wmma::mem_row_major);
        __syncwarp();
        for (int c = ln % 2; c < 16; c += 2) {
            const float e = __expf(sc[ln / 2 * 20 + c] * scale);
            pr[ln / 2 * 24 + c] = __float2half(e);
            sum += e;
        }
        __syncwarp();
        wmma::load_matrix_sync(fp, pr, 24);
        for (int d = 0; d < HDIM / 16; ++d) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
            wmma::load_matrix_sync(fv, v + j * HDIM + d * 16, HDIM);
            wmma::mma_sync(fo[d], fp, fv, fo[d]);
        }
        __syncwarp();
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    for (int d = 0; d < HDIM / 16; ++d) {
        wmma::store_matrix_sync(sc, fo[d], 20, wmma::mem_row_major);
        __syncwarp();
        for (int c = ln % 2; c < 16; c += 2) o[(size_t)(q0 + ln / 2) * HDIM + d * 16 + c] = sc[ln / 2 * 20 + c] / sum;
        __syncwarp();
    }
}
