// igemm_nhwc.cu - implicit GEMM convolution for NHWC half tensors, sm_80 and newer
//
//   y[n,p,q,k] = relu( sum_{r,s,c} x[n, p*stride - pad + r, q*stride - pad + s, c] * w[k,r,s,c] + bias[k] )
//
//   GEMM_M = N*P*Q    (output pixels)
//   GEMM_N = K        (filters)
//   GEMM_K = R*S*C    (c runs fastest)
//
// C has to be a multiple of 8, K has to be even.

#include <cuda_fp16.h>
#include <stdint.h>

#define TILE_M   64
#define TILE_N   64
#define TILE_K   32
#define SKEW     8
#define LDS_K    (TILE_K + SKEW)
#define STAGES   2
#define NTHREADS 128

#define CP_ASYNC_16(dst, src, bytes)                                                   \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n)  asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDSM_X4(r0, r1, r2, r3, addr)                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"     \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr))

#define MMA_16816(d, a, b0, b1)                                                        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                  \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"             \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

struct conv_params {
    int n, h, w, c;      // input
    int k, r, s;         // filter
    int p, q;            // output
    int stride, pad;
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// what a thread has to know of one output pixel whose window it loads
struct pixel_t {
    int  n, h0, w0;
    bool ok;
};

__device__ __forceinline__ pixel_t decode_pixel(int m, const conv_params& cp) {
    pixel_t px;
    int pq  = cp.p * cp.q;
    px.n    = m / pq;
    int rem = m - px.n * pq;
    int oh  = rem / cp.q;
    int ow  = rem - oh * cp.q;
    px.h0   = oh * cp.stride - cp.pad;
    px.w0   = ow * cp.stride - cp.pad;
    px.ok   = m < cp.n * pq;
    return px;
}

__device__ __forceinline__ void load_x(half (*xs)[LDS_K], const half* x, const pixel_t* px, int kk,
                                       const conv_params& cp, int tid) {
    int col = (tid & 3) * 8;
    int k   = kk + col;
    int rs  = k / cp.c;
    int c   = k - rs * cp.c;
    int r   = rs / cp.s;
    int s   = rs - r * cp.s;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int row = (tid >> 2) + i * 32;
        int h   = px[i].h0 + r;
        int w   = px[i].w0 + s;
        bool in = px[i].ok && r < cp.r && h >= 0 && h < cp.h && w >= 0 && w < cp.w;
        const half* src = in ? x + (((size_t)px[i].n * cp.h + h) * cp.w + w) * cp.c + c : x;
        CP_ASYNC_16(smem_u32(&xs[row][col]), src, in ? 16 : 0);
    }
}

__device__ __forceinline__ void load_w(half (*ws)[LDS_K], const half* w, int n0, int kk,
                                       const conv_params& cp, int tid) {
    int gemm_k = cp.r * cp.s * cp.c;
    int col    = (tid & 3) * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int row = (tid >> 2) + i * 32;
        bool in = n0 + row < cp.k && kk + col < gemm_k;
        const half* src = in ? w + (size_t)(n0 + row) * gemm_k + kk + col : w;
        CP_ASYNC_16(smem_u32(&ws[row][col]), src, in ? 16 : 0);
    }
}

__global__ void __launch_bounds__(NTHREADS)
conv2d_igemm_nhwc(const half* __restrict__ x, const half* __restrict__ w, const half* __restrict__ bias,
                  half* __restrict__ y, conv_params cp) {
    __shared__ __align__(16) half xs[STAGES][TILE_M][LDS_K];
    __shared__ __align__(16) half ws[STAGES][TILE_N][LDS_K];

    const int tid  = threadIdx.x;
    const int lane = tid & 31;
    const int wm   = ((tid >> 5) & 1) * 32;   // warps: 2 x 2, each 32 x 32
    const int wn   = ((tid >> 5) >> 1) * 32;
    const int m0   = blockIdx.x * TILE_M;
    const int n0   = blockIdx.y * TILE_N;

    const int gemm_m = cp.n * cp.p * cp.q;
    const int gemm_k = cp.r * cp.s * cp.c;
    const int ktiles = (gemm_k + TILE_K - 1) / TILE_K;

    pixel_t px[2];
    px[0] = decode_pixel(m0 + (tid >> 2), cp);
    px[1] = decode_pixel(m0 + (tid >> 2) + 32, cp);

    float acc[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;

    load_x(xs[0], x, px, 0, cp, tid);
    load_w(ws[0], w, n0, 0, cp, tid);
    CP_COMMIT();

    for (int kt = 0; kt < ktiles; ++kt) {
        const int cur = kt & 1;
        if (kt + 1 < ktiles) {
            load_x(xs[cur ^ 1], x, px, (kt + 1) * TILE_K, cp, tid);
            load_w(ws[cur ^ 1], w, n0, (kt + 1) * TILE_K, cp, tid);
        }
        CP_COMMIT();
        CP_WAIT(1);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
            uint32_t a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int row = wm + i * 16 + (lane & 15);
                int col = k + (lane >> 4) * 8;
                LDSM_X4(a[i][0], a[i][1], a[i][2], a[i][3], smem_u32(&xs[cur][row][col]));
            }
            // two n8 tiles with each ldmatrix: {n 0-7, k 0-7}, {n 0-7, k 8-15}, {n 8-15, k 0-7}, ...
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int row = wn + j * 16 + (lane >> 4) * 8 + (lane & 7);
                int col = k + ((lane >> 3) & 1) * 8;
                LDSM_X4(b[j][0], b[j][1], b[j][2], b[j][3], smem_u32(&ws[cur][row][col]));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    MMA_16816(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
        }
        __syncthreads();
    }

    // epilogue: bias, relu
    const int gid = lane >> 2;
    const int tig = lane & 3;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int n = n0 + wn + j * 8 + tig * 2;
            if (n >= cp.k) continue;
            float b0 = __half2float(bias[n]);
            float b1 = __half2float(bias[n + 1]);
#pragma unroll
            for (int hh = 0; hh < 2; ++hh) {
                int m = m0 + wm + i * 16 + gid + hh * 8;
                if (m >= gemm_m) continue;
                float v0 = fmaxf(acc[i][j][hh * 2 + 0] + b0, 0.f);
                float v1 = fmaxf(acc[i][j][hh * 2 + 1] + b1, 0.f);
                *(half2*)(y + (size_t)m * cp.k + n) = __floats2half2_rn(v0, v1);
            }
        }
    }
}

extern "C" void conv2d_igemm_nhwc_launch(const half* x, const half* w, const half* bias, half* y, conv_params cp,
                                         cudaStream_t stream) {
    dim3 grid((cp.n * cp.p * cp.q + TILE_M - 1) / TILE_M, (cp.k + TILE_N - 1) / TILE_N);
    conv2d_igemm_nhwc<<<grid, NTHREADS, 0, stream>>>(x, w, bias, y, cp);
}
