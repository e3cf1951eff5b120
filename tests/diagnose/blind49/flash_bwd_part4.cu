// Flash attention from scratch, part 4: the backward pass
//
// Part 3 ended with a forward pass that writes O and L (the log-sum-exp of each row). Today we go back.
// One block owns one tile of keys and values and walks over the query tiles. dK and dV stay in
// fragments all the way; dQ gets a contribution from every block, so it is added up in global memory
// with atomics (float, and zeroed by the host first).
//
//   S  = scale * Q K^T          P  = exp(S - L)
//   dV = P^T dO                 dP = dO V^T
//   dS = P * (dP - delta)       delta = rowsum(dO * O)
//   dQ = scale * dS K           dK = scale * dS^T Q
//
// Tensors are (batch, seq, heads, 64), as they come out of the projection, without any permute.

#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

const int HEAD = 64;         // head size
const int TILE = 32;         // queries and keys of a tile
const int NWARP = 4;
const int HP = HEAD + 8;     // padded rows of halves
const int TP = TILE + 8;
const int SP = TILE + 4;     // padded rows of floats
const int FP = HEAD + 4;

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Acc;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> A;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> AT;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> B;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> BT;

// A tile of TILE rows, zeros behind the end of the sequence.
__device__ void loadTile(half *tile, const half *src, int first, int seq, int rowStride)
{
    for (int i = threadIdx.x; i < TILE * HEAD / 8; i += NWARP * 32) {
        int row = i / (HEAD / 8), col = i % (HEAD / 8) * 8;
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + row < seq)
            v = *(const float4 *)&src[(size_t)(first + row) * rowStride + col];
        *(float4 *)&tile[row * HP + col] = v;
    }
}

// out (16x16 at row, col) = X Y^T over the head dimension
__device__ void dotTile(float *out, const half *x, const half *y, int row, int col)
{
    Acc acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < HEAD; k += 16) {
        A a;
        BT b;
        wmma::load_matrix_sync(a, x + row * HP + k, HP);
        wmma::load_matrix_sync(b, y + col * HP + k, HP);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(out + row * SP + col, acc, SP, wmma::mem_row_major);
}

// acc += X^T Y, with X being (query, key) and Y (query, head dimension)
__device__ void addTransposed(Acc &acc, const half *x, const half *y, int key, int col)
{
    for (int q = 0; q < TILE; q += 16) {
        AT a;
        B b;
        wmma::load_matrix_sync(a, x + q * TP + key, TP);
        wmma::load_matrix_sync(b, y + q * HP + col, HP);
        wmma::mma_sync(acc, a, b, acc);
    }
}

__global__ void flashBackward(const half *q, const half *k, const half *v, const half *o, const half *dout,
                              const float *lse, float *dq, half *dk, half *dv,
                              int seq, int heads, float scale, int causal)
{
    __shared__ __align__(32) half Qs[TILE * HP], Ks[TILE * HP], Vs[TILE * HP], dOs[TILE * HP];
    __shared__ __align__(32) half Ps[TILE * TP], dSs[TILE * TP];
    __shared__ __align__(32) float S[TILE * SP], dP[TILE * SP];
    __shared__ __align__(32) float F[TILE * FP];
    __shared__ float Ls[TILE], delta[TILE];

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int k0 = blockIdx.x * TILE;
    int head = blockIdx.y, batch = blockIdx.z;
    int rowStride = heads * HEAD;
    size_t base = ((size_t)batch * seq * heads + head) * HEAD;
    lse += ((size_t)batch * heads + head) * seq;

    loadTile(Ks, k + base, k0, seq, rowStride);
    loadTile(Vs, v + base, k0, seq, rowStride);

    // Every warp has a quarter of the 32 x 32 scores, and two of the 2 x 4 tiles of dK, dV and dQ.
    int row = warp / 2 * 16;
    int scol = warp % 2 * 16;
    int hcol = warp % 2 * 32;

    Acc accK[2], accV[2];
    for (int i = 0; i < 2; i++) {
        wmma::fill_fragment(accK[i], 0.f);
        wmma::fill_fragment(accV[i], 0.f);
    }

    // With a causal mask, queries in front of the first key see nothing of this tile.
    for (int q0 = causal ? k0 : 0; q0 < seq; q0 += TILE) {
        __syncthreads();
        loadTile(Qs, q + base, q0, seq, rowStride);
        loadTile(dOs, dout + base, q0, seq, rowStride);
        __syncthreads();

        // delta and L: 8 rows for each warp
        for (int r = warp; r < TILE; r += NWARP) {
            float sum = 0.f;
            if (q0 + r < seq) {
                const half *orow = o + base + (size_t)(q0 + r) * rowStride;
                for (int c = lane; c < HEAD; c += 32)
                    sum += __half2float(orow[c]) * __half2float(dOs[r * HP + c]);
            }
            for (int off = 16; off > 0; off >>= 1)
                sum += __shfl_down_sync(0xffffffff, sum, off);
            if (lane == 0) {
                delta[r] = sum;
                Ls[r] = q0 + r < seq ? lse[q0 + r] : 0.f;
            }
        }

        dotTile(S, Qs, Ks, row, scol);
        dotTile(dP, dOs, Vs, row, scol);
        __syncthreads();

        for (int i = threadIdx.x; i < TILE * TILE; i += NWARP * 32) {
            int r = i / TILE, c = i % TILE;
            bool dead = q0 + r >= seq || k0 + c >= seq || (causal && k0 + c > q0 + r);
            float p = dead ? 0.f : __expf(S[r * SP + c] * scale - Ls[r]);
            Ps[r * TP + c] = __float2half(p);
            dSs[r * TP + c] = __float2half(p * (dP[r * SP + c] - delta[r]));
        }
        __syncthreads();

        for (int i = 0; i < 2; i++) {
            addTransposed(accV[i], Ps, dOs, row, hcol + i * 16);
            addTransposed(accK[i], dSs, Qs, row, hcol + i * 16);

            // dQ of this tile: dS K
            Acc acc;
            wmma::fill_fragment(acc, 0.f);
            for (int c = 0; c < TILE; c += 16) {
                A a;
                B b;
                wmma::load_matrix_sync(a, dSs + row * TP + c, TP);
                wmma::load_matrix_sync(b, Ks + c * HP + hcol + i * 16, HP);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(F + row * FP + hcol + i * 16, acc, FP, wmma::mem_row_major);
        }
        __syncthreads();

        for (int i = threadIdx.x; i < TILE * HEAD; i += NWARP * 32) {
            int r = i / HEAD, c = i % HEAD;
            if (q0 + r < seq)
                atomicAdd(&dq[base + (size_t)(q0 + r) * rowStride + c], F[r * FP + c] * scale);
        }
    }

    // dV, then dK, through the float tile that dQ went through
    __syncthreads();
    for (int i = 0; i < 2; i++)
        wmma::store_matrix_sync(F + row * FP + hcol + i * 16, accV[i], FP, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * HEAD; i += NWARP * 32) {
        int r = i / HEAD, c = i % HEAD;
        if (k0 + r < seq)
            dv[base + (size_t)(k0 + r) * rowStride + c] = __float2half(F[r * FP + c]);
    }
    __syncthreads();
    for (int i = 0; i < 2; i++)
        wmma::store_matrix_sync(F + row * FP + hcol + i * 16, accK[i], FP, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * HEAD; i += NWARP * 32) {
        int r = i / HEAD, c = i % HEAD;
        if (k0 + r < seq)
            dk[base + (size_t)(k0 + r) * rowStride + c] = __float2half(F[r * FP + c] * scale);
    }
}

void flashBackwardHost(const half *q, const half *k, const half *v, const half *o, const half *dout,
                       const float *lse, float *dq, half *dk, half *dv, int batch, int seq, int heads, bool causal)
{
    cudaMemset(dq, 0, sizeof(float) * batch * seq * heads * HEAD);
    dim3 grid((seq + TILE - 1) / TILE, heads, batch);
    flashBackward<<<grid, NWARP * 32>>>(q, k, v, o, dout, lse, dq, dk, dv, seq, heads, 0.125f, causal);
}
