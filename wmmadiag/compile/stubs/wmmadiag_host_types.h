// Classes of the host's standard library as device code can have them under nvcc: members of other classes, of the size and alignment that
// libstdc++ gives them on 64-bit machines, whose functions are the host's: none is defined, and constructors are declared for initial values
#ifndef WMMADIAG_HOST_TYPES
#define WMMADIAG_HOST_TYPES
#define _WMMADIAG_OPAQUE(_Wname, _Wsize)   \
  template <class _WT, class... _WA>       \
  class _Wname {                           \
    alignas(8) char _Wbytes[_Wsize];       \
   public:                                 \
    template <class... _WX>                \
    __device__ _Wname(const _WX &...);       \
  };
namespace std {
_WMMADIAG_OPAQUE(basic_string, 32)
_WMMADIAG_OPAQUE(vector, 24)
_WMMADIAG_OPAQUE(list, 24)
_WMMADIAG_OPAQUE(deque, 80)
_WMMADIAG_OPAQUE(map, 48)
_WMMADIAG_OPAQUE(multimap, 48)
_WMMADIAG_OPAQUE(set, 48)
_WMMADIAG_OPAQUE(multiset, 48)
_WMMADIAG_OPAQUE(unordered_map, 56)
_WMMADIAG_OPAQUE(unordered_multimap, 56)
_WMMADIAG_OPAQUE(unordered_set, 56)
_WMMADIAG_OPAQUE(unordered_multiset, 56)
_WMMADIAG_OPAQUE(shared_ptr, 16)
_WMMADIAG_OPAQUE(weak_ptr, 16)
_WMMADIAG_OPAQUE(function, 32)
template <class... _WA>
class vector<bool, _WA...> {
  alignas(8) char _Wbytes[40];
 public:
  template <class... _WX>
  __device__ vector(const _WX &...);
};
template <class _WT, class... _WD>
class unique_ptr {
  void *_Wpointer;
 public:
  template <class... _WX>
  __device__ unique_ptr(const _WX &...);
};
template <class _WT, class _WD>
class unique_ptr<_WT, _WD> {
  alignas(8) char _Wbytes[__is_empty(_WD) ? 8 : 8 + (sizeof(_WD) + 7) / 8 * 8];
 public:
  template <class... _WX>
  __device__ unique_ptr(const _WX &...);
};
typedef basic_string<char> string;
typedef basic_string<wchar_t> wstring;
}
#undef _WMMADIAG_OPAQUE
#endif
