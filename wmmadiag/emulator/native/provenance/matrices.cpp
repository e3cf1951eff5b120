#include "matrices.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace wmmadiag::provenance {

namespace {

using Intervals = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Union; `overlap` is set where both have something.
Intervals unite(Intervals a, const Intervals& b, bool& overlap) {
    a.insert(a.end(), b.begin(), b.end());
    std::sort(a.begin(), a.end());
    Intervals to;
    for (const auto& [first, end] : a) {
        if (!to.empty() && first < to.back().second) overlap = true;
        if (!to.empty() && first <= to.back().second) to.back().second = std::max(to.back().second, end);
        else to.emplace_back(first, end);
    }
    return to;
}

}  // namespace

Matrices::Matrices(std::uint32_t count) {
    matrices_.resize(count + 1);
    for (std::uint32_t m = 0; m <= count; ++m) {
        matrices_[m].base = m;
        matrices_[m].origin[0] = 2 * m;
        matrices_[m].origin[1] = 2 * m + 1;
    }
    coverages_.emplace_back();
    coverage_index_[{}] = 0;
}

std::uint32_t Matrices::product(std::uint32_t left, Axis left_axis, std::uint32_t right, Axis right_axis, bool& swapped) {
    // Derived ones first, then by number.
    const auto rank = [&](std::uint32_t m) { return std::pair(-static_cast<std::int64_t>(matrices_[m].depth), m); };
    swapped = rank(right) < rank(left);
    if (swapped) {
        std::swap(left, right);
        std::swap(left_axis, right_axis);
    }
    const Product product{left, right, left_axis, right_axis};
    const auto [found, fresh] = product_index_.try_emplace(product.key(), 0);
    if (fresh) {
        Matrix m;
        m.base = found->second = static_cast<std::uint32_t>(matrices_.size());
        m.product = static_cast<std::uint32_t>(products_.size());
        m.depth = std::max(matrices_[left].depth, matrices_[right].depth) + 1;
        m.origin[0] = matrices_[left].origin[static_cast<unsigned>(other(left_axis))];
        m.origin[1] = matrices_[right].origin[static_cast<unsigned>(other(right_axis))];
        products_.push_back(product);
        matrices_.push_back(m);
        if (matrices_.size() > index_mask) throw std::runtime_error("provenance: too many derived matrices");
    }
    return found->second;
}

std::uint32_t Matrices::with_coverage(std::uint32_t base, Coverage coverage) {
    const auto [set, fresh] = coverage_index_.try_emplace(std::move(coverage), static_cast<std::uint32_t>(coverages_.size()));
    if (fresh) coverages_.push_back(set->first);
    if (set->second == 0) return base;
    const auto [sum, made] = sum_index_.try_emplace({base, set->second}, static_cast<std::uint32_t>(matrices_.size()));
    if (made) {
        auto m = matrices_[base];
        m.coverage = set->second;
        matrices_.push_back(m);
        if (matrices_.size() > index_mask) throw std::runtime_error("provenance: too many partial sums");
    }
    return sum->second;
}

std::uint32_t Matrices::slice(const std::uint32_t* indices, unsigned count) {
    if (last_slice_.size() == count && std::equal(last_slice_.begin(), last_slice_.end(), indices)) return last_slice_index_;
    std::vector<std::uint32_t> list(indices, indices + count);
    const auto [found, fresh] = slice_index_.try_emplace(list, static_cast<std::uint32_t>(slices_.size()));
    if (fresh) slices_.push_back(list);
    last_slice_ = std::move(list);
    return last_slice_index_ = found->second;
}

std::uint32_t Matrices::range(std::uint32_t first, unsigned count) {
    const auto [found, fresh] = range_index_.try_emplace({first, count}, 0);
    if (fresh) {
        std::vector<std::uint32_t> indices(count);
        std::iota(indices.begin(), indices.end(), first);
        found->second = slice(indices.data(), count);
    }
    return found->second;
}

std::uint32_t Matrices::extend(std::uint32_t matrix, std::uint32_t slice) {
    const auto [found, fresh] = extended_.try_emplace({matrix, slice}, 0);
    if (fresh) {
        Coverage added;
        auto indices = slices_[slice];
        std::sort(indices.begin(), indices.end());
        bool overlap = false;
        Intervals units;
        for (const auto k : indices) units.emplace_back(k, k + 1);
        added.repeated = coverages_[matrices_[matrix].coverage].repeated;
        added.intervals = unite(coverages_[matrices_[matrix].coverage].intervals, units, overlap);
        added.repeated |= overlap;
        found->second = with_coverage(matrices_[matrix].base, std::move(added));
    }
    return found->second;
}

std::uint32_t Matrices::merge(std::uint32_t a, std::uint32_t b) {
    if (a == b) return a;  // statistics of one matrix, or a sum and its own copy
    if (a > b) std::swap(a, b);
    const auto [found, fresh] = merged_.try_emplace({a, b}, 0);
    if (fresh) {
        const auto& left = coverages_[matrices_[a].coverage];
        const auto& right = coverages_[matrices_[b].coverage];
        Coverage sum;
        sum.repeated = left.repeated || right.repeated;
        sum.intervals = unite(left.intervals, right.intervals, sum.repeated);
        found->second = with_coverage(matrices_[a].base, std::move(sum));
    }
    return found->second;
}

bool Matrices::includes(std::uint32_t a, std::uint32_t b) {
    if (a == b) return true;
    const auto [found, fresh] = included_.try_emplace({a, b}, false);
    if (fresh) {
        const auto& outer = coverages_[matrices_[a].coverage].intervals;
        const auto& inner = coverages_[matrices_[b].coverage].intervals;
        found->second = std::all_of(inner.begin(), inner.end(), [&](const auto& part) {
            return std::any_of(outer.begin(), outer.end(),
                               [&](const auto& whole) { return whole.first <= part.first && part.second <= whole.second; });
        });
    }
    return found->second;
}

}  // namespace wmmadiag::provenance
