// Grouped GEMM for mixture-of-experts layers: tokens are sorted by expert, expert e has rows offsets[e] .. offsets[e+1].
// Persistent blocks: each walks the list of all experts' tiles, gridDim.x apart, and finds out which expert's a tile is.
#include <cuda_bf16.h>
#include <mma.h>

namespace moe {

struct Arguments {
    __nv_bfloat16 const *tokens;   // [num_tokens, hidden]
    __nv_bfloat16 const *experts;  // [num_experts, hidden, inter]
    __nv_bfloat16 *out;            // [num_tokens, inter]
    int const *offsets;            // [num_experts + 1]
    int num_experts;
    int hidden;
    int inter;
};

struct TileCoord {
    int expert;
    int row_begin;  // first token of the tile, and the one behind the expert's last
    int row_end;
    int col_begin;
};

template <int kTileM, int kTileN>
class ProblemVisitor {
public:
    __device__ ProblemVisitor(Arguments const &args)
        : args_(args), expert_(0), first_tile_(0), tiles_n_((args.inter + kTileN - 1) / kTileN) {}

    /// False when there is no such tile. Tiles must be asked for in ascending order.
    __device__ bool find(int tile, TileCoord &coord) {
        while (expert_ < args_.num_experts) {
            int const begin = args_.offsets[expert_];
            int const end = args_.offsets[expert_ + 1];
            int const tiles = (end - begin + kTileM - 1) / kTileM * tiles_n_;
            if (tile < first_tile_ + tiles) {
                int const local = tile - first_tile_;
                coord.expert = expert_;
                coord.row_begin = begin + local / tiles_n_ * kTileM;
                coord.row_end = end;
                coord.col_begin = local % tiles_n_ * kTileN;
                return true;
            }
            first_tile_ += tiles;
            ++expert_;
        }
        return false;
    }

private:
    Arguments const &args_;
    int expert_;
    int first_tile_;
    int tiles_n_;
};

template <int kTileM, int kTileN, int kTileK>
struct SharedStorage {
    static constexpr int kPadA = kTileK + 8;
    static constexpr int kPadB = kTileN + 8;
    static constexpr int kPadD = kTileN + 4;
    union {
        struct {
            __nv_bfloat16 a[kTileM * kPadA];
            __nv_bfloat16 b[kTileK * kPadB];
        } mainloop;
        float epilogue[kTileM * kPadD];
    };
};

template <int kTileM, int kTileN, int kTileK, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) grouped_gemm(Arguments const args) {
    using namespace nvcuda::wmma;
    using Storage = SharedStorage<kTileM, kTileN, kTileK>;
    static_assert(kTileM == 16 * 2 && kTileN == 16 * kWarps, "a warp has two fragments, one above the other");

    __shared__ __align__(128) Storage storage;
    int const thread = threadIdx.x;
    int const warp = thread / 32;
    __nv_bfloat16 const zero = __float2bfloat16(0.f);

    ProblemVisitor<kTileM, kTileN> visitor(args);
    TileCoord coord;

    for (int tile = blockIdx.x; visitor.find(tile, coord); tile += gridDim.x) {
        __nv_bfloat16 const *weights = args.experts + size_t(coord.expert) * args.hidden * args.inter;

        fragment<accumulator, 16, 16, 16, float> acc[2];
        fill_fragment(acc[0], 0.f);
        fill_fragment(acc[1], 0.f);

        for (int k0 = 0; k0 < args.hidden; k0 += kTileK) {
            for (int i = thread; i < kTileM * kTileK; i += kWarps * 32) {
                int const row = coord.row_begin + i / kTileK, k = k0 + i % kTileK;
                bool const guard = row < coord.row_end && k < args.hidden;
                storage.mainloop.a[i / kTileK * Storage::kPadA + i % kTileK] =
                    guard ? args.tokens[size_t(row) * args.hidden + k] : zero;
            }
            for (int i = thread; i < kTileK * kTileN; i += kWarps * 32) {
                int const k = k0 + i / kTileN, col = coord.col_begin + i % kTileN;
                bool const guard = k < args.hidden && col < args.inter;
                storage.mainloop.b[i / kTileN * Storage::kPadB + i % kTileN] =
                    guard ? weights[size_t(k) * args.inter + col] : zero;
            }
            __syncthreads();

            for (int k = 0; k < kTileK; k += 16) {
                fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> frag_b;
                load_matrix_sync(frag_b, storage.mainloop.b + k * Storage::kPadB + warp * 16, Storage::kPadB);
                for (int half = 0; half < 2; ++half) {
                    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> frag_a;
                    load_matrix_sync(frag_a, storage.mainloop.a + half * 16 * Storage::kPadA + k, Storage::kPadA);
                    mma_sync(acc[half], frag_a, frag_b, acc[half]);
                }
            }
            __syncthreads();
        }

        for (int half = 0; half < 2; ++half)
            store_matrix_sync(storage.epilogue + half * 16 * Storage::kPadD + warp * 16, acc[half], Storage::kPadD,
                              mem_row_major);
        __syncthreads();

        for (int i = thread; i < kTileM * kTileN; i += kWarps * 32) {
            int const row = coord.row_begin + i / kTileN, col = coord.col_begin + i % kTileN;
            if (row < coord.row_end && col < args.inter)
                args.out[size_t(row) * args.inter + col] =
                    __float2bfloat16(storage.epilogue[i / kTileN * Storage::kPadD + i % kTileN]);
        }
        __syncthreads();  // the next tile's operands lie where this one's results are
    }
}

}  // namespace moe

template __global__ void moe::grouped_gemm<32, 64, 32, 4>(moe::Arguments const);
