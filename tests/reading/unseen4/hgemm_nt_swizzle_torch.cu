// y = x @ w.T with mma.m16n8k16, ldmatrix and an XOR swizzle. PyTorch extension.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 32
#define THREADS 128
#define CDIV(a, b) (((a) + (b) - 1) / (b))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                     \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"         \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                     \
                 : "r"(addr))

#define LDMATRIX_X2(R0, R1, addr)                                                             \
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n"                 \
                 : "=r"(R0), "=r"(R1)                                                         \
                 : "r"(addr))

#define HMMA16816F32(D0, D1, D2, D3, A0, A1, A2, A3, B0, B1)                                       \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
                 "{%8,%9}, {%0,%1,%2,%3};\n"                                                        \
                 : "+f"(D0), "+f"(D1), "+f"(D2), "+f"(D3)                                           \
                 : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1))

// 8 halves (16 bytes) per chunk, 4 chunks per row of BK = 32
__device__ __forceinline__ int swz(int row, int chunk) { return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3); }

__global__ void __launch_bounds__(THREADS)
hgemm_nt_mma_swizzle(const half *__restrict__ X, const half *__restrict__ W, half *__restrict__ Y, const int M,
                     const int N, const int K) {
    __shared__ __align__(16) half sX[BM * BK];
    __shared__ __align__(16) half sW[BN * BK];
    const int tid = threadIdx.x;
    const int warp = tid >> 5, lane = tid & 31;
    const int wr = (warp >> 1) * 32, wc = (warp & 1) * 32;
    const int by = blockIdx.y * BM, bx = blockIdx.x * BN;

    float acc[2][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < (BM * BK / 8) / THREADS; ++i) {
            int c = tid + i * THREADS;
            int row = c >> 2, ch = c & 3;
            *reinterpret_cast<float4 *>(&sX[swz(row, ch)]) =
                *reinterpret_cast<const float4 *>(&X[(size_t)(by + row) * K + k0 + ch * 8]);
        }
#pragma unroll
        for (int i = 0; i < (BN * BK / 8) / THREADS; ++i) {
            int c = tid + i * THREADS;
            int row = c >> 2, ch = c & 3;
            *reinterpret_cast<float4 *>(&sW[swz(row, ch)]) =
                *reinterpret_cast<const float4 *>(&W[(size_t)(bx + row) * K + k0 + ch * 8]);
        }
        __syncthreads();
#pragma unroll
        for (int ks = 0; ks < 2; ++ks) {
            uint32_t ra[2][4], rb[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t p = (uint32_t)__cvta_generic_to_shared(&sX[swz(wr + i * 16 + (lane & 15), ks * 2 + (lane >> 4))]);
                LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], p);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                uint32_t p = (uint32_t)__cvta_generic_to_shared(&sW[swz(wc + j * 8 + (lane & 7), ks * 2 + ((lane >> 3) & 1))]);
                LDMATRIX_X2(rb[j][0], rb[j][1], p);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    HMMA16816F32(acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3], ra[i][0], ra[i][1], ra[i][2],
                                 ra[i][3], rb[j][0], rb[j][1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int r = by + wr + i * 16 + (lane >> 2);
            int c = bx + wc + j * 8 + (lane & 3) * 2;
            *reinterpret_cast<half2 *>(&Y[(size_t)r * N + c]) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<half2 *>(&Y[(size_t)(r + 8) * N + c]) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
        }
}

torch::Tensor linear_forward(torch::Tensor x, torch::Tensor w) {
    TORCH_CHECK(x.is_cuda() && w.is_cuda(), "inputs must be CUDA tensors");
    TORCH_CHECK(x.scalar_type() == torch::kHalf, "x must be half");
    TORCH_CHECK(x.size(1) == w.size(1), "shape mismatch");
    const int M = x.size(0);
    const int K = x.size(1);
    const int N = w.size(0);
    TORCH_CHECK(M % BM == 0 && N % BN == 0 && K % BK == 0);
    auto y = torch::empty({M, N}, x.options());
    dim3 grid(CDIV(N, BN), CDIV(M, BM));
    hgemm_nt_mma_swizzle<<<grid, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<half *>(x.data_ptr<at::Half>()), reinterpret_cast<half *>(w.data_ptr<at::Half>()),
        reinterpret_cast<half *>(y.data_ptr<at::Half>()), M, N, K);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_forward", &linear_forward, "linear (CUDA)"); }
