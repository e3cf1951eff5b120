// kernel: kernel
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void kernel(float *x) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float v = x[threadIdx.x];
  for (int i = warp.size() / 2; i > 0; i /= 2) v += warp.shfl_down(v, i);  // HERE
  if (warp.thread_rank() == 0) x[0] = v;  // HERE
}
