// cuSOLVER's linear systems that are solved in a lower precision and refined: ours is solved in float64 at once, so no iteration is needed, and
// precisions, solvers of the refinement and tolerances change nothing.
#pragma once

#include "cusolverDn.h"

struct cusolverDnIRSParams;
struct cusolverDnIRSInfos;
using cusolverDnIRSParams_t = cusolverDnIRSParams*;
using cusolverDnIRSInfos_t = cusolverDnIRSInfos*;

cusolverStatus_t cusolverDnIRSParamsCreate(cusolverDnIRSParams_t* params);
cusolverStatus_t cusolverDnIRSParamsDestroy(cusolverDnIRSParams_t params);
cusolverStatus_t cusolverDnIRSParamsSetRefinementSolver(cusolverDnIRSParams_t params, cusolverIRSRefinement_t solver);
cusolverStatus_t cusolverDnIRSParamsSetSolverMainPrecision(cusolverDnIRSParams_t params, cusolverPrecType_t main);
cusolverStatus_t cusolverDnIRSParamsSetSolverLowestPrecision(cusolverDnIRSParams_t params, cusolverPrecType_t lowest);
cusolverStatus_t cusolverDnIRSParamsSetSolverPrecisions(cusolverDnIRSParams_t params, cusolverPrecType_t main, cusolverPrecType_t lowest);
cusolverStatus_t cusolverDnIRSParamsSetTol(cusolverDnIRSParams_t params, double tolerance);
cusolverStatus_t cusolverDnIRSParamsSetTolInner(cusolverDnIRSParams_t params, double tolerance);
cusolverStatus_t cusolverDnIRSParamsSetMaxIters(cusolverDnIRSParams_t params, cusolver_int_t most);
cusolverStatus_t cusolverDnIRSParamsSetMaxItersInner(cusolverDnIRSParams_t params, cusolver_int_t most);
cusolverStatus_t cusolverDnIRSParamsGetMaxIters(cusolverDnIRSParams_t params, cusolver_int_t* most);
cusolverStatus_t cusolverDnIRSParamsEnableFallback(cusolverDnIRSParams_t params);
cusolverStatus_t cusolverDnIRSParamsDisableFallback(cusolverDnIRSParams_t params);
cusolverStatus_t cusolverDnIRSInfosCreate(cusolverDnIRSInfos_t* infos);
cusolverStatus_t cusolverDnIRSInfosDestroy(cusolverDnIRSInfos_t infos);
cusolverStatus_t cusolverDnIRSInfosGetNiters(cusolverDnIRSInfos_t infos, cusolver_int_t* count);
cusolverStatus_t cusolverDnIRSInfosGetOuterNiters(cusolverDnIRSInfos_t infos, cusolver_int_t* count);

namespace wmmadiag::solver {
/// The type of A, B and X that the main precision stands for; CUDA_R_8I where none was set.
cudaDataType main_type(cusolverDnIRSParams_t params);
cusolverStatus_t gesv(Caller caller, cusolverDnHandle_t handle, Operand a, Pivots pivots, Operand b, Operand x, Room work, int* iterations,
                      int* info);
inline cusolverStatus_t byte_room(cusolverDnHandle_t handle, int64_t n, size_t* bytes) {
    size_t host = 0;
    return room(handle, n, n, bytes, &host);
}
}  // namespace wmmadiag::solver

inline cusolverStatus_t cusolverDnIRSXgesv_bufferSize(cusolverDnHandle_t h, cusolverDnIRSParams_t, cusolver_int_t n, cusolver_int_t, size_t* bytes) {
    return wmmadiag::solver::byte_room(h, n, bytes);
}
inline cusolverStatus_t cusolverDnIRSXgesv(cusolverDnHandle_t h, cusolverDnIRSParams_t params, cusolverDnIRSInfos_t, cusolver_int_t n,
                                           cusolver_int_t sides, void* a, cusolver_int_t lda, void* b, cusolver_int_t ldb, void* x,
                                           cusolver_int_t ldx, void* work, size_t bytes, cusolver_int_t* iterations, cusolver_int_t* info,
                                           WMMADIAG_CALLER) {
    if (params == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    const auto type = wmmadiag::solver::main_type(params);
    return wmmadiag::solver::gesv(caller(__func__), h, {a, type, n, n, lda}, {nullptr, false}, {b, type, n, sides, ldb}, {x, type, n, sides, ldx},
                                  {work, CUDA_R_8U, int64_t(bytes)}, iterations, info);
}

// By the letters of the main and of the lowest precision.
#define WMMADIAG_GESV(L, T, V)                                                                                                               \
    inline cusolverStatus_t cusolverDn##L##gesv_bufferSize(cusolverDnHandle_t h, cusolver_int_t n, cusolver_int_t, T*, cusolver_int_t,       \
                                                           cusolver_int_t*, T*, cusolver_int_t, T*, cusolver_int_t, void*, size_t* bytes) {  \
        return wmmadiag::solver::byte_room(h, n, bytes);                                                                                     \
    }                                                                                                                                        \
    inline cusolverStatus_t cusolverDn##L##gesv(cusolverDnHandle_t h, cusolver_int_t n, cusolver_int_t sides, T* a, cusolver_int_t lda,      \
                                                cusolver_int_t* pivots, T* b, cusolver_int_t ldb, T* x, cusolver_int_t ldx, void* work,      \
                                                size_t bytes, cusolver_int_t* iterations, cusolver_int_t* info, WMMADIAG_CALLER) {           \
        return wmmadiag::solver::gesv(caller(__func__), h, {a, V, n, n, lda}, {pivots, false}, {b, V, n, sides, ldb}, {x, V, n, sides, ldx}, \
                                      {work, CUDA_R_8U, int64_t(bytes)}, iterations, info);                                                  \
    }
WMMADIAG_GESV(DD, double, CUDA_R_64F)
WMMADIAG_GESV(DS, double, CUDA_R_64F)
WMMADIAG_GESV(DH, double, CUDA_R_64F)
WMMADIAG_GESV(DB, double, CUDA_R_64F)
WMMADIAG_GESV(DX, double, CUDA_R_64F)
WMMADIAG_GESV(SS, float, CUDA_R_32F)
WMMADIAG_GESV(SH, float, CUDA_R_32F)
WMMADIAG_GESV(SB, float, CUDA_R_32F)
WMMADIAG_GESV(SX, float, CUDA_R_32F)
WMMADIAG_GESV(ZZ, cuDoubleComplex, CUDA_C_64F)
WMMADIAG_GESV(ZC, cuDoubleComplex, CUDA_C_64F)
WMMADIAG_GESV(ZK, cuDoubleComplex, CUDA_C_64F)
WMMADIAG_GESV(ZE, cuDoubleComplex, CUDA_C_64F)
WMMADIAG_GESV(ZY, cuDoubleComplex, CUDA_C_64F)
WMMADIAG_GESV(CC, cuComplex, CUDA_C_32F)
WMMADIAG_GESV(CK, cuComplex, CUDA_C_32F)
WMMADIAG_GESV(CE, cuComplex, CUDA_C_32F)
WMMADIAG_GESV(CY, cuComplex, CUDA_C_32F)
#undef WMMADIAG_GESV
