/*******************************************************************************
 * HW5, problem 3 -- batched matrix multiplication with transposes
 * Name: (removed for publication)
 *
 *    C_i = alpha * op(A_i) * op(B_i) + beta * C_i        i = 0 .. batch-1
 *
 * op(X) is X or X^T. All matrices are ROW MAJOR with a leading dimension (the
 * distance of two rows), and m, n, k are multiples of 16, as the handout
 * allows. No shared memory is used here (that was problem 4).
 *
 * Trick from lecture 11: a transposed row-major matrix is the same bytes as a
 * column-major one. So a transpose costs no work at all: the fragment is loaded
 * with the other layout and the pointer arithmetic changes.
 ******************************************************************************/
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>
#include <iostream>
#include <random>
#include <type_traits>
#include <vector>

namespace wm = nvcuda::wmma;

constexpr int T = 16;            // edge of a fragment
constexpr int WARPS = 4;         // warps of a block, stacked along m

struct Operand {
  const __half* data;
  int ld;
  long stride;                   // from one matrix of the batch to the next
};

// top left corner of the fragment at (row, col) of op(X)
template <typename Layout>
__device__ const __half* corner(const __half* x, int ld, int row, int col) {
  if (std::is_same<Layout, wm::row_major>::value)
    return x + static_cast<long>(row) * ld + col;
  else
    return x + static_cast<long>(col) * ld + row;
}

template <typename LayoutA, typename LayoutB>
__global__ void bmm_kernel(int m, int n, int k, float alpha, Operand A, Operand B, float beta, float* C, int ldc,
                           long stride_c) {
  const int warp = threadIdx.y;
  const int row = (blockIdx.y * WARPS + warp) * T;
  const int col = blockIdx.x * 2 * T;
  if (row >= m) return;          // the whole warp leaves

  const __half* a = A.data + blockIdx.z * A.stride;
  const __half* b = B.data + blockIdx.z * B.stride;
  float* c = C + blockIdx.z * stride_c;
  const bool two = col + T < n;  // is there a second tile?

  wm::fragment<wm::accumulator, T, T, T, float> sum0, sum1;
  wm::fill_fragment(sum0, 0.0f);
  wm::fill_fragment(sum1, 0.0f);

  for (int kk = 0; kk < k; kk += T) {
    wm::fragment<wm::matrix_a, T, T, T, __half, LayoutA> fa;
    wm::fragment<wm::matrix_b, T, T, T, __half, LayoutB> fb;
    wm::load_matrix_sync(fa, corner<LayoutA>(a, A.ld, row, kk), A.ld);
    wm::load_matrix_sync(fb, corner<LayoutB>(b, B.ld, kk, col), B.ld);
    wm::mma_sync(sum0, fa, fb, sum0);
    if (two) {
      wm::load_matrix_sync(fb, corner<LayoutB>(b, B.ld, kk, col + T), B.ld);
      wm::mma_sync(sum1, fa, fb, sum1);
    }
  }

  wm::fragment<wm::accumulator, T, T, T, float> old;
  float* out = c + static_cast<long>(row) * ldc + col;
  wm::load_matrix_sync(old, out, ldc, wm::mem_row_major);
  for (int i = 0; i < old.num_elements; i++) old.x[i] = alpha * sum0.x[i] + beta * old.x[i];
  wm::store_matrix_sync(out, old, ldc, wm::mem_row_major);
  if (two) {
    wm::load_matrix_sync(old, out + T, ldc, wm::mem_row_major);
    for (int i = 0; i < old.num_elements; i++) old.x[i] = alpha * sum1.x[i] + beta * old.x[i];
    wm::store_matrix_sync(out + T, old, ldc, wm::mem_row_major);
  }
}

void bmm(char opA, char opB, int batch, int m, int n, int k, float alpha, Operand A, Operand B, float beta, float* C,
         int ldc, long stride_c) {
  dim3 block(32, WARPS);
  dim3 grid((n + 2 * T - 1) / (2 * T), (m + WARPS * T - 1) / (WARPS * T), batch);
  if (opA == 'N' && opB == 'N')
    bmm_kernel<wm::row_major, wm::row_major><<<grid, block>>>(m, n, k, alpha, A, B, beta, C, ldc, stride_c);
  else if (opA == 'N' && opB == 'T')
    bmm_kernel<wm::row_major, wm::col_major><<<grid, block>>>(m, n, k, alpha, A, B, beta, C, ldc, stride_c);
  else if (opA == 'T' && opB == 'N')
    bmm_kernel<wm::col_major, wm::row_major><<<grid, block>>>(m, n, k, alpha, A, B, beta, C, ldc, stride_c);
  else
    bmm_kernel<wm::col_major, wm::col_major><<<grid, block>>>(m, n, k, alpha, A, B, beta, C, ldc, stride_c);
}

// ----------------------------------------------------------------------------- tests
template <typename V>
V* to_device(const std::vector<V>& v) {
  V* p = nullptr;
  cudaMalloc(&p, v.size() * sizeof(V));
  cudaMemcpy(p, v.data(), v.size() * sizeof(V), cudaMemcpyHostToDevice);
  return p;
}

int main() {
  std::mt19937 gen(5);
  std::uniform_real_distribution<float> uni(-1.0f, 1.0f);
  const int batch = 2, m = 80, n = 48, k = 32;
  const float alpha = 0.5f, beta = -2.0f;
  int failures = 0;

  for (char opA : {'N', 'T'}) {
    for (char opB : {'N', 'T'}) {
      const int rowsA = opA == 'N' ? m : k, colsA = opA == 'N' ? k : m;
      const int rowsB = opB == 'N' ? k : n, colsB = opB == 'N' ? n : k;
      // leading dimensions larger than the rows, on purpose
      const int lda = colsA + 16, ldb = colsB + 32, ldc = n + 16;
      std::vector<__half> a(static_cast<size_t>(batch) * rowsA * lda), b(static_cast<size_t>(batch) * rowsB * ldb);
      std::vector<float> c(static_cast<size_t>(batch) * m * ldc);
      for (auto& v : a) v = __float2half(uni(gen));
      for (auto& v : b) v = __float2half(uni(gen));
      for (auto& v : c) v = uni(gen);

      __half* da = to_device(a);
      __half* db = to_device(b);
      float* dc = to_device(c);
      bmm(opA, opB, batch, m, n, k, alpha, Operand{da, lda, static_cast<long>(rowsA) * lda},
          Operand{db, ldb, static_cast<long>(rowsB) * ldb}, beta, dc, ldc, static_cast<long>(m) * ldc);
      std::vector<float> got(c.size());
      if (cudaMemcpy(got.data(), dc, got.size() * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) {
        std::cerr << "CUDA error\n";
        return 2;
      }

      int wrong = 0;
      for (int z = 0; z < batch; z++)
        for (int i = 0; i < m; i++)
          for (int j = 0; j < n; j++) {
            double s = 0;
            for (int p = 0; p < k; p++) {
              const size_t ia = opA == 'N' ? static_cast<size_t>(z * rowsA + i) * lda + p
                                           : static_cast<size_t>(z * rowsA + p) * lda + i;
              const size_t ib = opB == 'N' ? static_cast<size_t>(z * rowsB + p) * ldb + j
                                           : static_cast<size_t>(z * rowsB + j) * ldb + p;
              s += static_cast<double>(__half2float(a[ia])) * __half2float(b[ib]);
            }
            const size_t ic = static_cast<size_t>(z * m + i) * ldc + j;
            const double want = alpha * s + beta * c[ic];
            if (!(std::fabs(got[ic] - want) < 1e-3)) wrong++;
          }
      std::cout << "op(A)=" << opA << " op(B)=" << opB << ": " << (wrong ? "FAILED" : "passed") << " (" << wrong
                << " wrong)\n";
      failures += wrong > 0;
      cudaFree(da);
      cudaFree(db);
      cudaFree(dc);
    }
  }
  return failures;
}
