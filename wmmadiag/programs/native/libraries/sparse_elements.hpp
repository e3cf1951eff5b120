// cuSPARSE's matrices as elements, row by row, and as dense ones; what is done with those.
#pragma once

#include "sparse.hpp"

namespace wmmadiag::sparse {

/// Indices on the device, read one by one.
struct IndexReader {
    const std::byte* at;
    bool wide;
    int64_t base;
    int64_t operator()(size_t i) const { return (wide ? read_as<int64_t>(at + 8 * i) : read_as<int32_t>(at + 4 * i)) - base; }
};
inline IndexReader reader(const char* name, const void* data, cusparseIndexType_t type, size_t count, int64_t base) {
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, count, 1, count};
    if (count == 0) return {nullptr, false, 0};
    const std::byte* at = reach(name, lines, Access::read);
    expect_written(name, lines);
    return {at, type == CUSPARSE_INDEX_64I, base};
}

/// Calls `visit` with the row, the column and the number of each place of a blocked or sliced format, in the values' order; those that a column
/// of -1 leaves out have none.
template <class Visit>
void each_stored(const char* name, const cusparseSpMatDescr& a, const Visit& visit) {
    if (a.format == CUSPARSE_FORMAT_BLOCKED_ELL) {
        const int64_t side = a.block_rows, across = a.width / side;
        const auto block = reader(name, a.minor, a.minor_index, static_cast<size_t>(a.rows / side * across), a.base);
        for (int64_t i = 0; i < a.stored; ++i) {
            const int64_t row = i / a.width, at = i % a.width, column = block(static_cast<size_t>(row / side * across + at / side));
            if (column + a.base >= 0) visit(row, column * side + at % side, static_cast<size_t>(i));
        }
        return;
    }
    const bool slices = a.format == CUSPARSE_FORMAT_SLICED_ELL;
    const int64_t lines = (a.rows + a.block_rows - 1) / a.block_rows, size = slices ? a.block_rows : a.block_rows * a.block_cols;
    const auto offsets = indices(name, a.lines, a.line_index, lines + 1, a.base);
    offsets_hold(name, offsets, slices ? a.stored : a.stored / size);
    const auto minor = reader(name, a.minor, a.minor_index, static_cast<size_t>(offsets.back()), a.base);
    const int64_t all = slices ? offsets.back() : offsets.back() * size;
    for (int64_t i = 0, line = 0; i < all; ++i) {
        while (i >= offsets[static_cast<size_t>(line) + 1] * (slices ? 1 : size)) ++line;
        const int64_t column = minor(static_cast<size_t>(slices ? i : i / size));
        if (column + a.base < 0) continue;
        if (slices) {
            visit(line * size + (i - offsets[static_cast<size_t>(line)]) % size, column, static_cast<size_t>(i));
            continue;
        }
        const int64_t in = i % size, by_rows = a.order == CUSPARSE_ORDER_ROW;
        const int64_t down = by_rows ? in / a.block_cols : in % a.block_rows, right = by_rows ? in % a.block_cols : in / a.block_rows;
        visit(line * a.block_rows + down, column * a.block_cols + right, static_cast<size_t>(i));
    }
}

/// Calls `visit` with the row, the column and the number of each element.
template <class Visit>
void each_place(const char* name, const cusparseSpMatDescr& a, const Visit& visit) {
    const bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
    const auto one = [&](int64_t major, int64_t minor, size_t i) {
        const int64_t row = by_columns ? minor : major, column = by_columns ? major : minor;
        inside(name, "row", row, a.rows, i);
        inside(name, "column", column, a.cols, i);
        visit(row, column, i);
    };
    if (a.in_blocks()) return each_stored(name, a, one);
    const auto nnz = static_cast<size_t>(a.nnz);
    if (a.format == CUSPARSE_FORMAT_COO) {
        const auto major = reader(name, a.lines, a.line_index, nnz, a.base), minor = reader(name, a.minor, a.minor_index, nnz, a.base);
        for (size_t i = 0; i < nnz; ++i) one(major(i), minor(i), i);
        return;
    }
    const auto offsets = indices(name, a.lines, a.line_index, (by_columns ? a.cols : a.rows) + 1, a.base);
    offsets_hold(name, offsets, a.nnz);
    const auto minor = reader(name, a.minor, a.minor_index, static_cast<size_t>(offsets.back()), a.base);
    size_t i = 0;
    for (size_t line = 0; line + 1 < offsets.size(); ++line)
        for (const auto end = static_cast<size_t>(offsets[line + 1]); i < end; ++i) one(static_cast<int64_t>(line), minor(i), i);
}
/// How many elements there are: by offsets it may be fewer than the matrix was made with.
inline int64_t count_of(const char* name, const cusparseSpMatDescr& a) {
    if (a.in_blocks()) return a.stored;
    if (a.format == CUSPARSE_FORMAT_COO) return a.nnz;
    const auto lines = static_cast<size_t>(a.format == CUSPARSE_FORMAT_CSC ? a.cols : a.rows);
    return reader(name, a.lines, a.line_index, lines + 1, a.base)(lines);
}

/// Calls `visit` with the row, the column and the value of each element of op(A); S: double, or Complex where it may be complex.
template <class S, class Visit>
void each_element(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op, const Visit& visit) {
    const size_t size = element_size(a.type);
    const std::byte* values = nullptr;
    each_place(name, a, [&](int64_t row, int64_t column, size_t i) {
        if (values == nullptr) {
            const auto count = static_cast<size_t>(count_of(name, a));
            const Lines lines{a.values, a.type, count, 1, count};
            values = reach(name, lines, Access::read);
            expect_written(name, lines);
        }
        const S value = load<S>(a.type, values + i * size);
        if (op == CUSPARSE_OPERATION_NON_TRANSPOSE) visit(row, column, value);
        else visit(column, row, op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? conjugate(value) : value);
    });
}

inline Elements places(const char* name, const cusparseSpMatDescr& a) {
    Elements out;
    out.reserve(static_cast<size_t>(a.nnz));
    each_place(name, a, [&](int64_t row, int64_t column, size_t) { out.push_back({row, column, {}}); });
    return out;
}

inline Elements elements(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op) {
    Elements out;
    out.reserve(static_cast<size_t>(a.nnz));
    each_element<Complex>(name, a, op, [&](int64_t row, int64_t column, Complex value) { out.push_back({row, column, value}); });
    return out;
}

/// Row after row, columns rising; the order among equals is kept.
inline void sort(Elements& all) {
    std::stable_sort(all.begin(), all.end(), [](const Element& a, const Element& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
}

/// The `i`-th matrix of a batch; of a matrix that is none, itself.
inline cusparseSpMatDescr nth(cusparseSpMatDescr a, int i) {
    const auto behind = [i](const void* data, int64_t next, size_t size) {
        return static_cast<const std::byte*>(data) + i * next * static_cast<int64_t>(size);
    };
    const auto size = [](cusparseIndexType_t type) { return type == CUSPARSE_INDEX_64I ? size_t(8) : size_t(4); };
    a.lines = behind(a.lines, a.next_lines, size(a.line_index));
    a.minor = behind(a.minor, a.next, size(a.minor_index));
    a.values = behind(a.values, a.next, element_size(a.type));
    return a;
}
inline cusparseDnMatDescr nth(cusparseDnMatDescr a, int i) {
    a.values = static_cast<const std::byte*>(a.values) + i * a.next * static_cast<int64_t>(element_size(a.type));
    return a;
}

/// Refuses a matrix whose places are to be written in a format of blocks.
inline void by_lines(const Call& call, const cusparseSpMatDescr& a) {
    if (a.in_blocks()) not_offered(call.name, "a result in this format is not offered");
}

/// Writes places, and values, in the matrix's format; `all` is sorted by rows.
inline void put_elements(const char* name, const cusparseSpMatDescr& a, Elements all, bool with_values = true) {
    const bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
    if (by_columns)
        for (auto& one : all) std::swap(one.row, one.column);
    if (by_columns) sort(all);
    std::vector<int64_t> major(all.size()), minor(all.size());
    std::vector<Complex> values(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        major[i] = all[i].row;
        minor[i] = all[i].column;
        values[i] = all[i].value;
    }
    if (a.format != CUSPARSE_FORMAT_COO) {
        std::vector<int64_t> offsets(static_cast<size_t>(by_columns ? a.cols : a.rows) + 1);
        for (const auto line : major) ++offsets[static_cast<size_t>(line) + 1];
        for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
        major = offsets;
    }
    put_indices(name, a.lines, a.line_index, major, a.base);
    put_indices(name, a.minor, a.minor_index, minor, a.base);
    if (with_values) put_numbers(name, a.values, a.type, values);
}

/// by A B and what is to be added, row by row; equal places are one.
inline Elements multiplied(const char* name, const cusparseSpMatDescr& a, const cusparseSpMatDescr& b, Complex by, const Elements& more,
                           int64_t* multiplications = nullptr) {
    std::vector<Elements> rows(static_cast<size_t>(b.rows)), sums(static_cast<size_t>(a.rows));
    for (const auto& one : elements(name, b, CUSPARSE_OPERATION_NON_TRANSPOSE)) rows[static_cast<size_t>(one.row)].push_back(one);
    for (const auto& one : elements(name, a, CUSPARSE_OPERATION_NON_TRANSPOSE))
        for (const auto& other : rows[static_cast<size_t>(one.column)]) {
            sums[static_cast<size_t>(one.row)].push_back({one.row, other.column, by * one.value * other.value});
            if (multiplications != nullptr) ++*multiplications;
        }
    for (const auto& one : more) sums[static_cast<size_t>(one.row)].push_back(one);
    Elements out;
    for (auto& row : sums) {
        sort(row);
        for (const auto& one : row)
            if (!out.empty() && out.back().row == one.row && out.back().column == one.column) out.back().value += one.value;
            else out.push_back(one);
    }
    return out;
}

/// A dense matrix, row by row.
template <class S>
struct Table {
    size_t rows, cols;
    std::vector<S> values;
    S at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
    S& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
};
using Dense = Table<Complex>;
inline Lines stored(const cusparseDnMatDescr& a) {
    const bool rows = a.order == CUSPARSE_ORDER_ROW;
    return {a.values, a.type, static_cast<size_t>(rows ? a.cols : a.rows), static_cast<size_t>(rows ? a.rows : a.cols), static_cast<size_t>(a.ld)};
}
inline Dense turned(const Dense& a, bool conjugates) {
    Dense out{a.cols, a.rows, std::vector<Complex>(a.values.size())};
    for (size_t i = 0; i < a.rows; ++i)
        for (size_t j = 0; j < a.cols; ++j) out.values[j * a.rows + i] = conjugates ? std::conj(a.values[i * a.cols + j]) : a.values[i * a.cols + j];
    return out;
}
inline Dense dense(const char* name, const cusparseDnMatDescr& a, cusparseOperation_t op = CUSPARSE_OPERATION_NON_TRANSPOSE) {
    Dense out{static_cast<size_t>(a.rows), static_cast<size_t>(a.cols), fetch<Complex>(name, stored(a))};
    if (a.order == CUSPARSE_ORDER_COL) {
        std::swap(out.rows, out.cols);
        out = turned(out, false);
    }
    return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? out : turned(out, op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE);
}
inline void put_dense(const char* name, const cusparseDnMatDescr& to, const Dense& a) {
    put_lines(name, stored(to), to.order == CUSPARSE_ORDER_ROW ? a.values : turned(a, false).values);
}

inline Elements nonzeros(const char* name, const cusparseDnMatDescr& a) {
    const auto full = dense(name, a);
    Elements out;
    for (size_t i = 0; i < full.rows; ++i)
        for (size_t j = 0; j < full.cols; ++j)
            if (const auto value = full.values[i * full.cols + j]; value != Complex()) out.push_back({int64_t(i), int64_t(j), value});
    return out;
}

/// op(A) x = b for every column of b, A's triangle alone.
template <class S>
Table<S> solved(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op, Table<S> x) {
    const bool lower = (a.fill == CUSPARSE_FILL_MODE_LOWER) == (op == CUSPARSE_OPERATION_NON_TRANSPOSE);
    std::vector<size_t> begins(x.rows + 2);  // of each row's elements
    each_element<S>(name, a, op, [&](int64_t row, int64_t, S) { ++begins[static_cast<size_t>(row) + 2]; });
    for (size_t i = 2; i < begins.size(); ++i) begins[i] += begins[i - 1];
    std::vector<std::pair<size_t, S>> all(begins.back());
    each_element<S>(name, a, op, [&](int64_t row, int64_t column, S value) {
        all[begins[static_cast<size_t>(row) + 1]++] = {static_cast<size_t>(column), value};
    });
    for (size_t step = 0; step < x.rows; ++step) {
        const size_t i = lower ? step : x.rows - 1 - step;
        S diagonal = a.diag == CUSPARSE_DIAG_TYPE_UNIT ? 1 : 0;
        for (size_t k = begins[i]; k < begins[i + 1]; ++k) {
            const auto& [j, value] = all[k];
            if (j == i && a.diag == CUSPARSE_DIAG_TYPE_NON_UNIT) diagonal += value;
            if (lower ? j < i : j > i)
                for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] -= value * x.values[j * x.cols + c];
        }
        for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] /= diagonal;
    }
    return x;
}

}  // namespace wmmadiag::sparse
