// gemm_splitk_batched_gelu.cu
//
// バッチ付き Split-K GEMM + bias + GELU の融合 (bf16, WMMA)
//
//   Y[b] = GELU( A[b] * W[b] + bias )
//
//   A    : [batch, M, K]  bf16  行優先
//   W    : [batch, K, N]  bf16  行優先
//   bias : [N]            float 全バッチ共通
//   Y    : [batch, M, N]  bf16
//
// M と N が小さく K が大きい場合、出力タイルだけでは SM が埋まらないので K を分割する。
//   方式1: 部分和をワークスペースに書き、2つ目のカーネルで合計・bias・GELU を行う (決定的)
//   方式2: 部分和を atomicAdd で足し込み、最後に bias・GELU を行う (ワークスペースは1枚で済む)
//
// 制約: M, N は 64 の倍数、K は 32 の倍数。分割数は任意 (タイル数より多くても良い)
//
// nvcc -O3 -arch=sm_80 gemm_splitk_batched_gelu.cu -o splitk

#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
typedef __nv_bfloat16 bf16;

#define CUDA_SAFE_CALL(func)                                                                  \
    do {                                                                                      \
        cudaError_t err = (func);                                                             \
        if (err != cudaSuccess) {                                                             \
            fprintf(stderr, "[Error] %s (error code: %d) at %s line %d\n",                    \
                    cudaGetErrorString(err), err, __FILE__, __LINE__);                        \
            exit(err);                                                                        \
        }                                                                                     \
    } while (0)

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kThreads = 128;          // 4ワープ (2x2)、1ワープが 32x32 を担当
constexpr int kPad = 8;

enum class Mode { Workspace, Atomic };

// partial: 方式1では [split, batch, M, N]、方式2では [batch, M, N] (事前にゼロクリア)
template <Mode mode>
__global__ void splitk_gemm(const bf16* __restrict__ A, const bf16* __restrict__ W, float* __restrict__ partial,
                            int batch, int M, int N, int K, int splits)
{
    __shared__ __align__(32) bf16 sa[kTileM][kTileK + kPad];
    __shared__ __align__(32) bf16 sw[kTileK][kTileN + kPad];

    // blockIdx.z = バッチ番号 * splits + 分割番号
    const int b = blockIdx.z / splits;
    const int split = blockIdx.z % splits;
    const int row0 = blockIdx.y * kTileM;
    const int col0 = blockIdx.x * kTileN;

    A += (size_t)b * M * K;
    W += (size_t)b * K * N;

    // この分割が担当する K タイルの範囲 (最後の分割は短い、または空になることがある)
    const int tiles = K / kTileK;
    const int per_split = (tiles + splits - 1) / splits;
    const int tile_begin = min(tiles, split * per_split);
    const int tile_end = min(tiles, tile_begin + per_split);

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int wr = (warp >> 1) * 32;
    const int wc = (warp & 1) * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (auto& line : acc)
        for (auto& f : line) wmma::fill_fragment(f, 0.0f);

    for (int tile = tile_begin; tile < tile_end; ++tile) {
        const int k0 = tile * kTileK;

        // A: 64x32 = 256 x 16バイト、W: 32x64 = 256 x 16バイト、各スレッド2回ずつ
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int v = tid + i * kThreads;
            const int ar = v / (kTileK / 8), ac = v % (kTileK / 8) * 8;
            *(int4*)&sa[ar][ac] = *(const int4*)&A[(size_t)(row0 + ar) * K + k0 + ac];
            const int br = v / (kTileN / 8), bc = v % (kTileN / 8) * 8;
            *(int4*)&sw[br][bc] = *(const int4*)&W[(size_t)(k0 + br) * N + col0 + bc];
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fw[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(fa[i], &sa[wr + i * 16][kk], kTileK + kPad);
                wmma::load_matrix_sync(fw[i], &sw[kk][wc + i * 16], kTileN + kPad);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fw[j], acc[i][j]);
        }
        __syncthreads();
    }

    if (mode == Mode::Workspace) {
        // 空の分割もゼロを書くので、合計側は場合分けが要らない
        float* out = partial + ((size_t)split * batch + b) * M * N;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                wmma::store_matrix_sync(out + (size_t)(row0 + wr + i * 16) * N + col0 + wc + j * 16, acc[i][j], N,
                                        wmma::mem_row_major);
    } else {
        // フラグメントの要素配置は未規定なので、共有メモリを経由して足し込む
        __shared__ __align__(32) float sc[kTileM][kTileN + 4];
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                wmma::store_matrix_sync(&sc[wr + i * 16][wc + j * 16], acc[i][j], kTileN + 4, wmma::mem_row_major);
        __syncthreads();
        float* out = partial + (size_t)b * M * N;
        for (int v = tid; v < kTileM * kTileN; v += kThreads) {
            const int r = v / kTileN, c = v % kTileN;
            atomicAdd(&out[(size_t)(row0 + r) * N + col0 + c], sc[r][c]);
        }
    }
}

__device__ __forceinline__ float gelu_tanh(float x)
{
    const float c = 0.7978845608028654f;    // sqrt(2/pi)
    return 0.5f * x * (1.0f + tanhf(c * (x + 0.044715f * x * x * x)));
}

// 部分和の合計 + bias + GELU、1スレッドが4要素
__global__ void reduce_bias_gelu(const float* __restrict__ partial, const float* __restrict__ bias,
                                 bf16* __restrict__ Y, size_t total, int N, int splits)
{
    const size_t idx = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (idx >= total) return;

    float4 s = *(const float4*)(partial + idx);
    for (int k = 1; k < splits; ++k) {
        const float4 p = *(const float4*)(partial + (size_t)k * total + idx);
        s.x += p.x;
        s.y += p.y;
        s.z += p.z;
        s.w += p.w;
    }
    const float4 bv = *(const float4*)(bias + idx % N);
    __nv_bfloat162* out = (__nv_bfloat162*)(Y + idx);
    out[0] = __floats2bfloat162_rn(gelu_tanh(s.x + bv.x), gelu_tanh(s.y + bv.y));
    out[1] = __floats2bfloat162_rn(gelu_tanh(s.z + bv.z), gelu_tanh(s.w + bv.w));
}

// ワークスペースは 方式1: splits * batch * M * N、方式2: batch * M * N 個の float
static void gemm_bias_gelu(Mode mode, const bf16* A, const bf16* W, const float* bias, bf16* Y, float* ws, int batch,
                           int M, int N, int K, int splits)
{
    const size_t total = (size_t)batch * M * N;
    const dim3 grid(N / kTileN, M / kTileM, batch * splits);
    const int blocks = (int)((total / 4 + 255) / 256);
    if (mode == Mode::Workspace) {
        splitk_gemm<Mode::Workspace><<<grid, kThreads>>>(A, W, ws, batch, M, N, K, splits);
        reduce_bias_gelu<<<blocks, 256>>>(ws, bias, Y, total, N, splits);
    } else {
        CUDA_SAFE_CALL(cudaMemsetAsync(ws, 0, total * sizeof(float)));
        splitk_gemm<Mode::Atomic><<<grid, kThreads>>>(A, W, ws, batch, M, N, K, splits);
        reduce_bias_gelu<<<blocks, 256>>>(ws, bias, Y, total, N, 1);
    }
    CUDA_SAFE_CALL(cudaGetLastError());
}

static bool check(int batch, int M, int N, int K, int splits)
{
    const size_t na = (size_t)batch * M * K, nw = (size_t)batch * K * N, ny = (size_t)batch * M * N;
    std::mt19937 mt(2024);
    std::uniform_real_distribution<float> uni(-1.0f, 1.0f);
    std::vector<bf16> ha(na), hw(nw), hy(ny);
    std::vector<float> fa(na), fw(nw), hb(N), ref(ny);
    for (size_t i = 0; i < na; ++i) { ha[i] = __float2bfloat16(uni(mt)); fa[i] = __bfloat162float(ha[i]); }
    for (size_t i = 0; i < nw; ++i) { hw[i] = __float2bfloat16(uni(mt) * 0.1f); fw[i] = __bfloat162float(hw[i]); }
    for (auto& v : hb) v = uni(mt);

    // CPU による参照計算
    for (int b = 0; b < batch; ++b)
        for (int i = 0; i < M; ++i) {
            std::vector<double> line(N, 0.0);
            for (int k = 0; k < K; ++k) {
                const double a = fa[((size_t)b * M + i) * K + k];
                for (int j = 0; j < N; ++j) line[j] += a * fw[((size_t)b * K + k) * N + j];
            }
            for (int j = 0; j < N; ++j) {
                const double x = line[j] + hb[j];
                ref[((size_t)b * M + i) * N + j] =
                    (float)(0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
            }
        }

    bf16 *A, *W, *Y;
    float *bias, *ws;
    CUDA_SAFE_CALL(cudaMalloc(&A, na * sizeof(bf16)));
    CUDA_SAFE_CALL(cudaMalloc(&W, nw * sizeof(bf16)));
    CUDA_SAFE_CALL(cudaMalloc(&Y, ny * sizeof(bf16)));
    CUDA_SAFE_CALL(cudaMalloc(&bias, N * sizeof(float)));
    CUDA_SAFE_CALL(cudaMalloc(&ws, (size_t)splits * ny * sizeof(float)));
    CUDA_SAFE_CALL(cudaMemcpy(A, ha.data(), na * sizeof(bf16), cudaMemcpyHostToDevice));
    CUDA_SAFE_CALL(cudaMemcpy(W, hw.data(), nw * sizeof(bf16), cudaMemcpyHostToDevice));
    CUDA_SAFE_CALL(cudaMemcpy(bias, hb.data(), N * sizeof(float), cudaMemcpyHostToDevice));

    bool ok = true;
    for (Mode mode : {Mode::Workspace, Mode::Atomic}) {
        cudaEvent_t t0, t1;
        CUDA_SAFE_CALL(cudaEventCreate(&t0));
        CUDA_SAFE_CALL(cudaEventCreate(&t1));
        gemm_bias_gelu(mode, A, W, bias, Y, ws, batch, M, N, K, splits);    // ウォームアップ
        CUDA_SAFE_CALL(cudaEventRecord(t0));
        for (int i = 0; i < 10; ++i) gemm_bias_gelu(mode, A, W, bias, Y, ws, batch, M, N, K, splits);
        CUDA_SAFE_CALL(cudaEventRecord(t1));
        CUDA_SAFE_CALL(cudaEventSynchronize(t1));
        float ms;
        CUDA_SAFE_CALL(cudaEventElapsedTime(&ms, t0, t1));
        CUDA_SAFE_CALL(cudaMemcpy(hy.data(), Y, ny * sizeof(bf16), cudaMemcpyDeviceToHost));

        double worst = 0.0;
        for (size_t i = 0; i < ny; ++i) {
            const double e = std::fabs(__bfloat162float(hy[i]) - ref[i]) / (1.0 + std::fabs(ref[i]));
            if (!(e <= worst)) worst = e;
        }
        const bool good = worst < 1e-2;
        ok = ok && good;
        printf("batch=%d M=%d N=%d K=%d splits=%2d %-9s : %.4f ms, 誤差 %.2e %s\n", batch, M, N, K, splits,
               mode == Mode::Workspace ? "workspace" : "atomic", ms / 10, worst, good ? "OK" : "NG");
        CUDA_SAFE_CALL(cudaEventDestroy(t0));
        CUDA_SAFE_CALL(cudaEventDestroy(t1));
    }
    CUDA_SAFE_CALL(cudaFree(A));
    CUDA_SAFE_CALL(cudaFree(W));
    CUDA_SAFE_CALL(cudaFree(Y));
    CUDA_SAFE_CALL(cudaFree(bias));
    CUDA_SAFE_CALL(cudaFree(ws));
    return ok;
}

int main()
{
    bool ok = true;
    ok &= check(1, 64, 128, 4096, 16);
    ok &= check(3, 128, 192, 1024, 5);     // 32タイルを5分割: 7+7+7+7+4
    ok &= check(2, 64, 64, 96, 4);         // 3タイルを4分割: 最後は空
    ok &= check(2, 192, 64, 256, 1);
    return ok ? 0 : 1;
}
