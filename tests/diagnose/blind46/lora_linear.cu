// Linear layer with a LoRA adapter in one kernel:
//
//     out = x @ W^T + bias + (lora_alpha / RANK) * (x @ A^T) @ B^T
//
//   x [M, K], W [N, K], A [RANK, K], B [N, RANK], bias [N], out [M, N], all bf16
//
// x is read once for both products. Each warp owns 16 rows, so the RANK columns of x @ A^T that it needs
// stay in its accumulators, and become the A operand of the last product without leaving the registers.
// K, N: multiples of 8.
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kWarps = kBlockM / 16;
constexpr int kThreads = kWarps * 32;
constexpr int kPitch = kBlockK + 8;   // 20 words: rows of fragments fall into different banks

__device__ inline void mma_m16n8k16(float* d, const unsigned* a, const unsigned* b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline unsigned load_pair(const bf16* p)
{
    return *reinterpret_cast<const unsigned*>(p);
}

__device__ inline unsigned pack_pair(float lo, float hi)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<unsigned*>(&v);
}

// kRows rows of a row-major matrix, columns k0 .. k0 + kBlockK, zeros outside of it
template <int kRows>
__device__ inline void load_tile(bf16 (*tile)[kPitch], const bf16* src, int first_row, int rows, int k0, int K)
{
    for (int i = threadIdx.x; i < kRows * (kBlockK / 8); i += kThreads) {
        const int r = i / (kBlockK / 8);
        const int c = i % (kBlockK / 8) * 8;
        uint4 v = {0, 0, 0, 0};
        if (first_row + r < rows && k0 + c < K)
            v = *reinterpret_cast<const uint4*>(src + size_t(first_row + r) * K + k0 + c);
        *reinterpret_cast<uint4*>(&tile[r][c]) = v;
    }
}

template <int RANK>
__global__ void lora_linear(const bf16* __restrict__ x, const bf16* __restrict__ weight,
                            const bf16* __restrict__ lora_a, const bf16* __restrict__ lora_b,
                            const bf16* __restrict__ bias, bf16* __restrict__ out,
                            int M, int N, int K, int lora_alpha)
{
    static_assert(RANK % 16 == 0, "the rank is the depth of the last product");

    __shared__ __align__(16) bf16 s_x[kBlockM][kPitch];
    __shared__ __align__(16) bf16 s_w[kBlockN][kPitch];
    __shared__ __align__(16) bf16 s_a[RANK][kPitch];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = lane / 4;
    const int quad = lane % 4;
    const int m0 = blockIdx.y * kBlockM;
    const int n0 = blockIdx.x * kBlockN;

    float acc[kBlockN / 8][4] = {};   // x @ W^T
    float mid[RANK / 8][4] = {};      // x @ A^T

    for (int k0 = 0; k0 < K; k0 += kBlockK) {
        load_tile<kBlockM>(s_x, x, m0, M, k0, K);
        load_tile<kBlockN>(s_w, weight, n0, N, k0, K);
        load_tile<RANK>(s_a, lora_a, 0, RANK, k0, K);
        __syncthreads();   // tiles loaded

        for (int kk = 0; kk < kBlockK; kk += 16) {
            const int row = warp * 16 + group;
            const int col = kk + quad * 2;
            unsigned a[4], b[2];
            a[0] = load_pair(&s_x[row][col]);
            a[1] = load_pair(&s_x[row + 8][col]);
            a[2] = load_pair(&s_x[row][col + 8]);
            a[3] = load_pair(&s_x[row + 8][col + 8]);
            for (int j = 0; j < kBlockN / 8; j++) {
                b[0] = load_pair(&s_w[j * 8 + group][col]);
                b[1] = load_pair(&s_w[j * 8 + group][col + 8]);
                mma_m16n8k16(acc[j], a, b);
            }
            for (int r = 0; r < RANK / 8; r++) {
                b[0] = load_pair(&s_a[r * 8 + group][col]);
                b[1] = load_pair(&s_a[r * 8 + group][col + 8]);
                mma_m16n8k16(mid[r], a, b);
            }
        }
        __syncthreads();   // tiles used
    }

    // acc += scaling * (x @ A^T) @ B^T: two tiles of 8 columns of mid are one A operand of depth 16
    const float scaling = float(lora_alpha) / RANK;
    for (int r = 0; r < RANK / 16; r++) {
        unsigned a[4], b[2];
        a[0] = pack_pair(scaling * mid[2 * r][0], scaling * mid[2 * r][1]);
        a[1] = pack_pair(scaling * mid[2 * r][2], scaling * mid[2 * r][3]);
        a[2] = pack_pair(scaling * mid[2 * r + 1][0], scaling * mid[2 * r + 1][1]);
        a[3] = pack_pair(scaling * mid[2 * r + 1][2], scaling * mid[2 * r + 1][3]);
        for (int j = 0; j < kBlockN / 8; j++) {
            const int n = n0 + j * 8 + group;
            const bf16* row_b = lora_b + size_t(n) * RANK + r * 16 + quad * 2;
            b[0] = n < N ? load_pair(row_b) : 0;
            b[1] = n < N ? load_pair(row_b + 8) : 0;
            mma_m16n8k16(acc[j], a, b);
        }
    }

    const int m = m0 + warp * 16 + group;
    for (int j = 0; j < kBlockN / 8; j++) {
        const int n = n0 + j * 8 + quad * 2;
        if (n >= N) continue;
        const float bias0 = __bfloat162float(bias[n]);
        const float bias1 = __bfloat162float(bias[n + 1]);
        if (m < M)
            *reinterpret_cast<unsigned*>(out + size_t(m) * N + n) = pack_pair(acc[j][0] + bias0, acc[j][1] + bias1);
        if (m + 8 < M)
            *reinterpret_cast<unsigned*>(out + size_t(m + 8) * N + n) = pack_pair(acc[j][2] + bias0, acc[j][3] + bias1);
    }
}
