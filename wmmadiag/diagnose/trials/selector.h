// What a program of trials reads at run time, and the types of its alternatives: read before the user's source.
#pragma once

// Which change is made; 0: none. Extern "C", so that its name in PTX is known; the compiler cannot know its value.
extern "C" {
__constant__ unsigned wmmadiag_selected;
}

namespace wmmadiag_trial {

template <class T>
struct Plain {
    using type = T;
};
template <class T>
struct Plain<T&> : Plain<T> {};
template <class T>
struct Plain<T&&> : Plain<T> {};
template <class T>
struct Plain<const T> : Plain<T> {};
template <class T>
struct Plain<volatile T> : Plain<T> {};
template <class T>
struct Plain<const volatile T> : Plain<T> {};
template <class T>
struct Plain<T* __restrict__> {
    using type = T*;
};
template <class T>
struct Plain<T* const __restrict__> {
    using type = T*;
};
template <class T>
struct Plain<T[]> {
    using type = T*;
};
template <class T, decltype(sizeof(0)) n>
struct Plain<T[n]> {
    using type = T*;
};

template <class T>
struct Integral {
    enum { value = false };
};
#define WMMADIAG_INTEGRAL(T)   \
    template <>                \
    struct Integral<T> {       \
        enum { value = true }; \
    };
WMMADIAG_INTEGRAL(bool)
WMMADIAG_INTEGRAL(char)
WMMADIAG_INTEGRAL(signed char)
WMMADIAG_INTEGRAL(unsigned char)
WMMADIAG_INTEGRAL(short)
WMMADIAG_INTEGRAL(unsigned short)
WMMADIAG_INTEGRAL(int)
WMMADIAG_INTEGRAL(unsigned)
WMMADIAG_INTEGRAL(long)
WMMADIAG_INTEGRAL(unsigned long)
WMMADIAG_INTEGRAL(long long)
WMMADIAG_INTEGRAL(unsigned long long)
#undef WMMADIAG_INTEGRAL

// Never defined: a cast to one is an error on the alternative's own line. Another type: the text may still be meant, and convert. No type: a
// pointer for a number, or the other way.
struct AnotherType;
struct NoType;

// As which value an alternative stands in for the original: as the original's type, so that what is around both keeps its meaning.
template <class Original, class Alternative, bool integral>
struct Value {
    using type = AnotherType;
};
template <class Original, class T>
struct Value<Original, T*, false> {
    using type = NoType;
};
template <class T, class Alternative>
struct Value<T*, Alternative, false> {
    using type = NoType;
};
template <class T, class U>
struct Value<T*, U*, false> {
    using type = AnotherType;
};
template <class Original, class Alternative>
struct Value<Original, Alternative, true> {
    using type = Original;
};
template <class T>
struct Value<T, T, true> {
    using type = T;
};
template <class T>
struct Value<T, T, false> {
    using type = T;
};
template <class T>
struct Value<T*, T*, false> {
    using type = T*;
};
template <class T>
struct Value<T*, const T*, false> {
    using type = const T*;
};
template <class T>
struct Value<const T*, T*, false> {
    using type = const T*;
};

// The types are those of `decltype((expression))`: a place in memory stays one.
template <class Original, class Alternative>
struct Stand {
    using O = typename Plain<Original>::type;
    using A = typename Plain<Alternative>::type;
    using type = typename Value<O, A, Integral<O>::value && Integral<A>::value>::type;
};
template <class T>
struct Stand<T&, T&> {
    using type = T&;
};
template <class T>
struct Stand<const T&, T&> {
    using type = const T&;
};
// The number is the change's: a message about what stands in a macro's argument is where the macro is used, and names it all the same.
template <class Original, class Alternative, unsigned number = 0>
using As = typename Stand<Original, Alternative>::type;

}  // namespace wmmadiag_trial
