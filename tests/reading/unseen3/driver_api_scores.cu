// Loaded as a cubin by the host program below (nvcc -cubin -arch=sm_80; g++ -DHOST host.cpp -lcuda).
// scores[b][i][j] = scale * sum_d q[b][i][d] * k[b][j][d]

#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void qk_scores(const half *q, const half *k, float *scores, float scale, int n_q, int n_k, int d)
{
    // 4 warps, one 16x16 tile each, two by two
    const int warp = threadIdx.y;
    const int i0 = blockIdx.y * 32 + (warp >> 1) * 16;
    const int j0 = blockIdx.x * 32 + (warp & 1) * 16;
    if (i0 >= n_q || j0 >= n_k) return;

    q += (size_t)blockIdx.z * n_q * d;
    k += (size_t)blockIdx.z * n_k * d;
    scores += (size_t)blockIdx.z * n_q * n_k;

    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fq;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> fk;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> s;
    nvcuda::wmma::fill_fragment(s, 0.0f);
    for (int c = 0; c < d; c += 16) {
        nvcuda::wmma::load_matrix_sync(fq, q + i0 * d + c, d);
        nvcuda::wmma::load_matrix_sync(fk, k + j0 * d + c, d);
        nvcuda::wmma::mma_sync(s, fq, fk, s);
    }
#pragma unroll
    for (int i = 0; i < s.num_elements; ++i) s.x[i] *= scale;
    nvcuda::wmma::store_matrix_sync(scores + i0 * n_k + j0, s, n_k, nvcuda::wmma::mem_row_major);
}

#ifdef HOST
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CU(x)                                           \
    do {                                                \
        CUresult r_ = (x);                              \
        if (r_ != CUDA_SUCCESS) {                       \
            const char *s_;                             \
            cuGetErrorString(r_, &s_);                  \
            fprintf(stderr, "%s: %s\n", #x, s_);        \
            exit(1);                                    \
        }                                               \
    } while (0)

int main()
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    CU(cuModuleLoad(&module, "qk_scores.cubin"));
    CU(cuModuleGetFunction(&function, module, "qk_scores"));

    int batch = 6, n_q = 128, n_k = 96, d = 64;
    float scale = 1.0f / sqrtf((float)d);
    CUdeviceptr q, k, scores;
    CU(cuMemAlloc(&q, (size_t)batch * n_q * d * 2));
    CU(cuMemAlloc(&k, (size_t)batch * n_k * d * 2));
    CU(cuMemAlloc(&scores, (size_t)batch * n_q * n_k * 4));
    CU(cuMemsetD16(q, 0x3c00, (size_t)batch * n_q * d));
    CU(cuMemsetD16(k, 0x3800, (size_t)batch * n_k * d));

    void *params[] = {&q, &k, &scores, &scale, &n_q, &n_k, &d};
    CU(cuLaunchKernel(function, (n_k + 31) / 32, (n_q + 31) / 32, batch, 32, 4, 1, 0, NULL, params, NULL));
    CU(cuCtxSynchronize());
    float first;
    CU(cuMemcpyDtoH(&first, scores, 4));
    printf("%f, expected %f\n", first, 0.5f * d * scale);
    return 0;
}
#endif
