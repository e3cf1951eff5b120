// Unfused multi-head attention in three kernels, loaded from Python with cupy.RawModule(code=open(...).read(),
// options=("-std=c++14", "--gpu-architecture=sm_80")).
//
// All tensors are contiguous, "batch" is batch * heads:
//   Q, K, V : half  [batch, seq, dim]
//   S       : float [batch, seq, seq]
//   P       : half  [batch, seq, seq]
//   O       : float [batch, seq, dim]
// seq % 16 == 0, dim % 16 == 0. Blocks of 128 threads for the two GEMMs, 256 for the softmax:
//   qk_scores   grid (ceil(seq / 64), seq / 16, batch)
//   row_softmax grid (seq, batch)
//   pv_output   grid (ceil(dim / 64), seq / 16, batch)

#include <cuda_fp16.h>
#include <mma.h>

extern "C" {

__global__ void qk_scores(const half* Q, const half* K, float* S, const int seq, const int dim, const float scale)
{
    using namespace nvcuda::wmma;

    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * 16;
    const int col = (blockIdx.x * 4 + warp) * 16;
    if (col >= seq) return;

    const half* q = Q + (size_t)blockIdx.z * seq * dim + (size_t)row * dim;
    const half* k = K + (size_t)blockIdx.z * seq * dim + (size_t)col * dim;
    float* s = S + (size_t)blockIdx.z * seq * seq + (size_t)row * seq + col;

    fragment<matrix_a, 16, 16, 16, half, row_major> fq;
    fragment<matrix_b, 16, 16, 16, half, col_major> fk;   // K^T: row-major K read as column-major
    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);

    for (int i = 0; i < dim; i += 16) {
        load_matrix_sync(fq, q + i, dim);
        load_matrix_sync(fk, k + i, dim);
        mma_sync(acc, fq, fk, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= scale;
    store_matrix_sync(s, acc, seq, mem_row_major);
}

__global__ void row_softmax(const float* S, half* P, const int seq)
{
    __shared__ float red[256];
    const int t = threadIdx.x;
    const size_t base = ((size_t)blockIdx.y * seq + blockIdx.x) * seq;

    float m = -1e30f;
    for (int j = t; j < seq; j += 256) m = fmaxf(m, S[base + j]);
    red[t] = m;
    __syncthreads();
    for (int h = 128; h > 0; h >>= 1) {
        if (t < h) red[t] = fmaxf(red[t], red[t + h]);
        __syncthreads();
    }
    m = red[0];
    __syncthreads();   // red is used again

    float sum = 0.0f;
    for (int j = t; j < seq; j += 256) sum += expf(S[base + j] - m);
    red[t] = sum;
    __syncthreads();
    for (int h = 128; h > 0; h >>= 1) {
        if (t < h) red[t] += red[t + h];
        __syncthreads();
    }
    const float inv = 1.0f / red[0];

    for (int j = t; j < seq; j += 256) P[base + j] = __float2half(expf(S[base + j] - m) * inv);
}

__global__ void pv_output(const half* P, const half* V, float* O, const int seq, const int dim)
{
    using namespace nvcuda::wmma;

    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * 16;
    const int col = (blockIdx.x * 4 + warp) * 16;
    if (col >= dim) return;

    const half* p = P + (size_t)blockIdx.z * seq * seq + (size_t)row * seq;
    const half* v = V + (size_t)blockIdx.z * seq * dim + col;

    fragment<matrix_a, 16, 16, 16, half, row_major> fp;
    fragment<matrix_b, 16, 16, 16, half, row_major> fv;
    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);

    for (int j = 0; j < seq; j += 16) {
        load_matrix_sync(fp, p + j, seq);
        load_matrix_sync(fv, v + (size_t)j * dim, dim);
        mma_sync(acc, fp, fv, acc);
    }
    store_matrix_sync(O + (size_t)blockIdx.z * seq * dim + (size_t)row * dim + col, acc, dim, mem_row_major);
}

}  // extern "C"
