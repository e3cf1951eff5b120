#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

// Serial split-K: the slices of one output tile take turns, in order of their slice index, and add into C.
// `locks` has one counter per output tile, all zero at launch; the last slice puts the zero back.

constexpr int THREADS = 128;
constexpr int TM = 64, TN = 64, TK = 32;
constexpr int LDS_A = TK + 8, LDS_B = TN + 8;

static inline int div_ceil(int a, int b) { return (a + b - 1) / b; }

__device__ inline void barrier_acquire(int* lock, int count) {
  if (threadIdx.x == 0) {
    int state = -1;
    do
      // Guarantee that subsequent writes by this threadblock will be visible globally.
      asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(state) : "l"(lock));
    while (state != count);
  }
  __syncthreads();
}

__device__ inline void barrier_release(int* lock, bool reset = false) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (reset) {
      lock[0] = 0;
      return;
    }
    int val = 1;
    asm volatile("fence.acq_rel.gpu;\n");
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;\n" : : "l"(lock), "r"(val));
  }
}

__device__ inline void cp_async4(void* smem_ptr, const void* glob_ptr) {
  const int BYTES = 16;
  uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(smem_ptr));
  asm volatile("{\n   cp.async.cg.shared.global [%0], [%1], %2;\n}\n" ::"r"(smem), "l"(glob_ptr), "n"(BYTES));
}
__device__ inline void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int n>
__device__ inline void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(n)); }

template <int stages>
__global__ void __launch_bounds__(THREADS)
gemm_splitk_serial(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int prob_m, int prob_n,
                   int prob_k, int k_per_split, int* __restrict__ locks) {
  __shared__ __align__(16) half sa[stages][TM * LDS_A];
  __shared__ __align__(16) half sb[stages][TK * LDS_B];

  const int k_begin = blockIdx.z * k_per_split;
  const int k_end = min(prob_k, k_begin + k_per_split);
  const int k_tiles = (k_end - k_begin) / TK;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int wr = (warp / 2) * 32, wc = (warp % 2) * 32;

  auto fetch = [&](int pipe, int kt) {
    const half* a = A + (size_t)(blockIdx.y * TM) * prob_k + k_begin + kt * TK;
    const half* b = B + (size_t)(k_begin + kt * TK) * prob_n + blockIdx.x * TN;
#pragma unroll
    for (int i = threadIdx.x; i < TM * TK / 8; i += THREADS)
      cp_async4(&sa[pipe][(i / (TK / 8)) * LDS_A + (i % (TK / 8)) * 8], a + (size_t)(i / (TK / 8)) * prob_k + (i % (TK / 8)) * 8);
#pragma unroll
    for (int i = threadIdx.x; i < TK * TN / 8; i += THREADS)
      cp_async4(&sb[pipe][(i / (TN / 8)) * LDS_B + (i % (TN / 8)) * 8], b + (size_t)(i / (TN / 8)) * prob_n + (i % (TN / 8)) * 8);
  };

  float frag_c[2][4][4] = {};
#pragma unroll
  for (int i = 0; i < stages - 1; i++) {
    if (i < k_tiles) fetch(i, i);
    cp_async_fence();
  }

  for (int kt = 0; kt < k_tiles; ++kt) {
    cp_async_wait<stages - 2>();
    __syncthreads();
    if (kt + stages - 1 < k_tiles) fetch((kt + stages - 1) % stages, kt + stages - 1);
    cp_async_fence();
    const half* pa = sa[kt % stages];
    const half* pb = sb[kt % stages];
#pragma unroll
    for (int kk = 0; kk < TK; kk += 16) {
      uint32_t fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(pa + (wr + i * 16 + lane % 16) * LDS_A + kk + (lane / 16) * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(s));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(pb + (kk + lane % 16) * LDS_B + wc + j * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(s));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float* c = frag_c[i][j];
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
              : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
              : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
    }
  }

  int* lock = locks + blockIdx.y * gridDim.x + blockIdx.x;
  if (gridDim.z > 1) barrier_acquire(lock, blockIdx.z);

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = blockIdx.y * TM + wr + i * 16 + lane / 4 + h * 8;
        const int col = blockIdx.x * TN + wc + j * 8 + (lane % 4) * 2;
        half2* dst = reinterpret_cast<half2*>(C + (size_t)row * prob_n + col);
        float2 v = make_float2(frag_c[i][j][2 * h], frag_c[i][j][2 * h + 1]);
        if (blockIdx.z > 0) {
          float2 old = __half22float2(*dst);
          v.x += old.x;
          v.y += old.y;
        }
        *dst = __float22half2_rn(v);
      }

  if (gridDim.z > 1) barrier_release(lock, blockIdx.z == gridDim.z - 1);
}

torch::Tensor splitk_gemm(torch::Tensor A, torch::Tensor B, int64_t split_k) {
  TORCH_CHECK(A.is_cuda() && B.is_cuda());
  TORCH_CHECK(A.scalar_type() == torch::kHalf && B.scalar_type() == torch::kHalf);
  TORCH_CHECK(A.is_contiguous() && B.is_contiguous());
  const int m = A.size(0), k = A.size(1), n = B.size(1);
  TORCH_CHECK(m % TM == 0 && n % TN == 0 && k % TK == 0);
  const c10::cuda::CUDAGuard guard(A.device());
  auto C = torch::empty({m, n}, A.options());
  auto locks = torch::zeros({(m / TM) * (n / TN)}, A.options().dtype(torch::kInt32));
  const int k_per_split = div_ceil(k / TK, (int)split_k) * TK;
  dim3 grid(n / TN, m / TM, div_ceil(k, k_per_split));
  gemm_splitk_serial<3><<<grid, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half*>(A.data_ptr<at::Half>()), reinterpret_cast<const half*>(B.data_ptr<at::Half>()),
      reinterpret_cast<half*>(C.data_ptr<at::Half>()), m, n, k, k_per_split, locks.data_ptr<int>());
  return C;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("splitk_gemm", &splitk_gemm, "C = A @ B with serial split-K", py::arg("A"), py::arg("B"), py::arg("split_k") = 4);
}
