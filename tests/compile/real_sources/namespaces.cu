// kernel: lib::v2::power<8>
// kernel: other::nested::plain
namespace lib { inline namespace v2 {
namespace detail {
__device__ __forceinline__ float square(float x) { return x * x; }
int host_only(int x) { return x + 1; }
}
template <int D> __global__ void power(float *x) {
  x[threadIdx.x] = detail::square(x[threadIdx.x]) + D;  // HERE
}
void launch(float *x) { power<8><<<1, 32>>>(x); }
}}
namespace other::nested {
__global__ void plain(float *x) { x[threadIdx.x] = 2.5f; }  // HERE
}
