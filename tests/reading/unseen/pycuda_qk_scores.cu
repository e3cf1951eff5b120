// Attention scores for the visualiser notebook (we only need the logits, the
// softmax is done on the host where the user can play with the temperature).
//
// q, k    : [batch * heads, seq, HEAD_DIM]   float16
// scores  : [batch * heads, seq_q, seq_k]    float32
//
// PyCUDA usage
//   src = open('pycuda_qk_scores.cu').read()
//   mod = SourceModule(src, no_extern_c=True, options=['-DHEAD_DIM=64'], arch='sm_80')
//   f = mod.get_function('qk_scores')
//   f(q_gpu, k_gpu, s_gpu, np.int32(sq), np.int32(sk), np.float32(1/np.sqrt(64)),
//     grid=((sk+63)//64, (sq+31)//32, bh), block=(32, 4, 1))
#include <cuda_fp16.h>
#include <mma.h>

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif

#define TQ 32           // queries per block
#define TK 64           // keys per block
#define PITCH (HEAD_DIM + 8)

extern "C" {

__device__ inline void fetch_rows(__half (*dst)[PITCH], const __half *src, int first, int limit,
                                  int count)
{
    int t = threadIdx.y * 32 + threadIdx.x;
    for (; t < count * HEAD_DIM / 2; t += 128) {
        int r = (t * 2) / HEAD_DIM;
        int c = (t * 2) % HEAD_DIM;
        __half2 v = __float2half2_rn(0.0f);
        if (first + r < limit)
            v = *reinterpret_cast<const __half2 *>(src + (long long)(first + r) * HEAD_DIM + c);
        *reinterpret_cast<__half2 *>(&dst[r][c]) = v;
    }
}

__global__ void qk_scores(const __half *q, const __half *k, float *scores, int sq, int sk, float scale)
{
    using namespace nvcuda::wmma;

    __shared__ __align__(32) __half qs[TQ][PITCH];
    __shared__ __align__(32) __half ks[TK][PITCH];
    __shared__ __align__(32) float  out[TQ][TK + 8];

    int bh = blockIdx.z;
    int q0 = blockIdx.y * TQ;
    int k0 = blockIdx.x * TK;

    q      += (long long)bh * sq * HEAD_DIM;
    k      += (long long)bh * sk * HEAD_DIM;
    scores += (long long)bh * sq * sk;

    fetch_rows(qs, q, q0, sq, TQ);
    fetch_rows(ks, k, k0, sk, TK);
    __syncthreads();

    // 2 x 4 tiles over 4 warps: warp w takes key tile w, both query tiles
    int w = threadIdx.y;
    fragment<accumulator, 16, 16, 16, float> acc0, acc1;
    fill_fragment(acc0, 0.0f);
    fill_fragment(acc1, 0.0f);
    for (int d = 0; d < HEAD_DIM; d += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> a0, a1;
        fragment<matrix_b, 16, 16, 16, __half, col_major> b;
        load_matrix_sync(b, &ks[w * 16][d], PITCH);
        load_matrix_sync(a0, &qs[0][d], PITCH);
        load_matrix_sync(a1, &qs[16][d], PITCH);
        mma_sync(acc0, a0, b, acc0);
        mma_sync(acc1, a1, b, acc1);
    }
    store_matrix_sync(&out[0][w * 16], acc0, TK + 8, mem_row_major);
    store_matrix_sync(&out[16][w * 16], acc1, TK + 8, mem_row_major);
    __syncthreads();

    for (int r = threadIdx.y; r < TQ; r += blockDim.y) {
        if (q0 + r >= sq) break;
        for (int c = threadIdx.x; c < TK; c += 32)
            if (k0 + c < sk)
                scores[(long long)(q0 + r) * sk + k0 + c] = out[r][c] * scale;
    }
}

}  // extern "C"
