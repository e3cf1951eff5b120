// Gradients of K and V in attention (FlashAttention backward, the part with one block per tile of keys).
//
//   P  = exp(scale * Q K^T - LSE)          dV = P^T dO
//   dS = P * (dO V^T - Delta)              dK = scale * dS^T Q
//
// All of q, k, v, dout, dk, dv are (B, S, H, HEAD) half with the strides given; lse, delta (B, H, S) float.
// Causal if kCausal.  32 keys per block, 32 queries per step, 4 warps in a 2 x 2 arrangement.

#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::accumulator;
using nvcuda::wmma::row_major;
using nvcuda::wmma::col_major;
using nvcuda::wmma::mem_row_major;

struct BwdParams {
    const half *q, *k, *v, *dout;
    const float *lse, *delta;
    half *dk, *dv;
    long long stride_b, stride_s, stride_h;
    int S, H;
    float scale;
};

template <int kHead>
struct BwdSmem {
    static constexpr int LD = kHead + 8;
    static constexpr int LDP = 32 + 8;
    static constexpr int LDF = 32 + 4;
    half q[32 * LD];
    half dout[32 * LD];
    half k[32 * LD];
    half v[32 * LD];
    half p[32 * LDP];
    half ds[32 * LDP];
    float s[32 * LDF];         // scores, and staging of the results
    float dp[32 * LDF];
    float lse[32];
    float delta[32];
};

template <int kHead>
__device__ inline void load_rows(half *dst, const half *src, long long stride, int first, int limit)
{
    constexpr int per_row = kHead / 8;
    for (int i = threadIdx.x; i < 32 * per_row; i += blockDim.x) {
        int r = i / per_row, c = (i % per_row) * 8;
        int4 x = make_int4(0, 0, 0, 0);
        if (first + r < limit)
            x = *reinterpret_cast<const int4 *>(src + (first + r) * stride + c);
        *reinterpret_cast<int4 *>(dst + r * BwdSmem<kHead>::LD + c) = x;
    }
}

template <int kHead, bool kCausal>
__global__ void attn_bwd_dkdv(BwdParams p)
{
    extern __shared__ __align__(128) unsigned char buf[];
    using Smem = BwdSmem<kHead>;
    Smem &sm = *reinterpret_cast<Smem *>(buf);
    constexpr int LD = Smem::LD, LDP = Smem::LDP, LDF = Smem::LDF;

    const int key0 = blockIdx.x * 32;
    const int h = blockIdx.y, b = blockIdx.z;
    const long long head = b * p.stride_b + h * p.stride_h;
    const float *lse = p.lse + ((long long)b * p.H + h) * p.S;
    const float *delta = p.delta + ((long long)b * p.H + h) * p.S;
    const int warp = threadIdx.x >> 5;
    const int wr = (warp >> 1) * 16, wc = (warp & 1) * 16;

    load_rows<kHead>(sm.k, p.k + head, p.stride_s, key0, p.S);
    load_rows<kHead>(sm.v, p.v + head, p.stride_s, key0, p.S);

    constexpr int NF = kHead / 32;      // column tiles of a warp in dK and dV
    fragment<accumulator, 16, 16, 16, float> dk[NF], dv[NF];
    for (int f = 0; f < NF; ++f) {
        nvcuda::wmma::fill_fragment(dk[f], 0.f);
        nvcuda::wmma::fill_fragment(dv[f], 0.f);
    }

    for (int q0 = kCausal ? key0 : 0; q0 < p.S; q0 += 32) {
        load_rows<kHead>(sm.q, p.q + head, p.stride_s, q0, p.S);
        load_rows<kHead>(sm.dout, p.dout + head, p.stride_s, q0, p.S);
        if (threadIdx.x < 32) {
            bool in = q0 + threadIdx.x < p.S;
            sm.lse[threadIdx.x] = in ? lse[q0 + threadIdx.x] : 0.f;
            sm.delta[threadIdx.x] = in ? delta[q0 + threadIdx.x] : 0.f;
        }
        __syncthreads();

        // S = Q K^T and dP = dO V^T; rows are queries
        {
            fragment<accumulator, 16, 16, 16, float> s, dp;
            nvcuda::wmma::fill_fragment(s, 0.f);
            nvcuda::wmma::fill_fragment(dp, 0.f);
            for (int d = 0; d < kHead; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> fa;
                fragment<matrix_b, 16, 16, 16, half, col_major> fb;
                nvcuda::wmma::load_matrix_sync(fa, sm.q + wr * LD + d, LD);
                nvcuda::wmma::load_matrix_sync(fb, sm.k + wc * LD + d, LD);
                nvcuda::wmma::mma_sync(s, fa, fb, s);
                nvcuda::wmma::load_matrix_sync(fa, sm.dout + wr * LD + d, LD);
                nvcuda::wmma::load_matrix_sync(fb, sm.v + wc * LD + d, LD);
                nvcuda::wmma::mma_sync(dp, fa, fb, dp);
            }
            nvcuda::wmma::store_matrix_sync(sm.s + wr * LDF + wc, s, LDF, mem_row_major);
            nvcuda::wmma::store_matrix_sync(sm.dp + wr * LDF + wc, dp, LDF, mem_row_major);
        }
        __syncthreads();

        for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) {
            const int r = i / 32, c = i % 32;
            const int qi = q0 + r, kj = key0 + c;
            const bool seen = qi < p.S && kj < p.S && (!kCausal || kj <= qi);
            const float prob = seen ? __expf(sm.s[r * LDF + c] * p.scale - sm.lse[r]) : 0.f;
            const float grad = prob * (sm.dp[r * LDF + c] - sm.delta[r]);
            sm.p[r * LDP + c] = __float2half(prob);
            sm.ds[r * LDP + c] = __float2half(grad);
        }
        __syncthreads();

        // dV += P^T dO, dK += dS^T Q; rows are keys
        for (int j = 0; j < 32; j += 16) {
            fragment<matrix_a, 16, 16, 16, half, col_major> pt, dst;
            nvcuda::wmma::load_matrix_sync(pt, sm.p + j * LDP + wr, LDP);
            nvcuda::wmma::load_matrix_sync(dst, sm.ds + j * LDP + wr, LDP);
            for (int f = 0; f < NF; ++f) {
                fragment<matrix_b, 16, 16, 16, half, row_major> fb;
                nvcuda::wmma::load_matrix_sync(fb, sm.dout + j * LD + f * 32 + wc, LD);
                nvcuda::wmma::mma_sync(dv[f], pt, fb, dv[f]);
                nvcuda::wmma::load_matrix_sync(fb, sm.q + j * LD + f * 32 + wc, LD);
                nvcuda::wmma::mma_sync(dk[f], dst, fb, dk[f]);
            }
        }
        __syncthreads();
    }

    half *dk_out = p.dk + head, *dv_out = p.dv + head;
    for (int f = 0; f < NF; ++f) {
        for (int i = 0; i < dk[f].num_elements; ++i) dk[f].x[i] *= p.scale;
        nvcuda::wmma::store_matrix_sync(sm.s + wr * LDF + wc, dk[f], LDF, mem_row_major);
        nvcuda::wmma::store_matrix_sync(sm.dp + wr * LDF + wc, dv[f], LDF, mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) {
            const int r = i / 32, c = i % 32;
            if (key0 + r < p.S) {
                const long long at = (key0 + r) * p.stride_s + f * 32 + c;
                dk_out[at] = __float2half(sm.s[r * LDF + c]);
                dv_out[at] = __float2half(sm.dp[r * LDF + c]);
            }
        }
        __syncthreads();
    }
}

void run_bwd_dkdv(const BwdParams &p, int B, bool causal, cudaStream_t stream)
{
    dim3 grid((p.S + 31) / 32, p.H, B);
    if (causal) attn_bwd_dkdv<64, true><<<grid, 128, sizeof(BwdSmem<64>), stream>>>(p);
    else attn_bwd_dkdv<64, false><<<grid, 128, sizeof(BwdSmem<64>), stream>>>(p);
}
