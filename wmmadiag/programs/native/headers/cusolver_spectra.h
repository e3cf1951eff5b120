// cuSOLVER: some of the eigenvalues, singular values up to a rank, batches of both, and inverses of triangles.
#pragma once

#include "cusolverDn.h"

// L: the letter; T, V: the type; R: of its values; E, G, J: names that differ where it is complex.
#define WMMADIAG_SPECTRA(L, T, V, R, E, G, J)                                                                                                       \
    inline cusolverStatus_t cusolverDn##L##E##_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, cusolverEigRange_t, cublasFillMode_t, int n,     \
                                                          const T*, int, R, R, int, int, int*, const R*, int* count) {                              \
        return wmmadiag::solver::room(h, n, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##E(cusolverDnHandle_t h, cusolverEigMode_t mode, cusolverEigRange_t range, cublasFillMode_t fill, int n,  \
                                             T* a, int lda, R low, R high, int first, int last, int* found, R* w, T* work, int count, int* info,    \
                                             WMMADIAG_CALLER) {                                                                                     \
        return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, V, n, n, lda}, w, {work, V, count}, info,                               \
                                       {range, low, high, first, last, found, nullptr});                                                            \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##G##dx_bufferSize(cusolverDnHandle_t h, cusolverEigType_t, cusolverEigMode_t, cusolverEigRange_t,         \
                                                            cublasFillMode_t, int n, const T*, int, const T*, int, R, R, int, int, int*, const R*,  \
                                                            int* count) {                                                                           \
        return wmmadiag::solver::room(h, n, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##G##dx(cusolverDnHandle_t h, cusolverEigType_t type, cusolverEigMode_t mode, cusolverEigRange_t range,    \
                                                 cublasFillMode_t fill, int n, T* a, int lda, T* b, int ldb, R low, R high, int first, int last,    \
                                                 int* found, R* w, T* work, int count, int* info, WMMADIAG_CALLER) {                                \
        return wmmadiag::solver::sygvd(caller(__func__), h, type, mode, fill, {a, V, n, n, lda}, {b, V, n, n, ldb}, w, {work, V, count}, info,      \
                                       {range, low, high, first, last, found, nullptr});                                                            \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##G##j_bufferSize(cusolverDnHandle_t h, cusolverEigType_t, cusolverEigMode_t, cublasFillMode_t, int n,     \
                                                           const T*, int, const T*, int, const R*, int* count, syevjInfo_t) {                       \
        return wmmadiag::solver::room(h, n, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##G##j(cusolverDnHandle_t h, cusolverEigType_t type, cusolverEigMode_t mode, cublasFillMode_t fill, int n, \
                                                T* a, int lda, T* b, int ldb, R* w, T* work, int count, int* info, syevjInfo_t told,                \
                                                WMMADIAG_CALLER) {                                                                                  \
        return wmmadiag::solver::sygvd(caller(__func__), h, type, mode, fill, {a, V, n, n, lda}, {b, V, n, n, ldb}, w, {work, V, count}, info, {},  \
                                       told);                                                                                                       \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##J##Batched_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, cublasFillMode_t, int n, const T*, int,   \
                                                                 const R*, int* count, syevjInfo_t, int) {                                          \
        return wmmadiag::solver::room(h, n, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##J##Batched(cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T* a, int lda,    \
                                                      R* w, T* work, int count, int* info, syevjInfo_t told, int batch, WMMADIAG_CALLER) {          \
        return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, V, n, n, lda}, w, {work, V, count}, info, {},                           \
                                       {batch, int64_t(lda) * n, n, 0, 0}, told);                                                                   \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##gesvdjBatched_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, int m, int n, const T*, int, const R*, \
                                                                    const T*, int, const T*, int, int* count, gesvdjInfo_t, int) {                  \
        return wmmadiag::solver::room(h, m, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##gesvdjBatched(cusolverDnHandle_t h, cusolverEigMode_t mode, int m, int n, T* a, int lda, R* s, T* u,     \
                                                         int ldu, T* v, int ldv, T* work, int count, int* info, gesvdjInfo_t told, int batch,       \
                                                         WMMADIAG_CALLER) {                                                                         \
        const auto kept = wmmadiag::solver::vectors(mode, 0);                                                                                       \
        return wmmadiag::solver::gesvd(caller(__func__), h, kept, kept, {a, V, m, n, lda}, s, {u, V, m, m, ldu}, {v, V, n, n, ldv}, false,          \
                                       {work, V, count}, info, {batch, int64_t(lda) * n, m < n ? m : n, int64_t(ldu) * m, int64_t(ldv) * n},        \
                                       {INT64_MAX, nullptr, told});                                                                                 \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##gesvdaStridedBatched_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t, int, int m, int n, const T*,    \
                                                                           int, long long, const R*, long long, const T*, int, long long, const T*, \
                                                                           int, long long, int* count, int) {                                       \
        return wmmadiag::solver::room(h, m, n, count);                                                                                              \
    }                                                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##gesvdaStridedBatched(                                                                                    \
        cusolverDnHandle_t h, cusolverEigMode_t mode, int rank, int m, int n, const T* a, int lda, long long next_a, R* s, long long next_s, T* u,  \
        int ldu, long long next_u, T* v, int ldv, long long next_v, T* work, int count, int* info, double* residuals, int batch, WMMADIAG_CALLER) { \
        const auto kept = wmmadiag::solver::vectors(mode, 1);                                                                                       \
        return wmmadiag::solver::gesvd(caller(__func__), h, kept, kept, {a, V, m, n, lda}, s, {u, V, m, rank, ldu}, {v, V, n, rank, ldv}, false,    \
                                       {work, V, count}, info, {batch, next_a, next_s, next_u, next_v}, {rank, residuals, nullptr});                \
    }
WMMADIAG_SPECTRA(S, float, CUDA_R_32F, float, syevdx, sygv, syevj)
WMMADIAG_SPECTRA(D, double, CUDA_R_64F, double, syevdx, sygv, syevj)
WMMADIAG_SPECTRA(C, cuComplex, CUDA_C_32F, float, heevdx, hegv, heevj)
WMMADIAG_SPECTRA(Z, cuDoubleComplex, CUDA_C_64F, double, heevdx, hegv, heevj)
#undef WMMADIAG_SPECTRA

// The same by 64-bit sizes and types that are told; those without a room of their own need none on the host.
inline cusolverStatus_t cusolverDnXsyevdx_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t, cusolverEigRange_t,
                                                     cublasFillMode_t, int64_t n, cudaDataType, const void*, int64_t, void*, void*, int64_t, int64_t,
                                                     int64_t*, cudaDataType, const void*, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, n, n, device, host);
}
inline cusolverStatus_t cusolverDnXsyevdx(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t mode, cusolverEigRange_t range,
                                          cublasFillMode_t fill, int64_t n, cudaDataType type, void* a, int64_t lda, void* low, void* high,
                                          int64_t first, int64_t last, int64_t* found, cudaDataType type_w, void* w, cudaDataType, void* work,
                                          size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    const auto bound = [type_w](const void* at) -> double {
        return at == nullptr ? 0 : type_w == CUDA_R_32F ? *static_cast<const float*>(at) : *static_cast<const double*>(at);
    };
    return wmmadiag::solver::syevd(caller(__func__), h, mode, fill, {a, type, n, n, lda}, w, {work, CUDA_R_8U, int64_t(bytes)}, info,
                                   {range, bound(low), bound(high), first, last, nullptr, found});
}
inline cusolverStatus_t cusolverDnXgesvdp_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t, int, int64_t m, int64_t n,
                                                     cudaDataType, const void*, int64_t, cudaDataType, const void*, cudaDataType, const void*,
                                                     int64_t, cudaDataType, const void*, int64_t, cudaDataType, size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, m, n, device, host);
}
inline cusolverStatus_t cusolverDnXgesvdp(cusolverDnHandle_t h, cusolverDnParams_t, cusolverEigMode_t mode, int thin, int64_t m, int64_t n,
                                          cudaDataType type, void* a, int64_t lda, cudaDataType, void* s, cudaDataType type_u, void* u, int64_t ldu,
                                          cudaDataType type_v, void* v, int64_t ldv, cudaDataType, void* work, size_t bytes, void*, size_t, int* info,
                                          double* perturbation, WMMADIAG_CALLER) {
    const auto kept = wmmadiag::solver::vectors(mode, thin);
    if (perturbation != nullptr) *perturbation = 0;  // ours takes the matrix as it is
    return wmmadiag::solver::gesvd(caller(__func__), h, kept, kept, {a, type, m, n, lda}, s, {u, type_u, m, m, ldu}, {v, type_v, n, n, ldv}, false,
                                   {work, CUDA_R_8U, int64_t(bytes)}, info);
}
inline cusolverStatus_t cusolverDnXgesvdr_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t, signed char, signed char, int64_t m, int64_t n,
                                                     int64_t, int64_t, int64_t, cudaDataType, const void*, int64_t, cudaDataType, const void*,
                                                     cudaDataType, const void*, int64_t, cudaDataType, const void*, int64_t, cudaDataType,
                                                     size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, m, n, device, host);
}
inline cusolverStatus_t cusolverDnXgesvdr(cusolverDnHandle_t h, cusolverDnParams_t, signed char left, signed char right, int64_t m, int64_t n,
                                          int64_t rank, int64_t, int64_t, cudaDataType type, void* a, int64_t lda, cudaDataType, void* s,
                                          cudaDataType type_u, void* u, int64_t ldu, cudaDataType type_v, void* v, int64_t ldv, cudaDataType,
                                          void* work, size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::gesvd(caller(__func__), h, wmmadiag::solver::vectors(left), wmmadiag::solver::vectors(right), {a, type, m, n, lda}, s,
                                   {u, type_u, m, rank, ldu}, {v, type_v, n, rank, ldv}, false, {work, CUDA_R_8U, int64_t(bytes)}, info, {},
                                   {rank, nullptr, nullptr});
}
inline cusolverStatus_t cusolverDnXtrtri_bufferSize(cusolverDnHandle_t h, cublasFillMode_t, cublasDiagType_t, int64_t n, cudaDataType, void*, int64_t,
                                                    size_t* device, size_t* host) {
    return wmmadiag::solver::room(h, n, n, device, host);
}
inline cusolverStatus_t cusolverDnXtrtri(cusolverDnHandle_t h, cublasFillMode_t fill, cublasDiagType_t diag, int64_t n, cudaDataType type, void* a,
                                         int64_t lda, void* work, size_t bytes, void*, size_t, int* info, WMMADIAG_CALLER) {
    return wmmadiag::solver::trtri(caller(__func__), h, fill, diag, {a, type, n, n, lda}, {work, CUDA_R_8U, int64_t(bytes)}, info);
}
