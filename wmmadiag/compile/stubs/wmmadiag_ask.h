/* Read before a source that is asked questions (wmmadiag/compile/ask): how the compiler writes its answers down.

   An answer is an initialised variable of the PTX. All of an answer's parts are bytes, so that no padding is in it. */
#ifndef WMMADIAG_ASK_H
#define WMMADIAG_ASK_H

/* Questions are about declarations: kernels become functions that nobody calls, which are not translated. */
#undef __global__
#define __global__ __device__
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __cluster_dims__
#define __cluster_dims__(...)
#undef __block_size__
#define __block_size__(...)
#undef __maxnreg__
#define __maxnreg__(...)

namespace wmmadiag_ask {

enum Kind : unsigned char {
  other, boolean, signed_integer, unsigned_integer, floating, structure, union_, pointer, array, reference
};
enum Flag : unsigned char { constant_target = 1, enumeration = 2, empty = 4, polymorphic = 8, complete = 16 };
enum : unsigned { most_extents = 4 };

template <class T> struct Type {};
/* No variable templates: each would be a variable of the PTX. */
template <class T, class U> struct Same { enum { value = 0 }; };
template <class T> struct Same<T, T> { enum { value = 1 }; };
template <class T, class U> constexpr bool same() { return Same<T, U>::value; }
template <class T, class... Any> constexpr bool one_of() { return (same<T, Any>() || ...); }
template <class T> struct Plain { using type = T; };
template <class T> struct Plain<const T> { using type = T; };
template <class T> struct Plain<volatile T> { using type = T; };
template <class T> struct Plain<const volatile T> { using type = T; };
template <class T> using plain = typename Plain<T>::type;
/* A pointer without its own qualifiers. */
template <class T> struct Bare { using type = T; };
template <class T> struct Bare<T* const> { using type = T*; };
template <class T> struct Bare<T* volatile> { using type = T*; };
template <class T> struct Bare<T* const volatile> { using type = T*; };
template <class T> struct Bare<T* __restrict__> { using type = T*; };
template <class T> struct Bare<T* const __restrict__> { using type = T*; };
template <class T> struct Bare<T* volatile __restrict__> { using type = T*; };
template <class T> struct Bare<T* const volatile __restrict__> { using type = T*; };
template <class T> using bare = typename Bare<T>::type;
template <class T> struct Unreferred { using type = T; };
template <class T> struct Unreferred<T&> { using type = T; };
template <class T> struct Unreferred<T&&> { using type = T; };
template <class T> using unreferred = typename Unreferred<T>::type;

template <unsigned N> struct Text { char letters[N]; };
struct Number { unsigned char bytes[8]; };

constexpr Number number(unsigned long long value) {
  Number made{};
  for (unsigned i = 0; i < 8; ++i) made.bytes[i] = static_cast<unsigned char>(value >> 8 * i);
  return made;
}

template <class T> constexpr auto name() {
  Text<sizeof(__PRETTY_FUNCTION__)> text{};
  for (unsigned i = 0; i + 1 < sizeof(__PRETTY_FUNCTION__); ++i) text.letters[i] = __PRETTY_FUNCTION__[i];
  return text;
}

template <class T> constexpr bool is_integer() {
  return one_of<T, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                long long, unsigned long long, wchar_t, char16_t, char32_t>();
}

template <class T> constexpr Kind kind_of() {
  if constexpr (__is_enum(T)) return kind_of<__underlying_type(T)>();
  else if constexpr (same<T, bool>()) return boolean;
  else if constexpr (is_integer<T>()) return T(-1) < T(0) ? signed_integer : unsigned_integer;
  else if constexpr (one_of<T, float, double>()) return floating;
  else if constexpr (__is_union(T)) return union_;
  else if constexpr (__is_class(T)) return structure;
  else return other;
}
template <class T> struct KindOf { enum { value = kind_of<plain<T>>() }; };
template <class T> struct KindOf<T*> { enum { value = pointer }; };
template <class T> struct KindOf<T&> { enum { value = reference }; };
template <class T> struct KindOf<T&&> { enum { value = reference }; };
template <class T, unsigned long N> struct KindOf<T[N]> { enum { value = array }; };
template <class T> struct KindOf<T[]> { enum { value = array }; };

/* What is left of a type without its extents and its levels of pointers. */
template <class T> struct Target {
  using type = T;
  enum : unsigned { depth = 0, rank = 0 };
};
template <class T> struct TargetOf : Target<bare<T>> {};
template <class T> struct Pointed {
  using type = typename TargetOf<T>::type;
  enum : unsigned { depth = TargetOf<T>::rank ? 1 : TargetOf<T>::depth + 1 };
};
template <class T> struct Target<T*> {
  using type = typename Pointed<T>::type;
  enum : unsigned { depth = Pointed<T>::depth, rank = 0 };
};
template <class T, unsigned long N> struct Target<T[N]> {
  using type = typename TargetOf<T>::type;
  enum : unsigned { depth = TargetOf<T>::depth, rank = TargetOf<T>::rank + 1 };
};
template <class T> struct Target<T[]> : Target<T[1]> {};

template <class T> struct Extents { static constexpr void put(Number*) {} };
template <class T, unsigned long N> struct Extents<T[N]> {
  static constexpr void put(Number* at) {
    *at = number(N);
    Extents<T>::put(at + 1);
  }
};
template <class T> struct Extents<T[]> {
  static constexpr void put(Number* at) {
    *at = number(0);
    Extents<T>::put(at + 1);
  }
};

template <class T, unsigned long N = sizeof(T)> constexpr unsigned long size_of(int) { return N; }
template <class T> constexpr unsigned long size_of(...) { return 0; }
template <class T, unsigned long N = alignof(T)> constexpr unsigned long align_of(int) { return N; }
template <class T> constexpr unsigned long align_of(...) { return 0; }

/* The type of a vector's elements: float4 has four x. */
template <class T> auto lane(int) -> Type<plain<decltype(T::x)>>;
template <class T> auto lane(...) -> Type<void>;

template <class T> constexpr unsigned char flags() {
  using U = plain<T>;
  unsigned char found = same<T, U>() ? 0 : constant_target;
  if (__is_enum(U)) found |= enumeration;
  if constexpr (size_of<U>(0) != 0 && (__is_class(U) || __is_union(U))) {
    found |= complete;
    if (__is_empty(U)) found |= empty;
    if (__is_polymorphic(U)) found |= polymorphic;
  }
  return found;
}

template <unsigned A, unsigned B, unsigned C> struct Facts {
  Number size, align, depth, rank, extents[most_extents];
  unsigned char kind;
  Number target_size, target_align;
  unsigned char target_kind, target_flags;
  Number lane_size;
  unsigned char lane_kind;
  Text<A> name;
  Text<B> target;
  Text<C> lane;
};

template <class T> struct TypeIn;
template <class T> struct TypeIn<Type<T>> { using type = T; };

template <class T> constexpr auto facts() {
  using target = plain<typename TargetOf<T>::type>;
  using lane_type = typename TypeIn<decltype(lane<target>(0))>::type;
  static_assert(TargetOf<T>::rank <= most_extents, "an array of more dimensions than are told");
  Facts<sizeof(name<bare<T>>()), sizeof(name<target>()), sizeof(name<lane_type>())> made{};
  made.size = number(size_of<T>(0));
  made.align = number(align_of<T>(0));
  made.depth = number(TargetOf<T>::depth);
  made.rank = number(TargetOf<T>::rank);
  Extents<T>::put(made.extents);
  made.kind = KindOf<bare<T>>::value;
  made.target_size = number(size_of<target>(0));
  made.target_align = number(align_of<target>(0));
  made.target_kind = KindOf<bare<target>>::value;
  made.target_flags = flags<typename TargetOf<T>::type>();
  made.lane_size = number(size_of<lane_type>(0));
  made.lane_kind = KindOf<lane_type>::value;
  made.name = name<bare<T>>();
  made.target = name<target>();
  made.lane = name<lane_type>();
  return made;
}

/* A list of types: each after a byte 1, then a byte 0. */
template <class... T> struct List { unsigned char end; };
template <class T, class... Rest> struct List<T, Rest...> {
  unsigned char more;
  decltype(facts<T>()) head;
  List<Rest...> tail;
};
template <class T, class... Rest> constexpr auto list() {
  List<T, Rest...> made{};
  made.more = 1;
  made.head = facts<T>();
  if constexpr (sizeof...(Rest) > 0) made.tail = list<Rest...>();
  return made;
}
template <class R, class... P> constexpr auto parameters(Type<R (*)(P...)>) {
  if constexpr (sizeof...(P) > 0) return list<P...>();
  else return List<>{};
}
template <class R, class... P> constexpr auto parameters(Type<R (*)(P...) noexcept>) {
  return parameters(Type<R (*)(P...)>{});
}

/* The value of a constant, with its type. */
union Bits {
  unsigned long long integer;
  double precise;
  float single;
  constexpr Bits() : integer(0) {}
  constexpr explicit Bits(unsigned long long value) : integer(value) {}
  constexpr explicit Bits(double value) : precise(value) {}
  constexpr explicit Bits(float value) : single(value) {}
};
template <class T> constexpr Bits bits(T value) {
  if constexpr (one_of<T, float, double>()) return Bits(value);
  else return Bits(static_cast<unsigned long long>(value));
}
template <unsigned N> struct Constant {
  Bits bits;
  unsigned char kind, size, flags;
  Text<N> name;
};
template <class T> constexpr auto constant(T value) {
  constexpr auto kind = static_cast<Kind>(KindOf<T>::value);
  static_assert(kind == boolean || kind == signed_integer || kind == unsigned_integer || kind == floating,
                "not the value of a number, a truth value or an enumerator");
  return Constant<sizeof(name<T>())>{bits(value), kind, sizeof(T), flags<T>(), name<T>()};
}

/* The type that a function's return type carries, without calling it. */
template <class R, class... P> constexpr auto carried(R (*)(P...)) { return R{}; }
template <class T> constexpr auto facts(Type<T>) { return facts<T>(); }
template <class F> struct Carried;
template <class R, class... P> struct Carried<R (*)(P...)> { using type = R; };

/* Members that a class keeps to itself: access is not checked in the arguments of an explicit instantiation. */
template <class Tag, auto M> struct Opened {
  friend constexpr auto wmmadiag_member(Tag) { return M; }
};
template <class Tag, class T> struct Named {
  friend constexpr auto wmmadiag_type(Tag) { return Type<T>{}; }
};
template <class T> struct MemberOf;
template <class T, class C> struct MemberOf<T C::*> {
  using type = T;
  using owner = C;
};
template <class T> struct Item { using type = T; };
template <class T, unsigned long N> struct Item<T[N]> : Item<T> {};
template <class T> using type_in = plain<typename Item<typename TypeIn<T>::type>::type>;
template <class M> using member_type = plain<typename Item<typename MemberOf<M>::type>::type>;

/* A pointer to a member is its offset (Itanium C++ ABI, 2.3). */
template <class M, class F, unsigned N> struct Member {
  M offset;
  F told;
  Text<N> owner;
};
template <class M> constexpr auto member(M pointer) {
  using owner = typename MemberOf<M>::owner;
  auto told = facts<typename MemberOf<M>::type>();
  return Member<M, decltype(told), sizeof(name<owner>())>{pointer, told, name<owner>()};
}

template <unsigned N, class F> struct Parameter;
template <class R, class P, class... Rest> struct Parameter<0, R (*)(P, Rest...)> { using type = P; };
template <unsigned N, class R, class P, class... Rest>
struct Parameter<N, R (*)(P, Rest...)> : Parameter<N - 1, R (*)(Rest...)> {};
template <unsigned N, class R, class... P>
struct Parameter<N, R (*)(P...) noexcept> : Parameter<N, R (*)(P...)> {};

}  // namespace wmmadiag_ask
#endif
