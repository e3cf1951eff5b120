// cuSOLVER's dense part as programs see it, on the emulator's device memory: names, argument orders and enum values are those of its
// API reference; the arithmetic is ours, in float64, rounded once to the output's type. What is not declared here is not offered.
#pragma once

#include "cusolver_common.h"

struct cusolverDnContext;
struct cusolverDnParams;
struct syevjInfo;
using cusolverDnHandle_t = cusolverDnContext*;
using cusolverDnParams_t = cusolverDnParams*;
using syevjInfo_t = syevjInfo*;
using gesvdjInfo_t = syevjInfo*;
enum cusolverDnFunction_t { CUSOLVERDN_GETRF = 0, CUSOLVERDN_POTRF = 1 };
enum cusolverDeterministicMode_t { CUSOLVER_DETERMINISTIC_RESULTS = 1, CUSOLVER_ALLOW_NON_DETERMINISTIC_RESULTS = 2 };

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream);
cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode);
// Algorithms and tolerances change nothing: all give our one result.
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params);
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params);
cusolverStatus_t cusolverDnSetAdvOptions(cusolverDnParams_t params, cusolverDnFunction_t function, cusolverAlgMode_t algorithm);
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t* info);
cusolverStatus_t cusolverDnDestroySyevjInfo(syevjInfo_t info);
cusolverStatus_t cusolverDnXsyevjSetTolerance(syevjInfo_t info, double tolerance);
cusolverStatus_t cusolverDnXsyevjSetMaxSweeps(syevjInfo_t info, int sweeps);
cusolverStatus_t cusolverDnXsyevjSetSortEig(syevjInfo_t info, int sorted);
cusolverStatus_t cusolverDnXsyevjGetSweeps(cusolverDnHandle_t handle, syevjInfo_t info, int* sweeps);
cusolverStatus_t cusolverDnXsyevjGetResidual(cusolverDnHandle_t handle, syevjInfo_t info, double* residual);
cusolverStatus_t cusolverDnXgesvdjGetSweeps(cusolverDnHandle_t handle, gesvdjInfo_t info, int* sweeps);
cusolverStatus_t cusolverDnXgesvdjGetResidual(cusolverDnHandle_t handle, gesvdjInfo_t info, double* residual);
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* info);
cusolverStatus_t cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info);
cusolverStatus_t cusolverDnXgesvdjSetTolerance(gesvdjInfo_t info, double tolerance);
cusolverStatus_t cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t info, int sweeps);
cusolverStatus_t cusolverDnXgesvdjSetSortEig(gesvdjInfo_t info, int sorted);

namespace wmmadiag::solver {
/// A matrix by columns; `cols` are told where a call has them.
struct Operand {
    const void* data;
    cudaDataType type;
    int64_t rows, cols, ld;
};
/// Room on the device that a call was given: elements of a type.
struct Room {
    void* data;
    cudaDataType type;
    int64_t count;
};
struct Pivots {
    const void* data;
    bool wide;  // 64 bits each
};
enum class Vectors { none, square, thin, in_place };

cusolverStatus_t room(cusolverDnHandle_t handle, int64_t rows, int64_t cols, int* count);
cusolverStatus_t room(cusolverDnHandle_t handle, int64_t rows, int64_t cols, size_t* device, size_t* host);
cusolverStatus_t getrf(Caller caller, cusolverDnHandle_t handle, Operand a, Room work, Pivots pivots, int* info);
cusolverStatus_t getrs(Caller caller, cusolverDnHandle_t handle, cublasOperation_t op, Operand a, Pivots pivots, Operand b, int* info);
cusolverStatus_t potrf(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Room work, int* info);
cusolverStatus_t potrs(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Operand b, int* info);
cusolverStatus_t potri(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Room work, int* info);
cusolverStatus_t potrf_batched(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, int* info, int batch);
cusolverStatus_t potrs_batched(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Operand b, int* info, int batch);
cusolverStatus_t geqrf(Caller caller, cusolverDnHandle_t handle, Operand a, const void* tau, Room work, int* info);
cusolverStatus_t orgqr(Caller caller, cusolverDnHandle_t handle, Operand a, int64_t k, const void* tau, Room work, int* info);
cusolverStatus_t ormqr(Caller caller, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, Operand a, const void* tau, Operand c,
                       Room work, int* info);
/// Which eigenvalues are wanted: all, those from `low` (not itself) to `high`, or the `first`-th to the `last`-th, from 1.
struct Range {
    cusolverEigRange_t kind = CUSOLVER_EIG_RANGE_ALL;
    double low = 0, high = 0;
    int64_t first = 0, last = 0;
    int* found = nullptr;  // on the host: how many there were
    int64_t* found_wide = nullptr;
};
/// Elements from one matrix of a batch to the next.
struct Batch {
    int64_t count = 1, a = 0, s = 0, u = 0, v = 0;
};
/// What is wanted of a decomposition besides: `most` singular values, and where the host is told what those left out amount to.
struct Kept {
    int64_t most = INT64_MAX;
    double* residuals = nullptr;
    syevjInfo* told = nullptr;
};
cusolverStatus_t syevd(Caller caller, cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill, Operand a, void* w, Room work,
                       int* info, Range range = {}, Batch batch = {}, syevjInfo* told = nullptr);
cusolverStatus_t sygvd(Caller caller, cusolverDnHandle_t handle, cusolverEigType_t type, cusolverEigMode_t mode, cublasFillMode_t fill, Operand a,
                       Operand b, void* w, Room work, int* info, Range range = {}, syevjInfo* told = nullptr);
cusolverStatus_t gesvd(Caller caller, cusolverDnHandle_t handle, Vectors left, Vectors right, Operand a, void* s, Operand u, Operand v, bool adjoint,
                       Room work, int* info, Batch batch = {}, Kept kept = {});
cusolverStatus_t trtri(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, cublasDiagType_t diag, Operand a, Room work, int* info);
inline Vectors vectors(signed char job) {
    return job == 'A' ? Vectors::square : job == 'S' ? Vectors::thin : job == 'O' ? Vectors::in_place : Vectors::none;
}
inline Vectors vectors(cusolverEigMode_t mode, int thin) {
    return mode == CUSOLVER_EIG_MODE_NOVECTOR ? Vectors::none : thin != 0 ? Vectors::thin : Vectors::square;
}
}  // namespace wmmadiag::solver

// L: the letter; T, V: the type; R: of its values; Q, M, E, G, J: names that differ where it is complex.
#define WMMADIAG_SOLVER(L, T, V, R, Q, M, E, G, J)                                                                                                   \
    inline cusolverStatus_t cusolverDn##L##getrf_bufferSize(cusolverDnHandle_t h, int m, int n, T*, int, int* count) {                               \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##getrf(cusolverDnHandle_t h, int m, int n, T* a, int lda, T* work, int* pivots, int* info,                 \
                                                 WMMADIAG_CALLER) {                                                                                  \
        return wmmadiag::solver::getrf(caller(__func__), h, {a, V, m, n, lda}, {work, V, -1}, {pivots, false}, info);                                \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##getrs(cusolverDnHandle_t h, cublasOperation_t op, int n, int sides, const T* a, int lda,                  \
                                                 const int* pivots, T* b, int ldb, int* info, WMMADIAG_CALLER) {                                     \
        return wmmadiag::solver::getrs(caller(__func__), h, op, {a, V, n, n, lda}, {pivots, false}, {b, V, n, sides, ldb}, info);                    \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potrf_bufferSize(cusolverDnHandle_t h, cublasFillMode_t, int n, T*, int, int* count) {                    \
        return wmmadiag::solver::room(h, n, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potrf(cusolverDnHandle_t h, cublasFillMode_t fill, int n, T* a, int lda, T* work, int count, int* info,   \
                                                 WMMADIAG_CALLER) {                                                                                  \
        return wmmadiag::solver::potrf(caller(__func__), h, fill, {a, V, n, n, lda}, {work, V, count}, info);                                        \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potrs(cusolverDnHandle_t h, cublasFillMode_t fill, int n, int sides, const T* a, int lda, T* b, int ldb,  \
                                                 int* info, WMMADIAG_CALLER) {                                                                       \
        return wmmadiag::solver::potrs(caller(__func__), h, fill, {a, V, n, n, lda}, {b, V, n, sides, ldb}, info);                                   \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potri_bufferSize(cusolverDnHandle_t h, cublasFillMode_t, int n, T*, int, int* count) {                    \
        return wmmadiag::solver::room(h, n, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potri(cusolverDnHandle_t h, cublasFillMode_t fill, int n, T* a, int lda, T* work, int count, int* info,   \
                                                 WMMADIAG_CALLER) {                                                                                  \
        return wmmadiag::solver::potri(caller(__func__), h, fill, {a, V, n, n, lda}, {work, V, count}, info);                                        \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potrfBatched(cusolverDnHandle_t h, cublasFillMode_t fill, int n, T* a[], int lda, int* infos, int batch,  \
                                                        WMMADIAG_CALLER) {                                                                           \
        return wmmadiag::solver::potrf_batched(caller(__func__), h, fill, {a, V, n, n, lda}, infos, batch);                                          \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##potrsBatched(cusolverDnHandle_t h, cublasFillMode_t fill, int n, int sides, T* a[], int lda, T* b[],      \
                                                        int ldb, int* info, int batch, WMMADIAG_CALLER) {                                            \
        return wmmadiag::solver::potrs_batched(caller(__func__), h, fill, {a, V, n, n, lda}, {b, V, n, sides, ldb}, info, batch);                    \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##geqrf_bufferSize(cusolverDnHandle_t h, int m, int n, T*, int, int* count) {                               \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##geqrf(cusolverDnHandle_t h, int m, int n, T* a, int lda, T* tau, T* work, int count, int* info,           \
                                                 WMMADIAG_CALLER) {                                                                                  \
        return wmmadiag::solver::geqrf(caller(__func__), h, {a, V, m, n, lda}, tau, {work, V, count}, info);                                         \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##Q##_bufferSize(cusolverDnHandle_t h, int m, int n, int, const T*, int, const T*, int* count) {            \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##Q(cusolverDnHandle_t h, int m, int n, int k, T* a, int lda, const T* tau, T* work, int count, int* info,  \
                                             WMMADIAG_CALLER) {                                                                                      \
        return wmmadiag::solver::orgqr(caller(__func__), h, {a, V, m, n, lda}, k, tau, {work, V, count}, info);                                      \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##M##_bufferSize(cusolverDnHandle_t h, cublasSideMode_t, cublasOperation_t, int m, int n, int, const T*,    \
                                                          int, const T*, const T*, int, int* count) {                                                \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##M(cusolverDnHandle_t h, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const T* a,     \
                                             int lda, const T* tau, T* c, int ldc, T* work, int count, int* info, WMMADIAG_CALLER) {                 \
        return wmmadiag::solver::ormqr(caller(__func__), h, side, op, {a, V, side == CUBLAS_SIDE_LEFT ? m : n, k, lda}, tau, {c, V, m, n, ldc},      \
                                       {work, V, count}, info);                                                                                      \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##E##_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, cublasFillMode_t, int n, const T*, int, const R*, \
                                                          int* count) {                                                                              \
        return wmmadiag::solver::room(h, n, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##E(cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda, R* w,        \
                                             T* work, int count, int* info, WMMADIAG_CALLER) {                                                       \
        return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, V, n, n, lda}, w, {work, V, count}, info);                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##J##_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, cublasFillMode_t, int n, const T*, int, const R*, \
                                                          int* count, syevjInfo_t) {                                                                 \
        return wmmadiag::solver::room(h, n, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##J(cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda, R* w,        \
                                             T* work, int count, int* info, syevjInfo_t told, WMMADIAG_CALLER) {                                     \
        return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, V, n, n, lda}, w, {work, V, count}, info, {}, {}, told);                 \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##G##_bufferSize(cusolverDnHandle_t h, cusolverEigType_t, cusolverEigMode_t, cublasFillMode_t, int n,       \
                                                          const T*, int, const T*, int, const R*, int* count) {                                      \
        return wmmadiag::solver::room(h, n, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##G(cusolverDnHandle_t h, cusolverEigType_t type, cusolverEigMode_t mode, cublasFillMode_t fill, int n,     \
                                             T* a, int lda, T* b, int ldb, R* w, T* work, int count, int* info, WMMADIAG_CALLER) {                   \
        return wmmadiag::solver::sygvd(caller(__func__), h, type, mode, fill, {a, V, n, n, lda}, {b, V, n, n, ldb}, w, {work, V, count}, info);      \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##gesvd_bufferSize(cusolverDnHandle_t h, int m, int n, int* count) {                                        \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##gesvd(cusolverDnHandle_t h, signed char left, signed char right, int m, int n, T* a, int lda, R* s, T* u, \
                                                 int ldu, T* v, int ldv, T* work, int count, R*, int* info, WMMADIAG_CALLER) {                       \
        return wmmadiag::solver::gesvd(caller(__func__), h, wmmadiag::solver::vectors(left), wmmadiag::solver::vectors(right), {a, V, m, n, lda}, s, \
                                       {u, V, m, m, ldu}, {v, V, n, n, ldv}, true, {work, V, count}, info);                                          \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##gesvdj_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, int, int m, int n, const T*, int, const R*,    \
                                                             const T*, int, const T*, int, int* count, gesvdjInfo_t) {                               \
        return wmmadiag::solver::room(h, m, n, count);                                                                                               \
    }                                                                                                                                                \
    inline cusolverStatus_t cusolverDn##L##gesvdj(cusolverDnHandle_t h, cusolverEigMode_t mode, int thin, int m, int n, T* a, int lda, R* s, T* u,   \
                                                  int ldu, T* v, int ldv, T* work, int count, int* info, gesvdjInfo_t told, WMMADIAG_CALLER) {       \
        const auto kept = wmmadiag::solver::vectors(mode, thin);                                                                                     \
        return wmmadiag::solver::gesvd(caller(__func__), h, kept, kept, {a, V, m, n, lda}, s, {u, V, m, m, ldu}, {v, V, n, n, ldv}, false,           \
                                       {work, V, count}, info, {}, {INT64_MAX, nullptr, told});                                                      \
    }
WMMADIAG_SOLVER(S, float, CUDA_R_32F, float, orgqr, ormqr, syevd, sygvd, syevj)
WMMADIAG_SOLVER(D, double, CUDA_R_64F, double, orgqr, ormqr, syevd, sygvd, syevj)
WMMADIAG_SOLVER(C, cuComplex, CUDA_C_32F, float, ungqr, unmqr, heevd, hegvd, heevj)
WMMADIAG_SOLVER(Z, cuDoubleComplex, CUDA_C_64F, double, ungqr, unmqr, heevd, hegvd, heevj)
#undef WMMADIAG_SOLVER

// The same by 64-bit sizes and types that are told.
inline cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType, const void*,
                                                    int64_t, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, m, n, device, host);
}
inline cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void* a, int64_t lda,
                                         int64_t* pivots, cudaDataType, void* work, size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::getrf(caller(__func__), h, {a, type, m, n, lda}, {work, CUDA_R_8U, int64_t(bytes)}, {pivots, true}, info);
}
inline cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t h, cusolverDnParams_t, cublasOperation_t op, int64_t n, int64_t sides, cudaDataType type,
                                         const void* a, int64_t lda, const int64_t* pivots, cudaDataType type_b, void* b, int64_t ldb, int* info,
                                         WMMADIAG_CALLER) {
    return wmmadiag::solver::getrs(caller(__func__), h, op, {a, type, n, n, lda}, {pivots, true}, {b, type_b, n, sides, ldb}, info);
}
inline cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, cublasFillMode_t, int64_t n, cudaDataType, const void*,
                                                    int64_t, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, n, n, device, host);
}
inline cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t h, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, cudaDataType type, void* a,
                                         int64_t lda, cudaDataType, void* work, size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::potrf(caller(__func__), h, fill, {a, type, n, n, lda}, {work, CUDA_R_8U, int64_t(bytes)}, info);
}
inline cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t h, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, int64_t sides, cudaDataType type,
                                         const void* a, int64_t lda, cudaDataType type_b, void* b, int64_t ldb, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::potrs(caller(__func__), h, fill, {a, type, n, n, lda}, {b, type_b, n, sides, ldb}, info);
}
inline cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType, const void*,
                                                    int64_t, cudaDataType, const void*, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, m, n, device, host);
}
inline cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void* a, int64_t lda,
                                         cudaDataType, void* tau, cudaDataType, void* work, size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::geqrf(caller(__func__), h, {a, type, m, n, lda}, tau, {work, CUDA_R_8U, int64_t(bytes)}, info);
}
inline cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t n,
                                                    cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType, size_t* device,
                                                    size_t* host) {
    return wmmadiag::solver::room(h, n, n, device, host);
}
inline cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n,
                                         cudaDataType type, void* a, int64_t lda, cudaDataType, void* w, cudaDataType, void* work, size_t bytes,
                                         void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, type, n, n, lda}, w, {work, CUDA_R_8U, int64_t(bytes)}, info);
}
inline cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, signed char, signed char, int64_t m, int64_t n,
                                                    cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType, const void*, int64_t,
                                                    cudaDataType, const void*, int64_t, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, m, n, device, host);
}
inline cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t h, cusolverDnParams_t, signed char left, signed char right, int64_t m, int64_t n,
                                         cudaDataType type, void* a, int64_t lda, cudaDataType, void* s, cudaDataType type_u, void* u, int64_t ldu,
                                         cudaDataType type_v, void* v, int64_t ldv, cudaDataType, void* work, size_t bytes, void*, size_t, int* info,
                                         WMMADIAG_CALLER) {
    return wmmadiag::solver::gesvd(caller(__func__), h, wmmadiag::solver::vectors(left), wmmadiag::solver::vectors(right), {a, type, m, n, lda}, s,
                                   {u, type_u, m, m, ldu}, {v, type_v, n, n, ldv}, true, {work, CUDA_R_8U, int64_t(bytes)}, info);
}

#include "cusolver_refined.h"
#include "cusolver_spectra.h"
