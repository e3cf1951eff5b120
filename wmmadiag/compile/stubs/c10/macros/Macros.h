#ifndef WMMADIAG_C10_MACROS_H
#define WMMADIAG_C10_MACROS_H
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_HOST_DEVICE __host__ __device__
#define AT_DEVICE __device__
#define AT_HOST_DEVICE __host__ __device__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__((threads))
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__((threads), (blocks))
#define C10_RESTRICT __restrict__
#define C10_WARP_SIZE 32
#define C10_UNLIKELY(x) (x)
#define C10_LIKELY(x) (x)
#endif
