// Double buffered hgemm: cp.async 16-byte copies into two stages, WMMA from shared.
// 64x64x32 tiles, 4 warps.  M, N multiples of 64 / K multiple of 32 assumed (host pads).
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>
using namespace nvcuda;

#define TM 64
#define TN 64
#define TK 32
#define APITCH 40
#define BPITCH 72

__device__ __forceinline__ void cp16(void* smem, const void* gmem)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(s), "l"(gmem));
}
#define CP_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;\n" :: "n"(n))

__device__ void load_stage(half (*sa)[APITCH], half (*sb)[BPITCH], const half* A, const half* B, int k0, int N, int K)
{
    int t = threadIdx.x;
    // A: 64 rows x 4 chunks, B: 32 rows x 8 chunks, 2 each per thread
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int c = t + i * 128;
        cp16(&sa[c / 4][(c % 4) * 8], A + (size_t)(blockIdx.y * TM + c / 4) * K + k0 + (c % 4) * 8);
        cp16(&sb[c / 8][(c % 8) * 8], B + (size_t)(k0 + c / 8) * N + blockIdx.x * TN + (c % 8) * 8);
    }
}

__global__ void hgemm_async(const half* A, const half* B, half* C, int M, int N, int K)
{
    __shared__ __align__(32) half sa[2][TM][APITCH];
    __shared__ __align__(32) half sb[2][TK][BPITCH];
    int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; j++) wmma::fill_fragment(acc[j], 0.0f);

    int nk = K / TK;
    load_stage(sa[0], sb[0], A, B, 0, N, K);
    CP_COMMIT();
    for (int it = 0; it < nk; it++) {
        int cur = it & 1;
        // always prefetch (the last one again at the end), keeps the loop free of branches
        load_stage(sa[cur ^ 1], sb[cur ^ 1], A, B, min(it + 1, nk - 1) * TK, N, K);
        CP_COMMIT();
        CP_WAIT(1);
        __syncthreads();
        for (int k = 0; k < TK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::load_matrix_sync(fa, &sa[cur][warp * 16][k], APITCH);
            for (int j = 0; j < 4; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
                wmma::load_matrix_sync(fb, &sb[cur][k][j * 16], BPITCH);
                wmma::mma_sync(acc[j], fa, fb, acc[j]);
            }
        }
        __syncthreads();
    }
    // stage the tile in the A buffers for coalesced stores
    __syncthreads();
    half* tile = &sa[0][0][0];
    for (int j = 0; j < 4; j++) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> out;
        for (int e = 0; e < out.num_elements; e++) out.x[e] = __float2half(acc[j].x[e]);
        wmma::store_matrix_sync(tile + warp * 16 * 72 + j * 16, out, 72, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TM * TN / 8; i += 128) {
        int r = i / 8, c = i % 8 * 8;
        *(uint4*)(C + (size_t)(blockIdx.y * TM + r) * N + blockIdx.x * TN + c) = *(uint4*)(tile + r * 72 + c);
    }
}
