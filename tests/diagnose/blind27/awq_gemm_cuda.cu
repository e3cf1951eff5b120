// W4A16 GEMM, weights in the AWQ format.
//   in_feats        [M, IC]        half
//   kernel          [IC, OC / 8]   int32, 8 nibbles of neighbouring output channels, order 0 2 4 6 1 3 5 7
//   scaling_factors [IC / G, OC]   half
//   zeros           [IC / G, OC/8] int32, packed like the weights
//   out_feats       [M, OC]        half
// Tiles are 16 x 64 x 32, two warps, each of them computes 32 of the 64 output channels.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace vllm_like {
namespace awq {

#define PACK_FACTOR 8
#define CTA_N 64
#define CTA_K 32

// (u4 x 8) -> (half x 8), from FasterTransformer: exploits that 0x6400 | x is the half 1024 + x
__device__ __forceinline__ uint4 dequantize_s4_to_fp16x2(uint32_t const& source) {
    uint4 result;
    uint32_t* h = reinterpret_cast<uint32_t*>(&result);
    uint32_t const i4s = source;

    static constexpr uint32_t immLut = (0xf0 & 0xcc) | 0xaa;
    static constexpr uint32_t BOTTOM_MASK = 0x000f000f;
    static constexpr uint32_t TOP_MASK = 0x00f000f0;
    static constexpr uint32_t I4s_TO_F16s_MAGIC_NUM = 0x64006400;

    // shift right by 8 now and reuse the masks for the upper nibbles
    const uint32_t top_i4s = i4s >> 8;
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n"
                 : "=r"(h[0]) : "r"(i4s), "n"(BOTTOM_MASK), "n"(I4s_TO_F16s_MAGIC_NUM), "n"(immLut));
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n"
                 : "=r"(h[1]) : "r"(i4s), "n"(TOP_MASK), "n"(I4s_TO_F16s_MAGIC_NUM), "n"(immLut));
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n"
                 : "=r"(h[2]) : "r"(top_i4s), "n"(BOTTOM_MASK), "n"(I4s_TO_F16s_MAGIC_NUM), "n"(immLut));
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\n"
                 : "=r"(h[3]) : "r"(top_i4s), "n"(TOP_MASK), "n"(I4s_TO_F16s_MAGIC_NUM), "n"(immLut));

    static constexpr uint32_t FP16_TOP_MAGIC_NUM = 0x64006400;  // {1024, 1024}
    static constexpr uint32_t ONE_SIXTEENTH = 0x2c002c00;       // {1 / 16, 1 / 16}
    static constexpr uint32_t NEG_64 = 0xd400d400;              // {-64, -64}
    asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(h[0]) : "r"(h[0]), "r"(FP16_TOP_MAGIC_NUM));
    asm volatile("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(h[1]) : "r"(h[1]), "r"(ONE_SIXTEENTH), "r"(NEG_64));
    asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(h[2]) : "r"(h[2]), "r"(FP16_TOP_MAGIC_NUM));
    asm volatile("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(h[3]) : "r"(h[3]), "r"(ONE_SIXTEENTH), "r"(NEG_64));
    return result;
}

// w = (w - z) * s, two at a time
__device__ __forceinline__ uint32_t sub_mul(uint32_t w, uint32_t z, uint32_t s) {
    uint32_t r;
    asm volatile("sub.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(w), "r"(z));
    asm volatile("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(r), "r"(s));
    return r;
}

template <int G>
__global__ void __launch_bounds__(64)
gemm_forward_4bit_cuda_m16n64k32(const half* __restrict__ in_feats, const int* __restrict__ kernel,
                                 const half* __restrict__ scaling_factors, const int* __restrict__ zeros,
                                 const half* __restrict__ bias, int M, int IC, int OC, half* __restrict__ out_feats) {
    __shared__ __align__(32) half A_shared[16 * (CTA_K + 8)];
    __shared__ __align__(32) half B_shared[CTA_K * (CTA_N + 8)];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int n_blocks = OC / CTA_N;
    const int block_m = blockIdx.x / n_blocks;
    const int block_n = blockIdx.x % n_blocks;

    float C_warp[4][4];
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) C_warp[j][i] = 0.0f;

    // A: 64 threads copy 16 x 32 halves, 8 each
    const int a_row = tid / (CTA_K / 8);
    const int a_col = (tid % (CTA_K / 8)) * 8;
    const bool ld_A_flag = block_m * 16 + a_row < M;
    const half* A_ptr = in_feats + (block_m * 16 + a_row) * IC + a_col;
    half* A_shared_ptr = A_shared + a_row * (CTA_K + 8) + a_col;

    // B: 8 int32 a row, 8 rows at a time
    const int b_row = tid / (CTA_N / PACK_FACTOR);
    const int b_pack = tid % (CTA_N / PACK_FACTOR);
    const int pack_col = block_n * (CTA_N / PACK_FACTOR) + b_pack;
    const int* B_ptr = kernel + b_row * (OC / PACK_FACTOR) + pack_col;
    half* B_shared_ptr = B_shared + b_row * (CTA_N + 8) + b_pack * PACK_FACTOR;
    const int* zeros_ptr = zeros + pack_col;
    const half* scaling_factors_ptr = scaling_factors + block_n * CTA_N + b_pack * PACK_FACTOR;

    for (int k_0 = 0; k_0 < IC / CTA_K; ++k_0) {
        __syncthreads();
        if (ld_A_flag) {
            *(uint4*)(A_shared_ptr) = *(const uint4*)(A_ptr + k_0 * CTA_K);
        } else {
            *(uint4*)(A_shared_ptr) = make_uint4(0, 0, 0, 0);
        }

        // all 32 rows of this tile are of one group
        const int group = k_0 * CTA_K / G;
        const uint32_t zeros_loaded = *(const uint32_t*)(zeros_ptr + group * (OC / PACK_FACTOR));
        const uint4 B_loaded_zero = dequantize_s4_to_fp16x2(zeros_loaded);
        const uint4 B_loaded_scale = *(const uint4*)(scaling_factors_ptr + group * OC);

        for (int ax0 = 0; ax0 < CTA_K / 8; ++ax0) {
            const uint32_t B_loaded = *(const uint32_t*)(B_ptr + (k_0 * CTA_K + ax0 * 8) * (OC / PACK_FACTOR));
            uint4 B_fp16 = dequantize_s4_to_fp16x2(B_loaded);
            B_fp16.x = sub_mul(B_fp16.x, B_loaded_zero.x, B_loaded_scale.x);
            B_fp16.y = sub_mul(B_fp16.y, B_loaded_zero.y, B_loaded_scale.y);
            B_fp16.z = sub_mul(B_fp16.z, B_loaded_zero.z, B_loaded_scale.z);
            B_fp16.w = sub_mul(B_fp16.w, B_loaded_zero.w, B_loaded_scale.w);
            *(uint4*)(B_shared_ptr + ax0 * 8 * (CTA_N + 8)) = B_fp16;
        }
        __syncthreads();

        for (int k_1 = 0; k_1 < CTA_K / 16; ++k_1) {
            uint32_t A_warp[4];
            uint32_t B_warp[2][4];
            {
                const half* ptr = A_shared + (lane & 15) * (CTA_K + 8) + k_1 * 16 + (lane >> 4) * 8;
                const uint32_t addr = (uint32_t)__cvta_generic_to_shared(ptr);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                             : "=r"(A_warp[0]), "=r"(A_warp[1]), "=r"(A_warp[2]), "=r"(A_warp[3]) : "r"(addr));
            }
            for (int ax0 = 0; ax0 < 2; ++ax0) {
                const half* ptr = B_shared + (k_1 * 16 + (lane & 15)) * (CTA_N + 8) + warp * 32 + ax0 * 16 + (lane >> 4) * 8;
                const uint32_t addr = (uint32_t)__cvta_generic_to_shared(ptr);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                             : "=r"(B_warp[ax0][0]), "=r"(B_warp[ax0][1]), "=r"(B_warp[ax0][2]), "=r"(B_warp[ax0][3])
                             : "r"(addr));
            }
            for (int j = 0; j < 4; ++j) {
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                             : "+f"(C_warp[j][0]), "+f"(C_warp[j][1]), "+f"(C_warp[j][2]), "+f"(C_warp[j][3])
                             : "r"(A_warp[0]), "r"(A_warp[1]), "r"(A_warp[2]), "r"(A_warp[3]),
                               "r"(B_warp[j / 2][(j % 2) * 2]), "r"(B_warp[j / 2][(j % 2) * 2 + 1]));
            }
        }
    }

    for (int j = 0; j < 4; ++j) {
        const int col = block_n * CTA_N + warp * 32 + j * 8 + (lane % 4) * 2;
        for (int local_id = 0; local_id < 4; ++local_id) {
            const int row = block_m * 16 + (lane / 4) + (local_id / 2) * 8;
            if (row < M) {
                float val = C_warp[j][local_id];
                if (bias != nullptr) val += __half2float(bias[col + local_id % 2]);
                out_feats[row * OC + col + local_id % 2] = __float2half(val);
            }
        }
    }
}

}  // namespace awq
}  // namespace vllm_like

void awq_gemm(const half* in_feats, const int* kernel, const half* scaling_factors, const int* zeros, const half* bias,
              int M, int IC, int OC, int group_size, half* out_feats, cudaStream_t stream) {
    dim3 num_blocks((M + 15) / 16 * (OC / CTA_N));
    if (group_size == 128) {
        vllm_like::awq::gemm_forward_4bit_cuda_m16n64k32<128>
            <<<num_blocks, 64, 0, stream>>>(in_feats, kernel, scaling_factors, zeros, bias, M, IC, OC, out_feats);
    } else {
        vllm_like::awq::gemm_forward_4bit_cuda_m16n64k32<64>
            <<<num_blocks, 64, 0, stream>>>(in_feats, kernel, scaling_factors, zeros, bias, M, IC, OC, out_feats);
    }
}
