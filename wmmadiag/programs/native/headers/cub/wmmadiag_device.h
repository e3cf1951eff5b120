// CUB's algorithms for the whole device, one element after another on the host, in the order of their stream, on memory that kernels
// reach, too. Their temporary storage is a byte that nothing uses. What is not here the compiler refuses by its name and line.
#pragma once
#include "wmmadiag_iterators.h"

#include <cuda/std/functional>
#include <cuda/std/tuple>

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
struct Before {
    template <class T, class U>
    bool operator()(const T& a, const U& b) const {
        return a < b;
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

template <class K, class V, class Less>
void merge_sorted(K keys, V values, size_t n, Less less) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return less(keys[a], keys[b]); });
    const std::vector<Value<K>> old(keys, keys + n);
    for (size_t i = 0; i < n; ++i) keys[i] = old[order[i]];
    if constexpr (!std::is_same_v<V, std::nullptr_t>) {
        const std::vector<Value<V>> values_before(values, values + n);
        for (size_t i = 0; i < n; ++i) values[i] = values_before[order[i]];
    }
}

// What is chosen goes to the front, in order; what is not to the back, the last first, if it is kept.
template <class In, class Out, class Number, class Chosen>
void parted(In in, Out out, Number number, size_t n, Chosen chosen, bool keep) {
    std::vector<Value<In>> taken, left;
    for (size_t i = 0; i < n; ++i) {
        if (chosen(i)) taken.push_back(in[i]);
        else if (keep) left.push_back(in[i]);
    }
    *number = taken.size();
    auto at = std::copy(taken.begin(), taken.end(), out);
    std::copy(left.rbegin(), left.rend(), at);
}

// Of each element and the one before it, or behind it; the one that has none stays as it is.
template <class In, class Out, class Op>
void differences(In in, Out out, size_t n, Op op, bool left) {
    using T = std::decay_t<decltype(op(in[0], in[0]))>;
    std::vector<T> made;
    for (size_t i = 0; i < n; ++i) {
        if (left ? i == 0 : i + 1 == n) made.push_back(static_cast<T>(in[i]));
        else made.push_back(op(in[i], in[left ? i - 1 : i + 1]));
    }
    std::copy(made.begin(), made.end(), out);
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

struct DeviceMergeSort {
    template <class K, class N, class Less>
    static cudaError_t SortKeys(void* t, size_t& b, K keys, N n, Less less, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::merge_sorted(keys, nullptr, size_t(n), less); });
    }
    template <class K, class V, class N, class Less>
    static cudaError_t SortPairs(void* t, size_t& b, K keys, V values, N n, Less less, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::merge_sorted(keys, values, size_t(n), less); });
    }
    template <class K, class N, class Less>
    static cudaError_t StableSortKeys(void* t, size_t& b, K keys, N n, Less less, cudaStream_t s = nullptr) {
        return SortKeys(t, b, keys, n, less, s);
    }
    template <class K, class V, class N, class Less>
    static cudaError_t StableSortPairs(void* t, size_t& b, K keys, V values, N n, Less less, cudaStream_t s = nullptr) {
        return SortPairs(t, b, keys, values, n, less, s);
    }
};

struct DeviceSelect {
    template <class In, class Out, class Number, class N, class Op, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t If(void* t, size_t& b, In in, Out out, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return op(in[i]); }, false); });
    }
    template <class In, class Flags, class Out, class Number, class N>
    static cudaError_t Flagged(void* t, size_t& b, In in, Flags flags, Out out, Number number, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return bool(flags[i]); }, false); });
    }
    template <class In, class Out, class Number, class N>
    static cudaError_t Unique(void* t, size_t& b, In in, Out out, Number number, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return i == 0 || !(in[i] == in[i - 1]); }, false);
        });
    }
    template <class Data, class Number, class N, class Op, class = std::enable_if_t<std::is_integral_v<N>>>
    static cudaError_t If(void* t, size_t& b, Data data, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return If(t, b, data, data, number, n, op, s);
    }
    template <class In, class Flags, class Out, class Number, class N, class Op>
    static cudaError_t FlaggedIf(void* t, size_t& b, In in, Flags flags, Out out, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return bool(op(flags[i])); }, false); });
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

struct DevicePartition {
    template <class In, class Out, class Number, class N, class Op>
    static cudaError_t If(void* t, size_t& b, In in, Out out, Number number, N n, Op op, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return op(in[i]); }, true); });
    }
    template <class In, class Flags, class Out, class Number, class N>
    static cudaError_t Flagged(void* t, size_t& b, In in, Flags flags, Out out, Number number, N n, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::parted(in, out, number, size_t(n), [&](size_t i) { return bool(flags[i]); }, true); });
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

struct DeviceSegmentedReduce {
    template <class In, class Out, class N, class Begin, class End>
    static cudaError_t ArgMin(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s = nullptr) {
        return extreme(t, b, in, out, segments, begin, end, s, [](auto first, auto last) { return std::min_element(first, last); });
    }
    template <class In, class Out, class N, class Begin, class End>
    static cudaError_t ArgMax(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s = nullptr) {
        return extreme(t, b, in, out, segments, begin, end, s, [](auto first, auto last) { return std::max_element(first, last); });
    }

    template <class In, class Out, class N, class Begin, class End, class Op, class T>
    static cudaError_t Reduce(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, Op op, T init, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            for (N i = 0; i < segments; ++i) out[i] = begin[i] < end[i] ? wmmadiag_detail::reduced(in, size_t(begin[i]), size_t(end[i]), op, init) : init;
        });
    }
    template <class In, class Out, class N, class Begin, class End>
    static cudaError_t Sum(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s = nullptr) {
        return Reduce(t, b, in, out, segments, begin, end, wmmadiag_detail::Plus{}, wmmadiag_detail::Value<In>{}, s);
    }
    template <class In, class Out, class N, class Begin, class End>
    static cudaError_t Min(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s = nullptr) {
        using Limits = std::numeric_limits<wmmadiag_detail::Value<In>>;
        return Reduce(t, b, in, out, segments, begin, end, wmmadiag_detail::Least{}, Limits::has_infinity ? Limits::infinity() : Limits::max(), s);
    }
    template <class In, class Out, class N, class Begin, class End>
    static cudaError_t Max(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s = nullptr) {
        using T = wmmadiag_detail::Value<In>;
        using Limits = std::numeric_limits<T>;
        return Reduce(t, b, in, out, segments, begin, end, wmmadiag_detail::Greatest{}, Limits::has_infinity ? T(-Limits::infinity()) : Limits::lowest(), s);
    }

private:
    // The place within its segment, and the value; of an empty one CUB leaves no key.
    template <class In, class Out, class N, class Begin, class End, class Find>
    static cudaError_t extreme(void* t, size_t& b, In in, Out out, N segments, Begin begin, End end, cudaStream_t s, Find find) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            for (N i = 0; i < segments; ++i) {
                if (!(begin[i] < end[i])) continue;
                const auto at = find(in + begin[i], in + end[i]);
                out[i] = {decltype(out[i].key)(at - (in + begin[i])), *at};
            }
        });
    }
};

struct DeviceSegmentedRadixSort {
#define WMMADIAG_SORTS(suffix, descending)                                                                                                    \
    template <class K, class N, class Begin, class End>                                                                                       \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, const K* in, K* out, N, std::int64_t segments, Begin begin, End end, int low = 0,  \
                                        int high = 8 * sizeof(K), cudaStream_t s = nullptr) {                                                 \
        return wmmadiag_detail::submit(t, b, s, [=] {                                                                                         \
            for (std::int64_t i = 0; i < segments; ++i)                                                                                       \
                if (begin[i] < end[i])                                                                                                        \
                    wmmadiag_detail::radix_sorted<K, void*>(in + begin[i], out + begin[i], nullptr, nullptr, size_t(end[i] - begin[i]), low,  \
                                                            high, descending);                                                                \
        });                                                                                                                                   \
    }                                                                                                                                         \
    template <class K, class V, class N, class Begin, class End>                                                                              \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, const K* in, K* out, const V* values_in, V* values_out, N, std::int64_t segments, \
                                         Begin begin, End end, int low = 0, int high = 8 * sizeof(K), cudaStream_t s = nullptr) {             \
        return wmmadiag_detail::submit(t, b, s, [=] {                                                                                         \
            for (std::int64_t i = 0; i < segments; ++i)                                                                                       \
                if (begin[i] < end[i])                                                                                                        \
                    wmmadiag_detail::radix_sorted<K, V>(in + begin[i], out + begin[i], values_in + begin[i], values_out + begin[i],           \
                                                        size_t(end[i] - begin[i]), low, high, descending);                                    \
        });                                                                                                                                   \
    }                                                                                                                                         \
    template <class K, class N, class Begin, class End>                                                                                       \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, N n, std::int64_t segments, Begin begin, End end,           \
                                        int low = 0, int high = 8 * sizeof(K), cudaStream_t s = nullptr) {                                    \
        const auto status =                                                                                                                   \
            SortKeys##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(), n, segments, begin, end, low, high, s);             \
        if (t != nullptr) keys.selector ^= 1;                                                                                                 \
        return status;                                                                                                                        \
    }                                                                                                                                         \
    template <class K, class V, class N, class Begin, class End>                                                                              \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, std::int64_t segments,       \
                                         Begin begin, End end, int low = 0, int high = 8 * sizeof(K), cudaStream_t s = nullptr) {             \
        const auto status = SortPairs##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(),                                   \
                                              const_cast<const V*>(values.Current()), values.Alternate(), n, segments, begin, end, low, high, s); \
        if (t != nullptr) keys.selector ^= 1, values.selector ^= 1;                                                                           \
        return status;                                                                                                                        \
    }
    WMMADIAG_SORTS(, false)
    WMMADIAG_SORTS(Descending, true)
#undef WMMADIAG_SORTS
};

// The same by comparisons: all bits count, and equal keys keep their order.
struct DeviceSegmentedSort {
#define WMMADIAG_SORTS(name)                                                                                                        \
    template <class K, class N, class Begin, class End>                                                                             \
    static cudaError_t name(void* t, size_t& b, const K* in, K* out, N n, std::int64_t segments, Begin begin, End end,               \
                            cudaStream_t s = nullptr) {                                                                             \
        return DeviceSegmentedRadixSort::WMMADIAG_AS_##name(t, b, in, out, n, segments, begin, end, 0, 8 * sizeof(K), s);           \
    }                                                                                                                               \
    template <class K, class N, class Begin, class End>                                                                             \
    static cudaError_t name(void* t, size_t& b, DoubleBuffer<K>& keys, N n, std::int64_t segments, Begin begin, End end,             \
                            cudaStream_t s = nullptr) {                                                                             \
        return DeviceSegmentedRadixSort::WMMADIAG_AS_##name(t, b, keys, n, segments, begin, end, 0, 8 * sizeof(K), s);              \
    }
#define WMMADIAG_SORTS_PAIRS(name)                                                                                                  \
    template <class K, class V, class N, class Begin, class End>                                                                    \
    static cudaError_t name(void* t, size_t& b, const K* in, K* out, const V* values_in, V* values_out, N n, std::int64_t segments,  \
                            Begin begin, End end, cudaStream_t s = nullptr) {                                                       \
        return DeviceSegmentedRadixSort::WMMADIAG_AS_##name(t, b, in, out, values_in, values_out, n, segments, begin, end, 0,       \
                                                            8 * sizeof(K), s);                                                      \
    }                                                                                                                               \
    template <class K, class V, class N, class Begin, class End>                                                                    \
    static cudaError_t name(void* t, size_t& b, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, std::int64_t segments,          \
                            Begin begin, End end, cudaStream_t s = nullptr) {                                                       \
        return DeviceSegmentedRadixSort::WMMADIAG_AS_##name(t, b, keys, values, n, segments, begin, end, 0, 8 * sizeof(K), s);      \
    }
#define WMMADIAG_AS_SortKeys SortKeys
#define WMMADIAG_AS_StableSortKeys SortKeys
#define WMMADIAG_AS_SortKeysDescending SortKeysDescending
#define WMMADIAG_AS_StableSortKeysDescending SortKeysDescending
#define WMMADIAG_AS_SortPairs SortPairs
#define WMMADIAG_AS_StableSortPairs SortPairs
#define WMMADIAG_AS_SortPairsDescending SortPairsDescending
#define WMMADIAG_AS_StableSortPairsDescending SortPairsDescending
    WMMADIAG_SORTS(SortKeys)
    WMMADIAG_SORTS(StableSortKeys)
    WMMADIAG_SORTS(SortKeysDescending)
    WMMADIAG_SORTS(StableSortKeysDescending)
    WMMADIAG_SORTS_PAIRS(SortPairs)
    WMMADIAG_SORTS_PAIRS(StableSortPairs)
    WMMADIAG_SORTS_PAIRS(SortPairsDescending)
    WMMADIAG_SORTS_PAIRS(StableSortPairsDescending)
#undef WMMADIAG_SORTS
#undef WMMADIAG_SORTS_PAIRS
};

struct DeviceAdjacentDifference {
    template <class In, class Out, class N, class Op = wmmadiag_detail::Minus>
    static cudaError_t SubtractLeftCopy(void* t, size_t& b, In in, Out out, N n, Op op = {}, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::differences(in, out, size_t(n), op, true); });
    }
    template <class In, class Out, class N, class Op = wmmadiag_detail::Minus>
    static cudaError_t SubtractRightCopy(void* t, size_t& b, In in, Out out, N n, Op op = {}, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::differences(in, out, size_t(n), op, false); });
    }
    template <class Data, class N, class Op = wmmadiag_detail::Minus>
    static cudaError_t SubtractLeft(void* t, size_t& b, Data data, N n, Op op = {}, cudaStream_t s = nullptr) {
        return SubtractLeftCopy(t, b, data, data, n, op, s);
    }
    template <class Data, class N, class Op = wmmadiag_detail::Minus>
    static cudaError_t SubtractRight(void* t, size_t& b, Data data, N n, Op op = {}, cudaStream_t s = nullptr) {
        return SubtractRightCopy(t, b, data, data, n, op, s);
    }
};

struct DeviceMerge {
    template <class A, class B, class Out, class Less = wmmadiag_detail::Before>
    static cudaError_t MergeKeys(void* t, size_t& b, A first, std::int64_t n, B second, std::int64_t m, Out out, Less less = {}, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] { std::merge(first, first + n, second, second + m, out, less); });
    }
    template <class A, class V, class B, class W, class Out, class ValuesOut, class Less = wmmadiag_detail::Before>
    static cudaError_t MergePairs(void* t, size_t& b, A first, V values, std::int64_t n, B second, W others, std::int64_t m, Out out, ValuesOut values_out,
                                  Less less = {}, cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            for (std::int64_t i = 0, j = 0, at = 0; at < n + m; ++at) {
                const bool right = i == n || (j < m && less(second[j], first[i]));
                if (right) out[at] = second[j], values_out[at] = others[j++];
                else out[at] = first[i], values_out[at] = values[i++];
            }
        });
    }
};

// Without storage of their own, as newer algorithms are; with it, too.
struct DeviceFor {
    template <class N, class Op>
    static cudaError_t Bulk(N n, Op op, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            auto call = op;
            for (N i = 0; i < n; ++i) call(i);
        });
    }
    template <class In, class N, class Op>
    static cudaError_t ForEachN(In in, N n, Op op, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            auto call = op;
            for (N i = 0; i < n; ++i) call(in[i]);
        });
    }
    template <class In, class Op>
    static cudaError_t ForEach(In begin, In end, Op op, cudaStream_t s = nullptr) {
        return ForEachN(begin, end - begin, op, s);
    }
};
struct DeviceTransform {
    template <class In, class Out, class N, class Op>
    static cudaError_t Transform(In in, Out out, N n, Op op, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            auto call = op;
            for (N i = 0; i < n; ++i) out[i] = call(in[i]);
        });
    }
    template <class... In, class Out, class N, class Op>
    static cudaError_t Transform(cuda::std::tuple<In...> in, Out out, N n, Op op, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            auto call = op;
            for (N i = 0; i < n; ++i) out[i] = cuda::std::apply([&](const auto&... one) { return call(one[i]...); }, in);
        });
    }
    template <class Out, class N, class Make>
    static cudaError_t Generate(Out out, N n, Make make, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            auto call = make;
            for (N i = 0; i < n; ++i) out[i] = call();
        });
    }
    template <class Out, class N, class T>
    static cudaError_t Fill(Out out, N n, T value, cudaStream_t s = nullptr) {
        size_t bytes = 0;
        return wmmadiag_detail::submit(&bytes, bytes, s, [=] {
            for (N i = 0; i < n; ++i) out[i] = value;
        });
    }
};

// y = A x, A by compressed rows.
struct DeviceSpmv {
    template <class T>
    static cudaError_t CsrMV(void* t, size_t& b, const T* values, const int* rows, const int* columns, const T* x, T* y, int count, int, int,
                             cudaStream_t s = nullptr) {
        return wmmadiag_detail::submit(t, b, s, [=] {
            for (int row = 0; row < count; ++row) {
                const auto get = [&](size_t i) -> T { return values[i] * x[columns[i]]; };
                const auto begin = size_t(rows[row]), end = size_t(rows[row + 1]);
                y[row] = begin < end ? wmmadiag_detail::halves<T>(get, begin, end, wmmadiag_detail::Plus{}) : T(0);
            }
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
