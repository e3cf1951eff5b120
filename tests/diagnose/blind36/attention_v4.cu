// Writing flash attention from scratch, part 4: ldmatrix.x4 for K and V, and pipelining.
//
//   part 1: cp.async + mma.sync          part 3: swizzled shared memory
//   part 2: causal mask, any length      part 4: K is double-buffered, V's copy hides behind S = Q K^T   <- this file
//
// Q, O: [bs, len_q, DIM], K, V: [bs, len_kv, DIM], bf16; bs counts heads, too.
#include <cuda_bf16.h>
#include <cstdint>
#include <cfloat>

using bf16 = nv_bfloat16;
constexpr int WARP_SIZE = 32;

__host__ __device__ constexpr int cdiv(int a, int b) { return (a + b - 1) / b; }

// STRIDE: bytes of a row. XOR the 16-byte column with the row.
template <int STRIDE>
__device__ inline uint32_t swizzle(uint32_t addr) {
  static_assert(STRIDE >= 128);
  uint32_t row = (addr / STRIDE) % 8;
  return addr ^ (row << 4);
}

template <int HEIGHT, int WIDTH, int TB_SIZE>
__device__ inline void global_to_shared(uint32_t dst, const bf16 *src, int tid, int valid_rows) {
  constexpr int num_elems = 16 / sizeof(bf16);
  constexpr int num_iters = HEIGHT * WIDTH / (TB_SIZE * num_elems);
  for (int iter = 0; iter < num_iters; iter++) {
    const int idx = (iter * TB_SIZE + tid) * num_elems;
    const int row = idx / WIDTH;
    const int col = idx % WIDTH;
    const uint32_t dst_addr = swizzle<WIDTH * sizeof(bf16)>(idx * sizeof(bf16));
    const bool inside = row < valid_rows;
    const bf16 *src_addr = inside ? src + row * WIDTH + col : src;
    const int src_size = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst + dst_addr), "l"(src_addr), "r"(src_size));
  }
}

__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ inline void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

__device__ inline void ldmatrix_x4(uint32_t r[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void ldmatrix_x4_trans(uint32_t r[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void mma_m16n8k16(const uint32_t A[4], const uint32_t B[2], float D[4]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
               : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
}

template <int BLOCK_Q, int BLOCK_KV, int DIM, int NUM_WARPS>
__launch_bounds__(NUM_WARPS * WARP_SIZE)
__global__ void attention_v4_kernel(const bf16 *Q, const bf16 *K, const bf16 *V, bf16 *O,
                                    int len_q, int len_kv, float softmax_scale, int is_causal) {
  constexpr int TB_SIZE = NUM_WARPS * WARP_SIZE;
  static_assert(BLOCK_Q == NUM_WARPS * 16);

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;

  const int num_q_blocks = cdiv(len_q, BLOCK_Q);
  const int bs_id = blockIdx.x / num_q_blocks;
  const int q_start = (blockIdx.x % num_q_blocks) * BLOCK_Q;

  Q += (bs_id * len_q + q_start) * DIM;
  K += bs_id * len_kv * DIM;
  V += bs_id * len_kv * DIM;
  O += (bs_id * len_q + q_start) * DIM;

  extern __shared__ bf16 smem[];
  const uint32_t Q_smem = __cvta_generic_to_shared(smem);
  const uint32_t K_smem = Q_smem + BLOCK_Q * DIM * sizeof(bf16);          // 2 stages
  const uint32_t V_smem = K_smem + 2 * BLOCK_KV * DIM * sizeof(bf16);

  // causal: keys behind the block's last query are never needed
  const int kv_end = is_causal ? min(len_kv, q_start + BLOCK_Q) : len_kv;
  const int num_kv_iters = cdiv(kv_end, BLOCK_KV);

  auto load_K = [&](int kv_id) {
    if (kv_id < num_kv_iters)
      global_to_shared<BLOCK_KV, DIM, TB_SIZE>(K_smem + (kv_id % 2) * BLOCK_KV * DIM * sizeof(bf16),
                                               K + kv_id * BLOCK_KV * DIM, tid, len_kv - kv_id * BLOCK_KV);
    cp_async_commit();
  };
  auto load_V = [&](int kv_id) {
    global_to_shared<BLOCK_KV, DIM, TB_SIZE>(V_smem, V + kv_id * BLOCK_KV * DIM, tid, len_kv - kv_id * BLOCK_KV);
    cp_async_commit();
  };

  // Q stays in registers
  global_to_shared<BLOCK_Q, DIM, TB_SIZE>(Q_smem, Q, tid, len_q - q_start);
  cp_async_commit();
  load_K(0);
  cp_async_wait<1>();
  __syncthreads();

  uint32_t Q_rmem[DIM / 16][4];
  for (int d = 0; d < DIM / 16; d++) {
    const int row = warp_id * 16 + lane_id % 16;
    const int col = d * 16 + lane_id / 16 * 8;
    ldmatrix_x4(Q_rmem[d], Q_smem + swizzle<DIM * sizeof(bf16)>((row * DIM + col) * sizeof(bf16)));
  }

  float O_rmem[DIM / 8][4] = {};
  float rowmax[2] = {-FLT_MAX, -FLT_MAX};
  float rowsum[2] = {};

  for (int kv_id = 0; kv_id < num_kv_iters; kv_id++) {
    // everybody has finished with V of the previous iteration
    __syncthreads();
    load_V(kv_id);

    // K has arrived, V may still be on its way
    cp_async_wait<1>();
    __syncthreads();

    float S[BLOCK_KV / 8][4] = {};
    const uint32_t K_stage = K_smem + (kv_id % 2) * BLOCK_KV * DIM * sizeof(bf16);
    for (int n = 0; n < BLOCK_KV / 8; n++)
      for (int d = 0; d < DIM / 16; d += 2) {
        uint32_t K_rmem[4];  // 8 keys, 32 columns
        const int row = n * 8 + lane_id % 8;
        const int col = d * 16 + lane_id / 8 * 8;
        ldmatrix_x4(K_rmem, K_stage + swizzle<DIM * sizeof(bf16)>((row * DIM + col) * sizeof(bf16)));
        mma_m16n8k16(Q_rmem[d], K_rmem, S[n]);
        mma_m16n8k16(Q_rmem[d + 1], K_rmem + 2, S[n]);
      }
    load_K(kv_id + 1);

    // scale and mask
    for (int n = 0; n < BLOCK_KV / 8; n++)
      for (int reg = 0; reg < 4; reg++) {
        const int q_pos = q_start + warp_id * 16 + lane_id / 4 + reg / 2 * 8;
        const int kv_pos = kv_id * BLOCK_KV + n * 8 + lane_id % 4 * 2 + reg % 2;
        const bool hidden = kv_pos >= len_kv || (is_causal && kv_pos > q_pos);
        S[n][reg] = hidden ? -INFINITY : S[n][reg] * softmax_scale;
      }

    // online softmax; half 0: rows 0-7, half 1: rows 8-15
    for (int half = 0; half < 2; half++) {
      float this_max = rowmax[half];
      for (int n = 0; n < BLOCK_KV / 8; n++)
        this_max = fmaxf(this_max, fmaxf(S[n][half * 2], S[n][half * 2 + 1]));
      this_max = fmaxf(this_max, __shfl_xor_sync(0xFFFFFFFF, this_max, 1));
      this_max = fmaxf(this_max, __shfl_xor_sync(0xFFFFFFFF, this_max, 2));

      const float rescale = __expf(rowmax[half] - this_max);
      rowmax[half] = this_max;
      for (int d = 0; d < DIM / 8; d++) {
        O_rmem[d][half * 2] *= rescale;
        O_rmem[d][half * 2 + 1] *= rescale;
      }

      float this_sum = 0.0f;
      for (int n = 0; n < BLOCK_KV / 8; n++)
        for (int reg = half * 2; reg < half * 2 + 2; reg++) {
          S[n][reg] = __expf(S[n][reg] - this_max);
          this_sum += S[n][reg];
        }
      this_sum += __shfl_xor_sync(0xFFFFFFFF, this_sum, 1);
      this_sum += __shfl_xor_sync(0xFFFFFFFF, this_sum, 2);
      rowsum[half] = rowsum[half] * rescale + this_sum;
    }

    // V has arrived, the next K may still be on its way
    cp_async_wait<1>();
    __syncthreads();

    for (int k = 0; k < BLOCK_KV / 16; k++) {
      uint32_t P_rmem[4];
      for (int reg = 0; reg < 4; reg++) {
        const float *src = &S[k * 2 + reg / 2][reg % 2 * 2];
        nv_bfloat162 pair = __floats2bfloat162_rn(src[0], src[1]);
        P_rmem[reg] = reinterpret_cast<uint32_t &>(pair);
      }
      for (int d = 0; d < DIM / 8; d += 2) {
        uint32_t V_rmem[4];  // 16 keys, 16 columns
        const int row = k * 16 + lane_id % 16;
        const int col = d * 8 + lane_id / 16 * 8;
        ldmatrix_x4_trans(V_rmem, V_smem + swizzle<DIM * sizeof(bf16)>((row * DIM + col) * sizeof(bf16)));
        mma_m16n8k16(P_rmem, V_rmem, O_rmem[d]);
        mma_m16n8k16(P_rmem, V_rmem + 2, O_rmem[d + 1]);
      }
    }
  }

  for (int half = 0; half < 2; half++) {
    const int row = warp_id * 16 + lane_id / 4 + half * 8;
    if (q_start + row >= len_q) continue;
    for (int d = 0; d < DIM / 8; d++) {
      const int col = d * 8 + lane_id % 4 * 2;
      reinterpret_cast<nv_bfloat162 *>(O + row * DIM + col)[0] =
          __floats2bfloat162_rn(O_rmem[d][half * 2] / rowsum[half], O_rmem[d][half * 2 + 1] / rowsum[half]);
    }
  }
}
