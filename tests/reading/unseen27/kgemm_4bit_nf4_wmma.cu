// 4-bit (NF4) inference GEMM with blockwise absmax, tensor core version.
//
//   out[M, N] = A[M, K] @ dequant(B)[N, K]^T
//
//   B       packed, two codes a byte, N * K / 2 bytes; the first element of a pair is in the HIGH nibble
//   absmax  one float per `blocksize` consecutive elements of the flattened B
//   blocksize is a power of two >= 64, K % 64 == 0 and K % blocksize == 0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

__constant__ float nf4_data[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ half from_float<half>(float x) { return __float2half(x); }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

#define KG_TILE_M 64
#define KG_TILE_N 64
#define KG_TILE_K 64
#define KG_LD (KG_TILE_K + 8)
#define KG_LDC (KG_TILE_N + 4)

template <typename T, int THREADS>
__global__ void kgemm_4bit_inference_wmma(
    int M, int N, int K, const T* __restrict__ A, const unsigned char* __restrict__ B,
    const float* __restrict__ absmax, T* __restrict__ out, int lda, int ldc, int blocksize
) {
    using namespace nvcuda;
    static_assert(THREADS == 128, "four warps, two threads per weight row");

    __shared__ __align__(32) T smem_A[KG_TILE_M * KG_LD];
    __shared__ __align__(32) T smem_B[KG_TILE_N * KG_LD];
    __shared__ __align__(32) float smem_C[KG_TILE_M * KG_LDC];

    const int m0 = blockIdx.y * KG_TILE_M;
    const int n0 = blockIdx.x * KG_TILE_N;
    const int warp_id = threadIdx.x / 32;
    const int warp_m = (warp_id & 1) * 32;
    const int warp_n = (warp_id >> 1) * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(c_frag[i][j], 0.0f);

    // weight row and half row of this thread
    const int b_row = threadIdx.x >> 1;
    const int b_col = (threadIdx.x & 1) * 32;

    for (int k0 = 0; k0 < K; k0 += KG_TILE_K) {
        for (int i = threadIdx.x; i < KG_TILE_M * KG_TILE_K / 8; i += THREADS) {
            const int row = i >> 3;
            const int col = (i & 7) << 3;
            int4 val = make_int4(0, 0, 0, 0);
            if (m0 + row < M)
                val = *reinterpret_cast<const int4*>(A + (size_t)(m0 + row) * lda + k0 + col);
            *reinterpret_cast<int4*>(smem_A + row * KG_LD + col) = val;
        }

        // 32 weights = 16 bytes a thread
        T* dst = smem_B + b_row * KG_LD + b_col;
        if (n0 + b_row < N) {
            const size_t offset = (size_t)(n0 + b_row) * K + k0 + b_col;
            const uint4 packed = *reinterpret_cast<const uint4*>(B + offset / 2);
            const unsigned char* codes = reinterpret_cast<const unsigned char*>(&packed);
            const float scale = absmax[offset / blocksize];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                dst[2 * i] = from_float<T>(nf4_data[codes[i] >> 4] * scale);
                dst[2 * i + 1] = from_float<T>(nf4_data[codes[i] & 0x0F] * scale);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 32; i++)
                dst[i] = from_float<T>(0.0f);
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < KG_TILE_K; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a_frag[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> b_frag[2];
            for (int i = 0; i < 2; i++)
                wmma::load_matrix_sync(a_frag[i], smem_A + (warp_m + i * 16) * KG_LD + k, KG_LD);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b_frag[j], smem_B + (warp_n + j * 16) * KG_LD + k, KG_LD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(c_frag[i][j], a_frag[i], b_frag[j], c_frag[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(
                smem_C + (warp_m + i * 16) * KG_LDC + warp_n + j * 16, c_frag[i][j], KG_LDC, wmma::mem_row_major
            );
    __syncthreads();

    for (int i = threadIdx.x; i < KG_TILE_M * KG_TILE_N; i += THREADS) {
        const int row = i / KG_TILE_N;
        const int col = i % KG_TILE_N;
        if (m0 + row < M && n0 + col < N)
            out[(size_t)(m0 + row) * ldc + n0 + col] = from_float<T>(smem_C[row * KG_LDC + col]);
    }
}

template <typename T>
void gemm_4bit_inference_wmma(
    int m, int n, int k, const T* A, const unsigned char* B, const float* absmax, T* out, int lda, int ldc,
    int blocksize, cudaStream_t stream
) {
    dim3 grid((n + KG_TILE_N - 1) / KG_TILE_N, (m + KG_TILE_M - 1) / KG_TILE_M);
    kgemm_4bit_inference_wmma<T, 128><<<grid, 128, 0, stream>>>(m, n, k, A, B, absmax, out, lda, ldc, blocksize);
}

extern "C" {

void cgemm_4bit_inference_wmma_fp16(
    int m, int n, int k, half* A, unsigned char* B, float* absmax, half* out, int lda, int ldc, int blocksize,
    cudaStream_t stream
) {
    gemm_4bit_inference_wmma<half>(m, n, k, A, B, absmax, out, lda, ldc, blocksize, stream);
}

void cgemm_4bit_inference_wmma_bf16(
    int m, int n, int k, __nv_bfloat16* A, unsigned char* B, float* absmax, __nv_bfloat16* out, int lda, int ldc,
    int blocksize, cudaStream_t stream
) {
    gemm_4bit_inference_wmma<__nv_bfloat16>(m, n, k, A, B, absmax, out, lda, ldc, blocksize, stream);
}

} // extern "C"
