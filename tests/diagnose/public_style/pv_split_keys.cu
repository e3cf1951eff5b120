// O += P * V, keys split over blockIdx.x, partial results joined with atomicAdd.
// P: [BH, S, S] half (already normalised), V: [BH, S, D] half, O: [BH, S, D] float, must be zero before the launch
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdio>
#include <vector>
#include <cstdlib>

#define WM 16
#define KEYS_PER_SPLIT 64
#define HEAD_D 64

__global__ void pv_split_k(const __half *P, const __half *V, float *O, int S)
{
    using nvcuda::wmma::fragment;
    const int split = blockIdx.x;
    const int qb    = blockIdx.y;
    const int bh    = blockIdx.z;
    const int wid   = threadIdx.y;

    const __half *p = P + (size_t)bh * S * S + (size_t)qb * WM * S;
    const __half *v = V + (size_t)bh * S * HEAD_D;
    float        *o = O + (size_t)bh * S * HEAD_D + (size_t)qb * WM * HEAD_D;

    __shared__ float stage[4][WM * WM];

    const int begin = split * KEYS_PER_SPLIT;
    const int end   = min(begin + KEYS_PER_SPLIT, S);

    fragment<nvcuda::wmma::accumulator, WM, WM, WM, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int key = begin; key < end; key += WM) {
        fragment<nvcuda::wmma::matrix_a, WM, WM, WM, __half, nvcuda::wmma::row_major> pf;
        fragment<nvcuda::wmma::matrix_b, WM, WM, WM, __half, nvcuda::wmma::row_major> vf;
        nvcuda::wmma::load_matrix_sync(pf, p + key, S);
        nvcuda::wmma::load_matrix_sync(vf, v + key * HEAD_D + wid * WM, HEAD_D);
        nvcuda::wmma::mma_sync(acc, pf, vf, acc);
    }
    nvcuda::wmma::store_matrix_sync(stage[wid], acc, WM, nvcuda::wmma::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < WM * WM; e += 32)
        atomicAdd(&o[(e / WM) * HEAD_D + wid * WM + e % WM], stage[wid][e]);
}

int main()
{
    int BH = 3, S = 192;
    size_t np = (size_t)BH * S * S, nv = (size_t)BH * S * HEAD_D;
    std::vector<__half> hp(np), hv(nv);
    for (auto &x : hp) x = __float2half(rand() % 100 / 10000.f);
    for (auto &x : hv) x = __float2half(rand() % 100 / 100.f);
    __half *dp, *dv; float *dO;
    cudaMalloc(&dp, np * 2); cudaMalloc(&dv, nv * 2); cudaMalloc(&dO, nv * 4);
    cudaMemcpy(dp, hp.data(), np * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(dv, hv.data(), nv * 2, cudaMemcpyHostToDevice);
    cudaMemset(dO, 0, nv * sizeof(float));
    dim3 grid((S + KEYS_PER_SPLIT - 1) / KEYS_PER_SPLIT, S / WM, BH);
    dim3 block(32, 4);
    pv_split_k<<<grid, block>>>(dp, dv, dO, S);
    std::vector<float> ho(nv);
    cudaMemcpy(ho.data(), dO, nv * 4, cudaMemcpyDeviceToHost);
    float md = 0;
    for (int b = 0; b < BH; b++) for (int i = 0; i < S; i++) for (int d = 0; d < HEAD_D; d++) {
        float r = 0;
        for (int j = 0; j < S; j++) r += __half2float(hp[((size_t)b * S + i) * S + j]) * __half2float(hv[((size_t)b * S + j) * HEAD_D + d]);
        md = fmaxf(md, fabsf(r - ho[((size_t)b * S + i) * HEAD_D + d]));
    }
    printf("max diff %g\n", md);
}
