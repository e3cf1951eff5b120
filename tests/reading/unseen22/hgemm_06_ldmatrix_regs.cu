// HGEMM from scratch, step 6: ldmatrix + mma.sync.m16n8k16, fragments double buffered in registers.
// build: nvcc -arch=sm_80 -O3 hgemm_06_ldmatrix_regs.cu -o step6 && ./step6
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
#define CUDA_CHECK(call)                                                              \
    do {                                                                              \
        cudaError_t err_ = (call);                                                    \
        if (err_ != cudaSuccess) {                                                    \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

#define BM 64
#define BN 64
#define BK 32
#define SKEW 8

__device__ __forceinline__ void ldsm_x4(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3, const void *smem) {
    unsigned addr = (unsigned)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr));
}

__device__ __forceinline__ void ldsm_x4_t(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3, const void *smem) {
    unsigned addr = (unsigned)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr));
}

__device__ __forceinline__ void hmma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 4 warps, each 32 x 32 of the 64 x 64 tile
__global__ void hgemm_step6(const half *__restrict__ a, const half *__restrict__ b, half *__restrict__ c,
                            int M, int N, int K) {
    __shared__ half As[BM][BK + SKEW];
    __shared__ half Bs[BK][BN + SKEW];

    const int tid = threadIdx.x;
    const int lane = tid & 31, warp = tid >> 5;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    float acc[2][4][4] = {};
    unsigned af[2][2][4], bf[2][4][2];

    // global -> registers -> shared
    float4 ra[2], rb[2];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int v = tid + i * 128;
            int ar = v / (BK / 8), ac = (v % (BK / 8)) * 8;
            int br = v / (BN / 8), bc = (v % (BN / 8)) * 8;
            ra[i] = (row0 + ar < M && k0 + ac < K) ? *(const float4 *)&a[OFFSET(row0 + ar, k0 + ac, K)] : make_float4(0, 0, 0, 0);
            rb[i] = (k0 + br < K && col0 + bc < N) ? *(const float4 *)&b[OFFSET(k0 + br, col0 + bc, N)] : make_float4(0, 0, 0, 0);
        }
    };
    auto commit = [&]() {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int v = tid + i * 128;
            *(float4 *)&As[v / (BK / 8)][(v % (BK / 8)) * 8] = ra[i];
            *(float4 *)&Bs[v / (BN / 8)][(v % (BN / 8)) * 8] = rb[i];
        }
    };
    auto frags = [&](int s, int kk) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            ldsm_x4(af[s][i][0], af[s][i][1], af[s][i][2], af[s][i][3],
                    &As[wm + i * 16 + (lane & 15)][kk + (lane >> 4) * 8]);
#pragma unroll
        for (int j = 0; j < 2; j++)
            ldsm_x4_t(bf[s][2 * j][0], bf[s][2 * j][1], bf[s][2 * j + 1][0], bf[s][2 * j + 1][1],
                      &Bs[kk + (lane & 15)][wn + j * 16 + (lane >> 4) * 8]);
    };

    fetch(0);
    commit();
    __syncthreads();
    frags(0, 0);

    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        if (more) fetch(k0 + BK);
#pragma unroll
        for (int s = 0; s < BK / 16; s++) {
            if (s + 1 < BK / 16) {
                frags((s + 1) & 1, (s + 1) * 16);
            } else if (more) {
                __syncthreads();
                commit();
                __syncthreads();
                frags((s + 1) & 1, 0);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) hmma(acc[i][j], af[s & 1][i], bf[s & 1][j][0], bf[s & 1][j][1]);
        }
    }

    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int r = row0 + wm + i * 16 + g, cc = col0 + wn + j * 8 + t * 2;
            if (cc < N) {
                if (r < M) *(half2 *)&c[OFFSET(r, cc, N)] = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
                if (r + 8 < M) *(half2 *)&c[OFFSET(r + 8, cc, N)] = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
            }
        }
}

int main(int argc, char **argv) {
    int M = 128, N = 192, K = 96;
    if (argc == 4) { M = atoi(argv[1]); N = atoi(argv[2]); K = atoi(argv[3]); }
    std::vector<half> ha(M * K), hb(K * N), hc(M * N);
    srand(42);
    for (auto &x : ha) x = __float2half((rand() % 200 - 100) / 100.f);
    for (auto &x : hb) x = __float2half((rand() % 200 - 100) / 100.f);

    half *da, *db, *dc;
    CUDA_CHECK(cudaMalloc(&da, ha.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&db, hb.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dc, hc.size() * sizeof(half)));
    CUDA_CHECK(cudaMemcpy(da, ha.data(), ha.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(db, hb.data(), hb.size() * sizeof(half), cudaMemcpyHostToDevice));

    hgemm_step6<<<dim3(DIV_UP(N, BN), DIV_UP(M, BM)), 128>>>(da, db, dc, M, N, K);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(hc.data(), dc, hc.size() * sizeof(half), cudaMemcpyDeviceToHost));

    float worst = 0.f;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float ref = 0.f;
            for (int k = 0; k < K; k++) ref += __half2float(ha[OFFSET(m, k, K)]) * __half2float(hb[OFFSET(k, n, N)]);
            worst = fmaxf(worst, fabsf(ref - __half2float(hc[OFFSET(m, n, N)])));
        }
    printf("max error %f\n", worst);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
    return worst < 0.05f ? 0 : 1;
}
