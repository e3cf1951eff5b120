// A product of cuBLASLt: matrices by their layouts, the epilogue, and what is checked before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "blas.hpp"
#include "cublasLt.h"

namespace wmmadiag::lt {

using namespace libraries;

struct Layout {
    uint64_t rows, cols;
    int64_t ld, batch_stride;
    int64_t plane;  // of complex numbers, bytes from their real to their imaginary parts; 0: side by side
    uint32_t type;
    int32_t order, batches, batch_mode;

    /// Of what lies in memory: real numbers where parts lie apart.
    cudaDataType stored() const {
        const auto whole = static_cast<cudaDataType>(type);
        if (plane == 0) return whole;
        switch (whole) {
            case CUDA_C_16F: return CUDA_R_16F;
            case CUDA_C_16BF: return CUDA_R_16BF;
            case CUDA_C_32F: return CUDA_R_32F;
            case CUDA_C_64F: return CUDA_R_64F;
            default: throw not_offered("cublasLtMatmul", "with planes, the type", whole);
        }
    }
};

struct Description {
    const void *scales[4], *bias, *aux;  // of A, B, C, D
    void* largest;                       // of |D|
    void* emulation;                     // what says how doubles are emulated
    int64_t bias_stride, aux_ld, aux_stride;
    int32_t compute, scale_type, pointers, transposed[3], fill, sm_count, bias_type, aux_type, modes[4];
    uint32_t epilogue;
    int8_t fast;
};

constexpr char matmul_name[] = "cublasLtMatmul";

/// One matrix of a batch as a dense row-major array; rows and columns are those of the layout, before op.
struct View {
    const void* data;
    Layout layout;

    bool by_rows() const { return layout.order == CUBLASLT_ORDER_ROW; }
    Lines lines() const {
        const uint64_t length = by_rows() ? layout.cols : layout.rows, lines = by_rows() ? layout.rows : layout.cols;
        return {data, layout.stored(), length, lines, static_cast<size_t>(layout.ld)};
    }
    View imaginary() const { return {static_cast<const char*>(data) + layout.plane, layout}; }
    View of_batch(int i) const {
        if (layout.batch_mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY) {
            const size_t count = static_cast<size_t>(layout.batches);
            const Lines pointers{data, CUDA_R_64F, count, 1, count};
            const std::byte* at = reach(matmul_name, pointers, Access::read);
            expect_written(matmul_name, pointers);
            return {reinterpret_cast<const void* const*>(at)[i], layout};
        }
        const auto size = static_cast<int64_t>(element_size(layout.stored()));
        return {static_cast<const char*>(data) + (layout.batches > 1 ? i * layout.batch_stride * size : 0), layout};
    }
};

template <class S>
std::vector<S> turned(const std::vector<S>& from, size_t rows, size_t cols) {
    std::vector<S> out(from.size());
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < cols; ++j) out[j * rows + i] = from[i * cols + j];
    return out;
}

template <class S>
std::vector<S> rows_of(const View& view, int op) {
    std::vector<S> values = fetch<S>(matmul_name, view.lines());
    if constexpr (std::is_same_v<S, Complex>)
        if (view.layout.plane != 0) {
            const std::vector<double> imaginary = fetch<double>(matmul_name, view.imaginary().lines());
            for (size_t i = 0; i < values.size(); ++i) values[i].imag(imaginary[i]);
        }
    if (!view.by_rows()) values = turned(values, view.layout.cols, view.layout.rows);
    if (op != CUBLAS_OP_N) values = turned(values, view.layout.rows, view.layout.cols);
    if (op == CUBLAS_OP_C)
        for (S& value : values) value = conjugate(value);
    return values;
}

template <class S>
void put_rows(const View& view, const std::vector<S>& values) {
    const std::vector<S> lines = view.by_rows() ? values : turned(values, view.layout.rows, view.layout.cols);
    if constexpr (std::is_same_v<S, Complex>)
        if (view.layout.plane != 0) {
            std::vector<double> real(lines.size()), imaginary(lines.size());
            for (size_t i = 0; i < lines.size(); ++i) real[i] = lines[i].real(), imaginary[i] = lines[i].imag();
            put(matmul_name, view.lines(), real);
            return put(matmul_name, view.imaginary().lines(), imaginary);
        }
    put(matmul_name, view.lines(), lines);
}

// cuBLASLt's GELU is the one with tanh (its reference: "GELU tanh approximation").
constexpr double gelu_inner = 0.79788456080286535588, gelu_cubic = 0.044715;
inline double gelu(double x) { return 0.5 * x * (1 + std::tanh(gelu_inner * (x + gelu_cubic * x * x * x))); }
inline double gelu_slope(double x) {
    const double t = std::tanh(gelu_inner * (x + gelu_cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_inner * (1 + 3 * gelu_cubic * x * x);
}

struct Matmul {
    Description desc;
    size_t m, n, k;
    cudaDataType d_type;
    Call call;

    bool asks(uint32_t bit) const { return (desc.epilogue & bit) != 0; }

    cudaDataType bias_type() const {
        if (desc.bias_type >= 0) return static_cast<cudaDataType>(desc.bias_type);
        if (element_size(d_type) == 1) return d_type == CUDA_R_8I ? CUDA_R_32F : CUDA_R_16BF;
        return d_type;
    }
    Lines bias_at(int batch, size_t count) const {
        const cudaDataType type = bias_type();
        known_type(matmul_name, "the bias", type);
        if (desc.bias == nullptr) throw invalid(matmul_name, "the epilogue has a bias, and CUBLASLT_MATMUL_DESC_BIAS_POINTER is not set", 0, 0);
        return {static_cast<const char*>(desc.bias) + batch * desc.bias_stride * static_cast<int64_t>(element_size(type)), type, count, 1, count};
    }
    /// The matrix beside D that a backward pass needs: the input of GELU, by columns; for ReLU one bit per element.
    Lines aux_at(int batch, bool bits) const {
        const cudaDataType type = bits ? CUDA_R_8U : desc.aux_type >= 0 ? static_cast<cudaDataType>(desc.aux_type) : d_type;
        known_type(matmul_name, "the auxiliary matrix", type);
        const int64_t least = static_cast<int64_t>(m);
        if (desc.aux == nullptr || desc.aux_ld < least)
            throw invalid(matmul_name, "the epilogue's auxiliary matrix has leading dimension %lld, D has %lld rows", desc.aux_ld, least);
        const int64_t unit = bits ? 8 : 1, offset = batch * desc.aux_stride * static_cast<int64_t>(element_size(type)) / unit;
        return {static_cast<const char*>(desc.aux) + offset, type, bits ? (m + 7) / 8 : m, n, static_cast<size_t>(desc.aux_ld / unit)};
    }

    void epilogue(std::vector<double>& d, const std::vector<double>& a, const std::vector<double>& b, int batch) const {
        if (asks(CUBLASLT_EPILOGUE_BIAS)) {
            const std::vector<double> bias = fetch<double>(matmul_name, bias_at(batch, m));
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j < n; ++j) d[i * n + j] += bias[i];
        }
        const bool bits = asks(CUBLASLT_EPILOGUE_RELU) || asks(8);
        if (asks(128) && (asks(CUBLASLT_EPILOGUE_RELU) || asks(CUBLASLT_EPILOGUE_GELU))) {
            const Lines at = aux_at(batch, bits);
            std::vector<double> kept(at.length * at.lines);
            for (size_t j = 0; j < n; ++j)
                for (size_t i = 0; i < m; ++i)
                    if (bits) kept[j * at.length + i / 8] += d[i * n + j] > 0 ? double(1 << (i % 8)) : 0;
                    else kept[j * at.length + i] = d[i * n + j];
            put(matmul_name, at, kept);
        }
        if (asks(CUBLASLT_EPILOGUE_RELU))
            for (double& value : d) value = value > 0 || value != value ? value : 0;
        if (asks(CUBLASLT_EPILOGUE_GELU))
            for (double& value : d) value = gelu(value);
        if (asks(8) || asks(64)) {
            const Lines at = aux_at(batch, bits);
            const std::vector<double> kept = fetch<double>(matmul_name, at);
            for (size_t j = 0; j < n; ++j)
                for (size_t i = 0; i < m; ++i) {
                    const double slope = bits ? double(int(kept[j * at.length + i / 8]) >> (i % 8) & 1) : gelu_slope(kept[j * at.length + i]);
                    d[i * n + j] *= slope;
                }
        }
        std::vector<double> gradient;
        if (asks(16) || asks(CUBLASLT_EPILOGUE_BGRADA)) gradient.resize(m);
        if (asks(CUBLASLT_EPILOGUE_BGRADB)) gradient.resize(n);
        if (asks(16))
            for (size_t i = 0; i < m; ++i)
                for (size_t j = 0; j < n; ++j) gradient[i] += d[i * n + j];
        if (asks(CUBLASLT_EPILOGUE_BGRADA))
            for (size_t i = 0; i < m; ++i)
                for (size_t p = 0; p < k; ++p) gradient[i] += a[i * k + p];
        if (asks(CUBLASLT_EPILOGUE_BGRADB))
            for (size_t p = 0; p < k; ++p)
                for (size_t j = 0; j < n; ++j) gradient[j] += b[p * n + j];
        if (!gradient.empty()) put(matmul_name, bias_at(batch, gradient.size()), gradient);
    }
    void epilogue(std::vector<Complex>&, const std::vector<Complex>&, const std::vector<Complex>&, int) const {
        if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT) throw not_offered(matmul_name, "with complex numbers the epilogue", desc.epilogue);
    }

    /// Factors of one operand or of the output: one number, or one per row of A and column of B.
    std::vector<double> factors(int operand, size_t count) const {
        if (desc.scales[operand] == nullptr) return std::vector<double>(count, 1.0);
        const bool vector = desc.modes[operand] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
        if (!vector && desc.modes[operand] != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)
            throw not_offered(matmul_name, "scale mode", desc.modes[operand]);
        std::vector<double> values = fetch<double>(matmul_name, {desc.scales[operand], CUDA_R_32F, vector ? count : 1, 1, vector ? count : 1});
        values.resize(count, values[0]);
        return values;
    }

    template <class S>
    void run(const void* alpha, const View& a, const View& b, const void* beta, const View& c, const View& d) const {
        const auto type = static_cast<cudaDataType>(desc.scale_type);
        const bool on_host = desc.pointers == CUBLASLT_POINTER_MODE_HOST;
        const auto now = [&](const void* at) { return on_host ? load<S>(type, at) : S(0); };
        const auto later = [=](S value, const void* at) { return on_host ? value : fetch<S>(matmul_name, {at, type, 1, 1, 1})[0]; };
        const S scale_now = now(alpha), keep_now = now(beta);
        call.submit([=, *this] { compute<S>(later(scale_now, alpha), a, b, later(keep_now, beta), c, d); });
    }

    template <class S>
    void compute(S scale, const View& a, const View& b, S keep, const View& c, const View& d) const {
        const std::vector<double> of_a = factors(0, m), of_b = factors(1, n), of_c = factors(2, 1), of_d = factors(3, 1);
        double largest = 0;
        for (int i = 0; i < std::max(1, d.layout.batches); ++i) {
            const std::vector<S> left = rows_of<S>(a.of_batch(i), desc.transposed[0]), right = rows_of<S>(b.of_batch(i), desc.transposed[1]);
            std::vector<S> result(m * n), before;
            multiply(m, n, k, left.data(), right.data(), result.data());
            if (keep != S(0)) before = rows_of<S>(c.of_batch(i), desc.transposed[2]);
            for (size_t r = 0; r < m; ++r)
                for (size_t s = 0; s < n; ++s) {
                    S& value = result[r * n + s];
                    value *= scale * of_a[r] * of_b[s];
                    if (keep != S(0)) value += keep * of_c[0] * before[r * n + s];
                }
            epilogue(result, left, right, i);
            for (S& value : result) {
                largest = std::max(largest, std::abs(value));
                value *= of_d[0];
            }
            put_rows(d.of_batch(i), result);
        }
        if (desc.largest != nullptr) put<double>(matmul_name, {desc.largest, CUDA_R_32F, 1, 1, 1}, {largest});
    }
};

inline void check_shape(const char* operand, const Layout& layout, uint64_t rows, uint64_t cols) {
    known_type(matmul_name, operand, layout.stored());
    if (layout.batch_mode != CUBLASLT_BATCH_MODE_STRIDED && layout.batch_mode != CUBLASLT_BATCH_MODE_POINTER_ARRAY)
        throw not_offered(matmul_name, "batch mode", layout.batch_mode);
    if (layout.plane != 0 && layout.batches > 1) throw not_offered(matmul_name, "with planes, a batch of", layout.batches);
    char format[96];
    std::snprintf(format, sizeof format, "%s has %%lld rows, the product needs %%lld", operand);
    if (layout.rows != rows) throw invalid(matmul_name, format, static_cast<long long>(layout.rows), static_cast<long long>(rows));
    std::snprintf(format, sizeof format, "%s has %%lld columns, the product needs %%lld", operand);
    if (layout.cols != cols) throw invalid(matmul_name, format, static_cast<long long>(layout.cols), static_cast<long long>(cols));
    if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW)
        throw not_offered(matmul_name, "the order of a layout", layout.order);
    const uint64_t length = layout.order == CUBLASLT_ORDER_ROW ? cols : rows;
    std::snprintf(format, sizeof format, "%s has leading dimension %%lld, its lines have %%lld elements", operand);
    if (layout.ld < static_cast<int64_t>(length)) throw invalid(matmul_name, format, layout.ld, static_cast<long long>(length));
}

inline Matmul checked(const Description& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d, Call call) {
    const bool ta = desc.transposed[0] != CUBLAS_OP_N, tb = desc.transposed[1] != CUBLAS_OP_N;
    const uint64_t k = ta ? a.rows : a.cols, m = d.rows, n = d.cols;
    check_shape("A", a, ta ? k : m, ta ? m : k);
    check_shape("B", b, tb ? n : k, tb ? k : n);
    if (desc.transposed[2] != CUBLAS_OP_N) throw not_offered(matmul_name, "CUBLASLT_MATMUL_DESC_TRANSC", desc.transposed[2]);
    check_shape("C", c, m, n);
    check_shape("D", d, m, n);
    if (desc.fill != CUBLAS_FILL_MODE_FULL) throw not_offered(matmul_name, "fill mode", desc.fill);
    if (desc.pointers != CUBLASLT_POINTER_MODE_HOST && desc.pointers != CUBLASLT_POINTER_MODE_DEVICE)
        throw not_offered(matmul_name, "pointer mode", desc.pointers);
    known_type(matmul_name, "alpha and beta", static_cast<cudaDataType>(desc.scale_type));
    return {desc, m, n, k, static_cast<cudaDataType>(d.type), call};
}

}  // namespace wmmadiag::lt
