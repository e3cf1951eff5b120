/* std::tuple for device code that uses it; <tuple> itself is taken as empty, since most sources include it for the host. */
#ifndef WMMADIAG_TUPLE
#define WMMADIAG_TUPLE
#include <type_traits>
#include <utility>
namespace std {
template <class _WT> struct tuple_size;
template <size_t _Wi, class _WT> struct tuple_element;
template <class... _WT> struct tuple;
template <> struct tuple<> {};
template <class _WA, class... _WT> struct tuple<_WA, _WT...> {
  _WA _Wfirst;
  tuple<_WT...> _Wrest;
  constexpr tuple() = default;
  __host__ __device__ constexpr tuple(const _WA &_Wa, const _WT &..._Wb) : _Wfirst(_Wa), _Wrest(_Wb...) {}
  template <class... _WU> __host__ __device__ constexpr tuple &operator=(const tuple<_WU...> &_Wother) {
    _Wfirst = _Wother._Wfirst;
    _Wrest = _Wother._Wrest;
    return *this;
  }
};
template <class... _WT> struct tuple_size<tuple<_WT...> > : integral_constant<size_t, sizeof...(_WT)> {};
template <class _WA, class... _WT> struct tuple_element<0, tuple<_WA, _WT...> > { typedef _WA type; };
template <size_t _Wi, class _WA, class... _WT> struct tuple_element<_Wi, tuple<_WA, _WT...> >
    : tuple_element<_Wi - 1, tuple<_WT...> > {};
template <size_t _Wi, class _WT> using tuple_element_t = typename tuple_element<_Wi, _WT>::type;
template <size_t _Wi, class... _WT>
__host__ __device__ constexpr tuple_element_t<_Wi, tuple<_WT...> > &get(tuple<_WT...> &_Wt) {
  if constexpr (_Wi == 0) return _Wt._Wfirst;
  else return get<_Wi - 1>(_Wt._Wrest);
}
template <size_t _Wi, class... _WT>
__host__ __device__ constexpr const tuple_element_t<_Wi, tuple<_WT...> > &get(const tuple<_WT...> &_Wt) {
  if constexpr (_Wi == 0) return _Wt._Wfirst;
  else return get<_Wi - 1>(_Wt._Wrest);
}
template <size_t _Wi, class... _WT>
__host__ __device__ constexpr tuple_element_t<_Wi, tuple<_WT...> > get(tuple<_WT...> &&_Wt) {
  if constexpr (_Wi == 0) return _Wt._Wfirst;
  else return get<_Wi - 1>(static_cast<tuple<_WT...> &>(_Wt)._Wrest);
}
template <class... _WT> __host__ __device__ constexpr tuple<decay_t<_WT>...> make_tuple(_WT &&..._Wt) {
  return tuple<decay_t<_WT>...>(_Wt...);
}
template <class... _WT> __host__ __device__ constexpr tuple<_WT &...> tie(_WT &..._Wt) { return tuple<_WT &...>(_Wt...); }
}
#endif
