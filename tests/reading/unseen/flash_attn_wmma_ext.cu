#include <torch/types.h>
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math_constants.h>

/*
 * Minimal FlashAttention forward on tensor cores.
 *
 * One block handles Br queries of one (batch, head); it walks over the keys in
 * steps of Bc. The running maximum m and normaliser l live in registers of the
 * lanes that own a row (2 lanes per row), O lives in shared memory.
 *
 * Q, K, V, O: [B, nh, N, d], contiguous.
 */

constexpr int Br = 64;
constexpr int Bc = 64;
constexpr int NWARPS = 4;

template <int d>
__global__ void forward_kernel(const half* Q, const half* K, const half* V, const int N,
                               const int Tc, const int Tr, const float softmax_scale,
                               const bool is_causal, half* O) {
    using namespace nvcuda::wmma;
    constexpr int LDH = d + 8;     // halves
    constexpr int LDS = Bc + 4;    // floats
    constexpr int LDP = Bc + 8;
    constexpr int LDO = d + 4;

    const int tx = threadIdx.x;
    const int warp = tx / 32, lane = tx % 32;
    const int bx = blockIdx.x; const int by = blockIdx.y;  // batch and head index
    const int i = blockIdx.z;                              // query tile

    // Offset into Q,K,V,O - different for each batch and head
    const size_t qkv_offset = ((size_t)bx * gridDim.y + by) * N * d;

    extern __shared__ __align__(128) unsigned char smem_raw[];
    half*  Qi = reinterpret_cast<half*>(smem_raw);
    half*  Kj = Qi + Br * LDH;
    half*  Vj = Kj + Bc * LDH;
    half*  P  = Vj + Bc * LDH;
    float* S  = reinterpret_cast<float*>(P + Br * LDP);
    float* Oi = S + Br * LDS;

    for (int x = tx; x < Br * d; x += blockDim.x) {
        const int r = x / d, c = x % d;
        const int row = i * Br + r;
        Qi[r * LDH + c] = row < N ? Q[qkv_offset + (size_t)row * d + c] : __float2half(0.f);
        Oi[r * LDO + c] = 0.f;
    }

    // lane pairs own a row: lane / 2 is the row within the warp's 16
    const int my_row = warp * 16 + lane / 2;
    const int half_of_row = lane % 2;
    float row_m_prev = -CUDART_INF_F;
    float row_l_prev = 0.f;

    int j_end = Tc;
    if (is_causal) j_end = min(Tc, ((i + 1) * Br + Bc - 1) / Bc);

    for (int j = 0; j < j_end; j++) {
        __syncthreads();  // nobody still reads Kj, Vj
        for (int x = tx; x < Bc * d; x += blockDim.x) {
            const int r = x / d, c = x % d;
            const int row = j * Bc + r;
            const bool ok = row < N;
            Kj[r * LDH + c] = ok ? K[qkv_offset + (size_t)row * d + c] : __float2half(0.f);
            Vj[r * LDH + c] = ok ? V[qkv_offset + (size_t)row * d + c] : __float2half(0.f);
        }
        __syncthreads();

        // S = QK^T : every warp computes its 16 rows
        for (int n = 0; n < Bc / 16; n++) {
            fragment<accumulator, 16, 16, 16, float> s_frag;
            fill_fragment(s_frag, 0.f);
            for (int k = 0; k < d / 16; k++) {
                fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
                fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
                load_matrix_sync(q_frag, Qi + warp * 16 * LDH + k * 16, LDH);
                load_matrix_sync(k_frag, Kj + n * 16 * LDH + k * 16, LDH);
                mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            for (int e = 0; e < s_frag.num_elements; e++) s_frag.x[e] *= softmax_scale;
            store_matrix_sync(S + warp * 16 * LDS + n * 16, s_frag, LDS, mem_row_major);
        }
        __syncwarp();

        // row_m = rowmax(S), P = exp(S - row_m), row_l = rowsum(P)
        const int q_idx = i * Br + my_row;
        float row_m = row_m_prev;
        for (int y = half_of_row; y < Bc; y += 2) {
            const int k_idx = j * Bc + y;
            const bool masked = k_idx >= N || (is_causal && k_idx > q_idx);
            float s = masked ? -CUDART_INF_F : S[my_row * LDS + y];
            S[my_row * LDS + y] = s;
            row_m = fmaxf(row_m, s);
        }
        row_m = fmaxf(row_m, __shfl_xor_sync(0xffffffff, row_m, 1));
        float row_l = 0.f;
        for (int y = half_of_row; y < Bc; y += 2) {
            float p = __expf(S[my_row * LDS + y] - row_m);
            P[my_row * LDP + y] = __float2half(p);
            row_l += p;
        }
        row_l += __shfl_xor_sync(0xffffffff, row_l, 1);
        const float correction = __expf(row_m_prev - row_m);
        row_l_prev = row_l_prev * correction + row_l;
        row_m_prev = row_m;
        for (int c = half_of_row; c < d; c += 2) Oi[my_row * LDO + c] *= correction;
        __syncwarp();

        // O += P V
        for (int n = 0; n < d / 16; n++) {
            fragment<accumulator, 16, 16, 16, float> o_frag;
            float* o_tile = Oi + warp * 16 * LDO + n * 16;
            load_matrix_sync(o_frag, o_tile, LDO, mem_row_major);
            for (int k = 0; k < Bc / 16; k++) {
                fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
                fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
                load_matrix_sync(p_frag, P + warp * 16 * LDP + k * 16, LDP);
                load_matrix_sync(v_frag, Vj + k * 16 * LDH + n * 16, LDH);
                mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            store_matrix_sync(o_tile, o_frag, LDO, mem_row_major);
        }
        __syncwarp();
    }

    const int q_idx = i * Br + my_row;
    if (q_idx < N) {
        const float inv_l = 1.f / row_l_prev;
        for (int c = half_of_row; c < d; c += 2)
            O[qkv_offset + (size_t)q_idx * d + c] = __float2half(Oi[my_row * LDO + c] * inv_l);
    }
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, bool is_causal) {
    TORCH_CHECK(Q.dtype() == torch::kHalf, "Q must be float16");
    const int B = Q.size(0); const int nh = Q.size(1);
    const int N = Q.size(2); const int d = Q.size(3);
    const int Tc = ceil((float) N / Bc); const int Tr = ceil((float) N / Br);
    const float softmax_scale = 1.0 / sqrt(d);

    auto O = torch::zeros_like(Q);

    // Calculate SRAM size needed per block
    const int sram_size = (Br + 2 * Bc) * (d + 8) * sizeof(half) + Br * (Bc + 8) * sizeof(half)
                        + Br * (Bc + 4) * sizeof(float) + Br * (d + 4) * sizeof(float);
    int max_sram_size;
    cudaDeviceGetAttribute(&max_sram_size, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    TORCH_CHECK(sram_size <= max_sram_size, "not enough shared memory: ", sram_size, " > ", max_sram_size);

    dim3 grid_dim(B, nh, Tr);  // batch_size x num_heads x query tiles
    dim3 block_dim(NWARPS * 32);

    auto run = [&](auto kernel) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sram_size);
        kernel<<<grid_dim, block_dim, sram_size, c10::cuda::getCurrentCUDAStream()>>>(
            reinterpret_cast<const half*>(Q.data_ptr<at::Half>()),
            reinterpret_cast<const half*>(K.data_ptr<at::Half>()),
            reinterpret_cast<const half*>(V.data_ptr<at::Half>()),
            N, Tc, Tr, softmax_scale, is_causal, reinterpret_cast<half*>(O.data_ptr<at::Half>()));
    };
    if (d == 64) run(forward_kernel<64>);
    else if (d == 128) run(forward_kernel<128>);
    else TORCH_CHECK(false, "head dim must be 64 or 128");
    return O;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", torch::wrap_pybind_function(forward), "forward");
}
