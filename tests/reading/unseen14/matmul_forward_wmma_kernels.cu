/*
Kernels for matmul forward pass, out = inp * weight^T + bias

nvcc -O3 --use_fast_math matmul_forward_wmma_kernels.cu -o matmul_forward -lcublas

version 1 is naive, one thread per output
./matmul_forward 1

version 2 uses tensor cores through wmma, 64x64 per block
./matmul_forward 2
*/

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 floatX;

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
static void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

template<class T>
__host__ __device__ T ceil_div(T dividend, T divisor) {
    return (dividend + divisor - 1) / divisor;
}

float *make_random_float(size_t n) {
    float *arr = (float *)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) { arr[i] = ((float)rand() / RAND_MAX) * 2.0f - 1.0f; }
    return arr;
}

// ----------------------------------------------------------------------------
// CPU code reference

void matmul_forward_cpu(float* out, const float* inp, const float* weight, const float* bias, int B, int T, int C, int OC) {
    // inp is (B,T,C), weight is (OC, C), bias is (OC), out is (B,T,OC)
    #pragma omp parallel for collapse(2)
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            float* out_bt = out + b * T * OC + t * OC;
            const float* inp_bt = inp + b * T * C + t * C;
            for (int o = 0; o < OC; o++) {
                float val = (bias != NULL) ? bias[o] : 0.0f;
                const float* wrow = weight + o * C;
                for (int i = 0; i < C; i++) {
                    val += inp_bt[i] * wrow[i];
                }
                out_bt[o] = val;
            }
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels

__global__ void matmul_forward_kernel1(float* out, const floatX* inp, const floatX* weight, const floatX* bias, int BT, int C, int OC) {
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    int oc = blockIdx.y * blockDim.y + threadIdx.y;
    if (bt < BT && oc < OC) {
        float val = (bias != NULL) ? (float)bias[oc] : 0.0f;
        const floatX* wrow = weight + oc * C;
        const floatX* inp_bt = inp + bt * C;
        for (int i = 0; i < C; i++) {
            val += (float)inp_bt[i] * (float)wrow[i];
        }
        out[bt * OC + oc] = val;
    }
}

__global__ void __launch_bounds__(128) matmul_forward_kernel2(float* out, const floatX* inp, const floatX* weight, const floatX* bias, int BT, int C, int OC) {
    using namespace nvcuda::wmma;
    __shared__ float tile[4][32][36];
    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;
    int row0 = blockIdx.x * 64 + (warp_id / 2) * 32;
    int col0 = blockIdx.y * 64 + (warp_id % 2) * 32;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) { fill_fragment(acc[i][j], 0.0f); }
    }
    for (int k = 0; k < C; k += 16) {
        fragment<matrix_a, 16, 16, 16, floatX, row_major> a[2];
        fragment<matrix_b, 16, 16, 16, floatX, col_major> b[2];
        for (int i = 0; i < 2; i++) {
            load_matrix_sync(a[i], inp + (row0 + i * 16) * C + k, C);
            load_matrix_sync(b[i], weight + (col0 + i * 16) * C + k, C);
        }
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 2; j++) { mma_sync(acc[i][j], a[i], b[j], acc[i][j]); }
        }
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) { store_matrix_sync(&tile[warp_id][i * 16][j * 16], acc[i][j], 36, mem_row_major); }
    }
    __syncwarp();
    float b = (bias != NULL) ? (float)bias[col0 + lane_id] : 0.0f;
    for (int r = 0; r < 32; r++) {
        out[(row0 + r) * OC + col0 + lane_id] = tile[warp_id][r][lane_id] + b;
    }
}

// ----------------------------------------------------------------------------
// kernel launchers

void matmul_forward1(float* out, const floatX* inp, const floatX* weight, const floatX* bias, int B, int T, int C, int OC, const int sqrt_block_size) {
    dim3 gridDim(ceil_div(B * T, sqrt_block_size), ceil_div(OC, sqrt_block_size));
    dim3 blockDim(sqrt_block_size, sqrt_block_size);
    matmul_forward_kernel1<<<gridDim, blockDim>>>(out, inp, weight, bias, B*T, C, OC);
    cudaCheck(cudaGetLastError());
}

void matmul_forward2(float* out, const floatX* inp, const floatX* weight, const floatX* bias, int B, int T, int C, int OC) {
    dim3 gridDim(B * T / 64, OC / 64);
    matmul_forward_kernel2<<<gridDim, 128>>>(out, inp, weight, bias, B*T, C, OC);
    cudaCheck(cudaGetLastError());
}

void matmul_forward(int kernel_num, float* out, const floatX* inp, const floatX* weight, const floatX* bias, int B, int T, int C, int OC, const int sqrt_block_size) {
    switch (kernel_num) {
        case 1:
            matmul_forward1(out, inp, weight, bias, B, T, C, OC, sqrt_block_size);
            break;
        case 2:
            matmul_forward2(out, inp, weight, bias, B, T, C, OC);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
}

void validate_result(float* device_result, const float* cpu_reference, const char* name, int num_elements, float tolerance) {
    float* out_gpu = (float*)malloc(num_elements * sizeof(float));
    cudaCheck(cudaMemcpy(out_gpu, device_result, num_elements * sizeof(float), cudaMemcpyDeviceToHost));
    int nfaults = 0;
    for (int i = 0; i < num_elements; i++) {
        if (i < 5) { printf("%f %f\n", cpu_reference[i], out_gpu[i]); }
        if (fabs(cpu_reference[i] - out_gpu[i]) > tolerance || !isfinite(out_gpu[i])) {
            printf("Mismatch of %s at %d: CPU_ref: %f vs GPU: %f\n", name, i, cpu_reference[i], out_gpu[i]);
            nfaults++;
            if (nfaults >= 10) { free(out_gpu); exit(EXIT_FAILURE); }
        }
    }
    if (nfaults > 0) { free(out_gpu); exit(EXIT_FAILURE); }
    free(out_gpu);
}

floatX* to_device(const float* src, size_t n, float* rounded) {
    floatX* host = (floatX*)malloc(n * sizeof(floatX));
    for (size_t i = 0; i < n; i++) { host[i] = (floatX)src[i]; rounded[i] = (float)host[i]; }
    floatX* dev;
    cudaCheck(cudaMalloc(&dev, n * sizeof(floatX)));
    cudaCheck(cudaMemcpy(dev, host, n * sizeof(floatX), cudaMemcpyHostToDevice));
    free(host);
    return dev;
}

int main(int argc, char **argv) {
    srand(0);
    int B = 2;
    int T = 64;
    int C = 96;
    int OC = 4 * 64;

    int deviceIdx = 0;
    cudaCheck(cudaSetDevice(deviceIdx));

    float* out = (float*)malloc(B * T * OC * sizeof(float));
    float* inp = make_random_float(B * T * C);
    float* weight = make_random_float(OC * C);
    float* bias = make_random_float(OC);

    float* d_out;
    cudaCheck(cudaMalloc(&d_out, B * T * OC * sizeof(float)));
    floatX* d_inp = to_device(inp, B * T * C, inp);
    floatX* d_weight = to_device(weight, C * OC, weight);
    floatX* d_bias = to_device(bias, OC, bias);

    int kernel_num = 1;
    if (argc > 1) { kernel_num = atoi(argv[1]); }
    printf("Using kernel %d\n", kernel_num);

    matmul_forward_cpu(out, inp, weight, bias, B, T, C, OC);

    int sqrt_block_sizes[] = {4, 8, 16, 32};
    for (int j = 0; j < sizeof(sqrt_block_sizes) / sizeof(int); j++) {
        int sqrt_block_size = sqrt_block_sizes[j];
        printf("Checking block size %d x %d.\n", sqrt_block_size, sqrt_block_size);
        matmul_forward(kernel_num, d_out, d_inp, d_weight, d_bias, B, T, C, OC, sqrt_block_size);
        validate_result(d_out, out, "out", B * T * OC, 1e-1f);
    }
    printf("All results match. Starting benchmarks.\n\n");

    free(out);
    free(inp);
    free(weight);
    free(bias);
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_inp));
    cudaCheck(cudaFree(d_weight));
    cudaCheck(cudaFree(d_bias));
    return 0;
}
