// cuBLAS: batches of small factorisations: P A = L U, what it solves, the inverse; Q R, and least squares.
#include <cmath>
#include <cstring>
#include <string>

#include "blas_operands.hpp"
#include "factors.hpp"

namespace wmmadiag::blas {

namespace {

struct Batch {
    const Call& call;
    Matrix matrix;
    int count;

    std::vector<const void*> places() const {
        std::vector<const void*> out(static_cast<size_t>(count));
        const Lines array{matrix.data, CUDA_R_64F, out.size(), 1, out.size()};
        expect_written(call.name, array);
        if (!out.empty()) std::memcpy(out.data(), reach(call.name, array, Access::read), out.size() * sizeof(void*));
        return out;
    }
    Matrix at(const void* place) const { return {place, matrix.type, matrix.ld}; }
};

Lines integers(const int* data, size_t count) { return {data, CUDA_R_32I, count, 1, count}; }

std::vector<int> fetch_integers(const Call& call, const int* data, size_t count) {
    std::vector<int> out(count);
    for (size_t i = 0; const double value : fetch<double>(call.name, integers(data, count))) out[i++] = static_cast<int>(value);
    return out;
}
void put_integers(const Call& call, int* data, const std::vector<int>& values) {
    put<double>(call.name, integers(data, values.size()), {values.begin(), values.end()});
}

void sizes(const Call& call, int n, int ld, const char* matrix, int batch) {
    at_least(call, "n is %lld", n, 0);
    at_least(call, (std::string("the leading dimension of ") + matrix + " is %lld, and must be %lld or more").c_str(), ld, std::max(1, n));
    at_least(call, "the batch has %lld matrices", batch, 0);
}

}  // namespace

cublasStatus_t getrf(Caller caller, cublasHandle_t handle, int n, Matrix a, int* pivots, int* info, int batch) {
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        sizes(call, n, a.ld, "A", batch);
        call.submit([=] {
            const auto order = static_cast<size_t>(n);
            std::vector<int> exchanged(order * static_cast<size_t>(batch)), found;
            const Batch all{call, a, batch};
            for (const void* place : all.places()) {
                auto one = fetch<S>(call.name, columns(all.at(place), order, order));
                found.push_back(factored(one, order, order, pivots != nullptr ? exchanged.data() + found.size() * order : nullptr));
                put<S>(call.name, columns(all.at(place), order, order), one);
            }
            if (pivots != nullptr) put_integers(call, pivots, exchanged);
            put_integers(call, info, found);
        });
    });
}

cublasStatus_t getrs(Caller caller, cublasHandle_t handle, cublasOperation_t op, int n, int columns_of_b, Matrix a, const int* pivots, Matrix b,
                     int* info, int batch) {
    if (info != nullptr) *info = n < 0 ? -2 : columns_of_b < 0 ? -3 : a.ld < std::max(1, n) ? -5 : b.ld < std::max(1, n) ? -8 : batch < 0 ? -10 : 0;
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        sizes(call, n, a.ld, "A", batch);
        sizes(call, n, b.ld, "B", batch);
        at_least(call, "B has %lld columns", columns_of_b, 0);
        call.submit([=] {
            const auto order = static_cast<size_t>(n), width = static_cast<size_t>(columns_of_b);
            const Batch left{call, a, batch}, right{call, b, batch};
            const auto from = left.places(), to = right.places();
            const auto exchanged = pivots != nullptr ? fetch_integers(call, pivots, order * static_cast<size_t>(batch)) : std::vector<int>{};
            for (size_t i = 0; i < from.size(); ++i) {
                const auto factors = fetch<S>(call.name, columns(left.at(from[i]), order, order));
                auto x = fetch<S>(call.name, columns(right.at(to[i]), order, width));
                solved(factors, pivots != nullptr ? exchanged.data() + i * order : nullptr, order, op, x, width);
                put<S>(call.name, columns(right.at(to[i]), order, width), x);
            }
        });
    });
}

cublasStatus_t getri(Caller caller, cublasHandle_t handle, int n, Matrix a, const int* pivots, Matrix c, int* info, int batch, bool factors) {
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        sizes(call, n, a.ld, "A", batch);
        sizes(call, n, c.ld, "the inverse", batch);
        if (!factors && n > 32) throw not_offered(call.name, "an inverse of a matrix of more than 32 rows,", n);
        call.submit([=] {
            const auto order = static_cast<size_t>(n);
            const Batch left{call, a, batch}, right{call, c, batch};
            const auto from = left.places(), to = right.places();
            auto exchanged =
                pivots != nullptr ? fetch_integers(call, pivots, order * static_cast<size_t>(batch)) : std::vector<int>(order * !factors);
            std::vector<int> found;
            for (size_t i = 0; i < from.size(); ++i) {
                auto one = fetch<S>(call.name, columns(left.at(from[i]), order, order));
                int singular = 0;
                int* order_of_rows = !factors ? exchanged.data() : pivots != nullptr ? exchanged.data() + i * order : nullptr;
                if (!factors) singular = factored(one, order, order, order_of_rows);
                else
                    for (size_t k = order; k-- > 0;)
                        if (one[k * order + k] == S(0)) singular = static_cast<int>(k) + 1;
                found.push_back(singular);
                if (singular != 0) continue;
                auto inverse = identity<S>(order);
                solved(one, order_of_rows, order, CUBLAS_OP_N, inverse, order);
                put<S>(call.name, columns(right.at(to[i]), order, order), inverse);
            }
            put_integers(call, info, found);
        });
    });
}

cublasStatus_t geqrf(Caller caller, cublasHandle_t handle, int m, int n, Matrix a, const void* taus, int* info, int batch) {
    if (info != nullptr) *info = m < 0 ? -1 : n < 0 ? -2 : a.ld < std::max(1, m) ? -4 : batch < 0 ? -7 : 0;
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        sizes(call, m, a.ld, "A", batch);
        at_least(call, "n is %lld", n, 0);
        call.submit([=] {
            const auto rows = static_cast<size_t>(m), width = static_cast<size_t>(n);
            const Batch all{call, a, batch}, scales{call, {taus, a.type, 1}, batch};
            const auto from = all.places(), to = scales.places();
            for (size_t i = 0; i < from.size(); ++i) {
                auto one = fetch<S>(call.name, columns(all.at(from[i]), rows, width));
                const auto tau = reflected(one, rows, width);
                put<S>(call.name, columns(all.at(from[i]), rows, width), one);
                put<S>(call.name, {to[i], a.type, tau.size(), 1, tau.size()}, tau);
            }
        });
    });
}

cublasStatus_t gels(Caller caller, cublasHandle_t handle, cublasOperation_t op, int m, int n, int columns_of_c, Matrix a, Matrix c, int* info,
                    int* infos, int batch) {
    if (info != nullptr) *info = m < 0 ? -2 : n < 0 ? -3 : columns_of_c < 0 ? -4 : a.ld < std::max(1, m) ? -6 : c.ld < std::max(1, m) ? -8 : 0;
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        sizes(call, m, a.ld, "A", batch);
        sizes(call, m, c.ld, "C", batch);
        at_least(call, "there are %lld right sides", columns_of_c, 0);
        if (op != CUBLAS_OP_N) throw not_offered(call.name, "cublasOperation_t", op);
        if (m < n) throw not_offered(call.name, "a matrix with more columns than rows,", n);
        call.submit([=] {
            const auto rows = static_cast<size_t>(m), width = static_cast<size_t>(n), sides = static_cast<size_t>(columns_of_c);
            const Batch left{call, a, batch}, right{call, c, batch};
            const auto from = left.places(), to = right.places();
            std::vector<int> found;
            for (size_t i = 0; i < from.size(); ++i) {
                auto q = fetch<S>(call.name, columns(left.at(from[i]), rows, width));
                auto x = fetch<S>(call.name, columns(right.at(to[i]), rows, sides));
                const auto tau = reflected(q, rows, width);
                int singular = 0;
                for (size_t k = width; k-- > 0;)
                    if (q[k * rows + k] == S(0)) singular = static_cast<int>(k) + 1;
                for (size_t s = 0; s < sides && singular == 0; ++s) {
                    S* y = x.data() + s * rows;
                    for (size_t k = 0; k < tau.size(); ++k) {
                        S sum = y[k];
                        for (size_t r = k + 1; r < rows; ++r) sum += conjugate(q[k * rows + r]) * y[r];
                        sum *= conjugate(tau[k]);
                        y[k] -= sum;
                        for (size_t r = k + 1; r < rows; ++r) y[r] -= q[k * rows + r] * sum;
                    }
                    for (size_t k = width; k-- > 0;) {
                        y[k] /= q[k * rows + k];
                        for (size_t r = 0; r < k; ++r) y[r] -= q[k * rows + r] * y[k];
                    }
                }
                found.push_back(singular);
                put<S>(call.name, columns(left.at(from[i]), rows, width), q);
                if (singular == 0) put<S>(call.name, columns(right.at(to[i]), rows, sides), x);
            }
            if (infos != nullptr) put_integers(call, infos, found);
        });
    });
}

cublasStatus_t trsm_batched(Caller caller, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op,
                            cublasDiagType_t diag, int m, int n, Scalar alpha, Matrix a, Matrix b, int batch) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    std::vector<const void*> left, right;
    const auto status = guarded(caller, handle, a.type, [&](const Call& call, auto) {
        at_least(call, "the batch has %lld matrices", batch, 0);
        left = Batch{call, a, batch}.places();
        right = Batch{call, b, batch}.places();
    });
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (size_t i = 0; i < left.size(); ++i) {
        const auto one = trsm(caller, handle, side, fill, op, diag, m, n, alpha, {left[i], a.type, a.ld}, {right[i], b.type, b.ld});
        if (one != CUBLAS_STATUS_SUCCESS) return one;
    }
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace wmmadiag::blas
