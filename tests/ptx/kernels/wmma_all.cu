// Every shape and element type of the WMMA API, to see that the front end takes what NVRTC makes of them.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
using wmma::col_major;
using wmma::row_major;

template <int M, int N, int K, class T, class Acc, class LayoutA, class LayoutB>
__device__ void multiply(const T* a, const T* b, Acc* c) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::load_matrix_sync(fc, c, N, wmma::mem_col_major);
    wmma::load_matrix_sync(fa, a, M > K ? M : K);
    wmma::load_matrix_sync(fb, b, N > K ? N : K);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}

extern "C" __global__ void f16(const half* a, const half* b, half* c, float* f) {
    multiply<16, 16, 16, half, half, row_major, col_major>(a, b, c);
    multiply<32, 8, 16, half, float, col_major, col_major>(a, b, f);
    multiply<8, 32, 16, half, float, row_major, row_major>(a, b, f);
}

extern "C" __global__ void s8(const signed char* a, const signed char* b, int* c) {
    multiply<16, 16, 16, signed char, int, row_major, col_major>(a, b, c);
    multiply<32, 8, 16, signed char, int, col_major, row_major>(a, b, c);
    multiply<8, 32, 16, signed char, int, row_major, row_major>(a, b, c);
}

extern "C" __global__ void u8(const unsigned char* a, const unsigned char* b, int* c) {
    multiply<16, 16, 16, unsigned char, int, row_major, col_major>(a, b, c);
}

extern "C" __global__ void s4(const int* a, const int* b, int* c) {
    using wmma::experimental::precision::s4;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, s4, row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, s4, col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::fill_fragment(fc, 0);
    wmma::mma_sync(fc, fa, fb, fc, true);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

extern "C" __global__ void b1(const int* a, const int* b, int* c) {
    wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::fill_fragment(fc, 0);
    wmma::bmma_sync(fc, fa, fb, fc);
#if __CUDA_ARCH__ >= 800
    wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND);
#endif
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
    multiply<16, 16, 16, __nv_bfloat16, float, row_major, col_major>(a, b, c);
    multiply<32, 8, 16, __nv_bfloat16, float, col_major, row_major>(a, b, c);
    multiply<8, 32, 16, __nv_bfloat16, float, row_major, row_major>(a, b, c);
}

extern "C" __global__ void f64(const double* a, const double* b, double* c) {
    multiply<8, 8, 4, double, double, row_major, col_major>(a, b, c);
}

extern "C" __global__ void tf32(const float* a, const float* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::load_matrix_sync(fa, a, 8);
    wmma::load_matrix_sync(fb, b, 8);
    wmma::fill_fragment(fc, 0.f);
    for (int i = 0; i < fa.num_elements; i++) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
#endif
