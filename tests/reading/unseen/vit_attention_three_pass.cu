/* ViT-B/16 attention at 224x224, three kernels, for a student project.
 *
 * 14 * 14 patches + class token = 197 tokens, padded to 208 = 13 * 16. The pad
 * rows of Q, K, V are zero (the buffers are cudaMemset once).
 *
 *   S = Q K^T / 8          (vit_qk)
 *   P = softmax(S[:, :197]) (vit_softmax)
 *   O = P V                (vit_pv)
 */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;

#define SEQ      197
#define SEQ_PAD  208
#define HEADS    12
#define D_HEAD   64
#define SCALE    0.125f

/* one warp per 16x16 tile of S; block = 13 warps = one row of tiles */
__global__ void vit_qk(const half *Q, const half *K, float *S)
{
    int warp = threadIdx.x / 32;
    int bh = blockIdx.y;
    const half *q = Q + bh * SEQ_PAD * D_HEAD + blockIdx.x * 16 * D_HEAD;
    const half *k = K + bh * SEQ_PAD * D_HEAD + warp * 16 * D_HEAD;
    float *s = S + bh * SEQ_PAD * SEQ_PAD + blockIdx.x * 16 * SEQ_PAD + warp * 16;

    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    for (int i = 0; i < D_HEAD; i += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, col_major> b;
        load_matrix_sync(a, q + i, D_HEAD);
        load_matrix_sync(b, k + i, D_HEAD);
        mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; i++) c.x[i] *= SCALE;
    store_matrix_sync(s, c, SEQ_PAD, mem_row_major);
}

/* one warp per row */
__global__ void vit_softmax(const float *S, half *P)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    const float *s = S + row * SEQ_PAD;
    half *p = P + row * SEQ_PAD;

    float mx = -1e20f;
    for (int i = lane; i < SEQ; i += 32) mx = fmaxf(mx, s[i]);
    for (int o = 16; o > 0; o /= 2) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, o));
    float sum = 0.0f;
    for (int i = lane; i < SEQ; i += 32) sum += expf(s[i] - mx);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    for (int i = lane; i < SEQ_PAD; i += 32)
        p[i] = __float2half(i < SEQ ? expf(s[i] - mx) / sum : 0.0f);
}

/* one warp per 16x16 tile of O; block = 4 warps = 16 rows x 64 */
__global__ void vit_pv(const half *P, const half *V, half *O)
{
    int warp = threadIdx.x / 32;
    int bh = blockIdx.y;
    const half *p = P + bh * SEQ_PAD * SEQ_PAD + blockIdx.x * 16 * SEQ_PAD;
    const half *v = V + bh * SEQ_PAD * D_HEAD + warp * 16;
    half *o = O + bh * SEQ_PAD * D_HEAD + blockIdx.x * 16 * D_HEAD + warp * 16;

    fragment<accumulator, 16, 16, 16, half> c;
    fill_fragment(c, __float2half(0.0f));
    for (int i = 0; i < SEQ_PAD; i += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, p + i, SEQ_PAD);
        load_matrix_sync(b, v + i * D_HEAD, D_HEAD);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(o, c, D_HEAD, mem_row_major);
}

static void fill(half *h, int bh)
{
    for (int b = 0; b < bh; b++)
        for (int s = 0; s < SEQ_PAD; s++)
            for (int d = 0; d < D_HEAD; d++)
                h[(b * SEQ_PAD + s) * D_HEAD + d] =
                    __float2half(s < SEQ ? (float)rand() / RAND_MAX - 0.5f : 0.0f);
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 8;
    int bh = batch * HEADS;
    size_t nqkv = (size_t)bh * SEQ_PAD * D_HEAD;
    size_t ns = (size_t)bh * SEQ_PAD * SEQ_PAD;

    half *h = (half *)malloc(nqkv * sizeof(half));
    half *q, *k, *v, *p, *o;
    float *s;
    cudaMalloc(&q, nqkv * sizeof(half));
    cudaMalloc(&k, nqkv * sizeof(half));
    cudaMalloc(&v, nqkv * sizeof(half));
    cudaMalloc(&o, nqkv * sizeof(half));
    cudaMalloc(&p, ns * sizeof(half));
    cudaMalloc(&s, ns * sizeof(float));
    fill(h, bh); cudaMemcpy(q, h, nqkv * sizeof(half), cudaMemcpyHostToDevice);
    fill(h, bh); cudaMemcpy(k, h, nqkv * sizeof(half), cudaMemcpyHostToDevice);
    fill(h, bh); cudaMemcpy(v, h, nqkv * sizeof(half), cudaMemcpyHostToDevice);

    dim3 tiles(SEQ_PAD / 16, bh);
    vit_qk<<<tiles, 13 * 32>>>(q, k, s);
    vit_softmax<<<bh * SEQ_PAD / 8, 256>>>(s, p);
    vit_pv<<<tiles, (D_HEAD / 16) * 32>>>(p, v, o);
    cudaError_t err = cudaDeviceSynchronize();
    printf("batch %d: %s\n", batch, cudaGetErrorString(err));

    cudaMemcpy(h, o, nqkv * sizeof(half), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 8; i++) printf("%f ", __half2float(h[i]));
    printf("\n");
    free(h);
    return err != cudaSuccess;
}
