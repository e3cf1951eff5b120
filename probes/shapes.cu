// Which WMMA shapes and types are there? One kernel each, D = A·Bᵀ of one tile; FORMS is a bit mask of those to compile.
// Run: wmmadiag probe shapes
#include <mma.h>
#include <cuda_fp8.h>
using namespace nvcuda;
using namespace nvcuda::wmma::experimental::precision;
#define WMMA(NAME, M, N, K, TYPE, MEMORY, SUM, MULTIPLY)                                             \
    extern "C" __global__ void NAME(const MEMORY* A, const MEMORY* B, SUM* D) {                       \
        wmma::fragment<wmma::matrix_a, M, N, K, TYPE, wmma::row_major> a;                             \
        wmma::fragment<wmma::matrix_b, M, N, K, TYPE, wmma::col_major> b;                             \
        wmma::fragment<wmma::accumulator, M, N, K, SUM> d;                                            \
        wmma::fill_fragment(d, (SUM)0.0f);                                                            \
        wmma::load_matrix_sync(a, A, K);                                                              \
        wmma::load_matrix_sync(b, B, K);                                                              \
        MULTIPLY(d, a, b, d);                                                                         \
        wmma::store_matrix_sync(D, d, N, wmma::mem_row_major);                                        \
    }
#define FORM(BIT) ((FORMS) >> (BIT) & 1)
#if FORM(0)
WMMA(m16n16k16_f16_f32, 16, 16, 16, half, half, float, wmma::mma_sync)
#endif
#if FORM(1)
WMMA(m32n8k16_f16_f32, 32, 8, 16, half, half, float, wmma::mma_sync)
#endif
#if FORM(2)
WMMA(m8n32k16_f16_f32, 8, 32, 16, half, half, float, wmma::mma_sync)
#endif
#if FORM(3)
WMMA(m16n16k16_f16_f16, 16, 16, 16, half, half, half, wmma::mma_sync)
#endif
#if FORM(4)
WMMA(m32n8k16_f16_f16, 32, 8, 16, half, half, half, wmma::mma_sync)
#endif
#if FORM(5)
WMMA(m8n32k16_f16_f16, 8, 32, 16, half, half, half, wmma::mma_sync)
#endif
#if FORM(6)
WMMA(m16n16k16_bf16_f32, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, wmma::mma_sync)
#endif
#if FORM(7)
WMMA(m32n8k16_bf16_f32, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, float, wmma::mma_sync)
#endif
#if FORM(8)
WMMA(m8n32k16_bf16_f32, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, wmma::mma_sync)
#endif
#if FORM(9)
WMMA(m16n16k8_tf32_f32, 16, 16, 8, wmma::precision::tf32, float, float, wmma::mma_sync)
#endif
#if FORM(10)
WMMA(m8n8k4_f64_f64, 8, 8, 4, double, double, double, wmma::mma_sync)
#endif
#if FORM(11)
WMMA(m16n16k16_s8_s32, 16, 16, 16, signed char, signed char, int, wmma::mma_sync)
#endif
#if FORM(12)
WMMA(m32n8k16_s8_s32, 32, 8, 16, signed char, signed char, int, wmma::mma_sync)
#endif
#if FORM(13)
WMMA(m8n32k16_s8_s32, 8, 32, 16, signed char, signed char, int, wmma::mma_sync)
#endif
#if FORM(14)
WMMA(m16n16k16_u8_s32, 16, 16, 16, unsigned char, unsigned char, int, wmma::mma_sync)
#endif
#if FORM(15)
WMMA(m32n8k16_u8_s32, 32, 8, 16, unsigned char, unsigned char, int, wmma::mma_sync)
#endif
#if FORM(16)
WMMA(m8n32k16_u8_s32, 8, 32, 16, unsigned char, unsigned char, int, wmma::mma_sync)
#endif
#if FORM(17)
WMMA(m8n8k32_s4_s32, 8, 8, 32, s4, void, int, wmma::mma_sync)
#endif
#if FORM(18)
WMMA(m8n8k32_u4_s32, 8, 8, 32, u4, void, int, wmma::mma_sync)
#endif
#if FORM(19)
WMMA(m8n8k128_b1_s32, 8, 8, 128, b1, void, int, wmma::bmma_sync)
#endif
#if FORM(20)
WMMA(m16n8k16_f16_f32, 16, 8, 16, half, half, float, wmma::mma_sync)
#endif
#if FORM(21)
WMMA(m16n16k8_f16_f32, 16, 16, 8, half, half, float, wmma::mma_sync)
#endif
#if FORM(22)
WMMA(m16n16k32_f16_f32, 16, 16, 32, half, half, float, wmma::mma_sync)
#endif
#if FORM(23)
WMMA(m8n8k4_f16_f32, 8, 8, 4, half, half, float, wmma::mma_sync)
#endif
#if FORM(24)
WMMA(m16n16k16_tf32_f32, 16, 16, 16, wmma::precision::tf32, float, float, wmma::mma_sync)
#endif
#if FORM(25)
WMMA(m16n16k16_bf16_bf16, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, wmma::mma_sync)
#endif
#if FORM(26)
WMMA(m16n16k16_e4m3_f32, 16, 16, 16, __nv_fp8_e4m3, __nv_fp8_e4m3, float, wmma::mma_sync)
#endif
#if FORM(27)
WMMA(m16n16k16_f32_f32, 16, 16, 16, float, float, float, wmma::mma_sync)
#endif
