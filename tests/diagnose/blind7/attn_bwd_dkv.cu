// Backward of attention: gradients of keys and values, one thread block per 64 keys.
//
// For every block of queries the scores are formed transposed (keys are the rows), so that P^T and dS^T
// leave the tensor cores in just the registers in which the next products take them as their A operand:
//     S^T  = K Q^T            P^T  = exp(scale * S^T - lse)        dV += P^T dO
//     dP^T = V dO^T           dS^T = P^T * (dP^T - delta)          dK += scale * dS^T Q
// lse and delta = rowsum(dO * O) come from the forward pass and a small kernel before this one.

#include <cuda_fp16.h>
#include <cstdint>

namespace attn {

struct BwdParams {
  const __half *q, *k, *v, *dout;
  const float *lse, *delta;
  __half *dk, *dv;
  int seq_q, seq_k;
  float scale;
  bool causal;
};

template <int kDim_>
class DkvKernel {
 public:
  static constexpr int kDim = kDim_;
  static constexpr int kKeys = 64;
  static constexpr int kQueries = 32;
  static constexpr int kThreads = kKeys / 16 * 32;
  static constexpr int kLd = kDim + 8;
  static constexpr int kDepth = kDim / 16;

  struct Shared {
    alignas(16) __half k[kKeys * kLd];
    alignas(16) __half v[kKeys * kLd];
    alignas(16) __half q[kQueries * kLd];
    alignas(16) __half dout[kQueries * kLd];
    float lse[kQueries];
    float delta[kQueries];
  };

  static __device__ void run(const BwdParams& p, Shared& sm) {
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 * 16;
    const int key0 = blockIdx.x * kKeys;
    const size_t q_base = size_t(blockIdx.y) * p.seq_q, k_base = size_t(blockIdx.y) * p.seq_k;

    load<kKeys>(sm.k, p.k + k_base * kDim, key0, p.seq_k);
    load<kKeys>(sm.v, p.v + k_base * kDim, key0, p.seq_k);
    __syncthreads();

    uint32_t fk[kDepth][4], fv[kDepth][4];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      ldmatrix(fk[d], sm.k + (warp_row + lane % 16) * kLd + d * 16 + lane / 16 * 8);
      ldmatrix(fv[d], sm.v + (warp_row + lane % 16) * kLd + d * 16 + lane / 16 * 8);
    }

    float dk[kDepth * 2][4] = {}, dv[kDepth * 2][4] = {};

    // causal: the first query that sees one of these keys is key0
    for (int q0 = p.causal ? key0 / kQueries * kQueries : 0; q0 < p.seq_q; q0 += kQueries) {
      __syncthreads();
      load<kQueries>(sm.q, p.q + q_base * kDim, q0, p.seq_q);
      load<kQueries>(sm.dout, p.dout + q_base * kDim, q0, p.seq_q);
      if (threadIdx.x < kQueries) {
        const bool there = q0 + threadIdx.x < p.seq_q;
        sm.lse[threadIdx.x] = there ? p.lse[q_base + q0 + threadIdx.x] : 0.f;
        sm.delta[threadIdx.x] = there ? p.delta[q_base + q0 + threadIdx.x] : 0.f;
      }
      __syncthreads();

#pragma unroll
      for (int n = 0; n < kQueries; n += 16) {
        float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
          uint32_t b[4];
          const int at = (n + lane / 16 * 8 + lane % 8) * kLd + d * 16 + lane / 8 % 2 * 8;
          ldmatrix(b, sm.q + at);
          mma(s[0], fk[d], b[0], b[1]);
          mma(s[1], fk[d], b[2], b[3]);
          ldmatrix(b, sm.dout + at);
          mma(dp[0], fv[d], b[0], b[1]);
          mma(dp[1], fv[d], b[2], b[3]);
        }

        float ds[2][4];
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int query = n + t * 8 + lane % 4 * 2 + e % 2;
            const int key = key0 + warp_row + lane / 4 + e / 2 * 8;
            const bool seen = q0 + query < p.seq_q && key < p.seq_k && (!p.causal || key <= q0 + query);
            s[t][e] = seen ? __expf(p.scale * s[t][e] - sm.lse[query]) : 0.f;
            ds[t][e] = s[t][e] * (dp[t][e] - sm.delta[query]);
          }

        uint32_t fp[4], fds[4];
        as_operand(fp, s);
        as_operand(fds, ds);
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
          uint32_t b[4];
          const int at = (n + lane % 16) * kLd + d * 16 + lane / 16 * 8;
          ldmatrix_trans(b, sm.dout + at);
          mma(dv[2 * d], fp, b[0], b[1]);
          mma(dv[2 * d + 1], fp, b[2], b[3]);
          ldmatrix_trans(b, sm.q + at);
          mma(dk[2 * d], fds, b[0], b[1]);
          mma(dk[2 * d + 1], fds, b[2], b[3]);
        }
      }
    }

    store(p.dk + k_base * kDim, dk, key0 + warp_row, p.seq_k, p.scale);
    store(p.dv + k_base * kDim, dv, key0 + warp_row, p.seq_k, 1.f);
  }

 private:
  template <int kRows>
  static __device__ void load(__half* tile, const __half* from, int first, int rows) {
    constexpr int kVectors = kDim / 8;
    for (int i = threadIdx.x; i < kRows * kVectors; i += kThreads) {
      const int r = i / kVectors, c = i % kVectors * 8;
      uint4 bits = {0, 0, 0, 0};
      if (first + r < rows) bits = *reinterpret_cast<const uint4*>(from + size_t(first + r) * kDim + c);
      *reinterpret_cast<uint4*>(tile + r * kLd + c) = bits;
    }
  }

  static __device__ void store(__half* to, const float (&acc)[kDepth * 2][4], int row0, int rows, float factor) {
    const int lane = threadIdx.x % 32;
    for (int d = 0; d < kDepth * 2; ++d)
      for (int upper = 0; upper < 2; ++upper) {
        const int r = row0 + lane / 4 + upper * 8;
        if (r < rows)
          *reinterpret_cast<__half2*>(to + size_t(r) * kDim + d * 8 + lane % 4 * 2) =
              __floats2half2_rn(acc[d][upper * 2] * factor, acc[d][upper * 2 + 1] * factor);
      }
  }

  // two accumulators side by side are one operand of 16 x 16
  static __device__ void as_operand(uint32_t (&a)[4], const float (&c)[2][4]) {
    for (int t = 0; t < 2; ++t) {
      a[2 * t] = pack(c[t][0], c[t][1]);
      a[2 * t + 1] = pack(c[t][2], c[t][3]);
    }
  }

  static __device__ uint32_t pack(float lo, float hi) {
    const __half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t*>(&h);
  }

  static __device__ void ldmatrix(uint32_t (&r)[4], const __half* at) {
    const uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
  }

  static __device__ void ldmatrix_trans(uint32_t (&r)[4], const __half* at) {
    const uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
  }

  static __device__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <int kDim>
__global__ void __launch_bounds__(DkvKernel<kDim>::kThreads) attention_dkv(BwdParams params) {
  __shared__ typename DkvKernel<kDim>::Shared sm;
  DkvKernel<kDim>::run(params, sm);
}

void attention_dkv_d32(const BwdParams& params, int batch_heads, cudaStream_t stream) {
  using Kernel = DkvKernel<32>;
  const dim3 grid((params.seq_k + Kernel::kKeys - 1) / Kernel::kKeys, batch_heads);
  attention_dkv<32><<<grid, Kernel::kThreads, 0, stream>>>(params);
}

}  // namespace attn
