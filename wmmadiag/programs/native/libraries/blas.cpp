// cuBLAS, levels 2 and 3, over the accessors of elements.hpp. One template per operation, on float64 or its complex numbers.
#include "blas_operands.hpp"
#include "blas_triangles.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace wmmadiag::libraries {

Refusal invalid(const char* name, const char* format, long long value, long long least) {
    char text[160];
    std::snprintf(text, sizeof text, format, value, least);
    report("library", "invalid-value", "warning", std::string(name) + ": " + text, "the call returns CUBLAS_STATUS_INVALID_VALUE and does nothing");
    return Refusal{CUBLAS_STATUS_INVALID_VALUE};
}

Refusal not_offered(const char* name, const char* what, long long value) {
    report("library", "unsupported", "warning", std::string(name) + ": " + what + " " + std::to_string(value) + " is not offered",
           "the call returns CUBLAS_STATUS_NOT_SUPPORTED and does nothing; docs/programs.md says what is offered");
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED};
}

void known_type(const char* name, const char* operand, cudaDataType type) {
    if (element_size(type) == 0) {
        char what[64];
        std::snprintf(what, sizeof what, "%s of cudaDataType", operand);
        throw not_offered(name, what, type);
    }
}

}  // namespace wmmadiag::libraries

namespace wmmadiag::blas {

using namespace libraries;

cudaDataType scale_type(cublasComputeType_t compute, cudaDataType c) {
    switch (compute) {
        case CUBLAS_COMPUTE_16F:
        case CUBLAS_COMPUTE_16F_PEDANTIC: return CUDA_R_16F;
        case CUBLAS_COMPUTE_32I:
        case CUBLAS_COMPUTE_32I_PEDANTIC: return CUDA_R_32I;
        case CUBLAS_COMPUTE_64F:
        case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
        case CUBLAS_COMPUTE_64F_PEDANTIC: return is_complex(c) ? CUDA_C_64F : CUDA_R_64F;
        default: return is_complex(c) ? CUDA_C_32F : CUDA_R_32F;
    }
}

cublasComputeType_t compute_type(cudaDataType type) {
    switch (type) {
        case CUDA_R_16F: return CUBLAS_COMPUTE_16F;
        case CUDA_R_32I: return CUBLAS_COMPUTE_32I;
        case CUDA_R_64F:
        case CUDA_C_64F: return CUBLAS_COMPUTE_64F;
        default: return CUBLAS_COMPUTE_32F;
    }
}

cublasStatus_t gemm(Caller caller, cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, Scalar alpha, Matrix a,
                    Matrix b, Scalar beta, Matrix c, int batch) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        known_type(call.name, "A", a.type);
        known_type(call.name, "B", b.type);
        at_least(call, "m is %lld", m, 0);
        at_least(call, "n is %lld", n, 0);
        at_least(call, "k is %lld", k, 0);
        at_least(call, "the batch has %lld matrices", batch, 0);
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, ta == CUBLAS_OP_N ? m : k));
        at_least(call, "ldb is %lld, and B has %lld rows", b.ld, std::max(1, tb == CUBLAS_OP_N ? k : n));
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, m));
        if (is_complex(a.type) != is_complex(c.type) || is_complex(b.type) != is_complex(c.type))
            throw not_offered(call.name, "real and complex matrices in one product: cudaDataType", a.type);
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n), depth = static_cast<size_t>(k);
        if (rows == 0 || cols == 0 || batch == 0) return;
        const auto scale_at = factor<S>(call, alpha), keep_at = factor<S>(call, beta);
        call.submit([=] {
            const S scale = scale_at(), keep = keep_at();
            const auto as = operands(call, a, batch), bs = operands(call, b, batch), cs = operands(call, c, batch);
            for (size_t i = 0; i < as.size(); ++i) {
                const Lines out{cs[i], c.type, rows, cols, static_cast<size_t>(c.ld)};
                std::vector<S> result = scaled_output<S>(call, keep, out);
                if (depth != 0 && scale != S(0)) {
                    const auto take = [&](const void* data, Matrix from, cublasOperation_t op, size_t r, size_t s) {
                        if (op != CUBLAS_OP_N) std::swap(r, s);
                        return rows_of(fetch<S>(call.name, {data, from.type, r, s, static_cast<size_t>(from.ld)}), r, s, op);
                    };
                    const std::vector<S> left = take(as[i], a, ta, rows, depth), right = take(bs[i], b, tb, depth, cols);
                    std::vector<S> product(rows * cols);
                    multiply(rows, cols, depth, left.data(), right.data(), product.data());
                    add_product(result, rows, cols, scale, product);
                }
                put(call.name, out, result);
            }
        });
    });
}

cublasStatus_t gemv(Caller caller, cublasHandle_t handle, cublasOperation_t ta, int m, int n, Scalar alpha, Matrix a, Vector x, Scalar beta,
                    Vector y) {
    return guarded(caller, handle, y.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, m));
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
        const bool plain = ta == CUBLAS_OP_N;
        const size_t outputs = plain ? rows : cols, depth = plain ? cols : rows;
        const auto scale_at = factor<S>(call, alpha), keep_at = factor<S>(call, beta);
        call.submit([=] {
            const std::vector<S> matrix = rows_of(fetch<S>(call.name, columns(a, rows, cols)), rows, cols, ta);
            const std::vector<S> from = fetch_vector<S>(call, x, depth);
            const S scale = scale_at(), keep = keep_at();
            std::vector<S> to = keep == S(0) ? std::vector<S>(outputs) : fetch_vector<S>(call, y, outputs);
            for (size_t i = 0; i < outputs; ++i) {
                S sum(0);
                for (size_t p = 0; p < depth; ++p) sum += matrix[i * depth + p] * from[p];
                to[i] = scale * sum + keep * to[i];
            }
            put_vector(call, y, to);
        });
    });
}

cublasStatus_t ger(Caller caller, cublasHandle_t handle, bool conj, int m, int n, Scalar alpha, Vector x, Vector y, Matrix a) {
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, m));
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
        const auto scale_at = factor<S>(call, alpha);
        call.submit([=] {
            std::vector<S> matrix = fetch<S>(call.name, columns(a, rows, cols));
            const std::vector<S> left = fetch_vector<S>(call, x, rows), right = fetch_vector<S>(call, y, cols);
            const S scale = scale_at();
            for (size_t j = 0; j < cols; ++j)
                for (size_t i = 0; i < rows; ++i) matrix[j * rows + i] += scale * left[i] * (conj ? conjugate(right[j]) : right[j]);
            put(call.name, columns(a, rows, cols), matrix);
        });
    });
}

cublasStatus_t geam(Caller caller, cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, Scalar alpha, Matrix a,
                    Scalar beta, Matrix b, Matrix c) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, m));
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
        const auto check = [&](Matrix from, cublasOperation_t op) {
            at_least(call, "a leading dimension is %lld, and its matrix has %lld rows", from.ld, std::max(1, op == CUBLAS_OP_N ? m : n));
        };
        check(a, ta);
        check(b, tb);
        const auto of_a = factor<S>(call, alpha), of_b = factor<S>(call, beta);
        call.submit([=] {
            std::vector<S> sum(rows * cols);
            const auto add = [&](const Factor<S>& at, Matrix from, cublasOperation_t op) {
                const S scale = at();
                if (scale == S(0)) return;  // not read
                const size_t r = op == CUBLAS_OP_N ? rows : cols, s = op == CUBLAS_OP_N ? cols : rows;
                add_product(sum, rows, cols, scale, rows_of(fetch<S>(call.name, columns(from, r, s)), r, s, op));
            };
            add(of_a, a, ta);
            add(of_b, b, tb);
            put(call.name, columns(c, rows, cols), sum);
        });
    });
}

cublasStatus_t syrk(Caller caller, cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op, int order, int k, Scalar alpha, Matrix a,
                    Scalar beta, Matrix c) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const size_t n = static_cast<size_t>(order), depth = static_cast<size_t>(k);
        const size_t r = op == CUBLAS_OP_N ? n : depth, s = op == CUBLAS_OP_N ? depth : n;
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, static_cast<long long>(std::max<size_t>(1, r)));
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, order));
        const auto scale_at = factor<S>(call, alpha), keep_at = factor<S>(call, beta);
        call.submit([=] {
            const std::vector<S> left = rows_of(fetch<S>(call.name, columns(a, r, s)), r, s, op);
            const std::vector<S> right = rows_of(left, depth, n, CUBLAS_OP_N);  // the transpose of a row-major matrix is its columns
            std::vector<S> product(n * n);
            multiply(n, n, depth, left.data(), right.data(), product.data());
            const S scale = scale_at(), keep = keep_at();
            const std::vector<S> before = keep == S(0) ? std::vector<S>(n * n) : fetch_triangle<S>(call, c, n, fill);
            each_column(c, n, fill, true, [&](size_t j, size_t first, const Lines& part) {
                std::vector<S> values(part.length);
                for (size_t i = 0; i < part.length; ++i)
                    values[i] = scale * product[(first + i) * n + j] + (keep == S(0) ? S(0) : keep * before[j * n + first + i]);
                put(call.name, part, values);
            });
        });
    });
}

namespace {

/// c = alpha · square · b (or b · square) + beta · c; `square` row-major.
template <class S>
void one_sided(const Call& call, cublasSideMode_t side, int m, int n, S alpha, const std::vector<S>& square, Matrix b, S beta, Matrix c) {
    const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
    const std::vector<S> other = rows_of(fetch<S>(call.name, columns(b, rows, cols)), rows, cols, CUBLAS_OP_N);
    std::vector<S> product(rows * cols), result = scaled_output<S>(call, beta, columns(c, rows, cols));
    if (side == CUBLAS_SIDE_LEFT) multiply(rows, cols, rows, square.data(), other.data(), product.data());
    else multiply(rows, cols, cols, other.data(), square.data(), product.data());
    add_product(result, rows, cols, alpha, product);
    put(call.name, columns(c, rows, cols), result);
}

}  // namespace

cublasStatus_t symm(Caller caller, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, int m, int n, Scalar alpha, Matrix a,
                    Matrix b, Scalar beta, Matrix c) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const int order = side == CUBLAS_SIDE_LEFT ? m : n;
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, order));
        at_least(call, "ldb is %lld, and B has %lld rows", b.ld, std::max(1, m));
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, m));
        const size_t size = static_cast<size_t>(order);
        const auto scale = factor<S>(call, alpha), keep = factor<S>(call, beta);
        call.submit([=] {
            std::vector<S> square = fetch_triangle<S>(call, a, size, fill);
            mirror(square, size, fill);
            one_sided<S>(call, side, m, n, scale(), rows_of(square, size, size, CUBLAS_OP_N), b, keep(), c);
        });
    });
}

cublasStatus_t trmm(Caller caller, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag,
                    int m, int n, Scalar alpha, Matrix a, Matrix b, Matrix c) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const int order = side == CUBLAS_SIDE_LEFT ? m : n;
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, order));
        at_least(call, "ldb is %lld, and B has %lld rows", b.ld, std::max(1, m));
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, m));
        const size_t size = static_cast<size_t>(order);
        const auto scale = factor<S>(call, alpha);
        call.submit([=] {
            std::vector<S> square = fetch_triangle<S>(call, a, size, fill, diag == CUBLAS_DIAG_NON_UNIT);
            triangle(square, size, fill, diag);
            one_sided<S>(call, side, m, n, scale(), rows_of(square, size, size, op), b, S(0), c);
        });
    });
}

cublasStatus_t trsm(Caller caller, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag,
                    int m, int n, Scalar alpha, Matrix a, Matrix b) {
    return guarded(caller, handle, b.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const bool left = side == CUBLAS_SIDE_LEFT;
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, left ? m : n));
        at_least(call, "ldb is %lld, and B has %lld rows", b.ld, std::max(1, m));
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n), size = left ? rows : cols, others = left ? cols : rows;
        const auto scale_at = factor<S>(call, alpha);
        call.submit([=] {
            std::vector<S> square = fetch_triangle<S>(call, a, size, fill, diag == CUBLAS_DIAG_NON_UNIT),
                           x = fetch<S>(call.name, columns(b, rows, cols));
            triangle(square, size, fill, diag);
            const std::vector<S> matrix = rows_of(square, size, size, op);
            const S scale = scale_at();
            // Substitution along the side that is solved: element `i` of the unknown number `j`; x·A = b is Aᵀ·xᵀ = bᵀ.
            const auto at = [&](size_t i, size_t j) -> S& { return left ? x[j * rows + i] : x[i * rows + j]; };
            const auto coefficient = [&](size_t i, size_t p) { return left ? matrix[i * size + p] : matrix[p * size + i]; };
            const bool upper = (fill == CUBLAS_FILL_MODE_UPPER) == (op == CUBLAS_OP_N), backwards = upper == left;
            for (size_t j = 0; j < others; ++j)
                for (size_t step = 0; step < size; ++step) {
                    const size_t i = backwards ? size - 1 - step : step;
                    S value = scale * at(i, j);
                    for (size_t done = 0; done < step; ++done) {
                        const size_t p = backwards ? size - 1 - done : done;
                        value -= coefficient(i, p) * at(p, j);
                    }
                    at(i, j) = diag == CUBLAS_DIAG_UNIT ? value : value / coefficient(i, i);
                }
            put(call.name, columns(b, rows, cols), x);
        });
    });
}

cublasStatus_t dgmm(Caller caller, cublasHandle_t handle, cublasSideMode_t side, int m, int n, Matrix a, Vector x, Matrix c) {
    return guarded(caller, handle, c.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
        at_least(call, "lda is %lld, and A has %lld rows", a.ld, std::max(1, m));
        at_least(call, "ldc is %lld, and C has %lld rows", c.ld, std::max(1, m));
        call.submit([=] {
            std::vector<S> matrix = fetch<S>(call.name, columns(a, rows, cols));
            const std::vector<S> diagonal = fetch_vector<S>(call, x, side == CUBLAS_SIDE_LEFT ? rows : cols);
            for (size_t j = 0; j < cols; ++j)
                for (size_t i = 0; i < rows; ++i) matrix[j * rows + i] *= diagonal[side == CUBLAS_SIDE_LEFT ? i : j];
            put(call.name, columns(c, rows, cols), matrix);
        });
    });
}

}  // namespace wmmadiag::blas
