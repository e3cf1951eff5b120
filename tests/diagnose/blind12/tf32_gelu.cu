// y = gelu(x * W^T + b) in TF32, header-only style: linear_gelu.cuh
#include <mma.h>

namespace linear {

template <int BM_, int BN_, int BK_, int WM_, int WN_>
struct TileShape {
    static constexpr int BM = BM_, BN = BN_, BK = BK_;
    static constexpr int WM = WM_, WN = WN_;                       // one warp's part
    static constexpr int kWarpsM = BM / WM, kWarpsN = BN / WN;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kFragM = WM / 16, kFragN = WN / 16;
    static constexpr int kLdTile = BK + 4;
    static constexpr int kLdOut = BN + 4;
};

using Default = TileShape<32, 64, 16, 16, 32>;

struct Identity {
    __device__ float operator()(float x) const { return x; }
};

struct GeluTanh {
    __device__ float operator()(float x) const {
        const float kBeta = 0.7978845608f;                         // sqrt(2 / pi)
        const float kKappa = 0.044715f;
        return 0.5f * x * (1.f + tanhf(kBeta * (x + kKappa * x * x * x)));
    }
};

// ROWS x BK floats, four at a time
template <class T, int ROWS>
struct TileLoader {
    static constexpr int kVecs = ROWS * T::BK / 4;
    static constexpr int kPerThread = (kVecs + T::kThreads - 1) / T::kThreads;
    float4 regs[kPerThread];

    __device__ void load(const float *src, int row0, int rows, int k0, int cols) {
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
            const int v = threadIdx.x + i * T::kThreads;
            const int r = row0 + v / (T::BK / 4), c = k0 + v % (T::BK / 4) * 4;
            regs[i] = r < rows && c < cols ? *reinterpret_cast<const float4 *>(src + (long)r * cols + c)
                                           : make_float4(0.f, 0.f, 0.f, 0.f);
        }
    }

    __device__ void store(float *tile) const {
        using nvcuda::wmma::__float_to_tf32;
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
            const int v = threadIdx.x + i * T::kThreads;
            float *dst = tile + v / (T::BK / 4) * T::kLdTile + v % (T::BK / 4) * 4;
            dst[0] = __float_to_tf32(regs[i].x);
            dst[1] = __float_to_tf32(regs[i].y);
            dst[2] = __float_to_tf32(regs[i].z);
            dst[3] = __float_to_tf32(regs[i].w);
        }
    }
};

template <class T>
union Storage {
    struct {
        float x[2][T::BM * T::kLdTile];
        float w[2][T::BN * T::kLdTile];
    } in;
    float out[T::BM * T::kLdOut];
};

template <class T, class Activation>
__global__ void linear_act(const float *x, const float *w, const float *bias, float *y, int M, int N, int K) {
    using namespace nvcuda;
    __shared__ __align__(128) Storage<T> sm;

    const int warp = threadIdx.x / 32;
    const int wm = warp / T::kWarpsN * T::WM, wn = warp % T::kWarpsN * T::WN;
    const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[T::kFragM][T::kFragN];
    for (int i = 0; i < T::kFragM; ++i)
        for (int j = 0; j < T::kFragN; ++j) wmma::fill_fragment(acc[i][j], 0.f);

    TileLoader<T, T::BM> load_x;
    TileLoader<T, T::BN> load_w;
    load_x.load(x, m0, M, 0, K);
    load_w.load(w, n0, N, 0, K);

    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += T::BK) {
        load_x.store(sm.in.x[stage]);
        load_w.store(sm.in.w[stage]);
        __syncthreads();
        if (k0 + T::BK < K) {
            load_x.load(x, m0, M, k0 + T::BK, K);
            load_w.load(w, n0, N, k0 + T::BK, K);
        }
#pragma unroll
        for (int k = 0; k < T::BK; k += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fx[T::kFragM];
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fw[T::kFragN];
            for (int i = 0; i < T::kFragM; ++i)
                wmma::load_matrix_sync(fx[i], sm.in.x[stage] + (wm + i * 16) * T::kLdTile + k, T::kLdTile);
            for (int j = 0; j < T::kFragN; ++j)
                wmma::load_matrix_sync(fw[j], sm.in.w[stage] + (wn + j * 16) * T::kLdTile + k, T::kLdTile);
            for (int i = 0; i < T::kFragM; ++i)
                for (int j = 0; j < T::kFragN; ++j) wmma::mma_sync(acc[i][j], fx[i], fw[j], acc[i][j]);
        }
        stage ^= 1;
    }
    __syncthreads();                                               // out lies over the tiles

    for (int i = 0; i < T::kFragM; ++i)
        for (int j = 0; j < T::kFragN; ++j)
            wmma::store_matrix_sync(sm.out + (wm + i * 16) * T::kLdOut + wn + j * 16, acc[i][j], T::kLdOut,
                                    wmma::mem_row_major);
    __syncthreads();

    Activation act;
    for (int e = threadIdx.x; e < T::BM * T::BN; e += T::kThreads) {
        const int r = e / T::BN, c = e % T::BN;
        if (m0 + r < M && n0 + c < N) {
            const float s = sm.out[r * T::kLdOut + c] + bias[n0 + c];
            y[(long)(m0 + r) * N + n0 + c] = act(s);
        }
    }
}

template __global__ void linear_act<Default, GeluTanh>(const float *, const float *, const float *, float *, int, int, int);
template __global__ void linear_act<Default, Identity>(const float *, const float *, const float *, float *, int, int, int);

}  // namespace linear
