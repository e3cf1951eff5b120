// HGEMM v4: 128x128x32 tiles, ldmatrix + mma, XOR swizzle instead of padding, register double buffering, benchmark class
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#define HGEMM_CHECK_CUDA(expr)                                                                     \
  do {                                                                                             \
    cudaError_t status_ = (expr);                                                                  \
    if (status_ != cudaSuccess) {                                                                  \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << cudaGetErrorString(status_) << std::endl; \
      std::exit(EXIT_FAILURE);                                                                     \
    }                                                                                              \
  } while (0)

#define BLOCK_ROWS 128
#define BLOCK_COLS 128
#define WARP_ROWS 64
#define WARP_COLS 32
#define CHUNK_K 32
#define THREADS_PER_BLOCK 256
#define CHUNK_VECS (CHUNK_K / 8)

static __device__ __forceinline__ int swz(int row, int vec) { return vec ^ ((row >> 1) & 3); }

__global__ void __launch_bounds__(THREADS_PER_BLOCK, 1)
mmaSwizzledKernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, size_t M, size_t N, size_t K) {
  // A row-major M x K, B column-major (N x K in memory), C row-major
  __shared__ uint4 smem[2][(BLOCK_ROWS + BLOCK_COLS) * CHUNK_VECS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = (warp / 4) * WARP_ROWS, warp_n = (warp % 4) * WARP_COLS;
  // 行优先遍历 / zigzag over the grid for L2 locality
  const size_t block_m = blockIdx.z % 2 ? (gridDim.y - blockIdx.y - 1) : blockIdx.y;
  const size_t block_n = blockIdx.z * gridDim.x + blockIdx.x;
  if (block_m * BLOCK_ROWS >= M || block_n * BLOCK_COLS >= N) return;

  const half *gA = A + block_m * BLOCK_ROWS * K;
  const half *gB = B + block_n * BLOCK_COLS * K;
  uint32_t acc[4][4][2] = {};

  uint4 staged[4];
  auto gload = [&](size_t k0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int v = i * THREADS_PER_BLOCK + threadIdx.x, row = v / CHUNK_VECS, vec = v % CHUNK_VECS;
      const half *src = row < BLOCK_ROWS ? gA + row * K : gB + (row - BLOCK_ROWS) * K;
      staged[i] = *reinterpret_cast<const uint4 *>(src + k0 + vec * 8);
    }
  };
  auto sstore = [&](int buf) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int v = i * THREADS_PER_BLOCK + threadIdx.x, row = v / CHUNK_VECS, vec = v % CHUNK_VECS;
      smem[buf][row * CHUNK_VECS + swz(row, vec)] = staged[i];
    }
  };

  gload(0);
  sstore(0);
  __syncthreads();
  const size_t chunks = K / CHUNK_K;
  for (size_t c = 0; c < chunks; ++c) {
    const int buf = c & 1;
    if (c + 1 < chunks) gload((c + 1) * CHUNK_K);
#pragma unroll
    for (int ks = 0; ks < CHUNK_K / 16; ++ks) {
      uint32_t ra[4][4], rb[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp_m + i * 16 + lane % 16, vec = ks * 2 + lane / 16;
        const uint32_t addr = __cvta_generic_to_shared(&smem[buf][row * CHUNK_VECS + swz(row, vec)]);
        asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(ra[i][0]), "=r"(ra[i][1]), "=r"(ra[i][2]), "=r"(ra[i][3]) : "r"(addr));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = BLOCK_ROWS + warp_n + j * 8 + lane % 8, vec = ks * 2 + (lane / 8) % 2;
        const uint32_t addr = __cvta_generic_to_shared(&smem[buf][row * CHUNK_VECS + swz(row, vec)]);
        asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(rb[j][0]), "=r"(rb[j][1]) : "r"(addr));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};\n"
                       : "+r"(acc[i][j][0]), "+r"(acc[i][j][1])
                       : "r"(ra[i][0]), "r"(ra[i][1]), "r"(ra[i][2]), "r"(ra[i][3]), "r"(rb[j][0]), "r"(rb[j][1]));
    }
    if (c + 1 < chunks) {
      sstore(buf ^ 1);
      __syncthreads();
    }
  }

#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const size_t row = block_m * BLOCK_ROWS + warp_m + i * 16 + lane / 4 + h * 8;
        const size_t col = block_n * BLOCK_COLS + warp_n + j * 8 + (lane % 4) * 2;
        *reinterpret_cast<uint32_t *>(C + row * N + col) = acc[i][j][h];
      }
}

void mmaSwizzled(half *A, half *B, half *C, size_t M, size_t N, size_t K) {
  const size_t block_stride = 16;
  dim3 block(THREADS_PER_BLOCK);
  const size_t cols = (N + BLOCK_COLS - 1) / BLOCK_COLS;
  dim3 grid(std::min(block_stride, cols), (M + BLOCK_ROWS - 1) / BLOCK_ROWS, (cols + block_stride - 1) / block_stride);
  mmaSwizzledKernel<<<grid, block>>>(A, B, C, M, N, K);
}

class Tester {
 public:
  Tester(size_t M, size_t N, size_t K, int iters) : M_(M), N_(N), K_(K), iters_(iters) {
    HGEMM_CHECK_CUDA(cudaMalloc(&A_, M * K * sizeof(half)));
    HGEMM_CHECK_CUDA(cudaMalloc(&B_, K * N * sizeof(half)));
    HGEMM_CHECK_CUDA(cudaMalloc(&C_, M * N * sizeof(half)));
  }
  ~Tester() { cudaFree(A_); cudaFree(B_); cudaFree(C_); }
  using Gemm = std::function<void(half *, half *, half *, size_t, size_t, size_t)>;
  float evaluate(const Gemm &gemm, const std::string &name) {
    cudaEvent_t start, stop;
    HGEMM_CHECK_CUDA(cudaEventCreate(&start));
    HGEMM_CHECK_CUDA(cudaEventCreate(&stop));
    HGEMM_CHECK_CUDA(cudaEventRecord(start));
    for (int i = 0; i < iters_; ++i) gemm(A_, B_, C_, M_, N_, K_);
    HGEMM_CHECK_CUDA(cudaEventRecord(stop));
    HGEMM_CHECK_CUDA(cudaEventSynchronize(stop));
    float ms = 0.f;
    HGEMM_CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
    std::cout << name << ": " << ms / iters_ << " ms, " << 2.0 * M_ * N_ * K_ * iters_ / ms * 1e-9 << " TFLOPS\n";
    return ms / iters_;
  }

 private:
  half *A_ = nullptr, *B_ = nullptr, *C_ = nullptr;
  size_t M_, N_, K_;
  int iters_;
};

void bench(size_t size) {
  Tester tester(size, size, size, 20);
  tester.evaluate(mmaSwizzled, "Mma-Swizzled");
}
