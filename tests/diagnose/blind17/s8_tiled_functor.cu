// int8 linear layer: D = relu(scale_row[m] * scale_col[n] * (A B^T) + bias[n]), int32 sums, half out.
// Policy: the shape of the tiles; Epilogue: what is done to a sum.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

namespace q8 {

template <int kM_, int kN_, int kK_, int kWarpsM_, int kWarpsN_>
struct TilePolicy {
    static constexpr int kM = kM_, kN = kN_, kK = kK_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kFragsM = kM / kWarpsM / 16, kFragsN = kN / kWarpsN / 16;
    static constexpr int kLd = kK + 16;   // bytes from row to row in shared memory
    static constexpr int kLdAcc = kN + 4;
    static_assert(kM % (kWarpsM * 16) == 0 && kN % (kWarpsN * 16) == 0, "warps must share the tile evenly");
};

struct Arguments {
    int8_t const* a;          // [m, k]
    int8_t const* b;          // [n, k]
    float const* scale_row;   // [m]
    float const* scale_col;   // [n]
    __half const* bias;       // [n]
    __half* d;                // [m, n]
    int m, n, k;
    int ldd;                  // elements between rows of d
};

struct DequantBiasRelu {
    Arguments const& args;
    __device__ void operator()(int row, int col, int32_t sum) const {
        float x = static_cast<float>(sum) * args.scale_row[row] * args.scale_col[col];
        x += __half2float(args.bias[col]);
        args.d[static_cast<int64_t>(row) * args.ldd + col] = __float2half(fmaxf(x, 0.f));
    }
};

template <class Policy>
union TileStorage {
    struct {
        int8_t a[Policy::kM * Policy::kLd];
        int8_t b[Policy::kN * Policy::kLd];
    } in;
    int32_t acc[Policy::kM * Policy::kLdAcc];
};

template <class Policy>
__device__ void copy_tile(int8_t* to, int8_t const* from, int row0, int rows, int n_rows, int k0, int k) {
    constexpr int kVec = 16, kPerRow = Policy::kK / kVec;
    for (int i = threadIdx.x; i < rows * kPerRow; i += Policy::kThreads) {
        int const r = i / kPerRow, c = i % kPerRow * kVec;
        int4 value = make_int4(0, 0, 0, 0);
        if (row0 + r < n_rows && k0 + c < k)
            value = *reinterpret_cast<int4 const*>(from + static_cast<int64_t>(row0 + r) * k + k0 + c);
        *reinterpret_cast<int4*>(to + r * Policy::kLd + c) = value;
    }
}

template <class Policy, class Epilogue>
__global__ void linear_s8(Arguments args) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) TileStorage<Policy> storage;

    int const warp = threadIdx.x / 32;
    int const warp_m = warp / Policy::kWarpsN * Policy::kFragsM * 16;
    int const warp_n = warp % Policy::kWarpsN * Policy::kFragsN * 16;
    int const m0 = blockIdx.x * Policy::kM, n0 = blockIdx.y * Policy::kN;

    fragment<accumulator, 16, 16, 16, int> acc[Policy::kFragsM][Policy::kFragsN];
    for (auto& row : acc)
        for (auto& frag : row) fill_fragment(frag, 0);

    for (int k0 = 0; k0 < args.k; k0 += Policy::kK) {
        copy_tile<Policy>(storage.in.a, args.a, m0, Policy::kM, args.m, k0, args.k);
        copy_tile<Policy>(storage.in.b, args.b, n0, Policy::kN, args.n, k0, args.k);
        __syncthreads();

        for (int kk = 0; kk < Policy::kK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, signed char, row_major> a[Policy::kFragsM];
            fragment<matrix_b, 16, 16, 16, signed char, col_major> b[Policy::kFragsN];
            for (int i = 0; i < Policy::kFragsM; ++i)
                load_matrix_sync(a[i], storage.in.a + (warp_m + i * 16) * Policy::kLd + kk, Policy::kLd);
            for (int j = 0; j < Policy::kFragsN; ++j)
                load_matrix_sync(b[j], storage.in.b + (warp_n + j * 16) * Policy::kLd + kk, Policy::kLd);
            for (int i = 0; i < Policy::kFragsM; ++i)
                for (int j = 0; j < Policy::kFragsN; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < Policy::kFragsM; ++i)
        for (int j = 0; j < Policy::kFragsN; ++j)
            store_matrix_sync(storage.acc + (warp_m + i * 16) * Policy::kLdAcc + warp_n + j * 16, acc[i][j],
                              Policy::kLdAcc, mem_row_major);
    __syncthreads();

    Epilogue const epilogue{args};
    for (int i = threadIdx.x; i < Policy::kM * Policy::kN; i += Policy::kThreads) {
        int const r = i / Policy::kN, c = i % Policy::kN;
        if (m0 + r < args.m && n0 + c < args.n) epilogue(m0 + r, n0 + c, storage.acc[r * Policy::kLdAcc + c]);
    }
}

using Small = TilePolicy<32, 64, 64, 1, 4>;

template __global__ void linear_s8<Small, DequantBiasRelu>(Arguments);

}  // namespace q8
