// Shifted-window attention of a Swin block, one block per (window, head, image); window_partition, the cyclic shift and their
// inverses are folded into the addresses. Scores and probabilities stay in registers.
//   qkv [B, H, W, 3, heads, HEAD_DIM] half   bias_table [(2*WS-1)^2, heads] float   out [B, H, W, heads, HEAD_DIM] half
#include <cuda_fp16.h>
#include <stdint.h>

template <int WS, int HEAD_DIM>
struct SwinAttention {
    static constexpr int TOKENS = WS * WS;
    static constexpr int PADDED = (TOKENS + 15) / 16 * 16;
    static constexpr int WARPS = PADDED / 16;
    static constexpr int PITCH = HEAD_DIM + 8;
    static constexpr int VEC = HEAD_DIM / 8;
    static constexpr int NT = PADDED / 8;      // tiles of eight keys
    static constexpr int DT = HEAD_DIM / 8;    // tiles of eight channels

    struct Smem {
        __align__(16) half q[PADDED][PITCH];
        __align__(16) half k[PADDED][PITCH];
        __align__(16) half v[PADDED][PITCH];
        int pixel[PADDED];                     // y * W + x in the image that is not shifted
        int region[PADDED];                    // of the nine into which the shift cuts the last windows
    };

    static __device__ int slab(int pos, int size, int shift) { return pos < size - WS ? 0 : pos < size - shift ? 1 : 2; }
};

__device__ __forceinline__ void ldmatrix4(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, const half* p) {
    uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(s) : "memory");
}
__device__ __forceinline__ void ldmatrix4_trans(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, const half* p) {
    uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(s) : "memory");
}
__device__ __forceinline__ void mma16816(float* d, const uint32_t* a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&h);
}

template <int WS, int HEAD_DIM>
__global__ void swin_window_attention(const half* __restrict__ qkv, const float* __restrict__ bias_table, half* __restrict__ out,
                                      int H, int W, int heads, int shift, float scale) {
    using Attn = SwinAttention<WS, HEAD_DIM>;
    __shared__ typename Attn::Smem sm;

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int windows_x = W / WS;
    const int wy = blockIdx.x / windows_x, wx = blockIdx.x % windows_x;
    const int head = blockIdx.y;
    const size_t image = (size_t)blockIdx.z * H * W;

    if (tid < Attn::PADDED) {
        const int r = min(tid, Attn::TOKENS - 1);
        const int sy = wy * WS + r / WS, sx = wx * WS + r % WS;   // in the shifted image
        sm.pixel[tid] = (sy + shift) % H * W + (sx + shift) % W;
        sm.region[tid] = shift > 0 ? Attn::slab(sy, H, shift) * 3 + Attn::slab(sx, W, shift) : 0;
    }
    __syncthreads();

    for (int i = tid; i < Attn::PADDED * 3 * Attn::VEC; i += blockDim.x) {
        const int vec = i % Attn::VEC, which = i / Attn::VEC % 3, r = i / (Attn::VEC * 3);
        half* dst = which == 0 ? sm.q[r] : which == 1 ? sm.k[r] : sm.v[r];
        uint4 data = make_uint4(0, 0, 0, 0);
        if (r < Attn::TOKENS)
            data = reinterpret_cast<const uint4*>(qkv + (((image + sm.pixel[r]) * 3 + which) * heads + head) * HEAD_DIM)[vec];
        reinterpret_cast<uint4*>(dst)[vec] = data;
    }
    __syncthreads();

    // S = Q K^T
    float s[Attn::NT][4] = {};
#pragma unroll
    for (int d0 = 0; d0 < HEAD_DIM; d0 += 16) {
        uint32_t a[4];
        ldmatrix4(a[0], a[1], a[2], a[3], &sm.q[warp * 16 + lane % 16][d0 + lane / 16 * 8]);
#pragma unroll
        for (int n = 0; n < Attn::NT; n += 2) {
            uint32_t b0, b1, b2, b3;
            ldmatrix4(b0, b1, b2, b3, &sm.k[n * 8 + lane / 16 * 8 + lane % 8][d0 + lane / 8 % 2 * 8]);
            mma16816(s[n], a, b0, b1);
            mma16816(s[n + 1], a, b2, b3);
        }
    }

    // relative position bias, mask between regions, softmax; a thread has two rows (half 0 and 1) of each tile
    const int group = lane / 4, quad = lane % 4;
    float sum[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int q = min(warp * 16 + group + h * 8, Attn::TOKENS - 1);
        float mx = -INFINITY;
#pragma unroll
        for (int n = 0; n < Attn::NT; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int key = n * 8 + quad * 2 + e;
                float& x = s[n][h * 2 + e];
                if (key >= Attn::TOKENS) {
                    x = -INFINITY;
                    continue;
                }
                const int dy = q / WS - key / WS + WS - 1, dx = q % WS - key % WS + WS - 1;
                x = x * scale + bias_table[(dy * (2 * WS - 1) + dx) * heads + head];
                if (sm.region[q] != sm.region[key]) x -= 100.0f;
                mx = fmaxf(mx, x);
            }
        mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
        mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 2));
        sum[h] = 0.0f;
#pragma unroll
        for (int n = 0; n < Attn::NT; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float p = __expf(s[n][h * 2 + e] - mx);
                s[n][h * 2 + e] = p;
                sum[h] += p;
            }
        sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2);
    }

    // O = P V
    float o[Attn::DT][4] = {};
#pragma unroll
    for (int kb = 0; kb < Attn::PADDED / 16; ++kb) {
        const uint32_t p[4] = {pack(s[2 * kb][0], s[2 * kb][1]), pack(s[2 * kb][2], s[2 * kb][3]),
                               pack(s[2 * kb + 1][0], s[2 * kb + 1][1]), pack(s[2 * kb + 1][2], s[2 * kb + 1][3])};
#pragma unroll
        for (int d = 0; d < Attn::DT; d += 2) {
            uint32_t b0, b1, b2, b3;
            ldmatrix4_trans(b0, b1, b2, b3, &sm.v[kb * 16 + lane % 16][d * 8 + lane / 16 * 8]);
            mma16816(o[d], p, b0, b1);
            mma16816(o[d + 1], p, b2, b3);
        }
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int q = warp * 16 + group + h * 8;
        if (q >= Attn::TOKENS) continue;
        half* dst = out + ((image + sm.pixel[q]) * heads + head) * HEAD_DIM;
        const float inv = 1.0f / sum[h];
#pragma unroll
        for (int d = 0; d < Attn::DT; ++d)
            *reinterpret_cast<half2*>(dst + d * 8 + quad * 2) = __floats2half2_rn(o[d][h * 2] * inv, o[d][h * 2 + 1] * inv);
    }
}

template __global__ void swin_window_attention<7, 32>(const half*, const float*, half*, int, int, int, int, float);
