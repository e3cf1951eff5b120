/* std::tuple for device code that uses it; <tuple> itself is taken as empty, since most sources include it for the host.
   The last element lies first, and each in the room that the rest leaves: as libstdc++ has it, whose tuples kernels get. */
#ifndef WMMADIAG_TUPLE
#define WMMADIAG_TUPLE
#include <type_traits>
#include <utility>
namespace std {
#define WMMADIAG_FN __host__ __device__ constexpr
template <class... _WT> struct __wmmadiag_elements {};
template <class _WA, class... _WT> struct __wmmadiag_elements<_WA, _WT...> : __wmmadiag_elements<_WT...> {
  typedef __wmmadiag_elements<_WT...> _Wrest;
  _WA _Wfirst;
  constexpr __wmmadiag_elements() = default;
  template <class _WB, class... _WU, class = enable_if_t<sizeof...(_WU) == sizeof...(_WT)> >
  WMMADIAG_FN __wmmadiag_elements(in_place_t, _WB &&_Wb, _WU &&..._Wu)
      : _Wrest(in_place, static_cast<_WU &&>(_Wu)...), _Wfirst(static_cast<_WB &&>(_Wb)) {}
  WMMADIAG_FN __wmmadiag_elements(in_place_t) : _Wrest(in_place), _Wfirst() {}
  template <class _WB, class... _WU> WMMADIAG_FN void _Wset(const __wmmadiag_elements<_WB, _WU...> &_Wother) {
    _Wfirst = _Wother._Wfirst;
    if constexpr (sizeof...(_WU) > 0) _Wrest::_Wset(static_cast<const __wmmadiag_elements<_WU...> &>(_Wother));
  }
};
template <> struct __wmmadiag_elements<> {
  constexpr __wmmadiag_elements() = default;
  WMMADIAG_FN __wmmadiag_elements(in_place_t) {}
};
template <size_t _Wi, class _WA, class... _WT> WMMADIAG_FN decltype(auto) __wmmadiag_at(__wmmadiag_elements<_WA, _WT...> &_We) {
  if constexpr (_Wi == 0) return (_We._Wfirst);
  else return __wmmadiag_at<_Wi - 1>(static_cast<__wmmadiag_elements<_WT...> &>(_We));
}
template <size_t _Wi, class _WA, class... _WT> WMMADIAG_FN decltype(auto) __wmmadiag_at(const __wmmadiag_elements<_WA, _WT...> &_We) {
  if constexpr (_Wi == 0) return (_We._Wfirst);
  else return __wmmadiag_at<_Wi - 1>(static_cast<const __wmmadiag_elements<_WT...> &>(_We));
}
template <class... _WT> struct tuple : __wmmadiag_elements<_WT...> {
  typedef __wmmadiag_elements<_WT...> _Wbase;
  constexpr tuple() = default;
  constexpr tuple(const tuple &) = default;
  template <class... _WU, class = enable_if_t<(sizeof...(_WU) > 0) && sizeof...(_WU) == sizeof...(_WT)>,
            class = enable_if_t<(is_convertible_v<_WU &&, _WT> && ...)> >
  WMMADIAG_FN tuple(_WU &&..._Wu) : _Wbase(in_place, static_cast<_WU &&>(_Wu)...) {}
  template <class... _WU, size_t... _Wi>
  WMMADIAG_FN tuple(index_sequence<_Wi...>, const tuple<_WU...> &_Wother) : _Wbase(in_place, __wmmadiag_at<_Wi>(_Wother)...) {}
  template <class... _WU, class = enable_if_t<sizeof...(_WU) == sizeof...(_WT)>,
            class = enable_if_t<(is_convertible_v<const _WU &, _WT> && ...)> >
  WMMADIAG_FN tuple(const tuple<_WU...> &_Wother) : tuple(index_sequence_for<_WU...>{}, _Wother) {}
  WMMADIAG_FN tuple &operator=(const tuple &_Wother) {
    if constexpr (sizeof...(_WT) > 0) _Wbase::_Wset(_Wother);
    return *this;
  }
  template <class... _WU> WMMADIAG_FN tuple &operator=(const tuple<_WU...> &_Wother) {
    if constexpr (sizeof...(_WT) > 0) _Wbase::_Wset(_Wother);
    return *this;
  }
  template <class _WA, class _WB> WMMADIAG_FN tuple &operator=(const pair<_WA, _WB> &_Wother) {
    __wmmadiag_at<0>(*this) = _Wother.first;
    __wmmadiag_at<1>(*this) = _Wother.second;
    return *this;
  }
};
template <class... _WT> tuple(_WT...) -> tuple<_WT...>;
template <class _WA, class _WB> tuple(pair<_WA, _WB>) -> tuple<_WA, _WB>;
template <class... _WT> struct tuple_size<tuple<_WT...> > : integral_constant<size_t, sizeof...(_WT)> {};
template <class... _WT> struct tuple_size<const tuple<_WT...> > : integral_constant<size_t, sizeof...(_WT)> {};
template <size_t _Wi, class... _WT> struct tuple_element<_Wi, const tuple<_WT...> > { typedef const tuple_element_t<_Wi, tuple<_WT...> > type; };
template <class _WA, class... _WT> struct tuple_element<0, tuple<_WA, _WT...> > { typedef _WA type; };
template <size_t _Wi, class _WA, class... _WT> struct tuple_element<_Wi, tuple<_WA, _WT...> >
    : tuple_element<_Wi - 1, tuple<_WT...> > {};
template <size_t _Wi, class... _WT> WMMADIAG_FN tuple_element_t<_Wi, tuple<_WT...> > &get(tuple<_WT...> &_Wt) { return __wmmadiag_at<_Wi>(_Wt); }
template <size_t _Wi, class... _WT> WMMADIAG_FN const tuple_element_t<_Wi, tuple<_WT...> > &get(const tuple<_WT...> &_Wt) { return __wmmadiag_at<_Wi>(_Wt); }
template <size_t _Wi, class... _WT> WMMADIAG_FN tuple_element_t<_Wi, tuple<_WT...> > &&get(tuple<_WT...> &&_Wt) {
  return static_cast<tuple_element_t<_Wi, tuple<_WT...> > &&>(__wmmadiag_at<_Wi>(_Wt));
}
template <class _WF, class... _WT> WMMADIAG_FN size_t __wmmadiag_index() {
  size_t _Wi = 0;
  (void)((is_same_v<_WF, _WT> ? true : (++_Wi, false)) || ...);
  return _Wi;
}
template <class _WF, class... _WT> WMMADIAG_FN _WF &get(tuple<_WT...> &_Wt) { return __wmmadiag_at<__wmmadiag_index<_WF, _WT...>()>(_Wt); }
template <class _WF, class... _WT> WMMADIAG_FN const _WF &get(const tuple<_WT...> &_Wt) { return __wmmadiag_at<__wmmadiag_index<_WF, _WT...>()>(_Wt); }
template <class... _WT> WMMADIAG_FN tuple<decay_t<_WT>...> make_tuple(_WT &&..._Wt) { return tuple<decay_t<_WT>...>(static_cast<_WT &&>(_Wt)...); }
template <class... _WT> WMMADIAG_FN tuple<_WT &...> tie(_WT &..._Wt) { return tuple<_WT &...>(_Wt...); }
template <class... _WT> WMMADIAG_FN tuple<_WT &&...> forward_as_tuple(_WT &&..._Wt) { return tuple<_WT &&...>(static_cast<_WT &&>(_Wt)...); }
struct __wmmadiag_ignore {
  template <class _WT> WMMADIAG_FN const __wmmadiag_ignore &operator=(const _WT &) const { return *this; }
};
inline constexpr __wmmadiag_ignore ignore{};
template <class _WF, class _WT, size_t... _Wi> WMMADIAG_FN decltype(auto) __wmmadiag_apply(_WF &&_Wf, _WT &&_Wt, index_sequence<_Wi...>) {
  return static_cast<_WF &&>(_Wf)(get<_Wi>(static_cast<_WT &&>(_Wt))...);
}
template <class _WF, class _WT> WMMADIAG_FN decltype(auto) apply(_WF &&_Wf, _WT &&_Wt) {
  return __wmmadiag_apply(static_cast<_WF &&>(_Wf), static_cast<_WT &&>(_Wt), make_index_sequence<tuple_size_v<remove_cvref_t<_WT> > >{});
}
template <class _WC, class _WT, size_t... _Wi> WMMADIAG_FN _WC __wmmadiag_made(_WT &&_Wt, index_sequence<_Wi...>) {
  return _WC(get<_Wi>(static_cast<_WT &&>(_Wt))...);
}
template <class _WC, class _WT> WMMADIAG_FN _WC make_from_tuple(_WT &&_Wt) {
  return __wmmadiag_made<_WC>(static_cast<_WT &&>(_Wt), make_index_sequence<tuple_size_v<remove_cvref_t<_WT> > >{});
}
template <class... _WA, class... _WB, size_t... _Wi, size_t... _Wj>
WMMADIAG_FN tuple<_WA..., _WB...> __wmmadiag_cat(const tuple<_WA...> &_Wa, const tuple<_WB...> &_Wb, index_sequence<_Wi...>, index_sequence<_Wj...>) {
  return tuple<_WA..., _WB...>(get<_Wi>(_Wa)..., get<_Wj>(_Wb)...);
}
WMMADIAG_FN tuple<> tuple_cat() { return {}; }
template <class... _WA> WMMADIAG_FN tuple<_WA...> tuple_cat(const tuple<_WA...> &_Wa) { return _Wa; }
template <class... _WA, class... _WB, class... _WR> WMMADIAG_FN auto tuple_cat(const tuple<_WA...> &_Wa, const tuple<_WB...> &_Wb, const _WR &..._Wr) {
  return tuple_cat(__wmmadiag_cat(_Wa, _Wb, index_sequence_for<_WA...>{}, index_sequence_for<_WB...>{}), _Wr...);
}
template <size_t _Wi, class _WA, class _WB> WMMADIAG_FN int __wmmadiag_order(const _WA &_Wa, const _WB &_Wb) {
  if constexpr (_Wi == tuple_size_v<_WA>) return 0;
  else if (get<_Wi>(_Wa) < get<_Wi>(_Wb)) return -1;
  else if (get<_Wi>(_Wb) < get<_Wi>(_Wa)) return 1;
  else return __wmmadiag_order<_Wi + 1>(_Wa, _Wb);
}
template <class... _WA, class... _WB, size_t... _Wi>
WMMADIAG_FN bool __wmmadiag_same(const tuple<_WA...> &_Wa, const tuple<_WB...> &_Wb, index_sequence<_Wi...>) { return (true && ... && (get<_Wi>(_Wa) == get<_Wi>(_Wb))); }
template <class... _WA, class... _WB> WMMADIAG_FN bool operator==(const tuple<_WA...> &_Wa, const tuple<_WB...> &_Wb) {
  return __wmmadiag_same(_Wa, _Wb, index_sequence_for<_WA...>{});
}
#define _WMMADIAG_TUPLES(op, value) \
  template <class... _WA, class... _WB> WMMADIAG_FN bool operator op(const tuple<_WA...> &_Wa, const tuple<_WB...> &_Wb) { return value; }
_WMMADIAG_TUPLES(!=, !(_Wa == _Wb))
_WMMADIAG_TUPLES(<, __wmmadiag_order<0>(_Wa, _Wb) < 0)
_WMMADIAG_TUPLES(>, __wmmadiag_order<0>(_Wa, _Wb) > 0)
_WMMADIAG_TUPLES(<=, __wmmadiag_order<0>(_Wa, _Wb) <= 0)
_WMMADIAG_TUPLES(>=, __wmmadiag_order<0>(_Wa, _Wb) >= 0)
#undef _WMMADIAG_TUPLES
#undef WMMADIAG_FN
}
#endif
