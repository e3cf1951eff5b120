// Causal attention with ALiBi, one block per 16 query rows. The caller chooses the launch.
#include <cuda_fp16.h>
#include <mma.h>

template <int kDim, int kTile>
__global__ void alibi_attention(const half *__restrict__ query, const half *__restrict__ key,
                                const half *__restrict__ value, const float *__restrict__ alibi_slopes,
                                half *__restrict__ out, int num_heads, int seq_len, float scale) {
    using namespace nvcuda::wmma;
    static_assert(kDim % 16 == 0 && kTile % 16 == 0, "tiles are made of 16x16 fragments");
    __shared__ float s[16 * kTile];
    __shared__ half p[16 * kTile];
    __shared__ float acc_s[16 * kDim];
    __shared__ float row_m[16], row_l[16], row_c[16];

    const int lane = threadIdx.x;  // a single warp
    const int head = blockIdx.y, batch = blockIdx.z;
    const int q0 = blockIdx.x * 16;
    const size_t base = ((size_t)batch * num_heads + head) * seq_len * kDim;
    const float slope = alibi_slopes[head];

    for (int i = lane; i < 16 * kDim; i += 32) acc_s[i] = 0.f;
    if (lane < 16) {
        row_m[lane] = -INFINITY;
        row_l[lane] = 0.f;
    }
    __syncwarp();
    for (int k0 = 0; k0 < q0 + 16; k0 += kTile) {
        for (int j = 0; j < kTile; j += 16) {
            if (k0 + j >= seq_len) break;
            fragment<accumulator, 16, 16, 16, float> c;
            fill_fragment(c, 0.f);
            for (int d = 0; d < kDim; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> a;
                fragment<matrix_b, 16, 16, 16, half, col_major> b;
                load_matrix_sync(a, query + base + (size_t)q0 * kDim + d, kDim);
                load_matrix_sync(b, key + base + (size_t)(k0 + j) * kDim + d, kDim);
                mma_sync(c, a, b, c);
            }
            store_matrix_sync(s + j, c, kTile, mem_row_major);
        }
        __syncwarp();
        if (lane < 16) {
            const int row = q0 + lane;
            float m = row_m[lane];
            for (int c = 0; c < kTile; ++c) {
                const int col = k0 + c;
                float x = -INFINITY;
                if (col <= row) x = s[lane * kTile + c] * scale - slope * (float)(row - col);
                s[lane * kTile + c] = x;
                m = fmaxf(m, x);
            }
            const float corr = row_m[lane] == -INFINITY ? 0.f : expf(row_m[lane] - m);
            float l = row_l[lane] * corr;
            for (int c = 0; c < kTile; ++c) {
                const float e = expf(s[lane * kTile + c] - m);
                p[lane * kTile + c] = __float2half(e);
                l += e;
            }
            row_l[lane] = l;
            row_m[lane] = m;
            row_c[lane] = corr;
        }
        __syncwarp();
        for (int i = lane; i < 16 * kDim; i += 32) acc_s[i] *= row_c[i / kDim];
        __syncwarp();
        for (int d = 0; d < kDim; d += 16) {
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(o, acc_s + d, kDim, mem_row_major);
            for (int j = 0; j < kTile; j += 16) {
                if (k0 + j >= seq_len) break;
                fragment<matrix_a, 16, 16, 16, half, row_major> a;
                fragment<matrix_b, 16, 16, 16, half, row_major> b;
                load_matrix_sync(a, p + j, kTile);
                load_matrix_sync(b, value + base + (size_t)(k0 + j) * kDim + d, kDim);
                mma_sync(o, a, b, o);
            }
            store_matrix_sync(acc_s + d, o, kDim, mem_row_major);
        }
        __syncwarp();
    }
    for (int i = lane; i < 16 * kDim; i += 32)
        out[base + (size_t)q0 * kDim + i] = __float2half(acc_s[i] / row_l[i / kDim]);
}
