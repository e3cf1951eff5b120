#ifndef WMMADIAG_TORCH_H
#define WMMADIAG_TORCH_H
#include <c10/macros/Macros.h>
#include <c10/util/Half.h>
#include <c10/util/BFloat16.h>
// Accessors of tensors, as kernels use them. Members as in ATen/core/TensorAccessor.h: the pointer, N sizes, N strides.
namespace at {
using namespace c10;
template <typename T>
struct DefaultPtrTraits {
    typedef T *PtrType;
};
template <typename T>
struct RestrictPtrTraits {
    typedef T *__restrict__ PtrType;
};

template <typename T, unsigned long N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
class TensorAccessor {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    C10_HOST_DEVICE TensorAccessor(PtrType data, const index_t *sizes, const index_t *strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
    C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_HOST_DEVICE TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
        return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }

private:
    PtrType data_;
    const index_t *sizes_, *strides_;
};
template <typename T, template <typename U> class PtrTraits, typename index_t>
class TensorAccessor<T, 1, PtrTraits, index_t> {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    C10_HOST_DEVICE TensorAccessor(PtrType data, const index_t *sizes, const index_t *strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
    C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_HOST_DEVICE T &operator[](index_t i) const { return data_[strides_[0] * i]; }

private:
    PtrType data_;
    const index_t *sizes_, *strides_;
};

template <typename T, unsigned long N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
class GenericPackedTensorAccessor {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
    C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_DEVICE TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const {
        return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }

private:
    PtrType data_;
    index_t sizes_[N], strides_[N];
};
template <typename T, template <typename U> class PtrTraits, typename index_t>
class GenericPackedTensorAccessor<T, 1, PtrTraits, index_t> {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
    C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_DEVICE T &operator[](index_t i) const { return data_[strides_[0] * i]; }

private:
    PtrType data_;
    index_t sizes_[1], strides_[1];
};

template <typename T, unsigned long N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int>;
template <typename T, unsigned long N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, long>;
// The name before there were two widths.
template <typename T, unsigned long N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, index_t>;
}
namespace torch {
using namespace c10;
using namespace at;
}
#include <ATen/AccumulateType.h>
#include <ATen/OpMathType.h>
#endif
