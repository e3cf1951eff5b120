/*
Matmul layer on tensor cores without cuBLAS: forward with bias and (optionally) fused GELU, and backward.

inp is (B,T,C), weight is (OC,C), bias is (OC), out is (B,T,OC)
B*T, C and OC all have to be multiples of 64 (true for all GPT-2 sizes with the padded vocab)

Compile example:
nvcc -O3 --use_fast_math -arch=sm_80 matmul_bias_gelu_bf16.cu -o matmul_bias_gelu_bf16
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <assert.h>
#include <type_traits>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 floatX;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define GELU_SCALING_FACTOR 0.7978845608028654f // sqrtf(2.0f / M_PI)

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// GPU kernels

__device__ float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(GELU_SCALING_FACTOR * (x + cube)));
}

__device__ float gelu_grad(float x) {
    float cube = 0.044715f * x * x * x;
    float tanh_out = tanhf(GELU_SCALING_FACTOR * (x + cube));
    float sech2 = 1.0f - tanh_out * tanh_out;
    return 0.5f * (1.0f + tanh_out) + 0.5f * x * sech2 * GELU_SCALING_FACTOR * (1.0f + 3.0f * 0.044715f * x * x);
}

enum Epilogue { EPI_BIAS, EPI_BIAS_GELU, EPI_DGELU, EPI_NONE, EPI_ACCUMULATE };

// C (M,N) = op(A) (M,K) * op(B) (K,N), everything row-major in memory
//   TransA: A is stored (K,M)     TransB: B is stored (N,K)
// block of 128 threads does 64x64 of C, each of the four warps 32x32
template <bool TransA, bool TransB, Epilogue epi>
__global__ void matmul_kernel(floatX* C, const floatX* A, const floatX* B,
                              const floatX* bias, floatX* pre_gelu, int M, int N, int K) {
    using namespace nvcuda::wmma;
    using LayoutA = typename std::conditional<TransA, col_major, row_major>::type;
    using LayoutB = typename std::conditional<TransB, col_major, row_major>::type;
    // tiles keep the orientation they have in memory, padded by 8
    constexpr int A_COLS = TransA ? 64 : 32;
    constexpr int B_COLS = TransB ? 32 : 64;
    constexpr int A_LD = A_COLS + 8;
    constexpr int B_LD = B_COLS + 8;
    __shared__ __align__(32) floatX a_tile[64 * 40];
    __shared__ __align__(32) floatX b_tile[64 * 40];
    __shared__ __align__(32) float c_tile[64 * 68];

    const int m0 = blockIdx.y * 64;
    const int n0 = blockIdx.x * 64;
    const int lda = TransA ? M : K;
    const int ldb = TransB ? K : N;
    const int warp = threadIdx.x / 32;
    const int wm = (warp / 2) * 32;
    const int wn = (warp % 2) * 32;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += 32) {
        const floatX* a_src = A + (TransA ? (size_t)k0 * lda + m0 : (size_t)m0 * lda + k0);
        const floatX* b_src = B + (TransB ? (size_t)n0 * ldb + k0 : (size_t)k0 * ldb + n0);
        // 64 * 32 elements = 256 vectors of 8, two per thread
        for (int v = threadIdx.x; v < 256; v += 128) {
            int ar = v / (A_COLS / 8), ac = v % (A_COLS / 8) * 8;
            *(int4*)(a_tile + ar * A_LD + ac) = *(const int4*)(a_src + (size_t)ar * lda + ac);
            int br = v / (B_COLS / 8), bc = v % (B_COLS / 8) * 8;
            *(int4*)(b_tile + br * B_LD + bc) = *(const int4*)(b_src + (size_t)br * ldb + bc);
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            fragment<matrix_a, 16, 16, 16, floatX, LayoutA> a[2];
            fragment<matrix_b, 16, 16, 16, floatX, LayoutB> b[2];
            for (int i = 0; i < 2; i++) {
                int m = wm + i * 16, n = wn + i * 16;
                load_matrix_sync(a[i], a_tile + (TransA ? k * A_LD + m : m * A_LD + k), A_LD);
                load_matrix_sync(b[i], b_tile + (TransB ? n * B_LD + k : k * B_LD + n), B_LD);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(c_tile + (wm + i * 16) * 68 + wn + j * 16, acc[i][j], 68, mem_row_major);
    __syncthreads();

    for (int e = threadIdx.x; e < 64 * 64; e += 128) {
        int row = e / 64, col = e % 64;
        size_t idx = (size_t)(m0 + row) * N + n0 + col;
        float val = c_tile[row * 68 + col];
        if (epi == EPI_BIAS || epi == EPI_BIAS_GELU) {
            if (bias != NULL) { val += __bfloat162float(bias[n0 + col]); }
        }
        if (epi == EPI_BIAS_GELU) {
            // backward needs the input of the gelu
            pre_gelu[idx] = __float2bfloat16(val);
            val = gelu(val);
        } else if (epi == EPI_DGELU) {
            val *= gelu_grad(__bfloat162float(pre_gelu[idx]));
        } else if (epi == EPI_ACCUMULATE) {
            val += __bfloat162float(C[idx]);
        }
        C[idx] = __float2bfloat16(val);
    }
}

// dbias += sum of dout over B*T. block is (32, 8), one block per 32 columns
__global__ void bias_backward_kernel(floatX* dbias, const floatX* dout, int BT, int OC) {
    __shared__ float partial[8][32];
    int oc = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int bt = threadIdx.y; bt < BT; bt += 8) { sum += __bfloat162float(dout[(size_t)bt * OC + oc]); }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int i = 1; i < 8; i++) { sum += partial[i][threadIdx.x]; }
        dbias[oc] = __float2bfloat16(__bfloat162float(dbias[oc]) + sum);
    }
}

// ----------------------------------------------------------------------------
// kernel launchers

// if pre_gelu is not NULL, out is gelu(pre_gelu)
void matmul_forward(floatX* out, floatX* pre_gelu, const floatX* inp, const floatX* weight, const floatX* bias,
                    int BT, int C, int OC) {
    assert(BT % 64 == 0 && C % 64 == 0 && OC % 64 == 0);
    dim3 grid(OC / 64, BT / 64);
    if (pre_gelu != NULL) {
        matmul_kernel<false, true, EPI_BIAS_GELU><<<grid, 128>>>(out, inp, weight, bias, pre_gelu, BT, OC, C);
    } else {
        matmul_kernel<false, true, EPI_BIAS><<<grid, 128>>>(out, inp, weight, bias, NULL, BT, OC, C);
    }
    cudaCheck(cudaGetLastError());
}

// pre_gelu here is the one of the layer below, i.e. has the shape of inp
void matmul_backward(floatX* dinp, floatX* dweight, floatX* dbias, const floatX* dout, const floatX* inp,
                     const floatX* weight, floatX* pre_gelu, int BT, int C, int OC) {
    if (dbias != NULL) {
        bias_backward_kernel<<<OC / 32, dim3(32, 8)>>>(dbias, dout, BT, OC);
    }
    // backward to input: (BT,OC) * (OC,C), is set
    dim3 grid(C / 64, BT / 64);
    if (pre_gelu != NULL) {
        matmul_kernel<false, false, EPI_DGELU><<<grid, 128>>>(dinp, dout, weight, NULL, pre_gelu, BT, C, OC);
    } else {
        matmul_kernel<false, false, EPI_NONE><<<grid, 128>>>(dinp, dout, weight, NULL, NULL, BT, C, OC);
    }
    // backward to weight: (OC,BT) * (BT,C), += in the backward pass
    dim3 grid_w(C / 64, OC / 64);
    matmul_kernel<true, false, EPI_ACCUMULATE><<<grid_w, 128>>>(dweight, dout, inp, NULL, NULL, OC, C, BT);
    cudaCheck(cudaGetLastError());
}

// ----------------------------------------------------------------------------
static floatX* make_random(size_t n, float scale, float** host) {
    floatX* tmp = (floatX*)malloc(n * sizeof(floatX));
    *host = (float*)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        tmp[i] = __float2bfloat16(((float)rand() / RAND_MAX * 2.0f - 1.0f) * scale);
        (*host)[i] = __bfloat162float(tmp[i]);
    }
    floatX* d;
    cudaCheck(cudaMalloc(&d, n * sizeof(floatX)));
    cudaCheck(cudaMemcpy(d, tmp, n * sizeof(floatX), cudaMemcpyHostToDevice));
    free(tmp);
    return d;
}

static void validate(const floatX* d, int r, int c, int cols, float ref, const char* name) {
    floatX v;
    cudaCheck(cudaMemcpy(&v, d + (size_t)r * cols + c, sizeof(floatX), cudaMemcpyDeviceToHost));
    if (fabsf(__bfloat162float(v) - ref) > 1e-2f + 2e-2f * fabsf(ref)) {
        printf("Mismatch of %s at (%d, %d): CPU %f vs GPU %f\n", name, r, c, ref, __bfloat162float(v));
        exit(EXIT_FAILURE);
    }
}

int main(void) {
    srand(0);
    const int BT = 4 * 128, C = 192, OC = 768;
    float *inp, *weight, *bias, *dout, *dweight, *dbias, *pre, *unused;
    floatX* d_inp = make_random((size_t)BT * C, 1.0f, &inp);
    floatX* d_weight = make_random((size_t)OC * C, 0.1f, &weight);
    floatX* d_bias = make_random(OC, 1.0f, &bias);
    floatX* d_dout = make_random((size_t)BT * OC, 1.0f, &dout);
    floatX* d_dweight = make_random((size_t)OC * C, 8.0f, &dweight);
    floatX* d_dbias = make_random(OC, 8.0f, &dbias);
    floatX* d_pre = make_random((size_t)BT * C, 2.0f, &pre);
    floatX* d_out = make_random((size_t)BT * OC, 0.0f, &unused);
    floatX* d_pre_out = make_random((size_t)BT * OC, 0.0f, &unused);
    floatX* d_dinp = make_random((size_t)BT * C, 0.0f, &unused);

    matmul_forward(d_out, d_pre_out, d_inp, d_weight, d_bias, BT, C, OC);
    matmul_backward(d_dinp, d_dweight, d_dbias, d_dout, d_inp, d_weight, d_pre, BT, C, OC);
    cudaCheck(cudaDeviceSynchronize());

    for (int t = 0; t < 2000; t++) { // spot checks
        int bt = rand() % BT, c = rand() % C, oc = rand() % OC;
        float o = bias[oc], di = 0.0f, dw = dweight[oc * C + c];
        for (int i = 0; i < C; i++) { o += inp[bt * C + i] * weight[oc * C + i]; }
        for (int i = 0; i < OC; i++) { di += dout[bt * OC + i] * weight[i * C + c]; }
        for (int i = 0; i < BT; i++) { dw += dout[i * OC + oc] * inp[i * C + c]; }
        float x = pre[bt * C + c], th = tanhf(GELU_SCALING_FACTOR * (x + 0.044715f * x * x * x));
        di *= 0.5f * (1 + th) + 0.5f * x * (1 - th * th) * GELU_SCALING_FACTOR * (1 + 3 * 0.044715f * x * x);
        validate(d_pre_out, bt, oc, OC, o, "pre_gelu");
        validate(d_out, bt, oc, OC, 0.5f * o * (1 + tanhf(GELU_SCALING_FACTOR * (o + 0.044715f * o * o * o))), "out");
        validate(d_dinp, bt, c, C, di, "dinp");
        validate(d_dweight, oc, c, C, dw, "dweight");
    }
    printf("All results match!\n");
    return 0;
}
