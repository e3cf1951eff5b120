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

/* No name of one letter: those are macros of users. */
namespace wmmadiag_ask {

enum Kind : unsigned char {
  other, boolean, signed_integer, unsigned_integer, floating, structure, union_, pointer, array, reference
};
enum Flag : unsigned char { constant_target = 1, enumeration = 2, empty = 4, polymorphic = 8, complete = 16 };
enum : unsigned { most_extents = 4 };

template <class T_> struct Type {};
/* No variable templates: each would be a variable of the PTX. */
template <class T_, class U_> struct Same { enum { value = 0 }; };
template <class T_> struct Same<T_, T_> { enum { value = 1 }; };
template <class T_, class U_> constexpr bool same() { return Same<T_, U_>::value; }
template <class T_, class... Any> constexpr bool one_of() { return (same<T_, Any>() || ...); }
template <class T_> struct Plain { using type = T_; };
template <class T_> struct Plain<const T_> { using type = T_; };
template <class T_> struct Plain<volatile T_> { using type = T_; };
template <class T_> struct Plain<const volatile T_> { using type = T_; };
template <class T_> using plain = typename Plain<T_>::type;
/* A pointer without its own qualifiers. */
template <class T_> struct Bare { using type = T_; };
template <class T_> struct Bare<T_* const> { using type = T_*; };
template <class T_> struct Bare<T_* volatile> { using type = T_*; };
template <class T_> struct Bare<T_* const volatile> { using type = T_*; };
template <class T_> struct Bare<T_* __restrict__> { using type = T_*; };
template <class T_> struct Bare<T_* const __restrict__> { using type = T_*; };
template <class T_> struct Bare<T_* volatile __restrict__> { using type = T_*; };
template <class T_> struct Bare<T_* const volatile __restrict__> { using type = T_*; };
template <class T_> using bare = typename Bare<T_>::type;
template <class T_> struct Unreferred { using type = T_; };
template <class T_> struct Unreferred<T_&> { using type = T_; };
template <class T_> struct Unreferred<T_&&> { using type = T_; };
template <class T_> using unreferred = typename Unreferred<T_>::type;

template <unsigned N_> struct Text { char letters[N_]; };
struct Number { unsigned char bytes[8]; };

constexpr Number number(unsigned long long value) {
  Number made{};
  for (unsigned i = 0; i < 8; ++i) made.bytes[i] = static_cast<unsigned char>(value >> 8 * i);
  return made;
}

template <class T_> constexpr auto name() {
  Text<sizeof(__PRETTY_FUNCTION__)> text{};
  for (unsigned i = 0; i + 1 < sizeof(__PRETTY_FUNCTION__); ++i) text.letters[i] = __PRETTY_FUNCTION__[i];
  return text;
}

template <class T_> constexpr bool is_integer() {
  return one_of<T_, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                long long, unsigned long long, wchar_t, char16_t, char32_t>();
}

template <class T_> constexpr Kind kind_of() {
  if constexpr (__is_enum(T_)) return kind_of<__underlying_type(T_)>();
  else if constexpr (same<T_, bool>()) return boolean;
  else if constexpr (is_integer<T_>()) return T_(-1) < T_(0) ? signed_integer : unsigned_integer;
  else if constexpr (one_of<T_, float, double>()) return floating;
  else if constexpr (__is_union(T_)) return union_;
  else if constexpr (__is_class(T_)) return structure;
  else return other;
}
template <class T_> struct KindOf { enum { value = kind_of<plain<T_>>() }; };
template <class T_> struct KindOf<T_*> { enum { value = pointer }; };
template <class T_> struct KindOf<T_&> { enum { value = reference }; };
template <class T_> struct KindOf<T_&&> { enum { value = reference }; };
template <class T_, unsigned long N_> struct KindOf<T_[N_]> { enum { value = array }; };
template <class T_> struct KindOf<T_[]> { enum { value = array }; };

/* What is left of a type without its extents and its levels of pointers. */
template <class T_> struct Target {
  using type = T_;
  enum : unsigned { depth = 0, rank = 0 };
};
template <class T_> struct TargetOf : Target<bare<T_>> {};
template <class T_> struct Pointed {
  using type = typename TargetOf<T_>::type;
  enum : unsigned { depth = TargetOf<T_>::rank ? 1 : TargetOf<T_>::depth + 1 };
};
template <class T_> struct Target<T_*> {
  using type = typename Pointed<T_>::type;
  enum : unsigned { depth = Pointed<T_>::depth, rank = 0 };
};
template <class T_, unsigned long N_> struct Target<T_[N_]> {
  using type = typename TargetOf<T_>::type;
  enum : unsigned { depth = TargetOf<T_>::depth, rank = TargetOf<T_>::rank + 1 };
};
template <class T_> struct Target<T_[]> : Target<T_[1]> {};

template <class T_> struct Extents { static constexpr void put(Number*) {} };
template <class T_, unsigned long N_> struct Extents<T_[N_]> {
  static constexpr void put(Number* at) {
    *at = number(N_);
    Extents<T_>::put(at + 1);
  }
};
template <class T_> struct Extents<T_[]> {
  static constexpr void put(Number* at) {
    *at = number(0);
    Extents<T_>::put(at + 1);
  }
};

template <class T_, unsigned long N_ = sizeof(T_)> constexpr unsigned long size_of(int) { return N_; }
template <class T_> constexpr unsigned long size_of(...) { return 0; }
template <class T_, unsigned long N_ = alignof(T_)> constexpr unsigned long align_of(int) { return N_; }
template <class T_> constexpr unsigned long align_of(...) { return 0; }

/* The type of a vector's elements: float4 has four x. */
template <class T_> auto lane(int) -> Type<plain<decltype(T_::x)>>;
template <class T_> auto lane(...) -> Type<void>;

template <class T_> constexpr unsigned char flags() {
  using U_ = plain<T_>;
  unsigned char found = same<T_, const T_>() ? constant_target : 0;
  if (__is_enum(U_)) found |= enumeration;
  if constexpr (size_of<U_>(0) != 0 && (__is_class(U_) || __is_union(U_))) {
    found |= complete;
    if (__is_empty(U_)) found |= empty;
    if (__is_polymorphic(U_)) found |= polymorphic;
  }
  return found;
}

template <unsigned A_, unsigned B_, unsigned C_> struct Facts {
  Number size, align, depth, rank, extents[most_extents];
  unsigned char kind;
  Number target_size, target_align;
  unsigned char target_kind, target_flags;
  Number lane_size;
  unsigned char lane_kind;
  Text<A_> name;
  Text<B_> target;
  Text<C_> lane;
};

template <class T_> struct TypeIn;
template <class T_> struct TypeIn<Type<T_>> { using type = T_; };

template <class T_> constexpr auto facts() {
  using target = plain<typename TargetOf<T_>::type>;
  using lane_type = typename TypeIn<decltype(lane<target>(0))>::type;
  static_assert(TargetOf<T_>::rank <= most_extents, "an array of more dimensions than are told");
  Facts<sizeof(name<bare<T_>>()), sizeof(name<target>()), sizeof(name<lane_type>())> made{};
  made.size = number(size_of<T_>(0));
  made.align = number(align_of<T_>(0));
  made.depth = number(TargetOf<T_>::depth);
  made.rank = number(TargetOf<T_>::rank);
  Extents<T_>::put(made.extents);
  made.kind = KindOf<bare<T_>>::value;
  made.target_size = number(size_of<target>(0));
  made.target_align = number(align_of<target>(0));
  made.target_kind = KindOf<bare<target>>::value;
  made.target_flags = flags<typename TargetOf<T_>::type>();
  made.lane_size = number(size_of<lane_type>(0));
  made.lane_kind = KindOf<lane_type>::value;
  made.name = name<bare<T_>>();
  made.target = name<target>();
  made.lane = name<lane_type>();
  return made;
}

/* A list of types: each after a byte 1, then a byte 0. */
template <class... T_> struct List { unsigned char end; };
template <class T_, class... Rest> struct List<T_, Rest...> {
  unsigned char more;
  decltype(facts<T_>()) head;
  List<Rest...> tail;
};
template <class T_, class... Rest> constexpr auto list() {
  List<T_, Rest...> made{};
  made.more = 1;
  made.head = facts<T_>();
  if constexpr (sizeof...(Rest) > 0) made.tail = list<Rest...>();
  return made;
}
template <class R_, class... P_> constexpr auto parameters(Type<R_ (*)(P_...)>) {
  if constexpr (sizeof...(P_) > 0) return list<P_...>();
  else return List<>{};
}
template <class R_, class... P_> constexpr auto parameters(Type<R_ (*)(P_...) noexcept>) {
  return parameters(Type<R_ (*)(P_...)>{});
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
template <class T_> constexpr Bits bits(T_ value) {
  if constexpr (one_of<T_, float, double>()) return Bits(value);
  else return Bits(static_cast<unsigned long long>(value));
}
template <unsigned N_> struct Constant {
  Bits bits;
  unsigned char kind, size, flags;
  Text<N_> name;
};
template <class T_> constexpr auto constant(T_ value) {
  constexpr auto kind = static_cast<Kind>(KindOf<T_>::value);
  static_assert(kind == boolean || kind == signed_integer || kind == unsigned_integer || kind == floating,
                "not the value of a number, a truth value or an enumerator");
  return Constant<sizeof(name<T_>())>{bits(value), kind, sizeof(T_), flags<T_>(), name<T_>()};
}

/* The type that a function's return type carries, without calling it. */
template <class R_, class... P_> constexpr auto carried(R_ (*)(P_...)) { return R_{}; }
template <class T_> constexpr auto facts(Type<T_>) { return facts<T_>(); }
template <class F_> struct Carried;
template <class R_, class... P_> struct Carried<R_ (*)(P_...)> { using type = R_; };

/* Members that a class keeps to itself: access is not checked in the arguments of an explicit instantiation. */
template <class Tag, auto M_> struct Opened {
  friend constexpr auto wmmadiag_member(Tag) { return M_; }
};
template <class Tag, class T_> struct Named {
  friend constexpr auto wmmadiag_type(Tag) { return Type<T_>{}; }
};
template <class T_> struct MemberOf;
template <class T_, class C_> struct MemberOf<T_ C_::*> {
  using type = T_;
  using owner = C_;
};
template <class T_> struct Item { using type = T_; };
template <class T_, unsigned long N_> struct Item<T_[N_]> : Item<T_> {};
template <class T_> using type_in = plain<typename Item<typename TypeIn<T_>::type>::type>;
template <class M_> using member_type = plain<typename Item<typename MemberOf<M_>::type>::type>;

/* A pointer to a member is its offset (Itanium C++ ABI, 2.3). */
template <class M_, class F_> struct Member {
  M_ offset;
  F_ told;
  unsigned char own;
};
template <class C_, class M_> constexpr auto member(M_ pointer) {
  auto told = facts<typename MemberOf<M_>::type>();
  return Member<M_, decltype(told)>{pointer, told, same<C_, typename MemberOf<M_>::owner>()};
}

template <unsigned N_, class F_> struct Parameter;
template <class R_, class P_, class... Rest> struct Parameter<0, R_ (*)(P_, Rest...)> { using type = P_; };
template <unsigned N_, class R_, class P_, class... Rest>
struct Parameter<N_, R_ (*)(P_, Rest...)> : Parameter<N_ - 1, R_ (*)(Rest...)> {};
template <unsigned N_, class R_, class... P_>
struct Parameter<N_, R_ (*)(P_...) noexcept> : Parameter<N_, R_ (*)(P_...)> {};

}  // namespace wmmadiag_ask
#endif
