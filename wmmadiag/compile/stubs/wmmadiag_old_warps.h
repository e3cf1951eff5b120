/* Shuffles and votes as they were before CUDA 9: of the lanes that run together. */
#ifndef WMMADIAG_OLD_WARPS_H
#define WMMADIAG_OLD_WARPS_H
template <class T> __device__ T __shfl(T value, int lane, int width = 32) { return __shfl_sync(__activemask(), value, lane, width); }
template <class T> __device__ T __shfl_up(T value, unsigned by, int width = 32) { return __shfl_up_sync(__activemask(), value, by, width); }
template <class T> __device__ T __shfl_down(T value, unsigned by, int width = 32) { return __shfl_down_sync(__activemask(), value, by, width); }
template <class T> __device__ T __shfl_xor(T value, int with, int width = 32) { return __shfl_xor_sync(__activemask(), value, with, width); }
static __device__ int __any(int predicate) { return __any_sync(__activemask(), predicate); }
static __device__ int __all(int predicate) { return __all_sync(__activemask(), predicate); }
static __device__ unsigned __ballot(int predicate) { return __ballot_sync(__activemask(), predicate); }
#endif
