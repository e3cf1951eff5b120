// One GEMM, two element types. Everything the kernel needs to know is in a
// traits class (in the spirit of the fmha kernels).   C[M,N] = A[M,K] * B[K,N]
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <type_traits>

template <typename T_, int kBlockM_, int kBlockN_, int kBlockK_, int kWarpsM_, int kWarpsN_>
struct Gemm_traits {
    using Element = T_;
    using Element2 = std::conditional_t<std::is_same_v<T_, __half>, __half2, __nv_bfloat162>;
    static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kBlockK = kBlockK_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kNThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kWarpTileM = kBlockM / kWarpsM;
    static constexpr int kWarpTileN = kBlockN / kWarpsN;
    static constexpr int kMmaM = kWarpTileM / 16;
    static constexpr int kMmaN = kWarpTileN / 8;

    static constexpr int kStrideA = kBlockK + 8;
    static constexpr int kStrideB = kBlockN + 8;
    static constexpr int kSmemA = kBlockM * kStrideA * sizeof(Element);
    static constexpr int kSmemB = kBlockK * kStrideB * sizeof(Element);
    static constexpr int kSmemSize = kSmemA + kSmemB;

    static_assert(kMmaN % 2 == 0, "B fragments are loaded in pairs");
};

template <typename T> struct Mma;

template <> struct Mma<__half> {
    static __device__ __forceinline__ void exec(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

template <> struct Mma<__nv_bfloat16> {
    static __device__ __forceinline__ void exec(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

__device__ __forceinline__ __half2 cvt2(float x, float y, __half2) { return __floats2half2_rn(x, y); }
__device__ __forceinline__ __nv_bfloat162 cvt2(float x, float y, __nv_bfloat162) { return __floats2bfloat162_rn(x, y); }

template <typename Traits>
__global__ void __launch_bounds__(Traits::kNThreads)
gemm_kernel(typename Traits::Element const *__restrict__ A, typename Traits::Element const *__restrict__ B,
            typename Traits::Element *__restrict__ C, int const M, int const N, int const K) {
    using Element = typename Traits::Element;
    using Element2 = typename Traits::Element2;
    extern __shared__ __align__(16) char smem_[];
    Element *sA = reinterpret_cast<Element *>(smem_);
    Element *sB = reinterpret_cast<Element *>(smem_ + Traits::kSmemA);

    int const tidx = threadIdx.x;
    int const lane = tidx % 32, warp = tidx / 32;
    int const warp_m = warp / Traits::kWarpsN * Traits::kWarpTileM;
    int const warp_n = warp % Traits::kWarpsN * Traits::kWarpTileN;
    int const m_base = blockIdx.y * Traits::kBlockM;
    int const n_base = blockIdx.x * Traits::kBlockN;

    float acc[Traits::kMmaM][Traits::kMmaN][4] = {};

    for (int k_base = 0; k_base < K; k_base += Traits::kBlockK) {
        #pragma unroll
        for (int i = tidx; i < Traits::kBlockM * Traits::kBlockK / 8; i += Traits::kNThreads) {
            int const r = i / (Traits::kBlockK / 8), c = i % (Traits::kBlockK / 8) * 8;
            uint4 v{0u, 0u, 0u, 0u};
            if (m_base + r < M && k_base + c < K) v = *reinterpret_cast<uint4 const *>(A + size_t(m_base + r) * K + k_base + c);
            *reinterpret_cast<uint4 *>(sA + r * Traits::kStrideA + c) = v;
        }
        #pragma unroll
        for (int i = tidx; i < Traits::kBlockK * Traits::kBlockN / 8; i += Traits::kNThreads) {
            int const r = i / (Traits::kBlockN / 8), c = i % (Traits::kBlockN / 8) * 8;
            uint4 v{0u, 0u, 0u, 0u};
            if (k_base + r < K && n_base + c < N) v = *reinterpret_cast<uint4 const *>(B + size_t(k_base + r) * N + n_base + c);
            *reinterpret_cast<uint4 *>(sB + r * Traits::kStrideB + c) = v;
        }
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < Traits::kBlockK; k += 16) {
            uint32_t a[Traits::kMmaM][4];
            uint32_t b[Traits::kMmaN][2];
            #pragma unroll
            for (int mi = 0; mi < Traits::kMmaM; ++mi) {
                auto const addr = static_cast<uint32_t>(__cvta_generic_to_shared(
                    sA + (warp_m + mi * 16 + (lane & 15)) * Traits::kStrideA + k + (lane >> 4) * 8));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                             : "=r"(a[mi][0]), "=r"(a[mi][1]), "=r"(a[mi][2]), "=r"(a[mi][3]) : "r"(addr));
            }
            #pragma unroll
            for (int ni = 0; ni < Traits::kMmaN; ni += 2) {
                auto const addr = static_cast<uint32_t>(__cvta_generic_to_shared(
                    sB + (k + (lane & 15)) * Traits::kStrideB + warp_n + ni * 8 + (lane >> 4) * 8));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                             : "=r"(b[ni][0]), "=r"(b[ni][1]), "=r"(b[ni + 1][0]), "=r"(b[ni + 1][1]) : "r"(addr));
            }
            #pragma unroll
            for (int mi = 0; mi < Traits::kMmaM; ++mi)
                #pragma unroll
                for (int ni = 0; ni < Traits::kMmaN; ++ni)
                    Mma<Element>::exec(acc[mi][ni], a[mi], b[ni]);
        }
        __syncthreads();
    }

    #pragma unroll
    for (int mi = 0; mi < Traits::kMmaM; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < Traits::kMmaN; ++ni) {
            int const row = m_base + warp_m + mi * 16 + lane / 4;
            int const col = n_base + warp_n + ni * 8 + lane % 4 * 2;
            if (col >= N) continue;          // N is even
            if (row < M) *reinterpret_cast<Element2 *>(C + size_t(row) * N + col) = cvt2(acc[mi][ni][0], acc[mi][ni][1], Element2{});
            if (row + 8 < M) *reinterpret_cast<Element2 *>(C + size_t(row + 8) * N + col) = cvt2(acc[mi][ni][2], acc[mi][ni][3], Element2{});
        }
    }
}

template <typename T>
void run_gemm(void const *A, void const *B, void *C, int M, int N, int K, cudaStream_t stream) {
    using Traits = Gemm_traits<T, 64, 128, 32, 2, 2>;
    dim3 const grid((N + Traits::kBlockN - 1) / Traits::kBlockN, (M + Traits::kBlockM - 1) / Traits::kBlockM);
    auto kernel = &gemm_kernel<Traits>;
    kernel<<<grid, Traits::kNThreads, Traits::kSmemSize, stream>>>(
        static_cast<T const *>(A), static_cast<T const *>(B), static_cast<T *>(C), M, N, K);
}

enum Data_type { DATA_TYPE_FP16, DATA_TYPE_BF16 };

extern "C" void gemm(Data_type type, void const *A, void const *B, void *C, int M, int N, int K, cudaStream_t stream) {
    if (K % 8 != 0 || N % 8 != 0) {
        fprintf(stderr, "gemm: N and K must be multiples of 8\n");
        return;
    }
    if (type == DATA_TYPE_FP16) {
        run_gemm<__half>(A, B, C, M, N, K, stream);
    } else {
        run_gemm<__nv_bfloat16>(A, B, C, M, N, K, stream);
    }
}
