#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <stdint.h>
#include <torch/extension.h>
#include <torch/types.h>

#define WARP_SIZE 32
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816F32(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1, RC2, RC3) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n" : "=f"(RD0), "=f"(RD1), "=f"(RD2), "=f"(RD3) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "f"(RC0), "f"(RC1), "f"(RC2), "f"(RC3))

// Q, K, V, O: [batch, heads, seqlen, headdim]; each block computes Br rows of one head, K/V are streamed in tiles of Bc.
template <const int kHeadDim, const int kWarps, const int Bc>
__global__ void __launch_bounds__(kWarps * WARP_SIZE)
flash_attn_mma_split_q_kernel(half *Q, half *K, half *V, half *O, int QKV_seqlen, int QKV_head) {
  constexpr int Br = kWarps * 16;
  constexpr int kPad = 8;
  constexpr int LD = kHeadDim + kPad;
  const float scale = 1.0f / sqrtf((float)kHeadDim);

  const int QKV_batch_id = blockIdx.y / QKV_head;
  const int QKV_head_id = blockIdx.y % QKV_head;
  const int Q_tile_id = blockIdx.x;
  const int warp_id = threadIdx.x / WARP_SIZE;
  const int lane_id = threadIdx.x % WARP_SIZE;
  const size_t gmem_offset = ((size_t)QKV_batch_id * QKV_head + QKV_head_id) * QKV_seqlen * kHeadDim;

  extern __shared__ half smem[];
  half *Q_tile_smem = smem;
  half *K_tile_smem = Q_tile_smem + Br * LD;
  half *V_tile_smem = K_tile_smem + Bc * LD;

  for (int i = threadIdx.x * 8; i < Br * kHeadDim; i += kWarps * WARP_SIZE * 8) {
    const int r = i / kHeadDim, c = i % kHeadDim;
    LDST128BITS(Q_tile_smem[r * LD + c]) = LDST128BITS(Q[gmem_offset + (size_t)(Q_tile_id * Br + r) * kHeadDim + c]);
  }

  float lane_row_max[2] = {-FLT_MAX, -FLT_MAX};
  float lane_row_sum[2] = {0.0f, 0.0f};
  float R_O[kHeadDim / 8][4];
#pragma unroll
  for (int j = 0; j < kHeadDim / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) R_O[j][e] = 0.0f;

  const int Tc = QKV_seqlen / Bc;
  for (int tile_K = 0; tile_K < Tc; ++tile_K) {
    __syncthreads();
    for (int i = threadIdx.x * 8; i < Bc * kHeadDim; i += kWarps * WARP_SIZE * 8) {
      const int r = i / kHeadDim, c = i % kHeadDim;
      const size_t g = gmem_offset + (size_t)(tile_K * Bc + r) * kHeadDim + c;
      LDST128BITS(K_tile_smem[r * LD + c]) = LDST128BITS(K[g]);
      LDST128BITS(V_tile_smem[r * LD + c]) = LDST128BITS(V[g]);
    }
    __syncthreads();

    // S = Q @ K^T
    float R_S[Bc / 8][4];
#pragma unroll
    for (int j = 0; j < Bc / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) R_S[j][e] = 0.0f;
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 16) {
      uint32_t R_Q[4];
      uint32_t q_ptr = __cvta_generic_to_shared(&Q_tile_smem[(warp_id * 16 + lane_id % 16) * LD + d + (lane_id / 16) * 8]);
      LDMATRIX_X4(R_Q[0], R_Q[1], R_Q[2], R_Q[3], q_ptr);
#pragma unroll
      for (int j = 0; j < Bc / 8; ++j) {
        uint32_t R_K[2];
        uint32_t k_ptr = __cvta_generic_to_shared(&K_tile_smem[(j * 8 + lane_id % 8) * LD + d + ((lane_id / 8) % 2) * 8]);
        LDMATRIX_X2(R_K[0], R_K[1], k_ptr);
        HMMA16816F32(R_S[j][0], R_S[j][1], R_S[j][2], R_S[j][3], R_Q[0], R_Q[1], R_Q[2], R_Q[3], R_K[0], R_K[1],
                     R_S[j][0], R_S[j][1], R_S[j][2], R_S[j][3]);
      }
    }

    // online softmax, two rows per lane
    float new_max[2] = {lane_row_max[0], lane_row_max[1]};
#pragma unroll
    for (int j = 0; j < Bc / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) R_S[j][e] *= scale;
      new_max[0] = fmaxf(new_max[0], fmaxf(R_S[j][0], R_S[j][1]));
      new_max[1] = fmaxf(new_max[1], fmaxf(R_S[j][2], R_S[j][3]));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      new_max[r] = fmaxf(new_max[r], __shfl_xor_sync(0xffffffff, new_max[r], 1));
      new_max[r] = fmaxf(new_max[r], __shfl_xor_sync(0xffffffff, new_max[r], 2));
    }
    float rescale[2] = {__expf(lane_row_max[0] - new_max[0]), __expf(lane_row_max[1] - new_max[1])};
    float tile_sum[2] = {0.0f, 0.0f};
    uint32_t R_P[Bc / 8][2];
#pragma unroll
    for (int j = 0; j < Bc / 8; ++j) {
      float p0 = __expf(R_S[j][0] - new_max[0]), p1 = __expf(R_S[j][1] - new_max[0]);
      float p2 = __expf(R_S[j][2] - new_max[1]), p3 = __expf(R_S[j][3] - new_max[1]);
      tile_sum[0] += p0 + p1;
      tile_sum[1] += p2 + p3;
      half2 h0 = __floats2half2_rn(p0, p1), h1 = __floats2half2_rn(p2, p3);
      R_P[j][0] = reinterpret_cast<uint32_t &>(h0);
      R_P[j][1] = reinterpret_cast<uint32_t &>(h1);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile_sum[r] += __shfl_xor_sync(0xffffffff, tile_sum[r], 1);
      tile_sum[r] += __shfl_xor_sync(0xffffffff, tile_sum[r], 2);
      lane_row_sum[r] = lane_row_sum[r] * rescale[r] + tile_sum[r];
      lane_row_max[r] = new_max[r];
    }
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; ++j) {
      R_O[j][0] *= rescale[0];
      R_O[j][1] *= rescale[0];
      R_O[j][2] *= rescale[1];
      R_O[j][3] *= rescale[1];
    }

    // O += P @ V
#pragma unroll
    for (int k = 0; k < Bc / 16; ++k) {
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j) {
        uint32_t R_V[2];
        uint32_t v_ptr = __cvta_generic_to_shared(&V_tile_smem[(k * 16 + lane_id % 16) * LD + j * 8]);
        LDMATRIX_X2_T(R_V[0], R_V[1], v_ptr);
        HMMA16816F32(R_O[j][0], R_O[j][1], R_O[j][2], R_O[j][3], R_P[2 * k][0], R_P[2 * k][1], R_P[2 * k + 1][0],
                     R_P[2 * k + 1][1], R_V[0], R_V[1], R_O[j][0], R_O[j][1], R_O[j][2], R_O[j][3]);
      }
    }
  }

  const float inv0 = __frcp_rn(lane_row_sum[0]), inv1 = __frcp_rn(lane_row_sum[1]);
  const int row = Q_tile_id * Br + warp_id * 16 + lane_id / 4;
#pragma unroll
  for (int j = 0; j < kHeadDim / 8; ++j) {
    const int col = j * 8 + (lane_id % 4) * 2;
    *reinterpret_cast<half2 *>(&O[gmem_offset + (size_t)row * kHeadDim + col]) = __floats2half2_rn(R_O[j][0] * inv0, R_O[j][1] * inv0);
    *reinterpret_cast<half2 *>(&O[gmem_offset + (size_t)(row + 8) * kHeadDim + col]) = __floats2half2_rn(R_O[j][2] * inv1, R_O[j][3] * inv1);
  }
}

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                                   \
  if (((T).options().dtype() != (th_type))) {                                  \
    std::cout << "Tensor Info:" << (T).options() << std::endl;                 \
    throw std::runtime_error("values must be " #th_type);                      \
  }
#define CHECK_TORCH_TENSOR_SHAPE(T1, T2)                                       \
  if (((T2).size(0) != (T1).size(0)) || ((T2).size(1) != (T1).size(1)) ||      \
      ((T2).size(2) != (T1).size(2)) || ((T2).size(3) != (T1).size(3))) {      \
    throw std::runtime_error("Tensor size mismatch!");                         \
  }

template <const int kHeadDim>
void launch_flash_attn_mma_split_q(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O) {
  constexpr int kWarps = 4;
  constexpr int Bc = 64;
  constexpr int Br = kWarps * 16;
  const int QKV_batch = Q.size(0);
  const int QKV_head = Q.size(1);
  const int QKV_seqlen = Q.size(2);
  assert(QKV_seqlen % Bc == 0);

  const int smem_max_size = (Br + 2 * Bc) * (kHeadDim + 8) * sizeof(half);
  dim3 grid(QKV_seqlen / Br, QKV_batch * QKV_head);
  dim3 block(WARP_SIZE * kWarps);
  cudaFuncSetAttribute(flash_attn_mma_split_q_kernel<kHeadDim, kWarps, Bc>,
                       cudaFuncAttributeMaxDynamicSharedMemorySize, smem_max_size);
  flash_attn_mma_split_q_kernel<kHeadDim, kWarps, Bc><<<grid, block, smem_max_size>>>(
      reinterpret_cast<half *>(Q.data_ptr()), reinterpret_cast<half *>(K.data_ptr()),
      reinterpret_cast<half *>(V.data_ptr()), reinterpret_cast<half *>(O.data_ptr()), QKV_seqlen, QKV_head);
}

void flash_attn_mma_split_q(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O) {
  CHECK_TORCH_TENSOR_DTYPE(Q, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(K, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(V, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(O, torch::kHalf)
  CHECK_TORCH_TENSOR_SHAPE(K, V)
  const int d = Q.size(3);
  switch (d) {
    case 32: launch_flash_attn_mma_split_q<32>(Q, K, V, O); break;
    case 64: launch_flash_attn_mma_split_q<64>(Q, K, V, O); break;
    case 128: launch_flash_attn_mma_split_q<128>(Q, K, V, O); break;
    default: throw std::runtime_error("headdim not support!"); break;
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("flash_attn_mma_split_q", &flash_attn_mma_split_q, "FA2 split-q, mma m16n8k16"); }
