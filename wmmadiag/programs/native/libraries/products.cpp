// Products of dense matrices, as all that multiplies has them: the same bits on every machine.
#include "blas_operands.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace wmmadiag::libraries {

// The same bits on every machine: no contraction (the build's flag), one order of sums; only the width of vectors differs.
#if defined(__x86_64__)
#define WMMADIAG_WIDE __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define WMMADIAG_WIDE
#endif
WMMADIAG_WIDE static void add_scaled(size_t n, double factor, const double* __restrict from, double* __restrict to) {
    for (size_t j = 0; j < n; ++j) to[j] += factor * from[j];
}

static void add_scaled(size_t n, Complex factor, const Complex* from, Complex* to) {
    for (size_t j = 0; j < n; ++j) to[j] += factor * from[j];
}

// Four lines of `from`, `pitch` apart, one after another: each sum is loaded and stored once for all of them.
WMMADIAG_WIDE static void add_four_scaled(size_t n, const double* __restrict factors, const double* __restrict from, size_t pitch,
                                          double* __restrict to) {
    const double f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
    const double* __restrict b0 = from, * __restrict b1 = b0 + pitch, * __restrict b2 = b1 + pitch, * __restrict b3 = b2 + pitch;
    for (size_t j = 0; j < n; ++j) to[j] = (((to[j] + f0 * b0[j]) + f1 * b1[j]) + f2 * b2[j]) + f3 * b3[j];
}

static void add_four_scaled(size_t n, const Complex* factors, const Complex* from, size_t pitch, Complex* to) {
    for (size_t q = 0; q < 4; ++q) add_scaled(n, factors[q], from + q * pitch, to);
}

template <class S>
static void multiply_lines(size_t begin, size_t end, size_t n, size_t k, const S* a, const S* b, S* c) {
    constexpr size_t columns = 512, depth = 64;  // a panel of B stays in the second-level cache
    for (size_t j = 0; j < n; j += columns)
        for (size_t p = 0; p < k; p += depth)
            for (size_t i = begin; i < end; ++i) {
                const size_t width = std::min(columns, n - j), last = std::min(k, p + depth);
                size_t q = p;
                for (; q + 4 <= last; q += 4) add_four_scaled(width, a + i * k + q, b + q * n + j, n, c + i * n + j);
                for (; q < last; ++q) add_scaled(width, a[i * k + q], b + q * n + j, c + i * n + j);
            }
}

template <class S>
void multiply(size_t m, size_t n, size_t k, const S* a, const S* b, S* c) {
    constexpr size_t enough = size_t{1} << 24;  // products that take longer than a thread's start by far
    const size_t processors = std::max(1u, std::thread::hardware_concurrency());
    const size_t workers = std::max<size_t>(1, std::min({processors, m, m * n * k / enough}));
    std::vector<std::thread> others;
    const auto share = [&](size_t w) { multiply_lines(m * w / workers, m * (w + 1) / workers, n, k, a, b, c); };
    for (size_t w = 1; w < workers; ++w) others.emplace_back(share, w);
    share(0);
    for (auto& one : others) one.join();
}
template void multiply(size_t, size_t, size_t, const double*, const double*, double*);
template void multiply(size_t, size_t, size_t, const Complex*, const Complex*, Complex*);

}  // namespace wmmadiag::libraries
