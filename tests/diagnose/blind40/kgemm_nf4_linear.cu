// 4-bit NormalFloat linear layer:  out = A @ dequant(B)^T (+ bias)
//
// B is what quantize_nf4() made of a weight of nn.Linear, [out_features, in_features]: two values per byte, the first in
// the high nibble, and one absmax for every `blocksize` values of the flattened weight.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define NF4_THREADS 128
#define TILE_ROWS 32          // of A
#define TILE_COLS 64          // output features, 16 per warp
#define TILE_K 32
#define LDS_PAD 8

__constant__ float nf4_data[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

template <int BLOCKSIZE, bool HAS_BIAS>
__global__ void kgemm_nf4_linear(int M, int N, int K, const half *__restrict__ A, const unsigned char *__restrict__ B,
                                 const float *__restrict__ absmax, const half *__restrict__ bias,
                                 half *__restrict__ out, int lda, int ldc) {
    const int warp_id = threadIdx.x / 32;
    const int lane_id = threadIdx.x % 32;
    const int row_offset = blockIdx.y * TILE_ROWS;
    const int col_offset = blockIdx.x * TILE_COLS;

    __shared__ float quant_map[16];
    __shared__ __align__(32) half smem_A[TILE_ROWS * (TILE_K + LDS_PAD)];
    __shared__ __align__(32) half smem_B[TILE_COLS * (TILE_K + LDS_PAD)];
    __shared__ __align__(32) float smem_C[NF4_THREADS / 32][16 * 20];

    if (threadIdx.x < 16)
        quant_map[threadIdx.x] = nf4_data[threadIdx.x];
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b_frag;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag[2];
    wmma::fill_fragment(c_frag[0], 0.0f);
    wmma::fill_fragment(c_frag[1], 0.0f);

    for (int base_idx = 0; base_idx < K; base_idx += TILE_K) {
        // A: 32 x 32 halfs, one vector of 8 per thread
        {
            const int r = threadIdx.x / (TILE_K / 8);
            const int k = threadIdx.x % (TILE_K / 8) * 8;
            int4 v = make_int4(0, 0, 0, 0);
            if (row_offset + r < M)
                v = *reinterpret_cast<const int4 *>(&A[(long)(row_offset + r) * lda + base_idx + k]);
            *reinterpret_cast<int4 *>(&smem_A[r * (TILE_K + LDS_PAD) + k]) = v;
        }

        // B: 64 x 32 values, 8 of them in a word; dequantised on the way
        for (int i = threadIdx.x; i < TILE_COLS * (TILE_K / 8); i += NF4_THREADS) {
            const int n = i / (TILE_K / 8);
            const int k = i % (TILE_K / 8) * 8;
            half local_B[8];
            if (col_offset + n < N) {
                const long idx = (long)(col_offset + n) * K + base_idx + k;   // in the flattened weight
                const uchar4 packed = *reinterpret_cast<const uchar4 *>(&B[idx / 2]);
                const float local_absmax = __ldg(&absmax[idx / BLOCKSIZE]);
                const unsigned char bytes[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    local_B[j * 2] = __float2half(quant_map[bytes[j] >> 4] * local_absmax);
                    local_B[j * 2 + 1] = __float2half(quant_map[bytes[j] & 0x0F] * local_absmax);
                }
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    local_B[j] = __float2half(0.0f);
            }
#pragma unroll
            for (int j = 0; j < 8; j++)
                smem_B[n * (TILE_K + LDS_PAD) + k + j] = local_B[j];
        }
        __syncthreads();

#pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
            wmma::load_matrix_sync(b_frag, &smem_B[warp_id * 16 * (TILE_K + LDS_PAD) + k], TILE_K + LDS_PAD);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a_frag, &smem_A[i * 16 * (TILE_K + LDS_PAD) + k], TILE_K + LDS_PAD);
                wmma::mma_sync(c_frag[i], a_frag, b_frag, c_frag[i]);
            }
        }
        __syncthreads();
    }

    // each warp has its own piece of smem_C: 16 rows of 16 columns
    float *warp_C = smem_C[warp_id];
    const int col = col_offset + warp_id * 16 + lane_id % 16;
    float b = 0.0f;
    if (HAS_BIAS && col < N)
        b = __half2float(bias[col]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        wmma::store_matrix_sync(warp_C, c_frag[i], 20, wmma::mem_row_major);
        __syncwarp();
        for (int r = lane_id / 16; r < 16; r += 2) {
            const int row = row_offset + i * 16 + r;
            if (row < M && col < N)
                out[(long)row * ldc + col] = __float2half(warp_C[r * 20 + lane_id % 16] + b);
        }
        __syncwarp();
    }
}

torch::Tensor nf4_linear(torch::Tensor A, torch::Tensor B, torch::Tensor absmax, c10::optional<torch::Tensor> bias,
                         int64_t out_features, int64_t blocksize) {
    TORCH_CHECK(A.dim() == 2 && A.stride(1) == 1, "A must be a matrix with dense rows");
    TORCH_CHECK(blocksize == 64 || blocksize == 128, "blocksize must be 64 or 128");
    const int M = A.size(0), K = A.size(1), N = out_features;
    TORCH_CHECK(K % blocksize == 0, "in_features must be a multiple of the blocksize");
    auto out = torch::empty({M, N}, A.options());
    const dim3 grid((N + TILE_COLS - 1) / TILE_COLS, (M + TILE_ROWS - 1) / TILE_ROWS);
    auto stream = at::cuda::getCurrentCUDAStream();
    const half *a = reinterpret_cast<const half *>(A.data_ptr<at::Half>());
    const half *bb = bias ? reinterpret_cast<const half *>(bias->data_ptr<at::Half>()) : nullptr;
    half *o = reinterpret_cast<half *>(out.data_ptr<at::Half>());
#define LAUNCH(BS, HB)                                                                                        \
    kgemm_nf4_linear<BS, HB><<<grid, NF4_THREADS, 0, stream>>>(M, N, K, a, B.data_ptr<uint8_t>(),             \
                                                               absmax.data_ptr<float>(), bb, o, A.stride(0), N)
    if (blocksize == 64) {
        if (bias) LAUNCH(64, true); else LAUNCH(64, false);
    } else {
        if (bias) LAUNCH(128, true); else LAUNCH(128, false);
    }
#undef LAUNCH
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("nf4_linear", &nf4_linear, "linear layer with NF4 weights");
}
