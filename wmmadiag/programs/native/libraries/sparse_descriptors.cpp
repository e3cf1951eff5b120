// cuSPARSE: handles, and what its descriptors hold.
#include "sparse.hpp"

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
cusparseStatus_t cusparseCreateBlockedEll(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t side, int64_t width, void* columns,
                                          void* values, cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
    if (side < 1 || rows % side != 0 || cols % side != 0 || width < 0 || width % side != 0) return CUSPARSE_STATUS_INVALID_VALUE;
    const auto status = matrix(to, CUSPARSE_FORMAT_BLOCKED_ELL, rows, cols, rows * width, nullptr, columns, values, index, index, base, type);
    if (status == CUSPARSE_STATUS_SUCCESS) (*to)->block_rows = (*to)->block_cols = side, (*to)->width = width, (*to)->stored = rows * width;
    return status;
}
cusparseStatus_t cusparseCreateSlicedEll(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t nnz, int64_t stored, int64_t slice,
                                         void* offsets, void* columns, void* values, cusparseIndexType_t offset, cusparseIndexType_t index,
                                         cusparseIndexBase_t base, cudaDataType type) {
    if (slice < 1 || stored < nnz) return CUSPARSE_STATUS_INVALID_VALUE;
    const auto status = matrix(to, CUSPARSE_FORMAT_SLICED_ELL, rows, cols, nnz, offsets, columns, values, offset, index, base, type);
    if (status == CUSPARSE_STATUS_SUCCESS) (*to)->block_rows = slice, (*to)->stored = stored;
    return status;
}
cusparseStatus_t cusparseCreateBsr(cusparseSpMatDescr_t* to, int64_t rows, int64_t cols, int64_t blocks, int64_t block_rows, int64_t block_cols,
                                   void* offsets, void* columns, void* values, cusparseIndexType_t offset, cusparseIndexType_t index,
                                   cusparseIndexBase_t base, cudaDataType type, cusparseOrder_t order) {
    if (block_rows < 1 || block_cols < 1) return CUSPARSE_STATUS_INVALID_VALUE;
    const int64_t stored = blocks * block_rows * block_cols;
    const auto status =
        matrix(to, CUSPARSE_FORMAT_BSR, rows * block_rows, cols * block_cols, stored, offsets, columns, values, offset, index, base, type);
    if (status == CUSPARSE_STATUS_SUCCESS)
        (*to)->block_rows = block_rows, (*to)->block_cols = block_cols, (*to)->stored = stored, (*to)->order = order;
    return status;
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
