// cuSPARSE: every matrix is read as its elements, (row, column, value); what a call does is done on those.
#pragma once

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
    int batches = 1;
    int64_t next = 0;  // elements to the next matrix of a batch
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
    int batches = 1;
    int64_t next_lines = 0, next = 0;  // elements to the next matrix of a batch: of its offsets or rows, of its columns and values
    // Of blocked and sliced formats: rows and columns of a block (rows of a slice), values that lie in memory, those of a row (blocked ELL),
    // and the order in a block (BSR).
    int64_t block_rows = 1, block_cols = 1, stored = 0, width = 0;
    cusparseOrder_t order = CUSPARSE_ORDER_ROW;

    bool in_blocks() const { return format != CUSPARSE_FORMAT_CSR && format != CUSPARSE_FORMAT_CSC && format != CUSPARSE_FORMAT_COO; }
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
    int64_t multiplications = 0;                     // that A B takes
};

namespace wmmadiag::sparse {

using Elements = std::vector<Element>;
constexpr size_t buffer_bytes = 256;  // what a program is told that a buffer takes: none is used

struct Refused {
    cusparseStatus_t status;
};
[[noreturn]] inline void wrong(const char* name, const std::string& why) {
    report("library", "invalid-value", "warning", std::string(name) + ": " + why, "the call returns CUSPARSE_STATUS_INVALID_VALUE and does nothing");
    throw Refused{CUSPARSE_STATUS_INVALID_VALUE};
}
[[noreturn]] inline void not_offered(const char* name, const std::string& what) {
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

inline void known(const Call& call, cudaDataType type) {
    if (element_size(type) == 0) not_offered(call.name, "elements of cudaDataType " + std::to_string(type) + " are not offered");
}

inline std::vector<int64_t> indices(const char* name, const void* data, cusparseIndexType_t type, int64_t count, int64_t base) {
    std::vector<int64_t> out(static_cast<size_t>(count));
    if (out.empty()) return out;
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, out.size(), 1, out.size()};
    const std::byte* at = reach(name, lines, Access::read);
    expect_written(name, lines);
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = (type == CUSPARSE_INDEX_64I ? read_as<int64_t>(at + 8 * i) : read_as<int32_t>(at + 4 * i)) - base;
    return out;
}
inline void put_indices(const char* name, const void* data, cusparseIndexType_t type, const std::vector<int64_t>& values, int64_t base) {
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

inline std::vector<Complex> numbers(const char* name, const void* data, cudaDataType type, int64_t count) {
    const auto n = static_cast<size_t>(count);
    return fetch<Complex>(name, {data, type, n, 1, n});
}
inline void put_lines(const char* name, const Lines& to, const std::vector<Complex>& values) {
    if (is_complex(to.type)) return put<Complex>(name, to, values);
    std::vector<double> real(values.size());
    std::transform(values.begin(), values.end(), real.begin(), [](Complex one) { return one.real(); });
    put<double>(name, to, real);
}
inline void put_numbers(const char* name, const void* data, cudaDataType type, const std::vector<Complex>& values) {
    put_lines(name, {data, type, values.size(), 1, values.size()}, values);
}

/// Whether all types are real, so that double holds every number.
template <class... Types>
bool real(Types... types) {
    return !(... || is_complex(types));
}
template <class S>
S narrowed(Complex value) {
    if constexpr (std::is_same_v<S, Complex>) return value;
    else return value.real();
}

/// An index outside its matrix is a bug that the chip reads beyond an array with.
inline void inside(const char* name, const char* what, int64_t index, int64_t size, size_t element) {
    if (index >= 0 && index < size) return;
    report("memory", "sparse-index", "error",
           std::string(name) + ": the " + what + " of element " + std::to_string(element) + " is " + std::to_string(index) + ", not within 0 to " +
               std::to_string(size - 1),
           "check the matrix's indices, their base and its sizes");
    throw cudaErrorIllegalAddress;
}
/// Offsets rise from 0 to the number of elements. Elements behind the last offset are no part of the matrix, and told: the chip's library takes it
/// so.
inline void offsets_hold(const char* name, const std::vector<int64_t>& offsets, int64_t nnz) {
    if (!offsets.empty() && offsets.back() >= 0 && offsets.back() < nnz)
        report("library", "sparse-size", "warning",
               std::string(name) + ": the matrix has " + std::to_string(offsets.back()) + " elements by its offsets, and was made with " +
                   std::to_string(nnz),
               "check its number of elements");
    for (size_t i = 0; i < offsets.size(); ++i) {
        const int64_t least = i == 0 ? 0 : offsets[i - 1];
        if (offsets[i] >= least && offsets[i] <= nnz && (i != 0 || offsets[i] == 0)) continue;
        report("memory", "sparse-index", "error",
               std::string(name) + ": offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) + ", where they rise from 0 to " +
                   std::to_string(nnz) + ", the number of elements",
               "check the matrix's offsets, their base and its number of elements");
        throw cudaErrorIllegalAddress;
    }
}

/// alpha or beta: read at the call from the host, or in the stream's order from the device.
struct Factor {
    Call call;
    const void* from;
    cudaDataType type;
    Complex value;
    Complex operator()() const { return call.device_scalars ? numbers(call.name, from, type, 1)[0] : value; }
};
inline Factor factor(const Call& call, const void* from, cudaDataType type) {
    known(call, type);
    if (from == nullptr) wrong(call.name, "alpha or beta is a null pointer");
    return {call, from, type, call.device_scalars ? Complex() : load<Complex>(type, from)};
}

inline void agree(const Call& call, const char* what, int64_t left, int64_t right) {
    if (left != right) wrong(call.name, std::string(what) + ": " + std::to_string(left) + " and " + std::to_string(right));
}
inline int64_t rows_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
inline int64_t rows_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
inline int64_t cols_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }
inline int64_t cols_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }

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
inline bool indexed(cusparseIndexType_t type) { return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I; }

template <class To>
cusparseStatus_t matrix(To* to, cusparseFormat_t format, int64_t rows, int64_t cols, int64_t nnz, const void* lines, const void* minor,
                        const void* values, cusparseIndexType_t line_index, cusparseIndexType_t minor_index, cusparseIndexBase_t base,
                        cudaDataType type) {
    if (rows < 0 || cols < 0 || nnz < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    if (!indexed(line_index) || !indexed(minor_index)) return CUSPARSE_STATUS_NOT_SUPPORTED;
    return made(to, cusparseSpMatDescr{format, rows, cols, nnz, lines, minor, values, line_index, minor_index, base, type});
}
inline cusparseStatus_t pointed(cusparseSpMatDescr_t mat, cusparseFormat_t format, void* lines, void* minor, void* values) {
    if (mat == nullptr || mat->format != format) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->lines = lines;
    mat->minor = minor;
    mat->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

inline cusparseSpMatDescr csr(int rows, int cols, int nnz, const int* offsets, const int* columns, const void* values, cusparseIndexBase_t base,
                              cudaDataType type) {
    return {CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, base, type};
}

}  // namespace wmmadiag::sparse
