// ffn_onekernel.cu -- the whole llama feed forward block in one launch, for small models / small batches
//
//   out = x + W2 * (silu(W1 * xn) .* (W3 * xn))
//
// xn    [n_tok, DIM]   already normalised            W1, W3 [ff, DIM]   gate / up, as in the checkpoint (out, in)
// x     [n_tok, DIM]   residual stream               W2     [DIM, ff]   down
//
// A block owns TOK tokens. It walks over ff in pieces of FFC: gate and up for that piece, silu * up goes to shared
// memory as half (never to DRAM), and is right away multiplied into the DIM wide output which stays in registers.
// W2 of a piece is fetched while gate/up are computed, W1/W3 of the next one during the down projection.
// ff % 8 == 0 is required, n_tok may be anything.

#include <stdint.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef uint32_t u32;

#define TOK 32
#define FFC 64
#define SKEW 8
#define LDH (FFC + SKEW)

#define CP_ASYNC16(dst, src, n) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(dst)), "l"(src), "r"(n) : "memory")
#define CP_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

// d += a * b, 16x8x16
static __device__ inline void mma16816(float *d, const u32 *a, const u32 *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// fragments straight from (padded) shared memory, no ldmatrix. p: first element of the 16x16 (a) or 8x16 (b) tile
static __device__ inline void frag_a(u32 *r, const half *p, int ld, int lane)
{
    const half *q = p + (lane >> 2) * ld + (lane & 3) * 2;
    r[0] = *(const u32 *)(q);
    r[1] = *(const u32 *)(q + 8 * ld);
    r[2] = *(const u32 *)(q + 8);
    r[3] = *(const u32 *)(q + 8 * ld + 8);
}

static __device__ inline void frag_b(u32 *r, const half *p, int ld, int lane)
{
    const half *q = p + (lane >> 2) * ld + (lane & 3) * 2;
    r[0] = *(const u32 *)(q);
    r[1] = *(const u32 *)(q + 8);
}

static __device__ inline float silu(float v) { return v / (1.0f + __expf(-v)); }

// rows x cols (cols % 8 == 0) with row pitch ld_src -> shared, what is out of range becomes 0
static __device__ inline void fetch(half *dst, int ld_dst, const half *src, int ld_src, int rows, int cols, int rows_ok, int cols_ok)
{
    const int per_row = cols / 8;
    for (int i = threadIdx.x; i < rows * per_row; i += blockDim.x) {
        int r = i / per_row, c = i % per_row * 8;
        int ok = r < rows_ok && c < cols_ok;
        CP_ASYNC16(dst + r * ld_dst + c, ok ? src + (size_t)r * ld_src + c : src, ok ? 16 : 0);
    }
}

template <int DIM>
__global__ __launch_bounds__(128) void ffn_swiglu(half *out, const half *x, const half *xn, const half *w1,
                                                  const half *w3, const half *w2, int n_tok, int ff)
{
    const int LDX = DIM + SKEW;
    extern __shared__ __align__(16) half smem[];
    half *s_x = smem;              // [TOK][LDX]
    half *s_w1 = s_x + TOK * LDX;  // [FFC][LDX]
    half *s_w3 = s_w1 + FFC * LDX; // [FFC][LDX]
    half *s_w2 = s_w3 + FFC * LDX; // [DIM][LDH]
    half *s_h = s_w2 + DIM * LDH;  // [TOK][LDH]

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int wm = (warp & 1) * 16; // tokens of this warp
    const int wn = warp >> 1;       // its half of the columns
    const int tok0 = blockIdx.x * TOK;
    const int g = lane >> 2, t2 = (lane & 3) * 2;

    float y[DIM / 16][4];
#pragma unroll
    for (int j = 0; j < DIM / 16; j++)
        for (int e = 0; e < 4; e++)
            y[j][e] = 0.0f;

    fetch(s_x, LDX, xn + (size_t)tok0 * DIM, DIM, TOK, DIM, n_tok - tok0, DIM);
    fetch(s_w1, LDX, w1, DIM, FFC, DIM, ff, DIM);
    fetch(s_w3, LDX, w3, DIM, FFC, DIM, ff, DIM);
    CP_COMMIT();

    for (int f0 = 0; f0 < ff; f0 += FFC) {
        // the barrier also says that everyone is done with s_w2 and s_h of the piece before
        CP_WAIT(0);
        __syncthreads();
        fetch(s_w2, LDH, w2 + f0, ff, DIM, FFC, DIM, ff - f0);
        CP_COMMIT();

        // ---- gate and up: 16 tokens x 32 columns per warp
        float gate[FFC / 16][4], up[FFC / 16][4];
#pragma unroll
        for (int j = 0; j < FFC / 16; j++)
            for (int e = 0; e < 4; e++)
                gate[j][e] = up[j][e] = 0.0f;
#pragma unroll
        for (int k = 0; k < DIM; k += 16) {
            u32 a[4], b[2];
            frag_a(a, s_x + wm * LDX + k, LDX, lane);
#pragma unroll
            for (int j = 0; j < FFC / 16; j++) {
                const int n = wn * (FFC / 2) + j * 8;
                frag_b(b, s_w1 + n * LDX + k, LDX, lane);
                mma16816(gate[j], a, b);
                frag_b(b, s_w3 + n * LDX + k, LDX, lane);
                mma16816(up[j], a, b);
            }
        }

        // ---- silu(gate) * up -> s_h
#pragma unroll
        for (int j = 0; j < FFC / 16; j++) {
            half *h = s_h + (wm + g) * LDH + wn * (FFC / 2) + j * 8 + t2;
            *(half2 *)(h) = __floats2half2_rn(silu(gate[j][0]) * up[j][0], silu(gate[j][1]) * up[j][1]);
            *(half2 *)(h + 8 * LDH) = __floats2half2_rn(silu(gate[j][2]) * up[j][2], silu(gate[j][3]) * up[j][3]);
        }
        CP_WAIT(0);
        __syncthreads();

        // w1 / w3 are free now
        if (f0 + FFC < ff) {
            fetch(s_w1, LDX, w1 + (size_t)(f0 + FFC) * DIM, DIM, FFC, DIM, ff - f0 - FFC, DIM);
            fetch(s_w3, LDX, w3 + (size_t)(f0 + FFC) * DIM, DIM, FFC, DIM, ff - f0 - FFC, DIM);
            CP_COMMIT();
        }

        // ---- down: 16 tokens x DIM / 2 columns per warp, accumulates over the pieces
#pragma unroll
        for (int k = 0; k < FFC; k += 16) {
            u32 a[4], b[2];
            frag_a(a, s_h + wm * LDH + k, LDH, lane);
#pragma unroll
            for (int j = 0; j < DIM / 16; j++) {
                frag_b(b, s_w2 + (wn * (DIM / 2) + j * 8) * LDH + k, LDH, lane);
                mma16816(y[j], a, b);
            }
        }
    }

    // ---- residual, out
#pragma unroll
    for (int j = 0; j < DIM / 16; j++) {
        const int c = wn * (DIM / 2) + j * 8 + t2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int tok = tok0 + wm + g + i * 8;
            if (tok < n_tok) {
                float2 r = __half22float2(*(const half2 *)(x + (size_t)tok * DIM + c));
                *(half2 *)(out + (size_t)tok * DIM + c) = __floats2half2_rn(y[j][2 * i] + r.x, y[j][2 * i + 1] + r.y);
            }
        }
    }
}

template <int DIM>
static int ffn_smem(void) { return (int)sizeof(half) * ((TOK + 2 * FFC) * (DIM + SKEW) + (DIM + TOK) * LDH); }

extern "C" int ffn_forward(half *out, const half *x, const half *xn, const half *w1, const half *w3, const half *w2,
                           int n_tok, int dim, int ff, cudaStream_t s)
{
    if (ff % 8) return -1;
    const int blocks = (n_tok + TOK - 1) / TOK;
    switch (dim) {
    case 64:
        cudaFuncSetAttribute(ffn_swiglu<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, ffn_smem<64>());
        ffn_swiglu<64><<<blocks, 128, ffn_smem<64>(), s>>>(out, x, xn, w1, w3, w2, n_tok, ff);
        return 0;
    case 96:
        cudaFuncSetAttribute(ffn_swiglu<96>, cudaFuncAttributeMaxDynamicSharedMemorySize, ffn_smem<96>());
        ffn_swiglu<96><<<blocks, 128, ffn_smem<96>(), s>>>(out, x, xn, w1, w3, w2, n_tok, ff);
        return 0;
    }
    return -1;
}
