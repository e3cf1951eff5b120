// Fences, atomics and accesses that count within a block do not order blocks.
#include <cuda/atomic>
#define T threadIdx.x

template <int kind>
__device__ void fence() {
    if (kind == 1) __threadfence_block();
    if (kind == 2) __threadfence();
    if (kind == 3) __threadfence_system();
    if (kind == 4) asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (kind == 5) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if (kind == 6) cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_block);
    if (kind == 7) cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
}
template <int kind>
__device__ void hand_on(float* out, const float* x, int* flag) {
    if (blockIdx.x == 0) {
        out[64 + T] = x[T];  //!
        fence<kind>();
        __syncthreads();
        if (T == 0) atomicExch(flag, 1);
    } else {
        if (T == 0) while (atomicAdd(flag, 0) == 0) {}
        fence<kind>();
        __syncthreads();
        out[T] = out[64 + T] * 2;  //!
    }
}
// planted block=32 grid=2: __threadfence_block between blocks
extern "C" __global__ void block_fence(float* out, const float* x, int* flag) { hand_on<1>(out, x, flag); }
// planted block=32 grid=2: fence.acq_rel.cta between blocks
extern "C" __global__ void cta_fence(float* out, const float* x, int* flag) { hand_on<4>(out, x, flag); }
// planted block=32 grid=2: atomic_thread_fence of thread_scope_block between blocks
extern "C" __global__ void scoped_fence(float* out, const float* x, int* flag) { hand_on<6>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void device_fence(float* out, const float* x, int* flag) { hand_on<2>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void system_fence(float* out, const float* x, int* flag) { hand_on<3>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void gpu_fence(float* out, const float* x, int* flag) { hand_on<5>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void scoped_fence_device(float* out, const float* x, int* flag) { hand_on<7>(out, x, flag); }

// planted block=32 grid=3: atomicAdd_block from several blocks
extern "C" __global__ void block_atomics(int* out, const int* x) {
    atomicAdd_block(&out[T], x[T]);  //!
}
// right block=32 grid=3
extern "C" __global__ void device_atomics(int* out, const int* x) {
    atomicAdd(&out[T], x[T]);
}
// right block=64 grid=3
extern "C" __global__ void block_atomics_of_one_block(int* out, const int* x) {
    atomicAdd_block(&out[32 * blockIdx.x + T % 32], x[T]);
}
template <cuda::thread_scope scope>
__device__ void released(float* out, const float* x, int* flag) {
    cuda::atomic_ref<int, scope> ready(*flag);
    if (blockIdx.x == 0) {
        if (T == 0) {
            out[64] = x[5];  //!
            ready.store(1, cuda::memory_order_release);
        }
    } else if (T == 0) {
        while (ready.load(cuda::memory_order_acquire) == 0) {}
        out[0] = out[64] + 1;  //!
    }
}
// planted block=32 grid=2: release and acquire of thread_scope_block between blocks
extern "C" __global__ void block_scope_release(float* out, const float* x, int* flag) { released<cuda::thread_scope_block>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void device_scope_release(float* out, const float* x, int* flag) { released<cuda::thread_scope_device>(out, x, flag); }
// right block=64
extern "C" __global__ void block_scope_within(float* out, const float* x) {
    __shared__ int flag;
    __shared__ float s;
    if (T == 0) flag = 0;
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_block> ready(flag);
    if (T == 0) {
        s = x[3];
        ready.store(1, cuda::memory_order_release);
    } else if (T == 32) {
        while (ready.load(cuda::memory_order_acquire) == 0) {}
        out[0] = s;
    }
}
