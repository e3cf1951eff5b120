/*
 * Brute-force k nearest neighbours (squared L2), fp16 vectors.
 *   |q - x|^2 = |q|^2 + |x|^2 - 2 q.x        the dot products on tensor cores, |x|^2 precomputed
 * Each block: 16 queries against the whole base, warps take tiles of 16 base vectors in turn.
 * Each lane keeps a sorted list for one query, merged at the end. Ties go to the smaller id.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>

using namespace nvcuda::wmma;

#define KNN      4
#define NWARPS   4
#define MAX_DIM  64
#define LDV      (MAX_DIM + 8)
#define LISTS    (NWARPS * 2)       // lists per query

struct KList {
    float d[KNN];
    int   id[KNN];

    __device__ void init() {
        for (int i = 0; i < KNN; i++) { d[i] = FLT_MAX; id[i] = -1; }
    }
    // keeps ascending order; an equal one that comes later stays behind
    __device__ void push(float dist, int idx) {
        if (dist >= d[KNN - 1]) return;
        int i = KNN - 1;
        while (i > 0 && d[i - 1] > dist) {
            d[i] = d[i - 1];
            id[i] = id[i - 1];
            i--;
        }
        d[i] = dist;
        id[i] = idx;
    }
};

__global__ void knn_l2_fp16(const __half *query, const __half *base, const float *base_norm,
                            float *out_dist, int *out_id, int nq, int nb, int dim)
{
    __shared__ __align__(32) __half s_query[16 * LDV];
    __shared__ __align__(32) __half s_base[NWARPS][16 * LDV];
    __shared__ __align__(32) float  s_dot[NWARPS][16 * 20];
    __shared__ float  s_qnorm[16];
    __shared__ float  s_list_d[16][LISTS][KNN];
    __shared__ int    s_list_id[16][LISTS][KNN];

    int warp = threadIdx.x >> 5;
    int lane = threadIdx.x & 31;
    int q0 = blockIdx.x * 16;

    for (int i = threadIdx.x; i < 16 * dim; i += blockDim.x) {
        int r = i / dim, c = i % dim;
        s_query[r * LDV + c] = (q0 + r < nq) ? query[(size_t)(q0 + r) * dim + c] : __float2half(0.f);
    }
    __syncthreads();
    if (threadIdx.x < 16) {
        float s = 0.f;
        for (int c = 0; c < dim; c++) {
            float x = __half2float(s_query[threadIdx.x * LDV + c]);
            s += x * x;
        }
        s_qnorm[threadIdx.x] = s;
    }
    __syncthreads();

    KList best;
    best.init();
    int my_row = lane & 15;          // query of this lane
    int my_half = lane >> 4;         // and which 8 of the 16 base vectors it looks at

    int ntiles = (nb + 15) / 16;
    for (int tile = warp; tile < ntiles; tile += NWARPS) {
        int b0 = tile * 16;
        __half *sb = s_base[warp];
        for (int i = lane; i < 16 * dim; i += 32) {
            int r = i / dim, c = i % dim;
            sb[r * LDV + c] = (b0 + r < nb) ? base[(size_t)(b0 + r) * dim + c] : __float2half(0.f);
        }
        __syncwarp();

        fragment<accumulator, 16, 16, 16, float> dot;
        fill_fragment(dot, 0.0f);
        for (int k = 0; k < dim; k += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> fq;
            fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
            load_matrix_sync(fq, s_query + k, LDV);
            load_matrix_sync(fb, sb + k, LDV);
            mma_sync(dot, fq, fb, dot);
        }
        store_matrix_sync(s_dot[warp], dot, 20, mem_row_major);
        __syncwarp();

        for (int j = 0; j < 8; j++) {
            int col = my_half * 8 + j;
            int id = b0 + col;
            if (id < nb) {
                float dist = s_qnorm[my_row] + base_norm[id] - 2.0f * s_dot[warp][my_row * 20 + col];
                best.push(dist, id);
            }
        }
        __syncwarp();
    }

    for (int i = 0; i < KNN; i++) {
        s_list_d[my_row][warp * 2 + my_half][i] = best.d[i];
        s_list_id[my_row][warp * 2 + my_half][i] = best.id[i];
    }
    __syncthreads();

    // merge: thread = query, one head pointer per list
    int r = threadIdx.x;
    if (r < 16 && q0 + r < nq) {
        int head[LISTS] = {0};
        for (int o = 0; o < KNN; o++) {
            float bd = FLT_MAX;
            int bid = -1, from = -1;
            for (int l = 0; l < LISTS; l++) {
                if (head[l] >= KNN) continue;
                float d = s_list_d[r][l][head[l]];
                int id = s_list_id[r][l][head[l]];
                if (id < 0) continue;
                if (from < 0 || d < bd || (d == bd && id < bid)) {
                    bd = d;
                    bid = id;
                    from = l;
                }
            }
            out_dist[(size_t)(q0 + r) * KNN + o] = bd;
            out_id[(size_t)(q0 + r) * KNN + o] = bid;
            if (from >= 0) head[from]++;
        }
    }
}
