// kernel: kernel
#include <cstdint>
__device__ __forceinline__ uint32_t smem(const void *p) {
  uint32_t a;
  asm volatile("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
#define CP_ASYNC(dst, src) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src))
__global__ void __launch_bounds__(256, 2) kernel(const float4 *in, float *out) {
  extern __shared__ __align__(16) unsigned char raw[];
  CP_ASYNC(smem(raw + 16 * threadIdx.x), in + threadIdx.x);  // HERE
  asm volatile("cp.async.wait_all;" ::: "memory");  // HERE
  __syncthreads();
  out[threadIdx.x] = reinterpret_cast<float *>(raw)[threadIdx.x];  // HERE
}
