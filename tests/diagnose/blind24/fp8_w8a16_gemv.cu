// y[m][n] = scale[n] * sum_k x[m][k] * e4m3(w[n][k])          decode-time linear layer, m <= 8 * NT tokens
//
// FP8 weights, FP16 activations. Tensor cores are only used to get the FMAs out of the way, the kernel is bound by
// streaming w, so:
//   * w is the A operand of m16n8k16 (16 output channels), x is B (8 tokens). Tokens behind num_tokens are zero.
//   * weights never touch shared memory. Every lane loads 16 consecutive bytes of its row and they are used for 4 mmas.
//     The k index inside an mma is a free permutation as long as A and B agree on it, so lane t of a quad takes
//     k = 16 t + 4 i .. 16 t + 4 i + 3 for mma i: the first two bytes are columns (2t, 2t+1), the others (2t+8, 2t+9).
//   * the warps of a block split K and are summed through shared memory.
//
// E4M3 -> half is a shift: put the 7 bits of exponent and mantissa at bit 7, that is the number times 2^-8. The 2^8
// goes into the scale.
#include <cuda_fp16.h>
#include <cstdint>

template <int WARPS>
struct GemvTraits {
    static constexpr int kRows = 16;          // output channels per block
    static constexpr int kStep = 64;          // k per warp and step
    static constexpr int kThreads = WARPS * 32;
};

// two e4m3 in the low 16 bits -> half2 (times 2^-8)
__device__ __forceinline__ uint32_t dequant_e4m3x2(uint32_t v) {
    // byte 0 -> low half, byte 1 -> high half
    const uint32_t spread = __byte_perm(v, 0, 0x1404);   // 0x b1 00 b0 00
    return (spread & 0x80008000u) | ((spread & 0x7f007f00u) >> 1);
}

__device__ __forceinline__ void mma16816(float* d, const uint32_t* a, const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int NT, int WARPS>
__global__ void __launch_bounds__(GemvTraits<WARPS>::kThreads)
fp8_w8a16_gemv(const half* __restrict__ x,          // [num_tokens, k]
               const uint8_t* __restrict__ w,       // [n, k]
               const float* __restrict__ scale,     // [n]
               half* __restrict__ y,                // [num_tokens, n]
               int num_tokens, int n, int k) {
    using T = GemvTraits<WARPS>;
    __shared__ float red[WARPS][NT * 8][T::kRows + 1];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int g = lane / 4, t = lane % 4;
    const int n0 = blockIdx.x * T::kRows;

    float acc[NT][4];
#pragma unroll
    for (int j = 0; j < NT; j++)
        acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0.f;

    const bool lo_ok = n0 + g < n, hi_ok = n0 + g + 8 < n;
    const uint8_t* w_lo = w + (size_t)(n0 + g) * k;
    const uint8_t* w_hi = w_lo + (size_t)8 * k;

    for (int kb = warp * T::kStep; kb < k; kb += WARPS * T::kStep) {
        const int kl = kb + t * 16;              // this lane's 16 columns, k % 16 == 0
        const bool k_ok = kl < k;

        uint4 lo = make_uint4(0, 0, 0, 0), hi = lo;
        if (k_ok && lo_ok) lo = __ldg(reinterpret_cast<const uint4*>(w_lo + kl));
        if (k_ok && hi_ok) hi = __ldg(reinterpret_cast<const uint4*>(w_hi + kl));
        const uint32_t* plo = reinterpret_cast<const uint32_t*>(&lo);
        const uint32_t* phi = reinterpret_cast<const uint32_t*>(&hi);

#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t a[4];
            a[0] = dequant_e4m3x2(plo[i]);
            a[1] = dequant_e4m3x2(phi[i]);
            a[2] = dequant_e4m3x2(plo[i] >> 16);
            a[3] = dequant_e4m3x2(phi[i] >> 16);

#pragma unroll
            for (int j = 0; j < NT; j++) {
                const int token = j * 8 + g;
                uint2 b = make_uint2(0, 0);
                if (k_ok && token < num_tokens)
                    b = __ldg(reinterpret_cast<const uint2*>(x + (size_t)token * k + kl + i * 4));
                mma16816(acc[j], a, reinterpret_cast<const uint32_t*>(&b));
            }
        }
    }

    // acc[j] = channels (g, g + 8) x tokens (2t, 2t + 1)
#pragma unroll
    for (int j = 0; j < NT; j++) {
        red[warp][j * 8 + 2 * t][g] = acc[j][0];
        red[warp][j * 8 + 2 * t + 1][g] = acc[j][1];
        red[warp][j * 8 + 2 * t][g + 8] = acc[j][2];
        red[warp][j * 8 + 2 * t + 1][g + 8] = acc[j][3];
    }
    __syncthreads();

    for (int i = threadIdx.x; i < NT * 8 * T::kRows; i += T::kThreads) {
        const int token = i / T::kRows, c = i % T::kRows;
        if (token >= num_tokens || n0 + c >= n) continue;
        float sum = 0.f;
#pragma unroll
        for (int s = 0; s < WARPS; s++)
            sum += red[s][token][c];
        y[(size_t)token * n + n0 + c] = __float2half(sum * 256.f * scale[n0 + c]);
    }
}

void fp8_linear(const half* x, const uint8_t* w, const float* scale, half* y, int num_tokens, int n, int k,
                cudaStream_t stream) {
    constexpr int WARPS = 4;
    const int grid = (n + 15) / 16;
    if (num_tokens <= 8)
        fp8_w8a16_gemv<1, WARPS><<<grid, WARPS * 32, 0, stream>>>(x, w, scale, y, num_tokens, n, k);
    else
        fp8_w8a16_gemv<2, WARPS><<<grid, WARPS * 32, 0, stream>>>(x, w, scale, y, num_tokens, n, k);
}
