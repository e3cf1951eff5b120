#include "fft.hpp"

#include <cmath>
#include <utility>

namespace wmmadiag::libraries {

namespace {

using Number = std::complex<double>;

// Above this a prime factor is left to a convolution.
constexpr size_t largest_factor = 61;

// The compiler's product looks for infinities that are none; here NaN and infinity spread anyway.
inline Number times(Number a, Number b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

}  // namespace

Number root_of_unity(size_t j, size_t n) {
    j %= n;
    const bool below = 2 * j > n;  // conjugate of its mirror image
    if (below) j = n - j;
    const bool left = 4 * j > n;  // minus the conjugate of the mirror image at the vertical
    // In eighths of the circle: j/n = a/(8n) of it.
    size_t a = 8 * j;
    if (left) a = 4 * n - a;
    const bool steep = a > n;
    if (steep) a = 2 * n - a;
    const double angle = 0.78539816339744830962 * (static_cast<double>(a) / static_cast<double>(n));
    double real = std::cos(angle), imaginary = std::sin(angle);
    if (steep) std::swap(real, imaginary);
    if (left) real = -real;
    return {real, below ? imaginary : -imaginary};
}

Transform::Transform(size_t n) : n_(n) {
    size_t rest = n;
    for (size_t factor = 4; rest % factor == 0; rest /= factor) factors_.push_back(factor);
    for (size_t factor = 2; factor * factor <= rest; factor += factor == 2 ? 1 : 2)
        for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
    if (rest > 1) factors_.push_back(rest);
    for (const auto factor : factors_) {
        if (factor <= largest_factor) continue;
        // Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970.
        size_t length = 1;
        while (length < 2 * n - 1) length *= 2;
        longer_ = std::make_unique<Transform>(length);
        chirp_.resize(n);
        kernel_.assign(length, 0);
        for (size_t j = 0; j < n; ++j) {
            const auto square = static_cast<size_t>(static_cast<unsigned __int128>(j) * j % (2 * n));
            chirp_[j] = root_of_unity(square, 2 * n);
            kernel_[j] = kernel_[(length - j) % length] = std::conj(chirp_[j]);
        }
        (*longer_)(kernel_.data(), false);
        factors_.clear();
        return;
    }
    roots_.resize(n);
    for (size_t j = 0; j < n; ++j) roots_[j] = root_of_unity(j, n);
}

Transform::~Transform() = default;

void Transform::by_convolution(const Number* from, Number* to) const {
    const size_t length = longer_->size();
    std::vector<Number> work(length);
    for (size_t j = 0; j < n_; ++j) work[j] = times(from[j], chirp_[j]);
    (*longer_)(work.data(), false);
    for (size_t j = 0; j < length; ++j) work[j] = times(work[j], kernel_[j]);
    (*longer_)(work.data(), true);
    for (size_t j = 0; j < n_; ++j) to[j] = times(work[j], chirp_[j]) / static_cast<double>(length);
}

void Transform::by_factors(const Number* from, size_t step, Number* to, size_t n, size_t level) const {
    if (n == 1) {
        *to = *from;
        return;
    }
    const size_t p = factors_[level], m = n / p;
    for (size_t r = 0; r < p; ++r) by_factors(from + r * step, step * p, to + r * m, m, level + 1);
    const size_t turn = n_ / n;  // a step of this level among the roots
    Number part[largest_factor], sum[largest_factor];
    for (size_t k = 0; k < m; ++k) {
        part[0] = to[k];
        for (size_t r = 1; r < p; ++r) part[r] = times(to[r * m + k], roots_[r * k * turn]);
        if (p == 2) {
            to[k] = part[0] + part[1];
            to[m + k] = part[0] - part[1];
        } else if (p == 4) {
            const Number a = part[0] + part[2], b = part[0] - part[2], c = part[1] + part[3], d = part[1] - part[3];
            const Number turned(d.imag(), -d.real());
            to[k] = a + c;
            to[m + k] = b + turned;
            to[2 * m + k] = a - c;
            to[3 * m + k] = b - turned;
        } else {
            for (size_t q = 0; q < p; ++q) {
                sum[q] = part[0];
                for (size_t r = 1; r < p; ++r) sum[q] += times(part[r], roots_[q * r % p * (n_ / p)]);
            }
            for (size_t q = 0; q < p; ++q) to[q * m + k] = sum[q];
        }
    }
}

void Transform::operator()(Number* x, bool inverse) const {
    if (n_ == 1) return;
    std::vector<Number> from(x, x + n_);
    if (inverse)
        for (auto& one : from) one = std::conj(one);
    if (longer_ != nullptr) by_convolution(from.data(), x);
    else by_factors(from.data(), 1, x, n_, 0);
    if (inverse)
        for (size_t j = 0; j < n_; ++j) x[j] = std::conj(x[j]);
}

}  // namespace wmmadiag::libraries
