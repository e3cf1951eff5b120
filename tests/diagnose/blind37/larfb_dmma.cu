//  -- batched DLARFB on FP64 tensor cores ---------------------------------------------------
//
//  Applies a block of NB Householder reflectors from the left, forward, columnwise:
//
//      C := ( I - V op(T) V**T ) C          op(T) = T**T for the QR update, T for Q*C
//
//  V   lda >= M   unit lower trapezoidal M x NB; as in LAPACK the ones are not stored, and what is
//                 above the diagonal is the R factor of the panel: do not reference
//  T   ldt >= NB  upper triangular NB x NB; below the diagonal not referenced
//  C   ldc >= M   M x N, overwritten
//
//  Column major throughout. A thread block owns BN columns of one matrix of the batch, so that
//  W = V**T C and the update of C need no other block's columns. DMMA 8x8x4, one warp = 8 columns.
// -------------------------------------------------------------------------------------------
#include <mma.h>

using namespace nvcuda::wmma;

#define NB   16          // reflectors in a block
#define BM   32          // rows per step
#define BN   32          // columns per thread block
#define DIMX 128         // threads: BN / 8 warps
#define SLDM (BM + 4)    // leading dimension of tiles with BM rows
#define SLDB (NB + 4)    // leading dimension of tiles with NB rows

typedef fragment<matrix_a, 8, 8, 4, double, row_major> frag_at;   // transposed operand
typedef fragment<matrix_a, 8, 8, 4, double, col_major> frag_an;
typedef fragment<matrix_b, 8, 8, 4, double, col_major> frag_b;
typedef fragment<accumulator, 8, 8, 4, double>         frag_c;

// rows [i0, i0 + BM) of V into sV(:, NB)
static __device__ __inline__ void
load_v( int m, int i0, const double *V, int ldv, double *sV )
{
    for (int idx = threadIdx.x; idx < BM * NB; idx += DIMX) {
        const int i = idx % BM;
        const int j = idx / BM;
        const int gi = i0 + i;
        double v = 0.0;
        if (gi < m) {
            if (gi > j)
                v = V[gi + (size_t)j * ldv];
            else if (gi == j)
                v = 1.0;
        }
        sV[i + j * SLDM] = v;
    }
}

// rows [i0, i0 + BM) of BN columns of C into sC
static __device__ __inline__ void
load_c( int m, int n, int i0, int j0, const double *C, int ldc, double *sC )
{
    for (int idx = threadIdx.x; idx < BM * BN; idx += DIMX) {
        const int i = idx % BM;
        const int j = idx / BM;
        const bool in = (i0 + i < m) && (j0 + j < n);
        sC[i + j * SLDM] = in ? C[i0 + i + (size_t)(j0 + j) * ldc] : 0.0;
    }
}

template<bool TRANS>
__global__ void
dlarfb_batched_kernel( int m, int n,
                       const double *dV, int ldv, long long strideV,
                       const double *dT, int ldt, long long strideT,
                       double *dC, int ldc, long long strideC )
{
    __shared__ __align__(128) double sV[NB * SLDM];
    __shared__ __align__(128) double sC[BN * SLDM];
    __shared__ __align__(128) double sT[NB * SLDB];
    __shared__ __align__(128) double sW[BN * SLDB];

    const int tx   = threadIdx.x;
    const int col  = tx / 32 * 8;                // this warp's columns
    const int j0   = blockIdx.x * BN;
    const int batchid = blockIdx.y;

    const double *V = dV + batchid * strideV;
    const double *T = dT + batchid * strideT;
    double       *C = dC + batchid * strideC;

    // T, zeros below the diagonal
    for (int idx = tx; idx < NB * NB; idx += DIMX) {
        const int i = idx % NB;
        const int j = idx / NB;
        sT[i + j * SLDB] = (i <= j) ? T[i + (size_t)j * ldt] : 0.0;
    }

    // W = V**T C
    frag_c rW[NB / 8];
    for (int t = 0; t < NB / 8; t++)
        fill_fragment(rW[t], 0.0);

    for (int i0 = 0; i0 < m; i0 += BM) {
        load_v(m, i0, V, ldv, sV);
        load_c(m, n, i0, j0, C, ldc, sC);
        __syncthreads();

        for (int k = 0; k < BM; k += 4) {
            frag_b rC;
            load_matrix_sync(rC, sC + k + col * SLDM, SLDM);
            for (int t = 0; t < NB / 8; t++) {
                frag_at rV;
                load_matrix_sync(rV, sV + k + t * 8 * SLDM, SLDM);
                mma_sync(rW[t], rV, rC, rW[t]);
            }
        }
        __syncthreads();
    }

    for (int t = 0; t < NB / 8; t++)
        store_matrix_sync(sW + t * 8 + col * SLDB, rW[t], SLDB, mem_col_major);
    __syncthreads();

    // W = -op(T) W; a warp reads and writes its own columns only
    frag_c rX[NB / 8];
    for (int t = 0; t < NB / 8; t++) {
        fill_fragment(rX[t], 0.0);
        for (int k = 0; k < NB; k += 4) {
            frag_b rB;
            load_matrix_sync(rB, sW + k + col * SLDB, SLDB);
            if (TRANS) {
                frag_at rT;
                load_matrix_sync(rT, sT + k + t * 8 * SLDB, SLDB);
                mma_sync(rX[t], rT, rB, rX[t]);
            } else {
                frag_an rT;
                load_matrix_sync(rT, sT + t * 8 + k * SLDB, SLDB);
                mma_sync(rX[t], rT, rB, rX[t]);
            }
        }
    }
    __syncwarp();
    for (int t = 0; t < NB / 8; t++) {
        for (int e = 0; e < rX[t].num_elements; e++)
            rX[t].x[e] = -rX[t].x[e];
        store_matrix_sync(sW + t * 8 + col * SLDB, rX[t], SLDB, mem_col_major);
    }
    __syncwarp();

    // C = C + V W
    for (int i0 = 0; i0 < m; i0 += BM) {
        load_v(m, i0, V, ldv, sV);
        load_c(m, n, i0, j0, C, ldc, sC);
        __syncthreads();

        for (int r = 0; r < BM; r += 8) {
            frag_c rC;
            load_matrix_sync(rC, sC + r + col * SLDM, SLDM, mem_col_major);
            for (int k = 0; k < NB; k += 4) {
                frag_an rV;
                frag_b  rB;
                load_matrix_sync(rV, sV + r + k * SLDM, SLDM);
                load_matrix_sync(rB, sW + k + col * SLDB, SLDB);
                mma_sync(rC, rV, rB, rC);
            }
            store_matrix_sync(sC + r + col * SLDM, rC, SLDM, mem_col_major);
        }
        __syncthreads();

        for (int idx = tx; idx < BM * BN; idx += DIMX) {
            const int i = idx % BM;
            const int j = idx / BM;
            if (i0 + i < m && j0 + j < n)
                C[i0 + i + (size_t)(j0 + j) * ldc] = sC[i + j * SLDM];
        }
        __syncthreads();
    }
}

extern "C" void
dlarfb_batched( bool trans, int m, int n,
                const double *dV, int ldv, long long strideV,
                const double *dT, int ldt, long long strideT,
                double *dC, int ldc, long long strideC, int batchCount, cudaStream_t stream )
{
    dim3 grid( (n + BN - 1) / BN, batchCount );
    if (trans)
        dlarfb_batched_kernel<true><<<grid, DIMX, 0, stream>>>(m, n, dV, ldv, strideV, dT, ldt, strideT, dC, ldc, strideC);
    else
        dlarfb_batched_kernel<false><<<grid, DIMX, 0, stream>>>(m, n, dV, ldv, strideV, dT, ldt, strideT, dC, ldc, strideC);
}
