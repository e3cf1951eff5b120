// Backward pass of attention with respect to the queries, bf16, recomputing P from the saved log-sum-exp:
//
//     S  = scale * Q K^T          P  = exp(S - lse)
//     dP = dO V^T                 dS = P * (dP - delta),   delta = rowsum(dO * O)
//     dQ = scale * dS K
//
// A block owns Br queries of one head and walks over the keys; each warp has 16 queries. The fragments are read from
// shared memory with plain 32 bit loads (no ldmatrix), rows are padded so that these do not conflict.
// All tensors are [batch, seq, heads, Dh]; K and V may have fewer heads (GQA). lse is [batch, heads, seq_q].
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16_t;

namespace {

constexpr int Dh = 64;
constexpr int Bc = 32;
constexpr int Pad = 8;
constexpr int Ld = Dh + Pad;

__device__ inline uint32_t ld32(const bf16_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ inline uint32_t pack2(bf16_t lo, bf16_t hi) {
  return (uint32_t)__bfloat16_as_ushort(lo) | ((uint32_t)__bfloat16_as_ushort(hi) << 16);
}

__device__ inline uint32_t pack2f(float lo, float hi) { return pack2(__float2bfloat16(lo), __float2bfloat16(hi)); }

__device__ inline void mma(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A operand, 16 x 16, row major in shared memory
__device__ inline void load_a(uint32_t* a, const bf16_t* tile, int g, int t) {
  a[0] = ld32(tile + g * Ld + 2 * t);
  a[1] = ld32(tile + (g + 8) * Ld + 2 * t);
  a[2] = ld32(tile + g * Ld + 2 * t + 8);
  a[3] = ld32(tile + (g + 8) * Ld + 2 * t + 8);
}

// rows x Dh from global to shared memory, 8 elements a thread; zeros behind the end of the sequence
__device__ inline void stage_rows(bf16_t* dst, const bf16_t* src, int64_t row_stride, int rows, int valid) {
  for (int i = threadIdx.x; i < rows * (Dh / 8); i += blockDim.x) {
    const int r = i / (Dh / 8);
    const int c = (i % (Dh / 8)) * 8;
    uint4 v = make_uint4(0u, 0u, 0u, 0u);
    if (r < valid) v = *reinterpret_cast<const uint4*>(src + r * row_stride + c);
    *reinterpret_cast<uint4*>(dst + r * Ld + c) = v;
  }
}

}  // namespace

template <int Br, bool Causal>
__global__ void attn_bwd_dq_kernel(const bf16_t* __restrict__ q, const bf16_t* __restrict__ k,
                                   const bf16_t* __restrict__ v, const bf16_t* __restrict__ o,
                                   const bf16_t* __restrict__ dout, const float* __restrict__ lse,
                                   bf16_t* __restrict__ dq, int seq_q, int seq_k, int heads, int heads_kv, float scale) {
  __shared__ __align__(16) bf16_t sQ[Br * Ld];
  __shared__ __align__(16) bf16_t sdO[Br * Ld];
  __shared__ __align__(16) bf16_t sK[Bc * Ld];
  __shared__ __align__(16) bf16_t sV[Bc * Ld];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4;
  const int q0 = blockIdx.x * Br;
  const int b = blockIdx.y / heads;
  const int h = blockIdx.y % heads;
  const int hk = h / (heads / heads_kv);

  const int64_t q_row = (int64_t)heads * Dh;
  const int64_t kv_row = (int64_t)heads_kv * Dh;
  const int64_t q_base = ((int64_t)b * seq_q + q0) * q_row + (int64_t)h * Dh;
  const int64_t kv_base = (int64_t)b * seq_k * kv_row + (int64_t)hk * Dh;

  stage_rows(sQ, q + q_base, q_row, Br, seq_q - q0);
  stage_rows(sdO, dout + q_base, q_row, Br, seq_q - q0);
  __syncthreads();

  // delta and lse of this thread's two rows; a quad shares them
  float delta[2], row_lse[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int r = warp * 16 + g + i * 8;
    float sum = 0.f;
    if (q0 + r < seq_q) {
      for (int c = t; c < Dh; c += 4)
        sum += __bfloat162float(sdO[r * Ld + c]) * __bfloat162float(o[q_base + r * q_row + c]);
    }
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    delta[i] = sum;
    row_lse[i] = q0 + r < seq_q ? lse[((int64_t)b * heads + h) * seq_q + q0 + r] : INFINITY;
  }

  float acc[Dh / 8][4];
  for (int j = 0; j < Dh / 8; j++)
    for (int e = 0; e < 4; e++) acc[j][e] = 0.f;

  int k_stop = seq_k;
  if (Causal) k_stop = min(seq_k, q0 + Br);

  for (int k0 = 0; k0 < k_stop; k0 += Bc) {
    __syncthreads();  // everybody is done with the last tile
    stage_rows(sK, k + kv_base + k0 * kv_row, kv_row, Bc, seq_k - k0);
    stage_rows(sV, v + kv_base + k0 * kv_row, kv_row, Bc, seq_k - k0);
    __syncthreads();

    float s[Bc / 8][4] = {}, dp[Bc / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < Dh; kk += 16) {
      uint32_t a_q[4], a_do[4];
      load_a(a_q, sQ + warp * 16 * Ld + kk, g, t);
      load_a(a_do, sdO + warp * 16 * Ld + kk, g, t);
#pragma unroll
      for (int j = 0; j < Bc / 8; j++) {
        const bf16_t* kp = sK + (j * 8 + g) * Ld + kk + 2 * t;
        const bf16_t* vp = sV + (j * 8 + g) * Ld + kk + 2 * t;
        mma(s[j], a_q, ld32(kp), ld32(kp + 8));
        mma(dp[j], a_do, ld32(vp), ld32(vp + 8));
      }
    }

    // dS replaces S
#pragma unroll
    for (int j = 0; j < Bc / 8; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = q0 + warp * 16 + g + (e / 2) * 8;
        const int col = k0 + j * 8 + 2 * t + (e % 2);
        const bool masked = col >= seq_k || (Causal && col > row);
        const float p = masked ? 0.f : __expf(s[j][e] * scale - row_lse[e / 2]);
        s[j][e] = p * (dp[j][e] - delta[e / 2]);
      }
    }

    // dQ += dS K, K is the B operand with its rows along the depth
#pragma unroll
    for (int kk = 0; kk < Bc; kk += 16) {
      const int j = kk / 8;
      uint32_t a_ds[4];
      a_ds[0] = pack2f(s[j][0], s[j][1]);
      a_ds[1] = pack2f(s[j][2], s[j][3]);
      a_ds[2] = pack2f(s[j + 1][0], s[j + 1][1]);
      a_ds[3] = pack2f(s[j + 1][2], s[j + 1][3]);
#pragma unroll
      for (int n = 0; n < Dh / 8; n++) {
        const bf16_t* kp = sK + (kk + 2 * t) * Ld + n * 8 + g;
        const uint32_t b0 = pack2(kp[0], kp[Ld]);
        const uint32_t b1 = pack2(kp[8 * Ld], kp[9 * Ld]);
        mma(acc[n], a_ds, b0, b1);
      }
    }
  }

#pragma unroll
  for (int n = 0; n < Dh / 8; n++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int r = warp * 16 + g + i * 8;
      if (q0 + r < seq_q) {
        bf16_t* out = dq + q_base + r * q_row + n * 8 + 2 * t;
        *reinterpret_cast<uint32_t*>(out) = pack2f(acc[n][2 * i] * scale, acc[n][2 * i + 1] * scale);
      }
    }
  }
}

void attn_bwd_dq(const bf16_t* q, const bf16_t* k, const bf16_t* v, const bf16_t* o, const bf16_t* dout,
                 const float* lse, bf16_t* dq, int batch, int seq_q, int seq_k, int heads, int heads_kv, float scale,
                 bool causal, cudaStream_t stream) {
  constexpr int Br = 64;
  dim3 grid((seq_q + Br - 1) / Br, batch * heads);
  if (causal)
    attn_bwd_dq_kernel<Br, true><<<grid, Br * 2, 0, stream>>>(q, k, v, o, dout, lse, dq, seq_q, seq_k, heads, heads_kv, scale);
  else
    attn_bwd_dq_kernel<Br, false><<<grid, Br * 2, 0, stream>>>(q, k, v, o, dout, lse, dq, seq_q, seq_k, heads, heads_kv, scale);
}
