// Kernels over a graph in rows (CSR) with a bug planted or not: an atomic, a guard, a barrier, a bound.
#define T threadIdx.x
#define I (blockIdx.x * blockDim.x + threadIdx.x)
constexpr int nodes = 96;
__device__ int first_edge(int v) { return 2 * v; }
__device__ int target(int e) { return (e * 7 + 3) % nodes; }

template <bool atomic>
__device__ void degrees(int* out) {
    if (I >= nodes) return;
    for (int e = first_edge(I); e < first_edge(I + 1); ++e) {
        if (atomic) atomicAdd(&out[target(e)], 1);
        else out[target(e)] += 1;  //!
    }
}
// right block=32 grid=3
extern "C" __global__ void in_degrees(int* out, const int* x) { degrees<true>(out); }
// planted block=32 grid=3: a sum over edges without its atomic
extern "C" __global__ void in_degrees_plain(int* out, const int* x) { degrees<false>(out); }

template <bool atomic>
__device__ void relax_edges(int* out, const int* x) {
    if (I >= nodes) return;
    for (int e = first_edge(I); e < first_edge(I + 1); ++e) {
        int candidate = x[I] + e % 5;
        if (atomic) atomicMax(&out[target(e)], candidate);
        else if (out[target(e)] < candidate) out[target(e)] = candidate;  //!
    }
}
// right block=32 grid=3
extern "C" __global__ void push_max(int* out, const int* x) { relax_edges<true>(out, x); }
// planted block=32 grid=3: a maximum over edges without its atomic
extern "C" __global__ void push_max_plain(int* out, const int* x) { relax_edges<false>(out, x); }
// right block=32 grid=3
extern "C" __global__ void pull_max(int* out, const int* x) {
    if (I >= nodes) return;
    int best = 0;
    for (int e = first_edge(I); e < first_edge(I + 1); ++e) best = max(best, x[target(e)]);
    out[I] = best;
}
// planted block=32 grid=3: pulled from the array that is written
extern "C" __global__ void pull_in_place(int* out, const int* x) {
    if (I >= nodes) return;
    int best = x[I];
    for (int e = first_edge(I); e < first_edge(I + 1); ++e) best = max(best, out[target(e)]);  //!
    out[I] = best;  //!
}
template <bool atomic>
__device__ void worklist(int* out, const int* x, int* count) {
    if (I >= nodes || x[I] % 2 == 0) return;
    int slot;
    if (atomic) slot = atomicAdd(count, 1);
    else slot = (*count)++;  //!
    out[slot] = 1;  //!
}
// right block=32 grid=3
extern "C" __global__ void populate(int* out, const int* x, int* count) { worklist<true>(out, x, count); }
// planted block=32 grid=3: a worklist's counter without its atomic
extern "C" __global__ void populate_plain(int* out, const int* x, int* count) { worklist<false>(out, x, count); }

template <bool barrier>
__device__ void block_max(int* out, const int* x) {
    __shared__ int s[3];
    int v = __reduce_max_sync(0xffffffff, x[I]);
    if (T % 32 == 0) s[T / 32] = v;  //!
    if (barrier) __syncthreads();
    if (T == 0) out[blockIdx.x] = max(s[0], max(s[1], s[2]));  //!
}
// right block=96 grid=2
extern "C" __global__ void max_of_warps(int* out, const int* x) { block_max<true>(out, x); }
// planted block=96 grid=2: a reduction over warps without its barrier
extern "C" __global__ void max_of_warps_no_barrier(int* out, const int* x) { block_max<false>(out, x); }

// planted block=32 grid=4 elements=96: a loop over nodes without its guard
extern "C" __global__ void no_guard(int* out, const int* x) {
    out[I] = x[I] + 1;  //!
}
// right block=32 grid=4 elements=96
extern "C" __global__ void guarded(int* out, const int* x) {
    if (I < nodes) out[I] = x[I] + 1;
}
// planted block=32 grid=3 elements=96: one edge too many
extern "C" __global__ void one_too_many(int* out, const int* x) {
    int sum = 0;
    for (int k = 0; k <= 3; ++k) sum += x[I / 3 * 3 + k];  //!
    out[I] = sum;
}
// right block=32 grid=3 elements=96
extern "C" __global__ void three_of_each(int* out, const int* x) {
    int sum = 0;
    for (int k = 0; k < 3; ++k) sum += x[I / 3 * 3 + k];
    out[I] = sum;
}
// right block=32 grid=3: whoever sets the flag sets the same
extern "C" __global__ void changed_flag(int* out, const int* x, int* again) {
    if (I < nodes && x[I] > 10) atomicOr(again, 1);
    out[I] = x[I];
}
template <bool atomic>
__device__ void unite(int* out, const int* x) {
    if (I >= nodes) return;
    int partner = x[I] % nodes;
    if (atomic) atomicMin(&out[partner], -(int)I);
    else if (out[partner] > -(int)I) out[partner] = -(int)I;  //!
}
// right block=32 grid=3
extern "C" __global__ void hook(int* out, const int* x) { unite<true>(out, x); }
// planted block=32 grid=3: labels joined without an atomic
extern "C" __global__ void hook_plain(int* out, const int* x) { unite<false>(out, x); }
// planted block=96: a second round that does not wait for the first
extern "C" __global__ void rounds_without_barrier(int* out, const int* x) {
    __shared__ int label[nodes];
    label[T] = x[T];
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
        int best = label[T];
        for (int e = first_edge(T); e < first_edge(T + 1); ++e) best = min(best, label[target(e)]);  //!
        label[T] = best;  //!
        __syncthreads();
    }
    out[T] = label[T];
}
// right block=96
extern "C" __global__ void rounds_with_barriers(int* out, const int* x) {
    __shared__ int label[nodes];
    label[T] = x[T];
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
        int best = label[T];
        for (int e = first_edge(T); e < first_edge(T + 1); ++e) best = min(best, label[target(e)]);
        __syncthreads();
        label[T] = best;
        __syncthreads();
    }
    out[T] = label[T];
}
