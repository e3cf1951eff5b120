#include <cuda_bf16.h>
#include <mma.h>
#include <stdexcept>

// bf16 x bf16 -> fp32.  128x64 CTA tile, 8 warps (4 along M, 2 along N), each 32x32.
// Both operands in one dynamic allocation; opt in to > 48 KB because BK is large.
using bf16 = __nv_bfloat16;
namespace {
constexpr int kBM = 128, kBN = 64, kBK = 128;
constexpr int kPad = 8;
constexpr int kLdA = kBK + kPad;
constexpr int kLdB = kBN + kPad;
constexpr size_t kSmem = (kBM * kLdA + kBK * kLdB) * sizeof(bf16);
}

extern "C" __global__ __launch_bounds__(256)
void bf16_gemm(const bf16* __restrict__ A, const bf16* __restrict__ B, float* __restrict__ D, int M, int N, int K)
{
    extern __shared__ uint4 raw[];
    bf16* As = reinterpret_cast<bf16*>(raw);
    bf16* Bs = As + kBM * kLdA;
    using namespace nvcuda;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warpRow = warp / 2, warpCol = warp % 2;
    const int ctaRow = blockIdx.x * kBM, ctaCol = blockIdx.y * kBN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
    for (auto& r : acc)
        for (auto& f : r) wmma::fill_fragment(f, 0.f);

    const uint4 zero = make_uint4(0, 0, 0, 0);
    for (int kb = 0; kb < K; kb += kBK) {
        for (auto& r : acc)
            for (auto& f : r) wmma::fill_fragment(f, 0.f);
        // K and N are multiples of 8, so 16-byte copies are fine
        for (int row = warp; row < kBM; row += 8)
            for (int c = lane * 8; c < kBK; c += 256) {
                const bool ok = ctaRow + row < M && kb + c < K;
                *reinterpret_cast<uint4*>(As + row * kLdA + c) =
                    ok ? *reinterpret_cast<const uint4*>(A + (size_t)(ctaRow + row) * K + kb + c) : zero;
            }
        for (int i = threadIdx.x * 8; i < kBK * kBN; i += 256 * 8) {
            const int row = i / kBN, c = i % kBN;
            const bool ok = kb + row < K && ctaCol + c < N;
            *reinterpret_cast<uint4*>(Bs + row * kLdB + c) =
                ok ? *reinterpret_cast<const uint4*>(B + (size_t)(kb + row) * N + ctaCol + c) : zero;
        }
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < kBK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], As + (warpRow * 32 + i * 16) * kLdA + k, kLdA);
                wmma::load_matrix_sync(b[i], Bs + k * kLdB + warpCol * 32 + i * 16, kLdB);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const int r = ctaRow + warpRow * 32 + i * 16, c = ctaCol + warpCol * 32 + j * 16;
            if (r < M && c < N) wmma::store_matrix_sync(D + (size_t)r * N + c, acc[i][j], N, wmma::mem_row_major);
        }
}

void gemm(const bf16* A, const bf16* B, float* D, int M, int N, int K, cudaStream_t s)
{
    cudaFuncSetAttribute(bf16_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kSmem);
    bf16_gemm<<<dim3((M + kBM - 1) / kBM, (N + kBN - 1) / kBN), 256, kSmem, s>>>(A, B, D, M, N, K);
    if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("bf16_gemm");
}
