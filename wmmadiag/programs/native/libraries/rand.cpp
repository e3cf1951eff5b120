// cuRAND's host generators: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) for all that are
// pseudo-random, Sobol' sequences for the others.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "curand.h"
#include "elements.hpp"
#include "sobol.hpp"

struct curandGenerator_st {
    curandRngType_t type;
    bool host;
    cudaStream_t stream = nullptr;
    uint64_t seed = 0, drawn = 0;  // 32-bit words so far; of a Sobol' sequence, points
    unsigned dimensions = 1;
    uint64_t each = 0, at = 0;  // of the call that is served: points, and numbers so far

    bool quasi() const { return type >= CURAND_RNG_QUASI_DEFAULT; }
    bool long_words() const { return type == CURAND_RNG_QUASI_SOBOL64 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64; }
};

using namespace wmmadiag::libraries;
using wmmadiag::Caller;

namespace {

struct Words {
    uint32_t word[4];
};

Words philox(uint64_t counter, uint64_t key) {
    uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
    uint32_t k[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    for (int round = 0; round < 10; ++round) {
        const uint64_t p = uint64_t{0xD2511F53u} * c[0], q = uint64_t{0xCD9E8D57u} * c[2];
        const uint32_t next[4] = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(q),
                                  static_cast<uint32_t>(p >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p)};
        std::memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return {{c[0], c[1], c[2], c[3]}};
}

// The next number of the call's, all of one dimension first.
uint64_t next_point(curandGenerator_t g) {
    const uint64_t dimension = g->at / g->each, place = g->drawn + g->at % g->each;
    ++g->at;
    if (g->long_words())
        return sobol_at(sobol64().data() + dimension * 64, place) ^ (g->type == CURAND_RNG_QUASI_SOBOL64 ? 0 : scrambles64()[dimension]);
    return sobol_at(sobol32().data() + dimension * 32, place) ^ (g->type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 ? scrambles32()[dimension] : 0);
}

uint32_t next(curandGenerator_t g) {
    if (g->quasi()) return static_cast<uint32_t>(g->long_words() ? next_point(g) >> 32 : next_point(g));
    const uint64_t at = g->drawn++;
    return philox(at / 4, g->seed).word[at % 4];
}
uint64_t next_long(curandGenerator_t g) {
    if (g->quasi()) return next_point(g);
    const uint64_t low = next(g);
    return uint64_t{next(g)} << 32 | low;
}

// In (0, 1], as cuRAND's.
double unit(curandGenerator_t g) {
    const uint64_t word = g->quasi() && !g->long_words() ? next_point(g) << 32 | 0x80000000u : next_long(g);
    return (static_cast<double>(word >> 11) + 1) * 0x1p-53;
}

/// Where the normal distribution reaches p: an estimate (Abramowitz and Stegun, 26.2.22), improved by Halley's method.
double inverse_normal(double p) {
    if (p >= 1) p = 1 - 0x1p-54;
    const double tail = p < 0.5 ? p : 1 - p, t = std::sqrt(-2 * std::log(tail));
    double x = t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + t * 0.04481));
    for (int i = 0; i < 3; ++i) {
        const double step = (0.5 * std::erfc(x * 0.70710678118654752440) - tail) / (0.39894228040143267794 * std::exp(-0.5 * x * x));
        x += step / (1 - 0.5 * x * step);
    }
    return p < 0.5 ? -x : x;
}

/// Both numbers of Box and Muller.
void normal_pair(curandGenerator_t g, double out[2]) {
    const double radius = std::sqrt(-2 * std::log(unit(g))), angle = 2 * 3.14159265358979323846 * unit(g);
    out[0] = radius * std::cos(angle);
    out[1] = radius * std::sin(angle);
}

/// Fills `out`, in host or device memory, with what `draw` writes to a host array.
template <class T, class Draw>
curandStatus_t generate(Caller caller, curandGenerator_t g, T* out, size_t count, bool pairs, const Draw& draw) {
    WMMADIAG_LOCKED;
    wmmadiag::here() = {caller.file, caller.line, "", 1};
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    if (wmmadiag::status() != cudaSuccess) return CURAND_STATUS_PREEXISTING_FAILURE;
    if (count == 0) return CURAND_STATUS_SUCCESS;
    if (pairs && !g->quasi() && count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    if (g->quasi() && count % g->dimensions != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    std::vector<T> values(count);
    g->each = count / g->dimensions;
    g->at = 0;
    draw(values);
    if (g->quasi()) g->drawn += g->each;
    if (g->host) {
        std::memcpy(out, values.data(), count * sizeof(T));
        return CURAND_STATUS_SUCCESS;
    }
    const Lines bytes{out, CUDA_R_8U, count * sizeof(T), 1, count * sizeof(T)};
    try {
        Call{caller.function, g->stream, false}.submit([=] {
            std::memcpy(reach(caller.function, bytes, wmmadiag::Access::write), values.data(), bytes.length);
            mark_written(bytes);
        });
        return CURAND_STATUS_SUCCESS;
    } catch (cudaError_t) {
        return CURAND_STATUS_LAUNCH_FAILURE;
    }
}

template <class T>
curandStatus_t normal(Caller caller, curandGenerator_t g, T* out, size_t count, double mean, double stddev, bool logarithm) {
    return generate(caller, g, out, count, true, [&](std::vector<T>& values) {
        for (size_t i = 0; g->quasi() && i < values.size(); ++i) {
            const double value = mean + stddev * inverse_normal(unit(g));
            values[i] = static_cast<T>(logarithm ? std::exp(value) : value);
        }
        for (size_t i = 0; !g->quasi() && i < values.size(); i += 2) {
            double pair[2];
            normal_pair(g, pair);
            for (size_t j = 0; j < 2; ++j) {
                const double value = mean + stddev * pair[j];
                values[i + j] = static_cast<T>(logarithm ? std::exp(value) : value);
            }
        }
    });
}

/// Inversion by counting for small means; for large ones the sum of two of half the mean.
unsigned int poisson(curandGenerator_t g, double lambda) {
    if (lambda > 500) return poisson(g, lambda / 2) + poisson(g, lambda / 2);
    double chance = std::exp(-lambda), below = chance;
    unsigned int count = 0;
    for (const double u = unit(g); u > below && chance > 0; below += chance) chance *= lambda / ++count;
    return count;
}

curandStatus_t create(Caller caller, curandGenerator_t* generator, curandRngType_t type, bool host) {
    WMMADIAG_LOCKED;
    wmmadiag::here() = {caller.file, caller.line, "", 1};
    switch (type) {
        case CURAND_RNG_PSEUDO_DEFAULT:
        case CURAND_RNG_PSEUDO_XORWOW:
        case CURAND_RNG_PSEUDO_MRG32K3A:
        case CURAND_RNG_PSEUDO_MTGP32:
        case CURAND_RNG_PSEUDO_MT19937:
        case CURAND_RNG_PSEUDO_PHILOX4_32_10: break;
        case CURAND_RNG_QUASI_DEFAULT:
        case CURAND_RNG_QUASI_SOBOL32:
        case CURAND_RNG_QUASI_SCRAMBLED_SOBOL32:
        case CURAND_RNG_QUASI_SOBOL64:
        case CURAND_RNG_QUASI_SCRAMBLED_SOBOL64: break;
        default:
            wmmadiag::report("library", "unsupported", "warning", "there is no curandRngType " + std::to_string(type),
                             "the call returns CURAND_STATUS_TYPE_ERROR");
            return CURAND_STATUS_TYPE_ERROR;
    }
    *generator = new curandGenerator_st{type, host};
    return CURAND_STATUS_SUCCESS;
}

}  // namespace

curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type, wmmadiag::Place caller) {
    return create(caller(__func__), generator, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type, wmmadiag::Place caller) {
    return create(caller(__func__), generator, type, true);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
    if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    delete generator;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetVersion(int* version) {
    *version = 10400;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetStream(curandGenerator_t g, cudaStream_t stream) {
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    g->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    if (g->quasi()) return CURAND_STATUS_TYPE_ERROR;
    g->seed = seed;
    g->drawn = 0;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t g, unsigned int dimensions) {
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    if (!g->quasi()) return CURAND_STATUS_TYPE_ERROR;
    if (dimensions < 1 || dimensions > sobol_dimensions) return CURAND_STATUS_OUT_OF_RANGE;
    g->dimensions = dimensions;
    g->drawn = 0;
    return CURAND_STATUS_SUCCESS;
}
// Both sets of cuRAND's: the polynomials are the same, and the rest is ours.
curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t* to[], curandDirectionVectorSet_t) {
    *to = reinterpret_cast<curandDirectionVectors32_t*>(const_cast<uint32_t*>(sobol32().data()));
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t* to[], curandDirectionVectorSet_t) {
    *to = reinterpret_cast<curandDirectionVectors64_t*>(const_cast<uint64_t*>(sobol64().data()));
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetScrambleConstants32(unsigned int** to) {
    *to = const_cast<uint32_t*>(scrambles32().data());
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetScrambleConstants64(unsigned long long** to) {
    *to = reinterpret_cast<unsigned long long*>(const_cast<uint64_t*>(scrambles64().data()));
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetProperty(libraryPropertyType type, int* value) {
    if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CURAND_STATUS_OUT_OF_RANGE;
    *value = type == MAJOR_VERSION ? 10 : type == MINOR_VERSION ? 4 : 0;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    g->drawn = offset;
    return CURAND_STATUS_SUCCESS;
}
// Orderings permute one sequence among threads; ours is one sequence.
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t g, curandOrdering_t order) {
    if (g == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
    return (order == CURAND_ORDERING_QUASI_DEFAULT) == g->quasi() ? CURAND_STATUS_SUCCESS : CURAND_STATUS_OUT_OF_RANGE;
}
curandStatus_t curandGenerateSeeds(curandGenerator_t g) { return g == nullptr ? CURAND_STATUS_NOT_INITIALIZED : CURAND_STATUS_SUCCESS; }

curandStatus_t curandGenerate(curandGenerator_t g, unsigned int* out, size_t count, wmmadiag::Place caller) {
    return generate(caller(__func__), g, out, count, false, [g](auto& values) {
        for (auto& value : values) value = next(g);
    });
}
curandStatus_t curandGenerateLongLong(curandGenerator_t g, unsigned long long* out, size_t count, wmmadiag::Place caller) {
    return generate(caller(__func__), g, out, count, false, [g](auto& values) {
        for (auto& value : values) value = next_long(g);
    });
}
curandStatus_t curandGenerateUniform(curandGenerator_t g, float* out, size_t count, wmmadiag::Place caller) {
    return generate(caller(__func__), g, out, count, false, [g](auto& values) {
        for (auto& value : values) value = static_cast<float>((next(g) >> 8) + 1) * 0x1p-24f;
    });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t g, double* out, size_t count, wmmadiag::Place caller) {
    return generate(caller(__func__), g, out, count, false, [g](auto& values) {
        for (auto& value : values) value = unit(g);
    });
}
curandStatus_t curandGenerateNormal(curandGenerator_t g, float* out, size_t count, float mean, float stddev, wmmadiag::Place caller) {
    return normal(caller(__func__), g, out, count, mean, stddev, false);
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t g, double* out, size_t count, double mean, double stddev, wmmadiag::Place caller) {
    return normal(caller(__func__), g, out, count, mean, stddev, false);
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t g, float* out, size_t count, float mean, float stddev, wmmadiag::Place caller) {
    return normal(caller(__func__), g, out, count, mean, stddev, true);
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t g, double* out, size_t count, double mean, double stddev, wmmadiag::Place caller) {
    return normal(caller(__func__), g, out, count, mean, stddev, true);
}
curandStatus_t curandGeneratePoisson(curandGenerator_t g, unsigned int* out, size_t count, double lambda, wmmadiag::Place caller) {
    if (!(lambda > 0) || lambda > 400000) return CURAND_STATUS_OUT_OF_RANGE;
    return generate(caller(__func__), g, out, count, false, [&](auto& values) {
        for (auto& value : values) value = poisson(g, lambda);
    });
}
