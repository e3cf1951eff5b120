// Block sparse matrix (BCSR, 16 x 16 blocks) times a dense matrix with tensor cores: C = A_sparse * B
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

using namespace nvcuda;

template <int BLOCK = 16>
struct BCSRMatrix {
    int rows, cols;
    std::vector<int> row_ptr;   // rows / BLOCK + 1
    std::vector<int> col_ind;   // one for each block
    std::vector<half> values;   // BLOCK * BLOCK for each block, row major
};

// a warp for each 16 x 16 tile of C; blockIdx.x picks the block row, the warps of a block go over the columns
__global__ void bcsr_spmm_kernel(const int* __restrict__ bsrRowPtr, const int* __restrict__ bsrColInd,
                                 const half* __restrict__ bsrVal, const half* __restrict__ B, float* __restrict__ C,
                                 int mb, int n) {
    const int block_row = blockIdx.x;
    const int tile_n = (blockIdx.y * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 16;
    if (block_row >= mb || tile_n >= n) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    const int start = bsrRowPtr[block_row];
    const int end = bsrRowPtr[block_row + 1];
    for (int p = start; p < end; ++p) {
        const int block_col = bsrColInd[p];
        wmma::load_matrix_sync(a_frag, bsrVal + (size_t)p * 256, 16);
        wmma::load_matrix_sync(b_frag, B + (size_t)block_col * 16 * n + tile_n, n);
        wmma::mma_sync(acc, a_frag, b_frag, acc);
    }
    wmma::store_matrix_sync(C + (size_t)block_row * 16 * n + tile_n, acc, n, wmma::mem_row_major);
}

static void spmm_reference(const BCSRMatrix<>& A, const std::vector<half>& B, std::vector<float>& C, int n) {
    for (int br = 0; br < A.rows / 16; ++br)
        for (int p = A.row_ptr[br]; p < A.row_ptr[br + 1]; ++p)
            for (int i = 0; i < 16; ++i)
                for (int k = 0; k < 16; ++k) {
                    const float a = __half2float(A.values[p * 256 + i * 16 + k]);
                    for (int j = 0; j < n; ++j)
                        C[(br * 16 + i) * n + j] += a * __half2float(B[(A.col_ind[p] * 16 + k) * n + j]);
                }
}

int main() {
    const int mb = 6, kb = 8, n = 96;
    BCSRMatrix<> A;
    A.rows = mb * 16;
    A.cols = kb * 16;
    A.row_ptr.push_back(0);
    srand(7);
    for (int r = 0; r < mb; ++r) {
        for (int c = 0; c < kb; ++c)
            if (r != 2 && rand() % 3 == 0) {  // row 2 has no blocks
                A.col_ind.push_back(c);
                for (int i = 0; i < 256; ++i) A.values.push_back(__float2half((rand() % 200 - 100) / 100.f));
            }
        A.row_ptr.push_back((int)A.col_ind.size());
    }
    std::vector<half> B(A.cols * n);
    for (auto& b : B) b = __float2half((rand() % 200 - 100) / 100.f);
    std::vector<float> C(A.rows * n), ref(A.rows * n, 0.f);

    int *d_ptr, *d_ind;
    half *d_val, *d_B;
    float* d_C;
    cudaMalloc(&d_ptr, A.row_ptr.size() * sizeof(int));
    cudaMalloc(&d_ind, A.col_ind.size() * sizeof(int));
    cudaMalloc(&d_val, A.values.size() * sizeof(half));
    cudaMalloc(&d_B, B.size() * sizeof(half));
    cudaMalloc(&d_C, C.size() * sizeof(float));
    cudaMemcpy(d_ptr, A.row_ptr.data(), A.row_ptr.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_ind, A.col_ind.data(), A.col_ind.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_val, A.values.data(), A.values.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(d_B, B.data(), B.size() * sizeof(half), cudaMemcpyHostToDevice);

    const int warps = 4;
    dim3 grid(mb, (n / 16 + warps - 1) / warps);
    bcsr_spmm_kernel<<<grid, warps * 32>>>(d_ptr, d_ind, d_val, d_B, d_C, mb, n);
    cudaMemcpy(C.data(), d_C, C.size() * sizeof(float), cudaMemcpyDeviceToHost);
    spmm_reference(A, B, ref, n);

    float worst = 0.f;
    for (size_t i = 0; i < C.size(); ++i) worst = fmaxf(worst, fabsf(C[i] - ref[i]));
    printf("max abs error %g over %zu blocks\n", worst, A.col_ind.size());
    cudaFree(d_ptr); cudaFree(d_ind); cudaFree(d_val); cudaFree(d_B); cudaFree(d_C);
    return worst < 1e-2f ? 0 : 1;
}
