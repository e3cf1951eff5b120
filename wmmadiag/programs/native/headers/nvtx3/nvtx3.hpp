// Marks for a profiler, which there is none of: they are taken and lead nowhere.
#pragma once
#include <cstdint>

#include "nvToolsExt.h"

namespace nvtx3 {
inline namespace v1 {

struct rgb {
    template <class... Parts>
    constexpr explicit rgb(Parts...) {}
};
struct argb {
    template <class... Parts>
    constexpr explicit argb(Parts...) {}
};
struct color {
    template <class One>
    constexpr explicit color(const One&) {}
};
struct payload {
    template <class One>
    constexpr explicit payload(const One&) {}
};
struct message {
    template <class One>
    constexpr message(const One&) {}
};
struct domain {
    struct global {};
    template <class Domain = global>
    static const domain& get() {
        static const domain one;
        return one;
    }
};
struct category {
    constexpr explicit category(std::uint32_t) {}
};
template <class Domain = domain::global>
struct named_category_in : category {
    template <class Text>
    named_category_in(std::uint32_t id, const Text&) : category(id) {}
    template <class Name>
    static const named_category_in& get() {
        static const named_category_in one(0, "");
        return one;
    }
};
using named_category = named_category_in<>;
template <class Domain = domain::global>
struct registered_string_in {
    template <class Text>
    explicit registered_string_in(const Text&) {}
    template <class Name>
    static const registered_string_in& get() {
        static const registered_string_in one("");
        return one;
    }
};
using registered_string = registered_string_in<>;
struct event_attributes {
    template <class... Parts>
    explicit event_attributes(const Parts&...) {}
};

template <class Domain = domain::global>
struct scoped_range_in {
    template <class... Parts>
    explicit scoped_range_in(const Parts&...) {}
    scoped_range_in(const scoped_range_in&) = delete;
    scoped_range_in& operator=(const scoped_range_in&) = delete;
    ~scoped_range_in() {}
};
using scoped_range = scoped_range_in<>;
template <class Domain = domain::global>
struct unique_range_in {
    template <class... Parts>
    explicit unique_range_in(const Parts&...) {}
    unique_range_in(unique_range_in&&) = default;
    unique_range_in& operator=(unique_range_in&&) = default;
    ~unique_range_in() {}
};
using unique_range = unique_range_in<>;
struct range_handle {};
template <class Domain = domain::global, class... Parts>
range_handle start_range_in(const Parts&...) {
    return {};
}
template <class... Parts>
range_handle start_range(const Parts&...) {
    return {};
}
template <class Domain = domain::global>
void end_range_in(range_handle) {}
inline void end_range(range_handle) {}
template <class Domain = domain::global, class... Parts>
void mark_in(const Parts&...) {}
template <class... Parts>
void mark(const Parts&...) {}

}  // namespace v1
}  // namespace nvtx3

#define NVTX3_FUNC_RANGE() static_cast<void>(0)
#define NVTX3_FUNC_RANGE_IN(Domain) static_cast<void>(0)
#define NVTX3_FUNC_RANGE_IF(condition) static_cast<void>(condition)
#define NVTX3_FUNC_RANGE_IF_IN(Domain, condition) static_cast<void>(condition)
