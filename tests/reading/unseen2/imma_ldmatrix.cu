#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define CHECK_CUDA(e) do { cudaError_t s = e; if (s != cudaSuccess) { printf("%s\n", cudaGetErrorString(s)); return -1; } } while (0)
// int8 x int8 -> int32, A [m,k] row-major, B [n,k]
template <int kM = 64, int kN = 32, int kK = 64>
__global__ void s8_gemm(const int8_t* a, const int8_t* b, int32_t* c, int m, int n, int k) {
  __shared__ __align__(16) int8_t as[kM][kK + 16];
  __shared__ __align__(16) int8_t bs[kN][kK + 16];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int acc[kN / 8][4] = {{0}};
  for (int k0 = 0; k0 < k; k0 += kK) {
    for (int i = threadIdx.x * 16; i < kM * kK; i += blockDim.x * 16)
      *(int4*)&as[i / kK][i % kK] = *(const int4*)&a[(size_t)(blockIdx.y * kM + i / kK) * k + k0 + i % kK];
    for (int i = threadIdx.x * 16; i < kN * kK; i += blockDim.x * 16)
      *(int4*)&bs[i / kK][i % kK] = *(const int4*)&b[(size_t)(blockIdx.x * kN + i / kK) * k + k0 + i % kK];
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kK; kk += 32) {
      uint32_t ra[4];
      uint32_t pa = __cvta_generic_to_shared(&as[warp * 16 + lane % 16][kk + lane / 16 * 16]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
#pragma unroll
      for (int j = 0; j < kN / 8; j++) {
        uint32_t rb[2];
        uint32_t pb = __cvta_generic_to_shared(&bs[j * 8 + lane % 8][kk + (lane / 8 % 2) * 16]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+r"(acc[j][0]), "+r"(acc[j][1]), "+r"(acc[j][2]), "+r"(acc[j][3])
          : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < kN / 8; j++) {
    int row = blockIdx.y * kM + warp * 16 + lane / 4, col = blockIdx.x * kN + j * 8 + lane % 4 * 2;
    *(int2*)&c[(size_t)row * n + col] = make_int2(acc[j][0], acc[j][1]);
    *(int2*)&c[(size_t)(row + 8) * n + col] = make_int2(acc[j][2], acc[j][3]);
  }
}
int main() {
  int m = 256, n = 256, k = 256;
  int8_t *a, *b; int32_t *c;
  CHECK_CUDA(cudaMallocManaged(&a, m * k));
  CHECK_CUDA(cudaMallocManaged(&b, n * k));
  CHECK_CUDA(cudaMallocManaged(&c, m * n * sizeof(int32_t)));
  for (int i = 0; i < m * k; i++) a[i] = i % 7 - 3;
  for (int i = 0; i < n * k; i++) b[i] = i % 5 - 2;
  s8_gemm<><<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 64)), 128>>>(a, b, c, m, n, k);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      int want = 0;
      for (int p = 0; p < k; p++) want += a[i * k + p] * b[j * k + p];
      if (want != c[i * n + j]) { printf("wrong at %d %d\n", i, j); return 1; }
    }
  printf("ok\n");
}
