/* Seed and offset of a state, as in ATen/cuda/detail/UnpackRaw.cuh. */
#ifndef WMMADIAG_PHILOX_UNPACK
#define WMMADIAG_PHILOX_UNPACK
#include <ATen/cuda/PhiloxCudaState.h>
#include <wmmadiag_tuple.h>
namespace at { namespace cuda { namespace philox {
__host__ __device__ __forceinline__ std::tuple<uint64_t, uint64_t> unpack(at::PhiloxCudaState _Ws) {
  if (_Ws.captured_)
    return std::make_tuple(uint64_t(*_Ws.seed_.ptr), uint64_t(*_Ws.offset_.ptr) + _Ws.offset_intragraph_);
  return std::make_tuple(_Ws.seed_.val, _Ws.offset_.val);
}
} } }
#endif
