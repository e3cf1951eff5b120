// Plans of cuFFT: how their arrays lie, and the transforms along each dimension.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cufft.h"
#include "elements.hpp"
#include "fft.hpp"

namespace wmmadiag::fft {

using namespace libraries;

using Size = long long;

/// How the elements of a batch lie: those of the last dimension at a stride, rows as wide as `embed` says, transforms at a distance.
struct Layout {
    std::vector<Size> embed;
    Size stride, distance;
};

struct Plan {
    cufftType type = CUFFT_C2C;
    std::vector<Size> n;
    Size batch = 0;
    bool packed = false;  // both sides lie as cuFFT's basic layout has it
    Layout in, out;
    std::vector<std::shared_ptr<const Transform>> along;  // by dimension
    cudaStream_t stream = nullptr;
    bool made = false, allocates = true;
    void* work = nullptr;
    size_t work_bytes = 0;

    bool real_in() const { return type == CUFFT_R2C || type == CUFFT_D2Z; }
    bool real_out() const { return type == CUFFT_C2R || type == CUFFT_Z2D; }
    bool wide() const { return type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D; }
    cudaDataType complex_type() const { return wide() ? CUDA_C_64F : CUDA_C_32F; }
    cudaDataType real_type() const { return wide() ? CUDA_R_64F : CUDA_R_32F; }
    Size last() const { return n.back(); }
    Size half() const { return last() / 2 + 1; }
};

inline std::map<cufftHandle, std::shared_ptr<Plan>>& plans() {
    static auto* all = new std::map<cufftHandle, std::shared_ptr<Plan>>;
    return *all;
}
inline std::shared_ptr<Plan> plan_of(cufftHandle handle) {
    const auto found = plans().find(handle);
    return found != plans().end() ? found->second : nullptr;
}

inline cufftResult refused(const char* function, const std::string& why, cufftResult result, const char* name) {
    report("library", result == CUFFT_NOT_SUPPORTED ? "unsupported" : "invalid-value", "warning", std::string(function) + ": " + why,
           std::string("the call returns ") + name + " and does nothing");
    return result;
}
#define WMMADIAG_REFUSED(function, why, result) refused(function, why, result, #result)

inline Size product(const std::vector<Size>& sizes) {
    Size all = 1;
    for (const auto one : sizes) all *= one;
    return all;
}

// Rows that lie one behind the other: of the basic layout, `width` elements each.
inline Layout dense(const std::vector<Size>& n, Size width) {
    Layout layout{n, 1, width};
    layout.embed.back() = width;
    layout.distance = product(layout.embed);
    return layout;
}

inline size_t work_of(const std::vector<Size>& n, Size batch, bool wide) {
    return static_cast<size_t>(product(n)) * static_cast<size_t>(batch) * (wide ? 16 : 8);
}

inline bool known(cufftType type) {
    for (const auto one : {CUFFT_C2C, CUFFT_R2C, CUFFT_C2R, CUFFT_Z2Z, CUFFT_D2Z, CUFFT_Z2D})
        if (type == one) return true;
    return false;
}

inline cufftResult make(Caller caller, cufftHandle handle, std::vector<Size> n, const Size* inembed, Size istride, Size idist, const Size* onembed,
                        Size ostride, Size odist, cufftType type, Size batch, size_t* work) {
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    const auto plan = plan_of(handle);
    if (plan == nullptr || plan->made) return WMMADIAG_REFUSED(caller.function, "the plan was not created, or is made already", CUFFT_INVALID_PLAN);
    if (n.empty() || n.size() > 3)
        return WMMADIAG_REFUSED(caller.function, "rank is " + std::to_string(n.size()) + ", not 1 to 3", CUFFT_INVALID_VALUE);
    if (!known(type)) return WMMADIAG_REFUSED(caller.function, "there is no cufftType " + std::to_string(type), CUFFT_INVALID_TYPE);
    for (const auto one : n)
        if (one < 1) return WMMADIAG_REFUSED(caller.function, "a size is " + std::to_string(one) + ", not 1 or more", CUFFT_INVALID_SIZE);
    if (batch < 1) return WMMADIAG_REFUSED(caller.function, "batch is " + std::to_string(batch) + ", not 1 or more", CUFFT_INVALID_SIZE);
    plan->type = type;
    plan->n = n;
    plan->batch = batch;
    plan->packed = inembed == nullptr || onembed == nullptr;  // then strides and distances count for nothing
    if (!plan->packed) {
        const auto rank = static_cast<std::ptrdiff_t>(n.size());
        plan->in = {{inembed, inembed + rank}, istride, idist};
        plan->out = {{onembed, onembed + rank}, ostride, odist};
        for (const auto& [layout, name, width] : {std::tuple{&plan->in, "in", plan->real_out() ? plan->half() : plan->last()},
                                                  std::tuple{&plan->out, "out", plan->real_in() ? plan->half() : plan->last()}}) {
            if (layout->stride < 1)
                return WMMADIAG_REFUSED(caller.function, std::string(name) + "put's stride is not 1 or more", CUFFT_INVALID_VALUE);
            for (size_t i = 1; i < n.size(); ++i)
                if (layout->embed[i] < (i + 1 == n.size() ? width : n[i]))
                    return WMMADIAG_REFUSED(caller.function,
                                            std::string(name) + "put's rows of " + std::to_string(layout->embed[i]) + " elements are too short for " +
                                                std::to_string(i + 1 == n.size() ? width : n[i]),
                                            CUFFT_INVALID_SIZE);
        }
    }
    std::map<Size, std::shared_ptr<const Transform>> made;
    plan->along.clear();
    for (const auto one : n) {
        auto& transform = made[one];
        if (transform == nullptr) transform = std::make_shared<Transform>(static_cast<size_t>(one));
        plan->along.push_back(transform);
    }
    plan->work_bytes = work_of(n, batch, plan->wide());
    plan->made = true;
    if (work != nullptr) *work = plan->work_bytes;
    return CUFFT_SUCCESS;
}

/// The stretches of memory that a side of a transform touches, row by row; many at once where they are equally far apart.
inline std::vector<Lines> lines_of(const Plan& plan, const Layout& layout, const void* data, cudaDataType type, Size width) {
    const auto size = static_cast<Size>(element_size(type));
    const auto* base = static_cast<const char*>(data);
    const auto count = [](Size value) { return static_cast<size_t>(value); };
    const Size rank = static_cast<Size>(plan.n.size());
    const Size row = layout.embed.back() * layout.stride;               // from one row to the next
    const Size rows = rank == 1 ? 1 : plan.n[count(rank - 2)];          // of one plane
    const Size plane = rank == 3 ? layout.embed[1] * row : rows * row;  // from one plane to the next
    const Size planes = rank == 3 ? plan.n[0] : 1;
    const bool even = layout.stride == 1 && (rank == 1 || (rank == 2 || plane == rows * row)) &&
                      (plan.batch == 1 || (rank == 1 ? layout.distance >= width : layout.distance == planes * rows * row));
    if (even) {
        const Size pitch = rank == 1 ? (plan.batch == 1 ? width : layout.distance) : row;
        return {{base, type, count(width), count(planes * rows * plan.batch), count(pitch)}};
    }
    std::vector<Lines> all;
    for (Size b = 0; b < plan.batch; ++b)
        for (Size z = 0; z < planes; ++z)
            for (Size y = 0; y < rows; ++y) {
                const auto* begin = base + (b * layout.distance + z * plane + y * row) * size;
                if (layout.stride == 1) all.push_back({begin, type, count(width), 1, count(width)});
                else all.push_back({begin, type, 1, count(width), count(layout.stride)});
            }
    return all;
}

/// Columns of a matrix as transforms: `batch` of them side by side; read by rows, and turned.
inline bool columns(const Plan& plan, const Layout& layout) {
    return plan.n.size() == 1 && plan.batch > 1 && layout.distance == 1 && layout.stride >= plan.batch;
}

template <class S>
std::vector<S> gather(const char* what, const Plan& plan, const Layout& layout, const void* data, cudaDataType type, Size width) {
    std::vector<S> all;
    const auto batch = static_cast<size_t>(plan.batch), length = static_cast<size_t>(width);
    if (columns(plan, layout)) {
        const auto turned = fetch<S>(what, {data, type, batch, length, static_cast<size_t>(layout.stride)});
        all.resize(turned.size());
        for (size_t i = 0; i < length; ++i)
            for (size_t b = 0; b < batch; ++b) all[b * length + i] = turned[i * batch + b];
        return all;
    }
    for (const auto& one : lines_of(plan, layout, data, type, width)) {
        const auto part = fetch<S>(what, one);
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

template <class S>
void scatter(const char* what, const Plan& plan, const Layout& layout, void* data, cudaDataType type, Size width, const std::vector<S>& values) {
    const auto batch = static_cast<size_t>(plan.batch), length = static_cast<size_t>(width);
    if (columns(plan, layout)) {
        std::vector<S> turned(values.size());
        for (size_t i = 0; i < length; ++i)
            for (size_t b = 0; b < batch; ++b) turned[i * batch + b] = values[b * length + i];
        return put<S>(what, {data, type, batch, length, static_cast<size_t>(layout.stride)}, turned);
    }
    size_t done = 0;
    for (const auto& one : lines_of(plan, layout, data, type, width)) {
        const auto count = one.length * one.lines;
        put<S>(what, one, {values.begin() + static_cast<std::ptrdiff_t>(done), values.begin() + static_cast<std::ptrdiff_t>(done + count)});
        done += count;
    }
}

/// All transforms along a dimension, of arrays whose last dimension has `width` elements.
inline void turn(const Plan& plan, std::vector<Complex>& x, size_t dimension, Size width, bool inverse) {
    const auto& transform = *plan.along[dimension];
    const size_t n = transform.size();
    size_t inner = 1;  // from one element of the dimension to the next
    for (size_t i = dimension + 1; i < plan.n.size(); ++i) inner *= static_cast<size_t>(i + 1 == plan.n.size() ? width : plan.n[i]);
    if (n == 1) return;
    std::vector<Complex> line(n);
    for (size_t begin = 0; begin < x.size(); begin += n * inner)
        for (size_t i = 0; i < inner; ++i) {
            if (inner == 1) {
                transform(x.data() + begin, inverse);
                continue;
            }
            for (size_t j = 0; j < n; ++j) line[j] = x[begin + j * inner + i];
            transform(line.data(), inverse);
            for (size_t j = 0; j < n; ++j) x[begin + j * inner + i] = line[j];
        }
}

inline void execute(const char* what, const Plan& plan, const void* in, void* out, bool inverse) {
    const bool in_place = in == out;
    const Size n = plan.last(), half = plan.half();
    const size_t rank = plan.n.size();
    const Layout from = !plan.packed ? plan.in : dense(plan.n, plan.real_in() ? (in_place ? 2 * half : n) : plan.real_out() ? half : n);
    const Layout to = !plan.packed ? plan.out : dense(plan.n, plan.real_out() ? (in_place ? 2 * half : n) : plan.real_in() ? half : n);
    const auto length = static_cast<size_t>(n), stored = static_cast<size_t>(half);
    if (plan.real_in()) {
        const auto given = gather<double>(what, plan, from, in, plan.real_type(), n);
        std::vector<Complex> x(given.size() / length * stored), line(length);
        for (size_t row = 0; row < given.size() / length; ++row) {
            for (size_t j = 0; j < length; ++j) line[j] = given[row * length + j];
            (*plan.along.back())(line.data(), false);
            for (size_t j = 0; j < stored; ++j) x[row * stored + j] = line[j];
        }
        for (size_t dimension = 0; dimension + 1 < rank; ++dimension) turn(plan, x, dimension, half, false);
        return scatter(what, plan, to, out, plan.complex_type(), half, x);
    }
    if (plan.real_out()) {
        auto x = gather<Complex>(what, plan, from, in, plan.complex_type(), half);
        for (size_t dimension = 0; dimension + 1 < rank; ++dimension) turn(plan, x, dimension, half, true);
        std::vector<double> made(x.size() / stored * length);
        std::vector<Complex> line(length);
        for (size_t row = 0; row < x.size() / stored; ++row) {
            // The other half is the mirror image; what that cannot be of the first and middle number counts for nothing.
            for (size_t j = 0; j < length; ++j) line[j] = j < stored ? x[row * stored + j] : std::conj(x[row * stored + length - j]);
            line[0] = line[0].real();
            if (length % 2 == 0) line[length / 2] = line[length / 2].real();
            (*plan.along.back())(line.data(), true);
            for (size_t j = 0; j < length; ++j) made[row * length + j] = line[j].real();
        }
        return scatter(what, plan, to, out, plan.real_type(), n, made);
    }
    auto x = gather<Complex>(what, plan, from, in, plan.complex_type(), n);
    for (size_t dimension = 0; dimension < rank; ++dimension) turn(plan, x, dimension, n, inverse);
    scatter(what, plan, to, out, plan.complex_type(), n, x);
}

}  // namespace wmmadiag::fft
