// Counters, locks and barriers of whole grids.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define T threadIdx.x
#define B blockIdx.x

__device__ unsigned int retired;
template <bool fence, bool atomic>
__device__ void last_block(float* out, const float* x) {
    __shared__ bool last;
    if (T == 0) out[16 + B] = x[B];  //!
    if (fence) __threadfence();
    if (T == 0) {
        unsigned ticket = atomicInc(&retired, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last && T == 0) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; ++i) sum += out[16 + i];  //!
        out[0] = sum;
        if (atomic) atomicExch(&retired, 0u);
        else retired = 0;
    }
}
// right block=64 grid=5: the last block resets the counter plainly
extern "C" __global__ void last_block_plain_reset(float* out, const float* x) { last_block<true, false>(out, x); }
// right block=64 grid=5
extern "C" __global__ void last_block_atomic_reset(float* out, const float* x) { last_block<true, true>(out, x); }
// planted block=64 grid=5: the last block without fences
extern "C" __global__ void last_block_no_fence(float* out, const float* x) { last_block<false, false>(out, x); }
// planted block=32 grid=4: a counter reset by the first block, not the last
extern "C" __global__ void first_block_resets(unsigned* out, const float* x) {
    if (T == 0) {
        if (B == 1) out[0] = 0;  //!
        atomicAdd(&out[0], 1u);  //!
    }
}

// Inter-block locks of a split reduction: block i waits until i have come.
__device__ void wait_for(int* lock, int count) {
    if (T == 0) {
        int state = -1;
        do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(state) : "l"(lock) : "memory");
        while (state != count);
    }
    __syncthreads();
}
template <bool fence>
__device__ void pass_on(int* lock, bool reset) {
    __syncthreads();
    if (T == 0) {
        if (reset) {
            lock[0] = 0;
            return;
        }
        if (fence) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(lock), "r"(1) : "memory");
    }
}
template <bool fence>
__device__ void split_sum(float* out, const float* x, int* lock) {
    wait_for(lock, B);
    out[T] = out[T] + x[64 * B + T];  //!
    pass_on<fence>(lock, B == gridDim.x - 1);
}
// right block=64 grid=4: inter-block locks with a plain reset
extern "C" __global__ void split_sum_locks(float* out, const float* x, int* lock) { split_sum<true>(out, x, lock); }
// planted block=64 grid=4: inter-block locks without the fence
extern "C" __global__ void split_sum_no_fence(float* out, const float* x, int* lock) { split_sum<false>(out, x, lock); }
// planted block=64 grid=3: a lock passed on without a barrier before it
extern "C" __global__ void split_sum_no_barrier(float* out, const float* x, int* lock) {
    wait_for(lock, B);
    out[T] = out[T] + x[64 * B + T];  //!
    if (T == 0) {
        __threadfence();
        atomicAdd(lock, 1);
    }
}
// right block=64 grid=3: red.release
extern "C" __global__ void split_sum_red_release(float* out, const float* x, int* lock) {
    wait_for(lock, B);
    out[T] = out[T] + x[64 * B + T];
    __syncthreads();
    if (T == 0) asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(lock) : "memory");
}
// planted block=64 grid=3: a critical section that not every block enters
extern "C" __global__ void lock_by_some(float* out, const float* x, int* lock) {
    if (T == 0) {
        if (B != 1) { while (atomicCAS(lock, 0, 1) != 0) {} __threadfence(); }
        out[0] = out[0] + x[B];  //!
        if (B != 1) { __threadfence(); atomicExch(lock, 0); }
    }
}

__device__ unsigned int arrived_blocks;
__device__ volatile unsigned int generation;
template <bool fence>
__device__ void grid_barrier() {
    __syncthreads();
    if (T == 0) {
        unsigned mine = generation;
        if (fence) __threadfence();
        if (atomicAdd(&arrived_blocks, 1) == gridDim.x - 1) {
            arrived_blocks = 0;
            if (fence) __threadfence();
            generation = mine + 1;
        } else {
            while (generation == mine) {}
        }
        if (fence) __threadfence();
    }
    __syncthreads();
}
template <bool fence>
__device__ void two_steps(float* out, const float* x) {
    int n = 32 * gridDim.x, i = 32 * B + T;
    out[512 + i] = x[i];  //!
    grid_barrier<fence>();
    out[i] = out[512 + n - 1 - i];  //!
    grid_barrier<fence>();
    out[512 + i] = 1;
}
// right block=32 grid=3: a hand-written grid barrier, used twice
extern "C" __global__ void grid_barrier_fenced(float* out, const float* x) { two_steps<true>(out, x); }
// planted block=32 grid=3: a hand-written grid barrier without fences
extern "C" __global__ void grid_barrier_bare(float* out, const float* x) { two_steps<false>(out, x); }

// right block=32 grid=3: one counter that only grows
extern "C" __global__ void grid_barrier_counter(float* out, const float* x, int* count) {
    int n = 32 * gridDim.x, i = 32 * B + T;
    for (int round = 1; round <= 2; ++round) {
        out[512 * round + i] = x[i] + (round > 1 ? out[512 + n - 1 - i] : 0);
        __syncthreads();
        if (T == 0) {
            __threadfence();
            atomicAdd(count, 1);
            while (*(volatile int*)count < round * gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
    out[i] = out[1024 + n - 1 - i];
}
// planted block=32 grid=3: the second wait is for the first round's count
extern "C" __global__ void grid_barrier_stale_count(float* out, const float* x, int* count) {
    int n = 32 * gridDim.x, i = 32 * B + T;
    for (int round = 1; round <= 2; ++round) {
        out[512 * round + i] = x[i] + (round > 1 ? out[512 + n - 1 - i] : 0);  //!
        __syncthreads();
        if (T == 0) {
            __threadfence();
            atomicAdd(count, 1);
            while (*(volatile int*)count < gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
    out[i] = out[1024 + n - 1 - i];  //!
}
// right block=64 grid=3: flags of each block, gathered by the first
extern "C" __global__ void grid_barrier_flags(float* out, const float* x, int* in, int* go) {
    int n = 64 * gridDim.x, i = 64 * B + T;
    out[512 + i] = x[i];
    __syncthreads();
    if (B == 0) {
        if (T > 0 && T < gridDim.x) {
            while (((volatile int*)in)[T] == 0) {}
            __threadfence();
        }
        __syncthreads();
        if (T > 0 && T < gridDim.x) {
            __threadfence();
            ((volatile int*)go)[T] = 1;
        }
    } else if (T == 0) {
        __threadfence();
        ((volatile int*)in)[B] = 1;
        while (((volatile int*)go)[B] == 0) {}
        __threadfence();
    }
    __syncthreads();
    out[i] = out[512 + n - 1 - i];
}
// right block=32 grid=3 cooperative
extern "C" __global__ void grid_group(float* out, const float* x) {
    int n = 32 * gridDim.x, i = 32 * B + T;
    out[512 + i] = x[i];
    cg::this_grid().sync();
    out[i] = out[512 + n - 1 - i];
}
// planted block=32 grid=3 cooperative: a block's barrier where the grid's is needed
extern "C" __global__ void block_group_for_grid(float* out, const float* x) {
    int n = 32 * gridDim.x, i = 32 * B + T;
    out[512 + i] = x[i];  //!
    cg::this_thread_block().sync();
    out[i] = out[512 + n - 1 - i];  //!
}

// Stream-k: a tile's first block adds up what the others left in the workspace.
template <bool fence, bool wait>
__device__ void fix_up(float* out, const float* x, float* work, int* flags) {
    if (B != gridDim.x - 1) {
        work[64 * B + T] = x[64 * B + T];  //!
        if (fence) __threadfence();
        __syncthreads();
        if (T == 0) atomicExch(&flags[B], 1);
    } else {
        float sum = x[64 * B + T];
        for (int i = 0; i < gridDim.x - 1; ++i) {
            if (wait && T == 0) while (atomicAdd(&flags[i], 0) == 0) {}
            if (fence) __threadfence();
            __syncthreads();
            sum += work[64 * i + T];  //!
        }
        out[T] = sum;
    }
}
// right block=64 grid=4
extern "C" __global__ void stream_k(float* out, const float* x, float* work, int* flags) { fix_up<true, true>(out, x, work, flags); }
// planted block=64 grid=4: stream-k flags without fences
extern "C" __global__ void stream_k_no_fence(float* out, const float* x, float* work, int* flags) { fix_up<false, true>(out, x, work, flags); }
// planted block=64 grid=4: stream-k partial sums read without waiting
extern "C" __global__ void stream_k_no_wait(float* out, const float* x, float* work, int* flags) { fix_up<true, false>(out, x, work, flags); }

// right block=64 grid=4: tickets hand out tiles in any order
extern "C" __global__ void dynamic_tiles(float* out, const float* x, int* next) {
    __shared__ int tile;
    for (;;) {
        if (T == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        int mine = tile;
        __syncthreads();
        if (mine >= 6) return;
        out[64 * mine + T] = 2 * x[64 * mine + T];
    }
}
// planted block=64 grid=4: a tile's ticket overwritten before all have read it
extern "C" __global__ void dynamic_tiles_one_barrier(float* out, const float* x, int* next) {
    __shared__ int tile;
    for (int i = 0; i < 3; ++i) {
        if (T == 0) tile = atomicAdd(next, 1);  //!
        __syncthreads();
        out[64 * tile + T] = 2 * x[64 * tile + T];  //!
    }
}
