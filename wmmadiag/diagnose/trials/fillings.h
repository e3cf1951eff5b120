// What fills a hole: one of the values that can be named there, or two of them under an operator, chosen at run time.
// Read after `selector.h`. The numbers of operators and the bits of a filling are those of `holes.py`.

namespace wmmadiag_trial {

// A number of any arithmetic type, as bits. `kind`: 0 int, 1 unsigned, 2 long long, 3 unsigned long long, 4 float, 5 double.
struct Number {
    long long bits;
    int kind;
};

__device__ inline Number number(bool value) { return Number{value, 0}; }
__device__ inline Number number(int value) { return Number{value, 0}; }
__device__ inline Number number(unsigned value) { return Number{value, 1}; }
__device__ inline Number number(long value) { return Number{value, 2}; }
__device__ inline Number number(long long value) { return Number{value, 2}; }
__device__ inline Number number(unsigned long value) { return Number{static_cast<long long>(value), 3}; }
__device__ inline Number number(unsigned long long value) { return Number{static_cast<long long>(value), 3}; }
__device__ inline Number number(float value) { return Number{__float_as_int(value), 4}; }
__device__ inline Number number(double value) { return Number{__double_as_longlong(value), 5}; }

__device__ inline float single_of(long long bits) { return __int_as_float(static_cast<int>(bits)); }

// The bits of a number as those of a wider kind ([expr.arith.conv]; what is narrower than int is int already).
__device__ __noinline__ long long widened(long long bits, int from, int to) {
    if (to < 4) return to == 1 ? static_cast<long long>(static_cast<unsigned>(bits)) : bits;
    const double real = from == 4   ? static_cast<double>(single_of(bits))
                        : from == 3 ? static_cast<double>(static_cast<unsigned long long>(bits))
                                    : static_cast<double>(bits);
    return to == 4 ? static_cast<long long>(__float_as_int(static_cast<float>(real))) : __double_as_longlong(real);
}

template <class T>
__device__ bool compared(int operation, T a, T b) {
    switch (operation & 3) {
        case 0: return a < b;
        case 1: return a <= b;
        case 2: return a == b;
        default: return a != b;
    }
}

template <class T>
__device__ T real(int operation, T a, T b) {
    switch (operation) {
        case 1: return a + b;
        case 2: return a - b;
        case 3: return a * b;
        default: return a / b;
    }
}

template <class T>
__device__ long long integer(int operation, T a, T b, int bits) {
    switch (operation) {
        case 1: return static_cast<long long>(a + b);
        case 2: return static_cast<long long>(a - b);
        case 3: return static_cast<long long>(a * b);
        case 4: return static_cast<long long>(a / b);
        case 5: return static_cast<long long>(a % b);
        case 6: return static_cast<long long>(a << (static_cast<int>(b) & (bits - 1)));
        case 7: return static_cast<long long>(a >> (static_cast<int>(b) & (bits - 1)));
        case 8: return static_cast<long long>(a & b);
        case 9: return static_cast<long long>(a | b);
        default: return static_cast<long long>(a ^ b);
    }
}

// Two numbers of one kind under an operator; of a comparison 0 or 1.
__device__ __noinline__ long long combined(int operation, int kind, long long a, long long b) {
    const bool compares = operation >= 12;
    const int i = static_cast<int>(a), j = static_cast<int>(b);
    const unsigned u = static_cast<unsigned>(a), v = static_cast<unsigned>(b);
    const unsigned long long x = static_cast<unsigned long long>(a), y = static_cast<unsigned long long>(b);
    switch (kind) {
        case 0: return compares ? compared(operation, a, b) : integer(operation, i, j, 32);
        case 1: return compares ? compared(operation, u, v) : integer(operation, u, v, 32);
        case 2: return compares ? compared(operation, a, b) : integer(operation, a, b, 64);
        case 3: return compares ? compared(operation, x, y) : integer(operation, x, y, 64);
        case 4:
            return compares ? compared(operation, single_of(a), single_of(b))
                            : __float_as_int(real(operation, single_of(a), single_of(b)));
        default: {
            const double first = __longlong_as_double(a), second = __longlong_as_double(b);
            return compares ? compared(operation, first, second) : __double_as_longlong(real(operation, first, second));
        }
    }
}

// A number as a value of type T.
template <class T, bool integral>
struct Back {
    __device__ static T of(const Number& one) {
        return T(single_of(one.kind == 4 ? one.bits : one.kind == 5 ? __float_as_int(static_cast<float>(__longlong_as_double(one.bits)))
                                                                   : widened(one.bits, one.kind, 4)));
    }
};
template <class T>
struct Back<T, true> {
    __device__ static T of(const Number& one) {
        return one.kind < 4    ? static_cast<T>(one.bits)
               : one.kind == 4 ? static_cast<T>(single_of(one.bits))
                               : static_cast<T>(__longlong_as_double(one.bits));
    }
};
template <>
struct Back<double, false> {
    __device__ static double of(const Number& one) {
        return __longlong_as_double(one.kind == 5 ? one.bits : widened(one.bits, one.kind, 5));
    }
};

// What stands in for a hole of type T; `named(n)`: the value of its n-th slot, 0 being the hole's own expression. Of a
// condition the first is that, with "and" or "or" before a comparison of the other two.
template <class T, class Named>
__device__ typename Plain<T>::type filled(Named named) {
    using P = typename Plain<T>::type;
    const unsigned chosen = wmmadiag_selected;
    const int operation = chosen & 31;
    if (operation == 24) {  // so many times itself, `holes.factor`
        Number held = named(0);
        const float by = exp2f((((chosen >> 5) & 511) - 256.0f + (((chosen >> 14) & 511) - 256.0f) / 256.0f) / 16.0f);
        if (held.kind == 4) held.bits = __float_as_int(single_of(held.bits) * by);
        if (held.kind == 5) held.bits = __double_as_longlong(__longlong_as_double(held.bits) * by);
        return Back<P, Integral<P>::value>::of(held);
    }
    Number own{0, 0}, first{0, 0}, last{0, 0};
#pragma unroll 1
    for (int at = operation >= 16 ? 0 : 1; at < 3; ++at) {
        own = first;
        first = last;
        last = named(at == 0 ? 0 : at == 1 ? (chosen >> 5) & 511 : (chosen >> 14) & 511);
        if (operation == 0) return Back<P, Integral<P>::value>::of(last);
    }
    const int kind = first.kind < last.kind ? last.kind : first.kind;
    if (first.kind != kind) first.bits = widened(first.bits, first.kind, kind);
    if (last.kind != kind) last.bits = widened(last.bits, last.kind, kind);
    Number made{combined(operation, kind, first.bits, last.bits), operation >= 12 ? 0 : kind};
    if (operation >= 16) {
        const bool held = own.kind == 4 ? single_of(own.bits) != 0.0f : own.bits != 0;
        made.bits = operation < 20 ? held && made.bits != 0 : held || made.bits != 0;
    }
    return Back<P, Integral<P>::value>::of(made);
}

}  // namespace wmmadiag_trial
