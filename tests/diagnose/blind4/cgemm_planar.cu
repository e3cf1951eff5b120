// Complex matrix product C = A * B, or C = conj(A) * B, with planar operands: real and imaginary parts are matrices of
// their own, [part][row][col]. Half precision in, single precision out.
//
//     Re C = Re A * Re B -/+ Im A * Im B          Im C = Re A * Im B +/- Im A * Re B
//
// 32 x 32 outputs per block, 4 warps of 16 x 16, k in steps of 16 with two buffers: the next step is fetched into
// registers while the present one is multiplied.

#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::fragment;
using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::row_major;
using nvcuda::wmma::store_matrix_sync;

const int TS = 32;           // tile size of C
const int KS = 16;           // step of k
const int PITCH_A = KS + 8;
const int PITCH_B = TS + 8;
const int BLOCK = 128;
const int LOADS = TS * KS / BLOCK;   // elements of one part of one operand that a thread fetches per step

struct Fetched { half a[2][LOADS], b[2][LOADS]; };

struct Shared
{
    half a[2][2][TS][PITCH_A];       // [buffer][part][row][k]
    half b[2][2][KS][PITCH_B];       // [buffer][part][k][column]
};

__device__ void Fetch(Fetched& f, const half* A, const half* B, int M, int N, int K, int row0, int col0, int k0)
{
    const half zero = __float2half(0.f);
    for (int part = 0; part < 2; ++part)
        for (int l = 0; l < LOADS; ++l)
        {
            const int e = threadIdx.x + l * BLOCK;
            const int ar = row0 + e / KS, ak = k0 + e % KS;
            const int bk = k0 + e / TS, bc = col0 + e % TS;
            f.a[part][l] = ar < M && ak < K ? A[(part * M + ar) * K + ak] : zero;
            f.b[part][l] = bk < K && bc < N ? B[(part * K + bk) * N + bc] : zero;
        }
}

__device__ void Commit(Shared& s, int buffer, const Fetched& f)
{
    for (int part = 0; part < 2; ++part)
        for (int l = 0; l < LOADS; ++l)
        {
            const int e = threadIdx.x + l * BLOCK;
            s.a[buffer][part][e / KS][e % KS] = f.a[part][l];
            s.b[buffer][part][e / TS][e % TS] = f.b[part][l];
        }
}

template <bool ConjugateA>
__global__ void CGemmPlanar(const half* A, const half* B, float* C, int M, int N, int K)
{
    __shared__ __align__(128) Shared s;
    __shared__ __align__(128) float out[TS][TS + 4];

    const int warp = threadIdx.x / 32;
    const int wr = warp / 2 * 16, wc = warp % 2 * 16;
    const int row0 = blockIdx.y * TS, col0 = blockIdx.x * TS;

    fragment<accumulator, 16, 16, 16, float> re, im;
    fill_fragment(re, 0.f);
    fill_fragment(im, 0.f);

    Fetched next;
    Fetch(next, A, B, M, N, K, row0, col0, 0);
    Commit(s, 0, next);
    __syncthreads();

    const int steps = (K + KS - 1) / KS;
    for (int step = 0; step < steps; ++step)
    {
        const int now = step & 1;
        if (step + 1 < steps)
            Fetch(next, A, B, M, N, K, row0, col0, (step + 1) * KS);

        fragment<matrix_a, 16, 16, 16, half, row_major> ar, ai;
        fragment<matrix_b, 16, 16, 16, half, row_major> br, bi;
        load_matrix_sync(ar, &s.a[now][0][wr][0], PITCH_A);
        load_matrix_sync(ai, &s.a[now][1][wr][0], PITCH_A);
        load_matrix_sync(br, &s.b[now][0][0][wc], PITCH_B);
        load_matrix_sync(bi, &s.b[now][1][0][wc], PITCH_B);
        if (ConjugateA)
            for (int i = 0; i < ai.num_elements; ++i) ai.x[i] = __hneg(ai.x[i]);

        mma_sync(re, ar, br, re);
        mma_sync(im, ar, bi, im);
        mma_sync(im, ai, br, im);
        // the product of the imaginary parts is subtracted: there is no mma that does, so one operand changes its sign
        for (int i = 0; i < ai.num_elements; ++i) ai.x[i] = __hneg(ai.x[i]);
        mma_sync(re, ai, bi, re);

        if (step + 1 < steps)
            Commit(s, now ^ 1, next);
        __syncthreads();
    }

    for (int part = 0; part < 2; ++part)
    {
        store_matrix_sync(&out[wr][wc], part == 0 ? re : im, TS + 4, mem_row_major);
        __syncthreads();
        for (int e = threadIdx.x; e < TS * TS; e += BLOCK)
        {
            const int r = row0 + e / TS, c = col0 + e % TS;
            if (r < M && c < N)
                C[(part * M + r) * N + c] = out[e / TS][e % TS];
        }
        __syncthreads();
    }
}

void CGemm(const half* A, const half* B, float* C, int M, int N, int K, bool conjugateA, cudaStream_t stream)
{
    const dim3 grid((N + TS - 1) / TS, (M + TS - 1) / TS);
    if (conjugateA)
        CGemmPlanar<true><<<grid, BLOCK, 0, stream>>>(A, B, C, M, N, K);
    else
        CGemmPlanar<false><<<grid, BLOCK, 0, stream>>>(A, B, C, M, N, K);
}
