// cuSPARSE's matrices as elements, row by row, and as dense ones; what is done with those.
#pragma once

#include "sparse.hpp"

namespace wmmadiag::sparse {

inline Elements places(const char* name, const cusparseSpMatDescr& a) {
    Elements out(static_cast<size_t>(a.nnz));
    const auto minor = indices(name, a.minor, a.minor_index, a.nnz, a.base);
    const bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
    if (a.format == CUSPARSE_FORMAT_COO) {
        const auto major = indices(name, a.lines, a.line_index, a.nnz, a.base);
        for (size_t i = 0; i < out.size(); ++i) out[i].row = major[i];
    } else {
        const int64_t lines = by_columns ? a.cols : a.rows;
        const auto offsets = indices(name, a.lines, a.line_index, lines + 1, a.base);
        offsets_hold(name, offsets, a.nnz);
        out.resize(static_cast<size_t>(lines == 0 ? 0 : offsets.back()));
        for (int64_t line = 0; line < lines; ++line)
            for (int64_t i = offsets[static_cast<size_t>(line)]; i < offsets[static_cast<size_t>(line) + 1]; ++i)
                out[static_cast<size_t>(i)].row = line;
    }
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].column = minor[i];
        if (by_columns) std::swap(out[i].row, out[i].column);
        inside(name, "row", out[i].row, a.rows, i);
        inside(name, "column", out[i].column, a.cols, i);
    }
    return out;
}

inline Elements elements(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op) {
    auto out = places(name, a);
    const auto values = numbers(name, a.values, a.type, static_cast<int64_t>(out.size()));
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].value = op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? std::conj(values[i]) : values[i];
        if (op != CUSPARSE_OPERATION_NON_TRANSPOSE) std::swap(out[i].row, out[i].column);
    }
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
struct Dense {
    size_t rows, cols;
    std::vector<Complex> values;
    Complex& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
    Complex at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
};
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

/// op(A) x = alpha b for every column of b, A's triangle alone.
inline Dense solved(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op, Dense x) {
    auto all = elements(name, a, op);
    const bool lower = (a.fill == CUSPARSE_FILL_MODE_LOWER) == (op == CUSPARSE_OPERATION_NON_TRANSPOSE);
    std::vector<std::vector<Element>> rows(x.rows);
    for (const auto& one : all) rows[static_cast<size_t>(one.row)].push_back(one);
    for (size_t step = 0; step < x.rows; ++step) {
        const size_t i = lower ? step : x.rows - 1 - step;
        Complex diagonal = a.diag == CUSPARSE_DIAG_TYPE_UNIT ? 1 : 0;
        for (const auto& one : rows[i]) {
            const auto j = static_cast<size_t>(one.column);
            if (j == i && a.diag == CUSPARSE_DIAG_TYPE_NON_UNIT) diagonal += one.value;
            if (lower ? j < i : j > i)
                for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] -= one.value * x.values[j * x.cols + c];
        }
        for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] /= diagonal;
    }
    return x;
}

}  // namespace wmmadiag::sparse
