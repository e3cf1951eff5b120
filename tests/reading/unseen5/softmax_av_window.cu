// Sliding-window causal attention on tensor cores. q, k, v, o: [batch, seq, heads, 64] bf16.
// Query i sees keys i - window < j <= i. 64 queries to the block, one warp for each 16.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <algorithm>

using namespace nvcuda;
typedef __nv_bfloat16 bf16_t;

template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV>
struct SwaShared {
    bf16_t k[BLOCK_KV][HEAD_DIM + 8];
    bf16_t v[BLOCK_KV][HEAD_DIM + 8];
    float s[BLOCK_Q][BLOCK_KV + 4];
    bf16_t p[BLOCK_Q][BLOCK_KV + 8];
    float o[BLOCK_Q][HEAD_DIM + 4];
    float m[BLOCK_Q], l[BLOCK_Q];
};

template <int HEAD_DIM, int BLOCK_Q, int BLOCK_KV>
__global__ void swa_forward(const bf16_t *__restrict__ q, const bf16_t *__restrict__ k, const bf16_t *__restrict__ v,
                            bf16_t *__restrict__ o, int seqlen, int num_heads, int window, float sm_scale) {
    extern __shared__ __align__(128) char smem_raw[];
    auto &sm = *reinterpret_cast<SwaShared<HEAD_DIM, BLOCK_Q, BLOCK_KV> *>(smem_raw);

    const int q_start = blockIdx.x * BLOCK_Q;
    const int head = blockIdx.y, batch = blockIdx.z;
    const size_t stride = (size_t)num_heads * HEAD_DIM;
    const size_t base = (size_t)batch * seqlen * stride + (size_t)head * HEAD_DIM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int r0 = warp * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> qf[HEAD_DIM / 16];
    for (int d = 0; d < HEAD_DIM / 16; ++d)
        wmma::load_matrix_sync(qf[d], q + base + (q_start + r0) * stride + d * 16, stride);

    for (int i = lane; i < 16 * HEAD_DIM; i += 32) sm.o[r0 + i / HEAD_DIM][i % HEAD_DIM] = 0.f;
    if (lane < 16) {
        sm.m[r0 + lane] = -INFINITY;
        sm.l[r0 + lane] = 0.f;
    }

    const int first = max(0, q_start - window + 1) / BLOCK_KV;
    const int last = (q_start + BLOCK_Q - 1) / BLOCK_KV;
    for (int t = first; t <= last; ++t) {
        __syncthreads();
        for (int i = threadIdx.x; i < BLOCK_KV * HEAD_DIM / 8; i += blockDim.x) {
            const int r = i / (HEAD_DIM / 8), c = i % (HEAD_DIM / 8) * 8;
            const size_t g = base + (size_t)(t * BLOCK_KV + r) * stride + c;
            *(int4 *)&sm.k[r][c] = *(const int4 *)&k[g];
            *(int4 *)&sm.v[r][c] = *(const int4 *)&v[g];
        }
        __syncthreads();

        for (int n = 0; n < BLOCK_KV / 16; ++n) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.f);
            for (int d = 0; d < HEAD_DIM / 16; ++d) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::col_major> kf;
                wmma::load_matrix_sync(kf, &sm.k[n * 16][d * 16], HEAD_DIM + 8);
                wmma::mma_sync(s, qf[d], kf, s);
            }
            wmma::store_matrix_sync(&sm.s[r0][n * 16], s, BLOCK_KV + 4, wmma::mem_row_major);
        }
        __syncwarp();

        if (lane < 16) {
            const int row = r0 + lane, qi = q_start + row;
            float mx = sm.m[row];
            for (int j = 0; j < BLOCK_KV; ++j) {
                const int kj = t * BLOCK_KV + j;
                const bool visible = kj <= qi && kj > qi - window;
                sm.s[row][j] = visible ? sm.s[row][j] * sm_scale : -INFINITY;
                mx = fmaxf(mx, sm.s[row][j]);
            }
            float sum = 0.f;
            const float shift = mx == -INFINITY ? 0.f : mx;
            for (int j = 0; j < BLOCK_KV; ++j) {
                const float e = __expf(sm.s[row][j] - shift);
                sm.p[row][j] = __float2bfloat16(e);
                sum += e;
            }
            const float corr = __expf(sm.m[row] - shift);
            sm.l[row] = sm.l[row] * corr + sum;
            sm.m[row] = mx;
            for (int d = 0; d < HEAD_DIM; ++d) sm.o[row][d] *= corr;
        }
        __syncwarp();

        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, &sm.o[r0][d * 16], HEAD_DIM + 4, wmma::mem_row_major);
            for (int n = 0; n < BLOCK_KV / 16; ++n) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> pf;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::row_major> vf;
                wmma::load_matrix_sync(pf, &sm.p[r0][n * 16], BLOCK_KV + 8);
                wmma::load_matrix_sync(vf, &sm.v[n * 16][d * 16], HEAD_DIM + 8);
                wmma::mma_sync(acc, pf, vf, acc);
            }
            wmma::store_matrix_sync(&sm.o[r0][d * 16], acc, HEAD_DIM + 4, wmma::mem_row_major);
        }
        __syncwarp();
    }

    for (int i = lane; i < 16 * HEAD_DIM; i += 32) {
        const int r = r0 + i / HEAD_DIM, d = i % HEAD_DIM;
        o[base + (size_t)(q_start + r) * stride + d] = __float2bfloat16(sm.o[r][d] / sm.l[r]);
    }
}

void swa_forward_launch(const void *q, const void *k, const void *v, void *o, int batch, int seqlen, int num_heads,
                        int window, float sm_scale, cudaStream_t stream) {
    constexpr int HD = 64, BQ = 64, BKV = 64;
    auto kernel = swa_forward<HD, BQ, BKV>;
    constexpr size_t smem = sizeof(SwaShared<HD, BQ, BKV>);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    kernel<<<dim3(seqlen / BQ, num_heads, batch), BQ / 16 * 32, smem, stream>>>(
        (const bf16_t *)q, (const bf16_t *)k, (const bf16_t *)v, (bf16_t *)o, seqlen, num_heads, window, sm_scale);
}
