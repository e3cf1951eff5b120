#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CHECK_LAST_CUDA_ERROR() check_cuda_last(__FILE__, __LINE__)
void check_cuda_last(const char* const file, int const line)
{
    cudaError_t const err{cudaGetLastError()};
    if (err != cudaSuccess)
    {
        std::cerr << "CUDA Runtime Error at: " << file << ":" << line << std::endl;
        std::cerr << cudaGetErrorString(err) << std::endl;
        std::exit(EXIT_FAILURE);
    }
}

// Stage one [BLOCK_TILE_SIZE_Y, BLOCK_TILE_SIZE_K] tile of A and one
// [BLOCK_TILE_SIZE_K, BLOCK_TILE_SIZE_X] tile of B. Out-of-range elements are
// zero. Each thread moves 16 bytes at a time; lda and ldb are assumed to be
// multiples of 8 elements (checked on the host).
template <typename T, size_t BLOCK_TILE_SIZE_X, size_t BLOCK_TILE_SIZE_Y,
          size_t BLOCK_TILE_SIZE_K, size_t NUM_THREADS,
          size_t BLOCK_TILE_SKEW_SIZE_X, size_t BLOCK_TILE_SKEW_SIZE_K>
__device__ void load_data_to_shared_memory_vectorized(
    T const* A, size_t lda, T const* B, size_t ldb,
    T A_thread_block_tile[BLOCK_TILE_SIZE_Y]
                         [BLOCK_TILE_SIZE_K + BLOCK_TILE_SKEW_SIZE_K],
    T B_thread_block_tile[BLOCK_TILE_SIZE_K]
                         [BLOCK_TILE_SIZE_X + BLOCK_TILE_SKEW_SIZE_X],
    size_t thread_block_tile_idx, size_t thread_linear_idx, size_t m, size_t n,
    size_t k)
{
    using VECTOR_TYPE = int4;
    constexpr size_t NUM_VECTOR_UNITS{sizeof(VECTOR_TYPE) / sizeof(T)};
    static_assert(BLOCK_TILE_SIZE_K % NUM_VECTOR_UNITS == 0U);
    static_assert(BLOCK_TILE_SIZE_X % NUM_VECTOR_UNITS == 0U);
    constexpr size_t VECTORIZED_BLOCK_TILE_SIZE_K{BLOCK_TILE_SIZE_K /
                                                  NUM_VECTOR_UNITS};
    constexpr size_t VECTORIZED_BLOCK_TILE_SIZE_X{BLOCK_TILE_SIZE_X /
                                                  NUM_VECTOR_UNITS};

#pragma unroll
    for (size_t load_idx{0U};
         load_idx < (BLOCK_TILE_SIZE_Y * VECTORIZED_BLOCK_TILE_SIZE_K +
                     NUM_THREADS - 1U) /
                        NUM_THREADS;
         ++load_idx)
    {
        size_t const unit{thread_linear_idx + load_idx * NUM_THREADS};
        size_t const A_tile_row{unit / VECTORIZED_BLOCK_TILE_SIZE_K};
        size_t const A_tile_col{unit % VECTORIZED_BLOCK_TILE_SIZE_K *
                                NUM_VECTOR_UNITS};
        size_t const A_row{blockIdx.y * BLOCK_TILE_SIZE_Y + A_tile_row};
        size_t const A_col{thread_block_tile_idx * BLOCK_TILE_SIZE_K +
                           A_tile_col};
        int4 values{0, 0, 0, 0};
        if (A_row < m && A_col < k)
        {
            values = *reinterpret_cast<VECTOR_TYPE const*>(&A[A_row * lda + A_col]);
        }
        if (A_col + NUM_VECTOR_UNITS > k)
        {
            // The tail of the row is padding of the leading dimension.
            T* const values_ptr{reinterpret_cast<T*>(&values)};
            for (size_t i{0U}; i < NUM_VECTOR_UNITS; ++i)
            {
                if (A_col + i >= k)
                {
                    values_ptr[i] = static_cast<T>(0);
                }
            }
        }
        if (A_tile_row < BLOCK_TILE_SIZE_Y)
        {
            *reinterpret_cast<VECTOR_TYPE*>(
                &A_thread_block_tile[A_tile_row][A_tile_col]) = values;
        }
    }
#pragma unroll
    for (size_t load_idx{0U};
         load_idx < (BLOCK_TILE_SIZE_K * VECTORIZED_BLOCK_TILE_SIZE_X +
                     NUM_THREADS - 1U) /
                        NUM_THREADS;
         ++load_idx)
    {
        size_t const unit{thread_linear_idx + load_idx * NUM_THREADS};
        size_t const B_tile_row{unit / VECTORIZED_BLOCK_TILE_SIZE_X};
        size_t const B_tile_col{unit % VECTORIZED_BLOCK_TILE_SIZE_X *
                                NUM_VECTOR_UNITS};
        size_t const B_row{thread_block_tile_idx * BLOCK_TILE_SIZE_K +
                           B_tile_row};
        size_t const B_col{blockIdx.x * BLOCK_TILE_SIZE_X + B_tile_col};
        int4 values{0, 0, 0, 0};
        if (B_row < k && B_col < n)
        {
            values = *reinterpret_cast<VECTOR_TYPE const*>(&B[B_row * ldb + B_col]);
        }
        if (B_tile_row < BLOCK_TILE_SIZE_K)
        {
            *reinterpret_cast<VECTOR_TYPE*>(
                &B_thread_block_tile[B_tile_row][B_tile_col]) = values;
        }
    }
}

// GEMM kernel v07: C = alpha * A * B + beta * C.
// Each thread in the block processes WMMA fragments of its warp tile.
template <typename T, size_t BLOCK_TILE_SIZE_X, size_t BLOCK_TILE_SIZE_Y,
          size_t BLOCK_TILE_SIZE_K, size_t WARP_TILE_SIZE_X,
          size_t WARP_TILE_SIZE_Y, size_t NUM_THREADS,
          size_t BLOCK_TILE_SKEW_SIZE_X = 8U, size_t BLOCK_TILE_SKEW_SIZE_K = 8U>
__global__ void gemm_v07_vectorized(size_t m, size_t n, size_t k, T alpha,
                                    T const* A, size_t lda, T const* B,
                                    size_t ldb, T beta, T* C, size_t ldc)
{
    constexpr size_t WMMA_TILE_SIZE_X{16U};
    constexpr size_t WMMA_TILE_SIZE_Y{16U};
    constexpr size_t WMMA_TILE_SIZE_K{16U};
    constexpr size_t NUM_WARPS_X{BLOCK_TILE_SIZE_X / WARP_TILE_SIZE_X};
    constexpr size_t NUM_WMMA_X{WARP_TILE_SIZE_X / WMMA_TILE_SIZE_X};
    constexpr size_t NUM_WMMA_Y{WARP_TILE_SIZE_Y / WMMA_TILE_SIZE_Y};

    __shared__ alignas(128) T
        A_thread_block_tile[BLOCK_TILE_SIZE_Y]
                           [BLOCK_TILE_SIZE_K + BLOCK_TILE_SKEW_SIZE_K];
    __shared__ alignas(128) T
        B_thread_block_tile[BLOCK_TILE_SIZE_K]
                           [BLOCK_TILE_SIZE_X + BLOCK_TILE_SKEW_SIZE_X];

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, WMMA_TILE_SIZE_Y,
                           WMMA_TILE_SIZE_X, WMMA_TILE_SIZE_K, float>
        acc_frags[NUM_WMMA_Y][NUM_WMMA_X];
#pragma unroll
    for (size_t y{0U}; y < NUM_WMMA_Y; ++y)
    {
        for (size_t x{0U}; x < NUM_WMMA_X; ++x)
        {
            nvcuda::wmma::fill_fragment(acc_frags[y][x], 0.0f);
        }
    }

    size_t const warp_idx{threadIdx.x / 32U};
    size_t const warp_row{warp_idx / NUM_WARPS_X};
    size_t const warp_col{warp_idx % NUM_WARPS_X};
    size_t const num_thread_block_tiles{(k + BLOCK_TILE_SIZE_K - 1) /
                                        BLOCK_TILE_SIZE_K};
    for (size_t tile_idx{0U}; tile_idx < num_thread_block_tiles; ++tile_idx)
    {
        load_data_to_shared_memory_vectorized<
            T, BLOCK_TILE_SIZE_X, BLOCK_TILE_SIZE_Y, BLOCK_TILE_SIZE_K,
            NUM_THREADS, BLOCK_TILE_SKEW_SIZE_X, BLOCK_TILE_SKEW_SIZE_K>(
            A, lda, B, ldb, A_thread_block_tile, B_thread_block_tile, tile_idx,
            threadIdx.x, m, n, k);
        __syncthreads();
#pragma unroll
        for (size_t k_i{0U}; k_i < BLOCK_TILE_SIZE_K; k_i += WMMA_TILE_SIZE_K)
        {
#pragma unroll
            for (size_t y{0U}; y < NUM_WMMA_Y; ++y)
            {
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, WMMA_TILE_SIZE_Y,
                                       WMMA_TILE_SIZE_X, WMMA_TILE_SIZE_K, T,
                                       nvcuda::wmma::row_major>
                    a_frag;
                nvcuda::wmma::load_matrix_sync(
                    a_frag,
                    &A_thread_block_tile[warp_row * WARP_TILE_SIZE_Y +
                                         y * WMMA_TILE_SIZE_Y][k_i],
                    BLOCK_TILE_SIZE_K + BLOCK_TILE_SKEW_SIZE_K);
#pragma unroll
                for (size_t x{0U}; x < NUM_WMMA_X; ++x)
                {
                    nvcuda::wmma::fragment<
                        nvcuda::wmma::matrix_b, WMMA_TILE_SIZE_Y,
                        WMMA_TILE_SIZE_X, WMMA_TILE_SIZE_K, T,
                        nvcuda::wmma::row_major>
                        b_frag;
                    nvcuda::wmma::load_matrix_sync(
                        b_frag,
                        &B_thread_block_tile[k_i][warp_col * WARP_TILE_SIZE_X +
                                                  x * WMMA_TILE_SIZE_X],
                        BLOCK_TILE_SIZE_X + BLOCK_TILE_SKEW_SIZE_X);
                    nvcuda::wmma::mma_sync(acc_frags[y][x], a_frag, b_frag,
                                           acc_frags[y][x]);
                }
            }
        }
        __syncthreads();
    }

    // Write back. m and n need to be multiples of the WMMA tile size.
    for (size_t y{0U}; y < NUM_WMMA_Y; ++y)
    {
        for (size_t x{0U}; x < NUM_WMMA_X; ++x)
        {
            size_t const C_row{blockIdx.y * BLOCK_TILE_SIZE_Y +
                               warp_row * WARP_TILE_SIZE_Y +
                               y * WMMA_TILE_SIZE_Y};
            size_t const C_col{blockIdx.x * BLOCK_TILE_SIZE_X +
                               warp_col * WARP_TILE_SIZE_X +
                               x * WMMA_TILE_SIZE_X};
            if (C_row < m && C_col < n)
            {
                nvcuda::wmma::fragment<nvcuda::wmma::accumulator,
                                       WMMA_TILE_SIZE_Y, WMMA_TILE_SIZE_X,
                                       WMMA_TILE_SIZE_K, T>
                    c_frag;
                T* const C_ptr{&C[C_row * ldc + C_col]};
                nvcuda::wmma::load_matrix_sync(c_frag, C_ptr, ldc,
                                               nvcuda::wmma::mem_row_major);
                for (size_t i{0U}; i < c_frag.num_elements; ++i)
                {
                    c_frag.x[i] = static_cast<T>(
                        static_cast<float>(alpha) * acc_frags[y][x].x[i] +
                        static_cast<float>(beta) * static_cast<float>(c_frag.x[i]));
                }
                nvcuda::wmma::store_matrix_sync(C_ptr, c_frag, ldc,
                                                nvcuda::wmma::mem_row_major);
            }
        }
    }
}

template <typename T>
void launch_gemm_kernel_v07_vectorized(size_t m, size_t n, size_t k,
                                       T const* alpha, T const* A, size_t lda,
                                       T const* B, size_t ldb, T const* beta,
                                       T* C, size_t ldc, cudaStream_t stream)
{
    // Feel free to play with the block tile sizes.
    constexpr unsigned int BLOCK_TILE_SIZE_X{64U};
    constexpr unsigned int BLOCK_TILE_SIZE_Y{BLOCK_TILE_SIZE_X * 2U};
    constexpr unsigned int BLOCK_TILE_SIZE_K{32U};
    constexpr unsigned int WARP_TILE_SIZE_X{32U};
    constexpr unsigned int WARP_TILE_SIZE_Y{64U};
    constexpr unsigned int NUM_WARPS{(BLOCK_TILE_SIZE_X / WARP_TILE_SIZE_X) *
                                     (BLOCK_TILE_SIZE_Y / WARP_TILE_SIZE_Y)};
    constexpr unsigned int NUM_THREADS_PER_BLOCK{NUM_WARPS * 32U};
    static_assert(BLOCK_TILE_SIZE_K % 16U == 0U);
    if (lda % 8U != 0U || ldb % 8U != 0U || m % 16U != 0U || n % 16U != 0U)
    {
        throw std::invalid_argument("unsupported problem size");
    }

    dim3 const block_dim{NUM_THREADS_PER_BLOCK, 1U, 1U};
    dim3 const grid_dim{
        (static_cast<unsigned int>(n) + BLOCK_TILE_SIZE_X - 1U) / BLOCK_TILE_SIZE_X,
        (static_cast<unsigned int>(m) + BLOCK_TILE_SIZE_Y - 1U) / BLOCK_TILE_SIZE_Y,
        1U};
    gemm_v07_vectorized<T, BLOCK_TILE_SIZE_X, BLOCK_TILE_SIZE_Y,
                        BLOCK_TILE_SIZE_K, WARP_TILE_SIZE_X, WARP_TILE_SIZE_Y,
                        NUM_THREADS_PER_BLOCK>
        <<<grid_dim, block_dim, 0U, stream>>>(m, n, k, *alpha, A, lda, B, ldb,
                                              *beta, C, ldc);
    CHECK_LAST_CUDA_ERROR();
}

// Explicit instantiation.
template void launch_gemm_kernel_v07_vectorized<__half>(
    size_t m, size_t n, size_t k, __half const* alpha, __half const* A,
    size_t lda, __half const* B, size_t ldb, __half const* beta, __half* C,
    size_t ldc, cudaStream_t stream);
