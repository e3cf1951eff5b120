#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

// Minimal flash attention forward on tensor cores.
// One block of 4 warps handles Br = 64 queries of one head; K/V are streamed in tiles of Bc = 32.
// Each warp owns 16 rows of the block, so softmax statistics need no block-wide reduction.
#define Br 64
#define Bc 32
#define NWARPS 4

template <int d>
__global__ void forward_kernel(const half* Q, const half* K, const half* V, const int N,
                               const float softmax_scale, half* O) {
    const int tx = threadIdx.x;
    const int warp = tx / 32, lane = tx % 32;
    const int q0 = blockIdx.x * Br;
    // (B, nh, N, d) contiguous: blockIdx.y is the head, blockIdx.z the batch
    const size_t qkv_offset = ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * N * d;
    Q += qkv_offset;
    K += qkv_offset;
    V += qkv_offset;
    O += qkv_offset;

    extern __shared__ __align__(128) unsigned char smem[];
    half* Qi = reinterpret_cast<half*>(smem);             // Br x d
    half* Kj = Qi + Br * d;                               // Bc x d
    half* Vj = Kj + Bc * d;                               // Bc x d
    half* P = Vj + Bc * d;                                // Br x Bc
    float* S = reinterpret_cast<float*>(P + Br * Bc);     // Br x Bc
    float* Oi = S + Br * Bc;                              // Br x d
    float* row_m = Oi + Br * d;                           // Br
    float* row_l = row_m + Br;                            // Br

    const half zero = __float2half(0.f);
    for (int i = tx; i < Br * d; i += blockDim.x) {
        Qi[i] = q0 + i / d < N ? Q[(size_t)q0 * d + i] : zero;
        Oi[i] = 0.f;
    }
    for (int i = tx; i < Br; i += blockDim.x) {
        row_m[i] = -INFINITY;
        row_l[i] = 0.f;
    }

    half* Pw = P + warp * 16 * Bc;
    float* Sw = S + warp * 16 * Bc;
    float* Ow = Oi + warp * 16 * d;

    for (int k0 = 0; k0 < N; k0 += Bc) {
        __syncthreads();  // the previous tile has been used by all warps
        for (int i = tx; i < Bc * d; i += blockDim.x) {
            const bool in = k0 + i / d < N;
            Kj[i] = in ? K[(size_t)k0 * d + i] : zero;
            Vj[i] = in ? V[(size_t)k0 * d + i] : zero;
        }
        __syncthreads();

        // S = Q K^T
        for (int n = 0; n < Bc; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.f);
            for (int k = 0; k < d; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, Qi + warp * 16 * d + k, d);
                wmma::load_matrix_sync(b, Kj + n * d + k, d);
                wmma::mma_sync(s, a, b, s);
            }
            wmma::store_matrix_sync(Sw + n, s, Bc, wmma::mem_row_major);
        }
        __syncwarp();

        // online softmax: two lanes would do, but one row after another keeps it simple
        for (int r = 0; r < 16; r++) {
            const int row = warp * 16 + r;
            float x = k0 + lane < N ? Sw[r * Bc + lane] * softmax_scale : -INFINITY;
            float m = x;
            for (int off = 16; off > 0; off /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, off));
            const float m_prev = row_m[row];
            const float m_new = fmaxf(m_prev, m);
            const float p = __expf(x - m_new);
            float l = p;
            for (int off = 16; off > 0; off /= 2) l += __shfl_xor_sync(0xffffffff, l, off);
            const float corr = __expf(m_prev - m_new);
            Pw[r * Bc + lane] = __float2half(p);
            for (int c = lane; c < d; c += 32) Ow[r * d + c] *= corr;
            __syncwarp();
            if (lane == 0) {
                row_l[row] = row_l[row] * corr + l;
                row_m[row] = m_new;
            }
        }
        __syncwarp();

        // O += P V
        for (int n = 0; n < d; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(o, Ow + n, d, wmma::mem_row_major);
            for (int k = 0; k < Bc; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, Pw + k, Bc);
                wmma::load_matrix_sync(b, Vj + k * d + n, d);
                wmma::mma_sync(o, a, b, o);
            }
            wmma::store_matrix_sync(Ow + n, o, d, wmma::mem_row_major);
        }
        __syncwarp();
    }

    __syncwarp();
    for (int i = lane; i < 16 * d; i += 32) {
        const int row = warp * 16 + i / d;
        if (q0 + row < N) O[(size_t)(q0 + row) * d + i % d] = __float2half(Ow[i] / row_l[row]);
    }
}

template <int d>
void launch(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O) {
    const int B = Q.size(0);
    const int nh = Q.size(1);
    const int N = Q.size(2);
    const float softmax_scale = 1.0 / sqrt((double)d);
    const int sram_size = (Br * d + 2 * Bc * d + Br * Bc) * sizeof(half) +
                          (Br * Bc + Br * d + 2 * Br) * sizeof(float);
    cudaFuncSetAttribute(forward_kernel<d>, cudaFuncAttributeMaxDynamicSharedMemorySize, sram_size);

    dim3 grid_dim((N + Br - 1) / Br, nh, B);
    dim3 block_dim(32 * NWARPS);
    forward_kernel<d><<<grid_dim, block_dim, sram_size, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const half*>(Q.data_ptr<at::Half>()),
        reinterpret_cast<const half*>(K.data_ptr<at::Half>()),
        reinterpret_cast<const half*>(V.data_ptr<at::Half>()), N, softmax_scale,
        reinterpret_cast<half*>(O.data_ptr<at::Half>()));
}

torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
    TORCH_CHECK(Q.is_cuda() && K.is_cuda() && V.is_cuda(), "Q, K, V must be CUDA tensors");
    TORCH_CHECK(Q.is_contiguous() && K.is_contiguous() && V.is_contiguous(), "Q, K, V must be contiguous");
    TORCH_CHECK(Q.dtype() == torch::kHalf, "only fp16 is supported");
    TORCH_CHECK(Q.dim() == 4, "expected (B, nh, N, d)");
    TORCH_CHECK(Q.sizes() == K.sizes() && Q.sizes() == V.sizes(), "Q, K, V must have the same shape");

    auto O = torch::empty_like(Q);
    const int d = Q.size(3);
    if (d == 64) {
        launch<64>(Q, K, V, O);
    } else if (d == 32) {
        launch<32>(Q, K, V, O);
    } else {
        TORCH_CHECK(false, "head dim must be 32 or 64");
    }
    return O;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "Flash attention forward (fp16, WMMA)");
}
