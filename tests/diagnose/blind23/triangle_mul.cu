// Triangle multiplicative update, "outgoing edges" (AlphaFold 2, algorithm 11, the step in the middle), channels last:
//
//   out[b, i, j, c] = sigmoid(gate[b, i, j, c]) * sum_k a[b, i, k, c] * mask[b, i, k] * right[b, j, k, c] * mask[b, j, k]
//
// One small product per channel: the block takes eight channels (one 16-byte vector), one per warp, and 32 x 32 edges.
// Vectors are taken apart on the way into shared memory, so that each warp finds a plain [row][k] tile.
#include <cuda_bf16.h>
#include <cstdint>

using bf16 = __nv_bfloat16;

#define TILE    32
#define TILE_K  16
#define VEC     8
#define LD_K    (TILE_K + 8)
#define NTHREADS (VEC * 32)

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                   \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"       \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))

#define MMA_BF16(D, A, B0, B1)                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "                     \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"        \
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                           \
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B0), "r"(B1))

union Pack8 {
    uint4 raw;
    bf16 e[VEC];
};

struct TileRegs {
    Pack8 v[2];     // 32 rows x 16 k are 512 vectors: two per thread
};

__device__ __forceinline__ void fetch(TileRegs& regs, const bf16* src, const float* mask, int row0, int k0, int n, int channels)
{
    for (int u = 0; u < 2; ++u) {
        const int id = threadIdx.x + u * NTHREADS;
        const int r = row0 + id / TILE_K;
        const int k = k0 + id % TILE_K;
        Pack8 p;
        p.raw = make_uint4(0u, 0u, 0u, 0u);
        if (r < n && k < n && mask[r * n + k] != 0.f)
            p.raw = *reinterpret_cast<const uint4*>(src + ((size_t)r * n + k) * channels);
        regs.v[u] = p;
    }
}

__device__ __forceinline__ void scatter(const TileRegs& regs, bf16 (*tile)[TILE][LD_K])
{
    for (int u = 0; u < 2; ++u) {
        const int id = threadIdx.x + u * NTHREADS;
        for (int c = 0; c < VEC; ++c) tile[c][id / TILE_K][id % TILE_K] = regs.v[u].e[c];
    }
}

__global__ void __launch_bounds__(NTHREADS)
triangle_mul_outgoing(const bf16* __restrict__ left, const bf16* __restrict__ right, const bf16* __restrict__ gate,
                      const float* __restrict__ mask, bf16* __restrict__ out, int n, int channels)
{
    __shared__ __align__(16) unsigned char smem[2 * VEC * TILE * LD_K * sizeof(bf16)];
    bf16 (*s_left)[TILE][LD_K] = reinterpret_cast<bf16 (*)[TILE][LD_K]>(smem);
    bf16 (*s_right)[TILE][LD_K] = s_left + VEC;

    const int lane = threadIdx.x & 31, chan = threadIdx.x >> 5;     // a warp is a channel
    const int tiles = (n + TILE - 1) / TILE;
    const int i0 = (blockIdx.x / tiles) * TILE, j0 = (blockIdx.x % tiles) * TILE;
    const int c0 = blockIdx.y * VEC;
    const size_t batch = (size_t)blockIdx.z * n * n;

    left += batch * channels + c0;
    right += batch * channels + c0;
    gate += batch * channels + c0;
    out += batch * channels + c0;
    mask += batch;

    float acc[2][4][4] = {};
    TileRegs rl, rr;
    fetch(rl, left, mask, i0, 0, n, channels);
    fetch(rr, right, mask, j0, 0, n, channels);

    for (int k0 = 0; k0 < n; k0 += TILE_K) {
        scatter(rl, s_left);
        scatter(rr, s_right);
        __syncthreads();
        if (k0 + TILE_K < n) {      // the next vectors are on their way while this tile is multiplied
            fetch(rl, left, mask, i0, k0 + TILE_K, n, channels);
            fetch(rr, right, mask, j0, k0 + TILE_K, n, channels);
        }

        uint32_t a[2][4], b[2][4];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const bf16* pa = &s_left[chan][m * 16 + (lane & 15)][(lane >> 4) * 8];
            LDMATRIX_X4(a[m][0], a[m][1], a[m][2], a[m][3], (uint32_t)__cvta_generic_to_shared(pa));
            const bf16* pb = &s_right[chan][m * 16 + (lane & 7) + (lane >> 4) * 8][((lane >> 3) & 1) * 8];
            LDMATRIX_X4(b[m][0], b[m][1], b[m][2], b[m][3], (uint32_t)__cvta_generic_to_shared(pb));
        }
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int q = 0; q < 4; ++q)
                MMA_BF16(acc[m][q], a[m], b[q >> 1][(q & 1) * 2], b[q >> 1][(q & 1) * 2 + 1]);
        __syncthreads();
    }

    // back to vectors of channels: the tiles are not needed any more, so their memory is taken, 16 rows at a time
    float (*s_out)[TILE][VEC + 1] = reinterpret_cast<float (*)[TILE][VEC + 1]>(smem);
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int q = 0; q < 4; ++q)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s_out[(lane >> 2) + (e >> 1) * 8][q * 8 + (lane & 3) * 2 + (e & 1)][chan] = acc[m][q][e];
        __syncthreads();
        for (int id = threadIdx.x; id < 16 * TILE; id += NTHREADS) {
            const int i = i0 + m * 16 + id / TILE, j = j0 + id % TILE;
            if (i < n && j < n) {
                const size_t at = ((size_t)i * n + j) * channels;
                Pack8 g, o;
                g.raw = *reinterpret_cast<const uint4*>(gate + at);
                for (int c = 0; c < VEC; ++c) {
                    const float sig = 1.f / (1.f + __expf(-__bfloat162float(g.e[c])));
                    o.e[c] = __float2bfloat16(sig * s_out[id / TILE][id % TILE][c]);
                }
                *reinterpret_cast<uint4*>(out + at) = o.raw;
            }
        }
        __syncthreads();
    }
}

void triangle_multiplication(const bf16* left, const bf16* right, const bf16* gate, const float* mask, bf16* out,
                             int batch, int n, int channels, cudaStream_t stream)
{
    const int tiles = (n + TILE - 1) / TILE;
    triangle_mul_outgoing<<<dim3(tiles * tiles, channels / VEC, batch), NTHREADS, 0, stream>>>(left, right, gate, mask, out,
                                                                                              n, channels);
}
