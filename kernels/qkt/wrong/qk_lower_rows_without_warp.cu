// 64x64 block of scores per CTA; sixteen 16x16 tiles dealt out to the warps.
#include <cuda_fp16.h>
#include <mma.h>
#define NUM_WARPS 4
#define LDH 72
#define LDS 68
using namespace nvcuda;

extern "C" __global__ void score_block(const half* Q, const half* K, float* S, int seq, float scale)
{
    __shared__ __align__(32) half Qs[64][LDH], Ks[64][LDH];
    __shared__ __align__(32) float Ss[64][LDS];
    const int tid = threadIdx.y * 32 + threadIdx.x;
    const int q0 = blockIdx.y * 64, k0 = blockIdx.x * 64;
    const size_t off = (size_t)blockIdx.z * seq * 64;
    for (int i = tid; i < 64 * 64; i += 32 * blockDim.y) {
        Qs[i / 64][i % 64] = q0 + i / 64 < seq ? Q[off + (size_t)q0 * 64 + i] : __float2half(0.f);
        Ks[i / 64][i % 64] = k0 + i / 64 < seq ? K[off + (size_t)k0 * 64 + i] : __float2half(0.f);
    }
    __syncthreads();
    const int rows_of_warp = 2;
    for (int i = 0; i < rows_of_warp * 2; i++) {
        const int t = (threadIdx.y / 2) * 4 + threadIdx.y % 2 * 2 + i % 2;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fill_fragment(c, 0.f);
        for (int d = 0; d < 64; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::load_matrix_sync(a, &Qs[t / 4 * 16][d], LDH);
            wmma::load_matrix_sync(b, &Ks[t % 4 * 16][d], LDH);
            wmma::mma_sync(c, a, b, c);
        }
        wmma::store_matrix_sync(&Ss[t / 4 * 16][t % 4 * 16], c, LDS, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = tid; i < 64 * 64; i += 32 * blockDim.y)
        if (q0 + i / 64 < seq && k0 + i % 64 < seq)
            S[((size_t)blockIdx.z * seq + q0 + i / 64) * seq + k0 + i % 64] = Ss[i / 64][i % 64] * scale;
}
