// Inclusive prefix sums of rows with tensor cores: a 16x16 tile X of one row (256 values) is scanned as
//   X U  +  L (X 1)   with U upper triangular ones, L strictly lower triangular ones.
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

static constexpr int SEGMENT = 256;

__global__ void tcu_inclusive_scan_rows(const half* __restrict__ in, float* __restrict__ out, int num_rows, int row_len) {
    __shared__ half u[256];
    __shared__ half tile[256];
    __shared__ float partial[256];
    const int lane = threadIdx.x;
    const int row = blockIdx.x;
    if (row >= num_rows) return;

    for (int i = lane; i < 256; i += 32) u[i] = __float2half((i / 16 <= i % 16) ? 1.0f : 0.0f);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> ones_up;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::load_matrix_sync(ones_up, u, 16);

    float carry = 0.0f;
    for (int base = 0; base < row_len; base += SEGMENT) {
        for (int i = lane; i < 256; i += 32)
            tile[i] = base + i < row_len ? in[(size_t)row * row_len + base + i] : __float2half(0.0f);
        __syncwarp();
        wmma::load_matrix_sync(x, tile, 16);
        wmma::fill_fragment(acc, 0.0f);
        wmma::mma_sync(acc, x, ones_up, acc);
        wmma::store_matrix_sync(partial, acc, 16, wmma::mem_row_major);
        __syncwarp();
        // totals of the sixteen lines, scanned by shuffles
        float t = lane < 16 ? partial[lane * 16 + 15] : 0.0f;
        float s = t;
        for (int d = 1; d < 16; d <<= 1) {
            float up = __shfl_up_sync(0xffffffff, s, d);
            if (lane >= d) s += up;
        }
        float before = s - t;
        for (int i = lane; i < 256; i += 32) {
            float offset = __shfl_sync(0xffffffff, before, i / 16);
            if (base + i < row_len) out[(size_t)row * row_len + base + i] = carry + offset + partial[i];
        }
        carry += __shfl_sync(0xffffffff, s, 15);
        __syncwarp();
    }
}

void scan_rows(const half* in, float* out, int num_rows, int row_len, cudaStream_t stream) {
    tcu_inclusive_scan_rows<<<num_rows, 32, 0, stream>>>(in, out, num_rows, row_len);
}
