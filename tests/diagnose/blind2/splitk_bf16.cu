// skinny GEMM for decoding: few rows, long K.  out(fp32) += A(bf16) * W(bf16), split along K with atomics.
// out has to be zeroed by the caller.
//
// each block: 16 x 64 outputs, K range [split * k_per_split, ...). 4 warps; every warp takes every 4th k-slice of 16
// and the four partial sums are added up in shared memory before the atomics.

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

using namespace nvcuda;

constexpr int TM = 16;
constexpr int TN = 64;
constexpr int TK = 16;
constexpr int NUM_WARPS = 4;
constexpr int N_FRAGS = TN / 16;
constexpr int PITCH = TN + 8;

__global__ void skinny_gemm_splitk(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ w,
                                   float* __restrict__ out, int m, int n, int k, int k_per_split, int lda, int ldw)
{
    __shared__ __align__(128) __nv_bfloat16 a_tile[NUM_WARPS][TM * TK];
    __shared__ __align__(128) float partial[NUM_WARPS][TM * PITCH];

    const int warp = threadIdx.y;
    const int lane = threadIdx.x;
    const int n_base = blockIdx.x * TN;
    const int m_base = blockIdx.y * TM;
    const int k_first = blockIdx.z * k_per_split;
    const int k_last = min(k, k_first + k_per_split);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[N_FRAGS];
    #pragma unroll
    for (int f = 0; f < N_FRAGS; f++)
        wmma::fill_fragment(sum[f], 0.f);

    for (int kb = k_first + warp * TK; kb < k_last; kb += NUM_WARPS * TK) {
        // private A slice of this warp, rows past m are zero
        for (int e = lane; e < TM * TK; e += 32) {
            const int row = e >> 4;
            const int col = e & 15;
            a_tile[warp][e] = m_base + row < m ? a[(m_base + row) * lda + kb + col] : __float2bfloat16(0.f);
        }
        __syncwarp();

        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, a_tile[warp], TK);
        #pragma unroll
        for (int f = 0; f < N_FRAGS; f++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fw;
            wmma::load_matrix_sync(fw, w + (size_t)kb * ldw + n_base + f * 16, ldw);
            wmma::mma_sync(sum[f], fa, fw, sum[f]);
        }
        __syncwarp();
    }

    #pragma unroll
    for (int f = 0; f < N_FRAGS; f++)
        wmma::store_matrix_sync(partial[warp] + f * 16, sum[f], PITCH, wmma::mem_row_major);
    __syncthreads();

    const int t = warp * 32 + lane;
    for (int e = t; e < TM * TN; e += NUM_WARPS * 32) {
        const int row = e / TN;
        const int col = e % TN;
        float total = 0.f;
        #pragma unroll
        for (int p = 0; p < NUM_WARPS; p++)
            total += partial[p][row * PITCH + col];
        if (m_base + row < m)
            atomicAdd(out + (size_t)(m_base + row) * n + n_base + col, total);
    }
}

torch::Tensor skinny_linear(torch::Tensor a, torch::Tensor w, int64_t splits)
{
    CHECK_CUDA(a);
    CHECK_CUDA(w);
    CHECK_CONTIGUOUS(a);
    CHECK_CONTIGUOUS(w);
    const int m = a.size(0), k = a.size(1), n = w.size(1);
    TORCH_CHECK(n % TN == 0 && k % TK == 0);
    auto out = torch::zeros({m, n}, a.options().dtype(torch::kFloat32));
    // whole slices of 16 per split
    const int k_per_split = ((k / TK + splits - 1) / splits) * TK;
    dim3 grid(n / TN, (m + TM - 1) / TM, splits);
    dim3 block(32, NUM_WARPS);
    skinny_gemm_splitk<<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __nv_bfloat16*>(a.data_ptr<at::BFloat16>()),
        reinterpret_cast<const __nv_bfloat16*>(w.data_ptr<at::BFloat16>()), out.data_ptr<float>(), m, n, k,
        k_per_split, k, n);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("skinny_linear", &skinny_linear, "split-K bf16 linear");
}
