// Attention in three passes: S = Q K^T * scale, P = softmax(S), O = P V. Half in, half out, scores in float.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <float.h>

using namespace nvcuda;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char* file, int line);

// one warp: a 16 x 16 tile of the scores of one head
__global__ void qk_kernel(float* att, const half* q, const half* k, int T, int hs, float scale) {
    int h = blockIdx.z;
    int t1 = blockIdx.y * 16, t2 = blockIdx.x * 16;
    const half* qh = q + h * T * hs;
    const half* kh = k + h * T * hs;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < hs; i += 16) {
        wmma::load_matrix_sync(fq, qh + t1 * hs + i, hs);
        wmma::load_matrix_sync(fk, kh + t2 * hs + i, hs);
        wmma::mma_sync(acc, fq, fk, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) { acc.x[i] *= scale; }
    wmma::store_matrix_sync(att + (size_t)h * T * T + t1 * T + t2, acc, T, wmma::mem_row_major);
}

// one warp to the row
__global__ void softmax_rows_kernel(half* probs, const float* att, int rows, int T) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) { return; }
    const float* x = att + (size_t)row * T;
    half* y = probs + (size_t)row * T;
    float maxval = -FLT_MAX;
    for (int i = lane; i < T; i += 32) { maxval = fmaxf(maxval, x[i]); }
    for (int o = 16; o > 0; o /= 2) { maxval = fmaxf(maxval, __shfl_xor_sync(0xFFFFFFFF, maxval, o)); }
    float sum = 0.0f;
    for (int i = lane; i < T; i += 32) { sum += expf(x[i] - maxval); }
    for (int o = 16; o > 0; o /= 2) { sum += __shfl_xor_sync(0xFFFFFFFF, sum, o); }
    for (int i = lane; i < T; i += 32) { y[i] = __float2half(expf(x[i] - maxval) / sum); }
}

// one warp: a 16 x 16 tile of the output of one head
__global__ void pv_kernel(half* out, const half* probs, const half* v, int T, int hs) {
    __shared__ float tile[256];
    int h = blockIdx.z;
    int t = blockIdx.y * 16, d = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < T; i += 16) {
        wmma::load_matrix_sync(fp, probs + (size_t)h * T * T + t * T + i, T);
        wmma::load_matrix_sync(fv, v + h * T * hs + i * hs + d, hs);
        wmma::mma_sync(acc, fp, fv, acc);
    }
    wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) {
        out[h * T * hs + (t + i / 16) * hs + d + i % 16] = __float2half(tile[i]);
    }
}

// q, k, v, out: (B * NH, T, hs)
void attention_forward(half* out, const half* q, const half* k, const half* v, int B, int T, int NH, int hs,
                       cudaStream_t stream) {
    float* att;
    half* probs;
    cudaCheck(cudaMallocAsync(&att, sizeof(float) * B * NH * T * T, stream));
    cudaCheck(cudaMallocAsync(&probs, sizeof(half) * B * NH * T * T, stream));
    const float scale = 1.0f / sqrtf((float)hs);
    qk_kernel<<<dim3(T / 16, T / 16, B * NH), 32, 0, stream>>>(att, q, k, T, hs, scale);
    const int block_size = 256;
    softmax_rows_kernel<<<CEIL_DIV(B * NH * T * 32, block_size), block_size, 0, stream>>>(probs, att, B * NH * T, T);
    pv_kernel<<<dim3(hs / 16, T / 16, B * NH), 32, 0, stream>>>(out, probs, v, T, hs);
    cudaCheck(cudaFreeAsync(att, stream));
    cudaCheck(cudaFreeAsync(probs, stream));
}
