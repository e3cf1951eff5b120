// The gated half of a transformer's MLP: D = silu(X·Gᵀ) ⊙ (X·Uᵀ), with G and U the halves of one [2N, K] weight.
//
// One warp per 16×16 tile of D: it multiplies the same tile of X with one of G and one of U, so that the gate meets its
// factor in registers: both accumulators have their elements in the same lanes.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void swiglu(const half* __restrict__ x, const half* __restrict__ gate_up, half* __restrict__ d, int m, int n,
                       int k) {
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> gate, up;
    wmma::fill_fragment(gate, 0.0f);
    wmma::fill_fragment(up, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> g, u;
        wmma::load_matrix_sync(a, x + row * k + i, k);
        wmma::load_matrix_sync(g, gate_up + col * k + i, k);
        wmma::load_matrix_sync(u, gate_up + (n + col) * k + i, k);
        wmma::mma_sync(gate, a, g, gate);
        wmma::mma_sync(up, a, u, up);
    }

    __shared__ __align__(32) float tile[16][16];
    for (int i = 0; i < gate.num_elements; ++i) gate.x[i] = gate.x[i] / (1.0f + __expf(-gate.x[i])) * up.x[i];
    wmma::store_matrix_sync(&tile[0][0], gate, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) d[(row + i / 16) * n + col + i % 16] = __float2half(tile[i / 16][i % 16]);
}
