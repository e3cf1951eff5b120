#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

// C[M][N] (int32) = A[M][K] (int8, row major) x B[N][K]^T (int8, "column major")
// mma.sync.m16n8k32, one warp computes 16 x 32

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char* file, int line) {
  if (code != cudaSuccess) {
    std::cerr << "GPUassert: " << cudaGetErrorString(code) << " " << file << ":" << line << std::endl;
    std::exit(code);
  }
}

static constexpr int WARP_N_TILES = 4;

__global__ void imma_m16n8k32(const int8_t* __restrict__ A, const int8_t* __restrict__ B, int32_t* __restrict__ C,
                              int M, int N, int K) {
  const int lane = threadIdx.x;
  const int groupID = lane >> 2;
  const int threadID_in_group = lane & 3;
  const int m = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
  const int n = blockIdx.x * 8 * WARP_N_TILES;
  if (m >= M) return;

  int32_t acc[WARP_N_TILES][4];
#pragma unroll
  for (int j = 0; j < WARP_N_TILES; ++j) acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0;

  for (int k = 0; k < K; k += 32) {
    uint32_t a[4];
    const int8_t* a_lo = A + (m + groupID) * K + k + threadID_in_group * 4;
    const int8_t* a_hi = a_lo + 8 * K;
    a[0] = *(const uint32_t*)(a_lo);
    a[1] = *(const uint32_t*)(a_hi);
    a[2] = *(const uint32_t*)(a_lo + 16);
    a[3] = *(const uint32_t*)(a_hi + 16);
#pragma unroll
    for (int j = 0; j < WARP_N_TILES; ++j) {
      const int8_t* bp = B + (n + j * 8 + groupID) * K + k + threadID_in_group * 4;
      const uint32_t b0 = *(const uint32_t*)(bp);
      const uint32_t b1 = *(const uint32_t*)(bp + 16);
      asm volatile(
          "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
          : "=r"(acc[j][0]), "=r"(acc[j][1]), "=r"(acc[j][2]), "=r"(acc[j][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(acc[j][0]), "r"(acc[j][1]),
            "r"(acc[j][2]), "r"(acc[j][3]));
    }
  }
#pragma unroll
  for (int j = 0; j < WARP_N_TILES; ++j) {
    int32_t* c = C + (m + groupID) * N + n + j * 8 + threadID_in_group * 2;
    c[0] = acc[j][0];
    c[1] = acc[j][1];
    c[8 * N] = acc[j][2];
    c[8 * N + 1] = acc[j][3];
  }
}

int main(int argc, char* argv[]) {
  int M = 64, N = 96, K = 128;
  if (argc == 4) {
    M = std::atoi(argv[1]);
    N = std::atoi(argv[2]);
    K = std::atoi(argv[3]);
  }
  std::mt19937 gen(7);
  std::uniform_int_distribution<int> dist(-128, 127);
  std::vector<int8_t> a(M * K), b(N * K);
  for (auto& x : a) x = static_cast<int8_t>(dist(gen));
  for (auto& x : b) x = static_cast<int8_t>(dist(gen));
  int8_t *d_a, *d_b;
  int32_t* d_c;
  gpuErrchk(cudaMalloc((void**)&d_a, a.size()));
  gpuErrchk(cudaMalloc((void**)&d_b, b.size()));
  gpuErrchk(cudaMalloc((void**)&d_c, M * N * sizeof(int32_t)));
  gpuErrchk(cudaMemcpy(d_a, a.data(), a.size(), cudaMemcpyHostToDevice));
  gpuErrchk(cudaMemcpy(d_b, b.data(), b.size(), cudaMemcpyHostToDevice));

  dim3 threads(32, 4);
  dim3 blocks(N / (8 * WARP_N_TILES), (M + 63) / 64);
  imma_m16n8k32<<<blocks, threads>>>(d_a, d_b, d_c, M, N, K);
  gpuErrchk(cudaPeekAtLastError());
  gpuErrchk(cudaDeviceSynchronize());

  std::vector<int32_t> c(M * N);
  gpuErrchk(cudaMemcpy(c.data(), d_c, c.size() * sizeof(int32_t), cudaMemcpyDeviceToHost));
  int errors = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      int32_t want = 0;
      for (int k = 0; k < K; ++k) want += int32_t(a[i * K + k]) * int32_t(b[j * K + k]);
      if (want != c[i * N + j] && errors++ < 5)
        std::printf("C[%d][%d] = %d, expected %d\n", i, j, c[i * N + j], want);
    }
  std::printf("%s (%d mismatches)\n", errors ? "Test FAILED" : "Test PASSED", errors);
  cudaFree(d_a);
  cudaFree(d_b);
  cudaFree(d_c);
  return errors != 0;
}
