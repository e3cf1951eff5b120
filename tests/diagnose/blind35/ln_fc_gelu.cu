/*
Fused layernorm -> matmul -> bias -> GELU, the first half of a GPT-2 MLP block.

version 1 in llm.c was three kernels: layernorm_forward, matmul_forward_cublaslt, gelu_forward
version 2 (this one) normalizes rows of inp while they are copied to shared memory.

inp (B*T, C), weight (OC, C), bias (OC), out (B*T, OC); mean and rstd are recomputed by every block.
*/
#include <cuda_bf16.h>
#include <mma.h>
#include <assert.h>

typedef __nv_bfloat16 floatX;
using namespace nvcuda;

#define WARP_SIZE 32
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define GELU_SCALING_FACTOR 0.7978845608f  // sqrt(2/pi)

constexpr int ROWS = 32;         // rows of inp per block
constexpr int COLS = 64;         // output channels per block
constexpr int KSTEP = 32;        // input channels per iteration
constexpr int LD = KSTEP + 8;
constexpr int BLOCK_SIZE = 128;  // 4 warps, 2 x 2, each 16 x 32

// 8 bf16 values, loaded and stored as 128 bits
struct alignas(16) x128 {
    floatX payload[8];
    __device__ floatX& operator[](int i) { return payload[i]; }
    __device__ const floatX& operator[](int i) const { return payload[i]; }
    __device__ static x128 zeros() {
        x128 r;
        for (int i = 0; i < 8; i++) { r.payload[i] = __float2bfloat16(0.0f); }
        return r;
    }
};
__device__ inline x128 load128(const floatX* address) { return *reinterpret_cast<const x128*>(address); }
__device__ inline void store128(floatX* address, const x128& value) { *reinterpret_cast<x128*>(address) = value; }

__device__ inline float warpReduceSum(float val) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

__device__ inline float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(GELU_SCALING_FACTOR * (x + cube)));
}

__global__ void layernorm_matmul_gelu_kernel2(floatX* out, const floatX* inp, const floatX* ln_w, const floatX* ln_b,
                                              const floatX* weight, const floatX* bias, int BT, int C, int OC) {
    __shared__ float s_mean[ROWS];
    __shared__ float s_rstd[ROWS];
    __shared__ alignas(32) floatX s_a[ROWS * LD];
    __shared__ alignas(32) floatX s_b[COLS * LD];
    __shared__ alignas(32) float s_out[ROWS * (COLS + 4)];

    int row0 = blockIdx.y * ROWS;
    int oc0 = blockIdx.x * COLS;
    int warp_id = threadIdx.x / WARP_SIZE;
    int lane_id = threadIdx.x % WARP_SIZE;
    int num_warps = blockDim.x / WARP_SIZE;

    // statistics: one warp per row, two passes
    for (int r = warp_id; r < ROWS; r += num_warps) {
        float m = 0.0f;
        float v = 0.0f;
        if (row0 + r < BT) {
            const floatX* x = inp + (size_t)(row0 + r) * C;
            float sum = 0.0f;
            for (int i = lane_id; i < C; i += WARP_SIZE) {
                sum += (float)x[i];
            }
            m = warpReduceSum(sum) / C;
            sum = 0.0f;
            for (int i = lane_id; i < C; i += WARP_SIZE) {
                float diff = (float)x[i] - m;
                sum += diff * diff;
            }
            v = warpReduceSum(sum) / C;
        }
        if (lane_id == 0) {
            s_mean[r] = m;
            s_rstd[r] = rsqrtf(v + 1e-5f);
        }
    }
    __syncthreads();

    int warp_row = (warp_id / 2) * 16;
    int warp_col = (warp_id % 2) * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    for (int j = 0; j < 2; j++) {
        wmma::fill_fragment(acc[j], 0.0f);
    }

    for (int k0 = 0; k0 < C; k0 += KSTEP) {
        // normalize a slice of the rows
        {
            int r = threadIdx.x / (KSTEP / 8);
            int k = (threadIdx.x % (KSTEP / 8)) * 8;
            x128 packed = x128::zeros();
            if (row0 + r < BT && k0 + k < C) {
                x128 x = load128(inp + (size_t)(row0 + r) * C + k0 + k);
                x128 w = load128(ln_w + k0 + k);
                x128 b = load128(ln_b + k0 + k);
                for (int i = 0; i < 8; i++) {
                    float n = s_rstd[r] * ((float)x[i] - s_mean[r]);
                    packed[i] = __float2bfloat16(n * (float)w[i] + (float)b[i]);
                }
            }
            store128(s_a + r * LD + k, packed);
        }
        // and copy the weights
        for (int idx = threadIdx.x; idx < COLS * KSTEP / 8; idx += blockDim.x) {
            int oc = idx / (KSTEP / 8);
            int k = (idx % (KSTEP / 8)) * 8;
            x128 packed = x128::zeros();
            if (oc0 + oc < OC && k0 + k < C) {
                packed = load128(weight + (size_t)(oc0 + oc) * C + k0 + k);
            }
            store128(s_b + oc * LD + k, packed);
        }
        __syncthreads();

        for (int kk = 0; kk < KSTEP; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> a_frag;
            wmma::load_matrix_sync(a_frag, s_a + warp_row * LD + kk, LD);
            for (int j = 0; j < 2; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::col_major> b_frag;
                wmma::load_matrix_sync(b_frag, s_b + (warp_col + j * 16) * LD + kk, LD);
                wmma::mma_sync(acc[j], a_frag, b_frag, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; j++) {
        wmma::store_matrix_sync(s_out + warp_row * (COLS + 4) + warp_col + j * 16, acc[j], COLS + 4,
                                wmma::mem_row_major);
    }
    __syncthreads();

    // epilogue, 8 channels of a row per thread (OC % 8 == 0)
    for (int idx = threadIdx.x; idx < ROWS * COLS / 8; idx += blockDim.x) {
        int r = idx / (COLS / 8);
        int c = (idx % (COLS / 8)) * 8;
        if (row0 + r >= BT || oc0 + c >= OC) { continue; }
        x128 b = load128(bias + oc0 + c);
        x128 result;
        for (int i = 0; i < 8; i++) {
            float x = s_out[r * (COLS + 4) + c + i] + (float)b[i];
            result[i] = __float2bfloat16(gelu(x));
        }
        store128(out + (size_t)(row0 + r) * OC + oc0 + c, result);
    }
}

void layernorm_matmul_gelu2(floatX* out, const floatX* inp, const floatX* ln_w, const floatX* ln_b,
                            const floatX* weight, const floatX* bias, int B, int T, int C, int OC) {
    assert(C % 8 == 0 && OC % 8 == 0);
    dim3 grid(CEIL_DIV(OC, COLS), CEIL_DIV(B * T, ROWS));
    layernorm_matmul_gelu_kernel2<<<grid, BLOCK_SIZE>>>(out, inp, ln_w, ln_b, weight, bias, B * T, C, OC);
}
