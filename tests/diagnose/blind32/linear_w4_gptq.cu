// W4A16 linear layer of the engine: y = x * dequant(W) + bias, for GPTQ checkpoints as they are (no repacking).
//
//   x       [tokens, in_features]               half
//   qweight [in_features / 8, out_features]     8 values along in_features per word, the first in the low bits
//   qzeros  [groups, out_features / 8]          8 columns per word; what is stored is zero - 1 (AutoGPTQ v1)
//   scales  [groups, out_features]              half
//
// Weights never go through shared memory: with m16n8k16 a lane wants k = 2t, 2t+1 and 2t+8, 2t+9 of one column, which
// is one byte of each of two packed words. Activations are staged in shared memory and double buffered.
//
// in_features % 32 == 0, group_size % 32 == 0, out_features % 8 == 0.
#include <cuda_fp16.h>
#include <stdint.h>

namespace engine {
namespace w4 {

constexpr int kTileM = 32;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kWarps = 4;               // next to each other along n
constexpr int kWarpN = kTileN / kWarps;  // 16 columns: two mma tiles
constexpr int kLdX = kTileK + 8;        // padded row of the activations, in halves
constexpr int kWordsK = kTileK / 8;     // packed words of a column per tile

union Half2Bits {
    uint32_t u;
    half2 h;
};

__device__ __forceinline__ void load_a_fragment(uint32_t a[4], const half* tile_row0) {
    const int lane = threadIdx.x & 31;
    const half* p = tile_row0 + (lane % 16) * kLdX + (lane / 16) * 8;
    const uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(addr));
}

__device__ __forceinline__ void mma_f16_f32(float c[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two neighbouring nibbles to two halves: 0x6400 | q is 1024 + q, and so is the zero point that is taken away
__device__ __forceinline__ uint32_t dequant_pair(uint32_t word, int shift, half2 zero_plus_1024, half2 scale) {
    const uint32_t two = word >> shift;
    Half2Bits v;
    v.u = (two & 0x0000000fu) | ((two & 0x000000f0u) << 12) | 0x64006400u;
    v.h = __hmul2(__hsub2(v.h, zero_plus_1024), scale);
    return v.u;
}

// What a lane needs of one column for a tile of K
struct ColumnTile {
    uint32_t words[kWordsK];
    half2 scale;
    half2 zero;

    __device__ __forceinline__ void load(const uint32_t* qweight, const uint32_t* qzeros, const half* scales, int col,
                                         int k0, int group_size, int out_features) {
        if (col >= out_features) {
#pragma unroll
            for (int w = 0; w < kWordsK; ++w) words[w] = 0;
            scale = zero = __float2half2_rn(0.0f);
            return;
        }
#pragma unroll
        for (int w = 0; w < kWordsK; ++w) words[w] = qweight[(size_t)(k0 / 8 + w) * out_features + col];
        const int group = k0 / group_size;
        scale = __half2half2(scales[(size_t)group * out_features + col]);
        const uint32_t packed = qzeros[(size_t)group * (out_features / 8) + col / 8];
        const int z = ((packed >> (4 * (col % 8))) & 0xf) + 1;
        zero = __half2half2(__int2half_rn(1024 + z));
    }
};

__global__ void __launch_bounds__(kWarps * 32)
linear_w4a16(const half* __restrict__ x, const uint32_t* __restrict__ qweight, const uint32_t* __restrict__ qzeros,
             const half* __restrict__ scales, const half* __restrict__ bias, half* __restrict__ y, int tokens,
             int in_features, int out_features, int group_size) {
    __shared__ __align__(16) half x_tile[2][kTileM * kLdX];

    const int warp = threadIdx.x >> 5;
    const int lane = threadIdx.x & 31;
    const int m0 = blockIdx.y * kTileM;
    const int n0 = blockIdx.x * kTileN + warp * kWarpN;
    const int lane_col = lane >> 2;       // column of a B fragment, row of an accumulator
    const int nibble = (lane & 3) * 8;    // first bit of this lane's two values in a word

    // 32 rows of 64 bytes: each thread copies 16 bytes
    const int copy_row = threadIdx.x / (kTileK / 8);
    const int copy_col = threadIdx.x % (kTileK / 8) * 8;
    const bool copy_valid = m0 + copy_row < tokens;
    const half* x_src = x + (size_t)(m0 + copy_row) * in_features + copy_col;
    half* const x_dst = &x_tile[0][copy_row * kLdX + copy_col];

    uint4 x_next = make_uint4(0, 0, 0, 0);
    ColumnTile next[2], cur[2];

    if (copy_valid) x_next = *reinterpret_cast<const uint4*>(x_src);
#pragma unroll
    for (int j = 0; j < 2; ++j)
        next[j].load(qweight, qzeros, scales, n0 + j * 8 + lane_col, 0, group_size, out_features);
    *reinterpret_cast<uint4*>(x_dst) = x_next;

    float acc[2][2][4] = {};

    const int k_tiles = in_features / kTileK;
    for (int kt = 0; kt < k_tiles; ++kt) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 2; ++j) cur[j] = next[j];

        if (kt + 1 < k_tiles) {
            const int k_next = (kt + 1) * kTileK;
            if (copy_valid) x_next = *reinterpret_cast<const uint4*>(x_src + k_next);
#pragma unroll
            for (int j = 0; j < 2; ++j)
                next[j].load(qweight, qzeros, scales, n0 + j * 8 + lane_col, k_next, group_size, out_features);
        }

        const half* x_cur = x_tile[kt & 1];
#pragma unroll
        for (int kk = 0; kk < kTileK / 16; ++kk) {
            uint32_t a[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) load_a_fragment(a[i], x_cur + i * 16 * kLdX + kk * 16);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                uint32_t b[2];
                b[0] = dequant_pair(cur[j].words[kk * 2], nibble, cur[j].zero, cur[j].scale);
                b[1] = dequant_pair(cur[j].words[kk * 2 + 1], nibble, cur[j].zero, cur[j].scale);
#pragma unroll
                for (int i = 0; i < 2; ++i) mma_f16_f32(acc[i][j], a[i], b);
            }
        }

        if (kt + 1 < k_tiles) {
            const int buffer = (kt + 1) & 1;
            *reinterpret_cast<uint4*>(x_dst + buffer * kTileM * kLdX) = x_next;
        }
    }

#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int col = n0 + j * 8 + (lane & 3) * 2;
        if (col >= out_features) continue;
        const float2 b = bias ? __half22float2(*reinterpret_cast<const half2*>(bias + col)) : make_float2(0.f, 0.f);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = m0 + i * 16 + lane_col;
            if (row < tokens)
                *reinterpret_cast<half2*>(y + (size_t)row * out_features + col) =
                    __floats2half2_rn(acc[i][j][0] + b.x, acc[i][j][1] + b.y);
            if (row + 8 < tokens)
                *reinterpret_cast<half2*>(y + (size_t)(row + 8) * out_features + col) =
                    __floats2half2_rn(acc[i][j][2] + b.x, acc[i][j][3] + b.y);
        }
    }
}

}  // namespace w4

void linear_w4_forward(const half* x, const uint32_t* qweight, const uint32_t* qzeros, const half* scales,
                       const half* bias, half* y, int tokens, int in_features, int out_features, int group_size,
                       cudaStream_t stream) {
    const dim3 grid((out_features + w4::kTileN - 1) / w4::kTileN, (tokens + w4::kTileM - 1) / w4::kTileM);
    w4::linear_w4a16<<<grid, w4::kWarps * 32, 0, stream>>>(x, qweight, qzeros, scales, bias, y, tokens, in_features,
                                                           out_features, group_size);
}

}  // namespace engine
