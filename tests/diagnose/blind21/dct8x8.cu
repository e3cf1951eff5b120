// 8x8 block DCT-II of an 8 bit plane with quantiser scaling and zigzag order, as the analysis stage of a JPEG-like codec.
// A warp transforms two blocks, one above the other, without any exchange between lanes:
//   columns:  Y (16x8) = diag(D, D) (16x16) * X (16x8)      mma.m16n8k16
//   rows:     Z (16x8) = Y (16x8) * D^T (8x8)               mma.m16n8k8, its A operand is Y's accumulator as it lies
#include <cuda_fp16.h>
#include <cstdint>

namespace codec {

enum { TILE_X = 64, TILE_Y = 32, THREADS = 128, PITCH = TILE_X + 8 };

__constant__ uint8_t kZigzag[64] = {
     0,  1,  5,  6, 14, 15, 27, 28,
     2,  4,  7, 13, 16, 26, 29, 42,
     3,  8, 12, 17, 25, 30, 41, 43,
     9, 11, 18, 24, 31, 40, 44, 53,
    10, 19, 23, 32, 39, 45, 52, 54,
    20, 22, 33, 38, 46, 51, 55, 60,
    21, 34, 37, 47, 50, 56, 59, 61,
    35, 36, 48, 49, 57, 58, 62, 63};

// D[u][x] of the orthonormal transform
__device__ __forceinline__ float basis(int u, int x)
{
    const float norm = u == 0 ? 0.35355339f : 0.5f;
    return norm * cospif((2 * x + 1) * u * (1.0f / 16.0f));
}

__device__ __forceinline__ uint32_t as_u32(half2 h) { return *reinterpret_cast<uint32_t*>(&h); }
__device__ __forceinline__ uint32_t basis2(int u, int x) { return as_u32(__floats2half2_rn(basis(u, x), basis(u, x + 1))); }

__global__ void __launch_bounds__(THREADS)
forward_dct(const uint8_t* __restrict__ plane, int width, int height, int pitch,
            const float* __restrict__ recip_q,      // 1 / quantiser, row major
            float* __restrict__ coef,               // [blocks_y * blocks_x][64], zigzag
            int blocks_x, int blocks_y)
{
    __shared__ __align__(16) half pix[TILE_Y][PITCH];
    __shared__ float rq[64];

    const int tid = threadIdx.x;
    const int px0 = blockIdx.x * TILE_X;
    const int py0 = blockIdx.y * TILE_Y;

    if (tid < 64) rq[tid] = recip_q[tid];

    // level shift; behind the picture's edges its last row and column are repeated
    for (int i = tid; i < TILE_Y * TILE_X / 4; i += THREADS) {
        const int r = i / (TILE_X / 4), c = i % (TILE_X / 4) * 4;
        const uint8_t* row = plane + (size_t)min(py0 + r, height - 1) * pitch;
        uchar4 p;
        if (px0 + c + 4 <= width) {
            p = *reinterpret_cast<const uchar4*>(row + px0 + c);
        } else {
            p.x = row[min(px0 + c, width - 1)];
            p.y = row[min(px0 + c + 1, width - 1)];
            p.z = row[min(px0 + c + 2, width - 1)];
            p.w = row[min(px0 + c + 3, width - 1)];
        }
        half2* to = reinterpret_cast<half2*>(&pix[r][c]);
        to[0] = __halves2half2(__int2half_rn(p.x - 128), __int2half_rn(p.y - 128));
        to[1] = __halves2half2(__int2half_rn(p.z - 128), __int2half_rn(p.w - 128));
    }
    __syncthreads();

    const int lane = tid & 31, warp = tid >> 5;
    const int g = lane >> 2, t = lane & 3;

    // diag(D, D): the off-diagonal registers, (row + 8, k) and (row, k + 8), are zero
    const uint32_t d_lo = basis2(g, 2 * t);
    const uint32_t zero = 0u;
    // D^T as B operand: B[k][n] = D[n][k], so the same register again
    const uint32_t d_t = d_lo;

    // a tile has 2 pairs of block rows and 8 block columns; warps take them in turn
    for (int job = warp; job < (TILE_Y / 16) * (TILE_X / 8); job += THREADS / 32) {
        const int bx = job % (TILE_X / 8);
        const int by = job / (TILE_X / 8) * 2;

        uint32_t x0, x1;
        const uint32_t addr = (uint32_t)__cvta_generic_to_shared(&pix[by * 8 + (lane & 15)][bx * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(x0), "=r"(x1) : "r"(addr));

        float y[4] = {0.f, 0.f, 0.f, 0.f};
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(y[0]), "+f"(y[1]), "+f"(y[2]), "+f"(y[3])
                     : "r"(d_lo), "r"(zero), "r"(zero), "r"(d_lo), "r"(x0), "r"(x1));

        const uint32_t y_up = as_u32(__floats2half2_rn(y[0], y[1]));
        const uint32_t y_low = as_u32(__floats2half2_rn(y[2], y[3]));

        float z[4] = {0.f, 0.f, 0.f, 0.f};
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
                     : "r"(y_up), "r"(y_low), "r"(d_t));

        const int block_x = px0 / 8 + bx;
        const int block_y = py0 / 8 + by;
        if (block_x >= blocks_x) continue;
        #pragma unroll
        for (int b = 0; b < 2; ++b) {
            if (block_y + b >= blocks_y) break;
            float* out = coef + ((size_t)(block_y + b) * blocks_x + block_x) * 64;
            const int at = g * 8 + 2 * t;
            out[kZigzag[at]] = z[2 * b] * rq[at];
            out[kZigzag[at + 1]] = z[2 * b + 1] * rq[at + 1];
        }
    }
}

}  // namespace codec

extern "C" void launch_forward_dct(const uint8_t* plane, int width, int height, int pitch, const float* recip_q, float* coef,
                                   cudaStream_t stream)
{
    const int bx = (width + 7) / 8, by = (height + 7) / 8;
    dim3 grid((width + codec::TILE_X - 1) / codec::TILE_X, (height + codec::TILE_Y - 1) / codec::TILE_Y);
    codec::forward_dct<<<grid, codec::THREADS, 0, stream>>>(plane, width, height, pitch, recip_q, coef, bx, by);
}
