// torch.nn.Bilinear forward:   y[b, o] = x1[b, :] . W[o] . x2[b, :] + bias[o]
// W [Out, D1, D2] bf16, x1 [B, D1], x2 [B, D2] bf16, y [B, Out] bf16.
//
// A CTA has 64 rows of the batch and OUTS outputs. For each output x1 W[o] is made 32 columns at a time and each piece
// is folded with x2 at once in registers; the D1 x 32 panels of W go through a ring of cp.async stages.
#include <cstdint>
#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

#ifndef BIL_D1
#define BIL_D1 64
#endif
#define BIL_ROWS     64
#define BIL_COLS     32
#define BIL_OUTS     4
#define BIL_STAGES   3
#define BIL_THREADS  128
#define LDX          (BIL_D1 + 8)
#define LDW          (BIL_COLS + 8)

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp16(bf16 *dst, const bf16 *src, bool pred)
{
    asm volatile("{\n"
                 "  .reg .pred p;\n"
                 "  setp.ne.b32 p, %2, 0;\n"
                 "  @p cp.async.cg.shared.global [%0], [%1], 16;\n"
                 "  @!p st.shared.v4.u32 [%0], {0, 0, 0, 0};\n"
                 "}\n" ::"r"(shared_address(dst)), "l"(src), "r"((int)pred) : "memory");
}

#define CP_COMMIT()   asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_WAIT(N)    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory")

__device__ __forceinline__ void ldsm(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared_address(p)));
}

__device__ __forceinline__ void ldsm_t(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared_address(p)));
}

__device__ __forceinline__ void mma16816(float *d, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void __launch_bounds__(BIL_THREADS)
bilinear_fwd(const bf16 *__restrict__ x1, const bf16 *__restrict__ x2, const bf16 *__restrict__ w,
             const float *__restrict__ bias, bf16 *__restrict__ y, int batch, int d2, int outs)
{
    __shared__ __align__(16) bf16 sx[BIL_ROWS * LDX];
    __shared__ __align__(16) bf16 sw[BIL_STAGES][BIL_D1 * LDW];

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int b0 = blockIdx.x * BIL_ROWS;
    const int o0 = blockIdx.y * BIL_OUTS;
    const int my_outs = min(BIL_OUTS, outs - o0);
    const int chunks = (d2 + BIL_COLS - 1) / BIL_COLS;
    const int total = my_outs * chunks;               // panels: all chunks of an output, then the next output

    auto load_panel = [&](int it) {
        const int o = o0 + it / chunks;
        const int c0 = it % chunks * BIL_COLS;
        bf16 *dst = sw[it % BIL_STAGES];
        for (int i = tid; i < BIL_D1 * (BIL_COLS / 8); i += BIL_THREADS) {
            const int r = i / (BIL_COLS / 8), c = i % (BIL_COLS / 8) * 8;
            // d2 is a multiple of 8
            cp16(dst + r * LDW + c, w + ((size_t)o * BIL_D1 + r) * d2 + c0 + c, c0 + c < d2);
        }
    };

    for (int i = tid; i < BIL_ROWS * (BIL_D1 / 8); i += BIL_THREADS) {
        const int r = i / (BIL_D1 / 8), c = i % (BIL_D1 / 8) * 8;
        cp16(sx + r * LDX + c, x1 + (size_t)(b0 + r) * BIL_D1 + c, b0 + r < batch);
    }
#pragma unroll
    for (int s = 0; s < BIL_STAGES - 1; ++s) {
        if (s < total) load_panel(s);
        CP_COMMIT();                                  // x1 goes with the first panel
    }

    const int row_lo = b0 + warp * 16 + lane / 4;
    const int row_hi = row_lo + 8;
    uint32_t fa[BIL_D1 / 16][4];
    float dot_lo = 0.f, dot_hi = 0.f;

    for (int it = 0; it < total; ++it) {
        CP_WAIT(BIL_STAGES - 2);
        __syncthreads();
        if (it == 0) {
#pragma unroll
            for (int k = 0; k < BIL_D1 / 16; ++k)
                ldsm(fa[k][0], fa[k][1], fa[k][2], fa[k][3], sx + (warp * 16 + lane % 16) * LDX + k * 16 + lane / 16 * 8);
        }
        if (it + BIL_STAGES - 1 < total) load_panel(it + BIL_STAGES - 1);
        CP_COMMIT();

        float acc[BIL_COLS / 8][4] = {};
        const bf16 *panel = sw[it % BIL_STAGES];
#pragma unroll
        for (int k = 0; k < BIL_D1 / 16; ++k) {
#pragma unroll
            for (int n = 0; n < BIL_COLS / 16; ++n) {
                uint32_t fb[4];
                ldsm_t(fb[0], fb[1], fb[2], fb[3], panel + (k * 16 + lane % 16) * LDW + n * 16 + lane / 16 * 8);
                mma16816(acc[2 * n], fa[k], fb[0], fb[1]);
                mma16816(acc[2 * n + 1], fa[k], fb[2], fb[3]);
            }
        }

        // fold with x2: columns behind d2 are zeros of W, but x2 must not be read there
        const int chunk = it % chunks;
#pragma unroll
        for (int n = 0; n < BIL_COLS / 8; ++n) {
            const int col = chunk * BIL_COLS + n * 8 + lane % 4 * 2;
            if (col >= d2) continue;
            if (row_lo < batch) {
                const __nv_bfloat162 v = *(const __nv_bfloat162 *)(x2 + (size_t)row_lo * d2 + col);
                dot_lo += acc[n][0] * __low2float(v) + acc[n][1] * __high2float(v);
            }
            if (row_hi < batch) {
                const __nv_bfloat162 v = *(const __nv_bfloat162 *)(x2 + (size_t)row_hi * d2 + col);
                dot_hi += acc[n][2] * __low2float(v) + acc[n][3] * __high2float(v);
            }
        }

        if (chunk == chunks - 1) {                    // the output is complete
            dot_lo += __shfl_xor_sync(0xffffffff, dot_lo, 1);
            dot_lo += __shfl_xor_sync(0xffffffff, dot_lo, 2);
            dot_hi += __shfl_xor_sync(0xffffffff, dot_hi, 1);
            dot_hi += __shfl_xor_sync(0xffffffff, dot_hi, 2);
            const int o = o0 + it / chunks;
            if (lane % 4 == 0) {
                if (row_lo < batch) y[(size_t)row_lo * outs + o] = __float2bfloat16(dot_lo + bias[o]);
                if (row_hi < batch) y[(size_t)row_hi * outs + o] = __float2bfloat16(dot_hi + bias[o]);
            }
            dot_lo = dot_hi = 0.f;
        }
    }
}
