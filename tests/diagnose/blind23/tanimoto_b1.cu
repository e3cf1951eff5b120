// Tanimoto similarity of molecular fingerprints on the binary tensor cores.
//
//   sim(q, d) = popc(q & d) / (popc(q) + popc(d) - popc(q & d))
//
// Writes the similarity where it reaches the cutoff (0 elsewhere), and counts each query's hits.
// b1 MMA m16n8k256 with AND + POPC: a fingerprint of 1024 bits is four steps.
#include <stdint.h>

typedef unsigned int u32;

enum { QUERIES = 32, ENTRIES = 64, STEP_WORDS = 16, PITCH = STEP_WORDS + 4, THREADS = 128 };

__device__ __forceinline__ void bmma_and_popc(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// rows x STEP_WORDS words of a fingerprint matrix, four words per thread and turn; adds up the bits of each row
template <int ROWS>
__device__ void load_slice(u32 (*dst)[PITCH], int* bits, const u32* __restrict__ fp, int first, int n, int word0, int words)
{
    for (int i = threadIdx.x; i < ROWS * (STEP_WORDS / 4); i += THREADS) {
        const int row = i / (STEP_WORDS / 4);
        const int w = (i % (STEP_WORDS / 4)) * 4;
        uint4 v = make_uint4(0u, 0u, 0u, 0u);
        if (first + row < n && word0 + w < words)
            v = __ldg(reinterpret_cast<const uint4*>(fp + (size_t)(first + row) * words + word0 + w));
        *reinterpret_cast<uint4*>(&dst[row][w]) = v;
        int c = __popc(v.x) + __popc(v.y) + __popc(v.z) + __popc(v.w);
        // four neighbouring threads have one row
        c += __shfl_xor_sync(0xffffffffu, c, 1);
        c += __shfl_xor_sync(0xffffffffu, c, 2);
        if (threadIdx.x % 4 == 0) bits[row] += c;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
tanimoto_matrix(const u32* __restrict__ query_fp, const u32* __restrict__ db_fp, float* __restrict__ sim,
                int* __restrict__ hits, int n_query, int n_db, int words, float cutoff)
{
    __shared__ __align__(16) u32 s_q[QUERIES][PITCH];
    __shared__ __align__(16) u32 s_d[ENTRIES][PITCH];
    __shared__ int s_qbits[QUERIES];
    __shared__ int s_dbits[ENTRIES];
    __shared__ int s_hits[QUERIES];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int grp = lane >> 2, tig = lane & 3;
    const int q0 = blockIdx.y * QUERIES;
    const int d0 = blockIdx.x * ENTRIES;
    const int wq = (warp & 1) * 16;         // this warp: 16 queries ...
    const int wd = (warp >> 1) * 32;        // ... and 32 entries

    if (threadIdx.x < ENTRIES) s_dbits[threadIdx.x] = 0;
    if (threadIdx.x < QUERIES) {
        s_qbits[threadIdx.x] = 0;
        s_hits[threadIdx.x] = 0;
    }

    int both[4][4] = {};

    for (int word0 = 0; word0 < words; word0 += STEP_WORDS) {
        __syncthreads();
        load_slice<QUERIES>(s_q, s_qbits, query_fp, q0, n_query, word0, words);
        load_slice<ENTRIES>(s_d, s_dbits, db_fp, d0, n_db, word0, words);
        __syncthreads();

        for (int k = 0; k < STEP_WORDS; k += 8) {       // 8 words are 256 bits
            u32 a[4];
            a[0] = s_q[wq + grp][k + tig];
            a[1] = s_q[wq + grp + 8][k + tig];
            a[2] = s_q[wq + grp][k + 4 + tig];
            a[3] = s_q[wq + grp + 8][k + 4 + tig];
            for (int j = 0; j < 4; j++) {
                u32 b[2];
                b[0] = s_d[wd + j * 8 + grp][k + tig];
                b[1] = s_d[wd + j * 8 + grp][k + 4 + tig];
                bmma_and_popc(both[j], a, b);
            }
        }
    }

    for (int h = 0; h < 2; h++) {
        const int r = wq + grp + 8 * h;
        int found = 0;
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 2; e++) {
                const int c = wd + j * 8 + tig * 2 + e;
                if (q0 + r >= n_query || d0 + c >= n_db) continue;
                const int inter = both[j][2 * h + e];
                const int uni = s_qbits[r] + s_dbits[c] - inter;
                const float t = uni > 0 ? (float)inter / (float)uni : 0.f;
                const bool hit = t >= cutoff;
                sim[(size_t)(q0 + r) * n_db + d0 + c] = hit ? t : 0.f;
                found += hit;
            }
        found += __shfl_xor_sync(0xffffffffu, found, 1);
        found += __shfl_xor_sync(0xffffffffu, found, 2);
        if (tig == 0) atomicAdd(&s_hits[r], found);     // the other two warps have the same queries
    }
    __syncthreads();
    if (threadIdx.x < QUERIES && q0 + threadIdx.x < n_query && s_hits[threadIdx.x] > 0)
        atomicAdd(&hits[q0 + threadIdx.x], s_hits[threadIdx.x]);
}

extern "C" void tanimoto(const u32* query_fp, const u32* db_fp, float* sim, int* hits, int n_query, int n_db, int words,
                         float cutoff, cudaStream_t stream)
{
    cudaMemsetAsync(hits, 0, n_query * sizeof(int), stream);
    dim3 grid((n_db + ENTRIES - 1) / ENTRIES, (n_query + QUERIES - 1) / QUERIES);
    tanimoto_matrix<<<grid, THREADS, 0, stream>>>(query_fp, db_fp, sim, hits, n_query, n_db, words, cutoff);
}
