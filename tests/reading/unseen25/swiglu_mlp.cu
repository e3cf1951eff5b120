// MLP SwiGLU (LLaMA), deux noyaux :
//
//   h = silu(x Wg^T) * (x Wu^T)      gate_up_kernel : les deux produits partagent les tuiles de x
//   y = h Wd^T (+ residu)            down_kernel
//
// x [jetons, dim], Wg et Wu [inter, dim], Wd [dim, inter], tout en half et ligne par ligne.
// dim et inter : multiples de 32 ; le nombre de jetons est quelconque.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>

namespace mlp {

using namespace nvcuda;

constexpr int BM = 32;    // jetons par bloc
constexpr int BN = 32;    // sorties par bloc
constexpr int BK = 32;
constexpr int LDK = BK + 8;
constexpr int LDC = BN + 4;
constexpr int THREADS = 128;  // 4 warps, une tuile 16 x 16 chacun

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ __forceinline__ float silu(float x) { return x / (1.f + __expf(-x)); }

// Copie asynchrone d'une tuile 32 x 32 : 128 morceaux de 16 octets, un par thread.
// Les lignes au-dela de `limite` sont mises a zero.
__device__ __forceinline__ void charger_tuile(half (*dst)[LDK], const half* src, int ligne0, int limite, int k0, int ld) {
    const int l = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
    const bool dedans = ligne0 + l < limite;
    const half* p = src + (size_t)(dedans ? ligne0 + l : 0) * ld + k0 + c;
    __pipeline_memcpy_async(&dst[l][c], p, 16, dedans ? 0 : 16);
}

__global__ void __launch_bounds__(THREADS)
gate_up_kernel(const half* __restrict__ x, const half* __restrict__ wg, const half* __restrict__ wu,
               half* __restrict__ h, int jetons, int dim, int inter) {
    __shared__ __align__(32) half sx[2][BM][LDK];
    __shared__ __align__(32) half sg[2][BN][LDK];
    __shared__ __align__(32) half su[2][BN][LDK];
    __shared__ __align__(32) float cg[BM][LDC];
    __shared__ __align__(32) float cu[BM][LDC];

    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int wm = warp / 2 * 16, wn = warp % 2 * 16;

    FragC acc_g, acc_u;
    wmma::fill_fragment(acc_g, 0.f);
    wmma::fill_fragment(acc_u, 0.f);

    auto charger = [&](int etape, int k0) {
        charger_tuile(sx[etape], x, m0, jetons, k0, dim);
        charger_tuile(sg[etape], wg, n0, inter, k0, dim);
        charger_tuile(su[etape], wu, n0, inter, k0, dim);
        __pipeline_commit();
    };

    charger(0, 0);
    int etape = 0;
    for (int k0 = 0; k0 < dim; k0 += BK) {
        if (k0 + BK < dim) {
            charger(etape ^ 1, k0 + BK);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();

        for (int kk = 0; kk < BK; kk += 16) {
            FragA a;
            FragB b;
            wmma::load_matrix_sync(a, &sx[etape][wm][kk], LDK);
            wmma::load_matrix_sync(b, &sg[etape][wn][kk], LDK);
            wmma::mma_sync(acc_g, a, b, acc_g);
            wmma::load_matrix_sync(b, &su[etape][wn][kk], LDK);
            wmma::mma_sync(acc_u, a, b, acc_u);
        }
        __syncthreads();
        etape ^= 1;
    }

    wmma::store_matrix_sync(&cg[wm][wn], acc_g, LDC, wmma::mem_row_major);
    wmma::store_matrix_sync(&cu[wm][wn], acc_u, LDC, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < BM * BN / 2; i += THREADS) {
        const int l = i / (BN / 2), c = i % (BN / 2) * 2;
        if (m0 + l >= jetons) continue;
        const float h0 = silu(cg[l][c]) * cu[l][c];
        const float h1 = silu(cg[l][c + 1]) * cu[l][c + 1];
        *reinterpret_cast<half2*>(&h[(size_t)(m0 + l) * inter + n0 + c]) = __floats2half2_rn(h0, h1);
    }
}

template <bool RESIDU>
__global__ void __launch_bounds__(THREADS)
down_kernel(const half* __restrict__ h, const half* __restrict__ wd, const half* __restrict__ residu,
            half* __restrict__ y, int jetons, int dim, int inter) {
    __shared__ __align__(32) half sh[2][BM][LDK];
    __shared__ __align__(32) half sw[2][BN][LDK];
    __shared__ __align__(32) float c_smem[BM][LDC];

    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int wm = warp / 2 * 16, wn = warp % 2 * 16;

    FragC acc;
    wmma::fill_fragment(acc, 0.f);

    auto charger = [&](int etape, int k0) {
        charger_tuile(sh[etape], h, m0, jetons, k0, inter);
        charger_tuile(sw[etape], wd, n0, dim, k0, inter);
        __pipeline_commit();
    };

    charger(0, 0);
    int etape = 0;
    for (int k0 = 0; k0 < inter; k0 += BK) {
        if (k0 + BK < inter) {
            charger(etape ^ 1, k0 + BK);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            FragA a;
            FragB b;
            wmma::load_matrix_sync(a, &sh[etape][wm][kk], LDK);
            wmma::load_matrix_sync(b, &sw[etape][wn][kk], LDK);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
        etape ^= 1;
    }

    wmma::store_matrix_sync(&c_smem[wm][wn], acc, LDC, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < BM * BN; i += THREADS) {
        const int l = i / BN, c = i % BN;
        if (m0 + l >= jetons) continue;
        const size_t pos = (size_t)(m0 + l) * dim + n0 + c;
        float v = c_smem[l][c];
        if (RESIDU) v += __half2float(residu[pos]);
        y[pos] = __float2half(v);
    }
}

}  // namespace mlp

// h : tampon de travail [jetons, inter]. residu peut etre nul ; sinon il est ajoute a la sortie.
void launch_swiglu_mlp(const half* x, const half* w_gate, const half* w_up, const half* w_down, const half* residu,
                       half* h, half* y, int jetons, int dim, int inter, cudaStream_t stream) {
    if (dim % 32 != 0 || inter % 32 != 0) throw std::invalid_argument("dim et inter : multiples de 32");
    const int blocs_m = (jetons + mlp::BM - 1) / mlp::BM;
    mlp::gate_up_kernel<<<dim3(inter / mlp::BN, blocs_m), mlp::THREADS, 0, stream>>>(x, w_gate, w_up, h, jetons, dim,
                                                                                    inter);
    dim3 grille(dim / mlp::BN, blocs_m);
    if (residu)
        mlp::down_kernel<true><<<grille, mlp::THREADS, 0, stream>>>(h, w_down, residu, y, jetons, dim, inter);
    else
        mlp::down_kernel<false><<<grille, mlp::THREADS, 0, stream>>>(h, w_down, nullptr, y, jetons, dim, inter);
}
