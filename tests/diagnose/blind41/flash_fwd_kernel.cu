// FlashAttention-2 forward for Ampere, as a PyTorch extension. Plain CUDA, no CUTLASS.
//
//   flash_ext = load(name="flash_ext", sources=["flash_fwd_kernel.cu"], extra_cuda_cflags=["-arch=sm_80"])
//   o, lse = flash_ext.mha_fwd(q, k, v, is_causal)
//
// q [b, h, sq, d], k and v [b, h, sk, d], all half. Each block has kBlockM queries of one head, each warp 16 of them.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kNWarps = 4;
constexpr int kNThreads = kNWarps * 32;

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half* smem) {
    uint32_t addr = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const half* smem) {
    uint32_t addr = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack2(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t&>(h);
}

template <int kRows, int kHeadDim>
__device__ __forceinline__ void load_block(half* smem, const half* gmem, int rows_left) {
    constexpr int kVecs = kHeadDim / 8;
    for (int i = threadIdx.x; i < kRows * kVecs; i += kNThreads) {
        const int row = i / kVecs;
        const int col = i % kVecs * 8;
        uint4 val = make_uint4(0, 0, 0, 0);
        if (row < rows_left) val = *reinterpret_cast<const uint4*>(gmem + row * kHeadDim + col);
        *reinterpret_cast<uint4*>(smem + row * (kHeadDim + 8) + col) = val;
    }
}

template <int kHeadDim, bool kIsCausal>
__global__ void __launch_bounds__(kNThreads)
flash_fwd_kernel(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                 half* __restrict__ o, float* __restrict__ softmax_lse,
                 const int seqlen_q, const int seqlen_k, const float softmax_scale) {
    constexpr int kLd = kHeadDim + 8;
    // Q shares its memory with K and V: it is in registers before the first keys come
    __shared__ __align__(16) half smem[(kBlockM > 2 * kBlockN ? kBlockM : 2 * kBlockN) * kLd];
    half* sQ = smem;
    half* sK = smem;
    half* sV = smem + kBlockN * kLd;

    const int m_block = blockIdx.x;
    const int bh = blockIdx.y;   // batch * heads + head
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float scale_log2 = softmax_scale * float(M_LOG2E);

    const half* gQ = q + (size_t(bh) * seqlen_q + m_block * kBlockM) * kHeadDim;
    const half* gK = k + size_t(bh) * seqlen_k * kHeadDim;
    const half* gV = v + size_t(bh) * seqlen_k * kHeadDim;

    int n_block_max = (seqlen_k + kBlockN - 1) / kBlockN;
    if (kIsCausal) n_block_max = min(n_block_max, ((m_block + 1) * kBlockM + kBlockN - 1) / kBlockN);

    load_block<kBlockM, kHeadDim>(sQ, gQ, seqlen_q - m_block * kBlockM);
    __syncthreads();
    uint32_t tQ[kHeadDim / 16][4];
#pragma unroll
    for (int kd = 0; kd < kHeadDim / 16; ++kd) {
        ldmatrix_x4(tQ[kd], sQ + (warp * 16 + lane % 16) * kLd + kd * 16 + lane / 16 * 8);
    }

    float acc_o[kHeadDim / 8][4];
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) acc_o[i][0] = acc_o[i][1] = acc_o[i][2] = acc_o[i][3] = 0.f;
    float m_i[2] = {-INFINITY, -INFINITY};
    float l_i[2] = {0.f, 0.f};
    const int row0 = m_block * kBlockM + warp * 16 + lane / 4;   // the other row is row0 + 8

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        const int n_start = n_block * kBlockN;
        __syncthreads();   // everyone has read Q, or the block before
        load_block<kBlockN, kHeadDim>(sK, gK + size_t(n_start) * kHeadDim, seqlen_k - n_start);
        load_block<kBlockN, kHeadDim>(sV, gV + size_t(n_start) * kHeadDim, seqlen_k - n_start);
        __syncthreads();

        // S = Q K^T
        float acc_s[kBlockN / 8][4];
#pragma unroll
        for (int i = 0; i < kBlockN / 8; ++i) acc_s[i][0] = acc_s[i][1] = acc_s[i][2] = acc_s[i][3] = 0.f;
#pragma unroll
        for (int kd = 0; kd < kHeadDim / 16; ++kd) {
#pragma unroll
            for (int ni = 0; ni < kBlockN / 16; ++ni) {
                uint32_t tK[4];
                ldmatrix_x4(tK, sK + (ni * 16 + lane % 8 + lane / 16 * 8) * kLd + kd * 16 + lane / 8 % 2 * 8);
                mma_16816(acc_s[2 * ni], tQ[kd], tK[0], tK[1]);
                mma_16816(acc_s[2 * ni + 1], tQ[kd], tK[2], tK[3]);
            }
        }

        // mask: only the last block of keys, and those on the diagonal
        const bool is_last = n_start + kBlockN > seqlen_k;
        const bool is_diagonal = kIsCausal && n_start + kBlockN > m_block * kBlockM;
        if (is_last || is_diagonal) {
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int row = row0 + (e >= 2 ? 8 : 0);
                    const int col = n_start + i * 8 + lane % 4 * 2 + (e & 1);
                    if (col >= seqlen_k || (kIsCausal && col > row)) acc_s[i][e] = -INFINITY;
                }
            }
        }

        // online softmax
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m_new = m_i[r];
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) m_new = fmaxf(m_new, fmaxf(acc_s[i][2 * r], acc_s[i][2 * r + 1]));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 2));
            const float alpha = exp2f((m_i[r] - m_new) * scale_log2);
            m_i[r] = m_new;
            l_i[r] *= alpha;
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) {
                acc_s[i][2 * r] = exp2f((acc_s[i][2 * r] - m_new) * scale_log2);
                acc_s[i][2 * r + 1] = exp2f((acc_s[i][2 * r + 1] - m_new) * scale_log2);
                l_i[r] += acc_s[i][2 * r] + acc_s[i][2 * r + 1];
            }
#pragma unroll
            for (int i = 0; i < kHeadDim / 8; ++i) {
                acc_o[i][2 * r] *= alpha;
                acc_o[i][2 * r + 1] *= alpha;
            }
        }

        // O += P V: the accumulators of S have the layout of an A operand
#pragma unroll
        for (int kn = 0; kn < kBlockN / 16; ++kn) {
            const uint32_t tP[4] = {pack2(acc_s[2 * kn][0], acc_s[2 * kn][1]), pack2(acc_s[2 * kn][2], acc_s[2 * kn][3]),
                                    pack2(acc_s[2 * kn + 1][0], acc_s[2 * kn + 1][1]), pack2(acc_s[2 * kn + 1][2], acc_s[2 * kn + 1][3])};
#pragma unroll
            for (int di = 0; di < kHeadDim / 16; ++di) {
                uint32_t tV[4];
                ldmatrix_x4_trans(tV, sV + (kn * 16 + lane % 16) * kLd + di * 16 + lane / 16 * 8);
                mma_16816(acc_o[2 * di], tP, tV[0], tV[1]);
                mma_16816(acc_o[2 * di + 1], tP, tV[2], tV[3]);
            }
        }
    }

    // epilogue
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        l_i[r] += __shfl_xor_sync(0xffffffff, l_i[r], 1);
        l_i[r] += __shfl_xor_sync(0xffffffff, l_i[r], 2);
        const float inv_sum = 1.f / l_i[r];
        const int row = row0 + r * 8;
        if (row < seqlen_q) {
            half* gO = o + (size_t(bh) * seqlen_q + row) * kHeadDim;
#pragma unroll
            for (int i = 0; i < kHeadDim / 8; ++i) {
                *reinterpret_cast<uint32_t*>(gO + i * 8 + lane % 4 * 2) = pack2(acc_o[i][2 * r] * inv_sum, acc_o[i][2 * r + 1] * inv_sum);
            }
            if (lane % 4 == 0) softmax_lse[size_t(bh) * seqlen_q + row] = m_i[r] * softmax_scale + logf(l_i[r]);
        }
    }
}

std::vector<at::Tensor> mha_fwd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const bool is_causal) {
    const int b = q.size(0), h = q.size(1), sq = q.size(2), d = q.size(3), sk = k.size(2);
    TORCH_CHECK(d == 32 || d == 64, "head dim must be 32 or 64");
    auto o = torch::empty_like(q);
    auto lse = torch::empty({b, h, sq}, q.options().dtype(at::kFloat));
    dim3 grid((sq + kBlockM - 1) / kBlockM, b * h);
    auto kernel = d == 32 ? (is_causal ? flash_fwd_kernel<32, true> : flash_fwd_kernel<32, false>)
                          : (is_causal ? flash_fwd_kernel<64, true> : flash_fwd_kernel<64, false>);
    kernel<<<grid, kNThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        (const half*)q.data_ptr(), (const half*)k.data_ptr(), (const half*)v.data_ptr(), (half*)o.data_ptr(),
        lse.data_ptr<float>(), sq, sk, 1.f / sqrtf(d));
    return {o, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("mha_fwd", &mha_fwd, "FlashAttention-2 forward"); }
