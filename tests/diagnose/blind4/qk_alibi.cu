// scores[b,h,i,j] = scale * <q[b,i,h,:], k[b,j,hk,:]> - slope[h] * |i - j|
// bf16 inputs (batch, seq, heads, head_dim), fp32 scores (batch, heads, sq, skv), grouped-query heads.
// raw mma.sync m16n8k16, operands taken from shared memory as pairs.

#include <cuda_bf16.h>
#include <cstdint>

typedef __nv_bfloat16 bf16;

#define BLOCK_Q 32
#define BLOCK_K 64
#define WARPS 4
#define HEAD_PAD 8

__device__ __forceinline__ void mma_bf16_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t ld_pair(const bf16* p) { return *reinterpret_cast<const uint32_t*>(p); }

// copy `rows` rows of one head to shared memory, 16 bytes at a time; rows past seq_len become zero
template <int HEAD_DIM>
__device__ void copy_rows(bf16* smem, const bf16* gmem, int first, int rows, int seq_len, int row_stride) {
  constexpr int VECS = HEAD_DIM / 8;
  for (int v = threadIdx.x; v < rows * VECS; v += WARPS * 32) {
    int r = v / VECS;
    int c = v % VECS * 8;
    uint4 data = make_uint4(0, 0, 0, 0);
    if (first + r < seq_len)
      data = *reinterpret_cast<const uint4*>(gmem + (int64_t)(first + r) * row_stride + c);
    *reinterpret_cast<uint4*>(smem + r * (HEAD_DIM + HEAD_PAD) + c) = data;
  }
}

template <int HEAD_DIM>
__global__ void qk_alibi_kernel(const bf16* __restrict__ q, const bf16* __restrict__ k,
                                const float* __restrict__ slopes, float* __restrict__ scores,
                                int n_heads, int n_kv_heads, int sq, int skv, float scale) {
  constexpr int LD = HEAD_DIM + HEAD_PAD;
  __shared__ __align__(16) bf16 q_s[BLOCK_Q * LD];
  __shared__ __align__(16) bf16 k_s[BLOCK_K * LD];

  const int head = blockIdx.z % n_heads;
  const int b = blockIdx.z / n_heads;
  const int kv_head = head / (n_heads / n_kv_heads);
  const int q0 = blockIdx.y * BLOCK_Q;
  const int k0 = blockIdx.x * BLOCK_K;

  copy_rows<HEAD_DIM>(q_s, q + ((int64_t)b * sq * n_heads + head) * HEAD_DIM, q0, BLOCK_Q, sq, n_heads * HEAD_DIM);
  copy_rows<HEAD_DIM>(k_s, k + ((int64_t)b * skv * n_kv_heads + kv_head) * HEAD_DIM, k0, BLOCK_K, skv,
                      n_kv_heads * HEAD_DIM);
  __syncthreads();

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int group = lane / 4;     // row of the accumulator
  const int pair = lane % 4 * 2;  // first of two columns
  const int wq = (warp % 2) * 16;
  const int wk = (warp / 2) * 32;

  float acc[4][4] = {};
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += 16) {
    uint32_t a[4];
    a[0] = ld_pair(&q_s[(wq + group) * LD + d + pair]);
    a[1] = ld_pair(&q_s[(wq + group + 8) * LD + d + pair]);
    a[2] = ld_pair(&q_s[(wq + group) * LD + d + pair + 8]);
    a[3] = ld_pair(&q_s[(wq + group + 8) * LD + d + pair + 8]);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t frag_b[2];
      frag_b[0] = ld_pair(&k_s[(wk + n * 8 + group) * LD + d + pair]);
      frag_b[1] = ld_pair(&k_s[(wk + n * 8 + group) * LD + d + pair + 8]);
      mma_bf16_16816(acc[n], a, frag_b);
    }
  }

  const float slope = slopes[b * n_heads + head];
  float* out = scores + (int64_t)blockIdx.z * sq * skv;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = q0 + wq + group + (e / 2) * 8;
      const int j = k0 + wk + n * 8 + pair + e % 2;
      if (i < sq && j < skv) {
        const float distance = fabsf((float)(i - j));
        out[(int64_t)i * skv + j] = acc[n][e] * scale - slope * distance;
      }
    }
  }
}

void launch_qk_alibi_64(const bf16* q, const bf16* k, const float* slopes, float* scores, int batch, int n_heads,
                        int n_kv_heads, int sq, int skv, float scale, cudaStream_t stream) {
  dim3 grid((skv + BLOCK_K - 1) / BLOCK_K, (sq + BLOCK_Q - 1) / BLOCK_Q, batch * n_heads);
  qk_alibi_kernel<64><<<grid, WARPS * 32, 0, stream>>>(q, k, slopes, scores, n_heads, n_kv_heads, sq, skv, scale);
}
