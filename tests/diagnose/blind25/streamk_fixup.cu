// Stream-K GEMM on tensor cores, one kernel, no spinning.
//
//     D = alpha * A * B + beta * C        A: MxK, B: KxN, C and D: MxN, all row major
//
// The total number of MAC iterations (output tiles x k-steps) is divided evenly among the CTAs, so a CTA may begin and
// end in the middle of a tile. Whoever computes only a part of a tile spills its accumulators to the workspace and then
// arrives at the tile's counter with the number of k-steps it did. The CTA whose arrival completes the tile is the one
// that does the fix-up: it sums the parts (in CTA order, so that results are reproducible) and runs the epilogue.
//
//   workspace: 2 * gridDim.x * kTileM * kTileN floats
//   arrivals:  one int per tile, zero before the first launch; the kernel leaves them zero
//
// K and N must be multiples of 8.

#include <cuda_fp16.h>
#include <mma.h>

namespace streamk {

using namespace nvcuda;

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kWarpsM = 2;
constexpr int kWarpsN = 2;
constexpr int kThreads = kWarpsM * kWarpsN * 32;
constexpr int kFragsM = kTileM / kWarpsM / 16;
constexpr int kFragsN = kTileN / kWarpsN / 16;
constexpr int kLda = kTileK + 8;
constexpr int kLdb = kTileN + 8;
constexpr int kLdc = kTileN + 4;
constexpr int kVec = 8;  // halves per 16-byte access
constexpr int kLoadsA = kTileM * kTileK / kVec / kThreads;
constexpr int kLoadsB = kTileK * kTileN / kVec / kThreads;
constexpr int kPartial = kTileM * kTileN;

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

union SharedStorage {
    struct {
        half a[kTileM * kLda];
        half b[kTileK * kLdb];
    } main;
    float c[kTileM * kLdc];
};

struct Problem {
    int m, n, k;
    int tiles_n;
    int iters_per_tile;
    int total_iters;
};

// The first (total % ctas) CTAs get one iteration more than the others.
__device__ __forceinline__ int first_iter_of(int cta, int ctas, int total)
{
    return cta * (total / ctas) + min(cta, total % ctas);
}

__device__ __forceinline__ int cta_of_iter(int iter, int ctas, int total)
{
    const int base = total / ctas;
    const int rem = total % ctas;
    const int big = rem * (base + 1);
    return iter < big ? iter / (base + 1) : rem + (iter - big) / base;
}

__device__ __forceinline__ void load_global(uint4 (&ra)[kLoadsA], uint4 (&rb)[kLoadsB], const half *A, const half *B,
                                            const Problem &p, int row0, int col0, int k0)
{
    for (int i = 0; i < kLoadsA; ++i) {
        const int v = threadIdx.x + i * kThreads;
        const int row = row0 + v / (kTileK / kVec);
        const int col = k0 + v % (kTileK / kVec) * kVec;
        ra[i] = row < p.m && col < p.k ? *reinterpret_cast<const uint4 *>(A + size_t(row) * p.k + col)
                                       : make_uint4(0, 0, 0, 0);
    }
    for (int i = 0; i < kLoadsB; ++i) {
        const int v = threadIdx.x + i * kThreads;
        const int row = k0 + v / (kTileN / kVec);
        const int col = col0 + v % (kTileN / kVec) * kVec;
        rb[i] = row < p.k && col < p.n ? *reinterpret_cast<const uint4 *>(B + size_t(row) * p.n + col)
                                       : make_uint4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void store_shared(SharedStorage &smem, const uint4 (&ra)[kLoadsA],
                                             const uint4 (&rb)[kLoadsB])
{
    for (int i = 0; i < kLoadsA; ++i) {
        const int v = threadIdx.x + i * kThreads;
        *reinterpret_cast<uint4 *>(&smem.main.a[v / (kTileK / kVec) * kLda + v % (kTileK / kVec) * kVec]) = ra[i];
    }
    for (int i = 0; i < kLoadsB; ++i) {
        const int v = threadIdx.x + i * kThreads;
        *reinterpret_cast<uint4 *>(&smem.main.b[v / (kTileN / kVec) * kLdb + v % (kTileN / kVec) * kVec]) = rb[i];
    }
}

__device__ __forceinline__ void mac_loop(FragC (&acc)[kFragsM][kFragsN], SharedStorage &smem, const half *A,
                                         const half *B, const Problem &p, int row0, int col0, int k_begin, int k_end)
{
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / kWarpsN;
    const int warp_n = warp % kWarpsN;

    uint4 ra[kLoadsA], rb[kLoadsB];
    load_global(ra, rb, A, B, p, row0, col0, k_begin * kTileK);

    for (int k = k_begin; k < k_end; ++k) {
        __syncthreads();  // readers of the previous step (or of the previous epilogue) are done
        store_shared(smem, ra, rb);
        __syncthreads();
        if (k + 1 < k_end)
            load_global(ra, rb, A, B, p, row0, col0, (k + 1) * kTileK);

#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 16) {
            FragA fa[kFragsM];
            FragB fb[kFragsN];
#pragma unroll
            for (int i = 0; i < kFragsM; ++i)
                wmma::load_matrix_sync(fa[i], &smem.main.a[(warp_m * kFragsM + i) * 16 * kLda + kk], kLda);
#pragma unroll
            for (int j = 0; j < kFragsN; ++j)
                wmma::load_matrix_sync(fb[j], &smem.main.b[kk * kLdb + (warp_n * kFragsN + j) * 16], kLdb);
#pragma unroll
            for (int i = 0; i < kFragsM; ++i)
#pragma unroll
                for (int j = 0; j < kFragsN; ++j)
                    wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
    }
}

// Accumulators are spilled as the threads hold them; nobody but the same thread of another CTA reads them.
__device__ __forceinline__ void spill(float *part, const FragC (&acc)[kFragsM][kFragsN])
{
    int at = threadIdx.x;
    for (int i = 0; i < kFragsM; ++i)
        for (int j = 0; j < kFragsN; ++j)
            for (int e = 0; e < FragC::num_elements; ++e, at += kThreads)
                part[at] = acc[i][j].x[e];
}

__device__ __forceinline__ void add_spilled(FragC (&acc)[kFragsM][kFragsN], const float *part)
{
    int at = threadIdx.x;
    for (int i = 0; i < kFragsM; ++i)
        for (int j = 0; j < kFragsN; ++j)
            for (int e = 0; e < FragC::num_elements; ++e, at += kThreads)
                acc[i][j].x[e] += __ldcg(part + at);
}

__device__ __forceinline__ void clear(FragC (&acc)[kFragsM][kFragsN])
{
    for (int i = 0; i < kFragsM; ++i)
        for (int j = 0; j < kFragsN; ++j)
            wmma::fill_fragment(acc[i][j], 0.0f);
}

__device__ __forceinline__ void epilogue(const FragC (&acc)[kFragsM][kFragsN], SharedStorage &smem, const half *C,
                                         half *D, const Problem &p, int row0, int col0, float alpha, float beta)
{
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / kWarpsN;
    const int warp_n = warp % kWarpsN;

    __syncthreads();  // c lies over a and b
    for (int i = 0; i < kFragsM; ++i)
        for (int j = 0; j < kFragsN; ++j)
            wmma::store_matrix_sync(
                &smem.c[(warp_m * kFragsM + i) * 16 * kLdc + (warp_n * kFragsN + j) * 16], acc[i][j], kLdc,
                wmma::mem_row_major);
    __syncthreads();

    for (int v = threadIdx.x; v < kTileM * kTileN / 2; v += kThreads) {
        const int r = v / (kTileN / 2);
        const int c = v % (kTileN / 2) * 2;
        if (row0 + r < p.m && col0 + c < p.n) {
            const size_t at = size_t(row0 + r) * p.n + col0 + c;
            float2 x = make_float2(alpha * smem.c[r * kLdc + c], alpha * smem.c[r * kLdc + c + 1]);
            if (beta != 0.0f) {
                const float2 old = __half22float2(*reinterpret_cast<const half2 *>(C + at));
                x.x += beta * old.x;
                x.y += beta * old.y;
            }
            *reinterpret_cast<half2 *>(D + at) = __floats2half2_rn(x.x, x.y);
        }
    }
}

__global__ void __launch_bounds__(kThreads)
streamk_hgemm(const half *__restrict__ A, const half *__restrict__ B, const half *__restrict__ C, half *__restrict__ D,
              int M, int N, int K, float alpha, float beta, float *workspace, int *arrivals)
{
    __shared__ __align__(128) SharedStorage smem;
    __shared__ int s_done_before;

    Problem p;
    p.m = M;
    p.n = N;
    p.k = K;
    p.tiles_n = (N + kTileN - 1) / kTileN;
    p.iters_per_tile = (K + kTileK - 1) / kTileK;
    p.total_iters = (M + kTileM - 1) / kTileM * p.tiles_n * p.iters_per_tile;

    const int cta = blockIdx.x;
    const int ctas = gridDim.x;
    int iter = first_iter_of(cta, ctas, p.total_iters);
    const int iter_end = first_iter_of(cta + 1, ctas, p.total_iters);

    FragC acc[kFragsM][kFragsN];

    while (iter < iter_end) {
        const int tile = iter / p.iters_per_tile;
        const int tile_begin = tile * p.iters_per_tile;
        const int k_begin = iter - tile_begin;
        const int k_end = min(p.iters_per_tile, iter_end - tile_begin);
        const int row0 = tile / p.tiles_n * kTileM;
        const int col0 = tile % p.tiles_n * kTileN;

        clear(acc);
        mac_loop(acc, smem, A, B, p, row0, col0, k_begin, k_end);

        bool finish = true;
        if (k_end - k_begin < p.iters_per_tile) {
            // Slot 0 is for the tile in which a CTA begins, slot 1 for one that it begins but does not end.
            spill(workspace + size_t(2 * cta + (k_begin == 0)) * kPartial, acc);
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0)
                s_done_before = atomicAdd(arrivals + tile, k_end - k_begin);
            __syncthreads();
            finish = s_done_before + k_end - k_begin == p.iters_per_tile;

            if (finish) {
                __threadfence();
                const int first = cta_of_iter(tile_begin, ctas, p.total_iters);
                const int last = cta_of_iter(tile_begin + p.iters_per_tile - 1, ctas, p.total_iters);
                clear(acc);
                for (int peer = first; peer <= last; ++peer)
                    add_spilled(acc, workspace + size_t(2 * peer + (peer == first)) * kPartial);
                if (threadIdx.x == 0)
                    arrivals[tile] = 0;
            }
        }
        if (finish)
            epilogue(acc, smem, C, D, p, row0, col0, alpha, beta);

        iter = tile_begin + k_end;
    }
}

}  // namespace streamk
