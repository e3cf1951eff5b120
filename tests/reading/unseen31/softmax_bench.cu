// softmax_bench.cu
//
// Row-wise softmax of an R x C fp32 matrix, seven ways. Companion code for the blog post
// "How fast can softmax go?". Every version is checked against the CPU before it is timed.
//
//   nvcc -O3 --use_fast_math -arch=native softmax_bench.cu -o softmax_bench && ./softmax_bench
//
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                          \
    do {                                                                          \
        cudaError_t err__ = (call);                                               \
        if (err__ != cudaSuccess) {                                               \
            fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call,  \
                    cudaGetErrorString(err__));                                   \
            std::exit(EXIT_FAILURE);                                              \
        }                                                                         \
    } while (0)

constexpr int kWarp = 32;
constexpr unsigned kFull = 0xffffffffu;

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// ---------------------------------------------------------------- v0: a thread per row
__global__ void softmax_v0_naive(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= R) return;
    const float* in = x + (size_t)row * C;
    float* out = y + (size_t)row * C;

    float m = -FLT_MAX;
    for (int c = 0; c < C; c++) m = fmaxf(m, in[c]);
    float s = 0.f;
    for (int c = 0; c < C; c++) s += expf(in[c] - m);
    for (int c = 0; c < C; c++) out[c] = expf(in[c] - m) / s;
}

// ---------------------------------------------------------------- v1: a block per row, tree in smem
template <int BLOCK>
__global__ void softmax_v1_smem(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    __shared__ float buf[BLOCK];
    int tid = threadIdx.x;
    const float* in = x + (size_t)blockIdx.x * C;
    float* out = y + (size_t)blockIdx.x * C;

    float m = -FLT_MAX;
    for (int c = tid; c < C; c += BLOCK) m = fmaxf(m, in[c]);
    buf[tid] = m;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (tid < s) buf[tid] = fmaxf(buf[tid], buf[tid + s]);
        __syncthreads();
    }
    m = buf[0];
    __syncthreads();   // everybody has read buf[0] before it is reused

    float sum = 0.f;
    for (int c = tid; c < C; c += BLOCK) {
        float e = expf(in[c] - m);
        out[c] = e;
        sum += e;
    }
    buf[tid] = sum;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (tid < s) buf[tid] += buf[tid + s];
        __syncthreads();
    }
    float inv = 1.f / buf[0];
    for (int c = tid; c < C; c += BLOCK) out[c] *= inv;
}

// ---------------------------------------------------------------- warp helpers
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = kWarp / 2; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(kFull, v, o));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = kWarp / 2; o > 0; o >>= 1) v += __shfl_xor_sync(kFull, v, o);
    return v;
}

// ---------------------------------------------------------------- v2: a block per row, shuffles
template <int BLOCK>
__global__ void softmax_v2_shfl(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    constexpr int WARPS = BLOCK / kWarp;
    __shared__ float smax[WARPS], ssum[WARPS];
    int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
    const float* in = x + (size_t)blockIdx.x * C;
    float* out = y + (size_t)blockIdx.x * C;

    float m = -FLT_MAX;
    for (int c = tid; c < C; c += BLOCK) m = fmaxf(m, in[c]);
    m = warp_max(m);
    if (lane == 0) smax[warp] = m;
    __syncthreads();
    m = smax[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) m = fmaxf(m, smax[w]);

    float sum = 0.f;
    for (int c = tid; c < C; c += BLOCK) sum += __expf(in[c] - m);
    sum = warp_sum(sum);
    if (lane == 0) ssum[warp] = sum;
    __syncthreads();
    sum = ssum[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) sum += ssum[w];

    float inv = 1.f / sum;
    for (int c = tid; c < C; c += BLOCK) out[c] = __expf(in[c] - m) * inv;
}

// ---------------------------------------------------------------- v3: a warp per row
template <int ROWS_PER_BLOCK>
__global__ void softmax_v3_warp(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    int lane = threadIdx.x;
    int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y;
    if (row >= R) return;    // whole warps only
    const float* in = x + (size_t)row * C;
    float* out = y + (size_t)row * C;

    float m = -FLT_MAX;
    for (int c = lane; c < C; c += kWarp) m = fmaxf(m, in[c]);
    m = warp_max(m);
    float s = 0.f;
    for (int c = lane; c < C; c += kWarp) s += __expf(in[c] - m);
    s = warp_sum(s);
    for (int c = lane; c < C; c += kWarp) out[c] = __expf(in[c] - m) / s;
}

// ---------------------------------------------------------------- v4: online, (max, sum) in one pass
struct __align__(8) MaxSum {
    float m;
    float d;
};

__device__ __forceinline__ MaxSum combine(MaxSum a, MaxSum b) {
    bool a_bigger = a.m > b.m;
    MaxSum big = a_bigger ? a : b;
    MaxSum small = a_bigger ? b : a;
    MaxSum r;
    r.m = big.m;
    r.d = big.d + small.d * __expf(small.m - big.m);
    return r;
}

template <int BLOCK>
__global__ void softmax_v4_online(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    constexpr int WARPS = BLOCK / kWarp;
    static_assert(WARPS <= kWarp, "the last step is done by one warp");
    __shared__ MaxSum part[WARPS];
    __shared__ MaxSum total;
    int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
    const float* in = x + (size_t)blockIdx.x * C;
    float* out = y + (size_t)blockIdx.x * C;

    MaxSum t{-FLT_MAX, 0.f};
    for (int c = tid; c < C; c += BLOCK) t = combine(t, MaxSum{in[c], 1.f});

#pragma unroll
    for (int o = kWarp / 2; o > 0; o >>= 1) {
        MaxSum other;
        other.m = __shfl_xor_sync(kFull, t.m, o);
        other.d = __shfl_xor_sync(kFull, t.d, o);
        t = combine(t, other);
    }
    if (lane == 0) part[warp] = t;
    __syncthreads();
    if (warp == 0) {
        t = lane < WARPS ? part[lane] : MaxSum{-FLT_MAX, 0.f};
#pragma unroll
        for (int o = kWarp / 2; o > 0; o >>= 1) {
            MaxSum other;
            other.m = __shfl_xor_sync(kFull, t.m, o);
            other.d = __shfl_xor_sync(kFull, t.d, o);
            t = combine(t, other);
        }
        if (lane == 0) total = t;
    }
    __syncthreads();

    float m = total.m, inv = 1.f / total.d;
    for (int c = tid; c < C; c += BLOCK) out[c] = __expf(in[c] - m) * inv;
}

// ---------------------------------------------------------------- v5: a warp per row, row kept in registers
// C <= 32 * PER_LANE, one read and one write of global memory.
template <int PER_LANE, int ROWS_PER_BLOCK>
__global__ void softmax_v5_regs(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    int lane = threadIdx.x;
    for (int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y; row < R; row += gridDim.x * ROWS_PER_BLOCK) {
        const float* in = x + (size_t)row * C;
        float* out = y + (size_t)row * C;
        float v[PER_LANE];
        float m = -FLT_MAX;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int c = lane + i * kWarp;
            v[i] = c < C ? in[c] : -FLT_MAX;
            m = fmaxf(m, v[i]);
        }
        m = warp_max(m);
        float s = 0.f;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int c = lane + i * kWarp;
            v[i] = c < C ? __expf(v[i] - m) : 0.f;
            s += v[i];
        }
        s = warp_sum(s);
        float inv = 1.f / s;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int c = lane + i * kWarp;
            if (c < C) out[c] = v[i] * inv;
        }
    }
}

// ---------------------------------------------------------------- v6: a block per row, float4, row cached in smem
// C % 4 == 0, 4 * C bytes of dynamic shared memory.
template <int BLOCK>
__global__ void softmax_v6_vec4(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
    constexpr int WARPS = BLOCK / kWarp;
    extern __shared__ float4 row4[];
    __shared__ float red[WARPS];
    int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
    const float4* in = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * C);
    float4* out = reinterpret_cast<float4*>(y + (size_t)blockIdx.x * C);
    const int C4 = C / 4;

    float m = -FLT_MAX;
    for (int c = tid; c < C4; c += BLOCK) {
        float4 v = in[c];
        row4[c] = v;            // read back by the same thread only
        m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    m = warp_max(m);
    if (lane == 0) red[warp] = m;
    __syncthreads();
    m = warp_max(lane < WARPS ? red[lane] : -FLT_MAX);
    __syncthreads();

    float s = 0.f;
    for (int c = tid; c < C4; c += BLOCK) {
        float4 v = row4[c];
        v.x = __expf(v.x - m);
        v.y = __expf(v.y - m);
        v.z = __expf(v.z - m);
        v.w = __expf(v.w - m);
        row4[c] = v;
        s += v.x + v.y + v.z + v.w;
    }
    s = warp_sum(s);
    if (lane == 0) red[warp] = s;
    __syncthreads();
    s = warp_sum(lane < WARPS ? red[lane] : 0.f);

    float inv = 1.f / s;
    for (int c = tid; c < C4; c += BLOCK) {
        float4 v = row4[c];
        out[c] = make_float4(v.x * inv, v.y * inv, v.z * inv, v.w * inv);
    }
}

// ---------------------------------------------------------------- host side
static void softmax_cpu(const std::vector<float>& x, std::vector<float>& y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* in = x.data() + (size_t)r * C;
        float* out = y.data() + (size_t)r * C;
        float m = *std::max_element(in, in + C);
        double s = 0.0;
        for (int c = 0; c < C; c++) s += std::exp((double)in[c] - m);
        for (int c = 0; c < C; c++) out[c] = (float)(std::exp((double)in[c] - m) / s);
    }
}

struct Version {
    std::string name;
    std::function<bool(int, int)> usable;
    std::function<void(const float*, float*, int, int)> launch;
};

static float time_ms(const std::function<void()>& f, int reps) {
    cudaEvent_t beg, end;
    CUDA_CHECK(cudaEventCreate(&beg));
    CUDA_CHECK(cudaEventCreate(&end));
    for (int i = 0; i < 3; i++) f();
    CUDA_CHECK(cudaEventRecord(beg));
    for (int i = 0; i < reps; i++) f();
    CUDA_CHECK(cudaEventRecord(end));
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms;
    CUDA_CHECK(cudaEventElapsedTime(&ms, beg, end));
    CUDA_CHECK(cudaEventDestroy(beg));
    CUDA_CHECK(cudaEventDestroy(end));
    return ms / reps;
}

int main() {
    auto any = [](int, int) { return true; };
    std::vector<Version> versions = {
        {"v0 naive", any,
         [](const float* x, float* y, int R, int C) {
             softmax_v0_naive<<<ceil_div(R, 128), 128>>>(x, y, R, C);
         }},
        {"v1 smem tree", any,
         [](const float* x, float* y, int R, int C) { softmax_v1_smem<256><<<R, 256>>>(x, y, R, C); }},
        {"v2 shuffles", any,
         [](const float* x, float* y, int R, int C) { softmax_v2_shfl<256><<<R, 256>>>(x, y, R, C); }},
        {"v3 warp per row", any,
         [](const float* x, float* y, int R, int C) {
             softmax_v3_warp<4><<<ceil_div(R, 4), dim3(kWarp, 4)>>>(x, y, R, C);
         }},
        {"v4 online", any,
         [](const float* x, float* y, int R, int C) { softmax_v4_online<256><<<R, 256>>>(x, y, R, C); }},
        {"v5 registers", [](int, int C) { return C <= 32 * 32; },
         [](const float* x, float* y, int R, int C) {
             softmax_v5_regs<32, 4><<<std::min(ceil_div(R, 4), 1024), dim3(kWarp, 4)>>>(x, y, R, C);
         }},
        {"v6 float4 + smem row", [](int, int C) { return C % 4 == 0 && C * 4 <= 40 * 1024; },
         [](const float* x, float* y, int R, int C) {
             softmax_v6_vec4<256><<<R, 256, C * sizeof(float)>>>(x, y, R, C);
         }},
    };

    const std::pair<int, int> shapes[] = {{4096, 128}, {4096, 1000}, {2050, 1024}, {1024, 4097}, {512, 8192}};
    std::mt19937 rng(42);
    std::normal_distribution<float> dist(0.f, 3.f);
    bool all_ok = true;

    for (const auto& shape : shapes) {
        const int R = shape.first, C = shape.second;
        size_t n = (size_t)R * C;
        std::vector<float> hx(n), ref(n), hy(n);
        for (auto& v : hx) v = dist(rng);
        softmax_cpu(hx, ref, R, C);

        float *dx, *dy;
        CUDA_CHECK(cudaMalloc(&dx, n * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&dy, n * sizeof(float)));
        CUDA_CHECK(cudaMemcpy(dx, hx.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        printf("---- %d x %d\n", R, C);

        for (auto& v : versions) {
            if (!v.usable(R, C)) continue;
            CUDA_CHECK(cudaMemset(dy, 0xff, n * sizeof(float)));
            v.launch(dx, dy, R, C);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(hy.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
            float worst = 0.f;
            for (size_t i = 0; i < n; i++) {
                float e = std::fabs(hy[i] - ref[i]) / (ref[i] + 1e-6f);
                worst = e > worst || e != e ? e : worst;
            }
            bool ok = worst < 1e-3f;
            all_ok &= ok;
            float ms = time_ms([&] { v.launch(dx, dy, R, C); }, 50);
            printf("%-22s %8.4f ms  %8.1f GB/s  rel err %.2e %s\n", v.name.c_str(), ms,
                   2.0 * n * sizeof(float) / ms * 1e-6, worst, ok ? "" : "  <-- WRONG");
        }
        CUDA_CHECK(cudaFree(dx));
        CUDA_CHECK(cudaFree(dy));
    }
    return all_ok ? 0 : 1;
}
