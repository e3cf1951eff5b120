// Kernels of one decode step of a Llama style model (batch of one token), fp16 weights
// and KV cache, fp32 accumulation.  Device code only, the launches are in the runner:
//
//   rmsnorm_kernel            <<<1, 1024>>>
//   mat_vec_kernel            <<<ceil(d, 4), dim3(32, 4)>>>
//   rope_rotation_kernel      <<<num_heads, head_size / 2>>>
//   multi_head_attention_kernel <<<num_heads, 256, seq_len * sizeof(float)>>>
//   silu_mul_kernel           <<<ceil(hidden, 256), 256>>>
//   argmax_kernel             <<<1, 1024>>>
//
// blockDim.x is a multiple of 32 everywhere but in rope and at most 1024.

#include <cuda_fp16.h>
#include <math_constants.h>

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}

// all threads of the block get the result
__device__ float block_sum(float v) {
    __shared__ float shared_sum[32];
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) shared_sum[wid] = v;
    __syncthreads();
    v = lane < (blockDim.x >> 5) ? shared_sum[lane] : 0.0f;
    return warp_sum(v);
}
__device__ float block_max(float v) {
    __shared__ float shared_max[32];
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    v = warp_max(v);
    __syncthreads();
    if (lane == 0) shared_max[wid] = v;
    __syncthreads();
    v = lane < (blockDim.x >> 5) ? shared_max[lane] : -CUDART_INF_F;
    return warp_max(v);
}

// o = x / sqrt(mean(x^2) + eps) * weight
__global__ void rmsnorm_kernel(half* o, const half* x, const half* weight, int size) {
    float ss = 0.0f;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const float v = __half2float(x[i]);
        ss += v * v;
    }
    ss = block_sum(ss);
    ss = rsqrtf(ss / size + 1e-5f);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        o[i] = __float2half(__half2float(x[i]) * ss * __half2float(weight[i]));
    }
}

// y[d] = W[d][n] * x[n], a warp per row, n % 8 == 0; optionally adds the residual
__global__ void mat_vec_kernel(half* y, const half* x, const half* w, int n, int d, const half* residual) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= d) return;
    const half* wr = w + (size_t)row * n;

    float sum = 0.0f;
    for (int j = threadIdx.x * 8; j < n; j += 32 * 8) {
        const uint4 wv = *reinterpret_cast<const uint4*>(wr + j);
        const uint4 xv = *reinterpret_cast<const uint4*>(x + j);
        const half2* wh = reinterpret_cast<const half2*>(&wv);
        const half2* xh = reinterpret_cast<const half2*>(&xv);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float2 a = __half22float2(wh[k]);
            const float2 b = __half22float2(xh[k]);
            sum += a.x * b.x + a.y * b.y;
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) {
        if (residual) sum += __half2float(residual[row]);
        y[row] = __float2half(sum);
    }
}

// GPT-J style: the pairs are neighbours (as in the original Llama weights).
// q: [num_heads][head_size], k: [num_kv_heads][head_size], in place
__global__ void rope_rotation_kernel(half* sq, half* sk, int pos, int num_kv_heads, int head_size, float theta) {
    const int h = blockIdx.x;
    const int i = threadIdx.x;   // pair
    const float freq = 1.0f / powf(theta, (float)(2 * i) / head_size);
    float fcr, fci;
    sincosf(pos * freq, &fci, &fcr);

    half* q = sq + h * head_size;
    const float q0 = __half2float(q[2 * i]);
    const float q1 = __half2float(q[2 * i + 1]);
    q[2 * i] = __float2half(q0 * fcr - q1 * fci);
    q[2 * i + 1] = __float2half(q0 * fci + q1 * fcr);

    if (h < num_kv_heads) {
        half* k = sk + h * head_size;
        const float k0 = __half2float(k[2 * i]);
        const float k1 = __half2float(k[2 * i + 1]);
        k[2 * i] = __float2half(k0 * fcr - k1 * fci);
        k[2 * i + 1] = __float2half(k0 * fci + k1 * fcr);
    }
}

// GPT-NeoX / Hugging Face style: i is paired with i + head_size / 2
__global__ void rope_neox_kernel(half* x, const int* positions, int num_heads, int head_size, float theta) {
    // grid (tokens, num_heads), block head_size / 2;  x: [tokens][num_heads][head_size]
    const int t = blockIdx.x;
    const int h = blockIdx.y;
    const int i = threadIdx.x;
    const int half_dim = head_size / 2;
    half* v = x + ((size_t)t * num_heads + h) * head_size;
    const float angle = positions[t] * powf(theta, -2.0f * i / head_size);
    float s, c;
    sincosf(angle, &s, &c);
    const float a = __half2float(v[i]);
    const float b = __half2float(v[i + half_dim]);
    v[i] = __float2half(a * c - b * s);
    v[i + half_dim] = __float2half(b * c + a * s);
}

// a head per block, keys 0 .. pos of the cache [max_seq_len][kv_dim], kv_dim = num_kv_heads * head_size.
// att in dynamic shared memory: (pos + 1) floats
__global__ void multi_head_attention_kernel(half* output, const half* sq, const half* key_cache,
                                            const half* value_cache, int head_size, int kv_dim, int kv_mul, int pos) {
    extern __shared__ float att[];
    const int h = blockIdx.x;
    const int kv_off = (h / kv_mul) * head_size;
    const half* q = sq + h * head_size;
    const int lane = threadIdx.x & 31;
    const int wid = threadIdx.x >> 5;
    const int nwarps = blockDim.x >> 5;
    const float scale = rsqrtf((float)head_size);

    // scores, a warp per key
    for (int t = wid; t <= pos; t += nwarps) {
        const half* k = key_cache + (size_t)t * kv_dim + kv_off;
        float score = 0.0f;
        for (int i = lane; i < head_size; i += 32) score += __half2float(q[i]) * __half2float(k[i]);
        score = warp_sum(score);
        if (lane == 0) att[t] = score * scale;
    }
    __syncthreads();

    // softmax
    float m = -CUDART_INF_F;
    for (int t = threadIdx.x; t <= pos; t += blockDim.x) m = fmaxf(m, att[t]);
    m = block_max(m);
    float sum = 0.0f;
    for (int t = threadIdx.x; t <= pos; t += blockDim.x) {
        const float e = expf(att[t] - m);
        att[t] = e;
        sum += e;
    }
    sum = block_sum(sum);   // has a barrier after the writes of att
    const float inv = 1.0f / sum;

    // weighted sum of the values, a thread per element
    for (int i = threadIdx.x; i < head_size; i += blockDim.x) {
        float acc = 0.0f;
        for (int t = 0; t <= pos; t++) {
            acc += att[t] * __half2float(value_cache[(size_t)t * kv_dim + kv_off + i]);
        }
        output[h * head_size + i] = __float2half(acc * inv);
    }
}

// SwiGLU: hb = silu(hb) * hb2
__global__ void silu_mul_kernel(half* hb, const half* hb2, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        const float v = __half2float(hb[i]);
        hb[i] = __float2half(v / (1.0f + expf(-v)) * __half2float(hb2[i]));
    }
}

// greedy sampling; ties go to the smaller index
__global__ void argmax_kernel(const half* logits, int size, int* result) {
    __shared__ float best_v[32];
    __shared__ int best_i[32];
    float v = -CUDART_INF_F;
    int idx = size;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const float x = __half2float(logits[i]);
        if (x > v || (x == v && i < idx)) { v = x; idx = i; }
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float ov = __shfl_xor_sync(0xffffffff, v, o);
        const int oi = __shfl_xor_sync(0xffffffff, idx, o);
        if (ov > v || (ov == v && oi < idx)) { v = ov; idx = oi; }
    }
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    if (lane == 0) { best_v[wid] = v; best_i[wid] = idx; }
    __syncthreads();
    if (wid == 0) {
        v = lane < (blockDim.x >> 5) ? best_v[lane] : -CUDART_INF_F;
        idx = lane < (blockDim.x >> 5) ? best_i[lane] : size;
        for (int o = 16; o > 0; o >>= 1) {
            const float ov = __shfl_xor_sync(0xffffffff, v, o);
            const int oi = __shfl_xor_sync(0xffffffff, idx, o);
            if (ov > v || (ov == v && oi < idx)) { v = ov; idx = oi; }
        }
        if (lane == 0) *result = idx;
    }
}
