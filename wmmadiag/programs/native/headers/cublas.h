// cuBLAS as programs called it before handles: the same work by a handle of the header's own.
#pragma once
#include <cublas_v2.h>

typedef cublasStatus_t cublasStatus;

inline cublasHandle_t& wmmadiag_cublas() {
    static cublasHandle_t handle = nullptr;
    return handle;
}
inline cublasStatus_t& wmmadiag_cublas_error() {
    static cublasStatus_t error = CUBLAS_STATUS_SUCCESS;
    return error;
}
inline void wmmadiag_cublas_done(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) wmmadiag_cublas_error() = status;
}
inline cublasStatus_t cublasInit() { return wmmadiag_cublas() != nullptr ? CUBLAS_STATUS_SUCCESS : cublasCreate(&wmmadiag_cublas()); }
inline cublasStatus_t cublasShutdown() {
    const auto status = wmmadiag_cublas() != nullptr ? cublasDestroy(wmmadiag_cublas()) : CUBLAS_STATUS_NOT_INITIALIZED;
    wmmadiag_cublas() = nullptr;
    return status;
}
inline cublasStatus_t cublasGetError() {
    const auto status = wmmadiag_cublas_error();
    wmmadiag_cublas_error() = CUBLAS_STATUS_SUCCESS;
    return status;
}
inline cublasStatus_t cublasAlloc(int count, int size, void** to) {
    return cudaMalloc(to, static_cast<size_t>(count) * static_cast<size_t>(size)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
inline cublasStatus_t cublasFree(void* memory) { return cudaFree(memory) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR; }
inline cublasStatus_t cublasSetKernelStream(cudaStream_t stream) { return cublasSetStream(wmmadiag_cublas(), stream); }

inline cublasOperation_t wmmadiag_operation(char c) {
    return c == 'n' || c == 'N' ? CUBLAS_OP_N : c == 't' || c == 'T' ? CUBLAS_OP_T : CUBLAS_OP_C;
}
inline cublasFillMode_t wmmadiag_fill(char c) { return c == 'u' || c == 'U' ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER; }
inline cublasSideMode_t wmmadiag_side(char c) { return c == 'l' || c == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT; }
inline cublasDiagType_t wmmadiag_diagonal(char c) { return c == 'u' || c == 'U' ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT; }

#define WMMADIAG_BLAS(P, T)                                                                                                                    \
    inline void cublas##P##gemm(char a, char b, int m, int n, int k, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) { \
        wmmadiag_cublas_done(cublas##P##gemm(wmmadiag_cublas(), wmmadiag_operation(a), wmmadiag_operation(b), m, n, k, &alpha, A, lda, B, ldb, \
                                             &beta, C, ldc));                                                                                  \
    }                                                                                                                                          \
    inline void cublas##P##gemv(char a, int m, int n, T alpha, const T* A, int lda, const T* x, int incx, T beta, T* y, int incy) {            \
        wmmadiag_cublas_done(cublas##P##gemv(wmmadiag_cublas(), wmmadiag_operation(a), m, n, &alpha, A, lda, x, incx, &beta, y, incy));        \
    }                                                                                                                                          \
    inline void cublas##P##axpy(int n, T alpha, const T* x, int incx, T* y, int incy) {                                                        \
        wmmadiag_cublas_done(cublas##P##axpy(wmmadiag_cublas(), n, &alpha, x, incx, y, incy));                                                 \
    }                                                                                                                                          \
    inline void cublas##P##scal(int n, T alpha, T* x, int incx) { wmmadiag_cublas_done(cublas##P##scal(wmmadiag_cublas(), n, &alpha, x, incx)); } \
    inline void cublas##P##copy(int n, const T* x, int incx, T* y, int incy) {                                                                 \
        wmmadiag_cublas_done(cublas##P##copy(wmmadiag_cublas(), n, x, incx, y, incy));                                                         \
    }                                                                                                                                          \
    inline void cublas##P##swap(int n, T* x, int incx, T* y, int incy) {                                                                       \
        wmmadiag_cublas_done(cublas##P##swap(wmmadiag_cublas(), n, x, incx, y, incy));                                                         \
    }                                                                                                                                          \
    inline void cublas##P##trsm(char side, char fill, char a, char unit, int m, int n, T alpha, const T* A, int lda, T* B, int ldb) {          \
        wmmadiag_cublas_done(cublas##P##trsm(wmmadiag_cublas(), wmmadiag_side(side), wmmadiag_fill(fill), wmmadiag_operation(a),               \
                                             wmmadiag_diagonal(unit), m, n, &alpha, A, lda, B, ldb));                                          \
    }
#define WMMADIAG_REAL_BLAS(P, T)                                                                                                               \
    inline T cublas##P##dot(int n, const T* x, int incx, const T* y, int incy) {                                                               \
        T result{};                                                                                                                            \
        wmmadiag_cublas_done(cublas##P##dot(wmmadiag_cublas(), n, x, incx, y, incy, &result));                                                 \
        return result;                                                                                                                         \
    }                                                                                                                                          \
    inline T cublas##P##nrm2(int n, const T* x, int incx) {                                                                                    \
        T result{};                                                                                                                            \
        wmmadiag_cublas_done(cublas##P##nrm2(wmmadiag_cublas(), n, x, incx, &result));                                                         \
        return result;                                                                                                                         \
    }                                                                                                                                          \
    inline T cublas##P##asum(int n, const T* x, int incx) {                                                                                    \
        T result{};                                                                                                                            \
        wmmadiag_cublas_done(cublas##P##asum(wmmadiag_cublas(), n, x, incx, &result));                                                         \
        return result;                                                                                                                         \
    }                                                                                                                                          \
    inline void cublas##P##ger(int m, int n, T alpha, const T* x, int incx, const T* y, int incy, T* A, int lda) {                             \
        wmmadiag_cublas_done(cublas##P##ger(wmmadiag_cublas(), m, n, &alpha, x, incx, y, incy, A, lda));                                       \
    }                                                                                                                                          \
    inline void cublas##P##syrk(char fill, char a, int n, int k, T alpha, const T* A, int lda, T beta, T* C, int ldc) {                        \
        wmmadiag_cublas_done(cublas##P##syrk(wmmadiag_cublas(), wmmadiag_fill(fill), wmmadiag_operation(a), n, k, &alpha, A, lda, &beta, C, ldc)); \
    }
#define WMMADIAG_INDEX_BLAS(P, T)                                                             \
    inline int cublasI##P##amax(int n, const T* x, int incx) {                                \
        int result = 0;                                                                       \
        wmmadiag_cublas_done(cublasI##P##amax(wmmadiag_cublas(), n, x, incx, &result));       \
        return result;                                                                        \
    }                                                                                         \
    inline int cublasI##P##amin(int n, const T* x, int incx) {                                \
        int result = 0;                                                                       \
        wmmadiag_cublas_done(cublasI##P##amin(wmmadiag_cublas(), n, x, incx, &result));       \
        return result;                                                                        \
    }
WMMADIAG_BLAS(S, float)
WMMADIAG_BLAS(D, double)
WMMADIAG_BLAS(C, cuComplex)
WMMADIAG_BLAS(Z, cuDoubleComplex)
WMMADIAG_REAL_BLAS(S, float)
WMMADIAG_REAL_BLAS(D, double)
WMMADIAG_INDEX_BLAS(s, float)
WMMADIAG_INDEX_BLAS(d, double)
#undef WMMADIAG_BLAS
#undef WMMADIAG_REAL_BLAS
#undef WMMADIAG_INDEX_BLAS
