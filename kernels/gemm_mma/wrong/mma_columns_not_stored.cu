// D[M,N] = A[M,K] * B[K,N]; 32x32 per block, 2 warps, mma.m16n8k16. B tile is row major in shared, loaded with ldmatrix.trans
#include <cuda_fp16.h>
#include <cstdint>

namespace ptx {
__device__ inline uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline void ldmatrix_x4(uint32_t (&r)[4], uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(addr));
}
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
}  // namespace ptx

static constexpr int BLK = 32, KSTEP = 32, STRIDE = KSTEP + 8;

__global__ void mma_gemm(const half* A, const half* B, float* D, int M, int N, int K)
{
    __shared__ alignas(16) half a_sh[BLK * STRIDE];
    __shared__ alignas(16) half b_sh[KSTEP * STRIDE];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int bm = blockIdx.y * BLK, bn = blockIdx.x * BLK;
    float d[4][4] = {{0.f}};

    for (int k0 = 0; k0 < K; k0 += KSTEP) {
        for (int e = threadIdx.x; e < BLK * KSTEP; e += 64) {
            int r = e / KSTEP, c = e % KSTEP;
            a_sh[r * STRIDE + c] = bm + r < M && k0 + c < K ? A[(bm + r) * K + k0 + c] : __float2half(0.f);
            b_sh[r * STRIDE + c] = k0 + r < K && bn + c < N ? B[(k0 + r) * N + bn + c] : __float2half(0.f);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < KSTEP; kk += 16) {
            uint32_t af[4];
            ptx::ldmatrix_x4(af, ptx::smem_u32(&a_sh[(warp * 16 + (lane & 15)) * STRIDE + kk + (lane >> 4) * 8]));
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                uint32_t bf[2];
                ptx::ldmatrix_x2_trans(bf, ptx::smem_u32(&b_sh[(kk + (lane & 15)) * STRIDE + j * 8]));
                ptx::mma(d[j], af, bf);
            }
        }
        __syncthreads();
    }

    // each lane owns rows g and g + 8, columns 2t and 2t + 1
    const int g = lane >> 2, t = lane & 3;
    for (int j = 0; j < 3; ++j)
        for (int half_row = 0; half_row < 2; ++half_row) {
            const int row = bm + warp * 16 + g + half_row * 8, col = bn + j * 8 + t * 2;
            if (row < M && col < N) D[row * N + col] = d[j][half_row * 2];
            if (row < M && col + 1 < N) D[row * N + col + 1] = d[j][half_row * 2 + 1];
        }
}
