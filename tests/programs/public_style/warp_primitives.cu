// Warp-level programming: aggregated atomics, match, reduce, labeled/binary partitions, votes.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <numeric>
#include <algorithm>
#include <map>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

#define CUDA_TRY(...)                                                                      \
  do {                                                                                     \
    cudaError_t const status_ = (__VA_ARGS__);                                             \
    if (cudaSuccess != status_) {                                                          \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, cudaGetErrorName(status_), cudaGetErrorString(status_)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

static int failures = 0;
#define EXPECT(cond) do { if (!(cond)) { ++failures; std::printf("%s:%d: EXPECT(%s) failed\n", __FILE__, __LINE__, #cond); } } while (0)

// atomic add using a leader of the coalesced group
__device__ int atomicAggInc(int *counter)
{
    cg::coalesced_group active = cg::coalesced_threads();
    int warp_res;
    if (active.thread_rank() == 0)
        warp_res = atomicAdd(counter, active.size());
    warp_res = active.shfl(warp_res, 0);
    return warp_res + active.thread_rank();
}

__global__ void filter_arr(int *dst, int *nres, const int *src, int n)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    for (int i = id; i < n; i += gridDim.x * blockDim.x) {
        if (src[i] > 0)
            dst[atomicAggInc(nres)] = src[i];
    }
}

// histogram with __match_any_sync
__global__ void match_histogram(const int *keys, unsigned *histogram, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    unsigned peers = __match_any_sync(active, keys[i]);
    int leader = __ffs(peers) - 1;
    unsigned lanemask_lt;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lanemask_lt));
    int rank = __popc(peers & lanemask_lt);
    if ((threadIdx.x & 31) == leader) atomicAdd(&histogram[keys[i]], __popc(peers));
    if (rank == 0 && (int)(threadIdx.x & 31) != leader) __trap();
}

__global__ void hardware_reduce(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : 0;
    unsigned full = 0xffffffffu;
    int sum = __reduce_add_sync(full, v);
    int lo = __reduce_min_sync(full, v);
    int hi = __reduce_max_sync(full, v);
    unsigned orr = __reduce_or_sync(full, (unsigned)v);
    unsigned andd = __reduce_and_sync(full, (unsigned)v);
    unsigned xorr = __reduce_xor_sync(full, (unsigned)v);
    int w = i / 32;
    switch (threadIdx.x & 31) {
    case 0: out[w * 6 + 0] = sum; break;
    case 1: out[w * 6 + 1] = lo; break;
    case 2: out[w * 6 + 2] = hi; break;
    case 3: out[w * 6 + 3] = orr; break;
    case 4: out[w * 6 + 4] = andd; break;
    case 5: out[w * 6 + 5] = xorr; break;
    default: break;
    }
}

// sample: binaryPartitionCG
__global__ void oddEvenCountAndSumCG(int *inputArr, int *numOfOdds, int *sumOfOddAndEvens, unsigned int size)
{
    cg::thread_block cta = cg::this_thread_block();
    cg::grid_group grid = cg::this_grid();
    cg::thread_block_tile<32> tile32 = cg::tiled_partition<32>(cta);

    for (int i = grid.thread_rank(); i < size; i += grid.size()) {
        int elem = inputArr[i];
        auto subTile = cg::binary_partition(tile32, elem & 1);
        if (elem & 1) // Odd numbers group
        {
            int oddGroupSum = cg::reduce(subTile, elem, cg::plus<int>());
            if (subTile.thread_rank() == 0) {
                atomicAdd(numOfOdds, subTile.size());
                atomicAdd(&sumOfOddAndEvens[0], oddGroupSum);
            }
        }
        else // Even numbers group
        {
            int evenGroupSum = cg::reduce(subTile, elem, cg::plus<int>());
            if (subTile.thread_rank() == 0) {
                atomicAdd(&sumOfOddAndEvens[1], evenGroupSum);
            }
        }
        // reconverge warp so for next loop iteration we ensure convergence of above diverged threads to perform coalesced loads of inputArr.
        cg::sync(tile32);
    }
}

__global__ void labeled(const int *keys, const float *values, float *sums, int n)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto group = cg::labeled_partition(warp, keys[i % n]);
    float s = cg::reduce(group, values[i % n], cg::plus<float>());
    if (group.thread_rank() == 0) atomicAdd(&sums[keys[i % n]], s);
}

template <int TILE>
__global__ void tile_scan(const int *in, int *incl, int *excl, int *block_total)
{
    __shared__ cg::block_tile_memory<256> scratch;
    auto block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<TILE>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    incl[i] = cg::inclusive_scan(tile, in[i]);
    excl[i] = cg::exclusive_scan(tile, in[i], cg::plus<int>());
    auto big = cg::tiled_partition<128>(block);
    int total = cg::reduce(big, in[i], cg::greater<int>());
    cg::invoke_one(big, [&] { block_total[blockIdx.x * 2 + big.meta_group_rank()] = total; });
}

__global__ void votes(int *out)
{
    int lane = threadIdx.x;
    unsigned m = __activemask();
    int all = __all_sync(m, lane < 32), any = __any_sync(m, lane == 7), uni = __match_all_sync(m, 5, &any);
    unsigned even = __ballot_sync(m, !(lane & 1));
    int up = __shfl_up_sync(m, lane, 3), down = __shfl_down_sync(m, lane, 4, 16), x = __shfl_xor_sync(m, lane, 9);
    long long wide = __shfl_sync(m, (long long)lane << 40, 31);
    double d = __shfl_sync(m, (double)lane, lane ^ 1);
    out[lane] = all + any * 2 + (uni == -1) * 4 + (even == 0x55555555u) * 8 + (x == (lane ^ 9)) * 16 + (wide == 31ll << 40) * 32 + (d == (lane ^ 1)) * 64;
    out[32 + lane] = up;
    out[64 + lane] = down;
    __syncwarp();
    if (__fns(0xf0f0u, 0, 2) != 5) out[lane] = -1;
}

int main(int argc, char **argv)
{
    cudaDeviceProp prop;
    CUDA_TRY(cudaGetDeviceProperties(&prop, 0));
    if (prop.major < 8) { std::printf("needs sm_80\n"); return 2; }
    const int n = 20000;
    std::vector<int> h(n), keys(n);
    std::vector<float> values(n);
    srand(1);
    for (int i = 0; i < n; ++i) { h[i] = rand() % 201 - 100; keys[i] = (rand() >> 4) % 7; values[i] = (rand() % 64) / 8.f; }
    int *d_in, *d_out, *d_n, *d_keys; unsigned *d_hist; float *d_values, *d_sums;
    CUDA_TRY(cudaMalloc(&d_in, n * sizeof(int)));
    CUDA_TRY(cudaMalloc(&d_out, n * sizeof(int)));
    CUDA_TRY(cudaMalloc(&d_n, sizeof(int)));
    CUDA_TRY(cudaMalloc(&d_keys, n * sizeof(int)));
    CUDA_TRY(cudaMalloc(&d_hist, 7 * sizeof(unsigned)));
    CUDA_TRY(cudaMalloc(&d_values, n * sizeof(float)));
    CUDA_TRY(cudaMalloc(&d_sums, 7 * sizeof(float)));
    CUDA_TRY(cudaMemcpy(d_in, h.data(), n * sizeof(int), cudaMemcpyDefault));
    CUDA_TRY(cudaMemcpy(d_keys, keys.data(), n * sizeof(int), cudaMemcpyDefault));
    CUDA_TRY(cudaMemcpy(d_values, values.data(), n * sizeof(float), cudaMemcpyDefault));
    CUDA_TRY(cudaMemset(d_n, 0, sizeof(int)));
    filter_arr<<<16, 256>>>(d_out, d_n, d_in, n);
    CUDA_TRY(cudaGetLastError());
    int count;
    CUDA_TRY(cudaMemcpy(&count, d_n, sizeof count, cudaMemcpyDeviceToHost));
    std::vector<int> got(count), want;
    CUDA_TRY(cudaMemcpy(got.data(), d_out, count * sizeof(int), cudaMemcpyDeviceToHost));
    std::copy_if(h.begin(), h.end(), std::back_inserter(want), [](int v) { return v > 0; });
    std::sort(got.begin(), got.end()); std::sort(want.begin(), want.end());
    EXPECT(got == want);

    CUDA_TRY(cudaMemset(d_hist, 0, 7 * sizeof(unsigned)));
    match_histogram<<<(n + 127) / 128, 128>>>(d_keys, d_hist, n);
    std::vector<unsigned> hist(7), ref(7);
    CUDA_TRY(cudaMemcpy(hist.data(), d_hist, 7 * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int k : keys) ref[k]++;
    EXPECT(hist == ref);

    const int warps = (n + 31) / 32;
    int *d_red; CUDA_TRY(cudaMalloc(&d_red, (warps + 8) * 6 * sizeof(int)));
    hardware_reduce<<<(n + 127) / 128, 128>>>(d_in, d_red, n);
    std::vector<int> red(warps * 6);
    CUDA_TRY(cudaMemcpy(red.data(), d_red, red.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (int w = 0; w < warps; ++w) {
        int s = 0, lo = 1 << 30, hi = -lo; unsigned o = 0, a = ~0u, x = 0;
        for (int i = w * 32; i < w * 32 + 32; ++i) { int v = i < n ? h[i] : 0; s += v; lo = std::min(lo, v); hi = std::max(hi, v); o |= v; a &= v; x ^= v; }
        EXPECT(red[w * 6] == s && red[w * 6 + 1] == lo && red[w * 6 + 2] == hi && (unsigned)red[w * 6 + 3] == o && (unsigned)red[w * 6 + 4] == a && (unsigned)red[w * 6 + 5] == x);
    }

    int *odd; CUDA_TRY(cudaMallocManaged(&odd, 3 * sizeof(int)));
    odd[0] = odd[1] = odd[2] = 0;
    int minGrid, blockSize;
    CUDA_TRY(cudaOccupancyMaxPotentialBlockSize(&minGrid, &blockSize, oddEvenCountAndSumCG, 0, 0));
    std::printf("Launching %d blocks with %d threads...\n", minGrid, blockSize);
    oddEvenCountAndSumCG<<<8, 256>>>(d_in, odd, odd + 1, n);
    CUDA_TRY(cudaDeviceSynchronize());
    EXPECT(odd[0] == std::count_if(h.begin(), h.end(), [](int v) { return v & 1; }));
    EXPECT(odd[1] + odd[2] == std::accumulate(h.begin(), h.end(), 0));

    CUDA_TRY(cudaMemset(d_sums, 0, 7 * sizeof(float)));
    labeled<<<4, 128>>>(d_keys, d_values, d_sums, n);
    std::vector<float> sums(7), rsum(7);
    CUDA_TRY(cudaMemcpy(sums.data(), d_sums, 7 * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 512; ++i) rsum[keys[i]] += values[i];
    EXPECT(sums == rsum);

    int *incl, *excl, *tot;
    CUDA_TRY(cudaMallocManaged(&incl, 512 * 4)); CUDA_TRY(cudaMallocManaged(&excl, 512 * 4)); CUDA_TRY(cudaMallocManaged(&tot, 4 * 4));
    tile_scan<16><<<2, 256>>>(d_in, incl, excl, tot);
    CUDA_TRY(cudaDeviceSynchronize());
    for (int t = 0; t < 32; ++t) { int s = 0; for (int i = t * 16; i < t * 16 + 16; ++i) { EXPECT(excl[i] == s); s += h[i]; EXPECT(incl[i] == s); } }
    for (int b = 0; b < 4; ++b) EXPECT(tot[b] == *std::max_element(h.begin() + b * 128, h.begin() + b * 128 + 128));

    int *v; CUDA_TRY(cudaMallocManaged(&v, 96 * 4));
    votes<<<1, 32>>>(v);
    CUDA_TRY(cudaDeviceSynchronize());
    for (int i = 0; i < 32; ++i) { EXPECT(v[i] == 127); EXPECT(v[32 + i] == (i < 3 ? i : i - 3)); EXPECT(v[64 + i] == (i % 16 < 12 ? i + 4 : i)); }
    std::printf("%s\n", failures ? "FAILED" : "All warp tests passed");
    return failures != 0;
}
