// C[m][n] += sum_k A[m][k] * B[n][k]      (fp32 in, TF32 tensor cores, fp32 out; C is zeroed by the caller)
// SPLIT-K: blockIdx.z takes K_PER_SPLIT columns; partial tiles meet in C by atomicAdd. Split 0 adds the bias.

#include <cuda_runtime.h>
#include <stdint.h>

#define BLK_M 64
#define BLK_N 64
#define BLK_K 16
#define LDS_PAD 4
#define LDS_LD (BLK_K + LDS_PAD)
#define NWARP_M 2
#define NWARP_N 2
#define WARP_TILE_M (BLK_M / NWARP_M)
#define WARP_TILE_N (BLK_N / NWARP_N)
#define MMA_PER_M (WARP_TILE_M / 16)
#define MMA_PER_N (WARP_TILE_N / 8)

#define FLOAT4(p) (*reinterpret_cast<const float4 *>(p))
#define CP_ASYNC16(saddr, gptr, sz) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n" :: "r"(saddr), "l"(gptr), "r"(sz))
#define CP_COMMIT asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;\n" :: "n"(n))

__device__ __forceinline__ uint32_t to_tf32(float x) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ void mma_tf32(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                         uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128)
tf32_gemm_splitk(const float *A, const float *B, const float *bias, float *C, int M, int N, int K, int K_PER_SPLIT) {
    __shared__ __align__(16) float sA[2][BLK_M][LDS_LD];
    __shared__ __align__(16) float sB[2][BLK_N][LDS_LD];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int wm = ((tid >> 5) / NWARP_N) * WARP_TILE_M;
    const int wn = ((tid >> 5) % NWARP_N) * WARP_TILE_N;
    const int m0 = blockIdx.y * BLK_M;
    const int n0 = blockIdx.x * BLK_N;
    const int k_begin = blockIdx.z * K_PER_SPLIT;
    const int k_end = min(K, k_begin + K_PER_SPLIT);
    const int q = lane >> 2;
    const int t = lane & 3;

    float c[MMA_PER_M][MMA_PER_N][4];
#pragma unroll
    for (int i = 0; i < MMA_PER_M; i++)
#pragma unroll
        for (int j = 0; j < MMA_PER_N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0.f;

// a row of BLK_K floats is four vectors: 128 threads bring 32 rows at a time
#define LOAD_TILE(buf, k)                                                                            \
    do {                                                                                             \
        _Pragma("unroll") for (int it = 0; it < 2; it++) {                                           \
            int row = it * 32 + tid / 4, kv = (tid % 4) * 4;                                         \
            int ok_a = (m0 + row < M && (k) + kv < k_end) ? 16 : 0;                                  \
            int ok_b = (n0 + row < N && (k) + kv < k_end) ? 16 : 0;                                  \
            const float *pa = ok_a ? A + (size_t)(m0 + row) * K + (k) + kv : A;                      \
            const float *pb = ok_b ? B + (size_t)(n0 + row) * K + (k) + kv : B;                      \
            CP_ASYNC16((uint32_t)__cvta_generic_to_shared(&sA[buf][row][kv]), pa, ok_a);             \
            CP_ASYNC16((uint32_t)__cvta_generic_to_shared(&sB[buf][row][kv]), pb, ok_b);             \
        }                                                                                            \
        CP_COMMIT;                                                                                   \
    } while (0)

    int cur = 0;
    if (k_begin < k_end) LOAD_TILE(0, k_begin);

    for (int k = k_begin; k < k_end; k += BLK_K) {
        if (k + BLK_K < k_end) {
            LOAD_TILE(cur ^ 1, k + BLK_K);
            CP_WAIT(1);
        } else {
            CP_WAIT(0);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BLK_K; kk += 8) {
            uint32_t a[MMA_PER_M][4], b[MMA_PER_N][2];
#pragma unroll
            for (int i = 0; i < MMA_PER_M; i++) {
                const int r = wm + i * 16 + q;
                a[i][0] = to_tf32(sA[cur][r][kk + t]);
                a[i][1] = to_tf32(sA[cur][r + 8][kk + t]);
                a[i][2] = to_tf32(sA[cur][r][kk + t + 4]);
                a[i][3] = to_tf32(sA[cur][r + 8][kk + t + 4]);
            }
#pragma unroll
            for (int j = 0; j < MMA_PER_N; j++) {
                const int r = wn + j * 8 + q;
                b[j][0] = to_tf32(sB[cur][r][kk + t]);
                b[j][1] = to_tf32(sB[cur][r][kk + t + 4]);
            }
#pragma unroll
            for (int i = 0; i < MMA_PER_M; i++)
#pragma unroll
                for (int j = 0; j < MMA_PER_N; j++)
                    mma_tf32(c[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j][0], b[j][1]);
        }
        __syncthreads();
        cur ^= 1;
    }

#pragma unroll
    for (int i = 0; i < MMA_PER_M; i++)
#pragma unroll
        for (int j = 0; j < MMA_PER_N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int m = m0 + wm + i * 16 + q + (e / 2) * 8;
                const int n = n0 + wn + j * 8 + t * 2 + (e % 2);
                if (m < M && n < N) {
                    float v = c[i][j][e];
                    if (blockIdx.z == 0) v += bias[n];
                    atomicAdd(&C[(size_t)m * N + n], v);
                }
            }
}

void launch_tf32_splitk(const float *A, const float *B, const float *bias, float *C, int M, int N, int K, int splits,
                        cudaStream_t st) {
    int per = ((K + splits - 1) / splits + BLK_K - 1) / BLK_K * BLK_K;
    cudaMemsetAsync(C, 0, sizeof(float) * (size_t)M * N, st);
    tf32_gemm_splitk<<<dim3((N + BLK_N - 1) / BLK_N, (M + BLK_M - 1) / BLK_M, splits), 128, 0, st>>>(A, B, bias, C, M, N, K, per);
}
