// Factors of dense matrices in float64, by columns: P A = L U and what it solves, Q R, Cholesky's, eigenvalues and singular values.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cublas_v2.h"
#include "elements.hpp"

namespace wmmadiag::libraries {

/// P A = L U in place, A by columns, m × n; `pivots`: with which row each was exchanged, from 1. 0, or the first zero on U's diagonal, from 1.
template <class S>
int factored(std::vector<S>& a, size_t m, size_t n, int* pivots) {
    int info = 0;
    for (size_t k = 0; k < std::min(m, n); ++k) {
        S* column = a.data() + k * m;
        if (pivots != nullptr) {
            size_t best = k;
            for (size_t i = k + 1; i < m; ++i)
                if (std::abs(column[i]) > std::abs(column[best])) best = i;
            pivots[k] = static_cast<int>(best) + 1;
            if (best != k)
                for (size_t j = 0; j < n; ++j) std::swap(a[j * m + k], a[j * m + best]);
        }
        if (column[k] == S(0)) {
            if (info == 0) info = static_cast<int>(k) + 1;
            continue;
        }
        for (size_t i = k + 1; i < m; ++i) column[i] /= column[k];
        for (size_t j = k + 1; j < n; ++j)
            for (size_t i = k + 1; i < m; ++i) a[j * m + i] -= column[i] * a[j * m + k];
    }
    return info;
}

/// op(A) x = b of the factors of A, for each column of b.
template <class S>
void solved(const std::vector<S>& lu, const int* pivots, size_t n, cublasOperation_t op, std::vector<S>& b, size_t columns) {
    const auto element = [&](size_t i, size_t j) { return op == CUBLAS_OP_C ? conjugate(lu[j * n + i]) : lu[j * n + i]; };
    for (size_t c = 0; c < columns; ++c) {
        S* x = b.data() + c * n;
        const auto exchange = [&](size_t k) {
            if (pivots != nullptr && pivots[k] >= 1 && static_cast<size_t>(pivots[k]) <= n) std::swap(x[k], x[static_cast<size_t>(pivots[k]) - 1]);
        };
        if (op == CUBLAS_OP_N) {
            for (size_t k = 0; k < n; ++k) exchange(k);
            for (size_t k = 0; k < n; ++k)
                for (size_t i = k + 1; i < n; ++i) x[i] -= lu[k * n + i] * x[k];
            for (size_t k = n; k-- > 0;) {
                x[k] /= lu[k * n + k];
                for (size_t i = 0; i < k; ++i) x[i] -= lu[k * n + i] * x[k];
            }
            continue;
        }
        for (size_t k = 0; k < n; ++k) {  // Uᵀ
            for (size_t i = 0; i < k; ++i) x[k] -= element(i, k) * x[i];
            x[k] /= element(k, k);
        }
        for (size_t k = n; k-- > 0;)  // Lᵀ
            for (size_t i = k + 1; i < n; ++i) x[k] -= element(i, k) * x[i];
        for (size_t k = n; k-- > 0;) exchange(k);
    }
}

template <class S>
std::vector<S> identity(size_t n) {
    std::vector<S> out(n * n);
    for (size_t i = 0; i < n; ++i) out[i * n + i] = S(1);
    return out;
}

template <class S>
double magnitude(S value) {
    return std::abs(value);
}

/// Q R in place: R above, Householder's vectors below with `tau` (LAPACK's convention: Q = H(1) … H(k), v(i) = 1).
template <class S>
std::vector<S> reflected(std::vector<S>& a, size_t m, size_t n) {
    std::vector<S> tau(std::min(m, n));
    for (size_t k = 0; k < tau.size(); ++k) {
        S* x = a.data() + k * m;
        double below = 0;
        for (size_t i = k + 1; i < m; ++i) below += magnitude(x[i]) * magnitude(x[i]);
        double imaginary = 0;
        if constexpr (std::is_same_v<S, Complex>) imaginary = x[k].imag();
        if (below == 0 && imaginary == 0) continue;
        const double real = std::real(x[k]), length = std::sqrt(magnitude(x[k]) * magnitude(x[k]) + below), beta = real >= 0 ? -length : length;
        tau[k] = (S(beta) - x[k]) / beta;
        const S scale = S(1) / (x[k] - S(beta));
        for (size_t i = k + 1; i < m; ++i) x[i] *= scale;
        x[k] = S(beta);
        for (size_t j = k + 1; j < n; ++j) {
            S* y = a.data() + j * m;
            S sum = y[k];
            for (size_t i = k + 1; i < m; ++i) sum += conjugate(x[i]) * y[i];
            sum *= conjugate(tau[k]);
            y[k] -= sum;
            for (size_t i = k + 1; i < m; ++i) y[i] -= x[i] * sum;
        }
    }
    return tau;
}

/// y = Q y or Qᴴ y, y of m rows; Q as `reflected` leaves it, its first `count` reflections.
template <class S>
void turn(const std::vector<S>& q, const std::vector<S>& tau, size_t m, size_t count, bool adjoint, S* y) {
    for (size_t step = 0; step < count; ++step) {
        const size_t k = adjoint ? step : count - 1 - step;
        const S* v = q.data() + k * m;
        S sum = y[k];
        for (size_t i = k + 1; i < m; ++i) sum += conjugate(v[i]) * y[i];
        sum *= adjoint ? conjugate(tau[k]) : tau[k];
        y[k] -= sum;
        for (size_t i = k + 1; i < m; ++i) y[i] -= v[i] * sum;
    }
}

/// A = L Lᴴ in place, the lower triangle of a Hermitian matrix. 0, or the first minor that is not positive, from 1.
template <class S>
int rooted(std::vector<S>& a, size_t n) {
    for (size_t k = 0; k < n; ++k) {
        S* column = a.data() + k * n;
        const double square = std::real(column[k]);
        if (!(square > 0)) return static_cast<int>(k) + 1;
        column[k] = S(std::sqrt(square));
        for (size_t i = k + 1; i < n; ++i) column[i] /= column[k];
        for (size_t j = k + 1; j < n; ++j)
            for (size_t i = j; i < n; ++i) a[j * n + i] -= column[i] * conjugate(column[j]);
    }
    return 0;
}

/// How Jacobi's rotations went: how often all pairs were visited, and what is left beside the diagonal.
struct Sweeps {
    int count = 0;
    double residual = 0;
};

/// Columns of `u` made orthogonal by rotations of pairs, which `v` gets, too; u = (what it was) · v.
template <class S>
void orthogonalised(std::vector<S>& u, size_t m, std::vector<S>& v, size_t n, Sweeps& sweeps) {
    for (; sweeps.count < 60; ++sweeps.count) {
        double beside = 0;
        bool turned = false;
        for (size_t p = 0; p + 1 < n; ++p)
            for (size_t q = p + 1; q < n; ++q) {
                S *x = u.data() + p * m, *y = u.data() + q * m;
                double xx = 0, yy = 0;
                S xy = 0;
                for (size_t i = 0; i < m; ++i) {
                    xx += std::norm(x[i]);
                    yy += std::norm(y[i]);
                    xy += conjugate(x[i]) * y[i];
                }
                const double off = std::abs(xy);
                beside += off * off;
                if (off == 0 || off <= 1e-15 * std::sqrt(xx * yy)) continue;
                turned = true;
                const double zeta = (yy - xx) / (2 * off), t = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
                const double c = 1 / std::sqrt(1 + t * t);
                const S s = xy * (c * t / off);
                const auto rotate = [&](S* one, S* other, size_t length) {
                    for (size_t i = 0; i < length; ++i) {
                        const S old = one[i];
                        one[i] = c * old - conjugate(s) * other[i];
                        other[i] = s * old + c * other[i];
                    }
                };
                rotate(x, y, m);
                rotate(v.data() + p * n, v.data() + q * n, n);
            }
        sweeps.residual = std::sqrt(beside);
        if (!turned) return;
    }
}

/// The first `count` of m columns of `u` are orthonormal or zero: zero ones, and those behind, become what completes them.
template <class S>
void completed(std::vector<S>& u, size_t m, size_t count, const std::vector<double>& lengths) {
    std::vector<size_t> missing, there;
    for (size_t k = 0; k < u.size() / m; ++k) (k < count && lengths[k] > 0 ? there : missing).push_back(k);
    size_t unit = 0;
    for (const size_t k : missing) {
        S* to = u.data() + k * m;
        for (double length = 0; length < 0.5 / std::sqrt(static_cast<double>(m)) && unit < m;) {
            std::fill(to, to + m, S(0));
            to[unit++] = S(1);
            for (int twice = 0; twice < 2; ++twice)
                for (const size_t other : there) {
                    const S* from = u.data() + other * m;
                    S sum = 0;
                    for (size_t i = 0; i < m; ++i) sum += conjugate(from[i]) * to[i];
                    for (size_t i = 0; i < m; ++i) to[i] -= sum * from[i];
                }
            length = 0;
            for (size_t i = 0; i < m; ++i) length += std::norm(to[i]);
            length = std::sqrt(length);
            if (length > 0)
                for (size_t i = 0; i < m; ++i) to[i] /= length;
        }
        there.push_back(k);
    }
}

/// A = U Σ Vᴴ of m ≥ n: singular values, falling; `u` becomes U of `columns_of_u` columns, `v` V.
template <class S>
std::vector<double> singular(std::vector<S>& u, size_t m, size_t n, size_t columns_of_u, std::vector<S>& v, Sweeps& sweeps) {
    auto turned = identity<S>(n);
    orthogonalised(u, m, turned, n, sweeps);
    std::vector<std::pair<double, size_t>> order(n);
    for (size_t k = 0; k < n; ++k) {
        double length = 0;
        for (size_t i = 0; i < m; ++i) length += std::norm(u[k * m + i]);
        order[k] = {std::sqrt(length), k};
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<S> left(m * columns_of_u);
    v.assign(n * n, S(0));
    std::vector<double> values(n);
    for (size_t k = 0; k < n; ++k) {
        const auto [length, from] = order[k];
        values[k] = length;
        std::copy_n(turned.begin() + static_cast<std::ptrdiff_t>(from * n), n, v.begin() + static_cast<std::ptrdiff_t>(k * n));
        if (k < columns_of_u && length > 0)
            for (size_t i = 0; i < m; ++i) left[k * m + i] = u[from * m + i] / length;
    }
    completed(left, m, std::min(n, columns_of_u), values);
    u = std::move(left);
    return values;
}

/// A = V diag(w) Vᴴ of a Hermitian matrix: `a` becomes V, by columns; its values rise.
template <class S>
std::vector<double> eigenvalues(std::vector<S>& a, size_t n, Sweeps& sweeps) {
    auto v = identity<S>(n);
    for (; sweeps.count < 60; ++sweeps.count) {
        double off = 0, all = 0;
        for (size_t j = 0; j < n; ++j)
            for (size_t i = 0; i < n; ++i) (i == j ? all : off) += std::norm(a[j * n + i]);
        sweeps.residual = std::sqrt(off);
        if (off <= 1e-32 * (all + off)) break;
        for (size_t p = 0; p + 1 < n; ++p)
            for (size_t q = p + 1; q < n; ++q) {
                const S pq = a[q * n + p];
                const double size = std::abs(pq);
                if (size == 0) continue;
                const double zeta = (std::real(a[q * n + q]) - std::real(a[p * n + p])) / (2 * size);
                const double t = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta)), c = 1 / std::sqrt(1 + t * t);
                const S s = pq * (c * t / size);
                for (auto* matrix : {&a, &v}) {
                    S *x = matrix->data() + p * n, *y = matrix->data() + q * n;
                    for (size_t i = 0; i < n; ++i) {
                        const S old = x[i];
                        x[i] = c * old - conjugate(s) * y[i];
                        y[i] = s * old + c * y[i];
                    }
                }
                for (size_t j = 0; j < n; ++j) {
                    S &x = a[j * n + p], &y = a[j * n + q];
                    const S old = x;
                    x = c * old - s * y;
                    y = conjugate(s) * old + c * y;
                }
            }
    }
    std::vector<std::pair<double, size_t>> order(n);
    for (size_t k = 0; k < n; ++k) order[k] = {std::real(a[k * n + k]), k};
    std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<double> values(n);
    for (size_t k = 0; k < n; ++k) {
        values[k] = order[k].first;
        std::copy_n(v.begin() + static_cast<std::ptrdiff_t>(order[k].second * n), n, a.begin() + static_cast<std::ptrdiff_t>(k * n));
    }
    return values;
}

}  // namespace wmmadiag::libraries
