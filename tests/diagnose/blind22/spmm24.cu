// Linear layer with 2:4 pruned weights for cards without sparse tensor cores (and as a check for those with): the
// compressed weights are expanded on the way into shared memory, the product itself is dense.
//   Y[M, N] = relu( W[M, K] * X[K, N] + bias[M] ),  W = (vals[M, K/2], meta[M, K/16])
// meta: 16 bits for 16 weights; 4 bits per group of four: index of the first kept one in bits 0-1, of the second in 2-3.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cstdint>

template <int BM_, int BN_>
struct Sparse24Config {
    static constexpr int BM = BM_, BN = BN_, BK = 32;
    static constexpr int WARPS_M = BM / 32, WARPS_N = BN / 32;
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static constexpr int LDW = BK + 8, LDX = BN + 8;
};

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half* p) {
    const uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const half* p) {
    const uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
__device__ __forceinline__ void hmma(float (&c)[4], const uint32_t (&a)[4], const uint32_t b0, const uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 weights of a row from 8 values and their 16 bits
__device__ __forceinline__ void expand16(half* dst, const uint4& packed, uint32_t bits) {
    *reinterpret_cast<uint4*>(dst) = make_uint4(0u, 0u, 0u, 0u);
    *reinterpret_cast<uint4*>(dst + 8) = make_uint4(0u, 0u, 0u, 0u);
    const half* v = reinterpret_cast<const half*>(&packed);
#pragma unroll
    for (int group = 0; group < 4; ++group) {
        const uint32_t nibble = bits >> (4 * group);
        dst[group * 4 + (nibble & 3)] = v[2 * group];
        dst[group * 4 + ((nibble >> 2) & 3)] = v[2 * group + 1];
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS)
sparse24_linear(const half* __restrict__ vals, const uint16_t* __restrict__ meta, const half* __restrict__ X,
                const float* __restrict__ bias, half* __restrict__ Y, int M, int N, int K) {
    __shared__ __align__(16) half sW[2][C::BM * C::LDW];
    __shared__ __align__(16) half sX[2][C::BK * C::LDX];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int wm = (warp / C::WARPS_N) * 32, wn = (warp % C::WARPS_N) * 32;
    const int m0 = blockIdx.y * C::BM, n0 = blockIdx.x * C::BN;

    uint4 packed = make_uint4(0, 0, 0, 0);
    uint32_t bits = 0x4444;
    const int er = tid >> 1, ec = (tid & 1) * 16;         // row and first weight that this thread expands

    auto load_weights = [&](int k0) {
        if (er < C::BM && m0 + er < M && k0 + ec < K) {
            packed = *reinterpret_cast<const uint4*>(vals + (size_t)(m0 + er) * (K / 2) + (k0 + ec) / 2);
            bits = meta[(size_t)(m0 + er) * (K / 16) + (k0 + ec) / 16];
        } else {
            packed = make_uint4(0, 0, 0, 0);
        }
    };
    auto load_x = [&](int k0, int stage) {
        for (int i = tid; i < C::BK * C::BN / 8; i += C::THREADS) {
            const int r = i / (C::BN / 8), c = (i % (C::BN / 8)) * 8;
            half* to = &sX[stage][r * C::LDX + c];
            const size_t missing = (k0 + r < K && n0 + c < N) ? 0 : 16;
            __pipeline_memcpy_async(to, missing ? X : X + (size_t)(k0 + r) * N + n0 + c, 16, missing);
        }
        __pipeline_commit();
    };

    float acc[2][4][4] = {};

    load_x(0, 0);
    load_weights(0);
    if (er < C::BM) expand16(&sW[0][er * C::LDW + ec], packed, bits);

    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += C::BK, stage ^= 1) {
        const bool more = k0 + C::BK < K;
        if (more) {
            load_x(k0 + C::BK, stage ^ 1);
            load_weights(k0 + C::BK);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < C::BK; kk += 16) {
            uint32_t a[2][4], b[2][4];
            for (int i = 0; i < 2; ++i)
                ldmatrix_x4(a[i], &sW[stage][(wm + i * 16 + lane % 16) * C::LDW + kk + (lane / 16) * 8]);
            for (int j = 0; j < 2; ++j)
                ldmatrix_x4_trans(b[j], &sX[stage][(kk + lane % 16) * C::LDX + wn + j * 16 + (lane / 16) * 8]);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) hmma(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
        }

        // the other stage's weights: read last a step ago, and a barrier lies between
        if (more && er < C::BM) expand16(&sW[stage ^ 1][er * C::LDW + ec], packed, bits);
        __syncthreads();
    }

    const int g = lane >> 2, t = lane & 3;
    for (int i = 0; i < 2; ++i)
        for (int h = 0; h < 2; ++h) {
            const int row = m0 + wm + i * 16 + g + h * 8;
            if (row >= M) continue;
            const float add = bias[row];
            for (int j = 0; j < 4; ++j) {
                const int col = n0 + wn + j * 8 + 2 * t;          // N is a multiple of 8
                if (col >= N) continue;
                const float y0 = fmaxf(acc[i][j][2 * h] + add, 0.f), y1 = fmaxf(acc[i][j][2 * h + 1] + add, 0.f);
                *reinterpret_cast<half2*>(Y + (size_t)row * N + col) = __floats2half2_rn(y0, y1);
            }
        }
}

template __global__ void sparse24_linear<Sparse24Config<64, 64>>(const half*, const uint16_t*, const half*, const float*,
                                                                 half*, int, int, int);
