// paged_decode.cu -- single-token attention over a paged KV cache (grouped heads), sm_80 and up.
//
// One thread block per (kv head, sequence). The query heads that share a kv head are the rows of a
// 16-row MMA tile (unused rows are zero), every warp walks over its own pages (warp, warp + 4, ...)
// with an online softmax, and the four partial results are merged in shared memory.
//
//   q            [num_seqs, num_heads, 128]                       half
//   k_cache      [num_pages, num_kv_heads, 16, 128]               half
//   v_cache      [num_pages, num_kv_heads, 16, 128]               half
//   page_table   [num_seqs, max_pages]                            int32
//   context_lens [num_seqs]                                       int32, >= 1
//   out          [num_seqs, num_heads, 128]                       half
//
// num_heads / num_kv_heads must not exceed 16. Slots past the context length may hold anything.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define HEAD_DIM 128
#define PAGE 16
#define WARPS 4
#define ROWS 16
#define LDV (HEAD_DIM + 8)

static __device__ __forceinline__ void mma16816(float* c, const uint32_t* a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void ldmatrix_trans(uint32_t* r, const half* p)
{
    uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}

static __device__ __forceinline__ uint32_t pack2(float x, float y)
{
    half2 h = __floats2half2_rn(x, y);
    return *(uint32_t*)&h;
}

__global__ void __launch_bounds__(WARPS * 32)
paged_decode_kernel(const half* __restrict__ q, const half* __restrict__ k_cache, const half* __restrict__ v_cache,
                    const int* __restrict__ page_table, const int* __restrict__ context_lens,
                    half* __restrict__ out, int num_heads, int num_kv_heads, int max_pages, float scale)
{
    __shared__ __align__(16) half v_smem[WARPS][PAGE][LDV];
    __shared__ float o_smem[ROWS][HEAD_DIM];
    __shared__ float m_smem[WARPS][ROWS];
    __shared__ float l_smem[WARPS][ROWS];

    const int kv_head = blockIdx.x;
    const int seq = blockIdx.y;
    const int group = num_heads / num_kv_heads;
    const int warp = threadIdx.x >> 5;
    const int lane = threadIdx.x & 31;
    const int g = lane >> 2;
    const int t = lane & 3;

    const int ctx = context_lens[seq];
    const int pages = (ctx + PAGE - 1) / PAGE;
    const int* table = page_table + (size_t)seq * max_pages;

    // The queries of this group, as A fragments.
    const half* q_base = q + ((size_t)seq * num_heads + (size_t)kv_head * group) * HEAD_DIM;
    uint32_t qf[HEAD_DIM / 16][4];
    #pragma unroll
    for (int i = 0; i < HEAD_DIM / 16; i++) {
        const half* lo = q_base + g * HEAD_DIM + i * 16 + t * 2;
        const half* hi = lo + 8 * HEAD_DIM;
        qf[i][0] = g < group ? *(const uint32_t*)lo : 0u;
        qf[i][1] = g + 8 < group ? *(const uint32_t*)hi : 0u;
        qf[i][2] = g < group ? *(const uint32_t*)(lo + 8) : 0u;
        qf[i][3] = g + 8 < group ? *(const uint32_t*)(hi + 8) : 0u;
    }

    float o[HEAD_DIM / 8][4];
    #pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; d++)
        o[d][0] = o[d][1] = o[d][2] = o[d][3] = 0.f;
    float m[2] = {-INFINITY, -INFINITY};
    float l[2] = {0.f, 0.f};

    for (int page = warp; page < pages; page += WARPS) {
        const size_t base = ((size_t)table[page] * num_kv_heads + kv_head) * PAGE * HEAD_DIM;
        const half* kp = k_cache + base;
        const half* vp = v_cache + base;

        // V goes through shared memory; slots that are not written yet become zeros.
        __syncwarp();
        for (int i = lane; i < PAGE * HEAD_DIM / 8; i += 32) {
            const int r = i / (HEAD_DIM / 8);
            const int c = i % (HEAD_DIM / 8) * 8;
            uint4 val = make_uint4(0, 0, 0, 0);
            if (page * PAGE + r < ctx) val = *(const uint4*)(vp + r * HEAD_DIM + c);
            *(uint4*)&v_smem[warp][r][c] = val;
        }

        // S = Q K^T, K straight from global memory: B fragment column g is key g of the eight.
        float s[2][4] = {{0.f, 0.f, 0.f, 0.f}, {0.f, 0.f, 0.f, 0.f}};
        #pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; i++) {
            #pragma unroll
            for (int j = 0; j < 2; j++) {
                const half* kr = kp + (j * 8 + g) * HEAD_DIM + i * 16 + t * 2;
                mma16816(s[j], qf[i], *(const uint32_t*)kr, *(const uint32_t*)(kr + 8));
            }
        }

        float mx[2] = {m[0], m[1]};
        #pragma unroll
        for (int j = 0; j < 2; j++) {
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                const int pos = page * PAGE + j * 8 + t * 2 + (e & 1);
                s[j][e] = pos < ctx ? s[j][e] * scale : -INFINITY;
                mx[e >> 1] = fmaxf(mx[e >> 1], s[j][e]);
            }
        }
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            mx[r] = fmaxf(mx[r], __shfl_xor_sync(0xffffffffu, mx[r], 1));
            mx[r] = fmaxf(mx[r], __shfl_xor_sync(0xffffffffu, mx[r], 2));
            // a page in range has at least one key, so mx is finite here
            const float corr = __expf(m[r] - mx[r]);
            m[r] = mx[r];
            float sum = 0.f;
            #pragma unroll
            for (int j = 0; j < 2; j++) {
                s[j][r * 2] = __expf(s[j][r * 2] - mx[r]);
                s[j][r * 2 + 1] = __expf(s[j][r * 2 + 1] - mx[r]);
                sum += s[j][r * 2] + s[j][r * 2 + 1];
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            l[r] = l[r] * corr + sum;
            #pragma unroll
            for (int d = 0; d < HEAD_DIM / 8; d++) {
                o[d][r * 2] *= corr;
                o[d][r * 2 + 1] *= corr;
            }
        }

        const uint32_t pf[4] = {pack2(s[0][0], s[0][1]), pack2(s[0][2], s[0][3]),
                                pack2(s[1][0], s[1][1]), pack2(s[1][2], s[1][3])};
        __syncwarp();
        #pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; d++) {
            uint32_t vf[4];
            ldmatrix_trans(vf, &v_smem[warp][lane & 15][d * 16 + (lane >> 4) * 8]);
            mma16816(o[d * 2], pf, vf[0], vf[1]);
            mma16816(o[d * 2 + 1], pf, vf[2], vf[3]);
        }
    }

    // Merge the warps. A warp without pages has m = -inf and l = 0.
    if (t == 0) {
        m_smem[warp][g] = m[0];
        m_smem[warp][g + 8] = m[1];
        l_smem[warp][g] = l[0];
        l_smem[warp][g + 8] = l[1];
    }
    for (int i = threadIdx.x; i < ROWS * HEAD_DIM; i += WARPS * 32)
        o_smem[i / HEAD_DIM][i % HEAD_DIM] = 0.f;
    __syncthreads();

    float weight[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = g + r * 8;
        float top = -INFINITY, total = 0.f;
        for (int w = 0; w < WARPS; w++) top = fmaxf(top, m_smem[w][row]);
        for (int w = 0; w < WARPS; w++) total += l_smem[w][row] * __expf(m_smem[w][row] - top);
        weight[r] = __expf(m[r] - top) / total;
    }
    for (int w = 0; w < WARPS; w++) {  // one warp after the other, no atomics
        if (warp == w) {
            #pragma unroll
            for (int d = 0; d < HEAD_DIM / 8; d++) {
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    o_smem[g + (e >> 1) * 8][d * 8 + t * 2 + (e & 1)] += o[d][e] * weight[e >> 1];
            }
        }
        __syncthreads();
    }

    half* out_base = out + ((size_t)seq * num_heads + (size_t)kv_head * group) * HEAD_DIM;
    for (int i = threadIdx.x; i < group * HEAD_DIM; i += WARPS * 32)
        out_base[i] = __float2half(o_smem[i / HEAD_DIM][i % HEAD_DIM]);
}

extern "C" int paged_decode_launch(const void* q, const void* k_cache, const void* v_cache, const int* page_table,
                                   const int* context_lens, void* out, int num_seqs, int num_heads,
                                   int num_kv_heads, int max_pages, float scale, void* stream)
{
    if (num_kv_heads <= 0 || num_heads % num_kv_heads || num_heads / num_kv_heads > ROWS) return -1;
    dim3 grid(num_kv_heads, num_seqs);
    paged_decode_kernel<<<grid, WARPS * 32, 0, (cudaStream_t)stream>>>(
        (const half*)q, (const half*)k_cache, (const half*)v_cache, page_table, context_lens, (half*)out,
        num_heads, num_kv_heads, max_pages, scale);
    return (int)cudaGetLastError();
}
