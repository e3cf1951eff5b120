// Barriers, named barriers, asynchronous copies, mbarriers, and memory that nothing has written or that is not there.
#include <cuda_pipeline.h>
#define T threadIdx.x
#define WARP (threadIdx.x / 32)
#define LANE (threadIdx.x % 32)

template <bool before, bool after>
__device__ void shift(float* out, const float* x) {
    __shared__ float s[64];
    s[T] = x[T];  //!
    if (before) __syncthreads();
    float v = s[(T + 1) % 64];  //!
    if (after) __syncthreads();
    s[T] = v;  //!
    __syncthreads();
    out[T] = s[63 - T];
}
// right block=64
extern "C" __global__ void shift_both(float* out, const float* x) { shift<true, true>(out, x); }
// planted block=64: read before it is written
extern "C" __global__ void shift_no_first(float* out, const float* x) { shift<false, true>(out, x); }
// planted block=64: written before all have read
extern "C" __global__ void shift_no_second(float* out, const float* x) { shift<true, false>(out, x); }
// planted block=64: two warps write one element
extern "C" __global__ void written_twice(float* out, const float* x) {
    __shared__ float s[32];
    s[LANE] = x[T];  //!
    __syncthreads();
    out[T] = s[LANE];
}
// planted block=64: a barrier that one warp passes by
extern "C" __global__ void barrier_in_a_branch(float* out, const float* x) {
    if (T < 40) {
        out[T] = x[T];
        __syncthreads();  //!
        out[64 + T] = out[39 - T];
    }
    out[128 + T] = 1;
}
// right block=64
extern "C" __global__ void barrier_after_the_branch(float* out, const float* x) {
    if (T < 40) out[T] = x[T];
    __syncthreads();
    if (T < 40) out[64 + T] = out[39 - T];
}

template <bool full, bool empty>
__device__ void roles(float* out, const float* x) {
    __shared__ float s[32];
    for (int i = 0; i < 3; ++i) {
        if (WARP == 0) {
            if (empty) asm volatile("bar.sync %0, 64;" ::"r"(2 * i + 2) : "memory");
            s[LANE] = x[32 * i + LANE];  //!
            if (full) asm volatile("bar.arrive %0, 64;" ::"r"(2 * i + 1) : "memory");
        } else {
            if (empty) asm volatile("bar.arrive %0, 64;" ::"r"(2 * i + 2) : "memory");
            if (full) asm volatile("bar.sync %0, 64;" ::"r"(2 * i + 1) : "memory");
            out[32 * i + LANE] = s[31 - LANE];  //!
        }
    }
}
// right block=64: producer and consumer warps with two named barriers
extern "C" __global__ void roles_both(float* out, const float* x) { roles<true, true>(out, x); }
// planted block=64: the producer does not wait for the consumer
extern "C" __global__ void roles_no_empty(float* out, const float* x) { roles<true, false>(out, x); }
// planted block=64: the consumer does not wait for the producer
extern "C" __global__ void roles_no_full(float* out, const float* x) { roles<false, true>(out, x); }
// right block=128: named barriers for two halves of a block
extern "C" __global__ void named_halves(float* out, const float* x) {
    __shared__ float s[128];
    s[T] = x[T];
    asm volatile("bar.sync %0, 64;" ::"r"(1 + T / 64) : "memory");
    out[T] = s[T / 64 * 64 + (63 - T % 64)];
}
// planted block=128: named barriers for two halves, and data of the other half
extern "C" __global__ void named_halves_across(float* out, const float* x) {
    __shared__ float s[128];
    s[T] = x[T];  //!
    asm volatile("bar.sync %0, 64;" ::"r"(1 + T / 64) : "memory");
    out[T] = s[127 - T];  //!
}

template <int left, bool barrier>
__device__ void copied(float* out, const float* x) {
    __shared__ __align__(16) float s[2][256];
    float sum = 0;
    __pipeline_memcpy_async(&s[0][4 * T], &x[4 * T], 16);  //!
    __pipeline_commit();
    for (int i = 0; i < 3; ++i) {
        if (i < 2) __pipeline_memcpy_async(&s[(i + 1) % 2][4 * T], &x[256 * (i + 1) + 4 * T], 16);  //!
        __pipeline_commit();
        __pipeline_wait_prior(left);
        if (barrier) __syncthreads();
        sum += s[i % 2][255 - T];  //!
        if (barrier) __syncthreads();
    }
    out[T] = sum;
}
// right block=64
extern "C" __global__ void copies(float* out, const float* x) { copied<1, true>(out, x); }
// planted block=64: too few copies are waited for
extern "C" __global__ void copies_still_in_flight(float* out, const float* x) { copied<2, true>(out, x); }
// planted block=64: no barrier behind the wait
extern "C" __global__ void copies_without_barriers(float* out, const float* x) { copied<1, false>(out, x); }

template <bool arrive>
__device__ void phases(float* out, const float* x) {
    __shared__ __align__(8) unsigned long long full;
    __shared__ float s[32];
    unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at));
    __syncthreads();
    if (WARP == 0) {
        s[LANE] = x[LANE];  //!
        asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" ::"r"(at) : "memory");
    } else {
        unsigned done = !arrive;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
        out[LANE] = s[31 - LANE];  //!
    }
}
// right block=64
extern "C" __global__ void mbarrier_waited(float* out, const float* x) { phases<true>(out, x); }
// planted block=64: an mbarrier that the consumer does not wait for
extern "C" __global__ void mbarrier_not_waited(float* out, const float* x) { phases<false>(out, x); }

// planted block=32 fresh=1: half of a tile is never written
extern "C" __global__ void half_written(float* out, const float* x) {
    __shared__ float s[64];
    s[T] = x[T];
    __syncthreads();
    out[T] = s[T] + s[T + 32];  //!
}
// right block=32 fresh=1
extern "C" __global__ void wholly_written(float* out, const float* x) {
    __shared__ float s[64];
    s[T] = x[T];
    s[T + 32] = x[T + 32];
    __syncthreads();
    for (int i = T; i < 4096; i += 32) out[i] = s[i % 64];
}
// planted block=32: a sum that begins with nothing
extern "C" __global__ void uninitialised_sum(float* out, const float* x) {
    __shared__ float total;
    atomicAdd(&total, x[T]);  //!
    __syncthreads();
    if (T == 0) out[0] = total;  //!
}
// right block=32
extern "C" __global__ void initialised_sum(float* out, const float* x) {
    __shared__ float total;
    if (T == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, x[T]);
    __syncthreads();
    if (T == 0) out[0] = total;
}
// planted block=64 elements=40: threads past the end of an array
extern "C" __global__ void past_the_end(float* out, const float* x) {
    if (T < 40) out[T] = x[T + 1];  //!
}
// planted block=32: a shared array left by one
extern "C" __global__ void past_a_shared_array(float* out, const float* x) {
    __shared__ float a[32], b[32];
    b[T] = x[T];
    __syncthreads();
    a[T + 1] = x[T];  //!
    __syncthreads();
    out[T] = a[T] + b[T];
}
// planted block=32: a misaligned vector
extern "C" __global__ void misaligned(float* out, const float* x) {
    float4 v = *reinterpret_cast<const float4*>(x + T + 1);  //!
    out[T] = v.x + v.y + v.z + v.w;
}
// planted block=64: a histogram without its atomic
extern "C" __global__ void histogram_plain(int* out, const int* x) {
    __shared__ int h[8];
    if (T < 8) h[T] = 0;
    __syncthreads();
    h[x[T] % 8]++;  //!
    __syncthreads();
    if (T < 8) out[T] = h[T];
}
// right block=64
extern "C" __global__ void histogram(int* out, const int* x) {
    __shared__ int h[8];
    if (T < 8) h[T] = 0;
    __syncthreads();
    atomicAdd(&h[x[T] % 8], 1);
    __syncthreads();
    if (T < 8) out[T] = h[T];
}
// planted block=64: a total that is read before the other warp has added
extern "C" __global__ void read_too_early(int* out, const int* x) {
    __shared__ int total;
    if (T == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, x[T]);  //!
    __syncwarp();
    if (T == 0) out[0] = total;  //!
}

// When an mbarrier is made and ended, and what is done with it in between: `made` and `ended` are where a barrier stands or not.
template <bool made, bool ended>
__device__ void life_of_an_mbarrier(float* out, const float* x) {
    __shared__ __align__(8) unsigned long long full;
    __shared__ float s[64];
    unsigned at = (unsigned)__cvta_generic_to_shared(&full), done = 0;
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");  //!
    if (made) __syncthreads();
    s[T] = x[T];
    asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" ::"r"(at) : "memory");  //!
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    out[T] = s[63 - T];
    if (ended) __syncthreads();
    if (T == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");  //!
    __syncthreads();
    if (T == 0) full = 0;
}
// right block=64
extern "C" __global__ void mbarrier_made_and_ended(float* out, const float* x) { life_of_an_mbarrier<true, true>(out, x); }
// planted block=64: used by threads that cannot know that it was initialised
extern "C" __global__ void mbarrier_used_early(float* out, const float* x) { life_of_an_mbarrier<false, true>(out, x); }
// planted block=64: ended while another warp may still look at it
extern "C" __global__ void mbarrier_ended_early(float* out, const float* x) { life_of_an_mbarrier<true, false>(out, x); }
