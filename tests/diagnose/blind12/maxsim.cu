// ColBERT late interaction: score(q, d) = sum over query tokens i of max over document tokens j of q_i . d_j
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>

using namespace nvcuda;

#define DIM 64
#define QLEN 32          /* query tokens, padded */
#define DTILE 32         /* document tokens at a time */
#define STRIDE (DIM + 8)
#define FULL 0xffffffffu

/**
 * queries   [nq, QLEN, DIM]        unit rows, padded with zeros
 * qlens     [nq]                   real tokens of each query
 * docs      [total_tokens, DIM]    all documents, one behind the other
 * doc_start [ndocs + 1]
 * scores    [nq, ndocs]
 * One block of 4 warps per (document, query).
 */
__global__ void maxsim_kernel(const half* __restrict__ queries, const int* __restrict__ qlens,
                              const half* __restrict__ docs, const int* __restrict__ doc_start,
                              float* __restrict__ scores, const int ndocs) {
    __shared__ __align__(32) half  q_tile[QLEN * STRIDE];
    __shared__ __align__(32) half  d_tile[DTILE * STRIDE];
    __shared__ __align__(32) float sim[QLEN * DTILE];
    __shared__ float partial[4];

    const int doc   = blockIdx.x;
    const int query = blockIdx.y;
    const int wid   = threadIdx.x >> 5;
    const int lane  = threadIdx.x & 31;

    const int begin  = doc_start[doc];
    const int length = doc_start[doc + 1] - begin;
    const int qlen   = qlens[query];

    const float4* qsrc = reinterpret_cast<const float4*>(queries + (size_t)query * QLEN * DIM);
    for (int v = threadIdx.x; v < QLEN * DIM / 8; v += blockDim.x)
        *reinterpret_cast<float4*>(&q_tile[v / (DIM / 8) * STRIDE + v % (DIM / 8) * 8]) = qsrc[v];

    // each thread keeps the maximum of one query token over a quarter of the columns
    const int token = threadIdx.x / 4;
    const int quarter = threadIdx.x % 4;
    float best = -FLT_MAX;

    for (int t0 = 0; t0 < length; t0 += DTILE) {
        for (int v = threadIdx.x; v < DTILE * DIM / 8; v += blockDim.x) {
            const int r = v / (DIM / 8), c = v % (DIM / 8) * 8;
            float4 x = make_float4(0.f, 0.f, 0.f, 0.f);
            if (t0 + r < length)
                x = *reinterpret_cast<const float4*>(&docs[(size_t)(begin + t0 + r) * DIM + c]);
            *reinterpret_cast<float4*>(&d_tile[r * STRIDE + c]) = x;
        }
        __syncthreads();

        const int qi = (wid & 1) * 16;
        const int di = (wid >> 1) * 16;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fd;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fs;
        wmma::fill_fragment(fs, 0.f);
        for (int k = 0; k < DIM; k += 16) {
            wmma::load_matrix_sync(fq, q_tile + qi * STRIDE + k, STRIDE);
            wmma::load_matrix_sync(fd, d_tile + di * STRIDE + k, STRIDE);
            wmma::mma_sync(fs, fq, fd, fs);
        }
        wmma::store_matrix_sync(sim + qi * DTILE + di, fs, DTILE, wmma::mem_row_major);
        __syncthreads();

        // padding columns would win over negative similarities
        for (int c = quarter; c < DTILE; c += 4)
            if (t0 + c < length) best = fmaxf(best, sim[token * DTILE + c]);
    }

    best = fmaxf(best, __shfl_xor_sync(FULL, best, 1));
    best = fmaxf(best, __shfl_xor_sync(FULL, best, 2));

    // sum over the tokens of the query: one of each four threads has a term
    float term = (quarter == 0 && token < qlen && length > 0) ? best : 0.f;
    for (int o = 16; o > 0; o >>= 1) term += __shfl_down_sync(FULL, term, o);
    if (lane == 0) partial[wid] = term;
    __syncthreads();
    if (threadIdx.x == 0)
        scores[(size_t)query * ndocs + doc] = partial[0] + partial[1] + partial[2] + partial[3];
}
