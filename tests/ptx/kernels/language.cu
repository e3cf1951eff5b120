// What the language makes of calls, tables, local arrays, printf, assert, atomics, intrinsics and math.
#include <cuda_fp16.h>

struct Pair {
    double weight;
    char tag[5];
    short count;
};
__constant__ Pair pairs[3] = {{1.5, "ab", 7}, {2.5, "cd", 8}};
__device__ const char* names[] = {"hello", "world"};
__device__ unsigned long long counter;
typedef int (*Callback)(int);

__device__ __noinline__ int triple(int n) { return 3 * n; }
__device__ __noinline__ int modulo(int n) { return n * 7 % 5 / 3; }
__device__ __noinline__ float3 spread(float x, float3 v) { return make_float3(x, v.y + x, v.z * x); }
__device__ Callback callbacks[2] = {triple, modulo};

extern "C" __global__ __launch_bounds__(128, 2) void everything(Pair p, int* out, const int* __restrict__ in, float* f,
                                                                double* d, half2* h, char c, bool flag, int n) {
    int t = threadIdx.x + blockIdx.x * blockDim.x;
    switch (in[t]) {
        case 0: out[1] = pairs[n].count; break;
        case 1: out[2] = triple(n); break;
        case 2: out[3] = modulo(n); break;
        case 3: out[4] = pairs[n].tag[2]; break;
        case 4: out[5] = names[n & 1][2]; break;
        case 5: f[0] = spread(f[1], make_float3(1, 2, f[2])).z; break;
        case 6: out[7] = __popc(n) + __clz(n) + __ffs(n) + __brev(n); break;
        case 7: f[2] = tanhf(f[1]) + erff(f[2]); break;
    }
    out[t] = __dp4a(n, n, n) + __byte_perm(n, t, 0x1234) + __funnelshift_l(n, t, 5) + __mulhi(n, t) + __usad(n, t, 3);
    f[t] = __expf(f[t]) + __logf(f[t]) + __fdividef(f[t], 3.f) + rsqrtf(f[t]) + sinf(f[t]) + powf(f[t], 2.5f) +
           fmodf(f[t], 2.f) + roundf(f[t]) + copysignf(f[t], f[0]) + __saturatef(f[t]) + isnan(f[t]);
    d[t] = exp(d[t]) + sqrt(d[t]) + d[t] / d[1] + __double2int_rn(d[t]) + rint(d[t]) + __ll2double_rn(t);
    h[t] = __hfma2(h[t], h[1], h[2]);
    h[t] = __hmax2(h2exp2(h[t]), h[0]);
    atomicAdd(out, 1), atomicMax(out + 1, 2), atomicCAS(out + 2, 1, 2), atomicExch(out + 3, 5), atomicAdd(f, 1.f);
    atomicAdd(d, 1.0), atomicAdd(h, h[1]), atomicAnd(out, 3), atomicInc((unsigned*)out, 7), atomicAdd(&counter, 1ull);
    out[t] += __shfl_xor_sync(~0u, t, 1) + __ballot_sync(~0u, t) + __all_sync(~0u, n) + __match_any_sync(~0u, t);
    __syncwarp();
    out[11] = __syncthreads_count(t) + __syncthreads_and(t) + __syncthreads_or(t);
    __threadfence(), __threadfence_block(), __threadfence_system();
    out[12] = clock() + (int)clock64() + c + flag + p.count + p.tag[3];
    int local[40];
    for (int i = 0; i < 40; i++) local[i] = in[i];
    f[9] = local[n];
    out[13] = __ldg(in + 3) + __ldcg(in + 4) + __ldcs(in + 5) + __ldcv(in + 7);
    *(int4*)(out + 16) = *(int4*)(in + 8);
    out[30] = __isShared(out) + __isGlobal(out) + __isLocal(local);
    if (n == 77) __trap();
    assert(n < 100);
    printf("%d %f\n", n, f[1]);
}

extern "C" __global__ void indirect(int* out, int n) { out[0] = callbacks[n & 1](n); }
