// gemm_mma: C = alpha A B^T + beta C in half with f32 accumulation, by ldmatrix and mma.sync.m16n8k16.
//
//   a    half, row-major [m][k]            b    half, row-major [n][k]
//   c    half, row-major [m][n]            all contiguous and 16-byte aligned; any m, n >= 1, k >= 0
//
// With beta = 0, C is not read. Launch: grid (ceil(n / 64), ceil(m / 64)), block 128, static shared memory only; sm_80
// or newer.
//
// Four warps as 2 x 2, each with a 32 x 32 part of the 64 x 64 tile. Slices of 32 along k come by cp.async into two
// buffers; where k is not a multiple of 8, rows are not 16-byte aligned and the copy goes by element.
#include <cuda_fp16.h>

constexpr int TILE = 64;
constexpr int SLICE = 32;
constexpr int THREADS = 128;
constexpr int LD = SLICE + 8;  // 80 bytes: eight consecutive rows fall on eight different groups of four banks

// Starts the copy of 64 rows x 32 columns of a [rows][cols] matrix; what lies past the last row or column becomes zero.
__device__ void start_slice(half* slice, const half* matrix, int first_row, int first_col, int rows, int cols) {
    for (int i = threadIdx.x; i < TILE * SLICE / 8; i += THREADS) {
        const int row = i / (SLICE / 8);
        const int col = i % (SLICE / 8) * 8;
        half* target = slice + row * LD + col;
        const half* source = matrix + static_cast<size_t>(first_row + row) * cols + first_col + col;
        const int count = first_row + row < rows ? min(max(cols - first_col - col, 0), 8) : 0;
        if (cols % 8 == 0) {  // then count is 0 or 8
            const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address),
                         "l"(count > 0 ? source : matrix), "r"(count > 0 ? 16 : 0)
                         : "memory");
        } else {
            for (int e = 0; e < 8; ++e) {
                target[e] = e < count ? source[e] : __float2half(0.0f);
            }
        }
    }
}

__device__ void ldmatrix(unsigned (&r)[4], const half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// c += a * b: a 16x16, b 16x8, c 16x8
__device__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_mma(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n, int k,
             float alpha, float beta) {
    __shared__ __align__(16) half sA[2][TILE * LD];
    __shared__ __align__(16) half sB[2][TILE * LD];

    const int lane = threadIdx.x % 32;
    const int block_row = blockIdx.y * TILE;
    const int block_col = blockIdx.x * TILE;
    const int warp_row = threadIdx.x / 64 * 32;
    const int warp_col = threadIdx.x / 32 % 2 * 32;

    float acc[2][4][4] = {};  // 16-row tiles, 8-column tiles, the four elements of a lane

    const int slices = (k + SLICE - 1) / SLICE;
    if (slices > 0) {
        start_slice(sA[0], a, block_row, 0, m, k);
        start_slice(sB[0], b, block_col, 0, n, k);
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");

    for (int slice = 0; slice < slices; ++slice) {
        const int now = slice % 2;
        if (slice + 1 < slices) {
            start_slice(sA[1 - now], a, block_row, (slice + 1) * SLICE, m, k);
            start_slice(sB[1 - now], b, block_col, (slice + 1) * SLICE, n, k);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");  // empty at the end: the count below stays right
        asm volatile("cp.async.wait_group 1;\n" ::: "memory");  // all but the newest group: this slice has arrived
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < SLICE; kk += 16) {
            // Each lane names one row of one 8x8 matrix. A: rows 0-7, rows 8-15, then the same eight columns further.
            // B: eight columns, the same eight k further, then the next eight columns.
            unsigned fa[2][4];
            unsigned fb[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldmatrix(fa[i], sA[now] + (warp_row + i * 16 + lane % 16) * LD + kk + lane / 16 * 8);
                ldmatrix(fb[i], sB[now] + (warp_col + i * 16 + lane / 16 * 8 + lane % 8) * LD + kk + lane / 8 % 2 * 8);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    mma(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
        __syncthreads();  // this slice's buffers are free for the copy that the next round starts
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = block_row + warp_row + i * 16 + lane / 4 + e / 2 * 8;
                const int col = block_col + warp_col + j * 8 + lane % 4 * 2 + e % 2;
                if (row < m && col < n) {
                    half* target = c + static_cast<size_t>(row) * n + col;
                    float x = alpha * acc[i][j][e];
                    if (beta != 0.0f) {
                        x += beta * __half2float(*target);
                    }
                    *target = __float2half(x);
                }
            }
        }
    }
}
