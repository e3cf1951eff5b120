// int8 x int8 -> int32 GEMM on tensor cores (compute capability >= 7.2)
//   nvcc -arch=sm_80 -o igemm igemm_s8_wmma.cu && ./igemm 256 256 256
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <mma.h>

#define CUDA_CHECK(call)                                                                     \
    do {                                                                                     \
        cudaError_t status_ = (call);                                                        \
        if (status_ != cudaSuccess) {                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

#define LAUNCH(kernel, grid, block, smem, stream, ...)          \
    do {                                                        \
        kernel<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__); \
        CUDA_CHECK(cudaGetLastError());                         \
    } while (0)

using namespace nvcuda::wmma;

static const int TILE = 16;
static const int WARPS_M = 2;
static const int WARPS_N = 2;
static const int WARP_TILES = 2;  // 2 x 2 tiles of 16 x 16 to the warp
static const int BLK = TILE * WARPS_M * WARP_TILES;  // 64
static const int BLK_K = 64;

// C (m x n, row) = A (m x k, row) * B (k x n, col): B is kept transposed, n x k
__global__ void igemm_kernel(const int8_t* __restrict__ A, const int8_t* __restrict__ Bt, int32_t* __restrict__ C,
                             int m, int n, int k) {
    __shared__ int8_t As[BLK][BLK_K + 16];
    __shared__ int8_t Bs[BLK][BLK_K + 16];

    const int warp = threadIdx.x / 32;
    const int wm = (warp / WARPS_N) * TILE * WARP_TILES;
    const int wn = (warp % WARPS_N) * TILE * WARP_TILES;
    const int m0 = blockIdx.y * BLK;
    const int n0 = blockIdx.x * BLK;

    fragment<accumulator, 16, 16, 16, int> acc[WARP_TILES][WARP_TILES];
    for (auto& row : acc)
        for (auto& f : row) fill_fragment(f, 0);

    for (int k0 = 0; k0 < k; k0 += BLK_K) {
        for (int i = threadIdx.x; i < BLK * BLK_K / 16; i += blockDim.x) {
            const int r = i / (BLK_K / 16), c = (i % (BLK_K / 16)) * 16;
            int4 va = make_int4(0, 0, 0, 0), vb = make_int4(0, 0, 0, 0);
            if (m0 + r < m && k0 + c < k) va = *reinterpret_cast<const int4*>(A + (size_t)(m0 + r) * k + k0 + c);
            if (n0 + r < n && k0 + c < k) vb = *reinterpret_cast<const int4*>(Bt + (size_t)(n0 + r) * k + k0 + c);
            *reinterpret_cast<int4*>(&As[r][c]) = va;
            *reinterpret_cast<int4*>(&Bs[r][c]) = vb;
        }
        __syncthreads();
        for (int kk = 0; kk < BLK_K; kk += TILE) {
            fragment<matrix_a, 16, 16, 16, signed char, row_major> a[WARP_TILES];
            fragment<matrix_b, 16, 16, 16, signed char, col_major> b[WARP_TILES];
            for (int t = 0; t < WARP_TILES; ++t) {
                load_matrix_sync(a[t], &As[wm + t * TILE][kk], BLK_K + 16);
                load_matrix_sync(b[t], &Bs[wn + t * TILE][kk], BLK_K + 16);
            }
            for (int i = 0; i < WARP_TILES; ++i)
                for (int j = 0; j < WARP_TILES; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < WARP_TILES; ++i)
        for (int j = 0; j < WARP_TILES; ++j) {
            const int r = m0 + wm + i * TILE, c = n0 + wn + j * TILE;
            if (r < m && c < n) store_matrix_sync(C + (size_t)r * n + c, acc[i][j], n, mem_row_major);
        }
}

void igemm(const int8_t* A, const int8_t* Bt, int32_t* C, int m, int n, int k, cudaStream_t stream = 0) {
    const dim3 grid((n + BLK - 1) / BLK, (m + BLK - 1) / BLK);
    LAUNCH(igemm_kernel, grid, dim3(WARPS_M * WARPS_N * 32), 0, stream, A, Bt, C, m, n, k);
}

int main(int argc, char** argv) {
    const int m = argc > 1 ? std::atoi(argv[1]) : 128;
    const int n = argc > 2 ? std::atoi(argv[2]) : 96;
    const int k = argc > 3 ? std::atoi(argv[3]) : 160;
    std::vector<int8_t> a(m * k), b(n * k);
    std::vector<int32_t> c(m * n);
    for (auto& v : a) v = (int8_t)(std::rand() % 256 - 128);
    for (auto& v : b) v = (int8_t)(std::rand() % 256 - 128);

    int8_t *da, *db;
    int32_t* dc;
    CUDA_CHECK(cudaMalloc(&da, a.size()));
    CUDA_CHECK(cudaMalloc(&db, b.size()));
    CUDA_CHECK(cudaMalloc(&dc, c.size() * sizeof(int32_t)));
    CUDA_CHECK(cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(db, b.data(), b.size(), cudaMemcpyHostToDevice));
    igemm(da, db, dc, m, n, k);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(int32_t), cudaMemcpyDeviceToHost));

    int errors = 0;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            int32_t want = 0;
            for (int x = 0; x < k; ++x) want += (int32_t)a[i * k + x] * (int32_t)b[j * k + x];
            errors += want != c[i * n + j];
        }
    std::printf("%d wrong of %d\n", errors, m * n);
    CUDA_CHECK(cudaFree(da));
    CUDA_CHECK(cudaFree(db));
    CUDA_CHECK(cudaFree(dc));
    return errors ? EXIT_FAILURE : EXIT_SUCCESS;
}
