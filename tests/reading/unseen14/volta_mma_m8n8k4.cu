#include <cuda_fp16.h>

// C = A * B^T on Volta: A is M x K, B is N x K, both row major. A warp computes 8 x 32 with mma.m8n8k4,
// one 8 x 8 tile per quad pair.
__device__ inline void mma_884(float* c, const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}

__global__ void volta_hgemm_nt(const half* A, const half* B, float* C, int M, int N, int K) {
    const int lane = threadIdx.x & 31;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int tiles_n = N / 32;
    const int row0 = warp / tiles_n * 8;
    const int col0 = warp % tiles_n * 32;
    if (row0 >= M) return;

    const int quad_pair = (lane & 15) >> 2;
    const int in_tile = (lane & 3) + ((lane & 16) >> 2);  // row of A, column of B
    const half* a_ptr = A + (row0 + in_tile) * K;
    const half* b_ptr = B + (col0 + quad_pair * 8 + in_tile) * K;

    float c[8] = {0};
    for (int k = 0; k < K; k += 4) {
        const uint2 a = *reinterpret_cast<const uint2*>(a_ptr + k);
        const uint2 b = *reinterpret_cast<const uint2*>(b_ptr + k);
        const unsigned av[2] = {a.x, a.y}, bv[2] = {b.x, b.y};
        mma_884(c, av, bv);
    }
    for (int i = 0; i < 8; ++i) {
        const int r = (lane & 1) + (i & 2) + ((lane & 16) >> 2);
        const int col = (i & 4) + (lane & 2) + (i & 1);
        C[(row0 + r) * N + col0 + quad_pair * 8 + col] = c[i];
    }
}
