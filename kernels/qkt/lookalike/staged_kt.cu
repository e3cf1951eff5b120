#include <cuda_fp16.h>
#include <mma.h>
// scores[b,h,i,j] for tensors in [B,S,H,D]; 32x32 tile, 4 warps, D in slices of 32, K transposed on the way in.
namespace wmma = nvcuda::wmma;

template <typename T, int TileQ = 32, int TileK = 32, int Slice = 32>
__global__ void qkt_bshd(const T* __restrict__ q, const T* __restrict__ k, float* __restrict__ scores,
                         int seq_q, int seq_k, int heads, int dim, float scale)
{
    constexpr int kPitchQ = Slice + 8;
    constexpr int kPitchK = TileK + 8;
    __shared__ __align__(16) T q_tile[TileQ][kPitchQ];
    __shared__ __align__(16) T kt_tile[Slice][kPitchK];
    __shared__ __align__(16) float out_tile[TileQ][TileK];

    const int b = blockIdx.z / heads, h = blockIdx.z % heads;
    const int i0 = blockIdx.y * TileQ, j0 = blockIdx.x * TileK;
    const auto at = [=](const T* base, int s, int len, int d) -> T {
        return s < len && d < dim ? base[((static_cast<size_t>(b) * len + s) * heads + h) * dim + d] : T(0.0f);
    };
    const int warp = threadIdx.y;
    const int wq = (warp >> 1) << 4, wk = (warp & 1) << 4;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int d0 = 0; d0 < dim; d0 += Slice) {
        if (d0 > 0) __syncthreads();
        for (int r = threadIdx.y; r < TileQ; r += blockDim.y) {
            q_tile[r][threadIdx.x] = at(q, i0 + r, seq_q, d0 + threadIdx.x);
            kt_tile[threadIdx.x][r] = at(k, j0 + r, seq_k, d0 + threadIdx.x);
        }
        __syncthreads();
        for (int d = 0; d < Slice; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> qa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> kb;
            wmma::load_matrix_sync(qa, &q_tile[wq][d], kPitchQ);
            wmma::load_matrix_sync(kb, &kt_tile[d][wk], kPitchK);
            wmma::mma_sync(acc, qa, kb, acc);
        }
    }
    wmma::store_matrix_sync(&out_tile[wq][wk], acc, TileK, wmma::mem_row_major);
    __syncthreads();
    for (int r = threadIdx.y; r < TileQ; r += blockDim.y)
        if (i0 + r < seq_q && j0 + threadIdx.x < seq_k)
            scores[(static_cast<size_t>(blockIdx.z) * seq_q + i0 + r) * seq_k + j0 + threadIdx.x] = out_tile[r][threadIdx.x] * scale;
}
