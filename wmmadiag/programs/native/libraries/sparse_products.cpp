// cuSPARSE: products, solutions and conversions.
#include "sparse_elements.hpp"

using namespace wmmadiag::sparse;

cusparseStatus_t cusparseAxpby(cusparseHandle_t handle, const void* alpha, cusparseConstSpVecDescr_t x, const void* beta, cusparseDnVecDescr_t y,
                               wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, x, y);
        agree(call, "the vectors' sizes differ", x->size, y->size);
        call.submit([call, x = *x, y = *y, a = factor(call, alpha, y->type), b = factor(call, beta, y->type)] {
            const Complex scale = a(), keep = b();
            auto sum = numbers(call.name, y.values, y.type, y.size);
            for (auto& one : sum) one *= keep;
            const auto at = indices(call.name, x.indices, x.index, x.nnz, x.base);
            const auto values = numbers(call.name, x.values, x.type, x.nnz);
            for (size_t i = 0; i < at.size(); ++i) {
                inside(call.name, "index", at[i], y.size, i);
                sum[static_cast<size_t>(at[i])] += scale * values[i];
            }
            put_numbers(call.name, y.values, y.type, sum);
        });
    });
}
cusparseStatus_t cusparseGather(cusparseHandle_t handle, cusparseConstDnVecDescr_t y, cusparseSpVecDescr_t x, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, x, y);
        call.submit([call, x = *x, y = *y] {
            const auto from = numbers(call.name, y.values, y.type, y.size);
            std::vector<Complex> values;
            for (const auto at : indices(call.name, x.indices, x.index, x.nnz, x.base)) {
                inside(call.name, "index", at, y.size, values.size());
                values.push_back(from[static_cast<size_t>(at)]);
            }
            put_numbers(call.name, x.values, x.type, values);
        });
    });
}
cusparseStatus_t cusparseScatter(cusparseHandle_t handle, cusparseConstSpVecDescr_t x, cusparseDnVecDescr_t y, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, x, y);
        call.submit([call, x = *x, y = *y] {
            const auto at = indices(call.name, x.indices, x.index, x.nnz, x.base);
            const auto values = numbers(call.name, x.values, x.type, x.nnz);
            for (size_t i = 0; i < at.size(); ++i) {
                inside(call.name, "index", at[i], y.size, i);
                const auto* to = static_cast<const char*>(y.values) + static_cast<size_t>(at[i]) * element_size(y.type);
                put_numbers(call.name, to, y.type, {values[i]});
            }
        });
    });
}
cusparseStatus_t cusparseSpVV_bufferSize(cusparseHandle_t handle, cusparseOperation_t, cusparseConstSpVecDescr_t x, cusparseConstDnVecDescr_t y,
                                         const void*, cudaDataType, size_t* bytes) {
    return sized(handle, bytes, x, y);
}
cusparseStatus_t cusparseSpVV(cusparseHandle_t handle, cusparseOperation_t op, cusparseConstSpVecDescr_t x, cusparseConstDnVecDescr_t y, void* result,
                              cudaDataType compute, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, x, y);
        known(call, compute);
        call.submit([=, x = *x, y = *y] {
            const auto at = indices(call.name, x.indices, x.index, x.nnz, x.base);
            const auto left = numbers(call.name, x.values, x.type, x.nnz), right = numbers(call.name, y.values, y.type, y.size);
            Complex sum;
            for (size_t i = 0; i < at.size(); ++i) {
                inside(call.name, "index", at[i], y.size, i);
                sum += (op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? std::conj(left[i]) : left[i]) * right[static_cast<size_t>(at[i])];
            }
            if (call.device_scalars) put_numbers(call.name, result, compute, {sum});
            else if (is_complex(compute)) store<Complex>(compute, result, sum);
            else store<double>(compute, result, sum.real());
        });
        if (!call.device_scalars) wmmadiag::waited_for(call.stream);
    });
}

cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, const void*, cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t,
                                         size_t* bytes) {
    return sized(handle, bytes, a, x, y);
}
cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t handle, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, const void*, cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, void*) {
    return prepared(handle, a, x, y);
}
cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t op, const void* alpha, cusparseConstSpMatDescr_t a,
                              cusparseConstDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpMVAlg_t, void*,
                              wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, x, y);
        agree(call, "the matrix's columns and x's size differ", cols_of(*a, op), x->size);
        agree(call, "the matrix's rows and y's size differ", rows_of(*a, op), y->size);
        call.submit([call, op, compute, a = *a, x = *x, y = *y, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex by = scale(), kept = keep();
            const auto compute_as = [&](auto zero) {
                using S = decltype(zero);
                const auto array = [](const cusparseDnVecDescr& v) {
                    return Lines{v.values, v.type, static_cast<size_t>(v.size), 1, static_cast<size_t>(v.size)};
                };
                const auto right = fetch<S>(call.name, array(x));
                std::vector<S> sum(static_cast<size_t>(y.size));
                each_element<S>(call.name, a, op, [&](int64_t row, int64_t column, S value) {
                    sum[static_cast<size_t>(row)] += value * right[static_cast<size_t>(column)];
                });
                for (auto& one : sum) one *= narrowed<S>(by);
                if (kept != Complex()) {
                    const auto before = fetch<S>(call.name, array(y));
                    for (size_t i = 0; i < sum.size(); ++i) sum[i] += narrowed<S>(kept) * before[i];
                }
                put<S>(call.name, array(y), sum);
            };
            if (real(compute, a.type, x.type, y.type)) compute_as(0.0);
            else compute_as(Complex());
        });
    });
}

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnMatDescr_t b, const void*, cusparseDnMatDescr_t c, cudaDataType, cusparseSpMMAlg_t,
                                         size_t* bytes) {
    return sized(handle, bytes, a, b, c);
}
cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnMatDescr_t b, const void*, cusparseDnMatDescr_t c, cudaDataType, cusparseSpMMAlg_t, void*) {
    return prepared(handle, a, b, c);
}
cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta, cusparseDnMatDescr_t c,
                              cudaDataType compute, cusparseSpMMAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        agree(call, "op(A)'s columns and op(B)'s rows differ", cols_of(*a, op_a), rows_of(*b, op_b));
        agree(call, "op(A)'s rows and C's differ", rows_of(*a, op_a), c->rows);
        agree(call, "op(B)'s columns and C's differ", cols_of(*b, op_b), c->cols);
        call.submit([call, op_a, op_b, a = *a, b = *b, c = *c, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex by = scale(), kept = keep();
            const auto multiply_one = [&](const cusparseSpMatDescr& a, const cusparseDnMatDescr& b, const cusparseDnMatDescr& c) {
                const auto right = dense(call.name, b, op_b);
                Dense sum{static_cast<size_t>(c.rows), static_cast<size_t>(c.cols), std::vector<Complex>(static_cast<size_t>(c.rows * c.cols))};
                for (const auto& one : elements(call.name, a, op_a))
                    for (size_t j = 0; j < sum.cols; ++j)
                        sum.values[static_cast<size_t>(one.row) * sum.cols + j] +=
                            one.value * right.values[static_cast<size_t>(one.column) * sum.cols + j];
                for (auto& one : sum.values) one *= by;
                if (kept != Complex()) {
                    const auto before = dense(call.name, c);
                    for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += kept * before.values[i];
                }
                put_dense(call.name, c, sum);
            };
            for (int i = 0; i < c.batches; ++i) multiply_one(nth(a, i), nth(b, i), nth(c, i));
        });
    });
}

cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstDnMatDescr_t a,
                                          cusparseConstDnMatDescr_t b, const void*, cusparseSpMatDescr_t c, cudaDataType, cusparseSDDMMAlg_t,
                                          size_t* bytes) {
    return sized(handle, bytes, a, b, c);
}
cusparseStatus_t cusparseSDDMM_preprocess(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstDnMatDescr_t a,
                                          cusparseConstDnMatDescr_t b, const void*, cusparseSpMatDescr_t c, cudaDataType, cusparseSDDMMAlg_t, void*) {
    return prepared(handle, a, b, c);
}
cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                               cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                               cudaDataType compute, cusparseSDDMMAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        agree(call, "op(A)'s columns and op(B)'s rows differ", cols_of(*a, op_a), rows_of(*b, op_b));
        agree(call, "op(A)'s rows and C's differ", rows_of(*a, op_a), c->rows);
        agree(call, "op(B)'s columns and C's differ", cols_of(*b, op_b), c->cols);
        call.submit([call, op_a, op_b, a = *a, b = *b, c = *c, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex by = scale(), kept = keep();
            const auto multiply_one = [&](const cusparseDnMatDescr& a, const cusparseDnMatDescr& b, const cusparseSpMatDescr& c) {
                const auto left = dense(call.name, a, op_a), right = dense(call.name, b, op_b);
                const auto before = kept != Complex() ? numbers(call.name, c.values, c.type, c.nnz) : std::vector<Complex>{};
                std::vector<Complex> values;
                for (const auto& one : places(call.name, c)) {
                    Complex sum;
                    for (size_t k = 0; k < left.cols; ++k) sum += left.at(one.row, int64_t(k)) * right.at(int64_t(k), one.column);
                    sum *= by;
                    if (!before.empty()) sum += kept * before[values.size()];
                    values.push_back(sum);
                }
                put_numbers(call.name, c.values, c.type, values);
            };
            for (int i = 0; i < c.batches; ++i) multiply_one(nth(a, i), nth(b, i), nth(c, i));
        });
    });
}

cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t* descr) { return made(descr, cusparseSpGEMMDescr{}); }
cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t descr) { return gone(descr); }
cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*,
                                               cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void*, cusparseSpMatDescr_t c,
                                               cudaDataType, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr, size_t* bytes, void* buffer,
                                               wmmadiag::Place caller) {
    if (buffer == nullptr) return sized(handle, bytes, a, b, c, descr);
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        call.submit([call, a = *a, b = *b, descr] {
            descr->multiplications = 0;
            multiplied(call.name, a, b, 1, {}, &descr->multiplications);
        });
        wmmadiag::waited_for(call.stream);
    });
}
cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                                        cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                                        cudaDataType compute, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr, size_t* bytes, void* buffer,
                                        wmmadiag::Place caller) {
    if (buffer == nullptr) return sized(handle, bytes, a, b, c, descr);
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        if (op_a != CUSPARSE_OPERATION_NON_TRANSPOSE || op_b != CUSPARSE_OPERATION_NON_TRANSPOSE)
            not_offered(call.name, "products of transposed matrices are not offered");
        agree(call, "A's columns and B's rows differ", a->cols, b->rows);
        agree(call, "A's rows and C's differ", a->rows, c->rows);
        agree(call, "B's columns and C's differ", b->cols, c->cols);
        call.submit([call, a = *a, b = *b, c, descr, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex by = scale(), kept = keep();
            Elements more;
            if (kept != Complex())
                for (const auto& one : elements(call.name, *c, CUSPARSE_OPERATION_NON_TRANSPOSE))
                    more.push_back({one.row, one.column, kept * one.value});
            descr->product = multiplied(call.name, a, b, by, more);
            c->nnz = static_cast<int64_t>(descr->product.size());
        });
        wmmadiag::waited_for(call.stream);
    });
}
cusparseStatus_t cusparseSpGEMM_copy(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                     cusparseConstSpMatDescr_t b, const void*, cusparseSpMatDescr_t c, cudaDataType, cusparseSpGEMMAlg_t,
                                     cusparseSpGEMMDescr_t descr, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr) wrong(call.name, "the descriptor is a null pointer");
        agree(call, "cusparseSpGEMM_compute found other elements than C has", static_cast<int64_t>(descr->product.size()), c->nnz);
        by_lines(call, *c);
        call.submit([call, c = *c, product = descr->product] { put_elements(call.name, c, product); });
    });
}

cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t* descr) { return made(descr, cusparseSpSVDescr{}); }
cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t descr) { return gone(descr); }
cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                         cusparseSpSVDescr_t descr, size_t* bytes) {
    return sized(handle, bytes, a, x, y, descr);
}
cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                       cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                       cusparseSpSVDescr_t descr, void*) {
    const auto status = prepared(handle, a, x, y, descr);
    if (status == CUSPARSE_STATUS_SUCCESS) descr->analysed = true;
    return status;
}
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t op, const void* alpha, cusparseConstSpMatDescr_t a,
                                    cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpSVAlg_t,
                                    cusparseSpSVDescr_t descr, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, x, y);
        if (descr == nullptr || !descr->analysed) wrong(call.name, "cusparseSpSV_analysis was not called before");
        agree(call, "the matrix is not square", a->rows, a->cols);
        agree(call, "the matrix's rows and x's size differ", a->rows, x->size);
        agree(call, "the matrix's rows and y's size differ", a->rows, y->size);
        call.submit([call, op, compute, a = *a, x = *x, y = *y, scale = factor(call, alpha, compute)] {
            const auto n = static_cast<size_t>(x.size);
            const auto compute_as = [&](auto zero) {
                using S = decltype(zero);
                Table<S> right{n, 1, fetch<S>(call.name, {x.values, x.type, n, 1, n})};
                for (auto& one : right.values) one *= narrowed<S>(scale());
                put<S>(call.name, {y.values, y.type, n, 1, n}, solved(call.name, a, op, right).values);
            };
            if (real(compute, a.type, x.type, y.type)) compute_as(0.0);
            else compute_as(Complex());
        });
    });
}
cusparseStatus_t cusparseSpSM_createDescr(cusparseSpSMDescr_t* descr) { return cusparseSpSV_createDescr(descr); }
cusparseStatus_t cusparseSpSM_destroyDescr(cusparseSpSMDescr_t descr) { return gone(descr); }
cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType, cusparseSpSMAlg_t,
                                         cusparseSpSMDescr_t descr, size_t* bytes) {
    return sized(handle, bytes, a, b, c, descr);
}
cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*, cusparseConstSpMatDescr_t a,
                                       cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType, cusparseSpSMAlg_t,
                                       cusparseSpSMDescr_t descr, void*) {
    const auto status = prepared(handle, a, b, c, descr);
    if (status == CUSPARSE_STATUS_SUCCESS) descr->analysed = true;
    return status;
}
cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                                    cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t c, cudaDataType compute,
                                    cusparseSpSMAlg_t, cusparseSpSMDescr_t descr, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b, c);
        if (descr == nullptr || !descr->analysed) wrong(call.name, "cusparseSpSM_analysis was not called before");
        agree(call, "the matrix is not square", a->rows, a->cols);
        agree(call, "A's and op(B)'s rows differ", a->rows, rows_of(*b, op_b));
        agree(call, "A's and C's rows differ", a->rows, c->rows);
        agree(call, "op(B)'s and C's columns differ", cols_of(*b, op_b), c->cols);
        call.submit([call, op_a, op_b, a = *a, b = *b, c = *c, scale = factor(call, alpha, compute)] {
            auto right = dense(call.name, b, op_b);
            for (auto& one : right.values) one *= scale();
            put_dense(call.name, c, solved(call.name, a, op_a, right));
        });
    });
}

cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t handle, const int* lines, int nnz, int rows, int* offsets, cusparseIndexBase_t base,
                                  wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        if (nnz < 0 || rows < 0) wrong(call.name, "a size is less than 0");
        call.submit([=] {
            std::vector<int64_t> out(static_cast<size_t>(rows) + 1);
            size_t element = 0;
            for (const auto line : indices(call.name, lines, CUSPARSE_INDEX_32I, nnz, base)) {
                inside(call.name, "row", line, rows, element++);
                ++out[static_cast<size_t>(line) + 1];
            }
            for (size_t i = 1; i < out.size(); ++i) out[i] += out[i - 1];
            put_indices(call.name, offsets, CUSPARSE_INDEX_32I, out, base);
        });
    });
}
cusparseStatus_t cusparseXcsr2coo(cusparseHandle_t handle, const int* offsets, int nnz, int rows, int* lines, cusparseIndexBase_t base,
                                  wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        if (nnz < 0 || rows < 0) wrong(call.name, "a size is less than 0");
        call.submit([=] {
            const auto from = indices(call.name, offsets, CUSPARSE_INDEX_32I, rows + int64_t(1), base);
            offsets_hold(call.name, from, nnz);
            std::vector<int64_t> out;
            for (size_t row = 0; row + 1 < from.size(); ++row) out.insert(out.end(), static_cast<size_t>(from[row + 1] - from[row]), int64_t(row));
            put_indices(call.name, lines, CUSPARSE_INDEX_32I, out, base);
        });
    });
}
cusparseStatus_t cusparseCsr2cscEx2_bufferSize(cusparseHandle_t handle, int, int, int, const void*, const int*, const int*, void*, int*, int*,
                                               cudaDataType, cusparseAction_t, cusparseIndexBase_t, cusparseCsr2CscAlg_t, size_t* bytes) {
    return sized(handle, bytes);
}
cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t handle, int rows, int cols, int nnz, const void* values, const int* offsets, const int* columns,
                                    void* to_values, int* to_offsets, int* to_lines, cudaDataType type, cusparseAction_t copied,
                                    cusparseIndexBase_t base, cusparseCsr2CscAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        known(call, type);
        if (rows < 0 || cols < 0 || nnz < 0) wrong(call.name, "a size is less than 0");
        if (copied != CUSPARSE_ACTION_NUMERIC) not_offered(call.name, "CUSPARSE_ACTION_SYMBOLIC is not offered");
        call.submit([call, from = csr(rows, cols, nnz, offsets, columns, values, base, type),
                     to = csr(cols, rows, nnz, to_offsets, to_lines, to_values, base, type)] {
            auto all = elements(call.name, from, CUSPARSE_OPERATION_TRANSPOSE);
            sort(all);
            put_elements(call.name, to, all);
        });
    });
}
