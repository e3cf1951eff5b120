// FlashAttention-2 style forward, everything in registers: mma.m16n8k16, ldmatrix(.trans).
// q, k, v, o: [batch, seqlen, heads, 64], one warp per 16 query rows, 4 warps per block.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cmath>

namespace fa2 {

static constexpr int kHeadDim = 64;
static constexpr int kBlockM = 64;
static constexpr int kBlockN = 32;
static constexpr int kNWarps = kBlockM / 16;
static constexpr int kStride = kHeadDim + 8;

struct SharedStorage {
    __align__(16) half k[kBlockN * kStride];
    __align__(16) half v[kBlockN * kStride];
};

__device__ inline void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t *>(&h);
}

__global__ void __launch_bounds__(kNWarps * 32)
flash_attention_kernel(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
                       half *__restrict__ o, int seqlen, int nheads, float scale_log2) {
    __shared__ SharedStorage sh;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int g = lane >> 2, t = lane & 3;
    const int head = blockIdx.y, batch = blockIdx.z;
    const int row_stride = nheads * kHeadDim;
    const size_t off = (size_t)batch * seqlen * row_stride + head * kHeadDim;
    const int m0 = blockIdx.x * kBlockM + warp * 16;

    uint32_t rq[kHeadDim / 16][4];
    auto ldq = [&](int row, int col) -> uint32_t {
        if (row >= seqlen) return 0u;
        return *reinterpret_cast<const uint32_t *>(q + off + (size_t)row * row_stride + col);
    };
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
        rq[d][0] = ldq(m0 + g, d * 16 + t * 2);
        rq[d][1] = ldq(m0 + g + 8, d * 16 + t * 2);
        rq[d][2] = ldq(m0 + g, d * 16 + t * 2 + 8);
        rq[d][3] = ldq(m0 + g + 8, d * 16 + t * 2 + 8);
    }
    float acc[kHeadDim / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};

    for (int n0 = 0; n0 < seqlen; n0 += kBlockN) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBlockN * kHeadDim / 8; i += blockDim.x) {
            int r = i / (kHeadDim / 8), c = i % (kHeadDim / 8) * 8;
            uint4 zk = make_uint4(0, 0, 0, 0), zv = zk;
            if (n0 + r < seqlen) {
                zk = *reinterpret_cast<const uint4 *>(k + off + (size_t)(n0 + r) * row_stride + c);
                zv = *reinterpret_cast<const uint4 *>(v + off + (size_t)(n0 + r) * row_stride + c);
            }
            *reinterpret_cast<uint4 *>(&sh.k[r * kStride + c]) = zk;
            *reinterpret_cast<uint4 *>(&sh.v[r * kStride + c]) = zv;
        }
        __syncthreads();

        float s[kBlockN / 8][4] = {};
#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j)
#pragma unroll
            for (int d = 0; d < kHeadDim / 16; ++d) {
                const half *p = &sh.k[(j * 8 + g) * kStride + d * 16 + t * 2];
                mma16816(s[j], rq[d], *reinterpret_cast<const uint32_t *>(p), *reinterpret_cast<const uint32_t *>(p + 8));
            }
        float mx[2] = {row_max[0], row_max[1]};
#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (n0 + j * 8 + t * 2 + (e & 1) >= seqlen) s[j][e] = -INFINITY;
                mx[e >> 1] = fmaxf(mx[e >> 1], s[j][e]);
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            mx[h] = fmaxf(mx[h], __shfl_xor_sync(0xffffffff, mx[h], 1));
            mx[h] = fmaxf(mx[h], __shfl_xor_sync(0xffffffff, mx[h], 2));
            float c = exp2f((row_max[h] - mx[h]) * scale_log2);
            row_sum[h] *= c;
            row_max[h] = mx[h];
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d) {
                acc[d][h * 2] *= c;
                acc[d][h * 2 + 1] *= c;
            }
        }
#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                s[j][e] = exp2f((s[j][e] - row_max[e >> 1]) * scale_log2);
                row_sum[e >> 1] += s[j][e];
            }
#pragma unroll
        for (int j = 0; j < kBlockN / 16; ++j) {
            uint32_t a[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                             pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d) {
                uint32_t b0, b1;
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(&sh.v[(j * 16 + (lane & 15)) * kStride + d * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(addr));
                mma16816(acc[d], a, b0, b1);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        row_sum[h] += __shfl_xor_sync(0xffffffff, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(0xffffffff, row_sum[h], 2);
        int row = m0 + g + h * 8;
        if (row >= seqlen) continue;
        float inv = 1.f / row_sum[h];
#pragma unroll
        for (int d = 0; d < kHeadDim / 8; ++d)
            *reinterpret_cast<half2 *>(o + off + (size_t)row * row_stride + d * 8 + t * 2) =
                __floats2half2_rn(acc[d][h * 2] * inv, acc[d][h * 2 + 1] * inv);
    }
}

}  // namespace fa2

cudaError_t flash_attention(const half *q, const half *k, const half *v, half *o, int batch, int seqlen, int nheads,
                            cudaStream_t stream) {
    float scale_log2 = (1.0f / std::sqrt((float)fa2::kHeadDim)) * 1.44269504f;
    dim3 grid((seqlen + fa2::kBlockM - 1) / fa2::kBlockM, nheads, batch), block(fa2::kNWarps * 32);
    void *args[] = {&q, &k, &v, &o, &seqlen, &nheads, &scale_log2};
    return cudaLaunchKernel((const void *)fa2::flash_attention_kernel, grid, block, args, 0, stream);
}
