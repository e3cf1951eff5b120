// Sparse convolution forward, implicit GEMM (output stationary), fp16 with fp32 accumulators.
// Loop nest generated with TVM and edited by hand (dynamic shapes, cp.async, ldmatrix).
#ifdef WITH_TORCH
#include <torch/extension.h>
#endif
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// out_in_map: [M, kernel_volume], row of the input for each output and kernel offset, -1 if there is none
// A: [num_in, K_original]   B: [kernel_volume, K_original, N]   C: [M, N]
// Pack: 8 halves. K_original and N must be multiples of 8.
__global__ void __launch_bounds__(128)
conv_forward_cuda_m64n64k32_f16f16f32(int M, int K_original, int N, int kernel_volume,
                                      const half *__restrict__ A, const half *__restrict__ B,
                                      const int *__restrict__ out_in_map, half *__restrict__ C)
{
  const int K_implicit = K_original * kernel_volume;
  float C_warp[32];
  __shared__ __align__(16) half A_shared[2 * 64 * 40];
  __shared__ __align__(16) half B_shared[2 * 32 * 72];
  half A_shared_warp[16];
  half B_shared_warp[16];

  const int j_factors1 = (N + 63) / 64;
  const int blockIdx_m = blockIdx.x / j_factors1;
  const int blockIdx_n = blockIdx.x % j_factors1;
  const int threadIdx_x = threadIdx.x % 32;
  const int threadIdx_y = threadIdx.x / 32;      // warp: 2 along M, 2 along N

  for (int i0 = 0; i0 < 32; ++i0) {
    C_warp[i0] = 0.0f;
  }

  // hoisted: this thread's rows of A and columns of B
  const int A_row = threadIdx.x / 4;             // and + 32
  const int A_col = (threadIdx.x % 4) * 8;
  const int B_row = threadIdx.x / 8;             // and + 16
  const int B_col = (threadIdx.x % 8) * 8;

  auto load_stage = [&](int k_0, int stage) {
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      const int row = blockIdx_m * 64 + ax0_ax1_fused_0 * 32 + A_row;
      const int k = k_0 * 32 + A_col;
      int input_idx = -1;
      if (row < M && k < K_implicit) {
        input_idx = out_in_map[row * kernel_volume + k / K_original];
      }
      const half *src = input_idx != -1 ? A + input_idx * K_original + k % K_original : A;
      unsigned int addr = (unsigned int)__cvta_generic_to_shared(
          A_shared + stage * 2560 + (ax0_ax1_fused_0 * 32 + A_row) * 40 + A_col);
      __asm__ __volatile__("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                           ::"r"(addr), "l"(src), "r"(input_idx != -1 ? 16 : 0));
    }
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      const int k = k_0 * 32 + ax0_ax1_fused_0 * 16 + B_row;
      const int col = blockIdx_n * 64 + B_col;
      const bool pred = k < K_implicit && col < N;
      const half *src = pred ? B + k * N + col : B;
      unsigned int addr = (unsigned int)__cvta_generic_to_shared(
          B_shared + stage * 2304 + (ax0_ax1_fused_0 * 16 + B_row) * 72 + B_col);
      __asm__ __volatile__("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                           ::"r"(addr), "l"(src), "r"(pred ? 16 : 0));
    }
    __asm__ __volatile__("cp.async.commit_group;");
  };

  const int k_extent = (K_implicit + 31) / 32;
  load_stage(0, 0);
  for (int k_0 = 0; k_0 < k_extent; ++k_0) {
    if (k_0 + 1 < k_extent) {
      load_stage(k_0 + 1, (k_0 + 1) % 2);
      __asm__ __volatile__("cp.async.wait_group 1;");
    } else {
      __asm__ __volatile__("cp.async.wait_group 0;");
    }
    __syncthreads();

    const half *A_stage = A_shared + (k_0 % 2) * 2560;
    const half *B_stage = B_shared + (k_0 % 2) * 2304;
    for (int k_1 = 0; k_1 < 2; ++k_1) {
      for (int ax0_0 = 0; ax0_0 < 2; ++ax0_0) {
        unsigned int addr = (unsigned int)__cvta_generic_to_shared(
            A_stage + ((threadIdx_y / 2) * 32 + ax0_0 * 16 + (threadIdx_x & 15)) * 40 + k_1 * 16 + (threadIdx_x >> 4) * 8);
        __asm__ __volatile__(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(((unsigned *)(A_shared_warp + ax0_0 * 8))[0]), "=r"(((unsigned *)(A_shared_warp + ax0_0 * 8))[1]),
              "=r"(((unsigned *)(A_shared_warp + ax0_0 * 8))[2]), "=r"(((unsigned *)(A_shared_warp + ax0_0 * 8))[3])
            : "r"(addr));
      }
      for (int ax1_0 = 0; ax1_0 < 2; ++ax1_0) {
        unsigned int addr = (unsigned int)__cvta_generic_to_shared(
            B_stage + (k_1 * 16 + (threadIdx_x & 15)) * 72 + (threadIdx_y % 2) * 32 + ax1_0 * 16 + (threadIdx_x >> 4) * 8);
        __asm__ __volatile__(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(((unsigned *)(B_shared_warp + ax1_0 * 8))[0]), "=r"(((unsigned *)(B_shared_warp + ax1_0 * 8))[1]),
              "=r"(((unsigned *)(B_shared_warp + ax1_0 * 8))[2]), "=r"(((unsigned *)(B_shared_warp + ax1_0 * 8))[3])
            : "r"(addr));
      }
      for (int i_0_4 = 0; i_0_4 < 2; ++i_0_4) {
        for (int j_0_4 = 0; j_0_4 < 4; ++j_0_4) {
          float *C_frag = C_warp + i_0_4 * 16 + j_0_4 * 4;
          const unsigned *A_frag = (const unsigned *)(A_shared_warp + i_0_4 * 8);
          const unsigned *B_frag = (const unsigned *)(B_shared_warp + j_0_4 * 4);
          __asm__ __volatile__(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
              "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
              : "=f"(C_frag[0]), "=f"(C_frag[1]), "=f"(C_frag[2]), "=f"(C_frag[3])
              : "r"(A_frag[0]), "r"(A_frag[1]), "r"(A_frag[2]), "r"(A_frag[3]), "r"(B_frag[0]), "r"(B_frag[1]),
                "f"(C_frag[0]), "f"(C_frag[1]), "f"(C_frag[2]), "f"(C_frag[3]));
        }
      }
    }
    __syncthreads();
  }

  for (int ax0_0_1 = 0; ax0_0_1 < 2; ++ax0_0_1) {
    for (int ax1_0_1 = 0; ax1_0_1 < 4; ++ax1_0_1) {
      for (int local_id = 0; local_id < 4; local_id += 2) {
        const int row = blockIdx_m * 64 + (threadIdx_y / 2) * 32 + ax0_0_1 * 16 + (local_id / 2) * 8 + threadIdx_x / 4;
        const int col = blockIdx_n * 64 + (threadIdx_y % 2) * 32 + ax1_0_1 * 8 + (threadIdx_x % 4) * 2;
        if (row < M && col < N) {
          const float *c = C_warp + ax0_0_1 * 16 + ax1_0_1 * 4 + local_id;
          *(half2 *)(C + row * N + col) = __floats2half2_rn(c[0], c[1]);
        }
      }
    }
  }
}

#ifdef WITH_TORCH
at::Tensor conv_forward_implicit_gemm_cuda(torch::Tensor in_feats, torch::Tensor kernel, torch::Tensor out_in_map, int num_out_feats)
{
  const int kernel_volume = out_in_map.size(1);
  const int num_out_channels = kernel.size(-1);
  auto out_feats = torch::empty({num_out_feats, num_out_channels}, in_feats.options());
  const int j_factors1 = (num_out_channels + 63) / 64;
  conv_forward_cuda_m64n64k32_f16f16f32<<<(num_out_feats + 63) / 64 * j_factors1, 128>>>(
      num_out_feats, in_feats.size(1), num_out_channels, kernel_volume,
      reinterpret_cast<half *>(in_feats.data_ptr<at::Half>()), reinterpret_cast<half *>(kernel.data_ptr<at::Half>()),
      out_in_map.data_ptr<int>(), reinterpret_cast<half *>(out_feats.data_ptr<at::Half>()));
  return out_feats;
}
#endif
