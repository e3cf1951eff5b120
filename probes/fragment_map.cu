// Which element is frag.x[i] of each lane? Run: wmmadiag probe fragment-map
#include <mma.h>
using namespace nvcuda;
template <class Fragment, class Memory>
__device__ void dump(const Memory* X, int ldm, float* to, int* count) {
    Fragment f;
    wmma::load_matrix_sync(f, X, ldm);
    for (int i = 0; i < f.num_elements; ++i) to[threadIdx.x * f.num_elements + i] = (float)f.x[i];
    *count = f.num_elements;
}
template <class Fragment, class Memory>
__device__ void dump_sum(const Memory* X, int ldm, float* to, int* count) {
    Fragment f;
    wmma::load_matrix_sync(f, X, ldm, wmma::mem_row_major);
    for (int i = 0; i < f.num_elements; ++i) to[threadIdx.x * f.num_elements + i] = (float)f.x[i];
    *count = f.num_elements;
}
#define OPERAND(SHAPE, M, N, K, MATRIX, NAME, TYPE, MEMORY)                                                     \
    extern "C" __global__ void SHAPE##_##MATRIX##_##NAME(const MEMORY* X, int ldm, float* to, int* count) {      \
        dump<wmma::fragment<wmma::matrix_##MATRIX, M, N, K, TYPE, wmma::row_major>>(X, ldm, to, count);          \
    }
#define SUM(SHAPE, M, N, K, NAME, TYPE)                                                                         \
    extern "C" __global__ void SHAPE##_c_##NAME(const TYPE* X, int ldm, float* to, int* count) {                 \
        dump_sum<wmma::fragment<wmma::accumulator, M, N, K, TYPE>>(X, ldm, to, count);                           \
    }
#define HALVES(SHAPE, M, N, K)                                                                                  \
    OPERAND(SHAPE, M, N, K, a, f16, half, half)                                                                 \
    OPERAND(SHAPE, M, N, K, b, f16, half, half)                                                                 \
    OPERAND(SHAPE, M, N, K, a, s8, signed char, signed char)                                                    \
    OPERAND(SHAPE, M, N, K, b, s8, signed char, signed char)                                                    \
    SUM(SHAPE, M, N, K, f32, float)                                                                             \
    SUM(SHAPE, M, N, K, f16, half)                                                                              \
    SUM(SHAPE, M, N, K, s32, int)
HALVES(m16n16k16, 16, 16, 16)
HALVES(m32n8k16, 32, 8, 16)
HALVES(m8n32k16, 8, 32, 16)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
OPERAND(m16n16k16, 16, 16, 16, a, bf16, __nv_bfloat16, __nv_bfloat16)
OPERAND(m16n16k16, 16, 16, 16, b, bf16, __nv_bfloat16, __nv_bfloat16)
OPERAND(m16n16k8, 16, 16, 8, a, tf32, wmma::precision::tf32, float)
OPERAND(m16n16k8, 16, 16, 8, b, tf32, wmma::precision::tf32, float)
SUM(m16n16k8, 16, 16, 8, f32, float)
OPERAND(m8n8k4, 8, 8, 4, a, f64, double, double)
OPERAND(m8n8k4, 8, 8, 4, b, f64, double, double)
SUM(m8n8k4, 8, 8, 4, f64, double)
#endif
