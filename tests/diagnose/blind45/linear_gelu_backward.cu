/*
 * CS 5xx project: training an MLP on tensor cores.
 *
 * Backward pass of  out = gelu(x * w^T + b)  for the parameters:
 *     dz = dout * gelu'(pre)          pre = x * w^T + b, kept by the forward pass
 *     dw = dz^T * x                   [out_features, in_features]
 *     db = sum of dz over the batch   [out_features]
 *
 * One block computes a 64 x 64 tile of dw. The blocks of the first tile column also
 * compute db, since they have seen all of dz anyway.
 */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define TILE_OUT   64    // rows of dw in a block
#define TILE_IN    64    // columns of dw in a block
#define TILE_BATCH 32    // samples in one step
#define NTHREADS   256   // 8 warps: 4 along out, 2 along in

#define LD_DZ  (TILE_OUT + 8)
#define LD_X   (TILE_IN + 8)
#define LD_OUT (TILE_IN + 4)

// derivative of the tanh approximation of GELU
__device__ float gelu_backward(float x)
{
    const float s = 0.7978845608f;    // sqrt(2 / pi)
    const float c = 0.044715f;
    float inner = s * (x + c * x * x * x);
    float t = tanhf(inner);
    float sech2 = 1.0f - t * t;
    float dinner = s * (1.0f + 3.0f * c * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * sech2 * dinner;
}

__global__ void linear_gelu_backward(const half *dout, const half *pre, const half *x,
                                     float *dw, float *db,
                                     int batch, int out_features, int in_features)
{
    __shared__ __align__(32) half  s_dz[TILE_BATCH * LD_DZ];
    __shared__ __align__(32) half  s_x[TILE_BATCH * LD_X];
    __shared__ __align__(32) float s_dw[TILE_OUT * LD_OUT];
    __shared__ float s_db[NTHREADS / TILE_OUT][TILE_OUT];

    int tid  = threadIdx.x;
    int warp = tid / 32;
    int warp_out = warp % 4;       // 16 rows of dw
    int warp_in  = warp / 4;       // 32 columns of dw

    int out0 = blockIdx.y * TILE_OUT;
    int in0  = blockIdx.x * TILE_IN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    // 256 threads, 64 columns: a thread always sees the same column of dz
    float db_sum = 0.0f;

    int steps = (batch + TILE_BATCH - 1) / TILE_BATCH;
    for (int step = 0; step < steps; step++) {
        int b0 = step * TILE_BATCH;

        for (int i = tid; i < TILE_BATCH * TILE_OUT; i += NTHREADS) {
            int r = i / TILE_OUT;
            int c = i % TILE_OUT;
            float dz = 0.0f;
            if (b0 + r < batch && out0 + c < out_features) {
                int idx = (b0 + r) * out_features + out0 + c;
                float g = __half2float(dout[idx]);
                float z = __half2float(pre[idx]);
                dz = g * gelu_backward(z);
            }
            db_sum += dz;
            s_dz[r * LD_DZ + c] = __float2half(dz);
        }
        for (int i = tid; i < TILE_BATCH * TILE_IN; i += NTHREADS) {
            int r = i / TILE_IN;
            int c = i % TILE_IN;
            half val = __float2half(0.0f);
            if (b0 + r < batch && in0 + c < in_features)
                val = x[(b0 + r) * in_features + in0 + c];
            s_x[r * LD_X + c] = val;
        }
        __syncthreads();

        for (int k = 0; k < TILE_BATCH; k += 16) {
            // dz is [batch, out] in memory, dw needs its transpose: column-major
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a, s_dz + k * LD_DZ + warp_out * 16, LD_DZ);
            for (int j = 0; j < 2; j++) {
                wmma::load_matrix_sync(b, s_x + k * LD_X + warp_in * 32 + j * 16, LD_X);
                wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    // through shared memory, so that the edges can be left out
    for (int j = 0; j < 2; j++)
        wmma::store_matrix_sync(s_dw + warp_out * 16 * LD_OUT + warp_in * 32 + j * 16,
                                acc[j], LD_OUT, wmma::mem_row_major);
    s_db[tid / TILE_OUT][tid % TILE_OUT] = db_sum;
    __syncthreads();   // dw and the parts of db are there

    for (int i = tid; i < TILE_OUT * TILE_IN; i += NTHREADS) {
        int r = i / TILE_IN;
        int c = i % TILE_IN;
        if (out0 + r < out_features && in0 + c < in_features)
            dw[(out0 + r) * in_features + in0 + c] = s_dw[r * LD_OUT + c];
    }

    if (blockIdx.x == 0 && tid < TILE_OUT && out0 + tid < out_features) {
        float sum = 0.0f;
        for (int p = 0; p < NTHREADS / TILE_OUT; p++)
            sum += s_db[p][tid];
        db[out0 + tid] = sum;
    }
}
