/*
 * wmma_attention: a (hopefully) readable fused attention forward as a torch extension.
 *
 *   out = softmax(q @ k.transpose(-1, -2) * scale) @ v
 *
 * q, k, v: [B, H, N, D], half, contiguous, D in {32, 64, 128}. No mask, no dropout.
 *
 * I wanted something one can read without knowing the register layout of the mma
 * instruction, so only nvcuda::wmma is used and everything that needs to know about rows
 * (the softmax, the rescaling) goes through shared memory. It is slower than the real
 * thing, but still never materialises the N x N matrix.
 */
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>

using namespace nvcuda;

static const int BLOCK_Q = 64;   // queries per block
static const int BLOCK_KV = 32;  // keys per step
static const int WARPS = 4;      // 16 queries per warp
static const int WARP = 32;

template <int D>
struct Smem {
    // all pitches keep 16 rows a multiple of 32 bytes, as wmma wants it
    static constexpr int LD_H = D + 8;          // q, k, v  (half)
    static constexpr int LD_S = BLOCK_KV + 4;   // scores   (float)
    static constexpr int LD_P = BLOCK_KV + 8;   // probs    (half)
    static constexpr int LD_O = D + 4;          // output   (float)

    static constexpr int Q = 0;
    static constexpr int K = Q + BLOCK_Q * LD_H * 2;
    static constexpr int V = K + BLOCK_KV * LD_H * 2;
    static constexpr int S = V + BLOCK_KV * LD_H * 2;
    static constexpr int P = S + BLOCK_Q * LD_S * 4;
    static constexpr int O = P + BLOCK_Q * LD_P * 2;
    static constexpr int BYTES = O + BLOCK_Q * LD_O * 4;
};

template <int D>
__device__ void load_rows(half *dst, const half *src, int row0, int rows, int N) {
    constexpr int VEC = D / 8;
    for (int i = threadIdx.x; i < rows * VEC; i += WARPS * WARP) {
        int r = i / VEC;
        int c = (i % VEC) * 8;
        int4 val = make_int4(0, 0, 0, 0);
        if (row0 + r < N)
            val = *reinterpret_cast<const int4 *>(src + (size_t)(row0 + r) * D + c);
        *reinterpret_cast<int4 *>(dst + r * Smem<D>::LD_H + c) = val;
    }
}

template <int D>
__global__ void attention_forward_kernel(const half *q, const half *k, const half *v,
                                         half *out, int N, float scale) {
    using L = Smem<D>;
    extern __shared__ __align__(128) unsigned char smem[];
    half *sQ = reinterpret_cast<half *>(smem + L::Q);
    half *sK = reinterpret_cast<half *>(smem + L::K);
    half *sV = reinterpret_cast<half *>(smem + L::V);
    float *sS = reinterpret_cast<float *>(smem + L::S);
    half *sP = reinterpret_cast<half *>(smem + L::P);
    float *sO = reinterpret_cast<float *>(smem + L::O);

    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int q_start = blockIdx.x * BLOCK_Q;
    const size_t base = (size_t)blockIdx.y * N * D;

    load_rows<D>(sQ, q + base, q_start, BLOCK_Q, N);
    for (int i = threadIdx.x; i < BLOCK_Q * L::LD_O; i += WARPS * WARP) sO[i] = 0.f;

    // The 16 rows of a warp: two lanes per row, lane / 2 is the row, lane % 2 says
    // which half of the columns. Both lanes keep the same running max and sum.
    const int my_row = warp * 16 + lane / 2;
    const int side = lane % 2;
    float row_max = -INFINITY;
    float row_sum = 0.f;

    for (int kv = 0; kv < N; kv += BLOCK_KV) {
        __syncthreads();  // nobody reads the previous k / v any more
        load_rows<D>(sK, k + base, kv, BLOCK_KV, N);
        load_rows<D>(sV, v + base, kv, BLOCK_KV, N);
        __syncthreads();

        // S = Q K^T, 16 x 32 per warp
        for (int j = 0; j < BLOCK_KV / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.f);
            for (int d = 0; d < D; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, sQ + warp * 16 * L::LD_H + d, L::LD_H);
                wmma::load_matrix_sync(b, sK + j * 16 * L::LD_H + d, L::LD_H);
                wmma::mma_sync(s, a, b, s);
            }
            wmma::store_matrix_sync(sS + warp * 16 * L::LD_S + j * 16, s, L::LD_S,
                                    wmma::mem_row_major);
        }
        __syncwarp();

        // online softmax on this lane's half row
        const float *s_row = sS + my_row * L::LD_S + side * (BLOCK_KV / 2);
        half *p_row = sP + my_row * L::LD_P + side * (BLOCK_KV / 2);
        const int col0 = kv + side * (BLOCK_KV / 2);
        float m = -INFINITY;
        for (int c = 0; c < BLOCK_KV / 2; c++)
            if (col0 + c < N) m = fmaxf(m, s_row[c] * scale);
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
        const float new_max = fmaxf(row_max, m);
        const float alpha = __expf(row_max - new_max);  // exp(-inf) = 0 in the first step
        float sum = 0.f;
        for (int c = 0; c < BLOCK_KV / 2; c++) {
            float p = col0 + c < N ? __expf(s_row[c] * scale - new_max) : 0.f;
            sum += p;
            p_row[c] = __float2half(p);
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        row_sum = row_sum * alpha + sum;
        row_max = new_max;

        float *o_row = sO + my_row * L::LD_O + side * (D / 2);
        for (int c = 0; c < D / 2; c++) o_row[c] *= alpha;
        __syncwarp();

        // O += P V
        for (int d = 0; d < D; d += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            float *o_tile = sO + warp * 16 * L::LD_O + d;
            wmma::load_matrix_sync(o, o_tile, L::LD_O, wmma::mem_row_major);
            for (int j = 0; j < BLOCK_KV; j += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, sP + warp * 16 * L::LD_P + j, L::LD_P);
                wmma::load_matrix_sync(b, sV + j * L::LD_H + d, L::LD_H);
                wmma::mma_sync(o, a, b, o);
            }
            wmma::store_matrix_sync(o_tile, o, L::LD_O, wmma::mem_row_major);
        }
        __syncwarp();
    }

    const int q_row = q_start + my_row;
    if (q_row < N) {
        const float inv = 1.f / row_sum;
        const float *o_row = sO + my_row * L::LD_O + side * (D / 2);
        half *dst = out + base + (size_t)q_row * D + side * (D / 2);
        for (int c = 0; c < D / 2; c++) dst[c] = __float2half(o_row[c] * inv);
    }
}

template <int D>
void launch(const torch::Tensor &q, const torch::Tensor &k, const torch::Tensor &v,
            torch::Tensor &out, float scale) {
    const int B = q.size(0), H = q.size(1), N = q.size(2);
    auto kernel = attention_forward_kernel<D>;
    const int bytes = Smem<D>::BYTES;
    // more than 48 KB has to be asked for
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    dim3 grid((N + BLOCK_Q - 1) / BLOCK_Q, B * H);
    kernel<<<grid, WARPS * WARP, bytes, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const half *>(q.data_ptr<at::Half>()),
        reinterpret_cast<const half *>(k.data_ptr<at::Half>()),
        reinterpret_cast<const half *>(v.data_ptr<at::Half>()),
        reinterpret_cast<half *>(out.data_ptr<at::Half>()), N, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    TORCH_CHECK(q.is_cuda() && k.is_cuda() && v.is_cuda(), "inputs must be on the GPU");
    TORCH_CHECK(q.scalar_type() == at::kHalf && k.scalar_type() == at::kHalf &&
                v.scalar_type() == at::kHalf, "inputs must be fp16");
    TORCH_CHECK(q.dim() == 4, "expected [B, H, N, D]");
    TORCH_CHECK(q.sizes() == k.sizes() && q.sizes() == v.sizes(), "q, k, v must have one shape");
    TORCH_CHECK(q.size(0) * q.size(1) <= 65535, "too many heads for gridDim.y");
    q = q.contiguous();
    k = k.contiguous();
    v = v.contiguous();
    auto out = torch::empty_like(q);
    if (q.numel() == 0) return out;

    const int D = q.size(3);
    const float scale = 1.f / std::sqrt((float)D);
    switch (D) {
        case 32: launch<32>(q, k, v, out, scale); break;
        case 64: launch<64>(q, k, v, out, scale); break;
        case 128: launch<128>(q, k, v, out, scale); break;
        default: TORCH_CHECK(false, "unsupported head dim ", D);
    }
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "attention forward (wmma)");
}
