// cuSOLVER's refined linear systems (cusolver_refined.h).
#include "cusolverDn.h"
#include "solver_calls.hpp"

struct cusolverDnIRSParams {
    cudaDataType type = CUDA_R_8I;
    int most = 50;
};
struct cusolverDnIRSInfos {};

namespace wmmadiag::solver {

cudaDataType main_type(cusolverDnIRSParams_t params) { return params->type; }

cusolverStatus_t gesv(Caller caller, cusolverDnHandle_t handle, Operand a, Pivots pivots, Operand b, Operand x, Room work, int* iterations,
                      int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        checked(call, b, "B");
        checked(call, x, "X");
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            const auto n = static_cast<size_t>(a.rows);
            auto factors = fetch<S>(call.name, lines(a));
            auto values = fetch<S>(call.name, lines(b));
            std::vector<int> exchanged(n);
            const int found = factored(factors, n, n, exchanged.data());
            if (found == 0) {
                solved(factors, exchanged.data(), n, CUBLAS_OP_N, values, static_cast<size_t>(b.cols));
                put<S>(call.name, lines(x), values);
                if (pivots.data != nullptr) put_pivots(call, pivots, exchanged);
            }
            if (iterations != nullptr) *iterations = 0;
            tell(call, info, found);
        });
    });
}

namespace {
cusolverStatus_t main_precision(cusolverDnIRSParams_t params, cusolverPrecType_t main) {
    if (params == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    switch (main) {
        case CUSOLVER_R_64F: params->type = CUDA_R_64F; break;
        case CUSOLVER_R_32F: params->type = CUDA_R_32F; break;
        case CUSOLVER_C_64F: params->type = CUDA_C_64F; break;
        case CUSOLVER_C_32F: params->type = CUDA_C_32F; break;
        default: return CUSOLVER_STATUS_INVALID_VALUE;
    }
    return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t no_iterations(cusolverDnIRSInfos_t infos, cusolver_int_t* count) {
    if (count == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
    *count = 0;
    return taken(infos);
}
}  // namespace

}  // namespace wmmadiag::solver

cusolverStatus_t cusolverDnIRSParamsCreate(cusolverDnIRSParams_t* params) { return wmmadiag::solver::made(params); }
cusolverStatus_t cusolverDnIRSParamsDestroy(cusolverDnIRSParams_t params) { return wmmadiag::solver::gone(params); }
cusolverStatus_t cusolverDnIRSParamsSetRefinementSolver(cusolverDnIRSParams_t params, cusolverIRSRefinement_t) {
    return wmmadiag::solver::taken(params);
}
cusolverStatus_t cusolverDnIRSParamsSetSolverMainPrecision(cusolverDnIRSParams_t params, cusolverPrecType_t main) {
    return wmmadiag::solver::main_precision(params, main);
}
cusolverStatus_t cusolverDnIRSParamsSetSolverLowestPrecision(cusolverDnIRSParams_t params, cusolverPrecType_t) {
    return wmmadiag::solver::taken(params);
}
cusolverStatus_t cusolverDnIRSParamsSetSolverPrecisions(cusolverDnIRSParams_t params, cusolverPrecType_t main, cusolverPrecType_t) {
    return wmmadiag::solver::main_precision(params, main);
}
cusolverStatus_t cusolverDnIRSParamsSetTol(cusolverDnIRSParams_t params, double) { return wmmadiag::solver::taken(params); }
cusolverStatus_t cusolverDnIRSParamsSetTolInner(cusolverDnIRSParams_t params, double) { return wmmadiag::solver::taken(params); }
cusolverStatus_t cusolverDnIRSParamsSetMaxIters(cusolverDnIRSParams_t params, cusolver_int_t most) {
    if (params != nullptr) params->most = most;
    return wmmadiag::solver::taken(params);
}
cusolverStatus_t cusolverDnIRSParamsSetMaxItersInner(cusolverDnIRSParams_t params, cusolver_int_t) { return wmmadiag::solver::taken(params); }
cusolverStatus_t cusolverDnIRSParamsGetMaxIters(cusolverDnIRSParams_t params, cusolver_int_t* most) {
    if (params != nullptr && most != nullptr) *most = params->most;
    return most == nullptr ? CUSOLVER_STATUS_INVALID_VALUE : wmmadiag::solver::taken(params);
}
cusolverStatus_t cusolverDnIRSParamsEnableFallback(cusolverDnIRSParams_t params) { return wmmadiag::solver::taken(params); }
cusolverStatus_t cusolverDnIRSParamsDisableFallback(cusolverDnIRSParams_t params) { return wmmadiag::solver::taken(params); }
cusolverStatus_t cusolverDnIRSInfosCreate(cusolverDnIRSInfos_t* infos) { return wmmadiag::solver::made(infos); }
cusolverStatus_t cusolverDnIRSInfosDestroy(cusolverDnIRSInfos_t infos) { return wmmadiag::solver::gone(infos); }
cusolverStatus_t cusolverDnIRSInfosGetNiters(cusolverDnIRSInfos_t infos, cusolver_int_t* count) {
    return wmmadiag::solver::no_iterations(infos, count);
}
cusolverStatus_t cusolverDnIRSInfosGetOuterNiters(cusolverDnIRSInfos_t infos, cusolver_int_t* count) {
    return wmmadiag::solver::no_iterations(infos, count);
}
