// paged_decode.cu
//
// Attention for the decode phase of an LLM with a paged KV cache (block tables as in
// vLLM), grouped query attention and split-KV ("flash decoding").
//
//   rope_and_cache   apply rotary embedding to q and k of the new token, write k/v into
//                    their cache slot
//   decode_split     every block handles one (split, query head, sequence)
//   decode_combine   merges the splits
//
// cache layout: [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM] half
//
// $ nvcc -O3 -arch=native paged_decode.cu -o paged_decode && ./paged_decode

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>
#include <algorithm>

#define CUDA_OK(expr)                                                         \
    do {                                                                      \
        auto status = (expr);                                                 \
        if (status != cudaSuccess) {                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                \
                    cudaGetErrorString(status));                              \
            std::abort();                                                     \
        }                                                                     \
    } while (0)

constexpr int HEAD_DIM = 128;
constexpr int BLOCK_SIZE = 16;    // tokens per cache block
constexpr int SPLIT = 256;        // tokens per split
constexpr int NUM_WARPS = 4;
constexpr int VEC = HEAD_DIM / 32;  // dims per lane = 4
constexpr float ROPE_BASE = 10000.0f;

// grid (num_heads + 2 * num_kv_heads, num_seqs), HEAD_DIM / 2 threads.
// qkv: [num_seqs, num_heads + 2 * num_kv_heads, HEAD_DIM]
// The new token sits at position context_len - 1.
__global__ void rope_and_cache(const half* __restrict__ qkv, half* __restrict__ q,
                               half* __restrict__ k_cache, half* __restrict__ v_cache,
                               const int* __restrict__ block_table,
                               const int* __restrict__ context_lens, int num_heads,
                               int num_kv_heads, int max_blocks) {
    const int head = blockIdx.x;
    const int seq = blockIdx.y;
    const int i = threadIdx.x;
    const int pos = context_lens[seq] - 1;
    const half* src = qkv + ((size_t)seq * (num_heads + 2 * num_kv_heads) + head) * HEAD_DIM;

    float x0 = __half2float(src[i]);
    float x1 = __half2float(src[i + HEAD_DIM / 2]);

    if (head < num_heads + num_kv_heads) {   // q and k are rotated, v is not
        float freq = powf(ROPE_BASE, -2.0f * i / HEAD_DIM);
        float sn, cs;
        sincosf(pos * freq, &sn, &cs);
        float y0 = x0 * cs - x1 * sn;
        float y1 = x1 * cs + x0 * sn;
        x0 = y0;
        x1 = y1;
    }

    half* dst;
    if (head < num_heads) {
        dst = q + ((size_t)seq * num_heads + head) * HEAD_DIM;
    } else {
        const int kv = (head - num_heads) % num_kv_heads;
        half* cache = head < num_heads + num_kv_heads ? k_cache : v_cache;
        const int block = block_table[seq * max_blocks + pos / BLOCK_SIZE];
        dst = cache + (((size_t)block * BLOCK_SIZE + pos % BLOCK_SIZE) * num_kv_heads + kv) * HEAD_DIM;
    }
    dst[i] = __float2half(x0);
    dst[i + HEAD_DIM / 2] = __float2half(x1);
}

__device__ __forceinline__ void load4(const half* p, float (&f)[VEC]) {
    uint2 raw = *reinterpret_cast<const uint2*>(p);
    float2 lo = __half22float2(*reinterpret_cast<half2*>(&raw.x));
    float2 hi = __half22float2(*reinterpret_cast<half2*>(&raw.y));
    f[0] = lo.x; f[1] = lo.y; f[2] = hi.x; f[3] = hi.y;
}

// grid (num_splits, num_heads, num_seqs), NUM_WARPS * 32 threads
// part_o [num_seqs, num_heads, num_splits, HEAD_DIM], part_ml [num_seqs, num_heads, num_splits]
__global__ void decode_split(const half* __restrict__ q, const half* __restrict__ k_cache,
                             const half* __restrict__ v_cache, const int* __restrict__ block_table,
                             const int* __restrict__ context_lens, float* __restrict__ part_o,
                             float2* __restrict__ part_ml, int num_kv_heads, int max_blocks,
                             float scale) {
    const int split = blockIdx.x;
    const int head = blockIdx.y;
    const int seq = blockIdx.z;
    const int num_splits = gridDim.x;
    const int num_heads = gridDim.y;
    const int ctx = context_lens[seq];
    const int begin = split * SPLIT;
    const int end = min(ctx, begin + SPLIT);
    if (begin >= ctx) return;  // whole block, the combine kernel does not look at it

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int kv_head = head / (num_heads / num_kv_heads);
    const int* table = block_table + seq * max_blocks;

    float qv[VEC];
    load4(q + ((size_t)seq * num_heads + head) * HEAD_DIM + lane * VEC, qv);

    float m = -FLT_MAX, l = 0.0f;
    float acc[VEC] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int tok = begin + warp; tok < end; tok += NUM_WARPS) {
        const size_t slot = (size_t)table[tok / BLOCK_SIZE] * BLOCK_SIZE + tok % BLOCK_SIZE;
        const size_t off = (slot * num_kv_heads + kv_head) * HEAD_DIM + lane * VEC;
        float kv[VEC], vv[VEC];
        load4(k_cache + off, kv);
        load4(v_cache + off, vv);

        float dot = 0.0f;
#pragma unroll
        for (int d = 0; d < VEC; d++) dot += qv[d] * kv[d];
#pragma unroll
        for (int s = 16; s > 0; s >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, s);
        dot *= scale;

        const float m_new = fmaxf(m, dot);
        const float corr = expf(m - m_new);
        const float p = expf(dot - m_new);
        l = l * corr + p;
#pragma unroll
        for (int d = 0; d < VEC; d++) acc[d] = acc[d] * corr + p * vv[d];
        m = m_new;
    }

    // merge the four warps. A warp without tokens has m = -FLT_MAX, l = 0, acc = 0.
    __shared__ float s_m[NUM_WARPS], s_l[NUM_WARPS];
    __shared__ float s_acc[NUM_WARPS][HEAD_DIM];
    if (lane == 0) {
        s_m[warp] = m;
        s_l[warp] = l;
    }
#pragma unroll
    for (int d = 0; d < VEC; d++) s_acc[warp][lane * VEC + d] = acc[d];
    __syncthreads();

    float m_all = s_m[0];
#pragma unroll
    for (int w = 1; w < NUM_WARPS; w++) m_all = fmaxf(m_all, s_m[w]);
    float l_all = 0.0f, o = 0.0f;
    const int d = threadIdx.x;  // NUM_WARPS * 32 == HEAD_DIM
#pragma unroll
    for (int w = 0; w < NUM_WARPS; w++) {
        const float f = expf(s_m[w] - m_all);
        l_all += f * s_l[w];
        o += f * s_acc[w][d];
    }
    const size_t idx = ((size_t)seq * num_heads + head) * num_splits + split;
    part_o[idx * HEAD_DIM + d] = o;  // not normalised
    if (d == 0) part_ml[idx] = make_float2(m_all, l_all);
}

static_assert(NUM_WARPS * 32 == HEAD_DIM, "one thread per output dim");

// grid (num_heads, num_seqs), HEAD_DIM threads
__global__ void decode_combine(const float* __restrict__ part_o, const float2* __restrict__ part_ml,
                               const int* __restrict__ context_lens, half* __restrict__ out,
                               int num_splits) {
    const size_t row = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    const int used = (context_lens[blockIdx.y] + SPLIT - 1) / SPLIT;
    float m = -FLT_MAX;
    for (int s = 0; s < used; s++) m = fmaxf(m, part_ml[row * num_splits + s].x);
    float l = 0.0f, o = 0.0f;
    for (int s = 0; s < used; s++) {
        const float2 ml = part_ml[row * num_splits + s];
        const float f = expf(ml.x - m);
        l += f * ml.y;
        o += f * part_o[(row * num_splits + s) * HEAD_DIM + threadIdx.x];
    }
    out[row * HEAD_DIM + threadIdx.x] = __float2half(o / l);
}

template <typename T>
static T* to_device(const std::vector<T>& v) {
    T* p;
    CUDA_OK(cudaMalloc(&p, v.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main() {
    const int num_heads = 16, num_kv_heads = 4;
    const std::vector<int> ctx = {1, 17, 256, 700, 1025};
    const int num_seqs = (int)ctx.size();
    const int max_ctx = *std::max_element(ctx.begin(), ctx.end());
    const int max_blocks = (max_ctx + BLOCK_SIZE - 1) / BLOCK_SIZE;
    const int num_blocks = num_seqs * max_blocks;
    const int num_splits = (max_ctx + SPLIT - 1) / SPLIT;
    const float scale = 1.0f / std::sqrt((float)HEAD_DIM);

    std::mt19937 gen(123);
    std::normal_distribution<float> nd(0.0f, 1.0f);
    std::vector<half> qkv((size_t)num_seqs * (num_heads + 2 * num_kv_heads) * HEAD_DIM);
    std::vector<half> kc((size_t)num_blocks * BLOCK_SIZE * num_kv_heads * HEAD_DIM), vc(kc.size());
    for (auto& x : qkv) x = __float2half(nd(gen));
    for (auto& x : kc) x = __float2half(nd(gen));
    for (auto& x : vc) x = __float2half(nd(gen));
    // physical blocks are handed out in random order
    std::vector<int> table(num_blocks);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), gen);

    half *d_qkv = to_device(qkv), *d_kc = to_device(kc), *d_vc = to_device(vc), *d_q, *d_out;
    int *d_table = to_device(table), *d_ctx = to_device(ctx);
    float* d_po;
    float2* d_ml;
    const size_t rows = (size_t)num_seqs * num_heads;
    CUDA_OK(cudaMalloc(&d_q, rows * HEAD_DIM * sizeof(half)));
    CUDA_OK(cudaMalloc(&d_out, rows * HEAD_DIM * sizeof(half)));
    CUDA_OK(cudaMalloc(&d_po, rows * num_splits * HEAD_DIM * sizeof(float)));
    CUDA_OK(cudaMalloc(&d_ml, rows * num_splits * sizeof(float2)));

    rope_and_cache<<<dim3(num_heads + 2 * num_kv_heads, num_seqs), HEAD_DIM / 2>>>(
        d_qkv, d_q, d_kc, d_vc, d_table, d_ctx, num_heads, num_kv_heads, max_blocks);
    decode_split<<<dim3(num_splits, num_heads, num_seqs), NUM_WARPS * 32>>>(
        d_q, d_kc, d_vc, d_table, d_ctx, d_po, d_ml, num_kv_heads, max_blocks, scale);
    decode_combine<<<dim3(num_heads, num_seqs), HEAD_DIM>>>(d_po, d_ml, d_ctx, d_out, num_splits);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());

    std::vector<half> out(rows * HEAD_DIM);
    CUDA_OK(cudaMemcpy(out.data(), d_out, out.size() * sizeof(half), cudaMemcpyDeviceToHost));

    // reference: rotate on the host, then plain softmax over the whole context
    auto rope = [](const half* x, int pos, float* y) {
        for (int i = 0; i < HEAD_DIM / 2; i++) {
            float f = pos * std::pow(ROPE_BASE, -2.0f * i / HEAD_DIM);
            float a = __half2float(x[i]), b = __half2float(x[i + HEAD_DIM / 2]);
            y[i] = a * std::cos(f) - b * std::sin(f);
            y[i + HEAD_DIM / 2] = b * std::cos(f) + a * std::sin(f);
        }
    };
    float worst = 0.0f;
    for (int s = 0; s < num_seqs; s++) {
        for (int h = 0; h < num_heads; h++) {
            const int kvh = h / (num_heads / num_kv_heads);
            const half* base = &qkv[(size_t)s * (num_heads + 2 * num_kv_heads) * HEAD_DIM];
            float q[HEAD_DIM], k_new[HEAD_DIM];
            rope(base + h * HEAD_DIM, ctx[s] - 1, q);
            rope(base + (num_heads + kvh) * HEAD_DIM, ctx[s] - 1, k_new);
            const half* v_new = base + (num_heads + num_kv_heads + kvh) * HEAD_DIM;

            std::vector<double> p(ctx[s]);
            double mx = -1e30, sum = 0.0;
            auto off = [&](int t) {
                size_t slot = (size_t)table[s * max_blocks + t / BLOCK_SIZE] * BLOCK_SIZE + t % BLOCK_SIZE;
                return (slot * num_kv_heads + kvh) * HEAD_DIM;
            };
            for (int t = 0; t < ctx[s]; t++) {
                double dot = 0.0;
                for (int d = 0; d < HEAD_DIM; d++)
                    dot += q[d] * (t == ctx[s] - 1 ? k_new[d] : __half2float(kc[off(t) + d]));
                p[t] = dot * scale;
                mx = std::max(mx, p[t]);
            }
            for (auto& x : p) { x = std::exp(x - mx); sum += x; }
            for (int d = 0; d < HEAD_DIM; d++) {
                double o = 0.0;
                for (int t = 0; t < ctx[s]; t++)
                    o += p[t] * __half2float(t == ctx[s] - 1 ? v_new[d] : vc[off(t) + d]);
                float err = std::fabs((float)(o / sum) - __half2float(out[((size_t)s * num_heads + h) * HEAD_DIM + d]));
                worst = std::max(worst, err);
            }
        }
    }
    printf("max abs error: %g -> %s\n", worst, worst < 5e-3f ? "OK" : "FAILED");
    for (void* p : {(void*)d_qkv, (void*)d_kc, (void*)d_vc, (void*)d_q, (void*)d_out, (void*)d_table,
                    (void*)d_ctx, (void*)d_po, (void*)d_ml})
        CUDA_OK(cudaFree(p));
    return worst < 5e-3f ? 0 : 1;
}
