// Nearest gallery entry by cosine similarity (open-set identification): for each probe the best score and the index
// of the entry, or -1 if the best score stays below the threshold. Embeddings are not normalised in memory.
#include <cuda_bf16.h>
#include <cstdint>
#include <cfloat>

namespace ident {

using bf16_t = __nv_bfloat16;

template <int kDim>
struct Tile {
    static constexpr int kProbes = 64;
    static constexpr int kEntries = 32;
    static constexpr int kPitch = kDim + 8;
    static constexpr int kVecs = kDim / 8;
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ldmatrix4(uint32_t& r0, uint32_t& r1, uint32_t& r2, uint32_t& r3, const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(smem_u32(p)));
}

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int kDim>
__device__ __forceinline__ void fetch(bf16_t* dst, const bf16_t* src, int first, int count, int rows) {
    using T = Tile<kDim>;
    for (int i = threadIdx.x; i < rows * T::kVecs; i += blockDim.x) {
        int r = i / T::kVecs, v = i % T::kVecs;
        bool ok = first + r < count;
        int size = ok ? 16 : 0;
        const bf16_t* from = src + (size_t)(ok ? first + r : 0) * kDim + v * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst + r * T::kPitch + v * 8)), "l"(from), "r"(size));
    }
}

// 1 / |row| of `rows` rows, four threads to a row
template <int kDim>
__device__ __forceinline__ void inverse_norms(float* out, const bf16_t* tile, int rows) {
    using T = Tile<kDim>;
    for (int r = threadIdx.x >> 2; r < rows; r += blockDim.x >> 2) {
        float ss = 0.f;
        for (int c = (threadIdx.x & 3) * 2; c < kDim; c += 8) {
            float2 f = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(tile + r * T::kPitch + c));
            ss += f.x * f.x + f.y * f.y;
        }
        ss += __shfl_xor_sync(0xffffffff, ss, 1);
        ss += __shfl_xor_sync(0xffffffff, ss, 2);
        if ((threadIdx.x & 3) == 0) out[r] = rsqrtf(fmaxf(ss, 1e-12f));
    }
}

__device__ __forceinline__ void keep_better(float& best, int& where, float score, int index) {
    if (score > best || (score == best && index < where)) {
        best = score;
        where = index;
    }
}

template <int kDim>
__global__ void __launch_bounds__(128)
cosine_top1(const bf16_t* __restrict__ probes, const bf16_t* __restrict__ gallery, float* __restrict__ best_score,
            int* __restrict__ best_index, int n_probes, int n_entries, float threshold) {
    using T = Tile<kDim>;
    extern __shared__ __align__(16) unsigned char raw[];
    bf16_t* s_probe = reinterpret_cast<bf16_t*>(raw);
    bf16_t* s_entry = s_probe + T::kProbes * T::kPitch;                                      // two buffers
    float* s_probe_inv = reinterpret_cast<float*>(s_entry + 2 * T::kEntries * T::kPitch);
    float* s_entry_inv = s_probe_inv + T::kProbes;

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int probe0 = blockIdx.x * T::kProbes;
    const int tiles = (n_entries + T::kEntries - 1) / T::kEntries;

    fetch<kDim>(s_probe, probes, probe0, n_probes, T::kProbes);
    fetch<kDim>(s_entry, gallery, 0, n_entries, T::kEntries);
    asm volatile("cp.async.commit_group;");

    uint32_t qa[kDim / 16][4];
    float best[2] = {-FLT_MAX, -FLT_MAX};
    int where[2] = {0x7fffffff, 0x7fffffff};

    for (int tile = 0; tile < tiles; ++tile) {
        bf16_t* entry = s_entry + (tile & 1) * T::kEntries * T::kPitch;
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();                     // the tile is there, and nobody reads the other one any more

        if (tile + 1 < tiles)
            fetch<kDim>(s_entry + ((tile + 1) & 1) * T::kEntries * T::kPitch, gallery, (tile + 1) * T::kEntries, n_entries, T::kEntries);
        asm volatile("cp.async.commit_group;");

        if (tile == 0) {
            inverse_norms<kDim>(s_probe_inv, s_probe, T::kProbes);
#pragma unroll
            for (int k = 0; k < kDim / 16; ++k)
                ldmatrix4(qa[k][0], qa[k][1], qa[k][2], qa[k][3],
                          s_probe + (warp * 16 + (lane & 15)) * T::kPitch + k * 16 + (lane >> 4) * 8);
        }
        inverse_norms<kDim>(s_entry_inv, entry, T::kEntries);
        __syncthreads();

        float acc[T::kEntries / 8][4] = {};
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
            for (int n = 0; n < T::kEntries / 16; ++n) {
                uint32_t b0, b1, b2, b3;
                const int row = n * 16 + (lane & 7) + ((lane >> 4) << 3);
                ldmatrix4(b0, b1, b2, b3, entry + row * T::kPitch + k * 16 + ((lane >> 3) & 1) * 8);
                mma(acc[2 * n], qa[k], b0, b1);
                mma(acc[2 * n + 1], qa[k], b2, b3);
            }
        }

        // scores still lack the probe's norm, which changes no order
#pragma unroll
        for (int n = 0; n < T::kEntries / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int col = n * 8 + (lane & 3) * 2 + (e & 1);
                const int index = tile * T::kEntries + col;
                if (index < n_entries) keep_better(best[e >> 1], where[e >> 1], acc[n][e] * s_entry_inv[col], index);
            }
        }
        // norms are overwritten only behind the next barrier
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int m = 1; m <= 2; m *= 2) {
            const float other = __shfl_xor_sync(0xffffffff, best[h], m);
            const int its = __shfl_xor_sync(0xffffffff, where[h], m);
            keep_better(best[h], where[h], other, its);
        }
        const int row = warp * 16 + (lane >> 2) + 8 * h;
        if ((lane & 3) == 0 && probe0 + row < n_probes) {
            const float score = best[h] * s_probe_inv[row];
            best_score[probe0 + row] = score;
            best_index[probe0 + row] = score >= threshold ? where[h] : -1;
        }
    }
}

template __global__ void cosine_top1<64>(const bf16_t*, const bf16_t*, float*, int*, int, int, float);

}  // namespace ident
