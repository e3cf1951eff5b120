// kernel: kernel
#define DEVICE_INLINE __device__ __forceinline__
#define HD_FN __host__ DEVICE_INLINE
#define KERNEL(threads) __global__ void __launch_bounds__(threads)
#define DEFINE_OP(name, expr) DEVICE_INLINE float name(float x) { return expr; }
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))
DEFINE_OP(twice, x * 2.0f)
HD_FN float thrice(float x) { return x * 3.0f; }  // HERE
KERNEL(128) kernel(float *x) {
  x[threadIdx.x] = twice(thrice(x[threadIdx.x])) + CEIL_DIV(7, 2);  // HERE
}
#define LAUNCH(k, n) k<<<CEIL_DIV(n, 128), 128>>>
void go(float *x) { LAUNCH(kernel, 1000)(x); }
