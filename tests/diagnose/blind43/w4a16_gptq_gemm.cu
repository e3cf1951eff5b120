// W4A16 GEMM for GPTQ checkpoints: out = x @ dequant(qweight) + bias
//
//   x       [M, K]             half
//   qweight [K / 8, N]         8 values of 4 bits along K in each word, the first in the lowest bits
//   scales  [K / group, N]     half
//   qzeros  [K / group, N / 8] 8 zero points along N in each word, stored less 1
//   out     [M, N]             half
//
// Weights are dequantised on their way to shared memory, where a column's values lie along K. K and N: multiples of 8.
#include <cuda_fp16.h>

namespace gptq {

template <int BlockM_, int BlockN_, int BlockK_, int WarpsM_, int WarpsN_>
struct TileConfig {
    static constexpr int BlockM = BlockM_;
    static constexpr int BlockN = BlockN_;
    static constexpr int BlockK = BlockK_;
    static constexpr int WarpsN = WarpsN_;
    static constexpr int Threads = WarpsM_ * WarpsN_ * 32;
    static constexpr int WarpM = BlockM / WarpsM_;
    static constexpr int WarpN = BlockN / WarpsN_;
    static constexpr int Pitch = BlockK + 8;
    static constexpr int WordsPerThread = (BlockK / 8) * BlockN / Threads;
};

struct Ptx {
    static __device__ __forceinline__ unsigned addr(const void* p) {
        return static_cast<unsigned>(__cvta_generic_to_shared(p));
    }
    static __device__ __forceinline__ void copy16(void* dst, const void* src, bool pred) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(addr(dst)), "l"(src), "r"(pred ? 16 : 0) : "memory");
    }
    static __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
    static __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group 0;\n" ::: "memory"); }
    static __device__ __forceinline__ void ldmatrix(unsigned (&r)[4], const half* p) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr(p)) : "memory");
    }
    static __device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

template <typename Tile>
struct W4Gemm {
    struct Storage {
        half x[2][Tile::BlockM * Tile::Pitch];
        half w[2][Tile::BlockN * Tile::Pitch];
    };
    static constexpr int MmaM = Tile::WarpM / 16;
    static constexpr int MmaN = Tile::WarpN / 8;

    unsigned word[Tile::WordsPerThread];
    half scale[Tile::WordsPerThread];
    int zero[Tile::WordsPerThread];
    float acc[MmaM][MmaN][4];

    __device__ void clear() {
        for (int i = 0; i < MmaM; i++)
            for (int j = 0; j < MmaN; j++)
                for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0f;
    }

    __device__ void copy_x(half* s_x, const half* x, int m0, int k0, int M, int K) {
        constexpr int vecs = Tile::BlockK / 8;
        for (int i = threadIdx.x; i < Tile::BlockM * vecs; i += Tile::Threads) {
            const int row = i / vecs, col = i % vecs * 8;
            const bool pred = m0 + row < M && k0 + col < K;
            Ptx::copy16(s_x + row * Tile::Pitch + col, pred ? x + size_t(m0 + row) * K + k0 + col : x, pred);
        }
        Ptx::commit();
    }

    __device__ void load_words(const unsigned* qweight, const unsigned* qzeros, const half* scales,
                               int n0, int k0, int N, int K, int group_size) {
        #pragma unroll
        for (int i = 0; i < Tile::WordsPerThread; i++) {
            const int index = threadIdx.x + i * Tile::Threads;
            const int n = n0 + index % Tile::BlockN;
            const int k = k0 + index / Tile::BlockN * 8;
            word[i] = 0;
            scale[i] = __float2half(0.0f);
            zero[i] = 0;
            if (n < N && k < K) {
                const int group = k / group_size;
                word[i] = qweight[size_t(k / 8) * N + n];
                scale[i] = scales[size_t(group) * N + n];
                zero[i] = ((qzeros[size_t(group) * (N / 8) + n / 8] >> (n % 8 * 4)) & 0xF) + 1;
            }
        }
    }

    __device__ void store_words(half* s_w) {
        #pragma unroll
        for (int i = 0; i < Tile::WordsPerThread; i++) {
            const int index = threadIdx.x + i * Tile::Threads;
            __align__(16) half values[8];
            #pragma unroll
            for (int j = 0; j < 8; j++) {
                const int q = (word[i] >> (4 * j)) & 0xF;
                values[j] = __hmul(__int2half_rn(q - zero[i]), scale[i]);
            }
            half* dst = s_w + index % Tile::BlockN * Tile::Pitch + index / Tile::BlockN * 8;
            *reinterpret_cast<uint4*>(dst) = *reinterpret_cast<const uint4*>(values);
        }
    }

    __device__ void multiply(const half* s_x, const half* s_w, int warp_m, int warp_n, int lane) {
        #pragma unroll
        for (int kk = 0; kk < Tile::BlockK; kk += 16) {
            unsigned a[MmaM][4];
            #pragma unroll
            for (int i = 0; i < MmaM; i++)
                Ptx::ldmatrix(a[i], s_x + (warp_m + i * 16 + lane % 16) * Tile::Pitch + kk + lane / 16 * 8);
            #pragma unroll
            for (int j = 0; j < MmaN; j += 2) {
                unsigned b[4];
                const int row = warp_n + j * 8 + lane / 16 * 8 + lane % 8;
                Ptx::ldmatrix(b, s_w + row * Tile::Pitch + kk + lane / 8 % 2 * 8);
                #pragma unroll
                for (int i = 0; i < MmaM; i++) {
                    Ptx::mma(acc[i][j], a[i], b[0], b[1]);
                    Ptx::mma(acc[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    static __device__ void write_pair(half* out, const half* bias, int row, int col, float v0, float v1, int M, int N) {
        if (row >= M || col >= N) return;
        v0 += __half2float(bias[col]);
        v1 += __half2float(bias[col + 1]);
        *reinterpret_cast<half2*>(out + size_t(row) * N + col) = __floats2half2_rn(v0, v1);
    }
};

using DecodeTile = TileConfig<32, 64, 32, 2, 2>;

template <typename Tile>
__global__ void __launch_bounds__(Tile::Threads)
w4a16_gemm_kernel(const half* __restrict__ x, const unsigned* __restrict__ qweight,
                  const unsigned* __restrict__ qzeros, const half* __restrict__ scales,
                  const half* __restrict__ bias, half* __restrict__ out,
                  int M, int N, int K, int group_size) {
    using Gemm = W4Gemm<Tile>;
    __shared__ __align__(128) typename Gemm::Storage smem;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / Tile::WarpsN * Tile::WarpM;
    const int warp_n = warp % Tile::WarpsN * Tile::WarpN;
    const int m0 = blockIdx.y * Tile::BlockM;
    const int n0 = blockIdx.x * Tile::BlockN;

    Gemm gemm;
    gemm.clear();
    gemm.copy_x(smem.x[0], x, m0, 0, M, K);
    gemm.load_words(qweight, qzeros, scales, n0, 0, N, K, group_size);
    gemm.store_words(smem.w[0]);

    int buf = 0;
    for (int k0 = 0; k0 < K; k0 += Tile::BlockK) {
        Ptx::wait();
        __syncthreads();
        const int k_next = k0 + Tile::BlockK;
        if (k_next < K) {
            gemm.copy_x(smem.x[buf ^ 1], x, m0, k_next, M, K);
            gemm.load_words(qweight, qzeros, scales, n0, k_next, N, K, group_size);
        }
        gemm.multiply(smem.x[buf], smem.w[buf], warp_m, warp_n, lane);
        if (k_next < K) gemm.store_words(smem.w[buf ^ 1]);
        buf ^= 1;
    }

    #pragma unroll
    for (int i = 0; i < Gemm::MmaM; i++) {
        #pragma unroll
        for (int j = 0; j < Gemm::MmaN; j++) {
            const int row = m0 + warp_m + i * 16 + lane / 4;
            const int col = n0 + warp_n + j * 8 + lane % 4 * 2;
            Gemm::write_pair(out, bias, row, col, gemm.acc[i][j][0], gemm.acc[i][j][1], M, N);
            Gemm::write_pair(out, bias, row + 8, col, gemm.acc[i][j][2], gemm.acc[i][j][3], M, N);
        }
    }
}

}  // namespace gptq
