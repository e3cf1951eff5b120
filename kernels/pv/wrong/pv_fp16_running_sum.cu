// O = P * V per (batch, head). P already normalised, fp16 [BH, Sq, Skv]; V fp16 [BH, Skv, D]; O fp16 [BH, Sq, D].
// Block: 32 queries x all of D (D <= 128), warps split the columns.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_p;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_v;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_o;

static const int Q_TILE = 32;
static const int K_TILE = 32;

extern "C" __global__ void pv_gemm(const half* P, const half* V, half* O, int Sq, int Skv, int D)
{
    extern __shared__ __align__(64) unsigned char sbuf[];
    half* sP = (half*)sbuf;                        // [Q_TILE][K_TILE + 8]
    const int ldp = K_TILE + 8;
    half* sV = sP + Q_TILE * ldp;                  // [K_TILE][D + 8]
    const int ldv = D + 8;
    half* sO = sV + K_TILE * ldv;                  // [Q_TILE][D + 8]
    const int ldo = D + 8;

    const int bh = blockIdx.y;
    const int q0 = blockIdx.x * Q_TILE;
    const int nwarps = blockDim.x / 32, warp = threadIdx.x / 32;
    P += (size_t)bh * Sq * Skv;
    V += (size_t)bh * Skv * D;
    O += (size_t)bh * Sq * D;
    const half zero = __float2half(0.0f);

    for (int i = threadIdx.x; i < Q_TILE * ldo; i += blockDim.x) sO[i] = zero;

    for (int kv0 = 0; kv0 < Skv; kv0 += K_TILE) {
        for (int i = threadIdx.x; i < Q_TILE * K_TILE; i += blockDim.x) {
            int r = i / K_TILE, c = i % K_TILE;
            sP[r * ldp + c] = (q0 + r < Sq && kv0 + c < Skv) ? P[(size_t)(q0 + r) * Skv + kv0 + c] : zero;
        }
        for (int i = threadIdx.x; i < K_TILE * D; i += blockDim.x) {
            int r = i / D, c = i % D;
            sV[r * ldv + c] = kv0 + r < Skv ? V[(size_t)(kv0 + r) * D + c] : zero;
        }
        __syncthreads();

        for (int col = warp * 16; col < D; col += nwarps * 16) {
            for (int row = 0; row < Q_TILE; row += 16) {
                frag_o acc;
                wmma::load_matrix_sync(acc, sO + row * ldo + col, ldo, wmma::mem_row_major);
                for (int kk = 0; kk < K_TILE; kk += 16) {
                    frag_p a;
                    frag_v b;
                    wmma::load_matrix_sync(a, sP + row * ldp + kk, ldp);
                    wmma::load_matrix_sync(b, sV + kk * ldv + col, ldv);
                    wmma::mma_sync(acc, a, b, acc);
                }
                wmma::store_matrix_sync(sO + row * ldo + col, acc, ldo, wmma::mem_row_major);
            }
        }
        __syncthreads();
    }

    for (int i = threadIdx.x; i < Q_TILE * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        if (q0 + r < Sq) O[(size_t)(q0 + r) * D + c] = sO[r * ldo + c];
    }
}
