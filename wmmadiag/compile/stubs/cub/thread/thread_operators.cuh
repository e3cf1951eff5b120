// The operators that CUB 3 dropped and most kernels still name.
#pragma once
#include_next <cub/thread/thread_operators.cuh>
#if CCCL_MAJOR_VERSION >= 3
namespace cub {
struct Sum {
  template <class _WA, class _WB> __host__ __device__ constexpr auto operator()(_WA _Wa, _WB _Wb) const { return _Wa + _Wb; }
};
struct Difference {
  template <class _WA, class _WB> __host__ __device__ constexpr auto operator()(_WA _Wa, _WB _Wb) const { return _Wa - _Wb; }
};
struct Division {
  template <class _WA, class _WB> __host__ __device__ constexpr auto operator()(_WA _Wa, _WB _Wb) const { return _Wa / _Wb; }
};
struct Max {
  template <class _WT> __host__ __device__ constexpr _WT operator()(_WT _Wa, _WT _Wb) const { return _Wb > _Wa ? _Wb : _Wa; }
};
struct Min {
  template <class _WT> __host__ __device__ constexpr _WT operator()(_WT _Wa, _WT _Wb) const { return _Wb < _Wa ? _Wb : _Wa; }
};
struct Equality {
  template <class _WA, class _WB> __host__ __device__ constexpr bool operator()(const _WA& _Wa, const _WB& _Wb) const { return _Wa == _Wb; }
};
struct Inequality {
  template <class _WA, class _WB> __host__ __device__ constexpr bool operator()(const _WA& _Wa, const _WB& _Wb) const { return _Wa != _Wb; }
};
}
#endif
