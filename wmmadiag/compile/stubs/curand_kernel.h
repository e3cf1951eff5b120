/* cuRAND in kernels: Philox4x32-10 (Salmon et al., SC 2011) whichever pseudo-random generator is named, and Sobol' sequences;
   for device and host code. */
#ifndef CURAND_KERNEL_H_
#define CURAND_KERNEL_H_
#include <math.h>

#define WMMADIAG_FN __host__ __device__ inline

struct wmmadiag_random {
  unsigned int counter[4], output[4], key[2], at;
  int normals;
  float spare;
  double spare_double;
};
struct curandStateXORWOW : wmmadiag_random {};
struct curandStateMRG32k3a : wmmadiag_random {};
struct curandStatePhilox4_32_10 : wmmadiag_random {};
typedef struct curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

WMMADIAG_FN void wmmadiag_draw(wmmadiag_random *state) {
  unsigned int c0 = state->counter[0], c1 = state->counter[1], c2 = state->counter[2], c3 = state->counter[3];
  unsigned int k0 = state->key[0], k1 = state->key[1];
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    c0 = (unsigned int)(b >> 32) ^ c1 ^ k0;
    c2 = (unsigned int)(a >> 32) ^ c3 ^ k1;
    c1 = (unsigned int)b;
    c3 = (unsigned int)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  state->output[0] = c0;
  state->output[1] = c1;
  state->output[2] = c2;
  state->output[3] = c3;
}
/* Adds to a half of the counter: its low half counts numbers by fours, its high half sequences. */
WMMADIAG_FN void wmmadiag_count(wmmadiag_random *state, int half, unsigned long long n) {
  unsigned long long low = ((unsigned long long)state->counter[2 * half + 1] << 32 | state->counter[2 * half]) + n;
  if (half == 0 && low < n && ++state->counter[2] == 0) ++state->counter[3];
  state->counter[2 * half] = (unsigned int)low;
  state->counter[2 * half + 1] = (unsigned int)(low >> 32);
}

WMMADIAG_FN void skipahead_sequence(unsigned long long n, wmmadiag_random *state) {
  wmmadiag_count(state, 1, n);
  wmmadiag_draw(state);
}
WMMADIAG_FN void skipahead(unsigned long long n, wmmadiag_random *state) {
  const unsigned long long at = state->at + (n & 3);
  wmmadiag_count(state, 0, (n >> 2) + (at >> 2));
  state->at = (unsigned int)(at & 3);
  wmmadiag_draw(state);
}
WMMADIAG_FN void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                             wmmadiag_random *state) {
  for (int i = 0; i < 4; ++i) state->counter[i] = 0;
  state->key[0] = (unsigned int)seed;
  state->key[1] = (unsigned int)(seed >> 32);
  state->at = 0;
  state->normals = 0;
  state->spare = 0;
  state->spare_double = 0;
  skipahead_sequence(sequence, state);
  skipahead(offset, state);
}

WMMADIAG_FN unsigned int curand(wmmadiag_random *state) {
  const unsigned int number = state->output[state->at];
  if (++state->at == 4) {
    state->at = 0;
    wmmadiag_count(state, 0, 1);
    wmmadiag_draw(state);
  }
  return number;
}
WMMADIAG_FN uint4 curand4(wmmadiag_random *state) {
  uint4 four;
  four.x = curand(state);
  four.y = curand(state);
  four.z = curand(state);
  four.w = curand(state);
  return four;
}

/* (0, 1] */
WMMADIAG_FN float wmmadiag_unit(unsigned int x) { return x * 2.3283064e-10f + 1.1641532e-10f; }
WMMADIAG_FN double wmmadiag_unit(unsigned int x, unsigned int y) {
  return ((unsigned long long)x ^ (unsigned long long)y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
WMMADIAG_FN float curand_uniform(wmmadiag_random *state) { return wmmadiag_unit(curand(state)); }
WMMADIAG_FN float4 curand_uniform4(wmmadiag_random *state) {
  const uint4 x = curand4(state);
  float4 four;
  four.x = wmmadiag_unit(x.x);
  four.y = wmmadiag_unit(x.y);
  four.z = wmmadiag_unit(x.z);
  four.w = wmmadiag_unit(x.w);
  return four;
}
WMMADIAG_FN double curand_uniform_double(wmmadiag_random *state) {
  const unsigned int x = curand(state);
  return wmmadiag_unit(x, curand(state) & 0xffffffffu);
}
WMMADIAG_FN double2 curand_uniform2_double(wmmadiag_random *state) {
  double2 two;
  two.x = curand_uniform_double(state);
  two.y = curand_uniform_double(state);
  return two;
}

/* Box and Muller: two normal numbers of two uniform ones. */
WMMADIAG_FN float2 curand_normal2(wmmadiag_random *state) {
  const float u = curand_uniform(state), v = curand_uniform(state) * 6.2831855f, s = sqrtf(-2.0f * logf(u));
  float2 two;
  two.x = s * sinf(v);
  two.y = s * cosf(v);
  return two;
}
WMMADIAG_FN double2 curand_normal2_double(wmmadiag_random *state) {
  const double u = curand_uniform_double(state), v = curand_uniform_double(state) * 6.283185307179586, s = sqrt(-2.0 * log(u));
  double2 two;
  two.x = s * sin(v);
  two.y = s * cos(v);
  return two;
}
WMMADIAG_FN float curand_normal(wmmadiag_random *state) {
  if (state->normals & 1) {
    state->normals &= ~1;
    return state->spare;
  }
  const float2 two = curand_normal2(state);
  state->normals |= 1;
  state->spare = two.y;
  return two.x;
}
WMMADIAG_FN double curand_normal_double(wmmadiag_random *state) {
  if (state->normals & 2) {
    state->normals &= ~2;
    return state->spare_double;
  }
  const double2 two = curand_normal2_double(state);
  state->normals |= 2;
  state->spare_double = two.y;
  return two.x;
}
WMMADIAG_FN float4 curand_normal4(wmmadiag_random *state) {
  const float2 a = curand_normal2(state), b = curand_normal2(state);
  float4 four;
  four.x = a.x;
  four.y = a.y;
  four.z = b.x;
  four.w = b.y;
  return four;
}
WMMADIAG_FN float curand_log_normal(wmmadiag_random *state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
WMMADIAG_FN double curand_log_normal_double(wmmadiag_random *state, double mean, double deviation) {
  return exp(mean + deviation * curand_normal_double(state));
}
/* By the product of uniform numbers, in parts of at most 500 each. */
WMMADIAG_FN unsigned int curand_poisson(wmmadiag_random *state, double lambda) {
  unsigned int count = 0;
  while (lambda > 0) {
    const double part = lambda < 500 ? lambda : 500, end = exp(-part);
    for (double product = curand_uniform_double(state); product > end; product *= curand_uniform_double(state)) ++count;
    lambda -= part;
  }
  return count;
}

/* Sobol' sequences in Gray's order: each number is the one before it, turned by the direction of one bit. */
typedef unsigned int curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];
template <class Word, int Bits>
struct wmmadiag_sobol {
  Word place, number, directions[Bits];
};
struct curandStateSobol32 : wmmadiag_sobol<unsigned int, 32> {};
struct curandStateScrambledSobol32 : wmmadiag_sobol<unsigned int, 32> {};
struct curandStateSobol64 : wmmadiag_sobol<unsigned long long, 64> {};
struct curandStateScrambledSobol64 : wmmadiag_sobol<unsigned long long, 64> {};
typedef struct curandStateSobol32 curandStateSobol32_t;
typedef struct curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef struct curandStateSobol64 curandStateSobol64_t;
typedef struct curandStateScrambledSobol64 curandStateScrambledSobol64_t;

template <class Word, int Bits>
WMMADIAG_FN void skipahead(Word n, wmmadiag_sobol<Word, Bits> *state) {
  const Word before = state->place ^ state->place >> 1, after = (state->place + n) ^ (state->place + n) >> 1;
  for (int bit = 0; bit < Bits; ++bit)
    if ((before ^ after) >> bit & 1) state->number ^= state->directions[bit];
  state->place += n;
}
template <class Word, int Bits>
WMMADIAG_FN void wmmadiag_begin(const Word *directions, Word first, Word offset, wmmadiag_sobol<Word, Bits> *state) {
  for (int bit = 0; bit < Bits; ++bit) state->directions[bit] = directions[bit];
  state->place = 0;
  state->number = first;
  skipahead(offset, state);
}
WMMADIAG_FN void curand_init(const unsigned int *directions, unsigned int offset, curandStateSobol32_t *state) {
  wmmadiag_begin(directions, 0u, offset, state);
}
WMMADIAG_FN void curand_init(const unsigned int *directions, unsigned int scramble, unsigned int offset,
                             curandStateScrambledSobol32_t *state) {
  wmmadiag_begin(directions, scramble, offset, state);
}
WMMADIAG_FN void curand_init(const unsigned long long *directions, unsigned long long offset, curandStateSobol64_t *state) {
  wmmadiag_begin(directions, 0ull, offset, state);
}
WMMADIAG_FN void curand_init(const unsigned long long *directions, unsigned long long scramble, unsigned long long offset,
                             curandStateScrambledSobol64_t *state) {
  wmmadiag_begin(directions, scramble, offset, state);
}
template <class Word, int Bits>
WMMADIAG_FN Word curand(wmmadiag_sobol<Word, Bits> *state) {
  const Word number = state->number;
  int bit = 0;
  while (bit < Bits - 1 && (state->place >> bit & 1)) ++bit;
  state->number ^= state->directions[bit];
  ++state->place;
  return number;
}
WMMADIAG_FN float wmmadiag_unit_of(unsigned int x) { return wmmadiag_unit(x); }
WMMADIAG_FN float wmmadiag_unit_of(unsigned long long x) { return wmmadiag_unit((unsigned int)(x >> 32)); }
WMMADIAG_FN double wmmadiag_unit_double_of(unsigned int x) { return x * 2.3283064365386963e-10 + 1.1641532182693481e-10; }
WMMADIAG_FN double wmmadiag_unit_double_of(unsigned long long x) { return (x >> 11) * 1.1102230246251565e-16 + 5.5511151231257827e-17; }
/* Where the normal distribution reaches p: an estimate (Abramowitz and Stegun, 26.2.22), improved by Halley's method. */
WMMADIAG_FN double wmmadiag_inverse_normal(double p) {
  if (p >= 1.0) p = 1.0 - 5.5511151231257827e-17;
  const double tail = p < 0.5 ? p : 1.0 - p, t = sqrt(-2.0 * log(tail));
  double x = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + t * 0.04481));
  for (int i = 0; i < 3; ++i) {
    const double step = (0.5 * erfc(x * 0.70710678118654752) - tail) / (0.39894228040143268 * exp(-0.5 * x * x));
    x += step / (1.0 - 0.5 * x * step);
  }
  return p < 0.5 ? -x : x;
}
#define WMMADIAG_OF_SOBOL template <class Word, int Bits> WMMADIAG_FN
WMMADIAG_OF_SOBOL float curand_uniform(wmmadiag_sobol<Word, Bits> *state) { return wmmadiag_unit_of(curand(state)); }
WMMADIAG_OF_SOBOL double curand_uniform_double(wmmadiag_sobol<Word, Bits> *state) {
  return wmmadiag_unit_double_of(curand(state));
}
WMMADIAG_OF_SOBOL double curand_normal_double(wmmadiag_sobol<Word, Bits> *state) {
  return wmmadiag_inverse_normal(curand_uniform_double(state));
}
WMMADIAG_OF_SOBOL float curand_normal(wmmadiag_sobol<Word, Bits> *state) { return (float)curand_normal_double(state); }
WMMADIAG_OF_SOBOL float curand_log_normal(wmmadiag_sobol<Word, Bits> *state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
WMMADIAG_OF_SOBOL double curand_log_normal_double(wmmadiag_sobol<Word, Bits> *state, double mean, double deviation) {
  return exp(mean + deviation * curand_normal_double(state));
}
#undef WMMADIAG_OF_SOBOL
#undef WMMADIAG_FN
#endif
