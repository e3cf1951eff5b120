// Grouped GEMM for mixture-of-experts: tokens are sorted by expert, expert e owns rows [offsets[e], offsets[e+1]).
// Persistent blocks walk over all (expert, m tile, n tile) problems.

#pragma once
#include <cuda_fp16.h>
#include <mma.h>

namespace moe {

template <int M_, int N_, int K_>
struct Shape {
    enum { M = M_, N = N_, K = K_ };
};

struct GroupedArgs {
    const half* tokens;     // [num_tokens, hidden]
    const half* experts;    // [num_experts, hidden, inner]
    const int* offsets;     // [num_experts + 1]
    half* result;           // [num_tokens, inner]
    int num_experts;
    int hidden;
    int inner;
};

// where the walk is
struct Problem {
    int expert;
    int row_begin;
    int row_end;
    int tile_m;
    int tile_n;
};

template <class Tile>
class Visitor {
public:
    __device__ explicit Visitor(const GroupedArgs& args)
        : args_(args), tiles_n_((args.inner + Tile::N - 1) / Tile::N), expert_(0), first_tile_(0) {}

    // finds the problem of a global tile number, false if there are no more
    __device__ bool locate(int tile, Problem& out) {
        while (expert_ < args_.num_experts) {
            const int begin = args_.offsets[expert_];
            const int end = args_.offsets[expert_ + 1];
            const int count = (end - begin + Tile::M - 1) / Tile::M * tiles_n_;
            if (tile < first_tile_ + count) {
                const int local = tile - first_tile_;
                out.expert = expert_;
                out.row_begin = begin;
                out.row_end = end;
                out.tile_m = local / tiles_n_;
                out.tile_n = local % tiles_n_;
                return true;
            }
            first_tile_ += count;
            ++expert_;
        }
        return false;
    }

private:
    const GroupedArgs& args_;
    int tiles_n_;
    int expert_;
    int first_tile_;
};

template <class Tile, int kThreads>
__global__ void grouped_gemm(const GroupedArgs args) {
    namespace wmma = nvcuda::wmma;
    constexpr int kLdA = Tile::K + 8;
    constexpr int kLdB = Tile::N + 8;
    constexpr int kLdD = Tile::N + 4;
    constexpr int kWarps = kThreads / 32;
    constexpr int kFrags = (Tile::M / 16) * (Tile::N / 16) / kWarps;
    constexpr int kWarpsPerRow = (Tile::N / 16) / kFrags;

    __shared__ __align__(32) half shA[Tile::M * kLdA];
    __shared__ __align__(32) half shB[Tile::K * kLdB];
    __shared__ __align__(32) float shD[Tile::M * kLdD];

    const int warp = threadIdx.x / 32;
    const int wm = (warp / kWarpsPerRow) * 16;
    const int wn = (warp % kWarpsPerRow) * kFrags * 16;

    Visitor<Tile> visitor(args);
    Problem pb;
    for (int tile = blockIdx.x; visitor.locate(tile, pb); tile += gridDim.x) {
        const int row0 = pb.row_begin + pb.tile_m * Tile::M;
        const int col0 = pb.tile_n * Tile::N;
        const half* weight = args.experts + (size_t)pb.expert * args.hidden * args.inner;

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kFrags];
        for (int f = 0; f < kFrags; ++f) wmma::fill_fragment(acc[f], 0.0f);

        for (int k0 = 0; k0 < args.hidden; k0 += Tile::K) {
            for (int i = threadIdx.x; i < Tile::M * Tile::K / 2; i += kThreads) {
                const int r = i / (Tile::K / 2), c = i % (Tile::K / 2) * 2;
                half2 v = __float2half2_rn(0.0f);
                if (row0 + r < pb.row_end && k0 + c < args.hidden)
                    v = *(const half2*)(args.tokens + (size_t)(row0 + r) * args.hidden + k0 + c);
                *(half2*)(shA + r * kLdA + c) = v;
            }
            for (int i = threadIdx.x; i < Tile::K * Tile::N / 2; i += kThreads) {
                const int r = i / (Tile::N / 2), c = i % (Tile::N / 2) * 2;
                half2 v = __float2half2_rn(0.0f);
                if (k0 + r < args.hidden && col0 + c < args.inner)
                    v = *(const half2*)(weight + (size_t)(k0 + r) * args.inner + col0 + c);
                *(half2*)(shB + r * kLdB + c) = v;
            }
            __syncthreads();
            for (int kk = 0; kk < Tile::K; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
                wmma::load_matrix_sync(fa, shA + wm * kLdA + kk, kLdA);
                for (int f = 0; f < kFrags; ++f) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
                    wmma::load_matrix_sync(fb, shB + kk * kLdB + wn + f * 16, kLdB);
                    wmma::mma_sync(acc[f], fa, fb, acc[f]);
                }
            }
            __syncthreads();
        }

        for (int f = 0; f < kFrags; ++f)
            wmma::store_matrix_sync(shD + wm * kLdD + wn + f * 16, acc[f], kLdD, wmma::mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < Tile::M * Tile::N; i += kThreads) {
            const int r = i / Tile::N, c = i % Tile::N;
            if (row0 + r < pb.row_end && col0 + c < args.inner)
                args.result[(size_t)(row0 + r) * args.inner + col0 + c] = __float2half(shD[r * kLdD + c]);
        }
    }
}

inline cudaError_t run_grouped_gemm(const GroupedArgs& args, int num_sms, cudaStream_t stream) {
    grouped_gemm<Shape<32, 32, 32>, 64><<<num_sms, 64, 0, stream>>>(args);
    return cudaGetLastError();
}

}  // namespace moe
