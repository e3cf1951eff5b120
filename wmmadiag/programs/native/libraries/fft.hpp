// Discrete Fourier transforms in float64, of any length: by factors, and by a convolution where a prime factor is large.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <vector>

namespace wmmadiag::libraries {

/// Transforms of one length. sum over j of x[j] exp(∓2πi jk/n), not scaled; what it needs is made once.
class Transform {
public:
    explicit Transform(size_t n);
    ~Transform();
    /// In place, on n numbers that lie side by side.
    void operator()(std::complex<double>* x, bool inverse) const;
    size_t size() const { return n_; }

private:
    void by_factors(const std::complex<double>* from, size_t step, std::complex<double>* to, size_t n, size_t level) const;
    void by_convolution(const std::complex<double>* from, std::complex<double>* to) const;

    size_t n_;
    std::vector<size_t> factors_;
    std::vector<std::complex<double>> roots_;           // exp(-2πi j/n)
    std::unique_ptr<Transform> longer_;                 // of the convolution
    std::vector<std::complex<double>> chirp_, kernel_;  // exp(-πi j²/n), and the transform of its conjugate
};

/// exp(-2πi j/n), to the last bits: the angle is folded into an eighth of the circle before it is rounded.
std::complex<double> root_of_unity(size_t j, size_t n);

}  // namespace wmmadiag::libraries
