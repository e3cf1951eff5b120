// Signed random projections (SimHash): 32 hyperplanes make one table's 32-bit code.
//   code[n][t] bit b = ( x[n] . plane[32 t + b] + shift[32 t + b] >= 0 )
// One thread block: 64 points, two tables. 4 warps, each 16 points x 64 planes.
#include <cuda_fp16.h>
#include <stdint.h>

#define POINTS   64
#define PLANES   64
#define KSTEP    32
#define LD       (KSTEP + 8)        // 80 bytes: rows of a fragment fall on different banks
#define THREADS  128

static __device__ __forceinline__ void cp16(void* smem, const void* gmem, int bytes)
{
    unsigned s = (unsigned)__cvta_generic_to_shared(smem);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(s), "l"(gmem), "r"(bytes));
}
static __device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n"); }
template <int n> static __device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;\n" :: "n"(n)); }

static __device__ __forceinline__ void mma16816(float* d, const uint32_t* a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 64 rows x KSTEP halves; what lies outside the matrix is filled with zeros (dim is a multiple of 8)
static __device__ void stage_rows(__half* dst, const __half* src, int row0, int rows, int k0, int dim)
{
    for (int i = threadIdx.x; i < 64 * (KSTEP / 8); i += THREADS) {
        int r = i / (KSTEP / 8);
        int c = (i % (KSTEP / 8)) * 8;
        int inside = (row0 + r < rows) && (k0 + c < dim);
        const __half* from = inside ? src + (size_t)(row0 + r) * dim + k0 + c : src;
        cp16(dst + r * LD + c, from, inside ? 16 : 0);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
lsh_codes(const __half* __restrict__ x, const __half* __restrict__ planes, const float* __restrict__ shift,
          uint32_t* __restrict__ codes, int n_points, int n_tables, int dim)
{
    __shared__ __align__(16) __half sx[2][POINTS * LD];
    __shared__ __align__(16) __half sp[2][PLANES * LD];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int gr   = lane >> 2;
    const int tg   = lane & 3;
    const int p0   = blockIdx.x * POINTS;
    const int h0   = blockIdx.y * PLANES;
    const int n_planes = n_tables * 32;

    float acc[8][4];
    for (int j = 0; j < 8; j++) {
        // the shift of a plane is where its sum starts
        int h = h0 + j * 8 + tg * 2;
        float s0 = h < n_planes ? shift[h] : 0.f;
        float s1 = h + 1 < n_planes ? shift[h + 1] : 0.f;
        acc[j][0] = s0; acc[j][1] = s1;
        acc[j][2] = s0; acc[j][3] = s1;
    }

    const int n_steps = (dim + KSTEP - 1) / KSTEP;
    stage_rows(sx[0], x, p0, n_points, 0, dim);
    stage_rows(sp[0], planes, h0, n_planes, 0, dim);
    cp_commit();

    for (int s = 0; s < n_steps; s++) {
        int cur = s & 1;
        if (s + 1 < n_steps) {
            stage_rows(sx[cur ^ 1], x, p0, n_points, (s + 1) * KSTEP, dim);
            stage_rows(sp[cur ^ 1], planes, h0, n_planes, (s + 1) * KSTEP, dim);
            cp_commit();
            cp_wait<1>();
        } else {
            cp_wait<0>();
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < KSTEP; kk += 16) {
            const __half* pa = sx[cur] + (warp * 16 + gr) * LD + kk + tg * 2;
            uint32_t a[4];
            a[0] = *(const uint32_t*)(pa);
            a[1] = *(const uint32_t*)(pa + 8 * LD);
            a[2] = *(const uint32_t*)(pa + 8);
            a[3] = *(const uint32_t*)(pa + 8 * LD + 8);
            #pragma unroll
            for (int j = 0; j < 8; j++) {
                const __half* pb = sp[cur] + (j * 8 + gr) * LD + kk + tg * 2;
                mma16816(acc[j], a, *(const uint32_t*)pb, *(const uint32_t*)(pb + 8));
            }
        }
        __syncthreads();
    }

    // a lane has 2 of each 8 bits; the four lanes of a row are or-ed together
    for (int t = 0; t < 2; t++) {
        uint32_t lo = 0, hi = 0;                   // rows gr and gr + 8
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const float* d = acc[t * 4 + j];
            int bit = j * 8 + tg * 2;
            lo |= (uint32_t)(d[0] >= 0.f) << bit;
            lo |= (uint32_t)(d[1] >= 0.f) << (bit + 1);
            hi |= (uint32_t)(d[2] >= 0.f) << bit;
            hi |= (uint32_t)(d[3] >= 0.f) << (bit + 1);
        }
        #pragma unroll
        for (int m = 1; m < 4; m <<= 1) {
            lo |= __shfl_xor_sync(0xffffffffu, lo, m);
            hi |= __shfl_xor_sync(0xffffffffu, hi, m);
        }
        int table = blockIdx.y * 2 + t;
        int row = p0 + warp * 16 + gr;
        if (tg == 0 && table < n_tables) {
            if (row < n_points)     codes[(size_t)row * n_tables + table] = lo;
            if (row + 8 < n_points) codes[(size_t)(row + 8) * n_tables + table] = hi;
        }
    }
}

#ifndef __CUDACC_RTC__
extern "C" void lsh_hash(const __half* x, const __half* planes, const float* shift, uint32_t* codes,
                         int n_points, int n_tables, int dim, cudaStream_t stream)
{
    dim3 grid((n_points + POINTS - 1) / POINTS, (n_tables + 1) / 2);
    lsh_codes<<<grid, THREADS, 0, stream>>>(x, planes, shift, codes, n_points, n_tables, dim);
}
#endif
