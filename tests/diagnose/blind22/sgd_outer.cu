// Weight gradient and SGD step in one: the gradient never goes to memory.
//   G = clip * (X^T dY) / batch + wd * W
//   V = mu * V + G
//   W = W - lr * (nesterov ? G + mu * V : V)
// and the same (without decay) for the bias, by the blocks of the first row of tiles.
// fp32 storage, TF32 tensor cores through WMMA, copies by the pipeline primitives.
#include <mma.h>
#include <cuda_pipeline.h>

using namespace nvcuda::wmma;

struct SgdHyper {
    float lr, mu, wd;
    int nesterov;
};

enum : int { TM = 64, TN = 64, TK = 16, SKEW = 4, STAGES = 2, NTHREADS = 128 };
enum : int { LDX = TM + SKEW, LDY = TN + SKEW, LDG = TN + SKEW };

struct Stage {
    float x[TK][LDX];
    float dy[TK][LDY];
};

// rows k0 .. k0 + TK of a [batch, width] matrix, columns c0 .. c0 + 64; width is a multiple of 4
template <int LD>
__device__ inline void copy_tile(float (*dst)[LD], const float *src, int k0, int batch, int c0, int width)
{
    for (int i = threadIdx.x; i < TK * 16; i += NTHREADS) {
        const int r = i >> 4, c = (i & 15) << 2;
        if (k0 + r < batch && c0 + c < width)
            __pipeline_memcpy_async(&dst[r][c], src + (size_t)(k0 + r) * width + c0 + c, sizeof(float4));
        else
            *reinterpret_cast<float4 *>(&dst[r][c]) = make_float4(0.f, 0.f, 0.f, 0.f);
    }
}

__device__ inline float sgd(float &w, float &v, float g, const SgdHyper &h)
{
    v = h.mu * v + g;
    w -= h.lr * (h.nesterov ? g + h.mu * v : v);
    return w;
}

extern "C" __global__ void __launch_bounds__(NTHREADS)
sgd_outer_step(const float *__restrict__ X,     // [batch, M]
               const float *__restrict__ dY,    // [batch, N]
               float *__restrict__ W, float *__restrict__ V,            // [M, N]
               float *__restrict__ bias, float *__restrict__ bias_v,    // [N]
               const float *__restrict__ clip,  // one number, from the norm of all gradients
               int batch, int M, int N, SgdHyper hyper)
{
    __shared__ __align__(32) union {
        Stage stage[STAGES];
        float g[TM][LDG];
    } sm;

    const int warp = threadIdx.x / 32;
    const int wm = (warp / 2) * 32, wn = (warp % 2) * 32;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    fragment<accumulator, 16, 16, 8, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) fill_fragment(acc[i][j], 0.0f);
    float bias_grad = 0.f;

    const int steps = (batch + TK - 1) / TK;
    copy_tile<LDX>(sm.stage[0].x, X, 0, batch, m0, M);
    copy_tile<LDY>(sm.stage[0].dy, dY, 0, batch, n0, N);
    __pipeline_commit();

    for (int s = 0; s < steps; s++) {
        if (s + 1 < steps) {
            Stage &next = sm.stage[(s + 1) % STAGES];
            copy_tile<LDX>(next.x, X, (s + 1) * TK, batch, m0, M);
            copy_tile<LDY>(next.dy, dY, (s + 1) * TK, batch, n0, N);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();

        const Stage &now = sm.stage[s % STAGES];
        for (int k = 0; k < TK; k += 8) {
            // X^T: the tile lies as [k][m], which is the left operand by columns
            fragment<matrix_a, 16, 16, 8, precision::tf32, col_major> a[2];
            fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b[2];
            for (int i = 0; i < 2; i++) {
                load_matrix_sync(a[i], &now.x[k][wm + i * 16], LDX);
                for (int e = 0; e < a[i].num_elements; e++) a[i].x[e] = __float_to_tf32(a[i].x[e]);
            }
            for (int j = 0; j < 2; j++) {
                load_matrix_sync(b[j], &now.dy[k][wn + j * 16], LDY);
                for (int e = 0; e < b[j].num_elements; e++) b[j].x[e] = __float_to_tf32(b[j].x[e]);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        if (threadIdx.x < TN)
            for (int k = 0; k < TK; k++) bias_grad += now.dy[k][threadIdx.x];
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(&sm.g[wm + i * 16][wn + j * 16], acc[i][j], LDG, mem_row_major);
    __syncthreads();

    const float factor = *clip / batch;
    for (int i = threadIdx.x; i < TM * TN; i += NTHREADS) {
        const int r = i / TN, c = i % TN;
        if (m0 + r < M && n0 + c < N) {
            const size_t at = (size_t)(m0 + r) * N + n0 + c;
            float w = W[at], v = V[at];
            W[at] = sgd(w, v, factor * sm.g[r][c] + hyper.wd * w, hyper);
            V[at] = v;
        }
    }
    if (blockIdx.y == 0 && threadIdx.x < TN && n0 + threadIdx.x < N) {
        const int n = n0 + threadIdx.x;
        float w = bias[n], v = bias_v[n];
        bias[n] = sgd(w, v, factor * bias_grad, hyper);
        bias_v[n] = v;
    }
}
