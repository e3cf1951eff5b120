// Attention forward for Gemma-2 style layers: grouped-query heads, logit soft-capping and a sliding window.
// Written while reading the FlashAttention-2 paper, so: one block per (query tile, head, batch), the loop runs over key
// tiles, the output is rescaled whenever the row maximum moves. Everything is WMMA; O lives in shared memory (fp32).
//
//   q [batch, seqlen, heads, D]    k, v [batch, seqlen, kv_heads, D]    o like q    lse [batch, heads, seqlen]
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

template <int HeadDim_, int BlockM_, int BlockN_>
struct Traits {
    static constexpr int HeadDim = HeadDim_;
    static constexpr int BlockM = BlockM_;
    static constexpr int BlockN = BlockN_;
    static constexpr int Warps = BlockM / 16;
    static constexpr int Threads = Warps * 32;
    static constexpr int LdIn = HeadDim + 8;   // q, k, v tiles (half)
    static constexpr int LdS = BlockN + 4;     // scores (float)
    static constexpr int LdP = BlockN + 8;     // probabilities (half)
    static constexpr int LdO = HeadDim + 4;    // output (float)
    static constexpr size_t SmemBytes = sizeof(float) * BlockM * (LdO + LdS) +
                                        sizeof(half) * ((BlockM + 2 * BlockN) * LdIn + BlockM * LdP);
};

struct AttnParams {
    const half *q, *k, *v;
    half *o;
    float *lse;
    int seqlen, heads, kv_heads;
    int window;  // a query sees itself and window - 1 keys before
    float softcap, scale;
};

template <typename T>
__device__ void load_tile(half *dst, const half *src, int tile_rows, int row0, int limit, int row_stride) {
    constexpr int VecsPerRow = T::HeadDim / 8;
    for (int i = threadIdx.x; i < tile_rows * VecsPerRow; i += T::Threads) {
        int r = i / VecsPerRow, c = (i % VecsPerRow) * 8;
        float4 data = make_float4(0.f, 0.f, 0.f, 0.f);
        if (row0 + r < limit) data = *reinterpret_cast<const float4 *>(src + (size_t)(row0 + r) * row_stride + c);
        *reinterpret_cast<float4 *>(dst + r * T::LdIn + c) = data;
    }
}

template <typename T>
__global__ void __launch_bounds__(T::Threads) gemma_attention(AttnParams p) {
    using namespace nvcuda::wmma;
    using OperandA = fragment<matrix_a, 16, 16, 16, half, row_major>;
    using Accum = fragment<accumulator, 16, 16, 16, float>;

    extern __shared__ __align__(128) unsigned char raw[];
    float *sO = reinterpret_cast<float *>(raw);
    float *sS = sO + T::BlockM * T::LdO;
    half *sQ = reinterpret_cast<half *>(sS + T::BlockM * T::LdS);
    half *sK = sQ + T::BlockM * T::LdIn;
    half *sV = sK + T::BlockN * T::LdIn;
    half *sP = sV + T::BlockN * T::LdIn;

    const int m0 = blockIdx.x * T::BlockM, head = blockIdx.y, batch = blockIdx.z;
    const int kv_head = head / (p.heads / p.kv_heads);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int q_stride = p.heads * T::HeadDim, kv_stride = p.kv_heads * T::HeadDim;

    const half *gQ = p.q + (size_t)batch * p.seqlen * q_stride + head * T::HeadDim;
    const half *gK = p.k + (size_t)batch * p.seqlen * kv_stride + kv_head * T::HeadDim;
    const half *gV = p.v + (size_t)batch * p.seqlen * kv_stride + kv_head * T::HeadDim;

    load_tile<T>(sQ, gQ, T::BlockM, m0, p.seqlen, q_stride);
    for (int i = threadIdx.x; i < T::BlockM * T::LdO; i += T::Threads) sO[i] = 0.f;

    // two lanes share a row of the warp's strip
    const int row = warp * 16 + lane / 2, side = lane % 2;
    const int query = m0 + row;
    float row_max = -INFINITY, row_sum = 0.f;

    const int n_begin = max(0, m0 - p.window + 1) / T::BlockN * T::BlockN;
    const int n_end = min(p.seqlen, m0 + T::BlockM);
    for (int n0 = n_begin; n0 < n_end; n0 += T::BlockN) {
        __syncthreads();  // the last tile is not needed any more
        load_tile<T>(sK, gK, T::BlockN, n0, p.seqlen, kv_stride);
        load_tile<T>(sV, gV, T::BlockN, n0, p.seqlen, kv_stride);
        __syncthreads();

        // S = Q K^T for the 16 rows of this warp
        for (int j = 0; j < T::BlockN / 16; j++) {
            Accum s;
            fill_fragment(s, 0.f);
            for (int d = 0; d < T::HeadDim / 16; d++) {
                OperandA a;
                fragment<matrix_b, 16, 16, 16, half, col_major> b;
                load_matrix_sync(a, sQ + warp * 16 * T::LdIn + d * 16, T::LdIn);
                load_matrix_sync(b, sK + j * 16 * T::LdIn + d * 16, T::LdIn);
                mma_sync(s, a, b, s);
            }
            for (int e = 0; e < s.num_elements; e++) {
                float x = s.x[e] * p.scale;
                s.x[e] = p.softcap > 0.f ? p.softcap * tanhf(x / p.softcap) : x;
            }
            store_matrix_sync(sS + warp * 16 * T::LdS + j * 16, s, T::LdS, mem_row_major);
        }
        __syncwarp();

        // online softmax, even columns by one lane of the pair and odd ones by the other
        float tile_max = -INFINITY;
        for (int c = side; c < T::BlockN; c += 2) {
            int key = n0 + c;
            bool visible = key <= query && query - key < p.window && key < p.seqlen;
            if (!visible) sS[row * T::LdS + c] = -INFINITY;
            tile_max = fmaxf(tile_max, sS[row * T::LdS + c]);
        }
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
        const float new_max = fmaxf(row_max, tile_max);
        const float base = new_max == -INFINITY ? 0.f : new_max;
        const float alpha = __expf(row_max - base);
        float tile_sum = 0.f;
        for (int c = side; c < T::BlockN; c += 2) {
            float e = __expf(sS[row * T::LdS + c] - base);
            tile_sum += e;
            sP[row * T::LdP + c] = __float2half(e);
        }
        tile_sum += __shfl_xor_sync(0xffffffffu, tile_sum, 1);
        row_sum = row_sum * alpha + tile_sum;
        row_max = new_max;
        for (int d = side; d < T::HeadDim; d += 2) sO[row * T::LdO + d] *= alpha;
        __syncwarp();

        // O += P V
        for (int d = 0; d < T::HeadDim / 16; d++) {
            Accum acc;
            load_matrix_sync(acc, sO + warp * 16 * T::LdO + d * 16, T::LdO, mem_row_major);
            for (int j = 0; j < T::BlockN / 16; j++) {
                OperandA a;
                fragment<matrix_b, 16, 16, 16, half, row_major> b;
                load_matrix_sync(a, sP + warp * 16 * T::LdP + j * 16, T::LdP);
                load_matrix_sync(b, sV + j * 16 * T::LdIn + d * 16, T::LdIn);
                mma_sync(acc, a, b, acc);
            }
            store_matrix_sync(sO + warp * 16 * T::LdO + d * 16, acc, T::LdO, mem_row_major);
        }
        __syncwarp();
    }

    if (query < p.seqlen) {
        half *gO = p.o + (size_t)batch * p.seqlen * q_stride + (size_t)query * q_stride + head * T::HeadDim;
        for (int d = side; d < T::HeadDim; d += 2) gO[d] = __float2half(sO[row * T::LdO + d] / row_sum);
        if (side == 0) p.lse[((size_t)batch * p.heads + head) * p.seqlen + query] = row_max + __logf(row_sum);
    }
}

void run_gemma_attention(const AttnParams &p, int batch, cudaStream_t stream) {
    using T = Traits<64, 32, 32>;
    dim3 grid((p.seqlen + T::BlockM - 1) / T::BlockM, p.heads, batch);
    gemma_attention<T><<<grid, T::Threads, T::SmemBytes, stream>>>(p);
}
