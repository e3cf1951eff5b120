// Covariance matrix of features, warp specialised: one warp copies (cp.async, full/empty mbarriers), four warps multiply.
//   cov = (X^T X - n * mean mean^T) / (n - 1),   X [n, d] half, row major; mean [d] float; cov [d, d] float
// Only tiles of the lower triangle are computed; those off the diagonal are written twice, the second time mirrored.

#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

static constexpr int TILE = 64;          // features
static constexpr int KSTEP = 32;         // samples
static constexpr int STAGES = 3;
static constexpr int LDX = TILE + 8;
static constexpr int LDC = TILE + 4;
static constexpr int CONSUMER_WARPS = 4;
static constexpr int THREADS = (CONSUMER_WARPS + 1) * 32;

struct Shared {
    half x[STAGES][2][KSTEP][LDX];       // features of the tile's rows, and of its columns
    float out[TILE][LDC];
    uint64_t full[STAGES], empty[STAGES];
};

namespace ptx {
__device__ inline uint32_t addr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void mbar_init(uint64_t* bar, uint32_t count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(addr(bar)), "r"(count) : "memory");
}
__device__ inline void mbar_arrive(uint64_t* bar) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(addr(bar)) : "memory");
}
__device__ inline void mbar_wait(uint64_t* bar, uint32_t parity) {
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(addr(bar)), "r"(parity) : "memory");
}
// arrives once this thread's copies so far are done
__device__ inline void mbar_arrive_on_copies(uint64_t* bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(addr(bar)) : "memory");
}
__device__ inline void copy16(void* dst, const void* src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(addr(dst)), "l"(src), "r"(bytes) : "memory");
}
__device__ inline void consumers_sync() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMER_WARPS * 32) : "memory"); }
}  // namespace ptx

struct PipeState {
    int stage = 0;
    uint32_t phase = 0;
    __device__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

__device__ void produce(Shared& sm, const half* X, int n, int d, int row0, int col0, int steps) {
    const int lane = threadIdx.x % 32;
    const int panels = row0 == col0 ? 1 : 2;
    PipeState pipe;
    for (int step = 0; step < steps; ++step, pipe.next()) {
        ptx::mbar_wait(&sm.empty[pipe.stage], pipe.phase ^ 1);   // passes at once in the first round
        for (int panel = 0; panel < panels; ++panel) {
            const int f0 = panel == 0 ? row0 : col0;
            for (int i = lane; i < KSTEP * TILE / 8; i += 32) {
                const int k = i / (TILE / 8), f = i % (TILE / 8) * 8;
                const int sample = step * KSTEP + k;
                const bool in = sample < n && f0 + f < d;
                ptx::copy16(&sm.x[pipe.stage][panel][k][f], in ? X + (size_t)sample * d + f0 + f : X, in ? 16 : 0);
            }
        }
        ptx::mbar_arrive_on_copies(&sm.full[pipe.stage]);
    }
}

__device__ void consume(Shared& sm, float* cov, const float* mean, int n, int d, int row0, int col0, int steps) {
    using namespace nvcuda::wmma;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wm = warp / 2 * 32, wn = warp % 2 * 32;
    const bool diagonal = row0 == col0;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (auto& line : acc)
        for (auto& f : line) fill_fragment(f, 0.0f);

    PipeState pipe;
    for (int step = 0; step < steps; ++step, pipe.next()) {
        ptx::mbar_wait(&sm.full[pipe.stage], pipe.phase);
        const auto& rows = sm.x[pipe.stage][0];
        const auto& cols = sm.x[pipe.stage][diagonal ? 0 : 1];
        for (int k = 0; k < KSTEP; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, col_major> a[2];
            fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
            for (int i = 0; i < 2; ++i) {
                load_matrix_sync(a[i], &rows[k][wm + i * 16], LDX);
                load_matrix_sync(b[i], &cols[k][wn + i * 16], LDX);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncwarp();
        if (lane == 0) ptx::mbar_arrive(&sm.empty[pipe.stage]);
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) store_matrix_sync(&sm.out[wm + i * 16][wn + j * 16], acc[i][j], LDC, mem_row_major);
    ptx::consumers_sync();

    const float inv = 1.0f / (n - 1);
    for (int e = threadIdx.x; e < TILE * TILE; e += CONSUMER_WARPS * 32) {
        const int r = e / TILE, c = e % TILE;
        if (row0 + r >= d || col0 + c >= d) continue;
        cov[(size_t)(row0 + r) * d + col0 + c] = (sm.out[r][c] - n * mean[row0 + r] * mean[col0 + c]) * inv;
    }
    if (diagonal) return;
    for (int e = threadIdx.x; e < TILE * TILE; e += CONSUMER_WARPS * 32) {
        const int c = e / TILE, r = e % TILE;   // neighbouring threads write along the mirrored row
        if (row0 + r >= d || col0 + c >= d) continue;
        cov[(size_t)(col0 + c) * d + row0 + r] = (sm.out[r][c] - n * mean[row0 + r] * mean[col0 + c]) * inv;
    }
}

__global__ void __launch_bounds__(THREADS) covariance_ws(const half* X, const float* mean, float* cov, int n, int d) {
    extern __shared__ __align__(128) unsigned char raw[];
    Shared& sm = *reinterpret_cast<Shared*>(raw);

    // block t has tile (i, j) of the lower triangle, t = i*(i + 1)/2 + j
    const int t = blockIdx.x;
    int i = (int)((sqrtf(8.0f * t + 1.0f) - 1.0f) * 0.5f);
    while ((i + 1) * (i + 2) / 2 <= t) ++i;
    while (i * (i + 1) / 2 > t) --i;
    const int j = t - i * (i + 1) / 2;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            ptx::mbar_init(&sm.full[s], 32);
            ptx::mbar_init(&sm.empty[s], CONSUMER_WARPS);
        }
    }
    __syncthreads();

    const int steps = (n + KSTEP - 1) / KSTEP;
    if (threadIdx.x / 32 == CONSUMER_WARPS)
        produce(sm, X, n, d, i * TILE, j * TILE, steps);
    else
        consume(sm, cov, mean, n, d, i * TILE, j * TILE, steps);
}
