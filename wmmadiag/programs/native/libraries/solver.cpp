// cuSOLVER's dense part: each call reads its matrices, factors them, and writes what it found.
#include "cusolverDn.h"

#include "solver_calls.hpp"

namespace wmmadiag::solver {

cusolverStatus_t room(cusolverDnHandle_t handle, int64_t rows, int64_t cols, int* count) {
    if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (rows < 0 || cols < 0 || count == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
    *count = static_cast<int>(room_for(rows, cols));
    return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t room(cusolverDnHandle_t handle, int64_t rows, int64_t cols, size_t* device, size_t* host) {
    if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (rows < 0 || cols < 0 || device == nullptr || host == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
    *device = static_cast<size_t>(room_for(rows, cols)) * widest;
    *host = 0;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t getrf(Caller caller, cusolverDnHandle_t handle, Operand a, Room work, Pivots pivots, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            const auto m = static_cast<size_t>(a.rows), n = static_cast<size_t>(a.cols);
            auto all = fetch<decltype(zero)>(call.name, lines(a));
            std::vector<int> exchanged(std::min(m, n));
            const int found = factored(all, m, n, pivots.data != nullptr ? exchanged.data() : nullptr);
            put<decltype(zero)>(call.name, lines(a), all);
            if (pivots.data != nullptr) put_pivots(call, pivots, exchanged);
            tell(call, info, found);
        });
    });
}

cusolverStatus_t getrs(Caller caller, cusolverDnHandle_t handle, cublasOperation_t op, Operand a, Pivots pivots, Operand b, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        checked(call, b, "B");
        call.submit([=] {
            const auto n = static_cast<size_t>(a.rows);
            const auto factors = fetch<decltype(zero)>(call.name, lines(a));
            const auto exchanged = pivots.data != nullptr ? pivots_of(call, pivots, n) : std::vector<int>{};
            auto x = fetch<decltype(zero)>(call.name, lines(b));
            solved(factors, pivots.data != nullptr ? exchanged.data() : nullptr, n, op, x, static_cast<size_t>(b.cols));
            put<decltype(zero)>(call.name, lines(b), x);
            tell(call, info, 0);
        });
    });
}

cusolverStatus_t potrf(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            tell(call, info, potrf_one<decltype(zero)>(call, a, fill));
        });
    });
}
cusolverStatus_t potrs(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Operand b, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        checked(call, b, "B");
        call.submit([=] {
            potrs_one<decltype(zero)>(call, a, b, fill);
            tell(call, info, 0);
        });
    });
}
cusolverStatus_t potri(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            const auto n = static_cast<size_t>(a.rows);
            const auto l = root_of<decltype(zero)>(call, a, fill);
            auto inverse = identity<decltype(zero)>(n);
            int found = 0;
            for (size_t k = n; k-- > 0;)
                if (l[k * n + k] == decltype(zero)(0)) found = static_cast<int>(k) + 1;
            for (size_t c = 0; c < n && found == 0; ++c)
                for (const bool adjoint : {false, true}) substituted(l, n, adjoint, inverse.data() + c * n);
            if (found == 0) put_triangle(call, a, fill, inverse);
            tell(call, info, found);
        });
    });
}
// The inverse of a triangle, column by column.
cusolverStatus_t trtri(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, cublasDiagType_t diag, Operand a, Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            const auto n = static_cast<size_t>(a.rows);
            auto all = fetch<decltype(zero)>(call.name, lines(a));
            const bool lower = fill == CUBLAS_FILL_MODE_LOWER, unit = diag == CUBLAS_DIAG_UNIT;
            int found = 0;
            for (size_t k = n; k-- > 0 && !unit;)
                if (all[k * n + k] == decltype(zero)(0)) found = static_cast<int>(k) + 1;
            if (found != 0) return tell(call, info, found);
            auto out = all;
            for (size_t c = 0; c < n; ++c) {
                std::vector<decltype(zero)> x(n);
                x[c] = 1;
                for (size_t step = 0; step < n; ++step) {
                    const size_t k = lower ? step : n - 1 - step;
                    if (!unit) x[k] /= all[k * n + k];
                    for (size_t i = lower ? k + 1 : 0; i < (lower ? n : k); ++i) x[i] -= all[k * n + i] * x[k];
                }
                for (size_t i = lower ? c : 0; i < (lower ? n : c + 1); ++i)
                    if (!(unit && i == c)) out[c * n + i] = x[i];
            }
            put<decltype(zero)>(call.name, lines(a), out);
            tell(call, info, 0);
        });
    });
}
cusolverStatus_t potrf_batched(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, int* info, int batch) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        if (batch < 0) wrong(call, "the batch has a size less than 0");
        call.submit([=] {
            std::vector<double> found;
            for (const void* place : places(call, a.data, batch)) found.push_back(potrf_one<decltype(zero)>(call, at(place, a), fill));
            put<double>(call.name, row(info, CUDA_R_32I, found.size()), found);
        });
    });
}
cusolverStatus_t potrs_batched(Caller caller, cusolverDnHandle_t handle, cublasFillMode_t fill, Operand a, Operand b, int* info, int batch) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        checked(call, b, "B");
        if (batch < 0) wrong(call, "the batch has a size less than 0");
        if (b.cols > 1) not_offered(call, "a batch with more than one right side each");
        call.submit([=] {
            const auto left = places(call, a.data, batch), right = places(call, b.data, batch);
            for (size_t i = 0; i < left.size(); ++i) potrs_one<decltype(zero)>(call, at(left[i], a), at(right[i], b), fill);
            tell(call, info, 0);
        });
    });
}

cusolverStatus_t geqrf(Caller caller, cusolverDnHandle_t handle, Operand a, const void* tau, Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            auto all = fetch<decltype(zero)>(call.name, lines(a));
            const auto scales = reflected(all, static_cast<size_t>(a.rows), static_cast<size_t>(a.cols));
            put<decltype(zero)>(call.name, lines(a), all);
            put<decltype(zero)>(call.name, row(tau, a.type, scales.size()), scales);
            tell(call, info, 0);
        });
    });
}
cusolverStatus_t orgqr(Caller caller, cusolverDnHandle_t handle, Operand a, int64_t k, const void* tau, Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        if (k < 0 || k > a.cols || a.cols > a.rows) wrong(call, "n is more than m, or k is more than n");
        call.submit([=] {
            using S = decltype(zero);
            use(call, work, room_for(a.rows, a.cols));
            const auto m = static_cast<size_t>(a.rows), count = static_cast<size_t>(k);
            const auto q = fetch<S>(call.name, lines(columns(a, k)));
            const auto scales = fetch<S>(call.name, row(tau, a.type, count));
            std::vector<S> out(m * static_cast<size_t>(a.cols));
            for (size_t j = 0; j < static_cast<size_t>(a.cols); ++j) {
                out[j * m + j] = S(1);
                turn(q, scales, m, count, false, out.data() + j * m);
            }
            put<S>(call.name, lines(a), out);
            tell(call, info, 0);
        });
    });
}
cusolverStatus_t ormqr(Caller caller, cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, Operand a, const void* tau, Operand c,
                       Room work, int* info) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        checked(call, c, "C");
        if (a.cols > a.rows) wrong(call, "k is more than the rows of Q");
        if (op == CUBLAS_OP_T && is_complex(a.type)) wrong(call, "CUBLAS_OP_T of a complex matrix");
        call.submit([=] {
            use(call, work, room_for(c.rows, c.cols));
            const auto count = static_cast<size_t>(a.cols), rows = static_cast<size_t>(c.rows), cols = static_cast<size_t>(c.cols);
            const auto q = fetch<S>(call.name, lines(a));
            const auto scales = fetch<S>(call.name, row(tau, a.type, count));
            auto x = fetch<S>(call.name, lines(c));
            if (side == CUBLAS_SIDE_LEFT)
                for (size_t j = 0; j < cols; ++j) turn(q, scales, rows, count, op != CUBLAS_OP_N, x.data() + j * rows);
            else
                for (size_t i = 0; i < rows; ++i) {  // C Q = (Qᴴ Cᴴ)ᴴ
                    std::vector<S> line(cols);
                    for (size_t j = 0; j < cols; ++j) line[j] = conjugate(x[j * rows + i]);
                    turn(q, scales, cols, count, op == CUBLAS_OP_N, line.data());
                    for (size_t j = 0; j < cols; ++j) x[j * rows + i] = conjugate(line[j]);
                }
            put<S>(call.name, lines(c), x);
            tell(call, info, 0);
        });
    });
}

}  // namespace wmmadiag::solver

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int* value) {
    if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUSOLVER_STATUS_INVALID_VALUE;
    const int parts[] = {CUSOLVER_VER_MAJOR, CUSOLVER_VER_MINOR, CUSOLVER_VER_PATCH};
    *value = parts[type];
    return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverGetVersion(int* version) {
    if (version == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
    *version = CUSOLVER_VERSION;
    return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) { return wmmadiag::solver::made(handle); }
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) { return wmmadiag::solver::gone(handle); }
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
    if (handle != nullptr) handle->stream = stream;
    return wmmadiag::solver::taken(handle);
}
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
    if (handle != nullptr && stream != nullptr) *stream = handle->stream;
    return stream == nullptr ? CUSOLVER_STATUS_INVALID_VALUE : wmmadiag::solver::taken(handle);
}
cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t) { return wmmadiag::solver::taken(handle); }
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) { return wmmadiag::solver::made(params); }
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) { return wmmadiag::solver::gone(params); }
cusolverStatus_t cusolverDnSetAdvOptions(cusolverDnParams_t params, cusolverDnFunction_t, cusolverAlgMode_t) {
    return wmmadiag::solver::taken(params);
}
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t* info) { return wmmadiag::solver::made(info); }
cusolverStatus_t cusolverDnDestroySyevjInfo(syevjInfo_t info) { return wmmadiag::solver::gone(info); }
cusolverStatus_t cusolverDnXsyevjSetTolerance(syevjInfo_t info, double) { return wmmadiag::solver::taken(info); }
cusolverStatus_t cusolverDnXsyevjSetMaxSweeps(syevjInfo_t info, int) { return wmmadiag::solver::taken(info); }
cusolverStatus_t cusolverDnXsyevjSetSortEig(syevjInfo_t info, int) { return wmmadiag::solver::taken(info); }
cusolverStatus_t cusolverDnXsyevjGetSweeps(cusolverDnHandle_t, syevjInfo_t info, int* sweeps) {
    if (info != nullptr && sweeps != nullptr) *sweeps = info->sweeps;
    return sweeps == nullptr ? CUSOLVER_STATUS_INVALID_VALUE : wmmadiag::solver::taken(info);
}
cusolverStatus_t cusolverDnXsyevjGetResidual(cusolverDnHandle_t, syevjInfo_t info, double* residual) {
    if (info != nullptr && residual != nullptr) *residual = info->residual;
    return residual == nullptr ? CUSOLVER_STATUS_INVALID_VALUE : wmmadiag::solver::taken(info);
}
cusolverStatus_t cusolverDnXgesvdjGetSweeps(cusolverDnHandle_t handle, gesvdjInfo_t info, int* sweeps) {
    return cusolverDnXsyevjGetSweeps(handle, info, sweeps);
}
cusolverStatus_t cusolverDnXgesvdjGetResidual(cusolverDnHandle_t handle, gesvdjInfo_t info, double* residual) {
    return cusolverDnXsyevjGetResidual(handle, info, residual);
}
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* info) { return wmmadiag::solver::made(info); }
cusolverStatus_t cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info) { return wmmadiag::solver::gone(info); }
cusolverStatus_t cusolverDnXgesvdjSetTolerance(gesvdjInfo_t info, double) { return wmmadiag::solver::taken(info); }
cusolverStatus_t cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t info, int) { return wmmadiag::solver::taken(info); }
cusolverStatus_t cusolverDnXgesvdjSetSortEig(gesvdjInfo_t info, int) { return wmmadiag::solver::taken(info); }
