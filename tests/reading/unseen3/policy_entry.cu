// A GEMM assembled from policies: D = A * B, A row major, B column major (TN).
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

template <int M_, int N_, int K_>
struct GemmShape {
    static constexpr int kM = M_;
    static constexpr int kN = N_;
    static constexpr int kK = K_;
};

template <typename BlockShape_, typename WarpShape_, typename Element_, typename Accumulator_>
struct DefaultPolicy {
    using BlockShape = BlockShape_;
    using WarpShape = WarpShape_;
    using Element = Element_;
    using Accumulator = Accumulator_;
    static constexpr int kWarpsM = BlockShape::kM / WarpShape::kM;
    static constexpr int kWarpsN = BlockShape::kN / WarpShape::kN;
    static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
    static constexpr int kPitch = BlockShape::kK + 16 / sizeof(Element);
};

template <typename Policy>
class Gemm {
public:
    using Block = typename Policy::BlockShape;
    using Warp = typename Policy::WarpShape;
    using Element = typename Policy::Element;
    using Accumulator = typename Policy::Accumulator;

    struct Params {
        int m, n, k;
        Element const *ptr_A;
        int lda;
        Element const *ptr_B;
        int ldb;
        Accumulator *ptr_D;
        int ldd;
    };

    struct SharedStorage {
        alignas(16) Element A[Block::kM * Policy::kPitch];
        alignas(16) Element B[Block::kN * Policy::kPitch];
    };

    __device__ void operator()(Params const &params, SharedStorage &storage) const {
        using namespace nvcuda::wmma;
        int const warp = threadIdx.x / 32;
        int const warp_m = warp % Policy::kWarpsM * Warp::kM;
        int const warp_n = warp / Policy::kWarpsM * Warp::kN;
        int const block_m = blockIdx.x * Block::kM;
        int const block_n = blockIdx.y * Block::kN;

        constexpr int kIterM = Warp::kM / 16, kIterN = Warp::kN / 16;
        fragment<accumulator, 16, 16, 16, Accumulator> accum[kIterM][kIterN];
        for (int i = 0; i < kIterM; ++i)
            for (int j = 0; j < kIterN; ++j) fill_fragment(accum[i][j], Accumulator(0));

        for (int k = 0; k < params.k; k += Block::kK) {
            copy<Block::kM>(storage.A, params.ptr_A + size_t(block_m) * params.lda + k, params.lda);
            copy<Block::kN>(storage.B, params.ptr_B + size_t(block_n) * params.ldb + k, params.ldb);
            __syncthreads();
            for (int kk = 0; kk < Block::kK; kk += 16) {
                fragment<matrix_a, 16, 16, 16, Element, row_major> a[kIterM];
                fragment<matrix_b, 16, 16, 16, Element, col_major> b[kIterN];
                for (int i = 0; i < kIterM; ++i)
                    load_matrix_sync(a[i], storage.A + (warp_m + i * 16) * Policy::kPitch + kk, Policy::kPitch);
                for (int j = 0; j < kIterN; ++j)
                    load_matrix_sync(b[j], storage.B + (warp_n + j * 16) * Policy::kPitch + kk, Policy::kPitch);
                for (int i = 0; i < kIterM; ++i)
                    for (int j = 0; j < kIterN; ++j) mma_sync(accum[i][j], a[i], b[j], accum[i][j]);
            }
            __syncthreads();
        }
        for (int i = 0; i < kIterM; ++i)
            for (int j = 0; j < kIterN; ++j)
                store_matrix_sync(params.ptr_D + size_t(block_m + warp_m + i * 16) * params.ldd + block_n + warp_n + j * 16,
                                  accum[i][j], params.ldd, mem_row_major);
    }

private:
    template <int Rows>
    __device__ static void copy(Element *dst, Element const *src, int ld) {
        constexpr int kPerVector = 16 / sizeof(Element);
        constexpr int kVectors = Block::kK / kPerVector;
        for (int i = threadIdx.x; i < Rows * kVectors; i += Policy::kThreads) {
            int const row = i / kVectors, col = i % kVectors * kPerVector;
            *reinterpret_cast<int4 *>(dst + row * Policy::kPitch + col) =
                *reinterpret_cast<int4 const *>(src + size_t(row) * ld + col);
        }
    }
};

template <typename Kernel>
__global__ void device_kernel(typename Kernel::Params params) {
    extern __shared__ __align__(16) unsigned char raw[];
    Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage *>(raw));
}

cudaError_t gemm_tn(int m, int n, int k, half const *A, int lda, half const *B, int ldb, float *D, int ldd,
                    cudaStream_t stream) {
    using Policy = DefaultPolicy<GemmShape<64, 64, 32>, GemmShape<32, 32, 16>, half, float>;
    using Kernel = Gemm<Policy>;
    if (m % 64 || n % 64 || k % 32) return cudaErrorInvalidValue;
    typename Kernel::Params params{m, n, k, A, lda, B, ldb, D, ldd};
    dim3 grid(m / Policy::BlockShape::kM, n / Policy::BlockShape::kN);
    device_kernel<Kernel><<<grid, Policy::kThreads, sizeof(typename Kernel::SharedStorage), stream>>>(params);
    return cudaGetLastError();
}
