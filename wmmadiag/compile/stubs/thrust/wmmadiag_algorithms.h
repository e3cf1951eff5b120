// Thrust's algorithms as kernels call them (`thrust::seq`): one thread, element after element.
#pragma once
#include <thrust/detail/seq.h>
#include <thrust/device_ptr.h>
#include <thrust/functional.h>
#include <thrust/pair.h>

THRUST_NAMESPACE_BEGIN

using wmmadiag_policy = detail::seq_t;
_CCCL_GLOBAL_CONSTANT wmmadiag_policy device, host;

namespace detail {
template <class I>
using value_at = ::cuda::std::remove_cv_t<::cuda::std::remove_reference_t<decltype(*I())>>;
template <class T>
__device__ void exchange(T&& a, T&& b) {
    auto kept = a;
    a = b;
    b = kept;
}
struct no_values {
    __device__ void exchange(long, long) const {}
};
template <class V>
struct values {
    V at;
    __device__ void exchange(long i, long k) const { detail::exchange(at[i], at[k]); }
};
// By a heap, as long as there are many; what `V` holds goes along.
template <class I, class V, class C>
__device__ void heap_sort(I at, V with, long n, C less) {
    for (long end = n, begin = n / 2; end > 1;) {
        if (begin > 0) --begin;
        else {
            --end;
            exchange(at[0], at[end]);
            with.exchange(0, end);
        }
        for (long root = begin, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && less(at[child], at[child + 1])) ++child;
            if (!less(at[root], at[child])) break;
            exchange(at[root], at[child]);
            with.exchange(root, child);
        }
    }
}
template <class I, class V, class C>
__device__ void insertion_sort(I at, V with, long n, C less) {
    for (long i = 1; i < n; ++i)
        for (long k = i; k > 0 && less(at[k], at[k - 1]); --k) {
            exchange(at[k], at[k - 1]);
            with.exchange(k, k - 1);
        }
}
}  // namespace detail

#define WMMADIAG_SORT(name, how)                                                      \
    template <class I, class C = less<>>                                                         \
    __device__ void name(I first, I last, C c = C()) { detail::how(first, detail::no_values{}, last - first, c); } \
    template <class I, class C = less<>>                                                         \
    __device__ void name(const wmmadiag_policy&, I first, I last, C c = C()) { name(first, last, c); }  \
    template <class I, class V, class C = less<>>                                                \
    __device__ void name##_by_key(I first, I last, V with, C c = C()) { detail::how(first, detail::values<V>{with}, last - first, c); } \
    template <class I, class V, class C = less<>>                                                \
    __device__ void name##_by_key(const wmmadiag_policy&, I first, I last, V with, C c = C()) { name##_by_key(first, last, with, c); }
WMMADIAG_SORT(sort, heap_sort)
WMMADIAG_SORT(stable_sort, insertion_sort)
#undef WMMADIAG_SORT

// Each algorithm, and the same behind a policy.
#define WMMADIAG_BOTH(name)                                                                      \
    template <class... A>                                                                        \
    __device__ auto name(const wmmadiag_policy&, A... a) { return name(a...); }

template <class I, class T, class F = plus<>>
__device__ T reduce(I first, I last, T sum, F f = F()) {
    for (; first != last; ++first) sum = f(sum, *first);
    return sum;
}
template <class I>
__device__ auto reduce(I first, I last) { return reduce(first, last, detail::value_at<I>()); }
template <class I, class U, class T, class F>
__device__ T transform_reduce(I first, I last, U u, T sum, F f) {
    for (; first != last; ++first) sum = f(sum, u(*first));
    return sum;
}
template <class I, class K, class T>
__device__ T inner_product(I first, I last, K other, T sum) {
    for (; first != last; ++first, ++other) sum = sum + *first * *other;
    return sum;
}
template <class I, class O>
__device__ O copy(I first, I last, O to) {
    for (; first != last; ++first, ++to) *to = *first;
    return to;
}
template <class I, class N, class O>
__device__ O copy_n(I first, N n, O to) {
    for (; n > 0; --n, ++first, ++to) *to = *first;
    return to;
}
template <class I, class O, class P>
__device__ O copy_if(I first, I last, O to, P p) {
    for (; first != last; ++first)
        if (p(*first)) *to = *first, ++to;
    return to;
}
template <class I, class T>
__device__ void fill(I first, I last, const T& value) {
    for (; first != last; ++first) *first = value;
}
template <class I, class N, class T>
__device__ I fill_n(I first, N n, const T& value) {
    for (; n > 0; --n, ++first) *first = value;
    return first;
}
template <class I, class T = detail::value_at<I>>
__device__ void sequence(I first, I last, T value = T(), T step = T(1)) {
    for (; first != last; ++first, value = value + step) *first = value;
}
template <class I, class F>
__device__ I for_each(I first, I last, F f) {
    for (; first != last; ++first) f(*first);
    return first;
}
template <class I, class N, class F>
__device__ I for_each_n(I first, N n, F f) {
    for (; n > 0; --n, ++first) f(*first);
    return first;
}
template <class I, class O, class F>
__device__ O transform(I first, I last, O to, F f) {
    for (; first != last; ++first, ++to) *to = f(*first);
    return to;
}
template <class I, class K, class O, class F>
__device__ O transform(I first, I last, K other, O to, F f) {
    for (; first != last; ++first, ++other, ++to) *to = f(*first, *other);
    return to;
}
template <class I, class O, class F = plus<>>
__device__ O inclusive_scan(I first, I last, O to, F f = F()) {
    if (first == last) return to;
    auto sum = static_cast<detail::value_at<I>>(*first);
    *to = sum;
    for (++first, ++to; first != last; ++first, ++to) *to = sum = f(sum, *first);
    return to;
}
template <class I, class O, class T, class F = plus<>>
__device__ O exclusive_scan(I first, I last, O to, T sum, F f = F()) {
    for (; first != last; ++first, ++to) {
        const T next = f(sum, *first);
        *to = sum;
        sum = next;
    }
    return to;
}
template <class I, class O>
__device__ O exclusive_scan(I first, I last, O to) { return exclusive_scan(first, last, to, detail::value_at<I>()); }
template <class I, class P>
__device__ I find_if(I first, I last, P p) {
    for (; first != last; ++first)
        if (p(*first)) break;
    return first;
}
template <class I, class T>
__device__ I find(I first, I last, const T& value) {
    for (; first != last; ++first)
        if (*first == value) break;
    return first;
}
template <class I, class P>
__device__ long count_if(I first, I last, P p) {
    long n = 0;
    for (; first != last; ++first) n += p(*first) ? 1 : 0;
    return n;
}
template <class I, class T>
__device__ long count(I first, I last, const T& value) {
    long n = 0;
    for (; first != last; ++first) n += *first == value ? 1 : 0;
    return n;
}
template <class I, class P>
__device__ bool any_of(I first, I last, P p) { return find_if(first, last, p) != last; }
template <class I, class P>
__device__ bool all_of(I first, I last, P p) { return count_if(first, last, p) == last - first; }
template <class I, class P>
__device__ bool none_of(I first, I last, P p) { return !any_of(first, last, p); }
template <class I, class C = less<>>
__device__ I min_element(I first, I last, C c = C()) {
    I best = first;
    for (; first != last; ++first)
        if (c(*first, *best)) best = first;
    return best;
}
template <class I, class C = less<>>
__device__ I max_element(I first, I last, C c = C()) {
    I best = first;
    for (; first != last; ++first)
        if (c(*best, *first)) best = first;
    return best;
}
template <class I, class T, class C = less<>>
__device__ I lower_bound(I first, I last, const T& value, C c = C()) {
    for (auto n = last - first; n > 0;) {
        const auto half = n / 2;
        if (c(first[half], value)) first = first + half + 1, n -= half + 1;
        else n = half;
    }
    return first;
}
template <class I, class T, class C = less<>>
__device__ I upper_bound(I first, I last, const T& value, C c = C()) {
    for (auto n = last - first; n > 0;) {
        const auto half = n / 2;
        if (!c(value, first[half])) first = first + half + 1, n -= half + 1;
        else n = half;
    }
    return first;
}
template <class I, class T, class C = less<>>
__device__ bool binary_search(I first, I last, const T& value, C c = C()) {
    const I at = lower_bound(first, last, value, c);
    return at != last && !c(value, *at);
}
template <class I>
__device__ void reverse(I first, I last) {
    for (auto n = last - first, i = n - n; i < n / 2; ++i) detail::exchange(first[i], first[n - 1 - i]);
}
template <class I>
__device__ I unique(I first, I last) {
    if (first == last) return last;
    I to = first;
    for (++first; first != last; ++first)
        if (!(*to == *first)) *++to = *first;
    return ++to;
}
template <class I, class P>
__device__ I remove_if(I first, I last, P p) {
    I to = first;
    for (; first != last; ++first)
        if (!p(*first)) *to = *first, ++to;
    return to;
}
template <class I, class K>
__device__ bool equal(I first, I last, K other) {
    for (; first != last; ++first, ++other)
        if (!(*first == *other)) return false;
    return true;
}
template <class I, class C = less<>>
__device__ bool is_sorted(I first, I last, C c = C()) {
    if (first == last) return true;
    for (I next = first; ++next != last; ++first)
        if (c(*next, *first)) return false;
    return true;
}
WMMADIAG_BOTH(reduce)
WMMADIAG_BOTH(transform_reduce)
WMMADIAG_BOTH(inner_product)
WMMADIAG_BOTH(copy)
WMMADIAG_BOTH(copy_n)
WMMADIAG_BOTH(copy_if)
WMMADIAG_BOTH(fill)
WMMADIAG_BOTH(fill_n)
WMMADIAG_BOTH(sequence)
WMMADIAG_BOTH(for_each)
WMMADIAG_BOTH(for_each_n)
WMMADIAG_BOTH(transform)
WMMADIAG_BOTH(inclusive_scan)
WMMADIAG_BOTH(exclusive_scan)
WMMADIAG_BOTH(find_if)
WMMADIAG_BOTH(find)
WMMADIAG_BOTH(count_if)
WMMADIAG_BOTH(count)
WMMADIAG_BOTH(any_of)
WMMADIAG_BOTH(all_of)
WMMADIAG_BOTH(none_of)
WMMADIAG_BOTH(min_element)
WMMADIAG_BOTH(max_element)
WMMADIAG_BOTH(lower_bound)
WMMADIAG_BOTH(upper_bound)
WMMADIAG_BOTH(binary_search)
WMMADIAG_BOTH(reverse)
WMMADIAG_BOTH(unique)
WMMADIAG_BOTH(remove_if)
WMMADIAG_BOTH(equal)
WMMADIAG_BOTH(is_sorted)
#undef WMMADIAG_BOTH

THRUST_NAMESPACE_END
