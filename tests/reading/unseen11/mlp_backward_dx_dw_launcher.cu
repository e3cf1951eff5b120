// Backward of y = x W^T: two GEMMs with different operand orders from one templated kernel, launched one after the other.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <assert.h>

using namespace nvcuda;
typedef __nv_bfloat16 floatX;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
inline void cuda_check(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) { printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error)); exit(EXIT_FAILURE); }
}

// out[r, c] = sum_i op(left)[r, i] * right[i, c],  op = transpose if TransLeft; fp32 out is accumulated into when Accumulate
template <bool TransLeft, bool Accumulate, typename Out>
__global__ void __launch_bounds__(128) matmul_rt_kernel(Out* out, const floatX* left, const floatX* right, int R, int C, int I) {
  __shared__ __align__(32) float stage[4][256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int r0 = blockIdx.y * 32 + (warp / 2) * 16, c0 = blockIdx.x * 32 + (warp % 2) * 16;
  if (r0 >= R || c0 >= C) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int i = 0; i < I; i += 16) {
    wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> b;
    wmma::load_matrix_sync(b, right + (size_t)i * C + c0, C);
    if constexpr (TransLeft) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::col_major> a;
      wmma::load_matrix_sync(a, left + (size_t)i * R + r0, R);
      wmma::mma_sync(acc, a, b, acc);
    } else {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> a;
      wmma::load_matrix_sync(a, left + (size_t)r0 * I + i, I);
      wmma::mma_sync(acc, a, b, acc);
    }
  }
  wmma::store_matrix_sync(stage[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int e = lane; e < 256; e += 32) {
    Out* o = out + (size_t)(r0 + e / 16) * C + c0 + e % 16;
    if constexpr (Accumulate)
      *o = (Out)((float)*o + stage[warp][e]);
    else
      *o = (Out)stage[warp][e];
  }
}

// dinp (B*T, IC) = dout (B*T, OC) @ weight (OC, IC);   dweight (OC, IC) += dout^T @ inp (B*T, IC)
void matmul_backward(floatX* dinp, float* dweight, const floatX* dout, const floatX* inp, const floatX* weight, int B, int T, int IC, int OC, cudaStream_t stream) {
  const int BT = B * T;
  assert(BT % 16 == 0 && IC % 16 == 0 && OC % 16 == 0);
  matmul_rt_kernel<false, false><<<dim3(CEIL_DIV(IC, 32), CEIL_DIV(BT, 32)), 128, 0, stream>>>(dinp, dout, weight, BT, IC, OC);
  matmul_rt_kernel<true, true><<<dim3(CEIL_DIV(IC, 32), CEIL_DIV(OC, 32)), 128, 0, stream>>>(dweight, dout, inp, OC, IC, BT);
  cudaCheck(cudaGetLastError());
}
