/*
 * W4A16 GEMM for AWQ checkpoints.
 *   in_feats        [M, IC]        fp16
 *   kernel          [IC, OC / 8]   int32, eight 4-bit weights of one input channel, interleaved (0 2 4 6 1 3 5 7)
 *   scaling_factors [IC / G, OC]   fp16
 *   zeros           [IC / G, OC/8] int32, packed in the same order
 *   returns         [M, OC]        fp16
 */
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <cstdint>

#define CTA_M 16
#define CTA_N 64
#define CTA_K 32

__device__ __forceinline__ uint32_t cast_smem_ptr_to_uint(void const* const ptr) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
}

// two nibbles -> two halves via the 1024 magic number; see the FasterTransformer int4 converters
__device__ __forceinline__ uint4 dequantize_s4_to_fp16x2(uint32_t const& source) {
  uint4 result;
  uint32_t* h = reinterpret_cast<uint32_t*>(&result);
  static constexpr uint32_t immLut = (0xf0 & 0xcc) | 0xaa;
  static constexpr uint32_t BOTTOM_MASK = 0x000f000f;
  static constexpr uint32_t TOP_MASK = 0x00f000f0;
  static constexpr uint32_t MAGIC = 0x64006400;
  const uint32_t top_i4s = source >> 8;
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[0]) : "r"(source), "n"(BOTTOM_MASK), "n"(MAGIC), "n"(immLut));
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[1]) : "r"(source), "n"(TOP_MASK), "n"(MAGIC), "n"(immLut));
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[2]) : "r"(top_i4s), "n"(BOTTOM_MASK), "n"(MAGIC), "n"(immLut));
  asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[3]) : "r"(top_i4s), "n"(TOP_MASK), "n"(MAGIC), "n"(immLut));
  static constexpr uint32_t FP16_TOP_MAGIC_NUM = 0x64006400;   // {1024, 1024}
  static constexpr uint32_t ONE_SIXTEENTH = 0x2c002c00;        // {1/16, 1/16}
  static constexpr uint32_t NEG_64 = 0xd400d400;               // {-64, -64}
  asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(h[0]) : "r"(h[0]), "r"(FP16_TOP_MAGIC_NUM));
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(h[1]) : "r"(h[1]), "r"(ONE_SIXTEENTH), "r"(NEG_64));
  asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(h[2]) : "r"(h[2]), "r"(FP16_TOP_MAGIC_NUM));
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(h[3]) : "r"(h[3]), "r"(ONE_SIXTEENTH), "r"(NEG_64));
  return result;
}

template <int G>
__global__ void __launch_bounds__(64) gemm_forward_4bit_cuda_m16n64k32(half* __restrict__ A, int* __restrict__ B,
                                                                       half* __restrict__ scaling_factors,
                                                                       int* __restrict__ zeros, int M, int IC, int OC,
                                                                       half* __restrict__ C) {
  __shared__ __align__(16) half A_shared[CTA_M * (CTA_K + 8)];
  __shared__ __align__(16) half B_shared[CTA_K * (CTA_N + 8)];

  const int j_factors1 = OC / CTA_N;
  const int blockIdx_y = blockIdx.x / j_factors1;  // row tile
  const int blockIdx_n = blockIdx.x % j_factors1;  // column tile
  const int tid = threadIdx.y * 32 + threadIdx.x;
  float C_warp[4][4] = {};

  for (int k_0 = 0; k_0 < IC / CTA_K; ++k_0) {
    __syncthreads();
    {  // A: 16 x 32 halves, one uint4 per thread
      const int row = tid / 4, col = (tid % 4) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (blockIdx_y * CTA_M + row < M)
        v = *(uint4*)(A + (size_t)(blockIdx_y * CTA_M + row) * IC + k_0 * CTA_K + col);
      *(uint4*)(A_shared + row * (CTA_K + 8) + col) = v;
    }
    const int group = k_0 * CTA_K / G;
    for (int it = 0; it < 4; ++it) {  // B: 32 x 64, 8 weights per word -> 256 words
      const int word = it * 64 + tid;
      const int row = word / (CTA_N / 8), col = word % (CTA_N / 8);
      const int oc8 = blockIdx_n * (CTA_N / 8) + col;
      uint32_t zeros_loaded = zeros[(size_t)group * (OC / 8) + oc8];
      uint4 B_loaded_zero = dequantize_s4_to_fp16x2(zeros_loaded);
      uint4 B_loaded_scale = *(uint4*)(scaling_factors + (size_t)group * OC + oc8 * 8);
      uint32_t B_loaded = B[(size_t)(k_0 * CTA_K + row) * (OC / 8) + oc8];
      uint4 B_loaded_fp16 = dequantize_s4_to_fp16x2(B_loaded);
      asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.x) : "r"(B_loaded_fp16.x), "r"(B_loaded_zero.x));
      asm volatile("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.x) : "r"(B_loaded_fp16.x), "r"(B_loaded_scale.x));
      asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.y) : "r"(B_loaded_fp16.y), "r"(B_loaded_zero.y));
      asm volatile("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.y) : "r"(B_loaded_fp16.y), "r"(B_loaded_scale.y));
      asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.z) : "r"(B_loaded_fp16.z), "r"(B_loaded_zero.z));
      asm volatile("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.z) : "r"(B_loaded_fp16.z), "r"(B_loaded_scale.z));
      asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.w) : "r"(B_loaded_fp16.w), "r"(B_loaded_zero.w));
      asm volatile("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(B_loaded_fp16.w) : "r"(B_loaded_fp16.w), "r"(B_loaded_scale.w));
      *(uint4*)(B_shared + row * (CTA_N + 8) + col * 8) = B_loaded_fp16;
    }
    __syncthreads();

    for (int k_1 = 0; k_1 < 2; ++k_1) {
      uint32_t a[4];
      {
        uint32_t addr = cast_smem_ptr_to_uint(A_shared + (threadIdx.x % 16) * (CTA_K + 8) + k_1 * 16 + (threadIdx.x / 16) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr));
      }
      for (int ax0 = 0; ax0 < 2; ++ax0) {
        uint32_t b[4];
        uint32_t addr = cast_smem_ptr_to_uint(B_shared + (k_1 * 16 + threadIdx.x % 16) * (CTA_N + 8) + threadIdx.y * 32 +
                                              ax0 * 16 + (threadIdx.x / 16) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(addr));
        for (int h = 0; h < 2; ++h) {
          float* c = C_warp[ax0 * 2 + h];
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                       "{%0, %1, %2, %3};\n"
                       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * h]), "r"(b[2 * h + 1]));
        }
      }
    }
  }

  for (int ax1 = 0; ax1 < 4; ++ax1) {
    for (int local_id = 0; local_id < 4; ++local_id) {
      int row_offset = blockIdx_y * CTA_M + threadIdx.x / 4 + (local_id / 2) * 8;
      int col_offset = blockIdx_n * CTA_N + threadIdx.y * 32 + ax1 * 8 + (threadIdx.x % 4) * 2 + local_id % 2;
      if (row_offset < M) C[(size_t)row_offset * OC + col_offset] = __float2half(C_warp[ax1][local_id]);
    }
  }
}

torch::Tensor awq_gemm_forward(torch::Tensor _in_feats, torch::Tensor _kernel, torch::Tensor _scaling_factors,
                               torch::Tensor _zeros) {
  int num_in_feats = _in_feats.size(0);
  int num_in_channels = _in_feats.size(1);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(_in_feats));

  auto options = torch::TensorOptions().dtype(_in_feats.dtype()).device(_in_feats.device());
  at::Tensor _out_feats = torch::empty({num_in_feats, _kernel.size(1) * 8}, options);
  int num_out_channels = _out_feats.size(-1);
  int group_size = num_in_channels / _scaling_factors.size(0);

  auto in_feats = reinterpret_cast<half*>(_in_feats.data_ptr<at::Half>());
  auto kernel = reinterpret_cast<int*>(_kernel.data_ptr<int>());
  auto out_feats = reinterpret_cast<half*>(_out_feats.data_ptr<at::Half>());
  auto scaling_factors = reinterpret_cast<half*>(_scaling_factors.data_ptr<at::Half>());
  auto zeros = reinterpret_cast<int*>(_zeros.data_ptr<int>());

  if (num_out_channels % 64 != 0) throw std::invalid_argument("OC is not multiple of cta_N = 64");
  if (num_out_channels % 8 != 0) throw std::invalid_argument("OC is not multiple of pack_num = 8");

  dim3 num_blocks((num_out_channels / CTA_N) * ((num_in_feats + CTA_M - 1) / CTA_M));
  dim3 threads_per_block(32, 2);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (group_size == 128) {
    gemm_forward_4bit_cuda_m16n64k32<128><<<num_blocks, threads_per_block, 0, stream>>>(
        in_feats, kernel, scaling_factors, zeros, num_in_feats, num_in_channels, num_out_channels, out_feats);
  } else if (group_size == 64) {
    gemm_forward_4bit_cuda_m16n64k32<64><<<num_blocks, threads_per_block, 0, stream>>>(
        in_feats, kernel, scaling_factors, zeros, num_in_feats, num_in_channels, num_out_channels, out_feats);
  } else {
    throw std::invalid_argument("Group size temporarily not supported.");
  }
  return _out_feats;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gemm_forward", &awq_gemm_forward, "AWQ W4A16 gemm"); }
