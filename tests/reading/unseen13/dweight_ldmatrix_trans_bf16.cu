#include <cuda_bf16.h>
#include <stdint.h>

// dW[out, in] = dY[tokens, out]^T * X[tokens, in]   (bf16 -> fp32)
#define OUT_TILE 64
#define IN_TILE 64
#define TOK_TILE 32

__global__ void __launch_bounds__(128) linear_dweight(const __nv_bfloat16* __restrict__ dY, const __nv_bfloat16* __restrict__ X,
                                                      float* __restrict__ dW, int tokens, int out_features, int in_features)
{
    __shared__ __align__(16) __nv_bfloat16 s_dy[TOK_TILE][OUT_TILE + 8];
    __shared__ __align__(16) __nv_bfloat16 s_x[TOK_TILE][IN_TILE + 8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int o0 = blockIdx.x * OUT_TILE, i0 = blockIdx.y * IN_TILE;

    float acc[8][4];
#pragma unroll
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 4; e++) acc[j][e] = 0.f;

    for (int t0 = 0; t0 < tokens; t0 += TOK_TILE) {
        for (int v = threadIdx.x; v < TOK_TILE * OUT_TILE / 8; v += 128) {
            int r = v / (OUT_TILE / 8), c = v % (OUT_TILE / 8) * 8;
            *(uint4*)&s_dy[r][c] = *(const uint4*)&dY[(size_t)(t0 + r) * out_features + o0 + c];
            *(uint4*)&s_x[r][c] = *(const uint4*)&X[(size_t)(t0 + r) * in_features + i0 + c];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TOK_TILE; k += 16) {
            uint32_t a[4];
            uint32_t addr = __cvta_generic_to_shared(&s_dy[k + lane / 16 * 8 + lane % 8][warp * 16 + (lane / 8 % 2) * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr));
#pragma unroll
            for (int j = 0; j < 8; j++) {
                uint32_t b[2];
                addr = __cvta_generic_to_shared(&s_x[k + lane % 16][j * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(addr));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            }
        }
        __syncthreads();
    }

    const int o = o0 + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int i = i0 + j * 8 + lane % 4 * 2;
        *(float2*)&dW[(size_t)o * in_features + i] = make_float2(acc[j][0], acc[j][1]);
        *(float2*)&dW[(size_t)(o + 8) * in_features + i] = make_float2(acc[j][2], acc[j][3]);
    }
}

void linear_backward_weight(const __nv_bfloat16* dY, const __nv_bfloat16* X, float* dW, int tokens, int out_features,
                            int in_features, cudaStream_t stream)
{
    dim3 grid(out_features / OUT_TILE, in_features / IN_TILE);
    linear_dweight<<<grid, 128, 0, stream>>>(dY, X, dW, tokens, out_features, in_features);
}
