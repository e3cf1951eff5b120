/*
 * tf32_slicedk.cu
 *
 * out = relu(x * w^T + bias) for few rows: x is [m, k], w is [n, k], float, multiplied in TF32.
 * With few rows there are few tiles, so the warps of a block share one tile and slice its K between them
 * ("sliced-K"); their partial sums meet in shared memory at the end.
 */
#include <stdint.h>

#define BLK_M        32
#define BLK_N        16
#define BLK_K        64
#define NUM_WARPS    4
#define SLICE_K      (BLK_K / NUM_WARPS)
#define MMA_K        8
#define LDS          (BLK_K + 4)
#define LDR          (BLK_N + 2)
#define M_TILES      (BLK_M / 16)
#define N_TILES      (BLK_N / 8)

#define CP_ASYNC_4(dst, src, bytes)                                                             \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n)  asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define MMA_TF32(c, a, b)                                                                       \
    asm volatile(                                                                               \
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "                                   \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                     \
        : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                                \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

static __device__ __forceinline__ uint32_t to_tf32(float v)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(v));
    return r;
}

static __device__ __forceinline__ uint32_t smem_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* one tile of rows x BLK_K floats; what lies outside is filled with zeros by cp.async itself */
static __device__ void load_tile(float (*dst)[LDS], const float *src, int rows, int row0, int nrows, int k0, int k)
{
    for (int i = threadIdx.x; i < rows * BLK_K; i += NUM_WARPS * 32)
    {
        int r  = i / BLK_K;
        int c  = i % BLK_K;
        int ok = row0 + r < nrows && k0 + c < k;
        const float *from = ok ? src + (size_t)(row0 + r) * k + k0 + c : src;
        CP_ASYNC_4(smem_addr(&dst[r][c]), from, ok ? 4 : 0);
    }
}

extern "C" __global__ void tf32_slicedk(const float *x, const float *w, const float *bias, float *out, int m, int n, int k)
{
    __shared__ __align__(16) float sx[2][BLK_M][LDS];
    __shared__ __align__(16) float sw[2][BLK_N][LDS];
    __shared__ float red[NUM_WARPS][BLK_M][LDR];

    const int lane  = threadIdx.x % 32;
    const int warp  = threadIdx.x / 32;
    const int group = lane / 4;
    const int tid4  = lane % 4;
    const int row0  = blockIdx.x * BLK_M;
    const int col0  = blockIdx.y * BLK_N;

    float c[M_TILES][N_TILES][4] = {{{0.0f}}};

    const int ntiles = (k + BLK_K - 1) / BLK_K;
    load_tile(sx[0], x, BLK_M, row0, m, 0, k);
    load_tile(sw[0], w, BLK_N, col0, n, 0, k);
    CP_ASYNC_COMMIT();

    for (int tile = 0; tile < ntiles; tile++)
    {
        const int buf = tile % 2;
        if (tile + 1 < ntiles)
        {
            load_tile(sx[buf ^ 1], x, BLK_M, row0, m, (tile + 1) * BLK_K, k);
            load_tile(sw[buf ^ 1], w, BLK_N, col0, n, (tile + 1) * BLK_K, k);
            CP_ASYNC_COMMIT();
            CP_ASYNC_WAIT(1);
        }
        else
        {
            CP_ASYNC_WAIT(0);
        }
        __syncthreads();

        for (int kk = warp * SLICE_K; kk < (warp + 1) * SLICE_K; kk += MMA_K)
        {
            uint32_t a[M_TILES][4], b[N_TILES][2];
            for (int i = 0; i < M_TILES; i++)
            {
                a[i][0] = to_tf32(sx[buf][i * 16 + group][kk + tid4]);
                a[i][1] = to_tf32(sx[buf][i * 16 + group + 8][kk + tid4]);
                a[i][2] = to_tf32(sx[buf][i * 16 + group][kk + tid4 + 4]);
                a[i][3] = to_tf32(sx[buf][i * 16 + group + 8][kk + tid4 + 4]);
            }
            for (int j = 0; j < N_TILES; j++)
            {
                b[j][0] = to_tf32(sw[buf][j * 8 + group][kk + tid4]);
                b[j][1] = to_tf32(sw[buf][j * 8 + group][kk + tid4 + 4]);
            }
            for (int i = 0; i < M_TILES; i++)
                for (int j = 0; j < N_TILES; j++)
                    MMA_TF32(c[i][j], a[i], b[j]);
        }
        __syncthreads();
    }

    /* partial sums of all warps */
    for (int i = 0; i < M_TILES; i++)
    {
        for (int j = 0; j < N_TILES; j++)
        {
            red[warp][i * 16 + group][j * 8 + tid4 * 2]         = c[i][j][0];
            red[warp][i * 16 + group][j * 8 + tid4 * 2 + 1]     = c[i][j][1];
            red[warp][i * 16 + group + 8][j * 8 + tid4 * 2]     = c[i][j][2];
            red[warp][i * 16 + group + 8][j * 8 + tid4 * 2 + 1] = c[i][j][3];
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < BLK_M * BLK_N; i += NUM_WARPS * 32)
    {
        int r = i / BLK_N;
        int j = i % BLK_N;
        if (row0 + r >= m || col0 + j >= n)
            continue;
        float sum = bias[col0 + j];
        for (int s = 0; s < NUM_WARPS; s++)
            sum += red[s][r][j];
        out[(size_t)(row0 + r) * n + col0 + j] = fmaxf(sum, 0.0f);
    }
}
