// The matrices of a run: arguments, and what multiplications derive from them.
//
// A derived matrix is a product over a contracted axis, together with the part of that axis which has been added up (its coverage): partial
// sums of one product are different matrices, so that a tag says how far its sum has come.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tag.hpp"

namespace wmmadiag::provenance {

enum class Axis : std::uint8_t { row, column };
constexpr std::uint32_t index(Tag t, Axis axis) { return axis == Axis::row ? row(t) : column(t); }
constexpr Axis other(Axis axis) { return axis == Axis::row ? Axis::column : Axis::row; }

// Left operand's contracted axis and right operand's; `left` is the one that is listed first in a canonical order, so that a product and
// its transpose are the same.
struct Product {
    std::uint32_t left, right;
    Axis left_axis, right_axis;
    bool corrected = false;  // residuals of split operands were added, too

    [[nodiscard]] auto key() const {
        return std::array<std::uint32_t, 4>{left, right, static_cast<std::uint32_t>(left_axis), static_cast<std::uint32_t>(right_axis)};
    }
};

struct Matrix {
    std::uint32_t base = 0;               // an argument: itself; else the product's matrix of empty coverage
    std::uint32_t product = 0xffffffffu;  // index, or none for an argument
    std::uint32_t coverage = 0;           // index
    std::uint32_t depth = 0;              // 0: an argument
    std::uint32_t origin[2]{};            // identity of the row and of the column axis
};

struct Coverage {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> intervals;  // [first, end), ascending, apart
    bool repeated = false;                                           // something was added twice
    auto operator<=>(const Coverage&) const = default;
};

class Matrices {
public:
    // Arguments are matrices 1 ... count.
    explicit Matrices(std::uint32_t count);

    // The product's matrix with nothing added up yet. `swapped`: the right operand comes first in canonical order.
    std::uint32_t product(std::uint32_t left, Axis left_axis, std::uint32_t right, Axis right_axis, bool& swapped);
    // With more of the contracted axis added up. `slice`: an interned list of indices.
    std::uint32_t extend(std::uint32_t matrix, std::uint32_t slice);
    std::uint32_t slice(const std::uint32_t* indices, unsigned count);
    std::uint32_t range(std::uint32_t first, unsigned count);  // the slice first, first + 1, ...
    // Both sums added; the two must have the same base.
    std::uint32_t merge(std::uint32_t a, std::uint32_t b);
    // Whether `a` has everything that `b` has.
    bool includes(std::uint32_t a, std::uint32_t b);
    void correct(std::uint32_t matrix) { products_[matrices_[matrix].product].corrected = true; }

    [[nodiscard]] const Matrix& operator[](std::uint32_t m) const { return matrices_[m]; }
    [[nodiscard]] const Coverage& coverage(std::uint32_t m) const { return coverages_[matrices_[m].coverage]; }
    [[nodiscard]] const std::vector<Matrix>& all() const { return matrices_; }
    [[nodiscard]] const std::vector<Product>& products() const { return products_; }

private:
    std::uint32_t with_coverage(std::uint32_t base, Coverage coverage);

    std::vector<Matrix> matrices_;
    std::vector<Product> products_;
    std::vector<Coverage> coverages_;
    std::vector<std::vector<std::uint32_t>> slices_;
    std::map<std::array<std::uint32_t, 4>, std::uint32_t> product_index_;  // to the matrix
    std::map<Coverage, std::uint32_t> coverage_index_;
    std::map<std::vector<std::uint32_t>, std::uint32_t> slice_index_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> sum_index_, extended_, merged_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, bool> included_;
    std::vector<std::uint32_t> last_slice_;
    std::uint32_t last_slice_index_ = 0;
    std::map<std::pair<std::uint32_t, unsigned>, std::uint32_t> range_index_;  // to the slice
};

}  // namespace wmmadiag::provenance
