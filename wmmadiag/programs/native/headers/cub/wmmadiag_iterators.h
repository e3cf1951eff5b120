// CUB's iterators that compute what they show, for host code that hands them to its algorithms.
#pragma once
#include <cstddef>
#include <iterator>
#include <type_traits>

namespace cub {

namespace wmmadiag_detail {

// A place among numbers, and what `Self::at` shows there.
template <class Self, class T, class Difference = std::ptrdiff_t>
struct Shown {
    using self_type = Self;
    using value_type = T;
    using reference = T;
    using pointer = const T*;
    using difference_type = Difference;
    using iterator_category = std::random_access_iterator_tag;

    Difference place = 0;

    template <class N>
    T operator[](N i) const {
        return self().at(place + static_cast<Difference>(i));
    }
    T operator*() const { return self().at(place); }
    Self& operator++() { return moved(1); }
    Self& operator--() { return moved(-1); }
    Self operator++(int) { return after(moved(1), -1); }
    Self operator--(int) { return after(moved(-1), 1); }
    template <class N>
    Self& operator+=(N n) {
        return moved(static_cast<Difference>(n));
    }
    template <class N>
    Self& operator-=(N n) {
        return moved(-static_cast<Difference>(n));
    }
    template <class N>
    Self operator+(N n) const {
        return after(self(), static_cast<Difference>(n));
    }
    template <class N, class = std::enable_if_t<std::is_integral_v<N>>>
    Self operator-(N n) const {
        return after(self(), -static_cast<Difference>(n));
    }
    Difference operator-(const Shown& other) const { return place - other.place; }
    bool operator==(const Shown& other) const { return place == other.place; }
    bool operator!=(const Shown& other) const { return place != other.place; }
    bool operator<(const Shown& other) const { return place < other.place; }

private:
    const Self& self() const { return static_cast<const Self&>(*this); }
    Self& moved(Difference n) {
        place += n;
        return static_cast<Self&>(*this);
    }
    static Self after(Self one, Difference n) {
        one.place += n;
        return one;
    }
};

}  // namespace wmmadiag_detail

template <class Key, class T>
struct KeyValuePair {
    using Key_ = Key;
    Key key;
    T value;
    bool operator==(const KeyValuePair& other) const { return key == other.key && value == other.value; }
    bool operator!=(const KeyValuePair& other) const { return !(*this == other); }
};

template <class T, class Offset = std::ptrdiff_t>
struct CountingInputIterator : wmmadiag_detail::Shown<CountingInputIterator<T, Offset>, T> {
    T first;
    CountingInputIterator(T first) : first(first) {}
    T at(std::ptrdiff_t i) const { return static_cast<T>(first + static_cast<T>(i)); }
};
template <class T, class Offset = std::ptrdiff_t>
struct ConstantInputIterator : wmmadiag_detail::Shown<ConstantInputIterator<T, Offset>, T> {
    T held;
    explicit ConstantInputIterator(T held, Offset = 0) : held(held) {}
    T at(std::ptrdiff_t) const { return held; }
};
template <class T, class Op, class In, class Offset = std::ptrdiff_t>
struct TransformInputIterator : wmmadiag_detail::Shown<TransformInputIterator<T, Op, In, Offset>, T> {
    In in;
    Op op;
    TransformInputIterator(In in, Op op) : in(in), op(op) {}
    T at(std::ptrdiff_t i) const {
        auto call = op;
        return call(in[i]);
    }
};
template <class In, class Offset = std::ptrdiff_t, class T = std::decay_t<decltype(*std::declval<In>())>>
struct ArgIndexInputIterator : wmmadiag_detail::Shown<ArgIndexInputIterator<In, Offset, T>, KeyValuePair<Offset, T>> {
    In in;
    explicit ArgIndexInputIterator(In in) : in(in) {}
    KeyValuePair<Offset, T> at(std::ptrdiff_t i) const { return {static_cast<Offset>(i), in[i]}; }
};

// Takes what it is given, and keeps none of it.
template <class Offset = std::ptrdiff_t>
struct DiscardOutputIterator {
    using value_type = void;
    using reference = void;
    using pointer = void;
    using difference_type = Offset;
    using iterator_category = std::random_access_iterator_tag;
    struct Nothing {
        template <class T>
        const Nothing& operator=(const T&) const {
            return *this;
        }
    };
    Nothing operator*() const { return {}; }
    template <class N>
    Nothing operator[](N) const {
        return {};
    }
    DiscardOutputIterator& operator++() { return *this; }
    DiscardOutputIterator operator++(int) { return *this; }
    template <class N>
    DiscardOutputIterator operator+(N) const {
        return *this;
    }
};

}  // namespace cub
