// cuBLAS: matrices of which a part is stored, packed or as a band, times vectors; and rotations. What is not stored is not touched.
#include <cmath>

#include "blas_operands.hpp"

namespace wmmadiag::blas {

namespace {

/// A column's stored elements: the first row, how many there are, and where the first lies.
struct Part {
    size_t column, first, count, offset;
};

/// The stored elements of a matrix; `diagonal`: whether those on it are among them.
std::vector<Part> parts_of(const Stored& a, size_t rows, size_t cols, bool diagonal = true) {
    std::vector<Part> parts;
    const size_t ld = static_cast<size_t>(a.matrix.ld), above = static_cast<size_t>(a.above), below = static_cast<size_t>(a.below);
    const bool upper = a.fill == CUBLAS_FILL_MODE_UPPER, half = a.shape != Shape::general;
    for (size_t j = 0; j < cols; ++j) {
        size_t first = 0, last = rows, offset = j * ld;  // of row 0, where that is stored
        if (half) (upper ? last : first) = upper ? j + 1 : j;
        if (a.layout == Layout::packed) offset = upper ? j * (j + 1) / 2 : j * rows - j * (j + 1) / 2;
        if (a.layout == Layout::band) {
            first = std::max(first, j > above ? j - above : 0);
            last = std::min(last, j + below + 1);
            offset = j * ld + above - j;  // wraps around, and back with the first row
        }
        if (half && !diagonal) upper ? --last : ++first;
        if (first < last) parts.push_back({j, first, last - first, offset + first});
    }
    return parts;
}

Lines lines_of(const Stored& a, const Part& part) {
    const auto* begin = static_cast<const char*>(a.matrix.data) + part.offset * element_size(a.matrix.type);
    return {begin, a.matrix.type, part.count, 1, part.count};
}

/// The whole matrix by columns: the other half as its shape has it, zeros elsewhere.
template <class S>
std::vector<S> whole(const Call& call, const Stored& a, size_t rows, size_t cols, cublasDiagType_t diag = CUBLAS_DIAG_NON_UNIT) {
    std::vector<S> out(rows * cols);
    for (const auto& part : parts_of(a, rows, cols, diag == CUBLAS_DIAG_NON_UNIT)) {
        const auto values = fetch<S>(call.name, lines_of(a, part));
        for (size_t i = 0; i < part.count; ++i) {
            const auto row = part.first + i;
            out[part.column * rows + row] = values[i];
            if (a.shape == Shape::symmetric) out[row * rows + part.column] = values[i];
            if (a.shape != Shape::hermitian) continue;
            out[row * rows + part.column] = conjugate(values[i]);
            if (row == part.column) out[row * rows + row] = S(std::real(values[i]));  // what its imaginary part holds does not count
        }
    }
    if (diag == CUBLAS_DIAG_UNIT)
        for (size_t j = 0; j < cols; ++j) out[j * rows + j] = S(1);
    return out;
}

void fits(const Call& call, const Stored& a, int rows) {
    if (rows < 0) throw invalid(call.name, "a matrix of %lld rows; there are %lld or more", rows, 0);
    if (a.layout == Layout::full) at_least(call, "lda is %lld, and A has %lld rows", a.matrix.ld, std::max(1, rows));
    if (a.layout == Layout::band) at_least(call, "lda is %lld, and the band has %lld diagonals", a.matrix.ld, a.above + a.below + 1);
}

}  // namespace

cublasStatus_t stored_times(Caller caller, cublasHandle_t handle, cublasOperation_t op, int m, int n, Scalar alpha, Stored a, Vector x, Scalar beta,
                            Vector y) {
    return guarded(caller, handle, y.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        fits(call, a, m);
        const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n);
        const size_t outputs = op == CUBLAS_OP_N ? rows : cols, depth = op == CUBLAS_OP_N ? cols : rows;
        const auto scale_at = factor<S>(call, alpha), keep_at = factor<S>(call, beta);
        call.submit([=] {
            const auto matrix = rows_of(whole<S>(call, a, rows, cols), rows, cols, op);
            const auto from = fetch_vector<S>(call, x, depth);
            const S scale = scale_at(), keep = keep_at();
            auto to = keep == S(0) ? std::vector<S>(outputs) : fetch_vector<S>(call, y, outputs);
            for (size_t i = 0; i < outputs; ++i) {
                S sum(0);
                for (size_t p = 0; p < depth; ++p) sum += matrix[i * depth + p] * from[p];
                to[i] = scale * sum + keep * to[i];
            }
            put_vector(call, y, to);
        });
    });
}

cublasStatus_t triangle_times(Caller caller, cublasHandle_t handle, cublasOperation_t op, cublasDiagType_t diag, int n, Stored a, Vector x,
                              bool solved) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        fits(call, a, n);
        const size_t size = static_cast<size_t>(n);
        call.submit([=] {
            const auto matrix = rows_of(whole<S>(call, a, size, size, diag), size, size, op);
            auto values = fetch_vector<S>(call, x, size);
            const bool upper = (a.fill == CUBLAS_FILL_MODE_UPPER) == (op == CUBLAS_OP_N);
            // A product reads rows that are not yet done, a solution those that are.
            for (size_t step = 0; step < size; ++step) {
                const size_t i = upper == solved ? size - 1 - step : step;
                const size_t first = upper ? i + 1 : 0, last = upper ? size : i;
                S sum = solved ? values[i] : matrix[i * size + i] * values[i];
                for (size_t p = first; p < last; ++p) sum += (solved ? S(-1) : S(1)) * matrix[i * size + p] * values[p];
                values[i] = solved ? sum / matrix[i * size + i] : sum;
            }
            put_vector(call, x, values);
        });
    });
}

cublasStatus_t added_products(Caller caller, cublasHandle_t handle, int n, Scalar alpha, Vector x, Vector y, Stored a) {
    return guarded(caller, handle, a.matrix.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        fits(call, a, n);
        const size_t size = static_cast<size_t>(n);
        const auto scale_at = factor<S>(call, alpha);
        const bool turned = a.shape == Shape::hermitian;
        call.submit([=] {
            const auto left = fetch_vector<S>(call, x, size), right = y.data != nullptr ? fetch_vector<S>(call, y, size) : left;
            const S scale = scale_at();
            const auto of = [&](const std::vector<S>& values, size_t i) { return turned ? conjugate(values[i]) : values[i]; };
            for (const auto& part : parts_of(a, size, size)) {
                const auto lines = lines_of(a, part);
                auto values = fetch<S>(call.name, lines);
                for (size_t i = 0; i < part.count; ++i) {
                    const auto row = part.first + i;
                    values[i] += scale * left[row] * of(right, part.column);
                    if (y.data != nullptr) values[i] += (turned ? conjugate(scale) : scale) * right[row] * of(left, part.column);
                    if (turned && row == part.column) values[i] = S(std::real(values[i]));
                }
                put<S>(call.name, lines, values);
            }
        });
    });
}

cublasStatus_t rotate(Caller caller, cublasHandle_t handle, int n, Vector x, Vector y, Scalar c, Scalar s) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if (n <= 0) return;
        const auto cosine_at = factor<S>(call, c), sine_at = factor<S>(call, s);
        call.submit([=] {
            auto left = fetch_vector<S>(call, x, static_cast<size_t>(n)), right = fetch_vector<S>(call, y, static_cast<size_t>(n));
            const S cosine = cosine_at(), sine = sine_at();
            for (size_t i = 0; i < left.size(); ++i) {
                const S first = left[i], second = right[i];
                left[i] = cosine * first + sine * second;
                right[i] = cosine * second - conjugate(sine) * first;
            }
            put_vector(call, x, left);
            put_vector(call, y, right);
        });
    });
}

cublasStatus_t make_rotation(Caller caller, cublasHandle_t handle, Scalar a, Scalar b, Scalar c, Scalar s) {
    return guarded(caller, handle, a.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if constexpr (std::is_same_v<S, Complex>) throw not_offered(call.name, "cudaDataType", a.type);
        else {
            const auto first_at = factor<double>(call, a), second_at = factor<double>(call, b);
            call.submit([=] {
                // BLAS, ROTG: the sign of the larger; b keeps c and s in one number.
                const double first = first_at(), second = second_at(), larger = std::fabs(first) > std::fabs(second) ? first : second;
                const double r = std::copysign(std::hypot(first, second), larger);
                const double cosine = r == 0 ? 1 : first / r, sine = r == 0 ? 0 : second / r;
                const double kept = std::fabs(first) > std::fabs(second) ? sine : cosine != 0 ? 1 / cosine : 1;
                answer<double>(call, a, r);
                answer<double>(call, b, r == 0 ? 0 : kept);
                answer<double>(call, c, cosine);
                answer<double>(call, s, sine);
            });
            answered(call);
        }
    });
}

cublasStatus_t repacked(Caller caller, cublasHandle_t handle, int n, Stored from, Stored to) {
    return guarded(caller, handle, from.matrix.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        fits(call, from, n);
        fits(call, to, n);
        const size_t size = static_cast<size_t>(n);
        call.submit([=] {
            const auto sources = parts_of(from, size, size), targets = parts_of(to, size, size);
            for (size_t i = 0; i < sources.size(); ++i) put<S>(call.name, lines_of(to, targets[i]), fetch<S>(call.name, lines_of(from, sources[i])));
        });
    });
}

// BLAS, ROTM: the matrix by columns, of which the flag says what is stored.
cublasStatus_t modified_rotate(Caller caller, cublasHandle_t handle, int n, Vector x, Vector y, Scalar parameters) {
    return guarded(caller, handle, x.type, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        if (n <= 0) return;
        std::vector<double> given(5);
        const size_t size = element_size(parameters.type);
        for (size_t i = 0; i < 5 && !call.device_scalars; ++i)
            given[i] = load_real(parameters.type, static_cast<const char*>(parameters.data) + i * size);
        call.submit([=] {
            const auto p = call.device_scalars ? fetch<double>(call.name, {parameters.data, parameters.type, 5, 1, 5}) : given;
            if (p[0] == -2) return;
            const double a = p[0] == 0 ? 1 : p[1], b = p[0] == 1 ? 1 : p[3], c = p[0] == 1 ? -1 : p[2], d = p[0] == 0 ? 1 : p[4];
            auto left = fetch_vector<S>(call, x, static_cast<size_t>(n)), right = fetch_vector<S>(call, y, static_cast<size_t>(n));
            for (size_t i = 0; i < left.size(); ++i) {
                const S first = left[i], second = right[i];
                left[i] = a * first + b * second;
                right[i] = c * first + d * second;
            }
            put_vector(call, x, left);
            put_vector(call, y, right);
        });
    });
}

// BLAS, ROTMG: scaled so that neither factor leaves what squares of 4096 bound.
cublasStatus_t make_modified_rotation(Caller caller, cublasHandle_t handle, Scalar d1, Scalar d2, Scalar x1, Scalar y1, Scalar parameters) {
    return guarded(caller, handle, x1.type, [&](const Call& call, auto) {
        const auto first_at = factor<double>(call, d1), second_at = factor<double>(call, d2), x_at = factor<double>(call, x1),
                   y_at = factor<double>(call, y1);
        call.submit([=] {
            double a = first_at(), b = second_at(), x = x_at();
            const double y = y_at(), gamma = 4096;
            double flag = -1, h11 = 0, h12 = 0, h21 = 0, h22 = 0;
            const auto zeroed = [&] { flag = -1, h11 = h12 = h21 = h22 = a = b = x = 0; };
            const double p1 = a * x, p2 = b * y, q1 = p1 * x, q2 = p2 * y;
            if (a < 0) zeroed();
            else if (p2 == 0) flag = -2;
            else if (std::fabs(q1) > std::fabs(q2)) {
                h21 = -y / x;
                h12 = p2 / p1;
                const double u = 1 - h12 * h21;
                if (u > 0) flag = 0, a /= u, b /= u, x *= u;
                else zeroed();
            } else if (q2 < 0) {
                zeroed();
            } else {
                flag = 1;
                h11 = p1 / p2;
                h22 = x / y;
                const double u = 1 + h11 * h22, kept = b / u;
                b = a / u;
                a = kept;
                x = y * u;
            }
            const auto whole = [&] {
                if (flag == 0) h11 = h22 = 1;
                if (flag == 1) h21 = -1, h12 = 1;
                flag = -1;
            };
            while (flag != -2 && a != 0 && (a <= 1 / (gamma * gamma) || a >= gamma * gamma)) {
                whole();
                const double by = a <= 1 / (gamma * gamma) ? gamma : 1 / gamma;
                a *= by * by, x /= by, h11 /= by, h12 /= by;
            }
            while (flag != -2 && b != 0 && (std::fabs(b) <= 1 / (gamma * gamma) || std::fabs(b) >= gamma * gamma)) {
                whole();
                const double by = std::fabs(b) <= 1 / (gamma * gamma) ? gamma : 1 / gamma;
                b *= by * by, h21 /= by, h22 /= by;
            }
            answer<double>(call, d1, a);
            answer<double>(call, d2, b);
            answer<double>(call, x1, x);
            const double stored[] = {flag, h11, h21, h12, h22};
            const bool told[] = {true, flag == -1 || flag == 1, flag == -1 || flag == 0, flag == -1 || flag == 0, flag == -1 || flag == 1};
            for (size_t i = 0; i < 5; ++i) {
                const auto* at = static_cast<const char*>(parameters.data) + i * element_size(parameters.type);
                if (told[i]) answer<double>(call, {at, parameters.type}, stored[i]);
            }
        });
        answered(call);
    });
}

}  // namespace wmmadiag::blas
