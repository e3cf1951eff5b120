#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>

// Flash decoding: one query per sequence, the keys cut into parts, their results combined by a second kernel.
//   q       [batch, heads, HEAD_DIM]          k, v  [batch, kv_heads, kv_len, HEAD_DIM]
//   partial_o [splits, batch, heads, HEAD_DIM], partial_m, partial_l [splits, batch, heads]

constexpr int HEAD_DIM = 128;
constexpr int CHUNK = 64;
constexpr int THREADS = 128;

__global__ void decode_partial_kernel(const half* __restrict__ q, const half* __restrict__ k,
                                      const half* __restrict__ v, float* __restrict__ partial_o,
                                      float* __restrict__ partial_m, float* __restrict__ partial_l, int batch,
                                      int heads, int kv_heads, int kv_len, int split_len, float scale) {
    const int split = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
    const int kv_head = head / (heads / kv_heads);
    const half* Q = q + ((size_t)b * heads + head) * HEAD_DIM;
    const half* K = k + ((size_t)b * kv_heads + kv_head) * kv_len * HEAD_DIM;
    const half* V = v + ((size_t)b * kv_heads + kv_head) * kv_len * HEAD_DIM;

    __shared__ half s_q[HEAD_DIM];
    __shared__ float s_p[CHUNK];
    __shared__ float s_red[THREADS / 32];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    s_q[tid] = Q[tid];
    __syncthreads();

    const int begin = split * split_len;
    const int end = min(kv_len, begin + split_len);
    float m = -INFINITY, l = 0.f, o = 0.f;
    for (int base = begin; base < end; base += CHUNK) {
        const int count = min(CHUNK, end - base);
        for (int j = warp; j < count; j += THREADS / 32) {
            float dot = 0.f;
            for (int d = lane; d < HEAD_DIM; d += 32)
                dot += __half2float(s_q[d]) * __half2float(K[(size_t)(base + j) * HEAD_DIM + d]);
            for (int off = 16; off > 0; off >>= 1) dot += __shfl_xor_sync(0xffffffff, dot, off);
            if (lane == 0) s_p[j] = dot * scale;
        }
        __syncthreads();
        float mx = -INFINITY;
        for (int j = tid; j < count; j += THREADS) mx = fmaxf(mx, s_p[j]);
        for (int off = 16; off > 0; off >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, off));
        if (lane == 0) s_red[warp] = mx;
        __syncthreads();
        mx = m;
        for (int w = 0; w < THREADS / 32; ++w) mx = fmaxf(mx, s_red[w]);
        const float fix = expf(m - mx);
        l *= fix;
        o *= fix;
        for (int j = 0; j < count; ++j) {
            const float p = expf(s_p[j] - mx);
            l += p;
            o += p * __half2float(V[(size_t)(base + j) * HEAD_DIM + tid]);
        }
        m = mx;
        __syncthreads();
    }
    const size_t at = ((size_t)split * batch + b) * heads + head;
    partial_o[at * HEAD_DIM + tid] = o;
    if (tid == 0) {
        partial_m[at] = m;
        partial_l[at] = l;
    }
}

__global__ void decode_combine_kernel(const float* __restrict__ partial_o, const float* __restrict__ partial_m,
                                      const float* __restrict__ partial_l, half* __restrict__ out, int splits,
                                      int batch, int heads) {
    const int head = blockIdx.x, b = blockIdx.y, d = threadIdx.x;
    float m = -INFINITY;
    for (int s = 0; s < splits; ++s) m = fmaxf(m, partial_m[((size_t)s * batch + b) * heads + head]);
    float l = 0.f, o = 0.f;
    for (int s = 0; s < splits; ++s) {
        const size_t at = ((size_t)s * batch + b) * heads + head;
        const float w = expf(partial_m[at] - m);
        l += w * partial_l[at];
        o += w * partial_o[at * HEAD_DIM + d];
    }
    out[((size_t)b * heads + head) * HEAD_DIM + d] = __float2half(o / l);
}

void flash_decoding(const half* q, const half* k, const half* v, half* out, float* workspace, int batch, int heads,
                    int kv_heads, int kv_len, cudaStream_t stream) {
    const int splits = std::min(8, (kv_len + CHUNK - 1) / CHUNK);
    const int split_len = ((kv_len + splits - 1) / splits + CHUNK - 1) / CHUNK * CHUNK;
    const int used = (kv_len + split_len - 1) / split_len;
    float* partial_o = workspace;
    float* partial_m = partial_o + (size_t)used * batch * heads * HEAD_DIM;
    float* partial_l = partial_m + (size_t)used * batch * heads;
    decode_partial_kernel<<<dim3(used, heads, batch), THREADS, 0, stream>>>(q, k, v, partial_o, partial_m, partial_l,
                                                                            batch, heads, kv_heads, kv_len, split_len,
                                                                            rsqrtf(HEAD_DIM));
    decode_combine_kernel<<<dim3(heads, batch), HEAD_DIM, 0, stream>>>(partial_o, partial_m, partial_l, out, used,
                                                                       batch, heads);
}
