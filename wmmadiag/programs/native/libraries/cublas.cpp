// cuBLAS's handle, its settings, and copies of vectors and matrices.
#include "blas_operands.hpp"

using namespace wmmadiag::libraries;

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

namespace {
template <class T>
cublasStatus_t set(cublasHandle_t handle, T cublasContext::* member, T value) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->*member = value;
    return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t get(cublasHandle_t handle, T cublasContext::* member, T* value) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *value = handle->*member;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t copied(cudaError_t error) { return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR; }
cublasStatus_t copy_strided(int n, int size, const void* x, int incx, void* y, int incy, cudaMemcpyKind kind) {
    if (n < 0 || size <= 0 || incx <= 0 || incy <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    const size_t bytes = static_cast<size_t>(size);
    if (incx == 1 && incy == 1) return copied(cudaMemcpy(y, x, bytes * static_cast<size_t>(n), kind));
    return copied(cudaMemcpy2D(y, bytes * static_cast<size_t>(incy), x, bytes * static_cast<size_t>(incx), bytes, static_cast<size_t>(n), kind));
}
cublasStatus_t copy_matrix(int rows, int cols, int size, const void* a, int lda, void* b, int ldb, cudaMemcpyKind kind) {
    if (rows < 0 || cols < 0 || size <= 0 || lda < rows || ldb < rows) return CUBLAS_STATUS_INVALID_VALUE;
    const size_t bytes = static_cast<size_t>(size);
    return copied(cudaMemcpy2D(b, bytes * static_cast<size_t>(ldb), a, bytes * static_cast<size_t>(lda), bytes * static_cast<size_t>(rows),
                               static_cast<size_t>(cols), kind));
}
}  // namespace

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
    if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
    const int parts[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    *value = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasGetCudartVersion() { return CUDART_VERSION; }
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) { return set(h, &cublasContext::stream, stream); }
cublasStatus_t cublasGetStream(cublasHandle_t h, cudaStream_t* stream) { return get(h, &cublasContext::stream, stream); }
cublasStatus_t cublasSetPointerMode(cublasHandle_t h, cublasPointerMode_t mode) { return set(h, &cublasContext::pointers, mode); }
cublasStatus_t cublasGetPointerMode(cublasHandle_t h, cublasPointerMode_t* mode) { return get(h, &cublasContext::pointers, mode); }
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t mode) { return set(h, &cublasContext::atomics, mode); }
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t* mode) { return get(h, &cublasContext::atomics, mode); }
// The mode allows the chip less precision; ours stays what it is.
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode) { return set(h, &cublasContext::math, mode); }
cublasStatus_t cublasGetMathMode(cublasHandle_t h, cublasMath_t* mode) { return get(h, &cublasContext::math, mode); }
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t h, int count) {
    return count < 0 ? CUBLAS_STATUS_INVALID_VALUE : set(h, &cublasContext::processors, count);
}
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t h, int* count) { return get(h, &cublasContext::processors, count); }
// No operation here needs one.
// Wishes about speed, and about how products of floats are emulated by smaller ones: ours are in float64, nearer to the truth than any.
static cublasStatus_t taken(cublasHandle_t h) { return h == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLoggerConfigure(int on, int, int, const char*) {
    if (on == 0) return CUBLAS_STATUS_SUCCESS;
    wmmadiag::report("library", "unsupported", "warning", "cublasLoggerConfigure: calls are not logged", "leave the log off");
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void*, size_t) { return taken(h); }
cublasStatus_t cublasSetEmulationStrategy(cublasHandle_t h, cublasEmulationStrategy_t) { return taken(h); }
cublasStatus_t cublasSetEmulationSpecialValuesSupport(cublasHandle_t h, int) { return taken(h); }
cublasStatus_t cublasSetFixedPointEmulationMantissaControl(cublasHandle_t h, int) { return taken(h); }
cublasStatus_t cublasSetFixedPointEmulationMaxMantissaBitCount(cublasHandle_t h, int) { return taken(h); }
cublasStatus_t cublasSetFixedPointEmulationMantissaBitOffset(cublasHandle_t h, int) { return taken(h); }

cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy) {
    return copy_strided(n, size, x, incx, y, incy, cudaMemcpyHostToDevice);
}
cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy) {
    return copy_strided(n, size, x, incx, y, incy, cudaMemcpyDeviceToHost);
}
cublasStatus_t cublasSetMatrix(int rows, int cols, int size, const void* a, int lda, void* b, int ldb) {
    return copy_matrix(rows, cols, size, a, lda, b, ldb, cudaMemcpyHostToDevice);
}
cublasStatus_t cublasGetMatrix(int rows, int cols, int size, const void* a, int lda, void* b, int ldb) {
    return copy_matrix(rows, cols, size, a, lda, b, ldb, cudaMemcpyDeviceToHost);
}

static cublasStatus_t copy_later(int lines, int length, int size, const void* from, int from_pitch, void* to, int to_pitch, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
    if (lines < 0 || length < 0 || size <= 0 || from_pitch < length || to_pitch < length) return CUBLAS_STATUS_INVALID_VALUE;
    const size_t bytes = static_cast<size_t>(size);
    return copied(cudaMemcpy2DAsync(to, bytes * static_cast<size_t>(to_pitch), from, bytes * static_cast<size_t>(from_pitch),
                                    bytes * static_cast<size_t>(length), static_cast<size_t>(lines), kind, stream));
}
cublasStatus_t cublasSetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy, cudaStream_t stream) {
    return copy_later(n, 1, size, x, incx, y, incy, cudaMemcpyHostToDevice, stream);
}
cublasStatus_t cublasGetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy, cudaStream_t stream) {
    return copy_later(n, 1, size, x, incx, y, incy, cudaMemcpyDeviceToHost, stream);
}
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int size, const void* a, int lda, void* b, int ldb, cudaStream_t stream) {
    return copy_later(cols, rows, size, a, lda, b, ldb, cudaMemcpyHostToDevice, stream);
}
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int size, const void* a, int lda, void* b, int ldb, cudaStream_t stream) {
    return copy_later(cols, rows, size, a, lda, b, ldb, cudaMemcpyDeviceToHost, stream);
}

const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define NAME(S) \
    case S: return #S
        NAME(CUBLAS_STATUS_SUCCESS);
        NAME(CUBLAS_STATUS_NOT_INITIALIZED);
        NAME(CUBLAS_STATUS_ALLOC_FAILED);
        NAME(CUBLAS_STATUS_INVALID_VALUE);
        NAME(CUBLAS_STATUS_ARCH_MISMATCH);
        NAME(CUBLAS_STATUS_MAPPING_ERROR);
        NAME(CUBLAS_STATUS_EXECUTION_FAILED);
        NAME(CUBLAS_STATUS_INTERNAL_ERROR);
        NAME(CUBLAS_STATUS_NOT_SUPPORTED);
        NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef NAME
    }
    return "CUBLAS_STATUS_UNKNOWN";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
