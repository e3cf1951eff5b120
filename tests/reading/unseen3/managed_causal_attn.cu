// Causal attention on managed memory; one warp handles 16 queries of one head. Layout: (batch, seq, head, dim).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define DH 64
#define QT 16
#define KT 16

__global__ void causal_attn(const __half *query, const __half *key, const __half *value, __half *result, int seq, int heads)
{
    __shared__ __half qs[QT][DH], ks[KT][DH], vs[KT][DH], ps[QT][KT];
    __shared__ float ss[QT][KT], os[QT][DH], m[QT], l[QT];

    const int lane = threadIdx.x;
    const int q0 = blockIdx.x * QT, h = blockIdx.y, n = blockIdx.z;
    const size_t step = (size_t)heads * DH;
    const size_t base = (size_t)n * seq * step + (size_t)h * DH;

    for (int i = lane; i < QT * DH; i += 32) {
        int r = i / DH, c = i % DH;
        qs[r][c] = q0 + r < seq ? query[base + (q0 + r) * step + c] : __half(0);
        os[r][c] = 0.f;
    }
    if (lane < QT) { m[lane] = -1e30f; l[lane] = 0.f; }
    __syncwarp();

    for (int k0 = 0; k0 <= q0 + QT - 1 && k0 < seq; k0 += KT) {
        for (int i = lane; i < KT * DH; i += 32) {
            int r = i / DH, c = i % DH;
            bool in = k0 + r < seq;
            ks[r][c] = in ? key[base + (k0 + r) * step + c] : __half(0);
            vs[r][c] = in ? value[base + (k0 + r) * step + c] : __half(0);
        }
        __syncwarp();

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
        wmma::fill_fragment(s, 0.f);
        for (int c = 0; c < DH; c += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
            wmma::load_matrix_sync(a, &qs[0][c], DH);
            wmma::load_matrix_sync(b, &ks[0][c], DH);
            wmma::mma_sync(s, a, b, s);
        }
        wmma::store_matrix_sync(&ss[0][0], s, KT, wmma::mem_row_major);
        __syncwarp();

        if (lane < QT) {
            float top = m[lane];
            for (int j = 0; j < KT; ++j) {
                ss[lane][j] = k0 + j <= q0 + lane && k0 + j < seq ? ss[lane][j] * rsqrtf((float)DH) : -1e30f;
                top = fmaxf(top, ss[lane][j]);
            }
            float fix = expf(m[lane] - top), sum = 0.f;
            for (int j = 0; j < KT; ++j) {
                float p = ss[lane][j] > -1e29f ? expf(ss[lane][j] - top) : 0.f;
                ps[lane][j] = __float2half(p);
                sum += p;
            }
            l[lane] = l[lane] * fix + sum;
            m[lane] = top;
            for (int c = 0; c < DH; ++c) os[lane][c] *= fix;
        }
        __syncwarp();

        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> p;
        wmma::load_matrix_sync(p, &ps[0][0], KT);
        for (int c = 0; c < DH; c += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> v;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(v, &vs[0][c], DH);
            wmma::load_matrix_sync(o, &os[0][c], DH, wmma::mem_row_major);
            wmma::mma_sync(o, p, v, o);
            wmma::store_matrix_sync(&os[0][c], o, DH, wmma::mem_row_major);
        }
        __syncwarp();
    }
    for (int i = lane; i < QT * DH; i += 32) {
        int r = i / DH, c = i % DH;
        if (q0 + r < seq) result[base + (q0 + r) * step + c] = __float2half(os[r][c] / l[r]);
    }
}

int main()
{
    const int batch = 2, seq = 100, heads = 4;
    const size_t count = (size_t)batch * seq * heads * DH;
    __half *query, *key, *value, *result;
    cudaMallocManaged(&query, count * sizeof(__half));
    cudaMallocManaged(&key, count * sizeof(__half));
    cudaMallocManaged(&value, count * sizeof(__half));
    cudaMallocManaged(&result, count * sizeof(__half));
    for (size_t i = 0; i < count; ++i) {
        query[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
        key[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
        value[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
    }
    dim3 grid((seq + QT - 1) / QT, heads, batch);
    causal_attn<<<grid, 32>>>(query, key, value, result, seq, heads);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    // the first query sees one key
    float worst = 0.f;
    for (int c = 0; c < DH; ++c) worst = fmaxf(worst, fabsf(__half2float(result[c]) - __half2float(value[c])));
    printf("first query: %g\n", worst);
    return worst > 1e-3f;
}
