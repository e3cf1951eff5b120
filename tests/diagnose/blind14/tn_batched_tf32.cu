/*
 * Strided batched GEMM in TF32, column-major, first matrix transposed:
 *     C[i] = alpha * A[i]^T * B[i] + beta * C[i],   i = 0 .. batch_count - 1
 * A is k x m (lda), B is k x n (ldb), C is m x n (ldc). lda and ldb must be multiples of 4.
 */
#define BLK_M 64
#define BLK_N 32
#define BLK_K 16
#define LDS   (BLK_K + 4)
#define NTHR  128

static __device__ __forceinline__ unsigned to_tf32(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

static __device__ __forceinline__ void mma_16x8x8(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* four consecutive values of one column, zeros outside of the matrix */
static __device__ __forceinline__ float4 fetch4(const float *A, int ld, int k, int col, int nk, int ncol)
{
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (col < ncol) {
        const float *p = A + (long long)col * ld + k;
        if (k + 0 < nk) v.x = p[0];
        if (k + 1 < nk) v.y = p[1];
        if (k + 2 < nk) v.z = p[2];
        if (k + 3 < nk) v.w = p[3];
    }
    return v;
}

extern "C" __global__ void sgemm_tn_strided_batched(int m, int n, int k, float alpha,
                                                    const float *A, int lda, long long stride_a,
                                                    const float *B, int ldb, long long stride_b,
                                                    float beta, float *C, int ldc, long long stride_c)
{
    __shared__ unsigned sA[BLK_M * LDS];
    __shared__ unsigned sB[BLK_N * LDS];

    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int g = lane / 4, t = lane % 4;
    const int m0 = blockIdx.x * BLK_M, n0 = blockIdx.y * BLK_N;
    const int wm = (warp % 2) * 32, wn = (warp / 2) * 16;

    A += blockIdx.z * stride_a;
    B += blockIdx.z * stride_b;
    C += blockIdx.z * stride_c;

    /* a thread copies two vectors of A and one of B */
    const int vk = tid % 4 * 4, vc = tid / 4;
    float4 ra[2], rb;
    ra[0] = fetch4(A, lda, vk, m0 + vc, k, m);
    ra[1] = fetch4(A, lda, vk, m0 + vc + 32, k, m);
    rb    = fetch4(B, ldb, vk, n0 + vc, k, n);

    float acc[2][2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int e = 0; e < 4; e++)
                acc[i][j][e] = 0.f;

    for (int kb = 0; kb < k; kb += BLK_K) {
        for (int i = 0; i < 2; i++) {
            unsigned *d = sA + (vc + i * 32) * LDS + vk;
            d[0] = to_tf32(ra[i].x);
            d[1] = to_tf32(ra[i].y);
            d[2] = to_tf32(ra[i].z);
            d[3] = to_tf32(ra[i].w);
        }
        unsigned *d = sB + vc * LDS + vk;
        d[0] = to_tf32(rb.x);
        d[1] = to_tf32(rb.y);
        d[2] = to_tf32(rb.z);
        d[3] = to_tf32(rb.w);
        __syncthreads();

        /* next tile into registers while this one is multiplied */
        const int kn = kb + BLK_K + vk;
        ra[0] = fetch4(A, lda, kn, m0 + vc, k, m);
        ra[1] = fetch4(A, lda, kn, m0 + vc + 32, k, m);
        rb    = fetch4(B, ldb, kn, n0 + vc, k, n);

        for (int kk = 0; kk < BLK_K; kk += 8) {
            unsigned fa[2][4], fb[2][2];
            for (int i = 0; i < 2; i++) {
                const unsigned *p = sA + (wm + i * 16 + g) * LDS + kk + t;
                fa[i][0] = p[0];
                fa[i][1] = p[8 * LDS];
                fa[i][2] = p[4];
                fa[i][3] = p[8 * LDS + 4];
            }
            for (int j = 0; j < 2; j++) {
                const unsigned *p = sB + (wn + j * 8 + g) * LDS + kk + t;
                fb[j][0] = p[0];
                fb[j][1] = p[4];
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    mma_16x8x8(acc[i][j], fa[i], fb[j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int e = 0; e < 4; e++) {
                const int row = m0 + wm + i * 16 + g + e / 2 * 8;
                const int col = n0 + wn + j * 8 + t * 2 + e % 2;
                if (row < m && col < n) {
                    float *c = C + (long long)col * ldc + row;
                    *c = beta == 0.f ? alpha * acc[i][j][e] : alpha * acc[i][j][e] + beta * *c;
                }
            }
}
