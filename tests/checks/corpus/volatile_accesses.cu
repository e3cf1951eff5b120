// Volatile accesses are no data race, and nothing orders them: one that matters is planted, one that does not is right.
#define T threadIdx.x
#define WARP (threadIdx.x / 32)
#define LANE (threadIdx.x % 32)

// planted block=64: a volatile tile read across warps
extern "C" __global__ void volatile_tile(float* out, const float* x) {
    __shared__ volatile float s[64];
    s[T] = x[T];       //!
    out[T] = s[63 - T];  //!
}

// right block=64
extern "C" __global__ void volatile_tile_barrier(float* out, const float* x) {
    __shared__ volatile float s[64];
    s[T] = x[T];
    __syncthreads();
    out[T] = s[63 - T];
}

template <bool second>
__device__ void double_buffer(float* out, const float* x) {
    __shared__ volatile float s[64];
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
        s[T] = x[i * 64 + T];  //!
        __syncthreads();
        sum += s[63 - T];  //!
        if (second) __syncthreads();
    }
    out[T] = sum;
}
// planted block=64: a volatile buffer refilled without its second barrier
extern "C" __global__ void volatile_buffer(float* out, const float* x) { double_buffer<false>(out, x); }
// right block=64
extern "C" __global__ void volatile_buffer_both(float* out, const float* x) { double_buffer<true>(out, x); }

template <bool sync>
__device__ void warp_reduction(float* out, const float* x) {
    __shared__ volatile float s[64];
    s[T] = x[T];
    s[T + 32] = x[T + 32];
    if (sync) __syncwarp();
    for (int d = 32; d > 0; d /= 2) {
        float other = s[T + d % 64];  //!
        if (sync) __syncwarp();
        if (T < d) s[T] = s[T] + other;  //!
        if (sync) __syncwarp();
    }
    if (T == 0) out[0] = s[0];
}
// planted block=32: the old volatile warp reduction
extern "C" __global__ void volatile_reduction(float* out, const float* x) { warp_reduction<false>(out, x); }
// right block=32
extern "C" __global__ void volatile_reduction_sync(float* out, const float* x) { warp_reduction<true>(out, x); }

// planted block=32 grid=4: a volatile sum of blocks loses updates
extern "C" __global__ void volatile_sum(volatile float* out, const float* x) {
    if (T == 0) *out = *out + x[blockIdx.x];  //!
}
// right block=32 grid=4
extern "C" __global__ void atomic_sum(float* out, const float* x) {
    if (T == 0) atomicAdd(out, x[blockIdx.x]);
}
// planted block=64: a volatile counter of two warps
extern "C" __global__ void volatile_counter(int* out, const int* x) {
    __shared__ volatile int n;
    if (T == 0) n = 0;
    __syncthreads();
    if (LANE == 0) n = n + x[WARP];  //!
    __syncthreads();
    if (T == 0) out[0] = n;
}
// right block=64
extern "C" __global__ void shared_counter(int* out, const int* x) {
    __shared__ int n;
    if (T == 0) n = 0;
    __syncthreads();
    if (LANE == 0) atomicAdd(&n, x[WARP]);
    __syncthreads();
    if (T == 0) out[0] = n;
}

template <bool fence>
__device__ void locked_sum(float* out, const float* x, int* lock) {
    if (T == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        out[0] = out[0] + x[blockIdx.x];  //!
        if (fence) __threadfence();
        *(volatile int*)lock = 0;
    }
}
// planted block=32 grid=3: a lock given back without a fence
extern "C" __global__ void unlock_without_fence(float* out, const float* x, int* lock) { locked_sum<false>(out, x, lock); }
// right block=32 grid=3
extern "C" __global__ void unlock_with_fence(float* out, const float* x, int* lock) { locked_sum<true>(out, x, lock); }
// right block=32 grid=3
extern "C" __global__ void unlock_plain_store(float* out, const float* x, int* lock) {
    if (T == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        out[0] = out[0] + x[blockIdx.x];
        __threadfence();
        *lock = 0;
    }
}
// right block=32 grid=3
extern "C" __global__ void unlock_exchange(float* out, const float* x, int* lock) {
    if (T == 0) {
        while (atomicExch(lock, 1) != 0) {}
        __threadfence();
        out[0] = out[0] + x[blockIdx.x];
        __threadfence();
        atomicExch(lock, 0);
    }
}
// right block=64
extern "C" __global__ void spin_on_shared_flag(float* out, const float* x) {
    __shared__ volatile int ready;
    __shared__ float s[32];
    if (T == 0) ready = 0;
    __syncthreads();
    if (WARP == 0) {
        s[LANE] = x[LANE];
        __threadfence_block();
        __syncwarp();
        if (LANE == 0) ready = 1;
    } else {
        while (ready == 0) {}
        __threadfence_block();
        out[LANE] = s[31 - LANE];
    }
}
// planted block=64: a shared flag without fences
extern "C" __global__ void shared_flag_without_fences(float* out, const float* x) {
    __shared__ volatile int ready;
    __shared__ float s[32];
    if (T == 0) ready = 0;
    __syncthreads();
    if (WARP == 0) {
        s[LANE] = x[LANE];  //!
        __syncwarp();
        if (LANE == 0) ready = 1;
    } else {
        while (ready == 0) {}
        out[LANE] = s[31 - LANE];  //!
    }
}
// right block=64: whoever stops early stops at the same answer
extern "C" __global__ void found_flag(int* out, const int* x) {
    __shared__ volatile int found;
    if (T == 0) found = 0;
    __syncthreads();
    for (int i = 0; i < 4 && !found; ++i)
        if (x[T] == 3) found = 1;
    __syncthreads();
    if (T == 0) out[0] = found;
}
