// Sparse 3D convolution, gather - GEMM - scatter in one kernel. For every kernel offset there is a list of pairs
// (input voxel, output voxel); blockIdx.z is the offset. Rows of features are gathered, multiplied by the offset's
// weights, and added to the rows of the output, which holds zeros at the start.
#include <cuda_fp16.h>
#include <mma.h>
#include <vector>

namespace wmma = nvcuda::wmma;

template <int kRows, int kCols, int kDepth>
class GatherGemmScatter {
public:
    static constexpr int kWarps = (kRows / 16) * (kCols / 32);
    static constexpr int kThreads = kWarps * 32;
    static constexpr int kStrideA = kDepth + 8;
    static constexpr int kStrideB = kCols + 8;
    static constexpr int kStrideC = kCols + 4;

    struct Storage {
        int in_row[kRows];
        int out_row[kRows];
        __align__(32) half a[kRows * kStrideA];
        __align__(32) half b[kDepth * kStrideB];
        __align__(32) float c[kRows * kStrideC];
    };

    struct Arguments {
        const half *features;       // [n_in, c_in]
        const half *weights;        // [kernel_volume, c_in, c_out]
        float *output;              // [n_out, c_out]
        const int *in_map;          // [kernel_volume, max_pairs]
        const int *out_map;         // [kernel_volume, max_pairs]
        const int *pairs;           // [kernel_volume]
        int max_pairs, c_in, c_out;
    };

    __device__ static void load_indices(Storage &s, const Arguments &p, int offset, int first, int n)
    {
        for (int i = threadIdx.x; i < kRows; i += kThreads) {
            const bool valid = first + i < n;
            s.in_row[i] = valid ? p.in_map[offset * p.max_pairs + first + i] : -1;
            s.out_row[i] = valid ? p.out_map[offset * p.max_pairs + first + i] : -1;
        }
    }

    __device__ static void gather(Storage &s, const Arguments &p, int k0)
    {
        for (int i = threadIdx.x; i < kRows * kDepth / 2; i += kThreads) {
            const int r = i / (kDepth / 2), k = i % (kDepth / 2) * 2;
            half2 v = __float2half2_rn(0.f);
            if (s.in_row[r] >= 0 && k0 + k < p.c_in)
                v = *reinterpret_cast<const half2 *>(p.features + (size_t)s.in_row[r] * p.c_in + k0 + k);
            *reinterpret_cast<half2 *>(s.a + r * kStrideA + k) = v;
        }
    }

    __device__ static void load_weights(Storage &s, const Arguments &p, int offset, int k0, int col0)
    {
        const half *w = p.weights + (size_t)offset * p.c_in * p.c_out;
        for (int i = threadIdx.x; i < kDepth * kCols; i += kThreads) {
            const int k = i / kCols, c = i % kCols;
            half v = __float2half(0.f);
            if (k0 + k < p.c_in && col0 + c < p.c_out) v = w[(size_t)(k0 + k) * p.c_out + col0 + c];
            s.b[k * kStrideB + c] = v;
        }
    }

    __device__ static void scatter(Storage &s, const Arguments &p, int col0)
    {
        for (int i = threadIdx.x; i < kRows * kCols; i += kThreads) {
            const int r = i / kCols, c = i % kCols;
            if (s.out_row[r] >= 0 && col0 + c < p.c_out)
                atomicAdd(p.output + (size_t)s.out_row[r] * p.c_out + col0 + c, s.c[r * kStrideC + c]);
        }
    }

    __device__ static void run(Storage &s, const Arguments &p)
    {
        const int offset = blockIdx.z;
        const int n = p.pairs[offset];
        const int first = blockIdx.x * kRows;
        const int col0 = blockIdx.y * kCols;
        if (first >= n) return;

        load_indices(s, p, offset, first, n);
        __syncthreads();

        const int warp = threadIdx.x / 32;
        const int row = warp % (kRows / 16) * 16;
        const int col = warp / (kRows / 16) * 32;

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
        wmma::fill_fragment(sum[0], 0.f);
        wmma::fill_fragment(sum[1], 0.f);

        for (int k0 = 0; k0 < p.c_in; k0 += kDepth) {
            gather(s, p, k0);
            load_weights(s, p, offset, k0, col0);
            __syncthreads();
            for (int k = 0; k < kDepth; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::load_matrix_sync(a, s.a + row * kStrideA + k, kStrideA);
                for (int j = 0; j < 2; ++j) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                    wmma::load_matrix_sync(b, s.b + k * kStrideB + col + j * 16, kStrideB);
                    wmma::mma_sync(sum[j], a, b, sum[j]);
                }
            }
            __syncthreads();
        }

        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(s.c + row * kStrideC + col + j * 16, sum[j], kStrideC, wmma::mem_row_major);
        __syncthreads();
        scatter(s, p, col0);
    }
};

template <typename Kernel>
__global__ void spconv_kernel(typename Kernel::Arguments p)
{
    __shared__ typename Kernel::Storage storage;
    Kernel::run(storage, p);
}

using SpConv32x64 = GatherGemmScatter<32, 64, 32>;

void sparse_conv(const SpConv32x64::Arguments &p, int kernel_volume, cudaStream_t stream)
{
    dim3 grid((p.max_pairs + 31) / 32, (p.c_out + 63) / 64, kernel_volume);
    spconv_kernel<SpConv32x64><<<grid, SpConv32x64::kThreads, 0, stream>>>(p);
}
