// cuBLAS, level 1: vectors.
#include "blas_operands.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace wmmadiag::blas {

cublasStatus_t axpy(Caller caller, cublasHandle_t handle, int n, Scalar alpha, Vector x, Vector y) {
    return guarded(caller, handle, y.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if (n <= 0) return;
        const auto scale_at = factor<S>(call, alpha);
        call.submit([=] {
            const std::vector<S> from = fetch_vector<S>(call, x, static_cast<size_t>(n));
            std::vector<S> to = fetch_vector<S>(call, y, static_cast<size_t>(n));
            const S scale = scale_at();
            for (size_t i = 0; i < to.size(); ++i) to[i] += scale * from[i];
            put_vector(call, y, to);
        });
    });
}

cublasStatus_t scal(Caller caller, cublasHandle_t handle, int n, Scalar alpha, Vector x) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if (n <= 0 || x.inc <= 0) return;
        const auto scale_at = factor<S>(call, alpha);
        call.submit([=] {
            std::vector<S> values = fetch_vector<S>(call, x, static_cast<size_t>(n));
            const S scale = scale_at();
            for (S& value : values) value *= scale;
            put_vector(call, x, values);
        });
    });
}

cublasStatus_t copy(Caller caller, cublasHandle_t handle, int n, Vector x, Vector y, bool swap) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if (n <= 0) return;
        call.submit([=] {
            const std::vector<S> from = fetch_vector<S>(call, x, static_cast<size_t>(n));
            if (swap) put_vector(call, x, fetch_vector<S>(call, y, from.size()));
            put_vector(call, y, from);
        });
    });
}

cublasStatus_t dot(Caller caller, cublasHandle_t handle, int n, bool conj, Vector x, Vector y, Scalar result) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const size_t size = static_cast<size_t>(std::max(0, n));
        call.submit([=] {
            const std::vector<S> left = fetch_vector<S>(call, x, size), right = fetch_vector<S>(call, y, size);
            S sum(0);
            for (size_t i = 0; i < size; ++i) sum += (conj ? conjugate(left[i]) : left[i]) * right[i];
            answer<S>(call, result, sum);
        });
        answered(call);
    });
}

cublasStatus_t nrm2(Caller caller, cublasHandle_t handle, int n, Vector x, Scalar result) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        call.submit([=] {
            const std::vector<S> values = fetch_vector<S>(call, x, static_cast<size_t>(std::max(0, n)));
            double largest = 0, squares = 0;  // squares of shares of the largest neither overflow nor vanish
            for (const S value : values) largest = std::max(largest, std::abs(value));
            if (largest > 0 && std::isfinite(largest))
                for (const S value : values) squares += std::norm(value / largest);
            answer<double>(call, result, squares > 0 ? largest * std::sqrt(squares) : largest);
        });
        answered(call);
    });
}

namespace {
double taxicab(double value) { return std::fabs(value); }
double taxicab(Complex value) { return std::fabs(value.real()) + std::fabs(value.imag()); }
}  // namespace

cublasStatus_t asum(Caller caller, cublasHandle_t handle, int n, Vector x, Scalar result) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        call.submit([=] {
            double sum = 0;
            for (const S value : fetch_vector<S>(call, x, static_cast<size_t>(std::max(0, n)))) sum += taxicab(value);
            answer<double>(call, result, sum);
        });
        answered(call);
    });
}

cublasStatus_t extreme(Caller caller, cublasHandle_t handle, int n, Vector x, bool smallest, int* result) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        call.submit([=] {
            const std::vector<S> values = fetch_vector<S>(call, x, static_cast<size_t>(std::max(0, n)));
            size_t best = 0;
            for (size_t i = 1; i < values.size(); ++i)
                if (smallest ? taxicab(values[i]) < taxicab(values[best]) : taxicab(values[i]) > taxicab(values[best])) best = i;
            answer<double>(call, {result, CUDA_R_32I}, values.empty() ? 0 : static_cast<double>(best + 1));  // counted from one
        });
        answered(call);
    });
}

}  // namespace wmmadiag::blas
