#include <cuda_runtime.h>
#include <stdint.h>

// C(MxN) = A(MxK) * B(KxN), fp32 in/out, tf32 mma.sync m16n8k8. One warp computes 32x32.

__device__ __forceinline__ uint32_t f2tf32(float x) {
    uint32_t r;
    asm volatile("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ void mma_16x8x8(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#define TILE_K 16

__global__ void sgemm_tf32(const float *A, const float *B, float *C, int N, int M, int K) {
    __shared__ float sA[64][TILE_K + 4];
    __shared__ float sB[TILE_K][64 + 8];
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    int g = lane >> 2, t = lane & 3;
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    int wr = (warp >> 1) * 32, wc = (warp & 1) * 32;

    float acc[2][4][4] = {0};
    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        for (int i = tid; i < 64 * TILE_K; i += 128) {
            int r = i / TILE_K, c = i % TILE_K;
            sA[r][c] = A[(row0 + r) * K + k0 + c];
        }
        for (int i = tid; i < 64 * TILE_K; i += 128) {
            int r = i / 64, c = i % 64;
            sB[r][c] = B[(k0 + r) * N + col0 + c];
        }
        __syncthreads();
        for (int kk = 0; kk < TILE_K; kk += 8) {
            uint32_t a[2][4], b[4][2];
            for (int i = 0; i < 2; i++) {
                a[i][0] = f2tf32(sA[wr + i * 16 + g][kk + t]);
                a[i][1] = f2tf32(sA[wr + i * 16 + g + 8][kk + t]);
                a[i][2] = f2tf32(sA[wr + i * 16 + g][kk + t + 4]);
                a[i][3] = f2tf32(sA[wr + i * 16 + g + 8][kk + t + 4]);
            }
            for (int j = 0; j < 4; j++) {
                b[j][0] = f2tf32(sB[kk + t][wc + j * 8 + g]);
                b[j][1] = f2tf32(sB[kk + t + 4][wc + j * 8 + g]);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++) mma_16x8x8(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            int r = row0 + wr + i * 16 + g, c = col0 + wc + j * 8 + t * 2;
            C[r * N + c] = acc[i][j][0];
            C[r * N + c + 1] = acc[i][j][1];
            C[(r + 8) * N + c] = acc[i][j][2];
            C[(r + 8) * N + c + 1] = acc[i][j][3];
        }
}

extern "C" void launch_sgemm_tf32(const float *A, const float *B, float *C, int N, int M, int K) {
    dim3 grid(N / 64, M / 64);
    sgemm_tf32<<<grid, 128>>>(A, B, C, N, M, K);
}
