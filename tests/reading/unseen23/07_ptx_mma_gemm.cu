/*
 * CUDA from scratch, chapter 7: leaving WMMA behind
 * -------------------------------------------------
 * In chapter 6 we let nvcuda::wmma do everything for us. Today we talk to the tensor cores directly
 * with two PTX instructions:
 *
 *    ldmatrix      shared memory -> registers, already in the layout that mma wants
 *    mma.sync      D = A * B + C with A 16x16, B 16x8 and C/D 16x8
 *
 * We do it in two steps. step1 fills the registers by hand, straight from global memory: slow, but you can see which
 * thread owns which element. step2 goes through shared memory and uses ldmatrix.
 *
 *    nvcc -arch=sm_80 -o 07_ptx_mma_gemm 07_ptx_mma_gemm.cu && ./07_ptx_mma_gemm
 *
 * To keep the code short M, N must be multiples of 64 and K a multiple of 32.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>

#define CHECK(x)                                                                            \
  do {                                                                                      \
    cudaError_t e = (x);                                                                    \
    if (e != cudaSuccess) {                                                                 \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));                     \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

// The star of the show. Two halves are packed in each 32 bit register.
__device__ void mma16816(float d[4], const uint32_t a[4], const uint32_t b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ uint32_t pack(half lo, half hi) {
  half2 h = __halves2half2(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

// ---------------------------------------------------------------------------------------------------------------
// step 1: one warp computes one 16x8 tile of C
// ---------------------------------------------------------------------------------------------------------------
__global__ void step1(const half* A, const half* B, float* C, int M, int N, int K) {
  int lane = threadIdx.x;
  int group = lane / 4;  // 0..7 : which row of A, which column of B
  int tig = lane % 4;    // "thread in group", 0..3
  int row = blockIdx.y * 16, col = blockIdx.x * 8;

  float d[4] = {0, 0, 0, 0};
  for (int k = 0; k < K; k += 16) {
    uint32_t a[4], b[2];
    const half* pa = A + (row + group) * K + k + tig * 2;
    a[0] = *(const uint32_t*)(pa);              // upper left
    a[1] = *(const uint32_t*)(pa + 8 * K);      // lower left
    a[2] = *(const uint32_t*)(pa + 8);          // upper right
    a[3] = *(const uint32_t*)(pa + 8 * K + 8);  // lower right
    const half* pb = B + (k + tig * 2) * N + col + group;
    b[0] = pack(pb[0], pb[N]);
    b[1] = pack(pb[8 * N], pb[9 * N]);
    mma16816(d, a, b);
  }
  float* pc = C + (row + group) * N + col + tig * 2;
  pc[0] = d[0];
  pc[1] = d[1];
  pc[8 * N] = d[2];
  pc[8 * N + 1] = d[3];
}

// ---------------------------------------------------------------------------------------------------------------
// step 2: a block of four warps computes 64x64, every warp a 32x32 quarter = 2 x 4 mma tiles
// ---------------------------------------------------------------------------------------------------------------
const int TILE = 64;
const int TILE_K = 32;
const int PAD = 8;  // eight halves = 16 bytes: rows stay aligned for ldmatrix, and fall in different banks

__device__ uint32_t smem_addr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__global__ void step2(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(16) half As[TILE][TILE_K + PAD];
  __shared__ __align__(16) half Bs[TILE_K][TILE + PAD];

  int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  int warp_row = (warp / 2) * 32, warp_col = (warp % 2) * 32;
  int block_row = blockIdx.y * TILE, block_col = blockIdx.x * TILE;

  float acc[2][4][4] = {};

  for (int k0 = 0; k0 < K; k0 += TILE_K) {
    // 128 threads move 64*32 halves of A in chunks of 8: two chunks each. B likewise.
    for (int c = tid; c < TILE * TILE_K / 8; c += 128) {
      int ar = c / (TILE_K / 8), ac = c % (TILE_K / 8) * 8;
      *(uint4*)&As[ar][ac] = *(const uint4*)&A[(block_row + ar) * K + k0 + ac];
      int br = c / (TILE / 8), bc = c % (TILE / 8) * 8;
      *(uint4*)&Bs[br][bc] = *(const uint4*)&B[(k0 + br) * N + block_col + bc];
    }
    __syncthreads();

    for (int kk = 0; kk < TILE_K; kk += 16) {
      uint32_t a[2][4], b[4][2];
      for (int i = 0; i < 2; i++) {
        // lanes 0-15 give the addresses of the left 8 columns, lanes 16-31 those of the right
        uint32_t p = smem_addr(&As[warp_row + i * 16 + lane % 16][kk + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                     : "r"(p));
      }
      for (int j = 0; j < 4; j++) {
        // B lies in memory by rows, mma wants it by columns: .trans turns each 8x8 around
        uint32_t p = smem_addr(&Bs[kk + lane % 16][warp_col + j * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                     : "=r"(b[j][0]), "=r"(b[j][1])
                     : "r"(p));
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) mma16816(acc[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++) {
      int r = block_row + warp_row + i * 16 + lane / 4;
      int c = block_col + warp_col + j * 8 + lane % 4 * 2;
      *(float2*)&C[r * N + c] = make_float2(acc[i][j][0], acc[i][j][1]);
      *(float2*)&C[(r + 8) * N + c] = make_float2(acc[i][j][2], acc[i][j][3]);
    }
}

// ---------------------------------------------------------------------------------------------------------------
static bool same(const char* name, const std::vector<float>& got, const std::vector<float>& want) {
  float worst = 0;
  for (size_t i = 0; i < want.size(); i++) worst = fmaxf(worst, fabsf(got[i] - want[i]));
  bool ok = worst < 1e-2f;
  printf("%s: largest difference %g  %s\n", name, worst, ok ? "OK" : "WRONG");
  return ok;
}

int main() {
  const int M = 64, N = 128, K = 96;
  std::vector<half> A(M * K), B(K * N);
  std::vector<float> want(M * N), got(M * N);
  srand(7);
  for (auto& x : A) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
  for (auto& x : B) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
      want[i * N + j] = sum;
    }

  half *dA, *dB;
  float* dC;
  CHECK(cudaMalloc(&dA, A.size() * sizeof(half)));
  CHECK(cudaMalloc(&dB, B.size() * sizeof(half)));
  CHECK(cudaMalloc(&dC, got.size() * sizeof(float)));
  CHECK(cudaMemcpy(dA, A.data(), A.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dB, B.data(), B.size() * sizeof(half), cudaMemcpyHostToDevice));

  step1<<<dim3(N / 8, M / 16), 32>>>(dA, dB, dC, M, N, K);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), dC, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
  bool ok = same("step 1, registers by hand", got, want);

  CHECK(cudaMemset(dC, 0, got.size() * sizeof(float)));
  step2<<<dim3(N / TILE, M / TILE), 128>>>(dA, dB, dC, M, N, K);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), dC, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
  ok = same("step 2, ldmatrix        ", got, want) && ok;

  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  return ok ? 0 : 1;
}
