// Blocks that read and write one array: messages, readers before a writer, sums, arrays that overlap.
#define T threadIdx.x
#define B blockIdx.x

// planted block=32 grid=4: three blocks read what the fourth writes
extern "C" __global__ void three_readers(float* out, const float* x, float* work) {
    if (B == 1) work[100] = x[3];  //!
    else out[32 * B + T] = work[100];  //!
}
// planted block=32 grid=5: only the first reader is not ordered before the writer
extern "C" __global__ void first_reader_unordered(float* out, const float* x, float* work, int* count) {
    if (B < 4) {
        if (T == 0) {
            out[B] = work[7] + x[B];  //!
            if (B != 0) { __threadfence(); atomicAdd(count, 1); }
        }
    } else if (T == 0) {
        while (atomicAdd(count, 0) != 3) {}
        __threadfence();
        work[7] = 1;  //!
    }
}
// right block=32 grid=5
extern "C" __global__ void all_readers_ordered(float* out, const float* x, float* work, int* count) {
    if (B < 4) {
        if (T == 0) {
            out[B] = work[7] + x[B];
            __threadfence();
            atomicAdd(count, 1);
        }
    } else if (T == 0) {
        while (atomicAdd(count, 0) != 4) {}
        __threadfence();
        work[7] = 1;
    }
}
// right block=32 grid=4
extern "C" __global__ void everyone_reads(float* out, const float* x, float* work) { out[32 * B + T] = work[T] + x[T]; }

template <bool writer, bool reader>
__device__ void message(float* out, const float* x, volatile int* flag) {
    if (T != 0) return;
    if (B == 0) {
        out[9] = x[4];  //!
        if (writer) __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {}
        if (reader) __threadfence();
        out[0] = out[9] + 1;  //!
    }
}
// planted block=32 grid=2: a message without fences
extern "C" __global__ void message_bare(float* out, const float* x, int* flag) { message<false, false>(out, x, flag); }
// planted block=32 grid=2: a message without the writer's fence
extern "C" __global__ void message_no_release(float* out, const float* x, int* flag) { message<false, true>(out, x, flag); }
// planted block=32 grid=2: a message without the reader's fence
extern "C" __global__ void message_no_acquire(float* out, const float* x, int* flag) { message<true, false>(out, x, flag); }
// right block=32 grid=2
extern "C" __global__ void message_fenced(float* out, const float* x, int* flag) { message<true, true>(out, x, flag); }
// planted block=32 grid=2: relaxed flag, weak data
extern "C" __global__ void message_relaxed(float* out, const float* x, int* flag) {
    if (T != 0) return;
    if (B == 0) {
        out[9] = x[4];  //!
        asm volatile("st.relaxed.gpu.b32 [%0], 1;" ::"l"(flag) : "memory");
    } else {
        int seen = 0;
        while (seen == 0) asm volatile("ld.relaxed.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[0] = out[9] + 1;  //!
    }
}
// right block=32 grid=2
extern "C" __global__ void message_release_acquire(float* out, const float* x, int* flag) {
    if (T != 0) return;
    if (B == 0) {
        out[9] = x[4];
        asm volatile("st.release.gpu.b32 [%0], 1;" ::"l"(flag) : "memory");
    } else {
        int seen = 0;
        while (seen == 0) asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[0] = out[9] + 1;
    }
}
// planted block=64 grid=2: one thread acquires, another warp reads without a barrier
extern "C" __global__ void acquired_by_one(float* out, const float* x, int* flag) {
    if (B == 0) {
        out[100 + T] = x[T];  //!
        __threadfence();
        __syncthreads();
        if (T == 0) atomicExch(flag, 1);
    } else {
        if (T == 0) {
            while (atomicAdd(flag, 0) == 0) {}
            __threadfence();
        }
        if (T >= 32) out[T] = out[100 + T];  //!
    }
}
// planted block=64 grid=2: the flag is set before the other warp of the writer is done
extern "C" __global__ void released_by_one(float* out, const float* x, int* flag) {
    if (B == 0) {
        out[100 + T] = x[T];  //!
        __threadfence();
        if (T == 0) atomicExch(flag, 1);
    } else {
        if (T == 0) while (atomicAdd(flag, 0) == 0) {}
        __threadfence();
        __syncthreads();
        out[T] = out[100 + T];  //!
    }
}
// right block=64 grid=2
extern "C" __global__ void released_by_all(float* out, const float* x, int* flag) {
    if (B == 0) {
        out[100 + T] = x[T];
        __threadfence();
        __syncthreads();
        if (T == 0) atomicExch(flag, 1);
    } else {
        if (T == 0) while (atomicAdd(flag, 0) == 0) {}
        __threadfence();
        __syncthreads();
        out[T] = out[100 + T];
    }
}
// right block=32 grid=3: what the first wrote is known to the third through the second
extern "C" __global__ void handed_through(float* out, const float* x, int* flag) {
    if (T != 0) return;
    if (B == 0) out[50] = x[1];
    else { while (atomicAdd(flag, 0) != B) {} __threadfence(); }
    if (B == 2) out[0] = out[50];
    __threadfence();
    atomicAdd(flag, 1);
}
// planted block=32 grid=3: plain sums of blocks
extern "C" __global__ void plain_sums(float* out, const float* x) {
    out[T] += x[32 * B + T];  //!
}
// planted block=32 grid=2 alias=16: __restrict__ arrays that overlap across blocks
extern "C" __global__ void overlapping(float* __restrict__ out, const float* __restrict__ x) {
    out[32 * B + T] = x[32 * B + T] + 1;  //!
}
// right block=32 grid=2 alias=64
extern "C" __global__ void next_to_each_other(float* __restrict__ out, const float* __restrict__ x) {
    out[32 * B + T] = x[32 * B + T] + 1;
}
// planted block=32 grid=2 alias=32: an input that another block overwrites
extern "C" __global__ void overlapping_whole(float* __restrict__ out, const float* __restrict__ x) {
    out[32 * B + T] = 2 * x[32 * B + T];  //!
}
// planted block=32 grid=3: halos written by the neighbour in place
extern "C" __global__ void stencil_in_place(float* out, const float* x) {
    int i = 32 * B + T;
    out[i + 1] = out[i + 33] + x[i];  //!
}
// right block=32 grid=3
extern "C" __global__ void stencil_out_of_place(float* out, const float* x) {
    int i = 32 * B + T;
    out[i] = x[i] + x[i + 1] + x[i + 32];
}
// planted block=32 grid=3: a sum over the grid that is read before all have added
extern "C" __global__ void sum_read_too_early(float* out, const float* x) {
    if (T == 0) {
        atomicAdd(out, x[B]);  //!
        out[1 + B] = out[0] / 2;  //!
    }
}

// What `atomicCAS` finds is compared with `seen`: it does not matter whether that was read before or after another's.
__device__ double added(double* sum, double value) {
    unsigned long long *at = (unsigned long long*)sum, old = *at, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, __double_as_longlong(value + __longlong_as_double(seen)));
    } while (seen != old);
    return __longlong_as_double(old);
}
// right block=64 grid=4
extern "C" __global__ void sum_by_swaps(double* out, const double* x) { added(out, x[64 * B + T]); }
// right block=64 grid=4
extern "C" __global__ void largest_by_swaps(float* out, const float* x) {
    int *at = (int*)out, old = *at, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, __float_as_int(fmaxf(__int_as_float(seen), x[64 * B + T])));
    } while (seen != old);
}
// right block=64 grid=4
extern "C" __global__ void largest_where_larger(float* out, const float* x) {
    int *at = (int*)out, old = *at, seen;
    while (x[64 * B + T] > __int_as_float(old)) {
        seen = old;
        old = atomicCAS(at, seen, __float_as_int(x[64 * B + T]));
        if (old == seen) break;
    }
}
// planted block=32 grid=2: whether there is anything to do hangs on the order
extern "C" __global__ void swapped_if_set(float* out, const float* x) {
    if (T != 0) return;
    int* at = (int*)out;
    if (B == 0) {
        atomicExch(at, __float_as_int(x[0] + 2));  //!
    } else {
        const int old = *at;  //!
        if (old != 0) atomicCAS(at, old, __float_as_int(-1.0f));
    }
}
// planted block=64 grid=4: the guess is used besides
extern "C" __global__ void guess_used(float* out, const float* x) {
    int *at = (int*)out, old = *at, seen;  //!
    out[64 + 64 * B + T] = __int_as_float(old);
    do {
        seen = old;
        old = atomicCAS(at, seen, __float_as_int(__int_as_float(seen) + x[64 * B + T]));
    } while (seen != old);
}
// planted block=64 grid=4: compared with one guess, made of another
extern "C" __global__ void two_guesses(float* out, const float* x) {
    int *at = (int*)out, made = __float_as_int(__int_as_float(*at) + x[64 * B + T]), old = atomicAdd(at, 0), seen;  //!
    do {
        seen = old;
        old = atomicCAS(at, seen, made);
    } while (seen != old);
}
