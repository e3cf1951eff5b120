#include <stdio.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/extension.h>
#include <torch/types.h>

#define WARP_SIZE 32
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
#define HALF2(value) (reinterpret_cast<half2 *>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" : "=r"(RD0), "=r"(RD1) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

// naive
__global__ void hgemm_naive_f16_kernel(half *a, half *b, half *c, int M, int N, int K) {
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  int m = blockIdx.y * blockDim.y + threadIdx.y;
  if (m < M && n < N) {
    float psum = 0.0f;
#pragma unroll
    for (int k = 0; k < K; k++) psum += __half2float(a[m * K + k]) * __half2float(b[k * N + n]);
    c[m * N + n] = __float2half(psum);
  }
}

// shared memory tiles
template <const int BM = 32, const int BN = 32, const int BK = 32>
__global__ void hgemm_sliced_k_f16_kernel(half *a, half *b, half *c, int M, int N, int K) {
  __shared__ half s_a[BM][BK], s_b[BK][BN];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * BM + ty, col = blockIdx.x * BN + tx;
  float sum = 0.f;
  for (int bk = 0; bk < DIV_UP(K, BK); ++bk) {
    s_a[ty][tx] = (row < M && bk * BK + tx < K) ? a[row * K + bk * BK + tx] : __float2half(0.f);
    s_b[ty][tx] = (col < N && bk * BK + ty < K) ? b[(bk * BK + ty) * N + col] : __float2half(0.f);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) sum += __half2float(s_a[ty][k]) * __half2float(s_b[k][tx]);
    __syncthreads();
  }
  if (row < M && col < N) c[row * N + col] = __float2half(sum);
}

// one warp, one m16n8k16
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16>
__global__ void hgemm_mma_m16n8k16_naive_kernel(half *A, half *B, half *C, int M, int N, int K) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int NUM_K_TILES = DIV_UP(K, MMA_K);
  __shared__ half s_a[MMA_M][MMA_K], s_b[MMA_K][MMA_N], s_c[MMA_M][MMA_N];
  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int lane_id = tid % WARP_SIZE;
  const int load_smem_a_m = tid / 2, load_smem_a_k = (tid % 2) * 8;
  const int load_smem_b_k = tid, load_smem_b_n = 0;
  const int load_gmem_a_m = by * MMA_M + load_smem_a_m;
  const int load_gmem_b_n = bx * MMA_N + load_smem_b_n;
  if (load_gmem_a_m >= M && load_gmem_b_n >= N) return;

  uint32_t RC[2] = {0, 0};
#pragma unroll
  for (int k = 0; k < NUM_K_TILES; ++k) {
    LDST128BITS(s_a[load_smem_a_m][load_smem_a_k]) = LDST128BITS(A[load_gmem_a_m * K + k * MMA_K + load_smem_a_k]);
    if (lane_id < MMA_K)
      LDST128BITS(s_b[load_smem_b_k][load_smem_b_n]) = LDST128BITS(B[(k * MMA_K + load_smem_b_k) * N + load_gmem_b_n]);
    __syncthreads();
    uint32_t RA[4], RB[2];
    uint32_t load_smem_a_ptr = __cvta_generic_to_shared(&s_a[lane_id % 16][(lane_id / 16) * 8]);
    uint32_t load_smem_b_ptr = __cvta_generic_to_shared(&s_b[lane_id % 16][0]);
    LDMATRIX_X4(RA[0], RA[1], RA[2], RA[3], load_smem_a_ptr);
    LDMATRIX_X2_T(RB[0], RB[1], load_smem_b_ptr);
    HMMA16816(RC[0], RC[1], RA[0], RA[1], RA[2], RA[3], RB[0], RB[1], RC[0], RC[1]);
    __syncthreads();
  }
  HALF2(s_c[lane_id / 4][(lane_id % 4) * 2]) = HALF2(RC[0]);
  HALF2(s_c[lane_id / 4 + 8][(lane_id % 4) * 2]) = HALF2(RC[1]);
  __syncthreads();
  if (lane_id < MMA_M) LDST128BITS(C[(by * MMA_M + lane_id) * N + bx * MMA_N]) = LDST128BITS(s_c[lane_id][0]);
}

#define STRINGFY(str) #str
#define TORCH_BINDING_COMMON_EXTENSION(func) m.def(STRINGFY(func), &func, STRINGFY(func));
#define CHECK_TORCH_TENSOR_DTYPE(T, th_type) \
  if (((T).options().dtype() != (th_type))) { std::cout << "Tensor Info:" << (T).options() << std::endl; throw std::runtime_error("values must be " #th_type); }

void hgemm_naive_f16(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  const int M = a.size(0), K = a.size(1), N = b.size(1);
  dim3 block(16, 16), grid(DIV_UP(N, 16), DIV_UP(M, 16));
  hgemm_naive_f16_kernel<<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()), reinterpret_cast<half *>(b.data_ptr()), reinterpret_cast<half *>(c.data_ptr()), M, N, K);
}

void hgemm_sliced_k_f16(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  const int M = a.size(0), K = a.size(1), N = b.size(1);
  dim3 block(32, 32), grid(DIV_UP(N, 32), DIV_UP(M, 32));
  hgemm_sliced_k_f16_kernel<32, 32, 32><<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()), reinterpret_cast<half *>(b.data_ptr()), reinterpret_cast<half *>(c.data_ptr()), M, N, K);
}

void hgemm_mma_m16n8k16_naive(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  const int M = a.size(0), K = a.size(1), N = b.size(1);
  constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
  dim3 block(WARP_SIZE), grid(DIV_UP(N, MMA_N), DIV_UP(M, MMA_M));
  hgemm_mma_m16n8k16_naive_kernel<MMA_M, MMA_N, MMA_K><<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()), reinterpret_cast<half *>(b.data_ptr()), reinterpret_cast<half *>(c.data_ptr()), M, N, K);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  TORCH_BINDING_COMMON_EXTENSION(hgemm_naive_f16)
  TORCH_BINDING_COMMON_EXTENSION(hgemm_sliced_k_f16)
  TORCH_BINDING_COMMON_EXTENSION(hgemm_mma_m16n8k16_naive)
}
