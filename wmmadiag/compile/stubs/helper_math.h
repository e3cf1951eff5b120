// What programs in the style of the CUDA samples call of helper_math.h, where that is not there: arithmetic on vectors of two to four numbers.
#pragma once
#ifndef __CUDACC_RTC__
#include <cmath>
#endif
#ifdef __CUDACC_RTC__
#define WMMADIAG_MATH inline __host__ __device__
#else
#define WMMADIAG_MATH inline
#endif

typedef unsigned int uint;
typedef unsigned short ushort;

WMMADIAG_MATH float lerp(float a, float b, float t) { return a + t * (b - a); }
WMMADIAG_MATH float clamp(float v, float a, float b) { return fmaxf(a, fminf(v, b)); }
WMMADIAG_MATH int clamp(int v, int a, int b) { return v < a ? a : v > b ? b : v; }
WMMADIAG_MATH uint clamp(uint v, uint a, uint b) { return v < a ? a : v > b ? b : v; }

#define WMMADIAG_SAME2(value) value, value
#define WMMADIAG_SAME3(value) value, value, value
#define WMMADIAG_SAME4(value) value, value, value, value

#define WMMADIAG_OPERATOR(T, S, N, sign)                                                                       \
    WMMADIAG_MATH T##N operator sign(T##N a, T##N b) { return make_##T##N(WMMADIAG_SIGNED##N(a., b., sign)); } \
    WMMADIAG_MATH T##N operator sign(T##N a, S b) { return a sign make_##T##N(WMMADIAG_SAME##N(b)); }          \
    WMMADIAG_MATH T##N operator sign(S a, T##N b) { return make_##T##N(WMMADIAG_SAME##N(a)) sign b; }          \
    WMMADIAG_MATH void operator sign## = (T##N & a, T##N b) { a = a sign b; }                                  \
    WMMADIAG_MATH void operator sign## = (T##N & a, S b) { a = a sign b; }
#define WMMADIAG_SIGNED2(a, b, sign) a x sign b x, a y sign b y
#define WMMADIAG_SIGNED3(a, b, sign) WMMADIAG_SIGNED2(a, b, sign), a z sign b z
#define WMMADIAG_SIGNED4(a, b, sign) WMMADIAG_SIGNED3(a, b, sign), a w sign b w
#define WMMADIAG_CALL2(f) f(a.x, b.x), f(a.y, b.y)
#define WMMADIAG_CALL3(f) WMMADIAG_CALL2(f), f(a.z, b.z)
#define WMMADIAG_CALL4(f) WMMADIAG_CALL3(f), f(a.w, b.w)
#define WMMADIAG_ONE2(f) f(a.x), f(a.y)
#define WMMADIAG_ONE3(f) WMMADIAG_ONE2(f), f(a.z)
#define WMMADIAG_ONE4(f) WMMADIAG_ONE3(f), f(a.w)
#define WMMADIAG_SUM2(sign) a.x* b.x + a.y* b.y
#define WMMADIAG_SUM3(sign) WMMADIAG_SUM2(sign) + a.z* b.z
#define WMMADIAG_SUM4(sign) WMMADIAG_SUM3(sign) + a.w* b.w

WMMADIAG_MATH int wmmadiag_min(int a, int b) { return a < b ? a : b; }
WMMADIAG_MATH int wmmadiag_max(int a, int b) { return a > b ? a : b; }
WMMADIAG_MATH uint wmmadiag_min(uint a, uint b) { return a < b ? a : b; }
WMMADIAG_MATH uint wmmadiag_max(uint a, uint b) { return a > b ? a : b; }
WMMADIAG_MATH int wmmadiag_abs(int a) { return a < 0 ? -a : a; }
WMMADIAG_MATH float wmmadiag_fraction(float a) { return a - floorf(a); }

#define WMMADIAG_ALL(T, N)                                                           \
    WMMADIAG_MATH T##N make_##T##N(T s) { return make_##T##N(WMMADIAG_SAME##N(s)); } \
    WMMADIAG_OPERATOR(T, T, N, +)                                                    \
    WMMADIAG_OPERATOR(T, T, N, -)                                                    \
    WMMADIAG_OPERATOR(T, T, N, *)                                                    \
    WMMADIAG_MATH T dot(T##N a, T##N b) { return WMMADIAG_SUM##N(+); }
#define WMMADIAG_WHOLE(T, N)                                                                       \
    WMMADIAG_ALL(T, N)                                                                             \
    WMMADIAG_MATH T##N min(T##N a, T##N b) { return make_##T##N(WMMADIAG_CALL##N(wmmadiag_min)); } \
    WMMADIAG_MATH T##N max(T##N a, T##N b) { return make_##T##N(WMMADIAG_CALL##N(wmmadiag_max)); } \
    WMMADIAG_MATH T##N clamp(T##N v, T##N a, T##N b) { return max(a, min(v, b)); }                 \
    WMMADIAG_MATH T##N clamp(T##N v, T a, T b) { return clamp(v, make_##T##N(a), make_##T##N(b)); }
#define WMMADIAG_SIGNED_WHOLE(N)                                                         \
    WMMADIAG_WHOLE(int, N)                                                               \
    WMMADIAG_MATH int##N operator-(int##N a) { return make_int##N(WMMADIAG_ONE##N(-)); } \
    WMMADIAG_MATH int##N abs(int##N a) { return make_int##N(WMMADIAG_ONE##N(wmmadiag_abs)); }
#define WMMADIAG_FLOAT(N)                                                                                               \
    WMMADIAG_ALL(float, N)                                                                                              \
    WMMADIAG_OPERATOR(float, float, N, /)                                                                               \
    WMMADIAG_MATH float##N operator-(float##N a) { return make_float##N(WMMADIAG_ONE##N(-)); }                          \
    WMMADIAG_MATH float##N fminf(float##N a, float##N b) { return make_float##N(WMMADIAG_CALL##N(fminf)); }             \
    WMMADIAG_MATH float##N fmaxf(float##N a, float##N b) { return make_float##N(WMMADIAG_CALL##N(fmaxf)); }             \
    WMMADIAG_MATH float##N fmodf(float##N a, float##N b) { return make_float##N(WMMADIAG_CALL##N(fmodf)); }             \
    WMMADIAG_MATH float##N fabs(float##N a) { return make_float##N(WMMADIAG_ONE##N(fabsf)); }                           \
    WMMADIAG_MATH float##N floorf(float##N a) { return make_float##N(WMMADIAG_ONE##N(floorf)); }                        \
    WMMADIAG_MATH float##N fracf(float##N a) { return make_float##N(WMMADIAG_ONE##N(wmmadiag_fraction)); }              \
    WMMADIAG_MATH float##N lerp(float##N a, float##N b, float t) { return a + t * (b - a); }                            \
    WMMADIAG_MATH float##N clamp(float##N v, float##N a, float##N b) { return fmaxf(a, fminf(v, b)); }                  \
    WMMADIAG_MATH float##N clamp(float##N v, float a, float b) { return clamp(v, make_float##N(a), make_float##N(b)); } \
    WMMADIAG_MATH float##N smoothstep(float##N a, float##N b, float##N x) {                                             \
        const float##N y = clamp((x - a) / (b - a), 0.0f, 1.0f);                                                        \
        return y * y * (make_float##N(3.0f) - 2.0f * y);                                                                \
    }                                                                                                                   \
    WMMADIAG_MATH float length(float##N v) { return sqrtf(dot(v, v)); }                                                 \
    WMMADIAG_MATH float##N normalize(float##N v) { return v * rsqrtf(dot(v, v)); }                                      \
    WMMADIAG_MATH float##N reflect(float##N i, float##N n) { return i - 2.0f * n * dot(n, i); }

WMMADIAG_MATH float fracf(float a) { return wmmadiag_fraction(a); }
WMMADIAG_MATH float smoothstep(float a, float b, float x) {
    const float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
    return y * y * (3.0f - 2.0f * y);
}
WMMADIAG_FLOAT(2)
WMMADIAG_FLOAT(3)
WMMADIAG_FLOAT(4)
WMMADIAG_SIGNED_WHOLE(2)
WMMADIAG_SIGNED_WHOLE(3)
WMMADIAG_SIGNED_WHOLE(4)
WMMADIAG_WHOLE(uint, 2)
WMMADIAG_WHOLE(uint, 3)
WMMADIAG_WHOLE(uint, 4)
WMMADIAG_MATH float3 cross(float3 a, float3 b) { return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }

// From one kind and number of members to another.
#define WMMADIAG_FROM(T, S)                                                                \
    WMMADIAG_MATH T##2 make_##T##2(S##2 a) { return make_##T##2(T(a.x), T(a.y)); }         \
    WMMADIAG_MATH T##3 make_##T##3(S##3 a) { return make_##T##3(T(a.x), T(a.y), T(a.z)); } \
    WMMADIAG_MATH T##4 make_##T##4(S##4 a) { return make_##T##4(T(a.x), T(a.y), T(a.z), T(a.w)); }
#define WMMADIAG_NUMBER(T)                                                              \
    WMMADIAG_MATH T##2 make_##T##2(T##3 a) { return make_##T##2(a.x, a.y); }            \
    WMMADIAG_MATH T##3 make_##T##3(T##2 a) { return make_##T##3(a.x, a.y, T(0)); }      \
    WMMADIAG_MATH T##3 make_##T##3(T##2 a, T s) { return make_##T##3(a.x, a.y, s); }    \
    WMMADIAG_MATH T##3 make_##T##3(T##4 a) { return make_##T##3(a.x, a.y, a.z); }       \
    WMMADIAG_MATH T##4 make_##T##4(T##3 a) { return make_##T##4(a.x, a.y, a.z, T(0)); } \
    WMMADIAG_MATH T##4 make_##T##4(T##3 a, T w) { return make_##T##4(a.x, a.y, a.z, w); }
WMMADIAG_FROM(float, int)
WMMADIAG_FROM(float, uint)
WMMADIAG_FROM(int, float)
WMMADIAG_FROM(int, uint)
WMMADIAG_FROM(uint, int)
WMMADIAG_NUMBER(float)
WMMADIAG_NUMBER(int)
WMMADIAG_NUMBER(uint)
