/*
 * W4A16 GEMM for AWQ checkpoints.
 *   in_feats        [M, IC]         half
 *   kernel          [IC, OC / 8]    int32, eight 4-bit weights along OC, interleaved 0 2 4 6 1 3 5 7
 *   scaling_factors [IC / G, OC]    half
 *   zeros           [IC / G, OC/8]  int32, packed as the weights
 *   out_feats       [M, OC]         half
 * w = (q - zero) * scale
 */
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

#define CTA_M 16
#define CTA_N 64
#define CTA_K 32
#define PACK_FACTOR 8

// position of output channel i of a group of eight inside the 32-bit word
__device__ __forceinline__ int awq_shift(int i) { return ((i & 1) * 4 + (i >> 1)) * 4; }

__global__ void __launch_bounds__(128)
gemm_forward_4bit_kernel(const half* __restrict__ A, const int* __restrict__ B, const half* __restrict__ scaling_factors,
                         const int* __restrict__ zeros, half* __restrict__ C, int M, int IC, int OC, int G)
{
    __shared__ __align__(32) half A_shared[CTA_M * (CTA_K + 8)];
    __shared__ __align__(32) half B_shared[CTA_K * (CTA_N + 8)];
    __shared__ __align__(32) float C_shared[CTA_M * (CTA_N + 4)];

    const int m_base = blockIdx.y * CTA_M;
    const int n_base = blockIdx.x * CTA_N;
    const int tid = threadIdx.x;
    const int warp_id = tid / 32;

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> C_warp;
    nvcuda::wmma::fill_fragment(C_warp, 0.0f);

    for (int k_0 = 0; k_0 < IC; k_0 += CTA_K) {
        __syncthreads();
        // activations: 64 vectors of eight halfs
        if (tid < CTA_M * CTA_K / 8) {
            const int row = tid / (CTA_K / 8);
            const int col = (tid % (CTA_K / 8)) * 8;
            uint4 vec = make_uint4(0, 0, 0, 0);
            if (m_base + row < M)
                vec = *(const uint4*)(A + (long)(m_base + row) * IC + k_0 + col);
            *(uint4*)(A_shared + row * (CTA_K + 8) + col) = vec;
        }
        // weights: each word gives eight output channels of one input channel
        for (int w = tid; w < CTA_K * CTA_N / PACK_FACTOR; w += 128) {
            const int k = w / (CTA_N / PACK_FACTOR);
            const int n_word = w % (CTA_N / PACK_FACTOR);
            const int gk = k_0 + k;
            const int gn_word = n_base / PACK_FACTOR + n_word;
            const unsigned packed = (unsigned)B[(long)gk * (OC / PACK_FACTOR) + gn_word];
            const unsigned zero_packed = (unsigned)zeros[(long)(gk / G) * (OC / PACK_FACTOR) + gn_word];
            const half* scale = scaling_factors + (long)(gk / G) * OC + gn_word * PACK_FACTOR;
#pragma unroll
            for (int i = 0; i < PACK_FACTOR; ++i) {
                const int q = (packed >> awq_shift(i)) & 0xF;
                const int z = (zero_packed >> awq_shift(i)) & 0xF;
                B_shared[k * (CTA_N + 8) + n_word * PACK_FACTOR + i] = __hmul(__int2half_rn(q - z), scale[i]);
            }
        }
        __syncthreads();

#pragma unroll
        for (int k_1 = 0; k_1 < CTA_K; k_1 += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> A_warp;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> B_warp;
            nvcuda::wmma::load_matrix_sync(A_warp, A_shared + k_1, CTA_K + 8);
            nvcuda::wmma::load_matrix_sync(B_warp, B_shared + k_1 * (CTA_N + 8) + warp_id * 16, CTA_N + 8);
            nvcuda::wmma::mma_sync(C_warp, A_warp, B_warp, C_warp);
        }
    }

    nvcuda::wmma::store_matrix_sync(C_shared + warp_id * 16, C_warp, CTA_N + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < CTA_M * CTA_N; i += 128) {
        const int row = i / CTA_N, col = i % CTA_N;
        if (m_base + row < M)
            C[(long)(m_base + row) * OC + n_base + col] = __float2half(C_shared[row * (CTA_N + 4) + col]);
    }
}

torch::Tensor gemm_forward_cuda(torch::Tensor _in_feats, torch::Tensor _kernel, torch::Tensor _scaling_factors,
                                torch::Tensor _zeros)
{
    const int num_in_feats = _in_feats.size(0);
    const int num_in_channels = _in_feats.size(1);
    const int num_out_channels = _kernel.size(1) * PACK_FACTOR;
    const int group_size = num_in_channels / _scaling_factors.size(0);
    const at::cuda::OptionalCUDAGuard device_guard(device_of(_in_feats));

    if (num_out_channels % CTA_N != 0)
        throw std::invalid_argument("OC is not multiple of cta_N = 64");
    if (num_in_channels % CTA_K != 0)
        throw std::invalid_argument("IC is not multiple of cta_K = 32");
    if (group_size % CTA_K != 0)
        throw std::invalid_argument("Group size should be a multiple of 32");

    auto options = torch::TensorOptions().dtype(_in_feats.dtype()).device(_in_feats.device());
    at::Tensor _out_feats = torch::empty({num_in_feats, num_out_channels}, options);

    auto in_feats = reinterpret_cast<half*>(_in_feats.data_ptr<at::Half>());
    auto kernel = reinterpret_cast<int*>(_kernel.data_ptr<int>());
    auto out_feats = reinterpret_cast<half*>(_out_feats.data_ptr<at::Half>());
    auto scaling_factors = reinterpret_cast<half*>(_scaling_factors.data_ptr<at::Half>());
    auto zeros = reinterpret_cast<int*>(_zeros.data_ptr<int>());

    dim3 num_blocks(num_out_channels / CTA_N, (num_in_feats + CTA_M - 1) / CTA_M);
    gemm_forward_4bit_kernel<<<num_blocks, 128>>>(in_feats, kernel, scaling_factors, zeros, out_feats, num_in_feats,
                                                  num_in_channels, num_out_channels, group_size);
    return _out_feats;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("gemm_forward_cuda", &gemm_forward_cuda, "AWQ quantized GEMM kernel.");
}
