// CUB's algorithms for the whole device, one element after another on the host, in the order of their stream, on memory that kernels
// reach, too. Their temporary storage is a byte that nothing uses. What is not here the compiler refuses by its name and line.
#pragma once
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

template <class In, class Out, class Op, class T>
void scanned(In in, Out out, Op op, T init, bool given, bool inclusive, size_t n) {
    std::vector<std::decay_t<T>> made;
    T sum = init;
    for (size_t i = 0; i < n; ++i) {
        const auto value = static_cast<T>(in[i]);
        const T before = sum;
        sum = i == 0 && !given ? value : static_cast<T>(op(before, value));
        made.push_back(inclusive ? sum : before);
    }
    std::copy(made.begin(), made.end(), out);
}

// A key as bits that order as it does.
template <class K>
auto ordered(K key) {
    using Bits =
        std::conditional_t<sizeof(K) == 1, std::uint8_t,
                           std::conditional_t<sizeof(K) == 2, std::uint16_t, std::conditional_t<sizeof(K) == 4, std::uint32_t, std::uint64_t>>>;
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

private:
    template <class U, class In, class Out, class Op, class N>
    static cudaError_t scan(void* t, size_t& b, In in, Out out, Op op, U init, bool given, bool inclusive, N n, cudaStream_t s) {
        return wmmadiag_detail::submit(t, b, s, [=] { wmmadiag_detail::scanned(in, out, op, init, given, inclusive, size_t(n)); });
    }
};

struct DeviceRadixSort {
#define WMMADIAG_SORTS(suffix, descending)                                                                                                          \
    template <class K, class N>                                                                                                                     \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, const K* in, K* out, N n, int begin = 0, int end = 8 * sizeof(K),                       \
                                        cudaStream_t s = nullptr) {                                                                                 \
        return wmmadiag_detail::submit(                                                                                                             \
            t, b, s, [=] { wmmadiag_detail::radix_sorted<K, void*>(in, out, nullptr, nullptr, size_t(n), begin, end, descending); });               \
    }                                                                                                                                               \
    template <class K, class V, class N>                                                                                                            \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, const K* in, K* out, const V* values_in, V* values_out, N n, int begin = 0,            \
                                         int end = 8 * sizeof(K), cudaStream_t s = nullptr) {                                                       \
        return wmmadiag_detail::submit(                                                                                                             \
            t, b, s, [=] { wmmadiag_detail::radix_sorted<K, V>(in, out, values_in, values_out, size_t(n), begin, end, descending); });              \
    }                                                                                                                                               \
    template <class K, class N>                                                                                                                     \
    static cudaError_t SortKeys##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, N n, int begin = 0, int end = 8 * sizeof(K),                     \
                                        cudaStream_t s = nullptr) {                                                                                 \
        const auto status = SortKeys##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(), n, begin, end, s);                       \
        if (t != nullptr) keys.selector ^= 1;                                                                                                       \
        return status;                                                                                                                              \
    }                                                                                                                                               \
    template <class K, class V, class N>                                                                                                            \
    static cudaError_t SortPairs##suffix(void* t, size_t& b, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, int begin = 0,                    \
                                         int end = 8 * sizeof(K), cudaStream_t s = nullptr) {                                                       \
        const auto status = SortPairs##suffix(t, b, const_cast<const K*>(keys.Current()), keys.Alternate(), const_cast<const V*>(values.Current()), \
                                              values.Alternate(), n, begin, end, s);                                                                \
        if (t != nullptr) keys.selector ^= 1, values.selector ^= 1;                                                                                 \
        return status;                                                                                                                              \
    }
    WMMADIAG_SORTS(, false)
    WMMADIAG_SORTS(Descending, true)
#undef WMMADIAG_SORTS
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
};

}  // namespace cub
