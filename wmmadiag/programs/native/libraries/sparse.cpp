// cuSPARSE: every matrix is read as its elements, (row, column, value); what a call does is done on those.
#include "cusparse.h"

#include <algorithm>
#include <map>
#include <string>

#include "elements.hpp"

struct cusparseContext {
    cudaStream_t stream = nullptr;
    cusparsePointerMode_t pointers = CUSPARSE_POINTER_MODE_HOST;
};
struct cusparseMatDescr {
    cusparseMatrixType_t type = CUSPARSE_MATRIX_TYPE_GENERAL;
    cusparseIndexBase_t base = CUSPARSE_INDEX_BASE_ZERO;
    cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diag = CUSPARSE_DIAG_TYPE_NON_UNIT;
};
struct cusparseSpVecDescr {
    int64_t size, nnz;
    const void *indices, *values;
    cusparseIndexType_t index;
    cusparseIndexBase_t base;
    cudaDataType type;
};
struct cusparseDnVecDescr {
    int64_t size;
    const void* values;
    cudaDataType type;
};
struct cusparseDnMatDescr {
    int64_t rows, cols, ld;
    const void* values;
    cudaDataType type;
    cusparseOrder_t order;
};
struct cusparseSpMatDescr {
    cusparseFormat_t format;
    int64_t rows, cols, nnz;
    const void *lines, *minor, *values;  // offsets (CSR, CSC) or rows (COO); columns, of CSC rows
    cusparseIndexType_t line_index, minor_index;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diag = CUSPARSE_DIAG_TYPE_NON_UNIT;
};
struct cusparseSpSVDescr {
    bool analysed = false;
};

namespace wmmadiag::sparse {

using namespace libraries;

struct Element {
    int64_t row, column;
    Complex value;
};

}  // namespace wmmadiag::sparse

struct cusparseSpGEMMDescr {
    std::vector<wmmadiag::sparse::Element> product;  // of the last computation, row by row
};

namespace wmmadiag::sparse {

namespace {

using Elements = std::vector<Element>;
constexpr size_t buffer_bytes = 256;  // what a program is told that a buffer takes: none is used

struct Refused {
    cusparseStatus_t status;
};
[[noreturn]] void wrong(const char* name, const std::string& why) {
    report("library", "invalid-value", "warning", std::string(name) + ": " + why, "the call returns CUSPARSE_STATUS_INVALID_VALUE and does nothing");
    throw Refused{CUSPARSE_STATUS_INVALID_VALUE};
}
[[noreturn]] void not_offered(const char* name, const std::string& what) {
    report("library", "unsupported", "warning", std::string(name) + ": " + what, "the call returns CUSPARSE_STATUS_NOT_SUPPORTED and does nothing");
    throw Refused{CUSPARSE_STATUS_NOT_SUPPORTED};
}

template <class Body>
cusparseStatus_t guarded(Caller caller, cusparseHandle_t handle, const Body& body) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    if (status() != cudaSuccess) return CUSPARSE_STATUS_EXECUTION_FAILED;
    try {
        body(Call{caller.function, handle->stream, handle->pointers == CUSPARSE_POINTER_MODE_DEVICE});
        return CUSPARSE_STATUS_SUCCESS;
    } catch (const Refused& refused) {
        return refused.status;
    } catch (cudaError_t) {
        return CUSPARSE_STATUS_EXECUTION_FAILED;
    }
}

void known(const Call& call, cudaDataType type) {
    if (element_size(type) == 0) not_offered(call.name, "elements of cudaDataType " + std::to_string(type) + " are not offered");
}

std::vector<int64_t> indices(const char* name, const void* data, cusparseIndexType_t type, int64_t count, int64_t base) {
    std::vector<int64_t> out(static_cast<size_t>(count));
    if (out.empty()) return out;
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, out.size(), 1, out.size()};
    const std::byte* at = reach(name, lines, Access::read);
    expect_written(name, lines);
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = (type == CUSPARSE_INDEX_64I ? read_as<int64_t>(at + 8 * i) : read_as<int32_t>(at + 4 * i)) - base;
    return out;
}
void put_indices(const char* name, const void* data, cusparseIndexType_t type, const std::vector<int64_t>& values, int64_t base) {
    if (values.empty()) return;
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, values.size(), 1, values.size()};
    std::byte* at = reach(name, lines, Access::write);
    for (size_t i = 0; i < values.size(); ++i) {
        const int64_t wide = values[i] + base;
        const auto narrow = static_cast<int32_t>(wide);
        if (type == CUSPARSE_INDEX_64I) std::memcpy(at + 8 * i, &wide, 8);
        else std::memcpy(at + 4 * i, &narrow, 4);
    }
    mark_written(lines);
}

std::vector<Complex> numbers(const char* name, const void* data, cudaDataType type, int64_t count) {
    const auto n = static_cast<size_t>(count);
    return fetch<Complex>(name, {data, type, n, 1, n});
}
void put_lines(const char* name, const Lines& to, const std::vector<Complex>& values) {
    if (is_complex(to.type)) return put<Complex>(name, to, values);
    std::vector<double> real(values.size());
    std::transform(values.begin(), values.end(), real.begin(), [](Complex one) { return one.real(); });
    put<double>(name, to, real);
}
void put_numbers(const char* name, const void* data, cudaDataType type, const std::vector<Complex>& values) {
    put_lines(name, {data, type, values.size(), 1, values.size()}, values);
}

/// An index outside its matrix is a bug that the chip reads beyond an array with.
void inside(const char* name, const char* what, int64_t index, int64_t size, size_t element) {
    if (index >= 0 && index < size) return;
    report("memory", "sparse-index", "error",
           std::string(name) + ": the " + what + " of element " + std::to_string(element) + " is " + std::to_string(index) + ", not within 0 to " +
               std::to_string(size - 1),
           "check the matrix's indices, their base and its sizes");
    throw cudaErrorIllegalAddress;
}
void offsets_hold(const char* name, const std::vector<int64_t>& offsets, int64_t nnz) {
    for (size_t i = 0; i < offsets.size(); ++i) {
        const int64_t least = i == 0 ? 0 : offsets[i - 1];
        if (offsets[i] >= least && offsets[i] <= nnz && (i != 0 || offsets[i] == 0) && (i + 1 != offsets.size() || offsets[i] == nnz)) continue;
        report("memory", "sparse-index", "error",
               std::string(name) + ": offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) + ", where they rise from 0 to " +
                   std::to_string(nnz) + ", the number of elements",
               "check the matrix's offsets, their base and its number of elements");
        throw cudaErrorIllegalAddress;
    }
}

Elements places(const char* name, const cusparseSpMatDescr& a) {
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

Elements elements(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op) {
    auto out = places(name, a);
    const auto values = numbers(name, a.values, a.type, a.nnz);
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].value = op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? std::conj(values[i]) : values[i];
        if (op != CUSPARSE_OPERATION_NON_TRANSPOSE) std::swap(out[i].row, out[i].column);
    }
    return out;
}

/// Row after row, columns rising; the order among equals is kept.
void sort(Elements& all) {
    std::stable_sort(all.begin(), all.end(), [](const Element& a, const Element& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
}

/// Writes places and values in the matrix's format; `all` is sorted by rows.
void put_elements(const char* name, const cusparseSpMatDescr& a, Elements all) {
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
    put_numbers(name, a.values, a.type, values);
}

/// A dense matrix, row by row.
struct Dense {
    size_t rows, cols;
    std::vector<Complex> values;
    Complex& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
    Complex at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
};
Lines stored(const cusparseDnMatDescr& a) {
    const bool rows = a.order == CUSPARSE_ORDER_ROW;
    return {a.values, a.type, static_cast<size_t>(rows ? a.cols : a.rows), static_cast<size_t>(rows ? a.rows : a.cols), static_cast<size_t>(a.ld)};
}
Dense turned(const Dense& a, bool conjugates) {
    Dense out{a.cols, a.rows, std::vector<Complex>(a.values.size())};
    for (size_t i = 0; i < a.rows; ++i)
        for (size_t j = 0; j < a.cols; ++j) out.values[j * a.rows + i] = conjugates ? std::conj(a.values[i * a.cols + j]) : a.values[i * a.cols + j];
    return out;
}
Dense dense(const char* name, const cusparseDnMatDescr& a, cusparseOperation_t op = CUSPARSE_OPERATION_NON_TRANSPOSE) {
    Dense out{static_cast<size_t>(a.rows), static_cast<size_t>(a.cols), fetch<Complex>(name, stored(a))};
    if (a.order == CUSPARSE_ORDER_COL) {
        std::swap(out.rows, out.cols);
        out = turned(out, false);
    }
    return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? out : turned(out, op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE);
}
void put_dense(const char* name, const cusparseDnMatDescr& to, const Dense& a) {
    put_lines(name, stored(to), to.order == CUSPARSE_ORDER_ROW ? a.values : turned(a, false).values);
}

/// alpha or beta: read at the call from the host, or in the stream's order from the device.
struct Factor {
    Call call;
    const void* from;
    cudaDataType type;
    Complex value;
    Complex operator()() const { return call.device_scalars ? numbers(call.name, from, type, 1)[0] : value; }
};
Factor factor(const Call& call, const void* from, cudaDataType type) {
    known(call, type);
    if (from == nullptr) wrong(call.name, "alpha or beta is a null pointer");
    return {call, from, type, call.device_scalars ? Complex() : load<Complex>(type, from)};
}

void agree(const Call& call, const char* what, int64_t left, int64_t right) {
    if (left != right) wrong(call.name, std::string(what) + ": " + std::to_string(left) + " and " + std::to_string(right));
}
int64_t rows_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
int64_t rows_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
int64_t cols_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }
int64_t cols_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }

/// What the program is told of a buffer, or CUSPARSE_STATUS_INVALID_VALUE where an operand is missing.
template <class... Operands>
cusparseStatus_t sized(cusparseHandle_t handle, size_t* bytes, const Operands*... operands) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (bytes == nullptr || (... || (operands == nullptr))) return CUSPARSE_STATUS_INVALID_VALUE;
    *bytes = buffer_bytes;
    return CUSPARSE_STATUS_SUCCESS;
}
template <class... Operands>
cusparseStatus_t prepared(cusparseHandle_t handle, const Operands*... operands) {
    size_t bytes;
    return sized(handle, &bytes, operands...);
}
template <class... Operands>
void present(const Call& call, const Operands*... operands) {
    if ((... || (operands == nullptr))) wrong(call.name, "an operand is a null pointer");
    (known(call, operands->type), ...);
}

/// op(A) x = alpha b for every column of b, A's triangle alone.
Dense solved(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op, Dense x) {
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

template <class To, class From>
cusparseStatus_t made(To* to, const From& from) {
    if (to == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *to = new From(from);
    return CUSPARSE_STATUS_SUCCESS;
}
template <class T>
cusparseStatus_t gone(const T* descriptor) {
    delete descriptor;
    return CUSPARSE_STATUS_SUCCESS;
}
template <class T, class Value>
cusparseStatus_t given(Value* to, const T* from, Value value) {
    if (from == nullptr || to == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *to = value;
    return CUSPARSE_STATUS_SUCCESS;
}
bool indexed(cusparseIndexType_t type) { return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I; }

template <class To>
cusparseStatus_t matrix(To* to, cusparseFormat_t format, int64_t rows, int64_t cols, int64_t nnz, const void* lines, const void* minor,
                        const void* values, cusparseIndexType_t line_index, cusparseIndexType_t minor_index, cusparseIndexBase_t base,
                        cudaDataType type) {
    if (rows < 0 || cols < 0 || nnz < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    if (!indexed(line_index) || !indexed(minor_index)) return CUSPARSE_STATUS_NOT_SUPPORTED;
    return made(to, cusparseSpMatDescr{format, rows, cols, nnz, lines, minor, values, line_index, minor_index, base, type});
}
cusparseStatus_t pointed(cusparseSpMatDescr_t mat, cusparseFormat_t format, void* lines, void* minor, void* values) {
    if (mat == nullptr || mat->format != format) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->lines = lines;
    mat->minor = minor;
    mat->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

Elements nonzeros(const char* name, const cusparseDnMatDescr& a) {
    const auto full = dense(name, a);
    Elements out;
    for (size_t i = 0; i < full.rows; ++i)
        for (size_t j = 0; j < full.cols; ++j)
            if (const auto value = full.values[i * full.cols + j]; value != Complex()) out.push_back({int64_t(i), int64_t(j), value});
    return out;
}

cusparseSpMatDescr csr(int rows, int cols, int nnz, const int* offsets, const int* columns, const void* values, cusparseIndexBase_t base,
                       cudaDataType type) {
    return {CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, base, type};
}

}  // namespace

}  // namespace wmmadiag::sparse

using namespace wmmadiag::sparse;

cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) { return made(handle, cusparseContext{}); }
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) { return handle == nullptr ? CUSPARSE_STATUS_NOT_INITIALIZED : gone(handle); }
cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int* version) { return given(version, handle, CUSPARSE_VERSION); }
cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int* value) {
    if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUSPARSE_STATUS_INVALID_VALUE;
    const int parts[] = {CUSPARSE_VER_MAJOR, CUSPARSE_VER_MINOR, CUSPARSE_VER_PATCH};
    *value = parts[type];
    return CUSPARSE_STATUS_SUCCESS;
}
static const char* const sparse_statuses[][2] = {{"CUSPARSE_STATUS_SUCCESS", "success"},
                                                 {"CUSPARSE_STATUS_NOT_INITIALIZED", "initialization error"},
                                                 {"CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
                                                 {"CUSPARSE_STATUS_INVALID_VALUE", "invalid value"},
                                                 {"CUSPARSE_STATUS_ARCH_MISMATCH", "architecture mismatch"},
                                                 {"CUSPARSE_STATUS_MAPPING_ERROR", "texture mapping failure"},
                                                 {"CUSPARSE_STATUS_EXECUTION_FAILED", "kernel launch failure"},
                                                 {"CUSPARSE_STATUS_INTERNAL_ERROR", "internal error"},
                                                 {"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "matrix type not supported"},
                                                 {"CUSPARSE_STATUS_ZERO_PIVOT", "zero pivot"},
                                                 {"CUSPARSE_STATUS_NOT_SUPPORTED", "operation not supported"},
                                                 {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"}};
const char* cusparseGetErrorName(cusparseStatus_t status) { return unsigned(status) < 12 ? sparse_statuses[status][0] : "unrecognized error code"; }
const char* cusparseGetErrorString(cusparseStatus_t status) { return unsigned(status) < 12 ? sparse_statuses[status][1] : "unrecognized error code"; }
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t* stream) {
    return handle == nullptr ? CUSPARSE_STATUS_NOT_INITIALIZED : given(stream, handle, handle->stream);
}
cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    handle->pointers = mode;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t* mode) {
    return handle == nullptr ? CUSPARSE_STATUS_NOT_INITIALIZED : given(mode, handle, handle->pointers);
}

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* descr) { return made(descr, cusparseMatDescr{}); }
cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t descr) { return gone(descr); }
cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t descr, cusparseMatrixType_t type) { return given(&descr->type, descr, type); }
cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr* descr) { return descr->type; }
cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t descr, cusparseIndexBase_t base) { return given(&descr->base, descr, base); }
cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr* descr) { return descr->base; }
cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t descr, cusparseFillMode_t fill) { return given(&descr->fill, descr, fill); }
cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t descr, cusparseDiagType_t diag) { return given(&descr->diag, descr, diag); }

cusparseStatus_t cusparseCreateConstSpVec(cusparseConstSpVecDescr_t* to, int64_t size, int64_t nnz, const void* indices, const void* values,
                                          cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
    if (size < 0 || nnz < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    return !indexed(index) ? CUSPARSE_STATUS_NOT_SUPPORTED : made(to, cusparseSpVecDescr{size, nnz, indices, values, index, base, type});
}
cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t* to, int64_t size, int64_t nnz, void* indices, void* values, cusparseIndexType_t index,
                                     cusparseIndexBase_t base, cudaDataType type) {
    return cusparseCreateConstSpVec(const_cast<cusparseConstSpVecDescr_t*>(to), size, nnz, indices, values, index, base, type);
}
cusparseStatus_t cusparseDestroySpVec(cusparseConstSpVecDescr_t vec) { return gone(vec); }
cusparseStatus_t cusparseCreateConstDnVec(cusparseConstDnVecDescr_t* to, int64_t size, const void* values, cudaDataType type) {
    return size < 0 ? CUSPARSE_STATUS_INVALID_VALUE : made(to, cusparseDnVecDescr{size, values, type});
}
cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t* to, int64_t size, void* values, cudaDataType type) {
    return cusparseCreateConstDnVec(const_cast<cusparseConstDnVecDescr_t*>(to), size, values, type);
}
cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vec) { return gone(vec); }
cusparseStatus_t cusparseDnVecGet(cusparseDnVecDescr_t vec, int64_t* size, void** values, cudaDataType* type) {
    if (vec == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *size = vec->size;
    *type = vec->type;
    return cusparseDnVecGetValues(vec, values);
}
cusparseStatus_t cusparseDnVecGetValues(cusparseDnVecDescr_t vec, void** values) { return given(values, vec, const_cast<void*>(vec->values)); }
cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t vec, void* values) {
    if (vec == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    vec->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateConstDnMat(cusparseConstDnMatDescr_t* to, int64_t rows, int64_t cols, int64_t ld, const void* values,
                                          cudaDataType type, cusparseOrder_t order) {
    if (rows < 0 || cols < 0 || ld < (order == CUSPARSE_ORDER_ROW ? cols : rows)) return CUSPARSE_STATUS_INVALID_VALUE;
    return made(to, cusparseDnMatDescr{rows, cols, ld, values, type, order});
}
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* to, int64_t rows, int64_t cols, int64_t ld, void* values, cudaDataType type,
                                     cusparseOrder_t order) {
    return cusparseCreateConstDnMat(const_cast<cusparseConstDnMatDescr_t*>(to), rows, cols, ld, values, type, order);
}
cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t mat) { return gone(mat); }
cusparseStatus_t cusparseDnMatGetValues(cusparseDnMatDescr_t mat, void** values) { return given(values, mat, const_cast<void*>(mat->values)); }
cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t mat, void* values) {
    if (mat == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, void* offsets, void* columns, void* values,
                                   cusparseIndexType_t offset, cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
    return matrix(to, CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, offset, index, base, type);
}
cusparseStatus_t cusparseCreateConstCsr(cusparseConstSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, const void* offsets,
                                        const void* columns, const void* values, cusparseIndexType_t offset, cusparseIndexType_t index,
                                        cusparseIndexBase_t base, cudaDataType type) {
    return matrix(to, CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, offset, index, base, type);
}
cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, void* offsets, void* lines, void* values,
                                   cusparseIndexType_t offset, cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
    return matrix(to, CUSPARSE_FORMAT_CSC, rows, cols, nnz, offsets, lines, values, offset, index, base, type);
}
cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, void* lines, void* columns, void* values,
                                   cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
    return matrix(to, CUSPARSE_FORMAT_COO, rows, cols, nnz, lines, columns, values, index, index, base, type);
}
cusparseStatus_t cusparseCreateConstCoo(cusparseConstSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, const void* lines,
                                        const void* columns, const void* values, cusparseIndexType_t index, cusparseIndexBase_t base,
                                        cudaDataType type) {
    return matrix(to, CUSPARSE_FORMAT_COO, rows, cols, nnz, lines, columns, values, index, index, base, type);
}
cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t mat) { return gone(mat); }
cusparseStatus_t cusparseCsrGet(cusparseSpMatDescr_t mat, int64_t* rows, int64_t* cols, int64_t* nnz, void** offsets, void** columns, void** values,
                                cusparseIndexType_t* offset, cusparseIndexType_t* index, cusparseIndexBase_t* base, cudaDataType* type) {
    if (mat == nullptr || mat->format != CUSPARSE_FORMAT_CSR) return CUSPARSE_STATUS_INVALID_VALUE;
    *offsets = const_cast<void*>(mat->lines);
    *columns = const_cast<void*>(mat->minor);
    *values = const_cast<void*>(mat->values);
    *offset = mat->line_index;
    *index = mat->minor_index;
    *base = mat->base;
    *type = mat->type;
    return cusparseSpMatGetSize(mat, rows, cols, nnz);
}
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t mat, void* offsets, void* columns, void* values) {
    return pointed(mat, CUSPARSE_FORMAT_CSR, offsets, columns, values);
}
cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t mat, void* offsets, void* lines, void* values) {
    return pointed(mat, CUSPARSE_FORMAT_CSC, offsets, lines, values);
}
cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t mat, void* lines, void* columns, void* values) {
    return pointed(mat, CUSPARSE_FORMAT_COO, lines, columns, values);
}
cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t mat, int64_t* rows, int64_t* cols, int64_t* nnz) {
    if (mat == nullptr || rows == nullptr || cols == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *rows = mat->rows;
    *cols = mat->cols;
    return given(nnz, mat, mat->nnz);
}
cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t mat, cusparseFormat_t* format) { return given(format, mat, mat->format); }
cusparseStatus_t cusparseSpMatGetIndexBase(cusparseConstSpMatDescr_t mat, cusparseIndexBase_t* base) { return given(base, mat, mat->base); }
cusparseStatus_t cusparseSpMatGetValues(cusparseSpMatDescr_t mat, void** values) { return given(values, mat, const_cast<void*>(mat->values)); }
cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t mat, void* values) {
    if (mat == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t mat, cusparseSpMatAttribute_t attribute, const void* value, size_t bytes) {
    if (mat == nullptr || value == nullptr || bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
    if (attribute == CUSPARSE_SPMAT_FILL_MODE) mat->fill = *static_cast<const cusparseFillMode_t*>(value);
    else mat->diag = *static_cast<const cusparseDiagType_t*>(value);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatGetAttribute(cusparseConstSpMatDescr_t mat, cusparseSpMatAttribute_t attribute, void* value, size_t bytes) {
    if (mat == nullptr || value == nullptr || bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
    const int held = attribute == CUSPARSE_SPMAT_FILL_MODE ? int(mat->fill) : int(mat->diag);
    std::memcpy(value, &held, sizeof held);
    return CUSPARSE_STATUS_SUCCESS;
}

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
        call.submit([call, op, a = *a, x = *x, y = *y, scale = factor(call, alpha, compute), keep = factor(call, beta, compute)] {
            const Complex by = scale(), kept = keep();
            const auto right = numbers(call.name, x.values, x.type, x.size);
            std::vector<Complex> sum(static_cast<size_t>(y.size));
            for (const auto& one : elements(call.name, a, op))
                sum[static_cast<size_t>(one.row)] += one.value * right[static_cast<size_t>(one.column)];
            for (auto& one : sum) one *= by;
            if (kept != Complex()) {
                const auto before = numbers(call.name, y.values, y.type, y.size);
                for (size_t i = 0; i < sum.size(); ++i) sum[i] += kept * before[i];
            }
            put_numbers(call.name, y.values, y.type, sum);
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
        });
    });
}

cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t* descr) { return made(descr, cusparseSpGEMMDescr{}); }
cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t descr) { return gone(descr); }
cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*,
                                               cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void*, cusparseSpMatDescr_t c,
                                               cudaDataType, cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t descr, size_t* bytes, void*) {
    return sized(handle, bytes, a, b, c, descr);
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
            std::vector<Elements> rows(static_cast<size_t>(b.rows)), sums(static_cast<size_t>(a.rows));
            for (const auto& one : elements(call.name, b, CUSPARSE_OPERATION_NON_TRANSPOSE)) rows[static_cast<size_t>(one.row)].push_back(one);
            for (const auto& one : elements(call.name, a, CUSPARSE_OPERATION_NON_TRANSPOSE))
                for (const auto& other : rows[static_cast<size_t>(one.column)])
                    sums[static_cast<size_t>(one.row)].push_back({one.row, other.column, by * one.value * other.value});
            if (kept != Complex())
                for (const auto& one : elements(call.name, *c, CUSPARSE_OPERATION_NON_TRANSPOSE))
                    sums[static_cast<size_t>(one.row)].push_back({one.row, one.column, kept * one.value});
            descr->product.clear();
            for (auto& row : sums) {
                sort(row);
                for (const auto& one : row)
                    if (!descr->product.empty() && descr->product.back().row == one.row && descr->product.back().column == one.column)
                        descr->product.back().value += one.value;
                    else descr->product.push_back(one);
            }
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
        call.submit([call, op, a = *a, x = *x, y = *y, scale = factor(call, alpha, compute)] {
            Dense right{static_cast<size_t>(x.size), 1, numbers(call.name, x.values, x.type, x.size)};
            for (auto& one : right.values) one *= scale();
            put_numbers(call.name, y.values, y.type, solved(call.name, a, op, right).values);
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
        call.submit([call, a = *a, b] { b->nnz = static_cast<int64_t>(nonzeros(call.name, a).size()); });
        wmmadiag::waited_for(call.stream);
    });
}
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                               cusparseDenseToSparseAlg_t, void*, wmmadiag::Place caller) {
    return guarded(caller(__func__), handle, [&](const Call& call) {
        present(call, a, b);
        call.submit([call, a = *a, b = *b] { put_elements(call.name, b, nonzeros(call.name, a)); });
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
