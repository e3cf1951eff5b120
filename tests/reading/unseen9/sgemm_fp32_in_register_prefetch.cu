#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// fp32 matrices, fp16 tensor cores; the next tile is fetched into registers while the current one is multiplied.
template <const int BM = 64, const int BN = 64, const int BK = 16>
__global__ void __launch_bounds__(128) sgemm_wmma_prefetch(int M, int N, int K, const float *A, const float *B, float *C) {
    namespace wm = nvcuda::wmma;
    __shared__ __align__(32) half As[2][BM * BK];
    __shared__ __align__(32) half Bs[2][BK * BN];
    const int tid = threadIdx.x, warp = tid / 32, wm_row = warp / 2 * 32, wm_col = warp % 2 * 32;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    const int aRow = tid / 4, aCol = tid % 4 * 4;    // 32 rows of 16 a turn
    const int bRow = tid / 16, bCol = tid % 16 * 4;  // 8 rows of 64 a turn

    float4 ra[2], rb[2];
    auto fetch = [&](int k) {
        for (int i = 0; i < 2; ++i) {
            ra[i] = *reinterpret_cast<const float4 *>(&A[(aRow + 32 * i) * K + k + aCol]);
            rb[i] = *reinterpret_cast<const float4 *>(&B[(k + bRow + 8 * i) * N + bCol]);
        }
    };
    auto put = [&](int s) {
        for (int i = 0; i < 2; ++i) {
            half *a = &As[s][(aRow + 32 * i) * BK + aCol], *b = &Bs[s][(bRow + 8 * i) * BN + bCol];
            a[0] = __float2half(ra[i].x); a[1] = __float2half(ra[i].y); a[2] = __float2half(ra[i].z); a[3] = __float2half(ra[i].w);
            b[0] = __float2half(rb[i].x); b[1] = __float2half(rb[i].y); b[2] = __float2half(rb[i].z); b[3] = __float2half(rb[i].w);
        }
    };

    wm::fragment<wm::accumulator, 16, 16, 16, float> acc[2][2];
    for (auto &row : acc) for (auto &f : row) wm::fill_fragment(f, 0.0f);
    fetch(0);
    put(0);
    __syncthreads();
    int stage = 0;
    for (int k = 0; k < K; k += BK) {
        const bool more = k + BK < K;
        if (more) fetch(k + BK);
        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> a[2];
        wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> b[2];
        for (int i = 0; i < 2; ++i) {
            wm::load_matrix_sync(a[i], &As[stage][(wm_row + 16 * i) * BK], BK);
            wm::load_matrix_sync(b[i], &Bs[stage][wm_col + 16 * i], BN);
        }
        for (int i = 0; i < 4; ++i) wm::mma_sync(acc[i / 2][i % 2], a[i / 2], b[i % 2], acc[i / 2][i % 2]);
        if (more) put(stage ^ 1);
        __syncthreads();
        stage ^= 1;
    }
    for (int i = 0; i < 4; ++i)
        wm::store_matrix_sync(&C[(wm_row + 16 * (i / 2)) * N + wm_col + 16 * (i % 2)], acc[i / 2][i % 2], N, wm::mem_row_major);
}

void run_sgemm(int M, int N, int K, const float *A, const float *B, float *C) {
    dim3 gridDim(N / 64, M / 64);
    sgemm_wmma_prefetch<<<gridDim, 128>>>(M, N, K, A, B, C);
}
