// attention の逆伝播 (FlashAttention と同じ考え方、WMMA 版)
//
//   S  = scale * Q K^T          P  = exp(S - lse)            (causal なら j > i を 0 にする)
//   dV = P^T dO                 dP = dO V^T
//   dS = P * (dP - delta)       delta_i = sum_d O[i, d] * dO[i, d]
//   dQ = scale * dS K           dK = scale * dS^T Q
//
// q, k, v, o, dout, dk, dv : [batch * heads, L, 64] half,  dq : 同じ形で float (atomicAdd で足す)
// lse, delta               : [batch * heads, L] float      (lse は forward が保存した自然対数)
// L は任意。1 ブロックが key 32 個を担当し、query を 32 個ずつ回す。
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda::wmma;

namespace {

constexpr int D = 64;         // head の次元
constexpr int B = 32;         // query / key のブロック
constexpr int NT = 128;       // スレッド数 (4 warp)
constexpr int LDD = D + 8;    // half タイル [B][D] の幅
constexpr int LDS = B + 4;    // float タイル [B][B]
constexpr int LDP = B + 8;    // half タイル [B][B]
constexpr int LDO = D + 4;    // float タイル [B][D]

using AccFrag = fragment<accumulator, 16, 16, 16, float>;
using ARow = fragment<matrix_a, 16, 16, 16, half, row_major>;
using ACol = fragment<matrix_a, 16, 16, 16, half, col_major>;
using BRow = fragment<matrix_b, 16, 16, 16, half, row_major>;
using BCol = fragment<matrix_b, 16, 16, 16, half, col_major>;

// 32 x 64 のタイルを読む。L を超える行は 0
__device__ void load_tile(half (*dst)[LDD], const half* src, int row0, int L) {
    for (int i = threadIdx.x; i < B * D / 8; i += NT) {
        int r = i / (D / 8), c = i % (D / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row0 + r < L) v = *reinterpret_cast<const uint4*>(src + (size_t)(row0 + r) * D + c);
        *reinterpret_cast<uint4*>(&dst[r][c]) = v;
    }
}

// delta: 1 warp が 1 行
__global__ void delta_kernel(const half* o, const half* dout, float* delta, int rows) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float2 a = __half22float2(reinterpret_cast<const half2*>(o + (size_t)row * D)[lane]);
    float2 b = __half22float2(reinterpret_cast<const half2*>(dout + (size_t)row * D)[lane]);
    float s = a.x * b.x + a.y * b.y;
    for (int m = 16; m > 0; m /= 2) s += __shfl_xor_sync(0xffffffff, s, m);
    if (lane == 0) delta[row] = s;
}

__global__ void __launch_bounds__(NT)
attn_bwd_kernel(const half* q, const half* k, const half* v, const half* dout, const float* lse, const float* delta,
                float* dq, half* dk, half* dv, int L, float scale, bool causal) {
    __shared__ __align__(32) half sK[B][LDD], sV[B][LDD], sQ[B][LDD], sdO[B][LDD];
    __shared__ __align__(32) float sS[B][LDS], sdP[B][LDS];
    __shared__ __align__(32) half sP[B][LDP], sdS[B][LDP];
    __shared__ __align__(32) float sOut[B][LDO];

    const size_t head = (size_t)blockIdx.y * L;      // この head の先頭の行
    const int key0 = blockIdx.x * B;
    const int warp = threadIdx.x / 32;
    const int wr = warp / 2 * 16;                    // 32 x 32 の積: warp は 2 x 2
    const int wc = warp % 2 * 16;
    const int wd = warp % 2 * 32;                    // 32 x 64 の積: warp は 16 x 32

    q += head * D;  k += head * D;  v += head * D;  dout += head * D;
    dq += head * D; dk += head * D; dv += head * D;
    lse += head;    delta += head;

    load_tile(sK, k, key0, L);
    load_tile(sV, v, key0, L);

    AccFrag accK[2], accV[2];
    for (int j = 0; j < 2; j++) {
        fill_fragment(accK[j], 0.f);
        fill_fragment(accV[j], 0.f);
    }

    // causal のとき、key0 より前の query はこのブロックの key を見ない
    for (int q0 = causal ? key0 : 0; q0 < L; q0 += B) {
        load_tile(sQ, q, q0, L);
        load_tile(sdO, dout, q0, L);
        __syncthreads();

        // S = Q K^T と dP = dO V^T
        {
            AccFrag s, dp;
            fill_fragment(s, 0.f);
            fill_fragment(dp, 0.f);
            for (int d = 0; d < D; d += 16) {
                ARow a;
                BCol b;
                load_matrix_sync(a, &sQ[wr][d], LDD);
                load_matrix_sync(b, &sK[wc][d], LDD);
                mma_sync(s, a, b, s);
                load_matrix_sync(a, &sdO[wr][d], LDD);
                load_matrix_sync(b, &sV[wc][d], LDD);
                mma_sync(dp, a, b, dp);
            }
            store_matrix_sync(&sS[wr][wc], s, LDS, mem_row_major);
            store_matrix_sync(&sdP[wr][wc], dp, LDS, mem_row_major);
        }
        __syncthreads();

        // P と dS (要素ごと)。dS には scale も掛けておく
        for (int i = threadIdx.x; i < B * B; i += NT) {
            int r = i / B, c = i % B;
            int qi = q0 + r, kj = key0 + c;
            float p = 0.f, ds = 0.f;
            if (qi < L && kj < L && !(causal && kj > qi)) {
                p = expf(sS[r][c] * scale - lse[qi]);
                ds = p * (sdP[r][c] - delta[qi]) * scale;
            }
            sP[r][c] = __float2half(p);
            sdS[r][c] = __float2half(ds);
        }
        __syncthreads();

        // dV += P^T dO,  dK += dS^T Q  (転置は col_major で読むだけ)
        for (int r = 0; r < B; r += 16) {
            ACol pt, dst;
            load_matrix_sync(pt, &sP[r][wr], LDP);
            load_matrix_sync(dst, &sdS[r][wr], LDP);
            for (int j = 0; j < 2; j++) {
                BRow b;
                load_matrix_sync(b, &sdO[r][wd + j * 16], LDD);
                mma_sync(accV[j], pt, b, accV[j]);
                load_matrix_sync(b, &sQ[r][wd + j * 16], LDD);
                mma_sync(accK[j], dst, b, accK[j]);
            }
        }

        // dQ += dS K  (他のブロックも同じ query に足すので atomicAdd)
        for (int j = 0; j < 2; j++) {
            AccFrag acc;
            fill_fragment(acc, 0.f);
            for (int c = 0; c < B; c += 16) {
                ARow a;
                BRow b;
                load_matrix_sync(a, &sdS[wr][c], LDP);
                load_matrix_sync(b, &sK[c][wd + j * 16], LDD);
                mma_sync(acc, a, b, acc);
            }
            store_matrix_sync(&sOut[wr][wd + j * 16], acc, LDO, mem_row_major);
        }
        __syncthreads();   // sOut が揃う。sQ, sdO, sP, sdS もここで読み終わり
        for (int i = threadIdx.x; i < B * D; i += NT) {
            int r = i / D, c = i % D;
            if (q0 + r < L) atomicAdd(&dq[(size_t)(q0 + r) * D + c], sOut[r][c]);
        }
    }
    __syncthreads();

    for (int j = 0; j < 2; j++) store_matrix_sync(&sOut[wr][wd + j * 16], accV[j], LDO, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < B * D; i += NT) {
        int r = i / D, c = i % D;
        if (key0 + r < L) dv[(size_t)(key0 + r) * D + c] = __float2half(sOut[r][c]);
    }
    __syncthreads();
    for (int j = 0; j < 2; j++) store_matrix_sync(&sOut[wr][wd + j * 16], accK[j], LDO, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < B * D; i += NT) {
        int r = i / D, c = i % D;
        if (key0 + r < L) dk[(size_t)(key0 + r) * D + c] = __float2half(sOut[r][c]);
    }
}

}  // namespace

extern "C" void attention_backward(const half* q, const half* k, const half* v, const half* o, const half* dout,
                                   const float* lse, float* delta, float* dq, half* dk, half* dv, int batch_heads,
                                   int L, float scale, bool causal, cudaStream_t stream) {
    const int rows = batch_heads * L;
    cudaMemsetAsync(dq, 0, (size_t)rows * D * sizeof(float), stream);
    delta_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(o, dout, delta, rows);
    dim3 grid((L + B - 1) / B, batch_heads);
    attn_bwd_kernel<<<grid, NT, 0, stream>>>(q, k, v, dout, lse, delta, dq, dk, dv, L, scale, causal);
}
