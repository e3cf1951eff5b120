#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda_fp16.h>
#include <mma.h>

#include <chrono>
#include <iostream>
#include <random>
#include <vector>

namespace cg = cooperative_groups;
using namespace nvcuda;

template <unsigned kBlockM, unsigned kBlockN, unsigned kBlockK, unsigned kStages>
struct SharedStorage {
    __align__(128) half a[kStages][kBlockM][kBlockK + 8];
    __align__(128) half b[kStages][kBlockK][kBlockN + 8];
};

// C (f32) = A (f16) * B (f16), all row major, sizes multiples of the block tile.
template <unsigned kBlockM, unsigned kBlockN, unsigned kBlockK, unsigned kStages>
__global__ void gemm_pipelined(half const* __restrict__ A, half const* __restrict__ B, float* __restrict__ C,
                               unsigned M, unsigned N, unsigned K)
{
    extern __shared__ __align__(128) char raw[];
    using Storage = SharedStorage<kBlockM, kBlockN, kBlockK, kStages>;
    Storage& smem = *reinterpret_cast<Storage*>(raw);

    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);

    __shared__ cuda::pipeline_shared_state<cuda::thread_scope::thread_scope_block, kStages> state;
    auto pipe = cuda::make_pipeline(block, &state);

    const unsigned m0 = blockIdx.y * kBlockM;
    const unsigned n0 = blockIdx.x * kBlockN;
    const unsigned tiles = K / kBlockK;

    auto fetch = [&](unsigned tile) {
        const unsigned s = tile % kStages;
        pipe.producer_acquire();
        constexpr unsigned kChunksA = kBlockK / 8;
        for (unsigned i = block.thread_rank(); i < kBlockM * kChunksA; i += block.size()) {
            const unsigned r = i / kChunksA, c = (i % kChunksA) * 8;
            cuda::memcpy_async(&smem.a[s][r][c], &A[(m0 + r) * K + tile * kBlockK + c],
                               cuda::aligned_size_t<16>(16), pipe);
        }
        constexpr unsigned kChunksB = kBlockN / 8;
        for (unsigned i = block.thread_rank(); i < kBlockK * kChunksB; i += block.size()) {
            const unsigned r = i / kChunksB, c = (i % kChunksB) * 8;
            cuda::memcpy_async(&smem.b[s][r][c], &B[(tile * kBlockK + r) * N + n0 + c],
                               cuda::aligned_size_t<16>(16), pipe);
        }
        pipe.producer_commit();
    };

    constexpr unsigned kWarpsN = kBlockN / 32;
    const unsigned wm = (warp.meta_group_rank() / kWarpsN) * 32;
    const unsigned wn = (warp.meta_group_rank() % kWarpsN) * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (auto& row : acc)
        for (auto& f : row) wmma::fill_fragment(f, 0.0f);

    unsigned fetched = 0;
    for (unsigned tile = 0; tile < tiles; ++tile) {
        for (; fetched < tiles && fetched < tile + kStages; ++fetched) fetch(fetched);
        pipe.consumer_wait();
        const unsigned s = tile % kStages;
#pragma unroll
        for (unsigned k = 0; k < kBlockK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], &smem.a[s][wm + i * 16][k], kBlockK + 8);
                wmma::load_matrix_sync(b[i], &smem.b[s][k][wn + i * 16], kBlockN + 8);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        pipe.consumer_release();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(C + (m0 + wm + i * 16) * N + n0 + wn + j * 16, acc[i][j], N, wmma::mem_row_major);
}

template <unsigned BM, unsigned BN, unsigned BK, unsigned Stages>
float launch(half const* A, half const* B, float* C, unsigned M, unsigned N, unsigned K)
{
    constexpr size_t bytes = sizeof(SharedStorage<BM, BN, BK, Stages>);
    auto kernel = gemm_pipelined<BM, BN, BK, Stages>;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)) != cudaSuccess) {
        std::cerr << "not enough shared memory\n";
        return -1.f;
    }
    const dim3 grid{N / BN, M / BM, 1};
    const dim3 block{(BM / 32) * (BN / 32) * 32, 1, 1};
    const auto begin = std::chrono::high_resolution_clock::now();
    kernel<<<grid, block, bytes>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
    return std::chrono::duration<float, std::milli>(std::chrono::high_resolution_clock::now() - begin).count();
}

int main()
{
    const unsigned M = 512, N = 512, K = 512;
    std::vector<half> a(M * K), b(K * N);
    std::mt19937 rng{42};
    std::uniform_real_distribution<float> uniform{-1.f, 1.f};
    for (auto& x : a) x = __float2half(uniform(rng));
    for (auto& x : b) x = __float2half(uniform(rng));
    half *dA, *dB;
    float* dC;
    cudaMalloc(&dA, a.size() * sizeof(half));
    cudaMalloc(&dB, b.size() * sizeof(half));
    cudaMalloc(&dC, M * N * sizeof(float));
    cudaMemcpy(dA, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice);
    for (int i = 0; i < 10; ++i) std::cout << "run " << i << ": " << launch<64, 64, 32, 3>(dA, dB, dC, M, N, K) << " ms\n";
    std::vector<float> c(M * N);
    cudaMemcpy(c.data(), dC, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << "c[0] = " << c[0] << std::endl;
}
