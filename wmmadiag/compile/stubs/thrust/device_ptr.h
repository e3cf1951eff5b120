// Thrust's pointers to the device's memory, and what its vectors' iterators are, as kernels take them: their own headers are host code, too.
#pragma once
#include <thrust/detail/config.h>

THRUST_NAMESPACE_BEGIN

namespace detail {
template <class T>
struct without_const {
    using type = T;
};
template <class T>
struct without_const<const T> {
    using type = T;
};
// `Derived` is a class that holds a pointer.
template <class Derived, class T>
struct wmmadiag_pointer {
    using value_type = typename without_const<T>::type;
    using element_type = T;
    using difference_type = decltype(static_cast<T*>(nullptr) - static_cast<T*>(nullptr));
    using pointer = Derived;
    using reference = T&;

    T* held;

    __host__ __device__ T* get() const { return held; }
    __host__ __device__ T& operator*() const { return *held; }
    __host__ __device__ T* operator->() const { return held; }
    template <class N>
    __host__ __device__ T& operator[](N i) const { return held[i]; }
    __host__ __device__ explicit operator bool() const { return held != nullptr; }
    __host__ __device__ Derived& operator+=(difference_type n) { held += n; return self(); }
    __host__ __device__ Derived& operator-=(difference_type n) { held -= n; return self(); }
    __host__ __device__ Derived& operator++() { ++held; return self(); }
    __host__ __device__ Derived& operator--() { --held; return self(); }
    __host__ __device__ Derived operator++(int) { Derived old = self(); ++held; return old; }
    __host__ __device__ Derived operator--(int) { Derived old = self(); --held; return old; }
    friend __host__ __device__ Derived operator+(Derived at, difference_type n) { at.held += n; return at; }
    friend __host__ __device__ Derived operator+(difference_type n, Derived at) { at.held += n; return at; }
    friend __host__ __device__ Derived operator-(Derived at, difference_type n) { at.held -= n; return at; }
    friend __host__ __device__ difference_type operator-(const Derived& a, const Derived& b) { return a.held - b.held; }
    friend __host__ __device__ bool operator==(const Derived& a, const Derived& b) { return a.held == b.held; }
    friend __host__ __device__ bool operator!=(const Derived& a, const Derived& b) { return a.held != b.held; }
    friend __host__ __device__ bool operator<(const Derived& a, const Derived& b) { return a.held < b.held; }
    friend __host__ __device__ bool operator>(const Derived& a, const Derived& b) { return a.held > b.held; }
    friend __host__ __device__ bool operator<=(const Derived& a, const Derived& b) { return a.held <= b.held; }
    friend __host__ __device__ bool operator>=(const Derived& a, const Derived& b) { return a.held >= b.held; }

private:
    __host__ __device__ Derived& self() { return static_cast<Derived&>(*this); }
};
}  // namespace detail

template <class T>
struct device_ptr : detail::wmmadiag_pointer<device_ptr<T>, T> {
    using base = detail::wmmadiag_pointer<device_ptr<T>, T>;
    __host__ __device__ device_ptr() : base{nullptr} {}
    __host__ __device__ device_ptr(decltype(nullptr)) : base{nullptr} {}
    template <class U>
    __host__ __device__ explicit device_ptr(U* at) : base{at} {}
    template <class U>
    __host__ __device__ device_ptr(const device_ptr<U>& other) : base{other.held} {}
};

namespace detail {
template <class Pointer>
struct normal_iterator : wmmadiag_pointer<normal_iterator<Pointer>, typename Pointer::element_type> {
    __host__ __device__ Pointer base() const { return Pointer(this->held); }
};
}  // namespace detail

template <class T>
__host__ __device__ void swap(T& a, T& b) {
    T kept = a;
    a = b;
    b = kept;
}

template <class T>
__host__ __device__ T* raw_pointer_cast(T* at) { return at; }
template <class T>
__host__ __device__ T* raw_pointer_cast(const device_ptr<T>& at) { return at.get(); }
template <class T>
__host__ __device__ device_ptr<T> device_pointer_cast(T* at) { return device_ptr<T>(at); }

THRUST_NAMESPACE_END
