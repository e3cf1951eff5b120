/*
 * Fused multi-head GAT layer (aggregation part), forward
 *
 *   e_ij  = leaky_relu(el_i + er_j)             for every edge j -> i
 *   a_ij  = softmax_j(e_ij)
 *   out_i = elu(sum_j a_ij * feat_j)
 *
 * The graph is preprocessed on the host into windows of 16 destination rows. All edges of a window are condensed to
 * the distinct source nodes that the window touches:
 *
 *   row_ptr  [num_nodes + 1]     CSR
 *   edge_col [num_edges]         condensed column of an edge inside its window
 *   win_ptr  [num_windows + 1]   start of a window's list of source nodes
 *   win_src  [...]               source node of each condensed column
 *
 * so that a window is a (16 x columns) sparse tile which we densify 16 columns at a time and multiply by the gathered
 * features on tensor cores. Nodes without edges give 0.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <cfloat>

#define WARP_SIZE 32
#define WIN_H 16
#define BLK_W 16
#define FULL_MASK 0xffffffffu

__device__ __forceinline__ float leaky_relu(float x, float slope) { return x > 0.f ? x : x * slope; }

__device__ __forceinline__ float warp_max(float v)
{
    for (int s = WARP_SIZE / 2; s > 0; s /= 2)
        v = fmaxf(v, __shfl_down_sync(FULL_MASK, v, s));
    return __shfl_sync(FULL_MASK, v, 0);
}

__device__ __forceinline__ float warp_sum(float v)
{
    for (int s = WARP_SIZE / 2; s > 0; s /= 2)
        v += __shfl_down_sync(FULL_MASK, v, s);
    return __shfl_sync(FULL_MASK, v, 0);
}

// grid: (windows, heads), block: F / 16 warps
template <int F>
__global__ void gat_aggregate(
    const int *__restrict__ row_ptr,
    const int *__restrict__ edge_col,
    const int *__restrict__ win_ptr,
    const int *__restrict__ win_src,
    const float *__restrict__ el,       // [num_nodes, heads]
    const float *__restrict__ er,       // [num_nodes, heads]
    const half *__restrict__ feat,      // [num_nodes, heads, F]
    float *__restrict__ out,            // [num_nodes, heads, F]
    const int num_nodes,
    const float negative_slope)
{
    const int NWARP = F / 16;
    const int FEAT_LD = F + 16;

    __shared__ __align__(32) half s_att[WIN_H * BLK_W];
    __shared__ __align__(32) half s_feat[BLK_W * (F + 16)];
    __shared__ __align__(32) float s_out[F / 16][WIN_H * 16];
    __shared__ float s_max[WIN_H];
    __shared__ float s_sum[WIN_H];

    const int wid = threadIdx.x / WARP_SIZE;
    const int lid = threadIdx.x % WARP_SIZE;
    const int win = blockIdx.x;
    const int head = blockIdx.y;
    const int heads = gridDim.y;

    const int node_start = win * WIN_H;
    const int node_end = min(node_start + WIN_H, num_nodes);
    const int col_start = win_ptr[win];
    const int num_cols = win_ptr[win + 1] - col_start;

    // pass 1: row maximum and sum of exponentials, one row per warp at a time
    for (int r = wid; r < WIN_H; r += NWARP) {
        const int node = node_start + r;
        float mx = -FLT_MAX;
        float sum = 0.f;
        if (node < node_end) {
            const float el_i = el[node * heads + head];
            const int lb = row_ptr[node], hb = row_ptr[node + 1];
            for (int e = lb + lid; e < hb; e += WARP_SIZE) {
                const int src = win_src[col_start + edge_col[e]];
                mx = fmaxf(mx, leaky_relu(el_i + er[src * heads + head], negative_slope));
            }
            mx = warp_max(mx);
            for (int e = lb + lid; e < hb; e += WARP_SIZE) {
                const int src = win_src[col_start + edge_col[e]];
                sum += __expf(leaky_relu(el_i + er[src * heads + head], negative_slope) - mx);
            }
            sum = warp_sum(sum);
        }
        if (lid == 0) {
            s_max[r] = mx;
            s_sum[r] = sum;
        }
    }
    __syncthreads();

    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a_frag;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> b_frag;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc_frag;
    nvcuda::wmma::fill_fragment(acc_frag, 0.f);

    // pass 2: densify and multiply
    for (int c0 = 0; c0 < num_cols; c0 += BLK_W) {
        for (int i = threadIdx.x; i < WIN_H * BLK_W; i += blockDim.x)
            s_att[i] = __float2half(0.f);

        // gather features of the source nodes, half2 at a time
        for (int i = threadIdx.x; i < BLK_W * F / 2; i += blockDim.x) {
            const int c = i / (F / 2);
            const int f = i % (F / 2) * 2;
            half2 v = __float2half2_rn(0.f);
            if (c0 + c < num_cols) {
                const int src = win_src[col_start + c0 + c];
                v = *(const half2 *)(feat + ((size_t)src * heads + head) * F + f);
            }
            *(half2 *)(s_feat + c * FEAT_LD + f) = v;
        }
        __syncthreads();

        // scatter the attention of the edges that fall into these columns
        const int edge_lb = row_ptr[node_start];
        const int edge_hb = row_ptr[node_end];
        for (int r = wid; r < node_end - node_start; r += NWARP) {
            const int node = node_start + r;
            const int lb = row_ptr[node], hb = row_ptr[node + 1];
            for (int e = lb + lid; e < hb; e += WARP_SIZE) {
                const int c = edge_col[e] - c0;
                if (c >= 0 && c < BLK_W) {
                    const int src = win_src[col_start + c0 + c];
                    const float score = leaky_relu(el[node * heads + head] + er[src * heads + head], negative_slope);
                    s_att[r * BLK_W + c] = __float2half(__expf(score - s_max[r]) / s_sum[r]);
                }
            }
        }
        __syncthreads();

        if (edge_hb > edge_lb) {
            nvcuda::wmma::load_matrix_sync(a_frag, s_att, BLK_W);
            nvcuda::wmma::load_matrix_sync(b_frag, s_feat + wid * 16, FEAT_LD);
            nvcuda::wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
        }
        __syncthreads();
    }

    nvcuda::wmma::store_matrix_sync(s_out[wid], acc_frag, 16, nvcuda::wmma::mem_row_major);
    __syncwarp();

    for (int i = lid; i < WIN_H * 16; i += WARP_SIZE) {
        const int r = i / 16, f = i % 16;
        const int node = node_start + r;
        if (node < num_nodes) {
            const float v = s_out[wid][i];
            out[((size_t)node * heads + head) * F + wid * 16 + f] = v > 0.f ? v : __expf(v) - 1.f;
        }
    }
}

template __global__ void gat_aggregate<32>(const int *, const int *, const int *, const int *, const float *,
                                           const float *, const half *, float *, int, float);
template __global__ void gat_aggregate<64>(const int *, const int *, const int *, const int *, const float *,
                                           const float *, const half *, float *, int, float);
