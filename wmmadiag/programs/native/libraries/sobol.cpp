#include "sobol.hpp"

namespace wmmadiag::libraries {

namespace {

uint64_t hashed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/// a b modulo a polynomial of that degree; bit i is the coefficient of x to the i.
uint64_t product(uint64_t a, uint64_t b, uint64_t modulus, unsigned degree) {
    uint64_t out = 0;
    for (; b != 0; b >>= 1) {
        if (b & 1) out ^= a;
        a <<= 1;
        if (a >> degree & 1) a ^= modulus;
    }
    return out;
}

/// Whether x has the order 2^degree - 1 modulo the polynomial.
bool primitive(uint64_t polynomial, unsigned degree) {
    const uint64_t order = (uint64_t{1} << degree) - 1;
    const auto power = [&](uint64_t exponent) {
        uint64_t base = degree == 1 ? 2 ^ polynomial : 2, out = 1;
        for (; exponent != 0; exponent >>= 1) {
            if (exponent & 1) out = product(out, base, polynomial, degree);
            base = product(base, base, polynomial, degree);
        }
        return out;
    };
    if (power(order) != 1) return false;
    uint64_t rest = order;
    for (uint64_t prime = 2; prime * prime <= rest; ++prime) {
        if (rest % prime != 0) continue;
        if (power(order / prime) == 1) return false;
        while (rest % prime == 0) rest /= prime;
    }
    return rest == 1 || rest == order ? true : power(order / rest) != 1;
}

template <class Word>
std::vector<Word> directions() {
    constexpr unsigned bits = 8 * sizeof(Word);
    std::vector<Word> all;
    all.reserve(sobol_dimensions * bits);
    for (unsigned bit = 0; bit < bits; ++bit) all.push_back(Word{1} << (bits - 1 - bit));  // the first is van der Corput's
    unsigned degree = 1;
    for (uint64_t polynomial = 3; all.size() < sobol_dimensions * bits; polynomial += 2) {
        while (polynomial >> (degree + 1) != 0) ++degree;
        if (!primitive(polynomial, degree)) continue;
        const size_t dimension = all.size() / bits;
        std::vector<uint64_t> odd(bits);
        for (unsigned i = 0; i < bits; ++i) {
            if (i < degree) {
                odd[i] = (hashed(dimension * 64 + i) & ((uint64_t{1} << i) - 1)) << 1 | 1;
                continue;
            }
            odd[i] = odd[i - degree] ^ odd[i - degree] << degree;
            for (unsigned k = 1; k < degree; ++k)
                if (polynomial >> (degree - k) & 1) odd[i] ^= odd[i - k] << k;
        }
        for (unsigned i = 0; i < bits; ++i) all.push_back(static_cast<Word>(odd[i]) << (bits - 1 - i));
    }
    return all;
}

template <class Word>
std::vector<Word> scrambles() {
    std::vector<Word> all;
    for (uint64_t i = 0; i < sobol_dimensions; ++i) all.push_back(static_cast<Word>(hashed(~i)));
    return all;
}

}  // namespace

const std::vector<uint32_t>& sobol32() {
    static const auto all = directions<uint32_t>();
    return all;
}
const std::vector<uint64_t>& sobol64() {
    static const auto all = directions<uint64_t>();
    return all;
}
const std::vector<uint32_t>& scrambles32() {
    static const auto all = scrambles<uint32_t>();
    return all;
}
const std::vector<uint64_t>& scrambles64() {
    static const auto all = scrambles<uint64_t>();
    return all;
}

}  // namespace wmmadiag::libraries
