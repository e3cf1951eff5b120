#include <cmath>
#include <iostream>
#include <mma.h>
#include "gpu-new-forward.h"

using namespace nvcuda;

#define TILE_M 16
#define TILE_N 16
#define TILE_K 8

// One warp per 16x16 tile of the unrolled product: mask (Map_out x Channel*K*K) times the
// unrolled input (Channel*K*K x Height_out*Width_out), in TF32.
__global__ void conv_forward_kernel(float *output, const float *input, const float *mask, const int Batch,
                                    const int Map_out, const int Channel, const int Height, const int Width,
                                    const int K) {
    const int Height_out = Height - K + 1;
    const int Width_out = Width - K + 1;
    const int H_unroll = Channel * K * K;
    const int W_unroll = Height_out * Width_out;

#define out_4d(i3, i2, i1, i0) output[(i3) * (Map_out * Height_out * Width_out) + (i2) * (Height_out * Width_out) + (i1) * (Width_out) + i0]
#define in_4d(i3, i2, i1, i0) input[(i3) * (Channel * Height * Width) + (i2) * (Height * Width) + (i1) * (Width) + i0]
#define mask_4d(i3, i2, i1, i0) mask[(i3) * (Channel * K * K) + (i2) * (K * K) + (i1) * (K) + i0]

    __shared__ float tileA[TILE_M * TILE_K];
    __shared__ float tileB[TILE_K * TILE_N];
    __shared__ float tileC[TILE_M * TILE_N];

    const int b = blockIdx.z;
    const int rowBase = blockIdx.y * TILE_M;
    const int colBase = blockIdx.x * TILE_N;
    const int lane = threadIdx.x;

    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    for (int k0 = 0; k0 < H_unroll; k0 += TILE_K) {
        for (int i = lane; i < TILE_M * TILE_K; i += 32) {
            int m = rowBase + i / TILE_K, kk = k0 + i % TILE_K;
            tileA[i] = (m < Map_out && kk < H_unroll) ? mask[m * H_unroll + kk] : 0.0f;
        }
        for (int i = lane; i < TILE_K * TILE_N; i += 32) {
            int kk = k0 + i / TILE_N, col = colBase + i % TILE_N;
            float value = 0.0f;
            if (kk < H_unroll && col < W_unroll) {
                int c = kk / (K * K), p = kk % (K * K) / K, q = kk % K;
                value = in_4d(b, c, col / Width_out + p, col % Width_out + q);
            }
            tileB[i] = value;
        }
        __syncwarp();
        wmma::load_matrix_sync(a_frag, tileA, TILE_K);
        wmma::load_matrix_sync(b_frag, tileB, TILE_N);
        for (int t = 0; t < a_frag.num_elements; t++) a_frag.x[t] = wmma::__float_to_tf32(a_frag.x[t]);
        for (int t = 0; t < b_frag.num_elements; t++) b_frag.x[t] = wmma::__float_to_tf32(b_frag.x[t]);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
        __syncwarp();
    }
    wmma::store_matrix_sync(tileC, c_frag, TILE_N, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < TILE_M * TILE_N; i += 32) {
        int m = rowBase + i / TILE_N, col = colBase + i % TILE_N;
        if (m < Map_out && col < W_unroll) out_4d(b, m, col / Width_out, col % Width_out) = tileC[i];
    }

#undef out_4d
#undef in_4d
#undef mask_4d
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask, float **device_output_ptr, float **device_input_ptr, float **device_mask_ptr, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int Height_out = Height - K + 1;
    const int Width_out = Width - K + 1;
    cudaMalloc((void **)device_input_ptr, Batch * Channel * Height * Width * sizeof(float));
    cudaMalloc((void **)device_output_ptr, Batch * Map_out * Height_out * Width_out * sizeof(float));
    cudaMalloc((void **)device_mask_ptr, Map_out * Channel * K * K * sizeof(float));
    cudaMemcpy(*device_input_ptr, host_input, Batch * Channel * Height * Width * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(*device_mask_ptr, host_mask, Map_out * Channel * K * K * sizeof(float), cudaMemcpyHostToDevice);
}

__host__ void GPUInterface::conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int Height_out = Height - K + 1;
    const int Width_out = Width - K + 1;
    dim3 dimGrid((Height_out * Width_out + TILE_N - 1) / TILE_N, (Map_out + TILE_M - 1) / TILE_M, Batch);
    dim3 dimBlock(32, 1, 1);
    conv_forward_kernel<<<dimGrid, dimBlock>>>(device_output, device_input, device_mask, Batch, Map_out, Channel, Height, Width, K);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input, float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int Height_out = Height - K + 1;
    const int Width_out = Width - K + 1;
    cudaMemcpy(host_output, device_output, Batch * Map_out * Height_out * Width_out * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(device_output);
    cudaFree(device_input);
    cudaFree(device_mask);
}

__host__ void GPUInterface::get_device_properties()
{
    int deviceCount;
    cudaGetDeviceCount(&deviceCount);
    for (int dev = 0; dev < deviceCount; dev++) {
        cudaDeviceProp deviceProp;
        cudaGetDeviceProperties(&deviceProp, dev);
        std::cout << "Device " << dev << " name: " << deviceProp.name << std::endl;
    }
}
