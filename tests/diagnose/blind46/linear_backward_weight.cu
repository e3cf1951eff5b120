/*
Weight and bias gradients of a fully connected layer with a fused GELU, out = gelu(inp @ weight.T + bias):

    dz      = dout * gelu'(pre_act)              (M, N)   never written to memory
    dweight += grad_scale * dz.T @ inp           (N, K)   fp32
    dbias   += grad_scale * dz.sum(0)            (N,)     fp32

M = batch * sequence is long and N, K are not, so M is split over blockIdx.z and the partial products
are added up with atomics. The caller zeroes the gradients at the start of a step.
N and K must be multiples of 8.
*/
#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

namespace train {

constexpr int TILE_N  = 64;   // output features of a block
constexpr int TILE_K  = 64;   // input features of a block
constexpr int TILE_M  = 32;   // tokens per step
constexpr int THREADS = 128;
constexpr int LD      = 64 + 8;

__device__ __forceinline__ float gelu_grad(float x) {
    const float s = 0.7978845608028654f;   // sqrt(2 / pi)
    const float u = s * (x + 0.044715f * x * x * x);
    const float t = tanhf(u);
    const float sech2 = 1.0f - t * t;
    const float du = s * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * sech2 * du;
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const bf16* p) {
    const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr)
                 : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(THREADS)
linear_backward_weight(float* __restrict__ dweight, float* __restrict__ dbias,
                       const bf16* __restrict__ dout, const bf16* __restrict__ pre_act,
                       const bf16* __restrict__ inp,
                       int M, int N, int K, int rows_per_split, float grad_scale) {
    __shared__ __align__(16) bf16 s_dz[TILE_M][LD];
    __shared__ __align__(16) bf16 s_x[TILE_M][LD];
    __shared__ float s_db[TILE_N];

    const int tid  = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;

    const int k0      = blockIdx.x * TILE_K;
    const int n0      = blockIdx.y * TILE_N;
    const int m_begin = blockIdx.z * rows_per_split;
    const int m_end   = min(M, m_begin + rows_per_split);

    // warps 2 x 2, each 32 x 32 of dweight
    const int warp_n = (warp / 2) * 32;
    const int warp_k = (warp % 2) * 32;

    float acc[2][4][4] = {};
    float db[8] = {};

    const int col = (tid % 8) * 8;   // a thread loads the same 8 columns of every row

    for (int m0 = m_begin; m0 < m_end; m0 += TILE_M) {
        for (int row = tid / 8; row < TILE_M; row += THREADS / 8) {
            const int m = m0 + row;
            uint4 dz = make_uint4(0, 0, 0, 0);
            uint4 x  = make_uint4(0, 0, 0, 0);
            if (m < m_end && n0 + col < N) {
                const uint4 g = *reinterpret_cast<const uint4*>(dout + (size_t)m * N + n0 + col);
                const uint4 y = *reinterpret_cast<const uint4*>(pre_act + (size_t)m * N + n0 + col);
                const bf16* g8 = reinterpret_cast<const bf16*>(&g);
                const bf16* y8 = reinterpret_cast<const bf16*>(&y);
                bf16* z8 = reinterpret_cast<bf16*>(&dz);
                #pragma unroll
                for (int i = 0; i < 8; i++) {
                    const float z = __bfloat162float(g8[i]) * gelu_grad(__bfloat162float(y8[i]));
                    db[i] += z;
                    z8[i] = __float2bfloat16(z);
                }
            }
            if (m < m_end && k0 + col < K)
                x = *reinterpret_cast<const uint4*>(inp + (size_t)m * K + k0 + col);
            *reinterpret_cast<uint4*>(&s_dz[row][col]) = dz;
            *reinterpret_cast<uint4*>(&s_x[row][col])  = x;
        }
        __syncthreads();

        // both operands have the tokens as rows, so both are transposed on the way to the registers
        #pragma unroll
        for (int mm = 0; mm < TILE_M; mm += 16) {
            unsigned a[2][4], b[2][4];
            #pragma unroll
            for (int i = 0; i < 2; i++)
                ldmatrix_x4_trans(a[i], &s_dz[mm + (lane & 7) + (lane >> 4) * 8][warp_n + i * 16 + ((lane >> 3) & 1) * 8]);
            #pragma unroll
            for (int j = 0; j < 2; j++)
                ldmatrix_x4_trans(b[j], &s_x[mm + (lane & 15)][warp_k + j * 16 + (lane >> 4) * 8]);
            #pragma unroll
            for (int i = 0; i < 2; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    mma_bf16(acc[i][j], a[i], b[j / 2][(j % 2) * 2], b[j / 2][(j % 2) * 2 + 1]);
        }
        __syncthreads();   // the tiles are loaded again
    }

    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                const int n = n0 + warp_n + i * 16 + lane / 4 + (e / 2) * 8;
                const int k = k0 + warp_k + j * 8 + (lane % 4) * 2 + e % 2;
                if (n < N && k < K)
                    atomicAdd(&dweight[(size_t)n * K + k], grad_scale * acc[i][j][e]);
            }

    // blocks of all k have the same dz: the first ones add the bias
    if (blockIdx.x == 0) {
        if (tid < TILE_N) s_db[tid] = 0.0f;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; i++)
            atomicAdd(&s_db[col + i], db[i]);
        __syncthreads();
        if (tid < TILE_N && n0 + tid < N)
            atomicAdd(&dbias[n0 + tid], grad_scale * s_db[tid]);
    }
}

}  // namespace train
