// Split-K GEMM for skinny problems: partial products go to a float workspace, a second kernel sums them and adds the bias.
//   D[M, N] = A[M, K] * W[N, K]^T + bias[N]
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

typedef __nv_bfloat16 bf16_t;

constexpr int MTile = 32;
constexpr int NTile = 32;
constexpr int KTile = 32;
constexpr int Pad = 8;

inline int ceil_div(int x, int y) { return (x + y - 1) / y; }

// blockIdx.z is the slice of K
__global__ void gemm_splitk_partial(const bf16_t* __restrict__ A, const bf16_t* __restrict__ W,
                                    float* __restrict__ workspace, int M, int N, int K, int k_per_split)
{
    __shared__ __align__(32) bf16_t sA[MTile][KTile + Pad];
    __shared__ __align__(32) bf16_t sW[NTile][KTile + Pad];
    __shared__ __align__(32) float sD[MTile][NTile + 4];

    const int m0 = blockIdx.y * MTile;
    const int n0 = blockIdx.x * NTile;
    const int split = blockIdx.z;
    const int k_begin = split * k_per_split;
    const int k_end = min(K, k_begin + k_per_split);
    const int warp = threadIdx.x >> 5;
    const int wm = (warp >> 1) * 16;
    const int wn = (warp & 1) * 16;
    const bf16_t zero = __float2bfloat16(0.f);

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.f);

    for (int k0 = k_begin; k0 < k_end; k0 += KTile)
    {
        for (int i = threadIdx.x; i < MTile * KTile; i += blockDim.x)
        {
            int r = i / KTile, c = i % KTile;
            sA[r][c] = (m0 + r < M && k0 + c < k_end) ? A[(size_t)(m0 + r) * K + k0 + c] : zero;
        }
        for (int i = threadIdx.x; i < NTile * KTile; i += blockDim.x)
        {
            int r = i / KTile, c = i % KTile;
            sW[r][c] = (n0 + r < N && k0 + c < k_end) ? W[(size_t)(n0 + r) * K + k0 + c] : zero;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < KTile; kk += 16)
        {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, bf16_t, nvcuda::wmma::row_major> a;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, bf16_t, nvcuda::wmma::col_major> b;
            nvcuda::wmma::load_matrix_sync(a, &sA[wm][kk], KTile + Pad);
            nvcuda::wmma::load_matrix_sync(b, &sW[wn][kk], KTile + Pad);
            nvcuda::wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }

    nvcuda::wmma::store_matrix_sync(&sD[wm][wn], acc, NTile + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();
    float* out = workspace + (size_t)split * M * N;
    for (int i = threadIdx.x; i < MTile * NTile; i += blockDim.x)
    {
        int r = i / NTile, c = i % NTile;
        if (m0 + r < M && n0 + c < N)
            out[(size_t)(m0 + r) * N + n0 + c] = sD[r][c];
    }
}

template <int Splits>
__global__ void splitk_reduce(const float* __restrict__ workspace, const bf16_t* __restrict__ bias,
                              bf16_t* __restrict__ D, int M, int N)
{
    const int total = M * N;
    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < total; idx += gridDim.x * blockDim.x)
    {
        float sum = 0.f;
#pragma unroll
        for (int s = 0; s < Splits; ++s)
            sum += workspace[(size_t)s * total + idx];
        if (bias)
            sum += __bfloat162float(bias[idx % N]);
        D[idx] = __float2bfloat16(sum);
    }
}

template <int Splits>
static cudaError_t run_splitk(const bf16_t* A, const bf16_t* W, const bf16_t* bias, bf16_t* D, float* workspace, int M,
                              int N, int K, cudaStream_t stream)
{
    const int k_per_split = ceil_div(ceil_div(K, Splits), KTile) * KTile;
    dim3 grid(ceil_div(N, NTile), ceil_div(M, MTile), Splits);
    gemm_splitk_partial<<<grid, 128, 0, stream>>>(A, W, workspace, M, N, K, k_per_split);
    const int threads = 256;
    const int blocks = min(ceil_div(M * N, threads), 1024);
    splitk_reduce<Splits><<<blocks, threads, 0, stream>>>(workspace, bias, D, M, N);
    return cudaGetLastError();
}

size_t splitk_workspace_bytes(int M, int N, int splits) { return (size_t)splits * M * N * sizeof(float); }

cudaError_t gemm_splitk_bias(const bf16_t* A, const bf16_t* W, const bf16_t* bias, bf16_t* D, float* workspace, int M, int N,
                             int K, int splits, cudaStream_t stream)
{
    switch (splits)
    {
    case 2: return run_splitk<2>(A, W, bias, D, workspace, M, N, K, stream);
    case 4: return run_splitk<4>(A, W, bias, D, workspace, M, N, K, stream);
    case 8: return run_splitk<8>(A, W, bias, D, workspace, M, N, K, stream);
    default: return cudaErrorInvalidValue;
    }
}
