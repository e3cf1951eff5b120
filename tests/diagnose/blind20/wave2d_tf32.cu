// 2-D acoustic wave equation, one leap-frog step, eighth order in space.
// The Laplacian is two products with banded matrices (TF32 tensor cores):
//     lap = By * U(rows y-4 .. y+19, cols x .. x+15)  +  U(rows y .. y+15, cols x-8 .. x+23) * Bx
// u is zero outside of the domain.
#include <cuda_runtime.h>
#include <mma.h>

namespace wave {

using namespace nvcuda;

constexpr int kRadius = 4;
constexpr int kTileX  = 64;                         // points of a block along x (fast)
constexpr int kTileY  = 32;                         // and along y
constexpr int kGhostX = 8;                          // wider than the radius: rows stay 32-byte aligned
constexpr int kGhostY = kRadius;
constexpr int kSpanX  = kTileX + 2 * kGhostX;       // 80
constexpr int kSpanY  = kTileY + 2 * kGhostY;       // 40
constexpr int kPitch  = kSpanX + 8;                 // 88
constexpr int kBandK  = 16 + 2 * kGhostX;           // 32: depth of U * Bx
constexpr int kBandL  = 16 + 2 * kGhostY;           // 24: depth of By * U
constexpr int kWarps  = (kTileX / 16) * (kTileY / 16);

__constant__ float d_stencil[kRadius + 1] = {-2.84722222f, 1.6f, -0.2f, 0.02539683f, -0.00178571f};

struct Shared {
    alignas(128) float u[kSpanY * kPitch];
    alignas(128) float by[16 * kBandL];
    alignas(128) float bx[kBandK * 16];
    alignas(128) float lap[kWarps][16 * 20];
};

__device__ inline float weight(int distance, float inv_h2)
{
    int d = distance < 0 ? -distance : distance;
    return d <= kRadius ? d_stencil[d] * inv_h2 : 0.0f;
}

template <class Frag>
__device__ inline void round_tf32(Frag& f)
{
#pragma unroll
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

__global__ void __launch_bounds__(32 * kWarps)
step(float* __restrict__ u_next, const float* __restrict__ u_now, const float* __restrict__ u_prev,
     const float* __restrict__ vel2, int nx, int ny, int ldu, float inv_dx2, float inv_dy2, float dt2)
{
    __shared__ Shared sm;
    const int tid  = threadIdx.x;
    const int warp = tid >> 5;
    const int lane = tid & 31;
    const int x0   = blockIdx.x * kTileX;
    const int y0   = blockIdx.y * kTileY;

    for (int i = tid; i < 16 * kBandL; i += blockDim.x) {
        int row = i / kBandL, k = i % kBandL;
        sm.by[i] = weight(k - kGhostY - row, inv_dy2);
    }
    for (int i = tid; i < kBandK * 16; i += blockDim.x) {
        int k = i / 16, col = i % 16;
        sm.bx[i] = weight(k - kGhostX - col, inv_dx2);
    }
    for (int i = tid; i < kSpanY * kSpanX; i += blockDim.x) {
        int sy = i / kSpanX, sx = i % kSpanX;
        int gy = y0 + sy - kGhostY, gx = x0 + sx - kGhostX;
        bool inside = gx >= 0 && gx < nx && gy >= 0 && gy < ny;
        sm.u[sy * kPitch + sx] = inside ? u_now[(size_t)gy * ldu + gx] : 0.0f;
    }
    __syncthreads();

    const int tx = (warp % (kTileX / 16)) * 16;     // of the warp's 16 x 16 points
    const int ty = (warp / (kTileX / 16)) * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> lap;
    wmma::fill_fragment(lap, 0.0f);

    // second derivative along y
    for (int k = 0; k < kBandL; k += 8) {
        wmma::load_matrix_sync(a, sm.by + k, kBandL);
        wmma::load_matrix_sync(b, sm.u + (ty + k) * kPitch + tx + kGhostX, kPitch);
        round_tf32(a);
        round_tf32(b);
        wmma::mma_sync(lap, a, b, lap);
    }
    // second derivative along x
    for (int k = 0; k < kBandK; k += 8) {
        wmma::load_matrix_sync(a, sm.u + (ty + kGhostY) * kPitch + tx + k, kPitch);
        wmma::load_matrix_sync(b, sm.bx + k * 16, 16);
        round_tf32(a);
        round_tf32(b);
        wmma::mma_sync(lap, a, b, lap);
    }

    float* out = sm.lap[warp];
    wmma::store_matrix_sync(out, lap, 20, wmma::mem_row_major);
    __syncwarp();

    // leap-frog: every half warp writes one row of 16 points
    const int cx = lane & 15;
    for (int r = lane >> 4; r < 16; r += 2) {
        int gx = x0 + tx + cx, gy = y0 + ty + r;
        if (gx >= nx || gy >= ny) continue;
        size_t at = (size_t)gy * ldu + gx;
        float centre = sm.u[(ty + r + kGhostY) * kPitch + tx + cx + kGhostX];
        u_next[at] = 2.0f * centre - u_prev[at] + dt2 * vel2[at] * out[r * 20 + cx];
    }
}

}  // namespace wave
