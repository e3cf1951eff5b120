// Skinny GEMM for the decoder's MLP.  A comes transposed from the previous layer ([K, M]), the sum over K is split
// between blockIdx.z; partial sums lie in a workspace, and the block that is the last to arrive adds them up,
// adds the bias and applies GELU.
#include <cuda_bf16.h>
#include <mma.h>

namespace mlp {

using bf16 = __nv_bfloat16;
using namespace nvcuda;

constexpr int TM = 32, TN = 64, TK = 32;
constexpr int THREADS = 128;
constexpr int LDA = TM + 8;   // As is TK x TM
constexpr int LDB = TN + 8;   // Bs is TK x TN
constexpr int LDS = TN + 4;

__device__ __forceinline__ float gelu_tanh(float x)
{
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner));
}

__global__ void __launch_bounds__(THREADS)
splitk_gemm_gelu(const bf16* __restrict__ at, const bf16* __restrict__ b, const float* __restrict__ bias,
                 bf16* __restrict__ out, float* __restrict__ partial, unsigned int* __restrict__ arrived,
                 int M, int N, int K, int k_chunk)
{
    __shared__ __align__(32) bf16 As[TK * LDA];
    __shared__ __align__(32) bf16 Bs[TK * LDB];
    __shared__ __align__(32) float Ss[TM * LDS];
    __shared__ bool is_last;

    const int n0 = blockIdx.x * TN;
    const int m0 = blockIdx.y * TM;
    const int split = blockIdx.z;
    const int k_begin = split * k_chunk;
    const int k_end = min(K, k_begin + k_chunk);
    const int tid = threadIdx.x;
    const int warp = tid >> 5;   // warps lie side by side along N
    const bf16 zero = __float2bfloat16(0.0f);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int k0 = k_begin; k0 < k_end; k0 += TK) {
        for (int i = tid; i < TK * TM; i += THREADS) {
            const int kk = i / TM, mm = i % TM;
            As[kk * LDA + mm] = (k0 + kk < k_end && m0 + mm < M) ? at[(size_t)(k0 + kk) * M + m0 + mm] : zero;
        }
        for (int i = tid; i < TK * TN; i += THREADS) {
            const int kk = i / TN, nn = i % TN;
            Bs[kk * LDB + nn] = (k0 + kk < k_end && n0 + nn < N) ? b[(size_t)(k0 + kk) * N + n0 + nn] : zero;
        }
        __syncthreads();

        for (int kk = 0; kk < TK; kk += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> bf;
            wmma::load_matrix_sync(bf, Bs + kk * LDB + warp * 16, LDB);
            for (int half = 0; half < 2; half++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> af;
                wmma::load_matrix_sync(af, As + kk * LDA + half * 16, LDA);
                wmma::mma_sync(acc[half], af, bf, acc[half]);
            }
        }
        __syncthreads();
    }

    for (int half = 0; half < 2; half++)
        wmma::store_matrix_sync(Ss + half * 16 * LDS + warp * 16, acc[half], LDS, wmma::mem_row_major);
    __syncthreads();

    float* mine = partial + (size_t)split * M * N;
    for (int i = tid; i < TM * TN; i += THREADS) {
        const int r = i / TN, c = i % TN;
        if (m0 + r < M && n0 + c < N)
            mine[(size_t)(m0 + r) * N + n0 + c] = Ss[r * LDS + c];
    }

    // who comes last finds all partial sums of this tile in memory
    __threadfence();
    __syncthreads();
    if (tid == 0) {
        const unsigned int before = atomicAdd(&arrived[blockIdx.y * gridDim.x + blockIdx.x], 1u);
        is_last = before == gridDim.z - 1;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();

    for (int i = tid; i < TM * TN; i += THREADS) {
        const int row = m0 + i / TN, col = n0 + i % TN;
        if (row >= M || col >= N)
            continue;
        float sum = bias[col];
        for (int z = 0; z < gridDim.z; z++)
            sum += partial[((size_t)z * M + row) * N + col];
        out[(size_t)row * N + col] = __float2bfloat16(gelu_tanh(sum));
    }
    if (tid == 0)
        arrived[blockIdx.y * gridDim.x + blockIdx.x] = 0;   // for the next launch
}

}  // namespace mlp
