// CUB's algorithms for the whole device, one element after another on the host, in the order of their stream, on memory that kernels
// reach, too. Their temporary storage is a byte that nothing uses. What is not here the compiler refuses by its name and line.
#pragma once
#include "wmmadiag_iterators.h"

#include <cuda/std/functional>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

extern "C" void wmmadiag_open_memory();

namespace cub {

namespace wmmadiag_detail {

// A program that calls one of the algorithms has its device's memory open to the host from its beginning.
template <class>
struct Opened {
    static inline const bool before_main = (wmmadiag_open_memory(), true);
};

template <class Work>
cudaError_t submit(void* temporary, size_t& bytes, cudaStream_t stream, Work work) {
    (void)&Opened<void>::before_main;
    if (temporary == nullptr) {
        bytes = 1;
        return cudaSuccess;
    }
    auto* kept = new std::function<void()>(work);  // a graph may run it again
    return (::cudaLaunchHostFunc)(stream, [](void* data) { (*static_cast<std::function<void()>*>(data))(); }, kept);
}

template <class Iterator>
using Seen = std::decay_t<decltype(*std::declval<Iterator>())>;
// What an iterator points to: where it gives a reference of a class's own, as Thrust's of device memory do, its value.
template <class Iterator, class = void>
struct Pointed {
    using type = Seen<Iterator>;
};
template <class Iterator>
struct Pointed<Iterator, std::enable_if_t<std::is_convertible_v<Seen<Iterator>, typename std::iterator_traits<Iterator>::value_type>>> {
    using type = std::remove_cv_t<typename std::iterator_traits<Iterator>::value_type>;
};
template <class Iterator>
using Value = typename Pointed<Iterator>::type;
template <class Op, class T, class U>
using Result = std::decay_t<decltype(std::declval<Op>()(std::declval<T>(), std::declval<U>()))>;

struct Plus {
    template <class T, class U>
    auto operator()(const T& a, const U& b) const {
        return a + b;
    }
};
struct Minus {
    template <class T, class U>
    auto operator()(const T& a, const U& b) const {
        return a - b;
    }
};
struct Least {
    template <class T, class U>
    auto operator()(const T& a, const U& b) const -> std::common_type_t<T, U> {
        if (b < a) return b;
        return a;
    }
};
struct Greatest {
    template <class T, class U>
    auto operator()(const T& a, const U& b) const -> std::common_type_t<T, U> {
        if (a < b) return b;
        return a;
    }
};
struct Same {
    template <class T, class U>
    bool operator()(const T& a, const U& b) const {
        return a == b;
    }
};

// By halves, as exact as a tree of threads.
template <class T, class Get, class Op>
T halves(Get get, size_t begin, size_t end, Op op) {
    if (end - begin == 1) return static_cast<T>(get(begin));
    const size_t middle = begin + (end - begin) / 2;
    return op(halves<T>(get, begin, middle, op), halves<T>(get, middle, end, op));
}

template <class In, class Op, class Init>
auto reduced(In in, size_t begin, size_t end, Op op, Init init) {
    using T = Result<Op, Init, Value<In>>;
    if (begin == end) return static_cast<T>(init);
    const auto get = [&](size_t i) -> T { return static_cast<T>(in[i]); };
    return static_cast<T>(op(init, halves<T>(get, begin, end, op)));
}

template <class Keys, class In, class Out, class Op, class T>
void scanned(Keys same, In in, Out out, Op op, T init, bool given, bool inclusive, size_t n) {
    std::vector<std::decay_t<T>> made;
    T sum = init;
    for (size_t i = 0; i < n; ++i) {
        const bool begins = i == 0 || !same(i);
        const auto value = static_cast<T>(in[i]);
        const T before = begins ? init : sum;
        sum = begins && !given ? value : static_cast<T>(op(before, value));
        made.push_back(inclusive ? sum : before);
    }
    std::copy(made.begin(), made.end(), out);
}

// A key as bits that order as it does.
template <class K>
auto ordered(K key) {
    using Bits = std::conditional_t<sizeof(K) == 1, std::uint8_t, std::conditional_t<sizeof(K) == 2, std::uint16_t, std::conditional_t<sizeof(K) == 4, std::uint32_t, std::uint64_t>>>;
    static_assert(sizeof(K) == sizeof(Bits), "keys of one, two, four or eight bytes");
    constexpr Bits sign = Bits(1) << (8 * sizeof(K) - 1);
    Bits bits;
    std::memcpy(&bits, &key, sizeof bits);
    if constexpr (std::is_integral_v<K>) return std::is_signed_v<K> ? Bits(bits ^ sign) : bits;
    if (bits == sign) bits = 0;  // -0 and +0 are one key
    return (bits & sign) != 0 ? Bits(~bits) : Bits(bits | sign);
}

template <class K, class V>
void radix_sorted(const K* in, K* out, const V* values_in, V* values_out, size_t n, int begin, int end, bool descending) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    const auto digits = [&](size_t i) {
        const std::uint64_t bits = ordered(in[i]);
        const int width = end - begin;
        return width >= 64 ? bits >> begin : bits >> begin & ((std::uint64_t{1} << width) - 1);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return descending ? digits(a) > digits(b) : digits(a) < digits(b); });
    std::vector<K> keys(n);
    for (size_t i = 0; i < n; ++i) keys[i] = in[order[i]];
    if constexpr (!std::is_same_v<V, void*>) {
        std::vector<V> values(n);
        for (size_t i = 0; i < n; ++i) values[i] = values_in[order[i]];
        std::copy(values.begin(), values.end(), values_out);
    }
    std::copy(keys.begin(), keys.end(), out);
}

// What is chosen, in order.
template <class In, class Out, class Number, class Chosen>
void chosen_of(In in, Out out, Number number, size_t n, Chosen chosen) {
    std::vector<Value<In>> taken;
    for (size_t i = 0; i < n; ++i)
        if (chosen(i)) taken.push_back(in[i]);
    *number = taken.size();
    std::copy(taken.begin(), taken.end(), out);
}

}  // namespace wmmadiag_detail

using Sum = wmmadiag_detail::Plus;
using Min = wmmadiag_detail::Least;
using Max = wmmadiag_detail::Greatest;
using Equality = wmmadiag_detail::Same;
using Difference = wmmadiag_detail::Minus;

template <class T>
struct DoubleBuffer {
    T* d_buffers[2] = {nullptr, nullptr};
    int selector = 0;
    DoubleBuffer() = default;
    DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
    T* Current() { return d_buffers[selector]; }
    T* Alternate() { return d_buffers[selector ^ 1]; }
};

struct DeviceReduce {
    template <class In, class Out, class N, class Op, class T>
    static cudaError_t Reduce(void* t, size_t& b, In in, Out out, N n, Op op, T init, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { *out = wmmadiag_detail::reduced(in, 0, size_t(n), op, init); });
    }
    template <class In, class Out, class N>
    static cudaError_t Sum(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        return Reduce(t, b, in, out, n, wmmadiag_detail::Plus{}, wmmadiag_detail::Value<In>{}, s);
    }
    template <class In, class Out, class N>
    static cudaError_t Min(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        using T = wmmadiag_detail::Value<In>;
        using Limits = std::numeric_limits<T>;
        return Reduce(t, b, in, out, n, wmmadiag_detail::Least{}, Limits::has_infinity ? Limits::infinity() : Limits::max(), s);
    }
    template <class In, class Out, class N>
    static cudaError_t Max(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        using T = wmmadiag_detail::Value<In>;
        using Limits = std::numeric_limits<T>;
        return Reduce(t, b, in, out, n, wmmadiag_detail::Greatest{}, Limits::has_infinity ? T(-Limits::infinity()) : Limits::lowest(), s);
    }
    template <class In, class Out, class N, class = decltype(std::declval<wmmadiag_detail::Value<Out>>().key)>
    static cudaError_t ArgMin(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            const auto at = std::min_element(in, in + n);
            *out = {decltype(out->key)(at - in), *at};
        });
    }
    template <class In, class Out, class N, class = decltype(std::declval<wmmadiag_detail::Value<Out>>().key)>
    static cudaError_t ArgMax(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            const auto at = std::max_element(in, in + n);
            *out = {decltype(out->key)(at - in), *at};
        });
    }
    template <class In, class Out, class Index, class = decltype(*std::declval<Index>())>
    static cudaError_t ArgMin(void* t, size_t& b, In in, Out out, Index index, std::int64_t n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            const auto at = std::min_element(in, in + n);
            *out = *at, *index = at - in;
        });
    }
    template <class In, class Out, class Index, class = decltype(*std::declval<Index>())>
    static cudaError_t ArgMax(void* t, size_t& b, In in, Out out, Index index, std::int64_t n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            const auto at = std::max_element(in, in + n);
            *out = *at, *index = at - in;
        });
    }
    template <class In, class Out, class N, class Op, class Transform, class T>
    static cudaError_t TransformReduce(void* t, size_t& b, In in, Out out, N n, Op op, Transform transform, T init, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            using U = std::decay_t<decltype(transform(*in))>;
            std::vector<U> made;
            for (N i = 0; i < n; ++i) made.push_back(transform(in[i]));
            *out = wmmadiag_detail::reduced(made.data(), 0, made.size(), op, init);
        });
    }
    template <class Keys, class Unique, class Values, class Sums, class Runs, class Op>
    static cudaError_t ReduceByKey(void* t, size_t& b, Keys keys, Unique unique, Values values, Sums sums, Runs runs, Op op, std::int64_t n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            std::int64_t run = 0;
            for (std::int64_t begin = 0, end; begin < n; begin = end, ++run) {
                for (end = begin + 1; end < n && keys[end] == keys[begin];) ++end;
                using T = wmmadiag_detail::Value<Values>;
                const auto get = [&](size_t i) -> T { return values[i]; };
                unique[run] = keys[begin];
                sums[run] = wmmadiag_detail::halves<T>(get, size_t(begin), size_t(end), op);
            }
            *runs = run;
        });
    }
};

struct DeviceScan {
    template <class In, class Out, class Op, class T, class N>
    static cudaError_t ExclusiveScan(void* t, size_t& b, In in, Out out, Op op, T init, N n, cudaStream_t s = nullptr) {
        using U = wmmadiag_detail::Result<Op, T, wmmadiag_detail::Value<In>>;
        return scan<U>(t, b, in, out, op, U(init), true, false, n, s);
    }
    template <class In, class Out, class Op, class N>
    static cudaError_t InclusiveScan(void* t, size_t& b, In in, Out out, Op op, N n, cudaStream_t s = nullptr) {
        using T = wmmadiag_detail::Value<In>;
        using U = wmmadiag_detail::Result<Op, T, T>;
        return scan<U>(t, b, in, out, op, U(), false, true, n, s);
    }
    template <class In, class Out, class Op, class T, class N>
    static cudaError_t InclusiveScanInit(void* t, size_t& b, In in, Out out, Op op, T init, N n, cudaStream_t s = nullptr) {
        using U = wmmadiag_detail::Result<Op, T, wmmadiag_detail::Value<In>>;
        return scan<U>(t, b, in, out, op, U(init), true, true, n, s);
    }
    template <class In, class Out, class N>
    static cudaError_t ExclusiveSum(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        return ExclusiveScan(t, b, in, out, wmmadiag_detail::Plus{}, wmmadiag_detail::Value<In>{}, n, s);
    }
    template <class In, class Out, class N>
    static cudaError_t InclusiveSum(void* t, size_t& b, In in, Out out, N n, cudaStream_t s = nullptr) {
        return InclusiveScan(t, b, in, out, wmmadiag_detail::Plus{}, n, s);
    }
    template <class Data, class N, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t ExclusiveSum(void* t, size_t& b, Data data, N n, cudaStream_t s = nullptr) {
        return ExclusiveSum(t, b, data, data, n, s);
    }
    template <class Data, class N, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t InclusiveSum(void* t, size_t& b, Data data, N n, cudaStream_t s = nullptr) {
        return InclusiveSum(t, b, data, data, n, s);
    }
    template <class Keys, class In, class Out, class N>
    static cudaError_t ExclusiveSumByKey(void* t, size_t& b, Keys keys, In in, Out out, N n, cudaStream_t s = nullptr) {
        return by_key(t, b, keys, in, out, true, false, n, s);
    }
    template <class Keys, class In, class Out, class Op, class T, class N>
    static cudaError_t ExclusiveScanByKey(void* t, size_t& b, Keys keys, In in, Out out, Op op, T init, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::scanned([&](size_t i) { return keys[i] == keys[i - 1]; }, in, out, op, init, true, false, size_t(n));
        });
    }
    template <class Keys, class In, class Out, class Op, class N>
    static cudaError_t InclusiveScanByKey(void* t, size_t& b, Keys keys, In in, Out out, Op op, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::scanned([&](size_t i) { return keys[i] == keys[i - 1]; }, in, out, op, wmmadiag_detail::Value<In>{}, false, true, size_t(n));
        });
    }
    template <class Keys, class In, class Out, class N>
    static cudaError_t InclusiveSumByKey(void* t, size_t& b, Keys keys, In in, Out out, N n, cudaStream_t s = nullptr) {
        return by_key(t, b, keys, in, out, false, true, n, s);
    }

private:
    template <class U, class In, class Out, class Op, class N>
    static cudaError_t scan(void* t, size_t& b, In in, Out out, Op op, U init, bool given, bool inclusive, N n, cudaStream_t s) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::scanned([](size_t) { return true; }, in, out, op, init, given, inclusive, size_t(n));
        });
    }
    template <class Keys, class In, class Out, class N>
    static cudaError_t by_key(void* t, size_t& b, Keys keys, In in, Out out, bool given, bool inclusive, N n, cudaStream_t s) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::scanned([&](size_t i) { return keys[i] == keys[i - 1]; }, in, out, wmmadiag_detail::Plus{}, wmmadiag_detail::Value<In>{},
                                     given, inclusive, size_t(n));
        });
    }
};

struct DeviceRadixSort {
#define WMMADIAG_SORTS(suffix, descending)                                                                                                   \
    template <class K, class N>                                                                                                              \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, const K* in, K* out, N n, int begin = 0, int end = 8 * sizeof(K),                \
                                        cudaStream_t s = nullptr) {                                                                          \
        return wmmadiag_detail::submit(                                                                                                      \
            t, b, s, [=] { wmmadiag_detail::radix_sorted<K, void*>(in, out, nullptr, nullptr, size_t(n), begin, end, descending); });        \
    }                                                                                                                                        \
    template <class K, class V, class N>                                                                                                     \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, const K* in, K* out, const V* values_in, V* values_out, N n, int begin = 0,     \
                                         int end = 8 * sizeof(K), cudaStream_t s = nullptr) {                                                \
        return wmmadiag_detail::submit(                                                                                                      \
            t, b, s, [=] { wmmadiag_detail::radix_sorted<K, V>(in, out, values_in, values_out, size_t(n), begin, end, descending); });       \
    }                                                                                                                                        \
    template <class K, class N>                                                                                                              \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, N n, int begin = 0, int end = 8 * sizeof(K),              \
                                        cudaStream_t s = nullptr) {                                                                          \
        const auto status = SortKeys##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(), n, begin, end, s);                \
        if (t != nullptr) keys.selector ^= 1;                                                                                                \
        return status;                                                                                                                       \
    }                                                                                                                                        \
    template <class K, class V, class N>                                                                                                     \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, int begin = 0,             \
                                         int end = 8 * sizeof(K), cudaStream_t s = nullptr) {                                                \
        const auto status = SortPairs##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(),                                  \
                                              const_cast<const V*>(values.Current()), values.Alternate(), n, begin, end, s);                 \
        if (t != nullptr) keys.selector ^= 1, values.selector ^= 1;                                                                          \
        return status;                                                                                                                       \
    }
    WMMADIAG_SORTS(, false)
    WMMADIAG_SORTS(Descending, true)
#undef WMMADIAG_SORTS
};

struct DeviceSelect {
    template <class In, class Out, class Number, class N, class Op, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t If(void* t, size_t& b, In in, Out out, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::chosen_of(in, out, number, size_t(n), [&](size_t i) { return op(in[i]); }); });
    }
    template <class In, class Flags, class Out, class Number, class N>
    static cudaError_t Flagged(void* t, size_t& b, In in, Flags flags, Out out, Number number, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::chosen_of(in, out, number, size_t(n), [&](size_t i) { return bool(flags[i]); }); });
    }
    template <class In, class Out, class Number, class N>
    static cudaError_t Unique(void* t, size_t& b, In in, Out out, Number number, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::chosen_of(in, out, number, size_t(n), [&](size_t i) { return i == 0 || !(in[i] == in[i - 1]); });
        });
    }
    template <class Data, class Number, class N, class Op, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t If(void* t, size_t& b, Data data, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return If(t, b, data, data, number, n, op, s);
    }
    template <class In, class Flags, class Out, class Number, class N, class Op>
    static cudaError_t FlaggedIf(void* t, size_t& b, In in, Flags flags, Out out, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::chosen_of(in, out, number, size_t(n), [&](size_t i) { return bool(op(flags[i])); }); });
    }
    template <class Keys, class Values, class KeysOut, class ValuesOut, class Number, class N, class Equal>
    static cudaError_t UniqueByKey(void* t, size_t& b, Keys keys, Values values, KeysOut keys_out, ValuesOut values_out, Number number, N n, Equal same,
                                   cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            const auto begins = [&](size_t i) { return i == 0 || !same(keys[i - 1], keys[i]); };
            std::vector<size_t> first;
            for (size_t i = 0; i < size_t(n); ++i)
                if (begins(i)) first.push_back(i);
            for (size_t i = 0; i < first.size(); ++i) keys_out[i] = keys[first[i]], values_out[i] = values[first[i]];
            *number = first.size();
        });
    }
    template <class Keys, class Values, class KeysOut, class ValuesOut, class Number, class N>
    static cudaError_t UniqueByKey(void* t, size_t& b, Keys keys, Values values, KeysOut keys_out, ValuesOut values_out, Number number, N n) {
        return UniqueByKey(t, b, keys, values, keys_out, values_out, number, n, wmmadiag_detail::Same{});
    }
    template <class Keys, class Values, class KeysOut, class ValuesOut, class Number, class N>
    static cudaError_t UniqueByKey(void* t, size_t& b, Keys keys, Values values, KeysOut keys_out, ValuesOut values_out, Number number, N n, cudaStream_t s) {
        return UniqueByKey(t, b, keys, values, keys_out, values_out, number, n, wmmadiag_detail::Same{}, s);
    }
};

struct DeviceRunLengthEncode {
    template <class In, class Unique, class Counts, class Runs, class N>
    static cudaError_t Encode(void* t, size_t& b, In in, Unique unique, Counts counts, Runs runs, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            N run = 0;
            for (N begin = 0, end; begin < n; begin = end, ++run) {
                for (end = begin + 1; end < n && in[end] == in[begin];) ++end;
                unique[run] = in[begin];
                counts[run] = end - begin;
            }
            *runs = run;
        });
    }
    // Of runs of more than one element: where they begin, and how long they are.
    template <class In, class Offsets, class Lengths, class Runs, class N>
    static cudaError_t NonTrivialRuns(void* t, size_t& b, In in, Offsets offsets, Lengths lengths, Runs runs, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            N run = 0;
            for (N begin = 0, end; begin < n; begin = end) {
                for (end = begin + 1; end < n && in[end] == in[begin];) ++end;
                if (end - begin < 2) continue;
                offsets[run] = begin;
                lengths[run++] = end - begin;
            }
            *runs = run;
        });
    }
};

struct DeviceHistogram {
    template <class In, class Counter, class Level, class N>
    static cudaError_t HistogramEven(void* t, size_t& b, In in, Counter* histogram, int levels, Level lower, Level upper, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            std::vector<Counter> made(levels - 1);
            for (N i = 0; i < n; ++i) {
                const auto x = in[i];
                if (x < lower || !(x < upper)) continue;
                if constexpr (std::is_integral_v<Level>) ++made[std::uint64_t(x - lower) * (levels - 1) / std::uint64_t(upper - lower)];
                else ++made[std::min(levels - 2, int((x - lower) * ((levels - 1) / (upper - lower))))];
            }
            std::copy(made.begin(), made.end(), histogram);
        });
    }
    template <class In, class Counter, class Level, class N>
    static cudaError_t HistogramRange(void* t, size_t& b, In in, Counter* histogram, int levels, const Level* bounds, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            std::vector<Counter> made(levels - 1);
            for (N i = 0; i < n; ++i) {
                const auto above = std::upper_bound(bounds, bounds + levels, Level(in[i]));
                if (above != bounds && above != bounds + levels) ++made[above - bounds - 1];
            }
            std::copy(made.begin(), made.end(), histogram);
        });
    }
};

// Memory of the device, given out again from what was freed: here each is an allocation of its own, so that its bounds are known.
struct CachingDeviceAllocator {
    static constexpr unsigned INVALID_BIN = ~0u;
    static constexpr int INVALID_DEVICE_ORDINAL = -1;
    template <class... Any>
    explicit CachingDeviceAllocator(Any...) {}
    template <class T>
    cudaError_t DeviceAllocate(T** pointer, size_t bytes, cudaStream_t = nullptr) {
        return (::cudaMalloc)(reinterpret_cast<void**>(pointer), bytes);
    }
    template <class T>
    cudaError_t DeviceAllocate(int, T** pointer, size_t bytes, cudaStream_t = nullptr) {
        return (::cudaMalloc)(reinterpret_cast<void**>(pointer), bytes);
    }
    cudaError_t DeviceFree(void* pointer) { return (::cudaFree)(pointer); }
    cudaError_t DeviceFree(int, void* pointer) { return (::cudaFree)(pointer); }
    cudaError_t FreeAllCached() { return cudaSuccess; }
    cudaError_t SetMaxCachedBytes(size_t) { return cudaSuccess; }
};

}  // namespace cub
