// tcgemm: small header style library for int8 GEMM on tensor cores (sm_80+)
//
//   D = epilogue( A[M,K] * B[N,K]^T )       A, B int8 row-major, K contiguous, accumulation in int32
//
// Epilogues:
//   StoreInt32               raw accumulators
//   DequantLinear<Act>       half, act(acc * scale_a[m] * scale_b[n] + bias[n])       (per token / per channel)
//   Requantize               int8, clamp(round(acc * scale_b[n]) + zero_point)
//
// K % 16 == 0, N even

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdexcept>
#include <cstdint>

namespace tcgemm {

template <int M_, int N_, int K_>
struct Shape {
  static constexpr int kM = M_;
  static constexpr int kN = N_;
  static constexpr int kK = K_;
};

template <typename BlockShape_, typename WarpShape_>
struct Config {
  using Block = BlockShape_;
  using Warp = WarpShape_;
  static constexpr int kWarpsM = Block::kM / Warp::kM;
  static constexpr int kWarpsN = Block::kN / Warp::kN;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kMmaM = Warp::kM / 16;
  static constexpr int kMmaN = Warp::kN / 8;
  static constexpr int kPitch = Block::kK + 16;  // bytes
  static_assert(Block::kK % 32 == 0, "k of the instruction is 32");
};

// ---------------------------------------------------------------- activations

struct Identity {
  __device__ static float apply(float x) { return x; }
};
struct Relu {
  __device__ static float apply(float x) { return x > 0.f ? x : 0.f; }
};
struct Silu {
  __device__ static float apply(float x) { return x / (1.f + __expf(-x)); }
};

// ---------------------------------------------------------------- epilogues (two neighbouring columns at a time)

struct StoreInt32 {
  int32_t* d;
  int64_t ld;
  __device__ void operator()(int m, int n, int acc0, int acc1) const {
    *reinterpret_cast<int2*>(d + m * ld + n) = make_int2(acc0, acc1);
  }
};

template <typename Act>
struct DequantLinear {
  __half* d;
  int64_t ld;
  const float* scale_a;
  const float* scale_b;
  const float* bias;  // may be null
  __device__ void operator()(int m, int n, int acc0, int acc1) const {
    const float sa = scale_a[m];
    float v0 = float(acc0) * sa * scale_b[n];
    float v1 = float(acc1) * sa * scale_b[n + 1];
    if (bias) {
      v0 += bias[n];
      v1 += bias[n + 1];
    }
    *reinterpret_cast<__half2*>(d + m * ld + n) = __floats2half2_rn(Act::apply(v0), Act::apply(v1));
  }
};

struct Requantize {
  int8_t* d;
  int64_t ld;
  const float* scale_b;
  int zero_point;
  __device__ signed char quant(float x) const {
    const int q = __float2int_rn(x) + zero_point;
    return static_cast<signed char>(max(-128, min(127, q)));
  }
  __device__ void operator()(int m, int n, int acc0, int acc1) const {
    *reinterpret_cast<char2*>(d + m * ld + n) =
        make_char2(quant(float(acc0) * scale_b[n]), quant(float(acc1) * scale_b[n + 1]));
  }
};

// ---------------------------------------------------------------- kernel

namespace detail {

__device__ inline void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int kRows, typename Cfg>
__device__ inline void copy_tile(int8_t* dst, const int8_t* src, int row0, int rows, int k0, int k) {
  constexpr int kVecs = Cfg::Block::kK / 16;
  for (int i = threadIdx.x; i < kRows * kVecs; i += Cfg::kThreads) {
    const int r = i / kVecs;
    const int c = (i % kVecs) * 16;
    int4 v = make_int4(0, 0, 0, 0);
    if (row0 + r < rows && k0 + c < k) v = *reinterpret_cast<const int4*>(src + int64_t(row0 + r) * k + k0 + c);
    *reinterpret_cast<int4*>(dst + r * Cfg::kPitch + c) = v;
  }
}

template <typename Cfg, typename Epilogue>
__global__ void __launch_bounds__(Cfg::kThreads)
igemm(const int8_t* __restrict__ A, const int8_t* __restrict__ B, int M, int N, int K, Epilogue epilogue) {
  using Block = typename Cfg::Block;
  using Warp = typename Cfg::Warp;
  __shared__ __align__(16) int8_t smem_a[Block::kM * Cfg::kPitch];
  __shared__ __align__(16) int8_t smem_b[Block::kN * Cfg::kPitch];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane / 4, tig = lane % 4;
  const int block_m = blockIdx.y * Block::kM;
  const int block_n = blockIdx.x * Block::kN;
  const int warp_m = (warp / Cfg::kWarpsN) * Warp::kM;
  const int warp_n = (warp % Cfg::kWarpsN) * Warp::kN;

  int acc[Cfg::kMmaM][Cfg::kMmaN][4] = {};

  for (int k0 = 0; k0 < K; k0 += Block::kK) {
    copy_tile<Block::kM, Cfg>(smem_a, A, block_m, M, k0, K);
    copy_tile<Block::kN, Cfg>(smem_b, B, block_n, N, k0, K);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < Block::kK; kk += 32) {
      uint32_t a[Cfg::kMmaM][4], b[Cfg::kMmaN][2];
#pragma unroll
      for (int i = 0; i < Cfg::kMmaM; ++i) {
        const int8_t* p = smem_a + (warp_m + i * 16 + group) * Cfg::kPitch + kk + tig * 4;
        a[i][0] = *reinterpret_cast<const uint32_t*>(p);
        a[i][1] = *reinterpret_cast<const uint32_t*>(p + 8 * Cfg::kPitch);
        a[i][2] = *reinterpret_cast<const uint32_t*>(p + 16);
        a[i][3] = *reinterpret_cast<const uint32_t*>(p + 8 * Cfg::kPitch + 16);
      }
#pragma unroll
      for (int j = 0; j < Cfg::kMmaN; ++j) {
        const int8_t* p = smem_b + (warp_n + j * 8 + group) * Cfg::kPitch + kk + tig * 4;
        b[j][0] = *reinterpret_cast<const uint32_t*>(p);
        b[j][1] = *reinterpret_cast<const uint32_t*>(p + 16);
      }
#pragma unroll
      for (int i = 0; i < Cfg::kMmaM; ++i)
#pragma unroll
        for (int j = 0; j < Cfg::kMmaN; ++j) mma_s8(acc[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < Cfg::kMmaM; ++i) {
#pragma unroll
    for (int j = 0; j < Cfg::kMmaN; ++j) {
      const int m = block_m + warp_m + i * 16 + group;
      const int n = block_n + warp_n + j * 8 + tig * 2;
      if (n >= N) continue;
      if (m < M) epilogue(m, n, acc[i][j][0], acc[i][j][1]);
      if (m + 8 < M) epilogue(m + 8, n, acc[i][j][2], acc[i][j][3]);
    }
  }
}

template <typename Cfg, typename Epilogue>
void launch(const int8_t* a, const int8_t* b, int m, int n, int k, const Epilogue& ep, cudaStream_t stream) {
  const dim3 grid((n + Cfg::Block::kN - 1) / Cfg::Block::kN, (m + Cfg::Block::kM - 1) / Cfg::Block::kM);
  igemm<Cfg, Epilogue><<<grid, Cfg::kThreads, 0, stream>>>(a, b, m, n, k, ep);
  if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("tcgemm: launch failed");
}

}  // namespace detail

// tile by the number of rows (decode / small prefill / large prefill)
template <typename Epilogue>
void gemm(const int8_t* a, const int8_t* b, int m, int n, int k, const Epilogue& ep, cudaStream_t stream = nullptr) {
  if (k % 16 != 0 || n % 2 != 0) throw std::invalid_argument("tcgemm: alignment");
  if (m <= 16)
    detail::launch<Config<Shape<16, 64, 128>, Shape<16, 16, 128>>>(a, b, m, n, k, ep, stream);
  else if (m <= 256)
    detail::launch<Config<Shape<64, 64, 64>, Shape<32, 32, 64>>>(a, b, m, n, k, ep, stream);
  else
    detail::launch<Config<Shape<128, 128, 64>, Shape<64, 32, 64>>>(a, b, m, n, k, ep, stream);
}

template void gemm(const int8_t*, const int8_t*, int, int, int, const StoreInt32&, cudaStream_t);
template void gemm(const int8_t*, const int8_t*, int, int, int, const DequantLinear<Identity>&, cudaStream_t);
template void gemm(const int8_t*, const int8_t*, int, int, int, const DequantLinear<Relu>&, cudaStream_t);
template void gemm(const int8_t*, const int8_t*, int, int, int, const DequantLinear<Silu>&, cudaStream_t);
template void gemm(const int8_t*, const int8_t*, int, int, int, const Requantize&, cudaStream_t);

}  // namespace tcgemm
