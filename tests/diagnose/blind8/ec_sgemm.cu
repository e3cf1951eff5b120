// SGEMM emulated on FP16 tensor cores with error correction: x = hi + lo / 2048, three products of four are kept,
//   C = alpha * (Ahi Bhi + (Ahi Blo + Alo Bhi) / 2048) + beta * C
// The small terms are summed apart, so that they are not lost against the big ones.
// Row-major. A: M x K, B: K x N. For inputs of moderate size (|x| < 65504 and not denormal in half).

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define BM 64
#define BN 32
#define BK 16
#define WARP_M 16
#define WARP_N 32
#define THREADS ((BM / WARP_M) * (BN / WARP_N) * 32)
#define SKEW 8
#define CORRECTION 2048.0f

#define OFFSET(row, col, ld) ((row) * (ld) + (col))

struct split_t {
    half hi, lo;
};

__device__ __forceinline__ split_t split(float v)
{
    split_t s;
    s.hi = __float2half_rn(v);
    s.lo = __float2half_rn((v - __half2float(s.hi)) * CORRECTION);
    return s;
}

__global__ __launch_bounds__(THREADS)
void ec_sgemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half As_hi[BM][BK + SKEW];
    __shared__ __align__(32) half As_lo[BM][BK + SKEW];
    __shared__ __align__(32) half Bs_hi[BK][BN + SKEW];
    __shared__ __align__(32) half Bs_lo[BK][BN + SKEW];
    __shared__ __align__(32) float Cs[BM][BN + SKEW];

    const int tid = threadIdx.x;
    const int warp_id = tid / 32;
    const int by = blockIdx.y * BM, bx = blockIdx.x * BN;

    // who loads what: A four columns of two rows a thread, B four columns of one row
    const int a_row = tid / (BK / 4), a_col = tid % (BK / 4) * 4;
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4) * 4;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> main_acc[WARP_N / 16], corr_acc[WARP_N / 16];
    for (int j = 0; j < WARP_N / 16; j++) {
        wmma::fill_fragment(main_acc[j], 0.0f);
        wmma::fill_fragment(corr_acc[j], 0.0f);
    }

    float a_reg[2][4], b_reg[4];

    // first tile to registers
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < 4; c++) {
            const int r = by + a_row + i * (BM / 2), k = a_col + c;
            a_reg[i][c] = (r < M && k < K) ? A[OFFSET(r, k, K)] : 0.0f;
        }
    for (int c = 0; c < 4; c++) {
        const int k = b_row, n = bx + b_col + c;
        b_reg[c] = (k < K && n < N) ? B[OFFSET(k, n, N)] : 0.0f;
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
        // split on the way to shared memory
        for (int i = 0; i < 2; i++)
            for (int c = 0; c < 4; c++) {
                const split_t s = split(a_reg[i][c]);
                As_hi[a_row + i * (BM / 2)][a_col + c] = s.hi;
                As_lo[a_row + i * (BM / 2)][a_col + c] = s.lo;
            }
        for (int c = 0; c < 4; c++) {
            const split_t s = split(b_reg[c]);
            Bs_hi[b_row][b_col + c] = s.hi;
            Bs_lo[b_row][b_col + c] = s.lo;
        }
        __syncthreads();

        // the next tile travels while this one is multiplied
        if (k0 + BK < K) {
            for (int i = 0; i < 2; i++)
                for (int c = 0; c < 4; c++) {
                    const int r = by + a_row + i * (BM / 2), k = k0 + BK + a_col + c;
                    a_reg[i][c] = (r < M && k < K) ? A[OFFSET(r, k, K)] : 0.0f;
                }
            for (int c = 0; c < 4; c++) {
                const int k = k0 + BK + b_row, n = bx + b_col + c;
                b_reg[c] = (k < K && n < N) ? B[OFFSET(k, n, N)] : 0.0f;
            }
        }

        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_hi, a_lo;
        wmma::load_matrix_sync(a_hi, &As_hi[warp_id * WARP_M][0], BK + SKEW);
        wmma::load_matrix_sync(a_lo, &As_lo[warp_id * WARP_M][0], BK + SKEW);
        for (int j = 0; j < WARP_N / 16; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_hi, b_lo;
            wmma::load_matrix_sync(b_hi, &Bs_hi[0][j * 16], BN + SKEW);
            wmma::load_matrix_sync(b_lo, &Bs_lo[0][j * 16], BN + SKEW);
            wmma::mma_sync(corr_acc[j], a_hi, b_lo, corr_acc[j]);
            wmma::mma_sync(corr_acc[j], a_lo, b_hi, corr_acc[j]);
            wmma::mma_sync(main_acc[j], a_hi, b_hi, main_acc[j]);
        }
        __syncthreads();
    }

    for (int j = 0; j < WARP_N / 16; j++) {
        for (int t = 0; t < main_acc[j].num_elements; t++)
            main_acc[j].x[t] = main_acc[j].x[t] + corr_acc[j].x[t] / CORRECTION;
        wmma::store_matrix_sync(&Cs[warp_id * WARP_M][j * 16], main_acc[j], BN + SKEW, wmma::mem_row_major);
    }
    __syncwarp();

    // a warp writes its own sixteen rows
    for (int r = 0; r < WARP_M; r++) {
        const int row = by + warp_id * WARP_M + r, col = bx + tid % 32;
        if (row < M && col < N) {
            const float old = beta == 0.0f ? 0.0f : beta * C[OFFSET(row, col, N)];
            C[OFFSET(row, col, N)] = alpha * Cs[warp_id * WARP_M + r][tid % 32] + old;
        }
    }
}

void launch_ec_sgemm(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta)
{
    dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
    ec_sgemm<<<grid, THREADS>>>(A, B, C, M, N, K, alpha, beta);
}
