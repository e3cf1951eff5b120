#ifndef WMMADIAG_ATEN_KERNEL_UTILS_H
#define WMMADIAG_ATEN_KERNEL_UTILS_H
/* A loop over n items by the whole grid; the counter has 64 bits. */
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                                       \
  int64_t wmmadiag_item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;                                \
  for (index_type i = wmmadiag_item; wmmadiag_item < (n); wmmadiag_item += blockDim.x * gridDim.x, i = wmmadiag_item)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
namespace at {
namespace cuda {
namespace detail {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(const int64_t n, const int64_t threads = CUDA_NUM_THREADS) { return static_cast<int>((n - 1) / threads + 1); }
}
}
}
#endif
