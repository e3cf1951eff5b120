// attention_fused: softmax(scale * Q K^T) V in one pass, by cp.async, ldmatrix and mma.sync.m16n8k16.
//
//   q, k, v, o   half, contiguous [batch * heads][seq_len][HEAD_DIM], 16-byte aligned
//   seq_len      any length >= 1
//   scale        > 0, usually 1 / sqrt(HEAD_DIM)
//
// Macros: HEAD_DIM   32, 64 or 128
//         CAUSAL     1: query i sees keys 0..i
//         ROW_TILES  16-row tiles per warp: 2 reuses each K and V fragment twice; 1 gives twice as many blocks
//         BLOCK_N    keys per step: 32, 64 or 128
//         WARPS      warps per block
// Launch: grid (ceil(seq_len / BLOCK_M), batch * heads) with BLOCK_M = 16 * ROW_TILES * WARPS, block 32 * WARPS,
// dynamic shared memory 2 * HEAD_DIM * (BLOCK_M + 4 * BLOCK_N) bytes, which needs the opt-in attribute above 48 KB;
// sm_80 or newer.
//
// Each warp owns its rows from end to end: scores, probabilities and output stay in its registers, and the layout that
// mma gives its accumulator is the one it takes its A operand in, so that P never touches memory. K and V come
// in two stages: while one is used, the next is on its way. Rows in shared memory are 16-byte chunks in XOR-swizzled
// order, which lets ldmatrix and cp.async run without bank conflicts and without padding.
#include <cuda_fp16.h>

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef ROW_TILES
#define ROW_TILES 1
#endif
#ifndef BLOCK_N
#define BLOCK_N 64
#endif
#ifndef WARPS
#define WARPS 4
#endif

namespace {

constexpr int D = HEAD_DIM;
constexpr int THREADS = 32 * WARPS;
constexpr int WARP_M = 16 * ROW_TILES;
constexpr int BLOCK_M = WARP_M * WARPS;
constexpr int CHUNKS = D / 8;  // 16-byte chunks per row
constexpr int ROW_BYTES = D * 2;
constexpr int TILE_BYTES = BLOCK_N * ROW_BYTES;        // one tile of K or V
constexpr int MIN_BLOCKS = WARPS <= 4 ? 2 : 1;         // per multiprocessor: eight warps, 255 registers per thread
constexpr bool Q_IN_REGISTERS = ROW_TILES * D <= 128;  // else there is no room, and Q is read again for each step
constexpr unsigned FULL = 0xffffffff;

// The maximum that P is relative to may lag behind the true one by a factor of 2^SLACK. Until then nothing has to be
// rescaled: P <= 2^SLACK still fits half, with the same relative rounding, and the division by the row sum cancels it.
constexpr float SLACK = 8.0f;

static_assert(D == 32 || D == 64 || D == 128, "HEAD_DIM must be 32, 64 or 128");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N * CHUNKS % THREADS == 0 && BLOCK_M * CHUNKS % THREADS == 0, "uneven copy");
static_assert(THREADS / CHUNKS % 8 == 0, "a thread's chunks must share one swizzle");

// Byte offset of a 16-byte chunk. Eight consecutive rows at one logical chunk fall on eight different groups of four
// banks; with 64-byte rows two rows share 128 bytes, so that the row's pair number is what permutes.
__device__ __forceinline__ int swizzled(int row, int chunk) {
    const int key = D == 32 ? (row >> 1) & 3 : row & 7;
    return row * ROW_BYTES + ((chunk ^ key) << 4);
}

// Starts the copy of ROWS rows from `first` on; rows past the end become zero, so that P = 0 there never meets a NaN.
// A thread's chunks lie a multiple of eight rows apart: they share one swizzle, and addresses differ by constants.
template <int ROWS>
__device__ __forceinline__ void start_copy(unsigned tile, const half* matrix, int first, int seq_len) {
    constexpr int STRIDE = THREADS / CHUNKS;  // rows between two chunks of a thread
    const int row = threadIdx.x / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
    const unsigned target = tile + swizzled(row, chunk);
    const half* source = matrix + static_cast<size_t>(first + row) * D + chunk * 8;
    if (first + ROWS <= seq_len) {
#pragma unroll
        for (int i = 0; i < ROWS / STRIDE; ++i) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(target + i * STRIDE * ROW_BYTES),
                         "l"(source + i * STRIDE * D)
                         : "memory");
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROWS / STRIDE; ++i) {
            const bool exists = first + row + i * STRIDE < seq_len;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(target + i * STRIDE * ROW_BYTES),
                         "l"(exists ? source + i * STRIDE * D : matrix), "r"(exists ? 16 : 0)
                         : "memory");
        }
    }
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void ldmatrix(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a * b: a 16x16, b 16x8, c 16x8
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned pack(float low, float high) {
    const half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    attention_fused(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                    half* __restrict__ o, int seq_len, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];  // Q, then stage 0: K, V, then stage 1: K, V
    const unsigned q_tile = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const unsigned stages = q_tile + BLOCK_M * ROW_BYTES;

    // Blocks start in order of x, then y. With a causal mask, the last rows of all heads go first: they take longest.
    const unsigned order = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned head = CAUSAL ? order % gridDim.y : blockIdx.y;
    const int block_row = (CAUSAL ? gridDim.x - 1 - order / gridDim.y : blockIdx.x) * BLOCK_M;
    const size_t head_offset = static_cast<size_t>(head) * seq_len * D;
    q += head_offset;
    k += head_offset;
    v += head_offset;
    o += head_offset;

    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 * WARP_M;  // within the block
    const int first_query = block_row + warp_row;
    const int group = lane / 4;  // this lane's rows in a 16-row tile are `group` and `group + 8`,
    const int pair = lane % 4;   // its columns in an 8-column tile 2 * pair and 2 * pair + 1

    const int keys = CAUSAL ? min(seq_len, block_row + BLOCK_M) : seq_len;
    const int steps = (keys + BLOCK_N - 1) / BLOCK_N;

    start_copy<BLOCK_M>(q_tile, q, block_row, seq_len);
    commit();
    start_copy<BLOCK_N>(stages, k, 0, seq_len);
    start_copy<BLOCK_N>(stages + TILE_BYTES, v, 0, seq_len);
    commit();

    // What each lane hands to ldmatrix: one row of one of four 8x8 matrices. All rows of a lane agree modulo 8, so that
    // its swizzle is one constant, and a step along the row is one XOR.
    const int q_offset = swizzled(warp_row + lane % 16, lane / 16);
    const int k_offset = swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    const int v_offset = swizzled(lane % 16, lane / 16);

    wait_for_copies<1>();
    __syncthreads();
    unsigned q_fragment[ROW_TILES][Q_IN_REGISTERS ? D / 16 : 1][4];
    if constexpr (Q_IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk) {
                ldmatrix(q_fragment[i][kk], q_tile + ((q_offset + i * 16 * ROW_BYTES) ^ (kk << 5)));
            }
        }
    }

    const float scale_log2 = scale * 1.44269504f;  // exp(scale x) = exp2(scale_log2 x)
    float acc[ROW_TILES][D / 8][4];
    float row_max[ROW_TILES][2];  // times scale_log2
    float row_sum[ROW_TILES][2];  // over this lane's columns only, until the end
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
        row_max[i][0] = row_max[i][1] = __int_as_float(0xff800000);  // -infinity
        row_sum[i][0] = row_sum[i][1] = 0.0f;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
            acc[i][j][0] = acc[i][j][1] = acc[i][j][2] = acc[i][j][3] = 0.0f;
        }
    }

    for (int step = 0; step < steps; ++step) {
        const int first_key = step * BLOCK_N;
        const unsigned k_tile = stages + step % 2 * (2 * TILE_BYTES);
        const unsigned v_tile = k_tile + TILE_BYTES;

        // One barrier per step: this step's tiles have arrived for every thread, and the other stage, which the
        // previous step read, is free for the next copy.
        wait_for_copies<0>();
        __syncthreads();
        if (step + 1 < steps) {
            const unsigned next = stages + (step + 1) % 2 * (2 * TILE_BYTES);
            start_copy<BLOCK_N>(next, k, first_key + BLOCK_N, seq_len);
            start_copy<BLOCK_N>(next + TILE_BYTES, v, first_key + BLOCK_N, seq_len);
            commit();
        }
        if (CAUSAL && first_key > first_query + WARP_M - 1) {
            continue;  // wholly above this warp's diagonal
        }

        // S = Q K^T
        float s[ROW_TILES][BLOCK_N / 8][4];
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int j = 0; j < BLOCK_N / 8; ++j) {
                s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0.0f;
            }
        }
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            if constexpr (!Q_IN_REGISTERS) {
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    ldmatrix(q_fragment[i][0], q_tile + ((q_offset + i * 16 * ROW_BYTES) ^ (kk << 5)));
                }
            }
#pragma unroll
            for (int j = 0; j < BLOCK_N / 16; ++j) {
                unsigned b[4];
                ldmatrix(b, k_tile + ((k_offset + j * 16 * ROW_BYTES) ^ (kk << 5)));
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    mma(s[i][2 * j], q_fragment[i][Q_IN_REGISTERS ? kk : 0], b[0], b[1]);
                    mma(s[i][2 * j + 1], q_fragment[i][Q_IN_REGISTERS ? kk : 0], b[2], b[3]);
                }
            }
        }

        if (first_key + BLOCK_N > seq_len || (CAUSAL && first_key + BLOCK_N - 1 > first_query)) {
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int j = 0; j < BLOCK_N / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int key = first_key + j * 8 + pair * 2 + e % 2;
                        const int query = first_query + i * 16 + group + e / 2 * 8;
                        if (key >= seq_len || (CAUSAL && key > query)) {
                            s[i][j][e] = __int_as_float(0xff800000);
                        }
                    }
                }
            }
        }

        // Row maxima, each shared by the four lanes of a row. Key 0 is visible to every row, so that they are finite
        // after the first step.
        float tile_max[ROW_TILES][2];
        bool grown = false;
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float x = fmaxf(s[i][0][2 * h], s[i][0][2 * h + 1]);
#pragma unroll
                for (int j = 1; j < BLOCK_N / 8; ++j) {
                    x = fmaxf(x, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
                }
                x = fmaxf(x, __shfl_xor_sync(FULL, x, 1));
                x = fmaxf(x, __shfl_xor_sync(FULL, x, 2));
                tile_max[i][h] = x * scale_log2;
                grown |= tile_max[i][h] > row_max[i][h] + SLACK;
            }
        }
        if (__any_sync(FULL, grown)) {
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const float new_max = fmaxf(row_max[i][h], tile_max[i][h]);
                    const float rescale = exp2_approx(row_max[i][h] - new_max);
                    row_max[i][h] = new_max;
                    row_sum[i][h] *= rescale;
#pragma unroll
                    for (int j = 0; j < D / 8; ++j) {
                        acc[i][j][2 * h] *= rescale;
                        acc[i][j][2 * h + 1] *= rescale;
                    }
                }
            }
        }

        // P = exp2(scale_log2 S - max), packed as the A operand of the next product; then O += P V.
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; ++j) {
            unsigned p[ROW_TILES][4];
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int r = 0; r < 4; ++r) {  // register r: rows + 8 * (r % 2), columns + 8 * (r / 2)
                    const float* scores = &s[i][2 * j + r / 2][r % 2 * 2];
                    const float x = exp2_approx(fmaf(scores[0], scale_log2, -row_max[i][r % 2]));
                    const float y = exp2_approx(fmaf(scores[1], scale_log2, -row_max[i][r % 2]));
                    row_sum[i][r % 2] += x + y;
                    p[i][r] = pack(x, y);
                }
            }
#pragma unroll
            for (int d = 0; d < D / 16; ++d) {
                unsigned b[4];
                ldmatrix_transposed(b, v_tile + ((v_offset + j * 16 * ROW_BYTES) ^ (d << 5)));
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    mma(acc[i][2 * d], p[i], b[0], b[1]);
                    mma(acc[i][2 * d + 1], p[i], b[2], b[3]);
                }
            }
        }
    }

    // Divide by the row sums and pass the rows through this warp's own part of the Q tile, so that each lane stores
    // 16 bytes. No other warp reads that part.
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float sum = row_sum[i][h];
            sum += __shfl_xor_sync(FULL, sum, 1);
            sum += __shfl_xor_sync(FULL, sum, 2);
            const float inverse = 1.0f / sum;
            const int row = warp_row + i * 16 + group + h * 8;
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                *reinterpret_cast<unsigned*>(memory + swizzled(row, j) + pair * 4) =
                    pack(acc[i][j][2 * h] * inverse, acc[i][j][2 * h + 1] * inverse);
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < WARP_M * CHUNKS / 32; ++i) {
        const int row = (i * 32 + lane) / CHUNKS;
        const int chunk = (i * 32 + lane) % CHUNKS;
        if (first_query + row < seq_len) {
            *reinterpret_cast<uint4*>(o + static_cast<size_t>(first_query + row) * D + chunk * 8) =
                *reinterpret_cast<const uint4*>(memory + swizzled(warp_row + row, chunk));
        }
    }
}
