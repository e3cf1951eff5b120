// Submanifold sparse convolution as gather - GEMM - scatter-add.
//
//   for every kernel offset o and pair p < pair_count[o]:   out[out_idx[o][p]] += feat[in_idx[o][p]] * weight[o]
//
// Grid: (tiles of 32 pairs, tiles of 32 output channels, offsets).  Block: 3 warps, of which warp 0 produces
// (gathers rows and weights with cp.async into a ring of two stages) and warps 1 and 2 consume.
// out (n_out x cout, float) must be zeroed.  cin % 32 == 0, cout % 32 == 0.

#include <cuda_fp16.h>
#include <mma.h>

namespace spconv
{

enum { kPairs = 32, kCols = 32, kDepth = 32, kStages = 2, kThreads = 96 };
enum { kRowPitch = kDepth + 8, kColPitch = kCols + 8, kOutPitch = kCols + 4 };
enum { kBarFull = 1, kBarEmpty = kBarFull + kStages };      // hardware barriers 1, 2 and 3, 4

struct Ring
{
  __half rows[kStages][kPairs * kRowPitch];
  __half wgt[kStages][kDepth * kColPitch];
};

__device__ __forceinline__ void bar_sync(int id) { asm volatile("bar.sync %0, %1;" ::"r"(id), "n"((int)kThreads) : "memory"); }
__device__ __forceinline__ void bar_arrive(int id) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"((int)kThreads) : "memory"); }

__device__ __forceinline__ void copy16(void *dst, const void *src)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(dst)), "l"(src)
               : "memory");
}

__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

struct Problem
{
  const __half *feat;         // n_in x cin
  const __half *weight;       // offsets x cin x cout
  const int *in_idx;          // offsets x max_pairs
  const int *out_idx;         // offsets x max_pairs
  const int *pair_count;      // offsets
  float *out;                 // n_out x cout
  int cin, cout, max_pairs;
};

__device__ void produce(const Problem &p, Ring &ring, int offset, int pair0, int pairs, int col0, int lane)
{
  // lane l gathers row l of the tile; behind the last pair the last one again, its product is not stored
  const int pair = pair0 + min(lane, pairs - 1);
  const int row = p.in_idx[offset * p.max_pairs + pair];
  const __half *src = p.feat + (size_t)row * p.cin;
  const __half *w = p.weight + (size_t)offset * p.cin * p.cout + col0;

  const int steps = p.cin / kDepth;
  for (int s = 0; s < steps; ++s)
  {
    const int stage = s % kStages;
    if (s >= kStages) bar_sync(kBarEmpty + stage);
    for (int c = 0; c < kDepth; c += 8)
      copy16(&ring.rows[stage][lane * kRowPitch + c], src + s * kDepth + c);
    for (int c = 0; c < kCols; c += 8)
      copy16(&ring.wgt[stage][lane * kColPitch + c], w + (size_t)(s * kDepth + lane) * p.cout + c);
    copy_wait();
    __threadfence_block();
    bar_arrive(kBarFull + stage);
  }
}

__device__ void consume(const Problem &p, Ring &ring, float *tile, int half_id)
{
  using namespace nvcuda;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.0f);
  wmma::fill_fragment(acc[1], 0.0f);

  const int steps = p.cin / kDepth;
  for (int s = 0; s < steps; ++s)
  {
    const int stage = s % kStages;
    bar_sync(kBarFull + stage);
    for (int kk = 0; kk < kDepth; kk += 16)
    {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &ring.rows[stage][half_id * 16 * kRowPitch + kk], kRowPitch);
      for (int n = 0; n < 2; ++n)
      {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
        wmma::load_matrix_sync(b, &ring.wgt[stage][kk * kColPitch + n * 16], kColPitch);
        wmma::mma_sync(acc[n], a, b, acc[n]);
      }
    }
    if (s + kStages < steps) bar_arrive(kBarEmpty + stage);
  }

  for (int n = 0; n < 2; ++n)
    wmma::store_matrix_sync(tile + half_id * 16 * kOutPitch + n * 16, acc[n], kOutPitch, wmma::mem_row_major);
}

__global__ void __launch_bounds__(kThreads) gather_gemm_scatter(Problem p)
{
  __shared__ __align__(128) Ring ring;
  __shared__ __align__(128) float tile[kPairs * kOutPitch];

  const int offset = blockIdx.z;
  const int pair0 = blockIdx.x * kPairs;
  const int col0 = blockIdx.y * kCols;
  const int pairs = min((int)kPairs, p.pair_count[offset] - pair0);
  if (pairs <= 0) return;

  const int warp = threadIdx.x / 32;
  if (warp == 0)
    produce(p, ring, offset, pair0, pairs, col0, threadIdx.x % 32);
  else
    consume(p, ring, tile, warp - 1);
  __syncthreads();

  for (int i = threadIdx.x; i < pairs * kCols; i += kThreads)
  {
    const int r = i / kCols, c = i % kCols;
    const int dst = p.out_idx[offset * p.max_pairs + pair0 + r];
    atomicAdd(p.out + (size_t)dst * p.cout + col0 + c, tile[r * kOutPitch + c]);
  }
}

inline void run(const Problem &p, int offsets, cudaStream_t stream)
{
  dim3 grid((p.max_pairs + kPairs - 1) / kPairs, p.cout / kCols, offsets);
  gather_gemm_scatter<<<grid, kThreads, 0, stream>>>(p);
}

}  // namespace spconv
