/*
 * HGEMM step by step, step 6
 *
 *   v1  wmma, one 16x16 tile per warp
 *   v2  block tiles in shared memory
 *   v3  padding against bank conflicts
 *   v4  cp.async
 *   v5  double buffering
 *   v6  thread block swizzle: blockIdx.z counts bands of gridDim.x blocks, so that blocks that run at the same
 *       time use few columns of B and find them in L2
 *
 * C = A * B, all row-major half, half accumulators. M is a multiple of 64, N of 128, K of 32.
 *
 *   const int BM = 64, BN = 128, NSPLIT = 2;
 *   dim3 block(128);
 *   int BX = N / BN, BY = M / BM;
 *   dim3 grid(NSPLIT, BY, (BX + NSPLIT - 1) / NSPLIT);
 *   hgemm_v6<<<grid, block>>>(d_a, d_b, d_c, M, N, K);
 */
#include <cuda_fp16.h>
#include <mma.h>

#define OFFSET(row, col, ld) ((row) * (ld) + (col))

#define CP_ASYNC_CG_16(dst, src) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(dst), "l"(src) : "memory")
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_ASYNC_WAIT_GROUP_0() asm volatile("cp.async.wait_group 0;\n" ::: "memory")

using namespace nvcuda;

const int BM = 64;
const int BN = 128;
const int BK = 32;
const int APAD = 8;
const int BPAD = 8;

extern "C" __global__ void __launch_bounds__(128)
hgemm_v6(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
         const int M, const int N, const int K) {
    const int bx = blockIdx.z * gridDim.x + blockIdx.x;
    const int by = blockIdx.y;
    if (bx >= N / BN || by >= M / BM)
        return;

    const int tid = threadIdx.x;
    const int wid = tid >> 5;

    __shared__ __align__(32) half s_a[2 * BM * (BK + APAD)];
    __shared__ __align__(32) half s_b[2 * BK * (BN + BPAD)];

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[2][2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2][4];
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_c[2][4];

#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            wmma::fill_fragment(frag_c[i][j], __float2half(0.0f));
        }
    }

    // A: 4 threads per row, 32 rows at a time;  B: 16 threads per row, 8 rows at a time
    const int load_a_smem_m = tid >> 2;
    const int load_a_smem_k = (tid & 3) << 3;
    const int load_b_smem_k = tid >> 4;
    const int load_b_smem_n = (tid & 15) << 3;

    const int s_a_base = (int)__cvta_generic_to_shared(s_a);
    const int s_b_base = (int)__cvta_generic_to_shared(s_b);

    const int load_a_smem_0 = s_a_base + OFFSET(load_a_smem_m, load_a_smem_k, BK + APAD) * (int)sizeof(half);
    const int load_a_smem_1 = load_a_smem_0 + 32 * (BK + APAD) * (int)sizeof(half);
    const int load_b_smem_0 = s_b_base + OFFSET(load_b_smem_k, load_b_smem_n, BN + BPAD) * (int)sizeof(half);
    const int load_b_smem_1 = load_b_smem_0 +  8 * (BN + BPAD) * (int)sizeof(half);
    const int load_b_smem_2 = load_b_smem_0 + 16 * (BN + BPAD) * (int)sizeof(half);
    const int load_b_smem_3 = load_b_smem_0 + 24 * (BN + BPAD) * (int)sizeof(half);

    const int s_a_stage = BM * (BK + APAD);
    const int s_b_stage = BK * (BN + BPAD);

    const int load_a_gmem_m = by * BM + load_a_smem_m;
    const int load_b_gmem_n = bx * BN + load_b_smem_n;
    int load_a_gmem = OFFSET(load_a_gmem_m, load_a_smem_k, K);
    int load_b_gmem = OFFSET(load_b_smem_k, load_b_gmem_n, N);

    // warps: 2 x 2 of 32 x 64
    const int comp_m = (wid & 1) * 32;
    const int comp_n = (wid >> 1) * 64;

    // the first tile goes to buffer 0
    {
        CP_ASYNC_CG_16(load_a_smem_0, &a[load_a_gmem]);
        CP_ASYNC_CG_16(load_a_smem_1, &a[load_a_gmem + 32 * K]);
        CP_ASYNC_CG_16(load_b_smem_0, &b[load_b_gmem]);
        CP_ASYNC_CG_16(load_b_smem_1, &b[load_b_gmem +  8 * N]);
        CP_ASYNC_CG_16(load_b_smem_2, &b[load_b_gmem + 16 * N]);
        CP_ASYNC_CG_16(load_b_smem_3, &b[load_b_gmem + 24 * N]);
        CP_ASYNC_COMMIT_GROUP();
        CP_ASYNC_WAIT_GROUP_0();
        __syncthreads();
    }

    for (int bk = 1; bk < K / BK; bk++) {
        const int smem_sel      = (bk & 1) ^ 1;
        const int smem_sel_next = (bk & 1);

        load_a_gmem += BK;
        load_b_gmem += BK * N;

        const int a_next = smem_sel_next * s_a_stage * (int)sizeof(half);
        const int b_next = smem_sel_next * s_b_stage * (int)sizeof(half);
        CP_ASYNC_CG_16(load_a_smem_0 + a_next, &a[load_a_gmem]);
        CP_ASYNC_CG_16(load_a_smem_1 + a_next, &a[load_a_gmem + 32 * K]);
        CP_ASYNC_CG_16(load_b_smem_0 + b_next, &b[load_b_gmem]);
        CP_ASYNC_CG_16(load_b_smem_1 + b_next, &b[load_b_gmem +  8 * N]);
        CP_ASYNC_CG_16(load_b_smem_2 + b_next, &b[load_b_gmem + 16 * N]);
        CP_ASYNC_CG_16(load_b_smem_3 + b_next, &b[load_b_gmem + 24 * N]);
        CP_ASYNC_COMMIT_GROUP();

        const half* a_cur = s_a + smem_sel * s_a_stage;
        const half* b_cur = s_b + smem_sel * s_b_stage;
        for (int i = 0; i < 2; i++) {
            wmma::load_matrix_sync(frag_a[0][i], a_cur + OFFSET(comp_m + i * 16,  0, BK + APAD), BK + APAD);
            wmma::load_matrix_sync(frag_a[1][i], a_cur + OFFSET(comp_m + i * 16, 16, BK + APAD), BK + APAD);
        }
        for (int j = 0; j < 4; j++) {
            wmma::load_matrix_sync(frag_b[0][j], b_cur + OFFSET( 0, comp_n + j * 16, BN + BPAD), BN + BPAD);
            wmma::load_matrix_sync(frag_b[1][j], b_cur + OFFSET(16, comp_n + j * 16, BN + BPAD), BN + BPAD);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                wmma::mma_sync(frag_c[i][j], frag_a[0][i], frag_b[0][j], frag_c[i][j]);
                wmma::mma_sync(frag_c[i][j], frag_a[1][i], frag_b[1][j], frag_c[i][j]);
            }
        }

        CP_ASYNC_WAIT_GROUP_0();
        __syncthreads();
    }

    // the last tile
    const int smem_sel = ((K / BK) & 1) ^ 1;
    const half* a_last = s_a + smem_sel * s_a_stage;
    const half* b_last = s_b + smem_sel * s_b_stage;
    for (int i = 0; i < 2; i++) {
        wmma::load_matrix_sync(frag_a[0][i], a_last + OFFSET(comp_m + i * 16,  0, BK + APAD), BK + APAD);
        wmma::load_matrix_sync(frag_a[1][i], a_last + OFFSET(comp_m + i * 16, 16, BK + APAD), BK + APAD);
    }
    for (int j = 0; j < 4; j++) {
        wmma::load_matrix_sync(frag_b[0][j], b_last + OFFSET( 0, comp_n + j * 16, BN + BPAD), BN + BPAD);
        wmma::load_matrix_sync(frag_b[1][j], b_last + OFFSET(16, comp_n + j * 16, BN + BPAD), BN + BPAD);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            wmma::mma_sync(frag_c[i][j], frag_a[0][i], frag_b[0][j], frag_c[i][j]);
            wmma::mma_sync(frag_c[i][j], frag_a[1][i], frag_b[1][j], frag_c[i][j]);
        }
    }

    const int store_c_m = by * BM + comp_m;
    const int store_c_n = bx * BN + comp_n;
    half* c_ptr = c + OFFSET(store_c_m, store_c_n, N);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            wmma::store_matrix_sync(c_ptr + OFFSET(i * 16, j * 16, N), frag_c[i][j], N, wmma::mem_row_major);
        }
    }
}
