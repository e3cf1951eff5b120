// Lanes: tiles, masks, shuffles, votes.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define T threadIdx.x
#define LANE (threadIdx.x % 32)

template <int size, bool sync>
__device__ void tile_exchange(float* out, const float* x) {
    __shared__ float s[64];
    auto tile = cg::tiled_partition<size>(cg::this_thread_block());
    s[T] = x[T];  //!
    if (sync) tile.sync();
    float v = s[T / size * size + (tile.thread_rank() + 1) % size];  //!
    if (sync) tile.sync();
    s[T] = v * 2;  //!
    if (sync) tile.sync();
    out[T] = s[T ^ 1];  //!
}
// right block=64
extern "C" __global__ void tile_8(float* out, const float* x) { tile_exchange<8, true>(out, x); }
// right block=64
extern "C" __global__ void tile_16(float* out, const float* x) { tile_exchange<16, true>(out, x); }
// right block=64
extern "C" __global__ void tile_32(float* out, const float* x) { tile_exchange<32, true>(out, x); }
// planted block=64: lanes of a tile that never synchronise
extern "C" __global__ void tile_without_sync(float* out, const float* x) { tile_exchange<8, false>(out, x); }

template <int reach>
__device__ void tile_sum(float* out, const float* x) {
    __shared__ float s[64];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[T] = x[T];  //!
    tile.sync();
    for (int d = 4; d > 0; d /= 2) {
        float v = tile.thread_rank() < d ? s[T + d * reach] : 0;  //!
        tile.sync();
        s[T] += v;  //!
        tile.sync();
    }
    if (tile.thread_rank() == 0) out[T / 8] = s[T];
}
// right block=64
extern "C" __global__ void tile_reduction(float* out, const float* x) { tile_sum<1>(out, x); }
// planted block=64: a tile of 8 reads the next tile's elements
extern "C" __global__ void tile_too_far(float* out, const float* x) {
    __shared__ float s[64];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[T] = x[T];  //!
    tile.sync();
    out[T] = s[(T + 8) % 64];  //!
}
template <bool own>
__device__ void halves(float* out, const float* x) {
    __shared__ float s[32];
    s[T] = x[T];  //!
    __syncwarp(T < 16 ? 0xffffu : 0xffff0000u);
    out[T] = s[own ? T ^ 1 : T ^ 16];  //!
}
// right block=32
extern "C" __global__ void half_masks(float* out, const float* x) { halves<true>(out, x); }
// planted block=32: a sub-warp mask that does not cover the exchange
extern "C" __global__ void half_masks_across(float* out, const float* x) { halves<false>(out, x); }
// right block=32
extern "C" __global__ void half_mask_of_converged_lanes(float* out, const float* x) {
    __shared__ float s[32];
    s[T] = x[T];
    if (T < 16) {
        __syncwarp(0x0000ffff);
        s[T] += 1;
        __syncwarp(0x0000ffff);
        out[T] = s[15 - T];
    } else {
        __syncwarp(0xffff0000);
        out[T] = s[47 - T];
    }
}

// planted block=32: a shuffle from a lane outside the mask
extern "C" __global__ void shuffle_from_outside(float* out, const float* x) {
    if (T < 16) out[T] = __shfl_sync(0x0000ffff, x[T], T + 16);  //!
}
// right block=32
extern "C" __global__ void shuffle_inside(float* out, const float* x) {
    if (T < 16) out[T] = __shfl_sync(0x0000ffff, x[T], 15 - T);
}
// planted block=32: the neighbour of the mask's last lane
extern "C" __global__ void shuffle_down_past_the_mask(float* out, const float* x) {
    if (T < 16) out[T] = x[T] + __shfl_down_sync(0x0000ffff, x[T], 1);  //!
}
// right block=32: what is undefined in the upper lanes, nobody uses
extern "C" __global__ void half_warp_sum(float* out, const float* x) {
    if (T < 16) {
        float v = x[T];
        for (int d = 8; d > 0; d /= 2) v += __shfl_down_sync(0x0000ffff, v, d);
        if (T == 0) out[0] = v;
    }
}
// right block=32
extern "C" __global__ void half_warp_sum_width(float* out, const float* x) {
    float v = x[T];
    for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d, 16);
    out[T] = v;
}
// planted block=32: a full mask in a divergent branch
extern "C" __global__ void full_mask_in_a_branch(float* out, const float* x) {
    float v = x[T];
    if (x[T] > 25) {
        v += __shfl_xor_sync(0xffffffff, v, 1);  //!
        out[100 + T] = v;
    }
    out[T] = v;
}
// right block=32: the mask of those who take the branch
extern "C" __global__ void voted_mask(float* out, const float* x) {
    float v = x[T];
    unsigned takers = __ballot_sync(0xffffffff, x[T] > 25);
    if (x[T] > 25) {
        v += __shfl_sync(takers, v, __ffs(takers) - 1);
        out[100 + T] = v;
    }
    out[T] = v;
}
// planted block=32: half a mask where all lanes shuffle
extern "C" __global__ void half_mask_for_all(float* out, const float* x) {
    out[T] = __shfl_xor_sync(0x0000ffff, x[T], 1);  //!
}
// planted block=32: __syncwarp with a full mask in a branch that others skip
extern "C" __global__ void syncwarp_in_a_branch(float* out, const float* x) {
    if (x[T] > 25) {
        out[100 + T] = x[T];
        __syncwarp();  //!
        out[200 + T] = 2 * x[T];
    }
    out[T] = 1;
}
// right block=32
extern "C" __global__ void syncwarp_after_the_branch(float* out, const float* x) {
    if (x[T] > 25) out[100 + T] = x[T];
    __syncwarp();
    out[T] = 1;
}
// right block=48: the last warp is half full
extern "C" __global__ void partial_warp(float* out, const float* x) {
    __shared__ float s[48];
    s[T] = x[T];
    __syncthreads();
    out[T] = s[47 - T];
}
// right block=32: threads without work have returned
extern "C" __global__ void returned_before_a_shuffle(float* out, const float* x) {
    if (T >= 16) return;
    float v = x[T];
    for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(0x0000ffff, v, d);
    out[T] = v;
}
// planted block=32: lanes of one store write different values to one place
extern "C" __global__ void lanes_collide(float* out, const float* x) {
    out[T / 2] = x[T];  //!
}
// right block=32
extern "C" __global__ void lanes_agree(float* out, const float* x) {
    out[T / 2] = x[T / 2];
}
// planted block=64: __syncwarp where another warp writes
extern "C" __global__ void syncwarp_for_two_warps(float* out, const float* x) {
    __shared__ float s[64];
    s[T] = x[T];  //!
    __syncwarp();
    out[T] = s[T ^ 32];  //!
}
