// mha_half2.cu - multi-head attention with half2 loads, [batch, seq, heads, dim] activations.
// nvcc -arch=sm_80 -O3 mha_half2.cu -o mha && ./mha
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define CHECK_CUDA(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

#define TILE_Q 32
#define TILE_K 32
#define DIM 32
#define PAD 8
#define STRIDE (DIM + PAD)

template <int THREADS>
__device__ void load_tile_h2(half *dst, const half *src, int row0, int rows_valid, int row_stride)
{
    // 2 halves at once
    for (int idx = threadIdx.x; idx < TILE_K * DIM / 2; idx += THREADS) {
        int r = idx / (DIM / 2);
        int c = (idx % (DIM / 2)) * 2;
        half2 val = __floats2half2_rn(0.f, 0.f);
        if (row0 + r < rows_valid)
            val = *reinterpret_cast<const half2 *>(src + (size_t)(row0 + r) * row_stride + c);
        *reinterpret_cast<half2 *>(dst + r * STRIDE + c) = val;
    }
}

__global__ void mha_kernel(const half *q, const half *k, const half *v, half *out,
                           int seq, int heads, float scale)
{
    __shared__ half sq[TILE_Q * STRIDE];
    __shared__ half sk[TILE_K * STRIDE];
    __shared__ half sv[TILE_K * STRIDE];
    __shared__ half sp[TILE_Q * STRIDE];
    __shared__ float ss[TILE_Q * STRIDE];
    __shared__ float so[TILE_Q * STRIDE];
    __shared__ float row_m[TILE_Q], row_l[TILE_Q];

    const int head = blockIdx.y, batch = blockIdx.z;
    const int q_start = blockIdx.x * TILE_Q;
    const int row_stride = heads * DIM;
    const size_t base = (size_t)batch * seq * row_stride + head * DIM;
    const int wid = threadIdx.x / 32;
    const int wr = wid / 2, wc = wid % 2;        // 2 x 2 warps, 16 x 16 each
    const int tid = threadIdx.x;

    load_tile_h2<128>(sq, q + base, q_start, seq, row_stride);
    for (int i = tid; i < TILE_Q * STRIDE; i += 128) so[i] = 0.f;
    if (tid < TILE_Q) { row_m[tid] = -INFINITY; row_l[tid] = 0.f; }
    __syncthreads();

    for (int k_start = 0; k_start < seq; k_start += TILE_K) {
        load_tile_h2<128>(sk, k + base, k_start, seq, row_stride);
        load_tile_h2<128>(sv, v + base, k_start, seq, row_stride);
        __syncthreads();

        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
            wmma::fill_fragment(fc, 0.0f);
            for (int kk = 0; kk < DIM; kk += 16) {
                wmma::load_matrix_sync(fa, &sq[wr * 16 * STRIDE + kk], STRIDE);
                wmma::load_matrix_sync(fb, &sk[wc * 16 * STRIDE + kk], STRIDE);
                wmma::mma_sync(fc, fa, fb, fc);
            }
            wmma::store_matrix_sync(&ss[wr * 16 * STRIDE + wc * 16], fc, STRIDE, wmma::mem_row_major);
        }
        __syncthreads();

        // one thread per row: plain and slow, but easy to read
        if (tid < TILE_Q) {
            float m_old = row_m[tid];
            float m_new = m_old;
            int n = min(TILE_K, seq - k_start);
            for (int j = 0; j < n; ++j) m_new = fmaxf(m_new, ss[tid * STRIDE + j] * scale);
            float corr = __expf(m_old - m_new);
            float l = row_l[tid] * corr;
            for (int j = 0; j < TILE_K; ++j) {
                float p = j < n ? __expf(ss[tid * STRIDE + j] * scale - m_new) : 0.f;
                half ph = __float2half(p);
                sp[tid * STRIDE + j] = ph;
                l += __half2float(ph);
            }
            for (int d = 0; d < DIM; ++d) so[tid * STRIDE + d] *= corr;
            row_m[tid] = m_new;
            row_l[tid] = l;
        }
        __syncthreads();

        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
            wmma::load_matrix_sync(fc, &so[wr * 16 * STRIDE + wc * 16], STRIDE, wmma::mem_row_major);
            for (int kk = 0; kk < TILE_K; kk += 16) {
                wmma::load_matrix_sync(fa, &sp[wr * 16 * STRIDE + kk], STRIDE);
                wmma::load_matrix_sync(fb, &sv[kk * STRIDE + wc * 16], STRIDE);
                wmma::mma_sync(fc, fa, fb, fc);
            }
            wmma::store_matrix_sync(&so[wr * 16 * STRIDE + wc * 16], fc, STRIDE, wmma::mem_row_major);
        }
        __syncthreads();
    }

    for (int idx = tid; idx < TILE_Q * DIM / 2; idx += 128) {
        int r = idx / (DIM / 2), c = (idx % (DIM / 2)) * 2;
        if (q_start + r < seq) {
            float inv = 1.0f / row_l[r];
            half2 o = __floats2half2_rn(so[r * STRIDE + c] * inv, so[r * STRIDE + c + 1] * inv);
            *reinterpret_cast<half2 *>(out + base + (size_t)(q_start + r) * row_stride + c) = o;
        }
    }
}

static void cpu_mha(const std::vector<half> &q, const std::vector<half> &k, const std::vector<half> &v,
                    std::vector<float> &o, int B, int S, int H, float scale)
{
    std::vector<float> p(S);
    for (int b = 0; b < B; ++b) for (int h = 0; h < H; ++h) for (int i = 0; i < S; ++i) {
        float mx = -1e30f, sum = 0;
        for (int j = 0; j < S; ++j) {
            float acc = 0;
            for (int d = 0; d < DIM; ++d)
                acc += __half2float(q[((b * S + i) * H + h) * DIM + d]) * __half2float(k[((b * S + j) * H + h) * DIM + d]);
            p[j] = acc * scale; mx = std::max(mx, p[j]);
        }
        for (int j = 0; j < S; ++j) { p[j] = std::exp(p[j] - mx); sum += p[j]; }
        for (int d = 0; d < DIM; ++d) {
            float acc = 0;
            for (int j = 0; j < S; ++j) acc += p[j] * __half2float(v[((b * S + j) * H + h) * DIM + d]);
            o[((b * S + i) * H + h) * DIM + d] = acc / sum;
        }
    }
}

int main()
{
    const int B = 2, S = 200, H = 4;
    const size_t n = (size_t)B * S * H * DIM;
    std::vector<half> hq(n), hk(n), hv(n), ho(n);
    std::vector<float> ref(n);
    for (size_t i = 0; i < n; ++i) {
        hq[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
        hk[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
        hv[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
    }
    half *dq, *dk, *dv, *dout;
    CHECK_CUDA(cudaMalloc(&dq, n * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dk, n * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dv, n * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dout, n * sizeof(half)));
    CHECK_CUDA(cudaMemcpy(dq, hq.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dk, hk.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dv, hv.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    dim3 grid((S + TILE_Q - 1) / TILE_Q, H, B);
    mha_kernel<<<grid, 128>>>(dq, dk, dv, dout, S, H, 1.0f / sqrtf((float)DIM));
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(ho.data(), dout, n * sizeof(half), cudaMemcpyDeviceToHost));
    cpu_mha(hq, hk, hv, ref, B, S, H, 1.0f / sqrtf((float)DIM));
    float worst = 0;
    for (size_t i = 0; i < n; ++i) worst = fmaxf(worst, fabsf(ref[i] - __half2float(ho[i])));
    printf("max_diff %f\n%s\n", worst, worst < 1e-2 ? "PASS" : "FAIL");
    return 0;
}
