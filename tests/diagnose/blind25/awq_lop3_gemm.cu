/*
   W4A16 GEMM for AWQ checkpoints.

   out[M, N] = in[M, K] * dequant(qweight)[K, N] + bias[N]

   qweight  int32 [K, N / 8]       8 columns per word, nibbles in AWQ order (0 2 4 6 1 3 5 7)
   qzeros   int32 [K / G, N / 8]   the same order
   scales   half  [K / G, N]

   Dequantisation follows FasterTransformer's interleaved numeric converter: with the AWQ order, nibbles i and i + 4
   are neighbours, so one lop3 gives a half2 of 1024 + q.
   K % 32 == 0, N % 64 == 0, G % 32 == 0; any M.
*/
#include <cuda_fp16.h>
#include <cstdint>

#define CTA_M 32
#define CTA_N 64
#define CTA_K 32
#define PACK 8
#define NUM_THREADS 128
#define A_STRIDE (CTA_K + 8)
#define B_STRIDE (CTA_N + 8)

#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory")
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory")

#define LDMATRIX_X4(r0, r1, r2, r3, addr)                                                \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"    \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)                                \
                 : "r"(addr)                                                             \
                 : "memory")
#define LDMATRIX_X4_T(r0, r1, r2, r3, addr)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"    \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)                                      \
                 : "r"(addr)                                                                   \
                 : "memory")
#define MMA16816(c, a, b0, b1)                                                             \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                      \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"       \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                  \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// 8 unsigned nibbles -> 4 half2, in column order
__device__ __forceinline__ void dequant_u4_awq(uint32_t w, half2 *r)
{
    constexpr uint32_t LUT = (0xf0 & 0xcc) | 0xaa;
    constexpr uint32_t BOTTOM = 0x000f000f;
    constexpr uint32_t TOP = 0x00f000f0;
    constexpr uint32_t MAGIC = 0x64006400;  // {1024, 1024}

    uint32_t h[4];
    const uint32_t w8 = w >> 8;
    asm("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[0]) : "r"(w), "n"(BOTTOM), "n"(MAGIC), "n"(LUT));
    asm("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[1]) : "r"(w), "n"(TOP), "n"(MAGIC), "n"(LUT));
    asm("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[2]) : "r"(w8), "n"(BOTTOM), "n"(MAGIC), "n"(LUT));
    asm("lop3.b32 %0, %1, %2, %3, %4;\n" : "=r"(h[3]) : "r"(w8), "n"(TOP), "n"(MAGIC), "n"(LUT));

    const half2 bias_lo = __float2half2_rn(1024.f);
    const half2 sixteenth = __float2half2_rn(1.f / 16.f);
    const half2 bias_hi = __float2half2_rn(-64.f);
    r[0] = __hsub2(*(half2 *)&h[0], bias_lo);
    r[1] = __hfma2(*(half2 *)&h[1], sixteenth, bias_hi);
    r[2] = __hsub2(*(half2 *)&h[2], bias_lo);
    r[3] = __hfma2(*(half2 *)&h[3], sixteenth, bias_hi);
}

__global__ void __launch_bounds__(NUM_THREADS)
awq_gemm_lop3(const half *__restrict__ in, const uint32_t *__restrict__ qweight, const half *__restrict__ scales,
              const uint32_t *__restrict__ qzeros, const half *__restrict__ bias, half *__restrict__ out, int M, int N,
              int K, int group_size)
{
    __shared__ __align__(16) half A_shared[2][CTA_M * A_STRIDE];
    __shared__ __align__(16) half B_shared[2][CTA_K * B_STRIDE];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp_m = (tid >> 5) & 1;
    const int warp_n = tid >> 6;
    const int m0 = blockIdx.y * CTA_M;
    const int n0 = blockIdx.x * CTA_N;
    const int num_words = N / PACK;

    // A: a row of 32 halves is four 16-byte pieces
    const int a_row = tid / 4;
    const int a_col = (tid % 4) * 8;
    const bool a_ok = m0 + a_row < M;
    const half *a_src = in + (size_t)(a_ok ? m0 + a_row : 0) * K + a_col;

    // B: a row of 64 nibbles is eight words; each thread has the same word of rows b_row and b_row + 16
    const int b_row = tid / (CTA_N / PACK);
    const int b_word = tid % (CTA_N / PACK);
    const uint32_t *w_src = qweight + (size_t)b_row * num_words + n0 / PACK + b_word;

    float acc[4][4];
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i)
            acc[j][i] = 0.f;

    uint32_t w_reg[2];
    const int k_tiles = K / CTA_K;

    CP_ASYNC_CG(smem_u32(&A_shared[0][a_row * A_STRIDE + a_col]), a_src, a_ok ? 16 : 0);
    CP_ASYNC_COMMIT();
    w_reg[0] = w_src[0];
    w_reg[1] = w_src[(size_t)16 * num_words];

    for (int kt = 0; kt < k_tiles; ++kt) {
        const int cur = kt & 1;

        // groups are whole k-tiles, so both rows have the same scales and zeros
        const int g = kt * CTA_K / group_size;
        half2 zero[4];
        dequant_u4_awq(qzeros[(size_t)g * num_words + n0 / PACK + b_word], zero);
        const uint4 scale_raw = *(const uint4 *)(scales + (size_t)g * N + n0 + b_word * PACK);
        const half2 *scale = (const half2 *)&scale_raw;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            half2 w[4];
            dequant_u4_awq(w_reg[i], w);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                w[j] = __hmul2(__hsub2(w[j], zero[j]), scale[j]);
            *(uint4 *)&B_shared[cur][(b_row + i * 16) * B_STRIDE + b_word * PACK] = *(uint4 *)w;
        }
        CP_ASYNC_WAIT(0);
        __syncthreads();

        if (kt + 1 < k_tiles) {
            const int k_next = (kt + 1) * CTA_K;
            CP_ASYNC_CG(smem_u32(&A_shared[cur ^ 1][a_row * A_STRIDE + a_col]), a_src + k_next, a_ok ? 16 : 0);
            CP_ASYNC_COMMIT();
            w_reg[0] = w_src[(size_t)k_next * num_words];
            w_reg[1] = w_src[(size_t)(k_next + 16) * num_words];
        }

#pragma unroll
        for (int kk = 0; kk < CTA_K; kk += 16) {
            uint32_t a[4];
            LDMATRIX_X4(a[0], a[1], a[2], a[3],
                        smem_u32(&A_shared[cur][(warp_m * 16 + lane % 16) * A_STRIDE + kk + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                uint32_t b[4];
                LDMATRIX_X4_T(b[0], b[1], b[2], b[3],
                              smem_u32(&B_shared[cur][(kk + lane % 16) * B_STRIDE + warp_n * 32 + j * 8 +
                                                      lane / 16 * 8]));
                MMA16816(acc[j], a, b[0], b[1]);
                MMA16816(acc[j + 1], a, b[2], b[3]);
            }
        }
    }

    // c0 c1 are in row lane / 4, c2 c3 eight rows below
    for (int j = 0; j < 4; ++j) {
        const int col = n0 + warp_n * 32 + j * 8 + lane % 4 * 2;
        const float2 b = __half22float2(*(const half2 *)(bias + col));
        for (int i = 0; i < 2; ++i) {
            const int row = m0 + warp_m * 16 + lane / 4 + i * 8;
            if (row < M)
                *(half2 *)(out + (size_t)row * N + col) =
                    __floats2half2_rn(acc[j][2 * i] + b.x, acc[j][2 * i + 1] + b.y);
        }
    }
}

void awq_gemm_forward(const half *in, const uint32_t *qweight, const half *scales, const uint32_t *qzeros,
                      const half *bias, half *out, int M, int N, int K, int group_size, cudaStream_t stream)
{
    dim3 grid(N / CTA_N, (M + CTA_M - 1) / CTA_M);
    awq_gemm_lop3<<<grid, NUM_THREADS, 0, stream>>>(in, qweight, scales, qzeros, bias, out, M, N, K, group_size);
}
