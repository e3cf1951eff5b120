// flash attention v2 forward in ~100 lines, fp16 in, fp16 out.  Called from Python through ctypes:
//   nvcc -O3 -arch=sm_80 -shared -Xcompiler -fPIC flash_fwd_ctypes.cu -o libflash.so
#include <cuda_fp16.h>
#include <stdint.h>

#define BR 64
#define BC 32
#define D_HEAD 64
#define NWARPS (BR / 16)

static __device__ __forceinline__ uint32_t pack(float lo, float hi) {
    half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}

static __device__ __forceinline__ void mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__global__ void __launch_bounds__(NWARPS * 32) flash_fwd(const half *__restrict__ Q, const half *__restrict__ K,
                                                         const half *__restrict__ V, half *__restrict__ O, int N,
                                                         float scale_log2, int causal) {
    __shared__ __align__(16) half sK[BC][D_HEAD + 8];
    __shared__ __align__(16) half sV[BC][D_HEAD + 8];
    const size_t head = (size_t)blockIdx.y * N * D_HEAD;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, gid = lane / 4, tig = lane % 4;
    const int qrow = blockIdx.x * BR + warp * 16 + gid;

    uint32_t fq[D_HEAD / 16][4];
    const half *q0 = Q + head + (size_t)qrow * D_HEAD, *q1 = q0 + 8 * D_HEAD;
#pragma unroll
    for (int d = 0; d < D_HEAD / 16; d++) {
        fq[d][0] = *(const uint32_t *)(q0 + d * 16 + tig * 2);
        fq[d][1] = *(const uint32_t *)(q1 + d * 16 + tig * 2);
        fq[d][2] = *(const uint32_t *)(q0 + d * 16 + 8 + tig * 2);
        fq[d][3] = *(const uint32_t *)(q1 + d * 16 + 8 + tig * 2);
    }
    float fo[D_HEAD / 8][4] = {{0.f}};
    float m[2] = {-1e30f, -1e30f}, l[2] = {0.f, 0.f};

    const int kv_end = causal ? min(N, (int)(blockIdx.x + 1) * BR) : N;
    for (int kv = 0; kv < kv_end; kv += BC) {
        __syncthreads();
        for (int i = threadIdx.x; i < BC * D_HEAD / 8; i += blockDim.x) {
            int r = i / (D_HEAD / 8), c = i % (D_HEAD / 8) * 8;
            *(float4 *)&sK[r][c] = *(const float4 *)(K + head + (size_t)(kv + r) * D_HEAD + c);
            *(float4 *)&sV[r][c] = *(const float4 *)(V + head + (size_t)(kv + r) * D_HEAD + c);
        }
        __syncthreads();

        float s[BC / 8][4] = {{0.f}};
#pragma unroll
        for (int n = 0; n < BC / 8; n++)
#pragma unroll
            for (int d = 0; d < D_HEAD / 16; d++) {
                const half *kp = &sK[n * 8 + gid][d * 16 + tig * 2];
                mma(s[n], fq[d], *(const uint32_t *)kp, *(const uint32_t *)(kp + 8));
            }
        float mx[2] = {m[0], m[1]};
#pragma unroll
        for (int n = 0; n < BC / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = kv + n * 8 + tig * 2 + (e & 1);
                s[n][e] = causal && key > qrow + (e >> 1) * 8 ? -1e30f : s[n][e] * scale_log2;
                mx[e >> 1] = fmaxf(mx[e >> 1], s[n][e]);
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            mx[r] = fmaxf(mx[r], __shfl_xor_sync(0xffffffffu, mx[r], 1));
            mx[r] = fmaxf(mx[r], __shfl_xor_sync(0xffffffffu, mx[r], 2));
            const float old = exp2_fast(m[r] - mx[r]);
            m[r] = mx[r];
            l[r] *= old;
#pragma unroll
            for (int d = 0; d < D_HEAD / 8; d++) { fo[d][r * 2] *= old; fo[d][r * 2 + 1] *= old; }
        }
#pragma unroll
        for (int n = 0; n < BC / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                s[n][e] = exp2_fast(s[n][e] - m[e >> 1]);
                l[e >> 1] += s[n][e];
            }
#pragma unroll
        for (int n = 0; n < BC / 16; n++) {
            const uint32_t fp[4] = {pack(s[2 * n][0], s[2 * n][1]), pack(s[2 * n][2], s[2 * n][3]),
                                    pack(s[2 * n + 1][0], s[2 * n + 1][1]), pack(s[2 * n + 1][2], s[2 * n + 1][3])};
#pragma unroll
            for (int d = 0; d < D_HEAD / 8; d++) {
                uint32_t b0, b1;
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(&sV[n * 16 + lane % 16][d * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(addr));
                mma(fo[d], fp, b0, b1);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 1);
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 2);
    }
    half *o = O + head + (size_t)qrow * D_HEAD;
#pragma unroll
    for (int d = 0; d < D_HEAD / 8; d++) {
        *(uint32_t *)(o + d * 8 + tig * 2) = pack(fo[d][0] / l[0], fo[d][1] / l[0]);
        *(uint32_t *)(o + 8 * D_HEAD + d * 8 + tig * 2) = pack(fo[d][2] / l[1], fo[d][3] / l[1]);
    }
}

extern "C" int flash_forward(const void *q, const void *k, const void *v, void *o, int batch, int heads, int seqlen, float softmax_scale,
                             int causal, void *stream) {
    if (seqlen % BR) return -1;
    dim3 grid(seqlen / BR, batch * heads);
    flash_fwd<<<grid, NWARPS * 32, 0, (cudaStream_t)stream>>>((const half *)q, (const half *)k, (const half *)v, (half *)o, seqlen,
                                                             softmax_scale * 1.4426950408889634f, causal);
    return (int)cudaGetLastError();
}
