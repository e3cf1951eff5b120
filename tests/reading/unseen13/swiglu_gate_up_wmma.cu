#include <cuda_fp16.h>
#include <mma.h>

// h = silu(x W1^T) * (x W3^T), as in LLaMA's feed-forward. W1, W3: [ffn_dim, dim]
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void ffn_gate_up(const half* x, const half* w1, const half* w3, half* h, int n_tokens, int dim, int ffn_dim) {
    using namespace nvcuda::wmma;
    __shared__ float buf[2][4][16][16];
    const int wid = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int r = blockIdx.x * 16;
    const int c = (blockIdx.y * 4 + wid) * 16;

    fragment<accumulator, 16, 16, 16, float> gate, up;
    fill_fragment(gate, 0.0f);
    fill_fragment(up, 0.0f);
    fragment<matrix_a, 16, 16, 16, half, row_major> fx;
    fragment<matrix_b, 16, 16, 16, half, col_major> fw;
    for (int k = 0; k < dim; k += 16) {
        load_matrix_sync(fx, x + r * dim + k, dim);
        load_matrix_sync(fw, w1 + c * dim + k, dim);
        mma_sync(gate, fx, fw, gate);
        load_matrix_sync(fw, w3 + c * dim + k, dim);
        mma_sync(up, fx, fw, up);
    }
    store_matrix_sync(&buf[0][wid][0][0], gate, 16, mem_row_major);
    store_matrix_sync(&buf[1][wid][0][0], up, 16, mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
        h[(r + i / 16) * ffn_dim + c + i % 16] = __float2half(silu(buf[0][wid][i / 16][i % 16]) * buf[1][wid][i / 16][i % 16]);
}

void launch_ffn_gate_up(const half* x, const half* w1, const half* w3, half* h, int n_tokens, int dim, int ffn_dim) {
    ffn_gate_up<<<dim3(n_tokens / 16, ffn_dim / 64), 128>>>(x, w1, w3, h, n_tokens, dim, ffn_dim);
}
