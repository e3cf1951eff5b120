// Backward pass of a fully connected layer with ReLU:  out = relu(inp * weight + bias)
//   dz    = dout where out > 0, else 0
//   dinp  = dz * weight^T          (M, C) = (M, OC) x (C, OC)^T
//   dbias = column sums of dz      (OC), accumulated in float, as gradients are
// inp: (M, C), weight: (C, OC), out and dout: (M, OC). bf16 with float sums.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
typedef __nv_bfloat16 floatX;

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

constexpr int BLOCK_ROWS = 32;
constexpr int BLOCK_COLS = 64;
constexpr int BLOCK_OC = 32;
constexpr int LD_DZ = BLOCK_OC + 8;
constexpr int LD_W = BLOCK_OC + 8;
constexpr int LD_OUT = BLOCK_COLS + 4;

__global__ void fc_relu_backward_kernel(floatX* dinp, float* dbias, const floatX* dout, const floatX* out,
                                        const floatX* weight, int M, int C, int OC) {
    __shared__ __align__(32) floatX s_dz[BLOCK_ROWS * LD_DZ];
    __shared__ __align__(32) floatX s_w[BLOCK_COLS * LD_W];
    __shared__ __align__(32) float s_out[BLOCK_ROWS * LD_OUT];

    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;
    int row_start = blockIdx.y * BLOCK_ROWS;
    int c_start = blockIdx.x * BLOCK_COLS;
    // each of the four warps makes all 32 rows of 16 columns
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int oc_start = 0; oc_start < OC; oc_start += BLOCK_OC) {
        // gradient through the ReLU
        for (int i = threadIdx.x; i < BLOCK_ROWS * BLOCK_OC; i += blockDim.x) {
            int r = i / BLOCK_OC;
            int oc = i % BLOCK_OC;
            floatX g = __float2bfloat16(0.0f);
            if (row_start + r < M && oc_start + oc < OC) {
                size_t idx = (size_t)(row_start + r) * OC + oc_start + oc;
                if (__bfloat162float(out[idx]) > 0.0f) {
                    g = dout[idx];
                }
            }
            s_dz[r * LD_DZ + oc] = g;
        }
        for (int i = threadIdx.x; i < BLOCK_COLS * BLOCK_OC; i += blockDim.x) {
            int c = i / BLOCK_OC;
            int oc = i % BLOCK_OC;
            bool inside = c_start + c < C && oc_start + oc < OC;
            s_w[c * LD_W + oc] = inside ? weight[(size_t)(c_start + c) * OC + oc_start + oc] : __float2bfloat16(0.0f);
        }
        __syncthreads();

        // only the first column of blocks sums the bias, or it would be added once for each
        if (blockIdx.x == 0 && warp_id == 0) {
            float sum = 0.0f;
            for (int r = 0; r < BLOCK_ROWS; r++) {
                sum += __bfloat162float(s_dz[r * LD_DZ + lane_id]);
            }
            if (oc_start + lane_id < OC) {
                atomicAdd(&dbias[oc_start + lane_id], sum);
            }
        }

        for (int k = 0; k < BLOCK_OC; k += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::col_major> frag_w;
            wmma::load_matrix_sync(frag_w, s_w + warp_id * 16 * LD_W + k, LD_W);
            for (int i = 0; i < 2; i++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> frag_dz;
                wmma::load_matrix_sync(frag_dz, s_dz + i * 16 * LD_DZ + k, LD_DZ);
                wmma::mma_sync(acc[i], frag_dz, frag_w, acc[i]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++) {
        wmma::store_matrix_sync(s_out + i * 16 * LD_OUT + warp_id * 16, acc[i], LD_OUT, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_ROWS * BLOCK_COLS; i += blockDim.x) {
        int r = i / BLOCK_COLS;
        int c = i % BLOCK_COLS;
        if (row_start + r < M && c_start + c < C) {
            dinp[(size_t)(row_start + r) * C + c_start + c] = __float2bfloat16(s_out[r * LD_OUT + c]);
        }
    }
}

void fc_relu_backward(floatX* dinp, float* dbias, const floatX* dout, const floatX* out, const floatX* weight, int M,
                      int C, int OC, cudaStream_t stream) {
    dim3 grid(CEIL_DIV(C, BLOCK_COLS), CEIL_DIV(M, BLOCK_ROWS));
    fc_relu_backward_kernel<<<grid, 128, 0, stream>>>(dinp, dbias, dout, out, weight, M, C, OC);
}
