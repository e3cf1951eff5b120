// cuSPARSE: batches, products whose structure is kept, sorts of indices, rotations and incomplete factors (cusparse_more.h).
#include "sparse_elements.hpp"

struct wmmadiagIncompleteFactors {
    int pivot = -1;  // the first row, by the matrix's base, whose pivot is missing or 0; -1: none
};

using namespace wmmadiag::sparse;

cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t mat, int count, int64_t next) {
    if (mat == nullptr || count < 1 || next < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->batches = count;
    mat->next = next;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t mat, int* count, int64_t* next) {
    if (mat == nullptr || count == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *count = mat->batches;
    return given(next, mat, mat->next);
}
cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t mat, int count, int64_t next_offsets, int64_t next) {
    if (mat == nullptr || mat->format != CUSPARSE_FORMAT_CSR || count < 1 || next_offsets < 0 || next < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->batches = count;
    mat->next_lines = next_offsets;
    mat->next = next;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t mat, int count, int64_t next) {
    if (mat == nullptr || mat->format != CUSPARSE_FORMAT_COO || count < 1 || next < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->batches = count;
    mat->next_lines = mat->next = next;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t mat, int* count) { return given(count, mat, mat->batches); }

cusparseStatus_t cusparseRot(cusparseHandle_t handle, const void* c, const void* s, cusparseSpVecDescr_t x, cusparseDnVecDescr_t y,
                             wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, x, y);
        agree(call, "the vectors' sizes differ", x->size, y->size);
        call.submit([call, x = *x, y = *y, cosine = factor(call, c, x->type), sine = factor(call, s, x->type)] {
            const Complex by = cosine(), turn = sine();
            const auto at = indices(call.name, x.indices, x.index, x.nnz, x.base);
            auto left = numbers(call.name, x.values, x.type, x.nnz), right = numbers(call.name, y.values, y.type, y.size);
            for (size_t i = 0; i < at.size(); ++i) {
                inside(call.name, "index", at[i], y.size, i);
                Complex& other = right[static_cast<size_t>(at[i])];
                const Complex old = left[i];
                left[i] = by * old + turn * other;
                other = by * other - turn * old;
            }
            put_numbers(call.name, x.values, x.type, left);
            put_numbers(call.name, y.values, y.type, right);
        });
    });
}

cusparseStatus_t cusparseSpGEMM_getNumProducts(cusparseSpGEMMDescr_t descr, int64_t* count) { return given(count, descr, descr->multiplications); }
cusparseStatus_t cusparseSpGEMM_estimateMemory(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*,
                                               cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void*, cusparseSpMatDescr_t c,
                                               cudaDataType, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr, float, size_t* bytes, void*,
                                               size_t* bytes_of_compute) {
    size_t unused;
    const auto status = sized(handle, bytes, a, b, c, descr);
    return status == CUSPARSE_STATUS_SUCCESS ? sized(handle, bytes_of_compute == nullptr ? &unused : bytes_of_compute, a, b, c, descr) : status;
}
cusparseStatus_t cusparseSpGEMMreuse_workEstimation(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, cusparseConstSpMatDescr_t a,
                                                    cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t,
                                                    cusparseSpGEMMDescr_t descr, size_t* bytes, void*) {
    return sized(handle, bytes, a, b, c, descr);
}
cusparseStatus_t cusparseSpGEMMreuse_nnz(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, cusparseConstSpMatDescr_t a,
                                         cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr,
                                         size_t* bytes2, void* buffer2, size_t* bytes3, void*, size_t* bytes4, void*, wmmadiag::Place caller) {
    if (buffer2 == nullptr) {
        for (size_t* bytes : {bytes2, bytes3, bytes4})
            if (const auto status = sized(handle, bytes, a, b, c, descr); status != CUSPARSE_STATUS_SUCCESS) return status;
        return CUSPARSE_STATUS_SUCCESS;
    }
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        if (op_a != CUSPARSE_OPERATION_NON_TRANSPOSE || op_b != CUSPARSE_OPERATION_NON_TRANSPOSE)
            not_offered(call.name, "products of transposed matrices are not offered");
        agree(call, "A's columns and B's rows differ", a->cols, b->rows);
        agree(call, "A's rows and C's differ", a->rows, c->rows);
        agree(call, "B's columns and C's differ", b->cols, c->cols);
        call.submit([call, a = *a, b = *b, c, descr] {
            descr->product = multiplied(call.name, a, b, 1, {});
            c->nnz = static_cast<int64_t>(descr->product.size());
        });
        wmmadiag::waited_for(call.stream);
    });
}
cusparseStatus_t cusparseSpGEMMreuse_copy(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, cusparseConstSpMatDescr_t a,
                                          cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr,
                                          size_t* bytes, void* buffer, wmmadiag::Place caller) {
    if (buffer == nullptr) return sized(handle, bytes, a, b, c, descr);
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        agree(call, "cusparseSpGEMMreuse_nnz found other elements than C has", static_cast<int64_t>(descr->product.size()), c->nnz);
        by_lines(call, *c);
        call.submit([call, c = *c, product = descr->product] { put_elements(call.name, c, product, false); });
    });
}
cusparseStatus_t cusparseSpGEMMreuse_compute(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void* alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                                             cudaDataType compute, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        agree(call, "cusparseSpGEMMreuse_nnz found other elements than C has", static_cast<int64_t>(descr->product.size()), c->nnz);
        call.submit([call, a = *a, b = *b, c = *c, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex kept = keep();
            const auto product = multiplied(call.name, a, b, scale(), {});
            const auto at = places(call.name, c);
            std::vector<Complex> values(at.size());
            if (kept != Complex()) {
                values = numbers(call.name, c.values, c.type, c.nnz);
                for (auto& one : values) one *= kept;
            }
            for (size_t i = 0; i < at.size() && i < product.size(); ++i) values[i] += product[i].value;
            put_numbers(call.name, c.values, c.type, values);
        });
    });
}

cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n, int* permutation, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        if (n < 0) wrong(call.name, "a size is less than 0");
        call.submit([=] {
            std::vector<int64_t> out(static_cast<size_t>(n));
            for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
            put_indices(call.name, permutation, CUSPARSE_INDEX_32I, out, 0);
        });
    });
}

namespace wmmadiag::sparse {

/// Sorts pairs of indices by the first, then the second; what has none of its own (`first`) is sorted within its lines.
inline void sorted(const char* name, const std::vector<int64_t>& first, const std::vector<int64_t>& second, const int* permutation,
                   const int* to_first, const int* to_second) {
    std::vector<size_t> order(first.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::pair(first[a], second[a]) < std::pair(first[b], second[b]); });
    const auto put_in_order = [&](const int* to, const std::vector<int64_t>& values) {
        std::vector<int64_t> out;
        for (const size_t i : order) out.push_back(values[i]);
        put_indices(name, to, CUSPARSE_INDEX_32I, out, 0);
    };
    if (permutation != nullptr) put_in_order(permutation, indices(name, permutation, CUSPARSE_INDEX_32I, static_cast<int64_t>(order.size()), 0));
    if (to_first != nullptr) put_in_order(to_first, first);
    put_in_order(to_second, second);
}

inline cusparseStatus_t coo_sorted(Caller caller, cusparseHandle_t handle, int nnz, const int* major, const int* minor, const int* permutation) {
    return guarded(caller, handle, [&](const Call& call) {
        if (nnz < 0) wrong(call.name, "a size is less than 0");
        call.submit([=] {
            const auto read = [&](const int* from) { return indices(call.name, from, CUSPARSE_INDEX_32I, nnz, 0); };
            sorted(call.name, read(major), read(minor), permutation, major, minor);
        });
    });
}

/// The elements of each row, columns rising, and where their values are.
struct SparseRow {
    std::map<int64_t, size_t> at;
};
inline std::vector<SparseRow> rows_of(const char* name, const cusparseSpMatDescr& a) {
    std::vector<SparseRow> out(static_cast<size_t>(a.rows));
    size_t i = 0;
    for (const auto& one : places(name, a)) out[static_cast<size_t>(one.row)].at[one.column] = i++;
    return out;
}
inline cusparseSpMatDescr matrix_of(const CsrMatrix& a) {
    const auto base = a.descr == nullptr ? CUSPARSE_INDEX_BASE_ZERO : a.descr->base;
    return csr(a.rows, a.rows, a.nnz, a.offsets, a.columns, a.values, base, a.type);
}

/// The first row whose pivot is 0, or -1.
inline int64_t lu(const std::vector<SparseRow>& rows, std::vector<Complex>& values) {
    for (size_t i = 0; i < rows.size(); ++i) {
        for (const auto& [k, at] : rows[i].at) {
            if (k >= static_cast<int64_t>(i)) break;
            const auto& above = rows[static_cast<size_t>(k)].at;
            values[at] /= values[above.at(k)];
            for (const auto& [j, other] : above)
                if (const auto mine = rows[i].at.find(j); j > k && mine != rows[i].at.end()) values[mine->second] -= values[at] * values[other];
        }
        if (const auto pivot = rows[i].at.find(static_cast<int64_t>(i)); pivot == rows[i].at.end() || values[pivot->second] == Complex())
            return static_cast<int64_t>(i);
    }
    return -1;
}
inline int64_t cholesky(const std::vector<SparseRow>& rows, std::vector<Complex>& values) {
    for (size_t i = 0; i < rows.size(); ++i) {
        const auto& mine = rows[i].at;
        for (const auto& [k, at] : mine) {
            if (k > static_cast<int64_t>(i)) break;
            const auto& other = rows[static_cast<size_t>(k)].at;
            for (const auto& [j, left] : mine) {
                if (j >= k) break;
                if (const auto right = other.find(j); right != other.end()) values[at] -= values[left] * std::conj(values[right->second]);
            }
            if (k < static_cast<int64_t>(i)) values[at] /= values[other.at(k)].real();
            else values[at] = std::sqrt(values[at].real());
        }
        const auto pivot = mine.find(static_cast<int64_t>(i));
        if (pivot == mine.end() || !(values[pivot->second].real() > 0)) return static_cast<int64_t>(i);
    }
    return -1;
}

cusparseStatus_t incomplete_room(cusparseHandle_t handle, CsrMatrix a, wmmadiagIncompleteFactors* info, int* bytes) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (a.rows < 0 || a.nnz < 0 || info == nullptr || bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *bytes = static_cast<int>(buffer_bytes);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t analysed(Caller caller, cusparseHandle_t handle, CsrMatrix a, wmmadiagIncompleteFactors* info) {
    return guarded(caller, handle, [&](const Call& call) {
        if (a.rows < 0 || a.nnz < 0 || info == nullptr) wrong(call.name, "a size is less than 0, or the info is a null pointer");
        call.submit([=] {
            const auto all = matrix_of(a);
            const auto rows = rows_of(call.name, all);
            info->pivot = -1;
            for (size_t i = rows.size(); i-- > 0;)
                if (rows[i].at.count(static_cast<int64_t>(i)) == 0) info->pivot = static_cast<int>(i) + all.base;
        });
    });
}
cusparseStatus_t incomplete(Caller caller, cusparseHandle_t handle, Factored kind, CsrMatrix a, wmmadiagIncompleteFactors* info) {
    return guarded(caller, handle, [&](const Call& call) {
        if (a.rows < 0 || a.nnz < 0 || info == nullptr) wrong(call.name, "a size is less than 0, or the info is a null pointer");
        if (info->pivot >= 0) wrong(call.name, "row " + std::to_string(info->pivot) + " has no element on the diagonal");
        call.submit([=] {
            const auto all = matrix_of(a);
            const auto rows = rows_of(call.name, all);
            auto values = numbers(call.name, all.values, all.type, all.nnz);
            const int64_t pivot = kind == Factored::lu ? lu(rows, values) : cholesky(rows, values);
            put_numbers(call.name, all.values, all.type, values);
            info->pivot = pivot < 0 ? -1 : static_cast<int>(pivot) + all.base;
        });
    });
}

inline cusparseStatus_t zero_pivot(Caller caller, cusparseHandle_t handle, const wmmadiagIncompleteFactors* info, int* position) {
    bool zero = false;
    const auto status = guarded(caller, handle, [&](const Call& call) {
        if (info == nullptr || position == nullptr) wrong(call.name, "the info or the position is a null pointer");
        wmmadiag::waited_for(call.stream);
        zero = info->pivot >= 0;
        if (!call.device_scalars) *position = info->pivot;
        else call.submit([=] { put_indices(call.name, position, CUSPARSE_INDEX_32I, {info->pivot}, 0); });
    });
    return status == CUSPARSE_STATUS_SUCCESS && zero ? CUSPARSE_STATUS_ZERO_PIVOT : status;
}

}  // namespace wmmadiag::sparse

cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t handle, int, int, int, const int*, const int*, size_t* bytes) {
    return sized(handle, bytes);
}
cusparseStatus_t cusparseXcoosortByRow(cusparseHandle_t handle, int, int, int nnz, int* row, int* column, int* permutation, void*,
                                       wmmadiag::Place caller) {
    return coo_sorted(caller(__func__), handle, nnz, row, column, permutation);
}
cusparseStatus_t cusparseXcoosortByColumn(cusparseHandle_t handle, int, int, int nnz, int* row, int* column, int* permutation, void*,
                                          wmmadiag::Place caller) {
    return coo_sorted(caller(__func__), handle, nnz, column, row, permutation);
}
cusparseStatus_t cusparseXcsrsort_bufferSizeExt(cusparseHandle_t handle, int, int, int, const int*, const int*, size_t* bytes) {
    return sized(handle, bytes);
}
cusparseStatus_t cusparseXcsrsort(cusparseHandle_t handle, int rows, int, int nnz, const cusparseMatDescr* descr, const int* offsets, int* column,
                                  int* permutation, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        if (nnz < 0 || rows < 0 || descr == nullptr) wrong(call.name, "a size is less than 0, or the descriptor is a null pointer");
        call.submit([=, base = descr->base] {
            const auto from = indices(call.name, offsets, CUSPARSE_INDEX_32I, rows + int64_t(1), base);
            offsets_hold(call.name, from, nnz);
            std::vector<int64_t> lines;
            for (size_t line = 0; line + 1 < from.size(); ++line)
                lines.insert(lines.end(), static_cast<size_t>(from[line + 1] - from[line]), int64_t(line));
            sorted(call.name, lines, indices(call.name, column, CUSPARSE_INDEX_32I, static_cast<int64_t>(lines.size()), 0), permutation, nullptr,
                   column);
        });
    });
}

cusparseStatus_t cusparseCreateCsrilu02Info(csrilu02Info_t* info) { return made(info, wmmadiagIncompleteFactors{}); }
cusparseStatus_t cusparseDestroyCsrilu02Info(csrilu02Info_t info) { return gone(info); }
cusparseStatus_t cusparseXcsrilu02_zeroPivot(cusparseHandle_t handle, csrilu02Info_t info, int* position, wmmadiag::Place caller) {
    return zero_pivot(caller(__func__), handle, info, position);
}
cusparseStatus_t cusparseCreateCsric02Info(csric02Info_t* info) { return made(info, wmmadiagIncompleteFactors{}); }
cusparseStatus_t cusparseDestroyCsric02Info(csric02Info_t info) { return gone(info); }
cusparseStatus_t cusparseXcsric02_zeroPivot(cusparseHandle_t handle, csric02Info_t info, int* position, wmmadiag::Place caller) {
    return zero_pivot(caller(__func__), handle, info, position);
}

cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t handle, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                                  cusparseSparseToDenseAlg_t, size_t* bytes) {
    return sized(handle, bytes, a, b);
}
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t handle, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b, cusparseSparseToDenseAlg_t,
                                       void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b);
        agree(call, "the matrices' rows differ", a->rows, b->rows);
        agree(call, "the matrices' columns differ", a->cols, b->cols);
        call.submit([call, a = *a, b = *b] {
            Dense full{static_cast<size_t>(b.rows), static_cast<size_t>(b.cols), std::vector<Complex>(static_cast<size_t>(b.rows * b.cols))};
            for (const auto& one : elements(call.name, a, CUSPARSE_OPERATION_NON_TRANSPOSE)) full.at(one.row, one.column) = one.value;
            put_dense(call.name, b, full);
        });
    });
}
cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t handle, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                                  cusparseDenseToSparseAlg_t, size_t* bytes) {
    return sized(handle, bytes, a, b);
}
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t handle, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                                cusparseDenseToSparseAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b);
        agree(call, "the matrices' rows differ", a->rows, b->rows);
        agree(call, "the matrices' columns differ", a->cols, b->cols);
        if (b->format == CUSPARSE_FORMAT_BLOCKED_ELL) return;  // its places are given
        by_lines(call, *b);
        call.submit([call, a = *a, b] { b->nnz = static_cast<int64_t>(nonzeros(call.name, a).size()); });
        wmmadiag::waited_for(call.stream);
    });
}
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                               cusparseDenseToSparseAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b);
        if (b->format == CUSPARSE_FORMAT_BLOCKED_ELL)
            return call.submit([call, a = *a, b = *b] {
                const auto from = dense(call.name, a, CUSPARSE_OPERATION_NON_TRANSPOSE);
                std::vector<Complex> values(static_cast<size_t>(b.stored));
                each_place(call.name, b, [&](int64_t row, int64_t column, size_t i) { values[i] = from.at(row, column); });
                put_numbers(call.name, b.values, b.type, values);
            });
        by_lines(call, *b);
        call.submit([call, a = *a, b = *b] { put_elements(call.name, b, nonzeros(call.name, a)); });
    });
}
