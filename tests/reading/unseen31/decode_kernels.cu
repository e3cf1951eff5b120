// decode_kernels.cu - the device side of llama2-q8: everything a single token goes through.
//
// Weights are Q8_0 as written by export.py: int8 values in groups of GS along the input
// dimension, one fp32 scale per group. Activations are quantized on the fly the same way, so
// the inner product of a group is done in integers (dp4a) and scaled once.
//
// This file is #included by run.cu, which owns the buffers and does the launches:
//
//   rmsnorm_kernel          <<<1, 1024>>>
//   quantize_q8_kernel      <<<ceil(n / GS, 8), 256>>>
//   matmul_q8_kernel        <<<ceil(d, 8), 256>>>
//   rope_kernel             <<<n_heads, head_size / 2>>>
//   append_kv_kernel        <<<ceil(kv_dim, 256), 256>>>
//   attn_split_kernel       <<<dim3(n_heads, n_splits), 128>>>
//   attn_combine_kernel     <<<n_heads, head_size>>>
//   swiglu_kernel           <<<ceil(hidden_dim, 256), 256>>>
//   accum_kernel            <<<ceil(dim, 256), 256>>>
//
// head_size is 64 or 128, the dimensions are multiples of GS. sm_61 or newer.

#include <cfloat>
#include <cstdint>
#include <cuda_fp16.h>

#define GS 64              // quantization group size
#define WARP 32
#define ATTN_WARPS 4

__device__ inline float warp_sum(float v) {
    for (int i = WARP / 2; i > 0; i >>= 1) v += __shfl_xor_sync(0xffffffff, v, i);
    return v;
}

__device__ inline float warp_max(float v) {
    for (int i = WARP / 2; i > 0; i >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, i));
    return v;
}

// o = x / rms(x) * weight, one block for the whole vector
__global__ void rmsnorm_kernel(float* o, const float* x, const float* weight, int size) {
    __shared__ float part[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;

    float ss = 0.0f;
    for (int j = threadIdx.x; j < size; j += blockDim.x) ss += x[j] * x[j];
    ss = warp_sum(ss);
    if (lane == 0) part[warp] = ss;
    __syncthreads();
    // every warp adds up the partial sums for itself
    ss = warp_sum(lane < n_warps ? part[lane] : 0.0f);

    ss = rsqrtf(ss / size + 1e-5f);
    for (int j = threadIdx.x; j < size; j += blockDim.x) o[j] = weight[j] * (ss * x[j]);
}

// one warp per group of GS = 64 values, two neighbours per lane
__global__ void quantize_q8_kernel(int8_t* q, float* s, const float* x, int n) {
    const int lane = threadIdx.x % WARP;
    const int group = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (group * GS >= n) return;

    const float2 v = ((const float2*)(x + group * GS))[lane];
    const float wmax = warp_max(fmaxf(fabsf(v.x), fabsf(v.y)));
    const float scale = wmax / 127.0f;
    const float inv = scale > 0.0f ? 1.0f / scale : 0.0f;

    char2 r;
    r.x = (signed char)__float2int_rn(v.x * inv);
    r.y = (signed char)__float2int_rn(v.y * inv);
    ((char2*)(q + group * GS))[lane] = r;
    if (lane == 0) s[group] = scale;
}

// xout (d) = W (d, n) @ x (n); a warp per row, 16 bytes of the row per lane and step
__global__ void matmul_q8_kernel(float* xout, const int8_t* xq, const float* xs,
                                 const int8_t* wq, const float* ws, int n, int d) {
    const int lane = threadIdx.x % WARP;
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (row >= d) return;

    const int8_t* w = wq + (size_t)row * n;
    const float* wscale = ws + (size_t)row * (n / GS);

    float sum = 0.0f;
    for (int j = lane * 16; j < n; j += WARP * 16) {
        const int4 a = *(const int4*)(w + j);
        const int4 b = *(const int4*)(xq + j);
        int ival = 0;
        ival = __dp4a(a.x, b.x, ival);
        ival = __dp4a(a.y, b.y, ival);
        ival = __dp4a(a.z, b.z, ival);
        ival = __dp4a(a.w, b.w, ival);
        sum += (float)ival * wscale[j / GS] * xs[j / GS];   // 16 values never straddle a group
    }
    sum = warp_sum(sum);
    if (lane == 0) xout[row] = sum;
}

// rotates the pairs (2i, 2i+1) of each head; only the first n_kv_heads heads of k exist
__global__ void rope_kernel(float* q, float* k, int pos, int n_kv_heads, int head_size) {
    const int h = blockIdx.x;
    const int i = threadIdx.x;      // pair
    const float freq = 1.0f / powf(10000.0f, (2 * i) / (float)head_size);
    float fcr, fci;
    sincosf(pos * freq, &fci, &fcr);

    float2* qp = (float2*)(q + h * head_size) + i;
    float2 v = *qp;
    *qp = make_float2(v.x * fcr - v.y * fci, v.x * fci + v.y * fcr);
    if (h < n_kv_heads) {
        float2* kp = (float2*)(k + h * head_size) + i;
        v = *kp;
        *kp = make_float2(v.x * fcr - v.y * fci, v.x * fci + v.y * fcr);
    }
}

// caches of one layer: [seq_len, kv_dim] half
__global__ void append_kv_kernel(half* key_cache, half* value_cache, const float* k, const float* v,
                                 int pos, int kv_dim) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kv_dim) return;
    key_cache[(size_t)pos * kv_dim + i] = __float2half(k[i]);
    value_cache[(size_t)pos * kv_dim + i] = __float2half(v[i]);
}

// Attention of one query head over one chunk of the cache ("flash decoding").
// The positions 0..pos are cut into gridDim.y chunks of equal length; the warps of the block
// take the positions of a chunk in turn, each with its own running maximum and sum, and are
// merged at the end. part_o [n_heads, n_splits, HS], part_ml [n_heads, n_splits] (max, sum).
template <int HS>
__global__ void attn_split_kernel(float* part_o, float2* part_ml, const float* q,
                                  const half* key_cache, const half* value_cache,
                                  int pos, int kv_dim, int kv_mul) {
    constexpr int PER_LANE = HS / WARP;     // 2 or 4
    __shared__ float sm_o[ATTN_WARPS][HS];
    __shared__ float sm_m[ATTN_WARPS], sm_l[ATTN_WARPS];

    const int h = blockIdx.x, split = blockIdx.y, n_splits = gridDim.y;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int len = pos + 1;
    const int chunk = (len + n_splits - 1) / n_splits;
    const int begin = split * chunk;
    const int end = min(len, begin + chunk);    // may be <= begin: an empty chunk

    const half* keys = key_cache + (h / kv_mul) * HS;
    const half* values = value_cache + (h / kv_mul) * HS;

    const float scale = rsqrtf((float)HS);
    float qr[PER_LANE], o[PER_LANE];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        qr[i] = q[h * HS + lane * PER_LANE + i] * scale;
        o[i] = 0.0f;
    }
    float m = -FLT_MAX, l = 0.0f;

    for (int t = begin + warp; t < end; t += ATTN_WARPS) {
        const half* kt = keys + (size_t)t * kv_dim + lane * PER_LANE;
        float s = 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) s += qr[i] * __half2float(kt[i]);
        s = warp_sum(s);

        const float m_new = fmaxf(m, s);
        const float corr = __expf(m - m_new);
        const float p = __expf(s - m_new);
        const half* vt = values + (size_t)t * kv_dim + lane * PER_LANE;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) o[i] = o[i] * corr + p * __half2float(vt[i]);
        l = l * corr + p;
        m = m_new;
    }

#pragma unroll
    for (int i = 0; i < PER_LANE; i++) sm_o[warp][lane * PER_LANE + i] = o[i];
    if (lane == 0) {
        sm_m[warp] = m;
        sm_l[warp] = l;
    }
    __syncthreads();

    // merge: thread i does component i (HS <= 128 threads)
    float m_all = sm_m[0];
    for (int w = 1; w < ATTN_WARPS; w++) m_all = fmaxf(m_all, sm_m[w]);
    if (threadIdx.x < HS) {
        float acc = 0.0f, l_all = 0.0f;
        for (int w = 0; w < ATTN_WARPS; w++) {
            const float f = __expf(sm_m[w] - m_all);    // a warp without positions: l = 0, o = 0
            acc += f * sm_o[w][threadIdx.x];
            l_all += f * sm_l[w];
        }
        const size_t slot = (size_t)h * n_splits + split;
        part_o[slot * HS + threadIdx.x] = acc;          // not normalised
        if (threadIdx.x == 0) part_ml[slot] = make_float2(m_all, l_all);
    }
}

// xb [n_heads * head_size]
__global__ void attn_combine_kernel(float* xb, const float* part_o, const float2* part_ml, int n_splits) {
    const int h = blockIdx.x, i = threadIdx.x, head_size = blockDim.x;
    const float2* ml = part_ml + (size_t)h * n_splits;
    const float* po = part_o + (size_t)h * n_splits * head_size;

    float m = -FLT_MAX;
    for (int s = 0; s < n_splits; s++) m = fmaxf(m, ml[s].x);
    float acc = 0.0f, l = 0.0f;
    for (int s = 0; s < n_splits; s++) {
        const float f = __expf(ml[s].x - m);
        acc += f * po[(size_t)s * head_size + i];
        l += f * ml[s].y;
    }
    xb[h * head_size + i] = acc / l;    // position 0 always exists, l > 0
}

// hb = silu(hb) * hb2
__global__ void swiglu_kernel(float* hb, const float* hb2, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = hb[i];
    hb[i] = v * (1.0f / (1.0f + expf(-v))) * hb2[i];
}

// residual connection
__global__ void accum_kernel(float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += y[i];
}
