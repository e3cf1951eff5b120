// HGEMM, TN:  C[M, N] = A[M, K] * B[N, K]^T   (B is column major), f32 accumulators
// step 7: mma.sync m16n8k16 + ldmatrix + cp.async, two buffers in shared memory, two in registers,
//         XOR swizzle in place of padding, C through shared memory so that rows are written in 16 bytes
// M % 128 == 0, N % 64 == 0, K % 32 == 0
#include <cuda_fp16.h>

#define BM 128
#define BN 64
#define BK 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 16
#define WM 64      // tile of a warp
#define WN 32
#define CPAD 8
#define NUM_THREADS 128

#define CP_ASYNC_CG(dst, src) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_ALL() asm volatile("cp.async.wait_group 0;\n" ::)

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"   \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                               \
                 : "r"(addr))

#define HMMA16816F32(D, A, B0, B1)                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                   \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"    \
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                       \
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B0), "r"(B1))

// address of a 16-byte chunk in a tile with 4 chunks in a row
__device__ __forceinline__ unsigned chunk_addr(unsigned tile, int row, int chunk)
{
    return tile + (row * BK + ((chunk ^ ((row >> 1) & 3)) << 3)) * sizeof(half);
}

__global__ void __launch_bounds__(NUM_THREADS)
hgemm_dbuf_swizzle(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K)
{
    // 2 * (BM + BN) * BK halves for the tiles; C, BM * (BN + CPAD), lies over them afterwards
    __shared__ __align__(128) half smem[2 * (BM + BN) * BK];
    half* s_c = smem;

    const int tid    = threadIdx.x;
    const int lane   = tid & 31;
    const int warp   = tid >> 5;
    const int warp_m = warp & 1;
    const int warp_n = warp >> 1;
    const int bm     = blockIdx.y * BM;
    const int bn     = blockIdx.x * BN;

    const unsigned smem_base = (unsigned)__cvta_generic_to_shared(smem);
    const unsigned s_a0 = smem_base;
    const unsigned s_b0 = smem_base + 2 * BM * BK * sizeof(half);
    const unsigned a_stage = BM * BK * sizeof(half);
    const unsigned b_stage = BN * BK * sizeof(half);

    // global -> shared: four threads have a row, 32 rows at a time. The swizzle repeats every 8 rows,
    // so that it is the same for all of a thread's rows
    const int ld_row   = tid >> 2;
    const int ld_chunk = tid & 3;
    const int st_chunk = ld_chunk ^ ((tid >> 3) & 3);
    const half* a_ptr = A + (size_t)(bm + ld_row) * K + ld_chunk * 8;
    const half* b_ptr = B + (size_t)(bn + ld_row) * K + ld_chunk * 8;
    const unsigned st_off = (ld_row * BK + st_chunk * 8) * sizeof(half);

    // shared -> registers
    const int a_row   = warp_m * WM + (lane & 15);
    const int a_chunk = lane >> 4;
    const int b_row   = warp_n * WN + (lane & 7) + (lane >> 4) * 8;
    const int b_chunk = (lane >> 3) & 1;

    unsigned ra[2][WM / MMA_M][4];
    unsigned rb[2][WN / MMA_N][2];
    float acc[WM / MMA_M][WN / MMA_N][4];
#pragma unroll
    for (int i = 0; i < WM / MMA_M; i++)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0.f;

    // tile 0 -> buffer 0
#pragma unroll
    for (int i = 0; i < BM / 32; i++)
        CP_ASYNC_CG(s_a0 + st_off + i * 32 * BK * (unsigned)sizeof(half), a_ptr + (size_t)i * 32 * K);
#pragma unroll
    for (int i = 0; i < BN / 32; i++)
        CP_ASYNC_CG(s_b0 + st_off + i * 32 * BK * (unsigned)sizeof(half), b_ptr + (size_t)i * 32 * K);
    CP_ASYNC_COMMIT();

    const int num_tiles = K / BK;
    for (int kt = 0; kt < num_tiles; kt++) {
        const unsigned s_a = s_a0 + (kt & 1) * a_stage;
        const unsigned s_b = s_b0 + (kt & 1) * b_stage;
        CP_ASYNC_WAIT_ALL();
        __syncthreads();

        if (kt + 1 < num_tiles) {
            const unsigned d_a = s_a0 + ((kt + 1) & 1) * a_stage + st_off;
            const unsigned d_b = s_b0 + ((kt + 1) & 1) * b_stage + st_off;
            const int k_next = (kt + 1) * BK;
#pragma unroll
            for (int i = 0; i < BM / 32; i++)
                CP_ASYNC_CG(d_a + i * 32 * BK * (unsigned)sizeof(half), a_ptr + (size_t)i * 32 * K + k_next);
#pragma unroll
            for (int i = 0; i < BN / 32; i++)
                CP_ASYNC_CG(d_b + i * 32 * BK * (unsigned)sizeof(half), b_ptr + (size_t)i * 32 * K + k_next);
            CP_ASYNC_COMMIT();
        }

        // step ks + 1 is loaded while step ks is multiplied
#pragma unroll
        for (int ks = -1; ks < BK / MMA_K; ks++) {
            if (ks + 1 < BK / MMA_K) {
                const int nx = (ks + 1) & 1;
#pragma unroll
                for (int i = 0; i < WM / MMA_M; i++)
                    LDMATRIX_X4(ra[nx][i][0], ra[nx][i][1], ra[nx][i][2], ra[nx][i][3],
                                chunk_addr(s_a, a_row + i * MMA_M, (ks + 1) * 2 + a_chunk));
#pragma unroll
                for (int j = 0; j < WN / MMA_N; j += 2)
                    LDMATRIX_X4(rb[nx][j][0], rb[nx][j][1], rb[nx][j + 1][0], rb[nx][j + 1][1],
                                chunk_addr(s_b, b_row + j * MMA_N, (ks + 1) * 2 + b_chunk));
            }
            if (ks >= 0) {
#pragma unroll
                for (int i = 0; i < WM / MMA_M; i++)
#pragma unroll
                    for (int j = 0; j < WN / MMA_N; j++)
                        HMMA16816F32(acc[i][j], ra[ks & 1][i], rb[ks & 1][j][0], rb[ks & 1][j][1]);
            }
        }
    }

    // epilogue: the tiles are not needed any more
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WM / MMA_M; i++) {
#pragma unroll
        for (int j = 0; j < WN / MMA_N; j++) {
            const int row = warp_m * WM + i * MMA_M + lane / 4;
            const int col = warp_n * WN + j * MMA_N + lane % 4 * 2;
            *(half2*)(s_c + row * (BN + CPAD) + col)       = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
            *(half2*)(s_c + (row + 8) * (BN + CPAD) + col) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
        }
    }
    __syncthreads();

    for (int c = tid; c < BM * BN / 8; c += NUM_THREADS) {
        const int row = c / (BN / 8);
        const int col = c % (BN / 8) * 8;
        *(float4*)(C + (size_t)(bm + row) * N + bn + col) = *(const float4*)(s_c + row * (BN + CPAD) + col);
    }
}
