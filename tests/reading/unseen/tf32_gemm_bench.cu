// tf32 tensor core sgemm vs cuBLAS
// usage: tf32_gemm_bench -m 2048 -n 2048 -k 2048 -i 20
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

template <unsigned BLOCK_M, unsigned BLOCK_N, unsigned BLOCK_K, unsigned STAGES = 2>
__global__ void sgemm_tf32(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                           unsigned m, unsigned n, unsigned k)
{
    constexpr unsigned WARPS_X = BLOCK_N / 32;
    constexpr unsigned WARPS_Y = BLOCK_M / 32;
    constexpr unsigned NTHREADS = 32 * WARPS_X * WARPS_Y;
    constexpr unsigned LDA_S = BLOCK_K + 8;
    constexpr unsigned LDB_S = BLOCK_N + 8;

    __shared__ __align__(128) float as[STAGES][BLOCK_M][LDA_S];
    __shared__ __align__(128) float bs[STAGES][BLOCK_K][LDB_S];

    const unsigned tid = threadIdx.x;
    const unsigned wx = (tid / 32) % WARPS_X, wy = (tid / 32) / WARPS_X;
    const unsigned bm = blockIdx.y * BLOCK_M, bn = blockIdx.x * BLOCK_N;

    auto stage_in = [&](unsigned s, unsigned k0) {
        for (unsigned i = tid; i < BLOCK_M * BLOCK_K / 4; i += NTHREADS) {
            unsigned r = i / (BLOCK_K / 4), q = i % (BLOCK_K / 4) * 4;
            unsigned dst = (unsigned)__cvta_generic_to_shared(&as[s][r][q]);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(a + (size_t)(bm + r) * k + k0 + q) : "memory");
        }
        for (unsigned i = tid; i < BLOCK_K * BLOCK_N / 4; i += NTHREADS) {
            unsigned r = i / (BLOCK_N / 4), q = i % (BLOCK_N / 4) * 4;
            unsigned dst = (unsigned)__cvta_generic_to_shared(&bs[s][r][q]);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(b + (size_t)(k0 + r) * n + bn + q) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[2][2];
#pragma unroll
    for (int i = 0; i < 4; i++) wmma::fill_fragment(acc[i / 2][i % 2], 0.0f);

    const unsigned steps = k / BLOCK_K;
    stage_in(0, 0);
    for (unsigned s = 0; s < steps; s++) {
        if (s + 1 < steps) {
            stage_in((s + 1) % STAGES, (s + 1) * BLOCK_K);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (unsigned kk = 0; kk < BLOCK_K; kk += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb[2];
            for (unsigned i = 0; i < 2; i++) {
                wmma::load_matrix_sync(fa[i], &as[s % STAGES][wy * 32 + i * 16][kk], LDA_S);
                wmma::load_matrix_sync(fb[i], &bs[s % STAGES][kk][wx * 32 + i * 16], LDB_S);
                // the hardware would truncate; round to nearest explicitly
                for (int t = 0; t < fa[i].num_elements; t++) fa[i].x[t] = wmma::__float_to_tf32(fa[i].x[t]);
                for (int t = 0; t < fb[i].num_elements; t++) fb[i].x[t] = wmma::__float_to_tf32(fb[i].x[t]);
            }
            for (unsigned i = 0; i < 2; i++)
                for (unsigned j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (unsigned i = 0; i < 2; i++)
        for (unsigned j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[(size_t)(bm + wy * 32 + i * 16) * n + bn + wx * 32 + j * 16], acc[i][j], n, wmma::mem_row_major);
}

static int get_arg(int argc, char **argv, const char *flag, int dflt)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], flag)) return atoi(argv[i + 1]);
    return dflt;
}

int main(int argc, char **argv)
{
    const int m = get_arg(argc, argv, "-m", 2048);
    const int n = get_arg(argc, argv, "-n", 2048);
    const int k = get_arg(argc, argv, "-k", 2048);
    const int iters = get_arg(argc, argv, "-i", 20);

    std::vector<float> ha(m * k), hb(k * n), hc(m * n), href(m * n);
    for (auto &x : ha) x = rand() / (float)RAND_MAX - 0.5f;
    for (auto &x : hb) x = rand() / (float)RAND_MAX - 0.5f;
    float *da, *db, *dc, *dref;
    cudaMalloc(&da, sizeof(float) * m * k);
    cudaMalloc(&db, sizeof(float) * k * n);
    cudaMalloc(&dc, sizeof(float) * m * n);
    cudaMalloc(&dref, sizeof(float) * m * n);
    cudaMemcpy(da, ha.data(), sizeof(float) * m * k, cudaMemcpyHostToDevice);
    cudaMemcpy(db, hb.data(), sizeof(float) * k * n, cudaMemcpyHostToDevice);

    cublasHandle_t h;
    cublasCreate(&h);
    cublasSetMathMode(h, CUBLAS_TF32_TENSOR_OP_MATH);
    const float one = 1.f, zero = 0.f;
    cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, db, n, da, k, &zero, dref, n);

    constexpr unsigned BM = 64, BN = 128, BK = 16;
    const dim3 grid(n / BN, m / BM), block(BM / 32 * BN / 32 * 32);
    cudaEvent_t t0, t1;
    cudaEventCreate(&t0);
    cudaEventCreate(&t1);
    cudaEventRecord(t0);
    for (int i = 0; i < iters; i++) sgemm_tf32<BM, BN, BK><<<grid, block>>>(da, db, dc, m, n, k);
    cudaEventRecord(t1);
    cudaEventSynchronize(t1);
    float ms = 0;
    cudaEventElapsedTime(&ms, t0, t1);
    cudaMemcpy(hc.data(), dc, sizeof(float) * m * n, cudaMemcpyDeviceToHost);
    cudaMemcpy(href.data(), dref, sizeof(float) * m * n, cudaMemcpyDeviceToHost);
    double err = 0;
    for (int i = 0; i < m * n; i++) err = fmax(err, fabs((double)hc[i] - href[i]));
    printf("%.2f TFLOPS, max |diff| to cuBLAS %g\n", 2e-9 * m * n * k * iters / ms, err);
    return 0;
}
