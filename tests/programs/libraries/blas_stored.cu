// cuBLAS on halves, bands, packed matrices, and rotations, against plain loops. What is not stored holds NaN. Exit code: how many differ.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <string>
#include <vector>

using C = std::complex<double>;
static int failures = 0;
static void expect(bool good, const std::string& what) {
    if (good) return;
    ++failures;
    printf("FAILED %s\n", what.c_str());
}

static unsigned state = 1;
static double number() {
    state = state * 1664525u + 1013904223u;
    return (int(state >> 24) % 9 - 4) * 0.25;
}

struct Real {
    using T = double;
    static T store(C x) { return x.real(); }
    static C load(T x) { return x; }
    static C random() { return number(); }
};
struct Whole {
    using T = cuComplex;
    static T store(C x) { return make_cuComplex(float(x.real()), float(x.imag())); }
    static C load(T x) { return C(x.x, x.y); }
    static C random() { return C(number(), number()); }
};

template <class K>
struct Device {
    typename K::T* data;
    size_t count;
    Device(const std::vector<C>& host) : count(host.size()) {
        std::vector<typename K::T> values;
        for (auto x : host) values.push_back(K::store(x));
        cudaMalloc(&data, count * sizeof(*data));
        cudaMemcpy(data, values.data(), count * sizeof(*data), cudaMemcpyHostToDevice);
    }
    ~Device() { cudaFree(data); }
    std::vector<C> host() const {
        std::vector<typename K::T> values(count);
        cudaMemcpy(values.data(), data, count * sizeof(*data), cudaMemcpyDeviceToHost);
        std::vector<C> out;
        for (auto x : values) out.push_back(K::load(x));
        return out;
    }
};

static const int n = 6, ld = 8, wide = 2;
static const double nan_value = std::nan("");

static bool stored(bool upper, int i, int j) { return upper ? i <= j : i >= j; }
enum Layout { full, band, packed };
// Where element (i, j) of a half lies.
static int place(Layout layout, bool upper, int i, int j) {
    if (layout == full) return i + j * ld;
    if (layout == band) return (upper ? wide + i - j : i - j) + j * ld;
    return upper ? i + j * (j + 1) / 2 : i + (2 * n - j - 1) * j / 2;
}
static bool in_band(Layout layout, int i, int j) { return layout != band || std::abs(i - j) <= wide; }

template <class K>
std::vector<C> vector_of(int inc) {
    std::vector<C> x((n - 1) * inc + 1, nan_value);
    for (int i = 0; i < n; ++i) x[i * inc] = K::random();
    return x;
}

// A half with what it stands for: `turned`: the other half is its conjugate; `triangle`: zeros.
struct Half {
    std::vector<C> memory, meant;
};
template <class K>
Half half_of(Layout layout, bool upper, bool turned, bool triangle, bool unit) {
    Half made{std::vector<C>(ld * n, nan_value), std::vector<C>(n * n)};
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i) {
            if (!stored(upper, i, j) || !in_band(layout, i, j)) continue;
            C x = K::random() + (i == j ? C(3) : C(0));
            if (turned && i == j) x = x.real();
            if (!(unit && i == j)) made.memory[place(layout, upper, i, j)] = x;
            if (unit && i == j) x = 1;
            made.meant[i + j * n] = x;
            if (!triangle && i != j) made.meant[j + i * n] = turned ? std::conj(x) : x;
        }
    return made;
}
static C element(const std::vector<C>& a, cublasOperation_t op, int i, int j) {
    if (op == CUBLAS_OP_N) return a[i + j * n];
    return op == CUBLAS_OP_C ? std::conj(a[j + i * n]) : a[j + i * n];
}
static bool close(C a, C b) { return std::abs(a - b) <= 1e-4 * (1 + std::abs(b)); }

template <class K, class Full, class Band, class Packed>
void symmetric(cublasHandle_t h, const char* name, bool turned, Full times, Band band_times, Packed packed_times) {
    for (bool upper : {false, true})
        for (auto layout : {full, band, packed}) {
            const auto fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
            const auto a = half_of<K>(layout, upper, turned, false, false);
            const auto x = vector_of<K>(2), y = vector_of<K>(1);
            Device<K> da(a.memory), dx(x), dy(y);
            const auto two = K::store(2), part = K::store(0.5);
            cublasStatus_t done;
            if (layout == full) done = times(h, fill, n, &two, da.data, ld, dx.data, 2, &part, dy.data, 1);
            else if (layout == band) done = band_times(h, fill, n, wide, &two, da.data, ld, dx.data, 2, &part, dy.data, 1);
            else done = packed_times(h, fill, n, &two, da.data, dx.data, 2, &part, dy.data, 1);
            const auto got = dy.host();
            bool good = done == CUBLAS_STATUS_SUCCESS;
            for (int i = 0; i < n; ++i) {
                C sum = 0;
                for (int p = 0; p < n; ++p) sum += a.meant[i + p * n] * x[p * 2];
                good &= close(got[i], 2.0 * sum + 0.5 * y[i]);
            }
            expect(good, std::string(name) + " layout " + std::to_string(layout));
        }
}

template <class K, class Full, class Band, class Packed>
void triangular(cublasHandle_t h, const char* name, bool solved, Full full_call, Band band_call, Packed packed_call) {
    for (bool upper : {false, true})
        for (auto layout : {full, band, packed})
            for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C})
                for (bool unit : {false, true}) {
                    const auto fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
                    const auto diag = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
                    const auto a = half_of<K>(layout, upper, false, true, unit);
                    const auto x = vector_of<K>(1);
                    Device<K> da(a.memory), dx(x);
                    cublasStatus_t done;
                    if (layout == full) done = full_call(h, fill, op, diag, n, da.data, ld, dx.data, 1);
                    else if (layout == band) done = band_call(h, fill, op, diag, n, wide, da.data, ld, dx.data, 1);
                    else done = packed_call(h, fill, op, diag, n, da.data, dx.data, 1);
                    const auto got = dx.host();
                    const auto &from = solved ? got : x, &to = solved ? x : got;
                    bool good = done == CUBLAS_STATUS_SUCCESS;
                    for (int i = 0; i < n; ++i) {
                        C sum = 0;
                        double size = 0;
                        for (int p = 0; p < n; ++p) sum += element(a.meant, op, i, p) * from[p], size += std::abs(element(a.meant, op, i, p) * from[p]);
                        good &= std::abs(sum - to[i]) <= 1e-5 * (1 + size);
                    }
                    expect(good, std::string(name) + " layout " + std::to_string(layout) + " op " + std::to_string(op));
                }
}

template <class K, class Factor, class One, class Two, class PackedOne, class PackedTwo>
void updates(cublasHandle_t h, const char* name, bool turned, Factor real_factor, One one, Two two, PackedOne packed_one, PackedTwo packed_two) {
    for (bool upper : {false, true})
        for (auto layout : {full, packed})
            for (bool both : {false, true}) {
                const auto fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
                const auto a = half_of<K>(layout, upper, turned, false, false);
                const auto x = vector_of<K>(1), y = vector_of<K>(2);
                Device<K> da(a.memory), dx(x), dy(y);
                const C factor = turned && both ? C(0.5, 1) : C(real_factor);
                const auto alpha = K::store(factor);
                cublasStatus_t done;
                if (layout == full) done = both ? two(h, fill, n, &alpha, dx.data, 1, dy.data, 2, da.data, ld) : one(h, fill, n, &real_factor, dx.data, 1, da.data, ld);
                else done = both ? packed_two(h, fill, n, &alpha, dx.data, 1, dy.data, 2, da.data) : packed_one(h, fill, n, &real_factor, dx.data, 1, da.data);
                const auto got = da.host();
                bool good = done == CUBLAS_STATUS_SUCCESS;
                const auto of = [&](C v) { return turned ? std::conj(v) : v; };
                for (int j = 0; j < n; ++j)
                    for (int i = 0; i < n; ++i) {
                        if (!stored(upper, i, j)) continue;
                        C sum = a.meant[i + j * n];
                        if (both) sum += factor * x[i] * of(y[2 * j]) + of(factor) * y[2 * i] * of(x[j]);
                        else sum += factor * x[i] * of(x[j]);
                        good &= close(got[place(layout, upper, i, j)], sum);
                    }
                if (layout == full) good &= std::isnan(got[upper ? 1 : ld].real());  // the other half
                expect(good, std::string(name) + " layout " + std::to_string(layout) + " of " + (both ? "two" : "one"));
            }
}

template <class K, class Call>
void bands(cublasHandle_t h, const char* name, Call call) {
    const int rows = 7, cols = 5, below = 2, above = 1, pitch = 5;
    for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
        std::vector<C> memory(pitch * cols, nan_value), meant(rows * cols);
        for (int j = 0; j < cols; ++j)
            for (int i = std::max(0, j - above); i < std::min(rows, j + below + 1); ++i)
                memory[above + i - j + j * pitch] = meant[i + j * rows] = K::random();
        const int outputs = op == CUBLAS_OP_N ? rows : cols, depth = op == CUBLAS_OP_N ? cols : rows;
        std::vector<C> x(depth), y(outputs, nan_value);
        for (auto& one : x) one = K::random();
        Device<K> da(memory), dx(x), dy(y);
        const auto one = K::store(1), zero = K::store(0);
        bool good = call(h, op, rows, cols, below, above, &one, da.data, pitch, dx.data, 1, &zero, dy.data, 1) == CUBLAS_STATUS_SUCCESS;
        const auto got = dy.host();
        for (int i = 0; i < outputs; ++i) {
            C sum = 0;
            for (int p = 0; p < depth; ++p) {
                const C held = op == CUBLAS_OP_N ? meant[i + p * rows] : meant[p + i * rows];
                sum += (op == CUBLAS_OP_C ? std::conj(held) : held) * x[p];
            }
            good &= close(got[i], sum);
        }
        expect(good, std::string(name) + " op " + std::to_string(op));
    }
}

static void rotations(cublasHandle_t h) {
    double a = 3, b = 4, c, s;
    expect(cublasDrotg(h, &a, &b, &c, &s) == CUBLAS_STATUS_SUCCESS && close(a, 5) && close(c, 0.6) && close(s, 0.8) && close(b, 1 / 0.6), "rotg");
    a = b = 0;
    expect(cublasDrotg(h, &a, &b, &c, &s) == CUBLAS_STATUS_SUCCESS && a == 0 && c == 1 && s == 0, "rotg of nothing");
    const auto x = vector_of<Real>(1), y = vector_of<Real>(1);
    Device<Real> dx(x), dy(y);
    c = 0.6, s = 0.8;
    bool good = cublasDrot(h, n, dx.data, 1, dy.data, 1, &c, &s) == CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < n; ++i) good &= close(dx.host()[i], c * x[i] + s * y[i]) && close(dy.host()[i], c * y[i] - s * x[i]);
    expect(good, "rot");
    const auto u = vector_of<Whole>(1), v = vector_of<Whole>(1);
    Device<Whole> du(u), dv(v);
    const float cosine = 0.6f;
    const cuComplex sine = make_cuComplex(0, 0.8f);
    good = cublasCrot(h, n, du.data, 1, dv.data, 1, &cosine, &sine) == CUBLAS_STATUS_SUCCESS;
    const C t(0, 0.8);
    for (int i = 0; i < n; ++i) good &= close(du.host()[i], 0.6 * u[i] + t * v[i]) && close(dv.host()[i], 0.6 * v[i] - std::conj(t) * u[i]);
    expect(good, "complex rot");
}

static void by_type_and_later(cublasHandle_t h) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    std::vector<float> x{1, 2, 3, 4}, back(4);
    float *d, two = 2, result = 0;
    cudaMalloc(&d, 16);
    bool good = cublasSetVectorAsync(4, 4, x.data(), 1, d, 1, stream) == CUBLAS_STATUS_SUCCESS;
    cudaStreamSynchronize(stream);
    good &= cublasScalEx(h, 4, &two, CUDA_R_32F, d, CUDA_R_32F, 1, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    good &= cublasAxpyEx(h, 2, &two, CUDA_R_32F, d + 2, CUDA_R_32F, 1, d, CUDA_R_32F, 1, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    good &= cublasDotEx(h, 4, d, CUDA_R_32F, 1, d, CUDA_R_32F, 1, &result, CUDA_R_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    expect(good && result == 14 * 14 + 20 * 20 + 36 + 64, "dotEx");
    good = cublasNrm2Ex(h, 2, d + 2, CUDA_R_32F, 1, &result, CUDA_R_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS && result == 10;
    expect(good, "nrm2Ex");
    good = cublasGetMatrixAsync(1, 2, 4, d, 2, back.data(), 1, stream) == CUBLAS_STATUS_SUCCESS;
    cudaStreamSynchronize(stream);
    expect(good && back[0] == 14 && back[1] == 6, "getMatrixAsync");
}

#define MINE(name) [](auto... given) { return name(given...); }
int main() {
    cublasHandle_t h;
    cublasCreate(&h);
    symmetric<Real>(h, "symv", false, MINE(cublasDsymv), MINE(cublasDsbmv), MINE(cublasDspmv));
    symmetric<Whole>(h, "hemv", true, MINE(cublasChemv), MINE(cublasChbmv), MINE(cublasChpmv));
    triangular<Real>(h, "trmv", false, MINE(cublasDtrmv), MINE(cublasDtbmv), MINE(cublasDtpmv));
    triangular<Whole>(h, "complex trmv", false, MINE(cublasCtrmv), MINE(cublasCtbmv), MINE(cublasCtpmv));
    triangular<Real>(h, "trsv", true, MINE(cublasDtrsv), MINE(cublasDtbsv), MINE(cublasDtpsv));
    triangular<Whole>(h, "complex trsv", true, MINE(cublasCtrsv), MINE(cublasCtbsv), MINE(cublasCtpsv));
    updates<Real>(h, "syr", false, 0.5, MINE(cublasDsyr), MINE(cublasDsyr2), MINE(cublasDspr), MINE(cublasDspr2));
    updates<Whole>(h, "her", true, 0.5f, MINE(cublasCher), MINE(cublasCher2), MINE(cublasChpr), MINE(cublasChpr2));
    bands<Real>(h, "gbmv", MINE(cublasDgbmv));
    bands<Whole>(h, "complex gbmv", MINE(cublasCgbmv));
    rotations(h);
    by_type_and_later(h);
    cublasDestroy(h);
    if (failures == 0) printf("blas: all as expected\n");
    return failures;
}
