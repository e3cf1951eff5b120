/* The state of torch's generator, as kernels get it. Members as in ATen/cuda/PhiloxCudaState.h. */
#ifndef WMMADIAG_PHILOX_STATE
#define WMMADIAG_PHILOX_STATE
#include <stdint.h>
namespace at {
struct PhiloxCudaState {
  union Payload {
    uint64_t val;
    int64_t *ptr;
  };
  Payload seed_, offset_;
  uint32_t offset_intragraph_;
  bool captured_;
};
}
#endif
