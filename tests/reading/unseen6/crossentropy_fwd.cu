#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// losses[b*T + t] = -log softmax(logits[b*T + t])[targets[b*T + t]]
// logits are padded to Vp columns, only the first V count. One warp per position.
__global__ void crossentropy_forward_kernel(float* losses, const float* logits, const int* targets, int B, int T, int V,
                                            int Vp) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (idx >= B * T) return;
  const float* row = logits + (size_t)idx * Vp;
  float maxval = -INFINITY;
  for (int i = warp.thread_rank(); i < V; i += warp.size()) maxval = fmaxf(maxval, row[i]);
  maxval = cg::reduce(warp, maxval, cg::greater<float>{});
  float sumval = 0.0f;
  for (int i = warp.thread_rank(); i < V; i += warp.size()) sumval += expf(row[i] - maxval);
  sumval = cg::reduce(warp, sumval, cg::plus<float>{});
  if (warp.thread_rank() == 0) losses[idx] = logf(sumval) + maxval - row[targets[idx]];
}

void crossentropy_forward(float* losses, const float* logits, const int* targets, int B, int T, int V, int Vp,
                          const int block_size) {
  const int N = B * T;
  const int grid_size = (N * 32 + block_size - 1) / block_size;
  crossentropy_forward_kernel<<<grid_size, block_size>>>(losses, logits, targets, B, T, V, Vp);
}
