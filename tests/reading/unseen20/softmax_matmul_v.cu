/*
 * Fused softmax(scale * S + mask) @ V.
 *
 * S    scores, [batch * heads, seq_q, seq_k], half, row-major
 * mask additive, [batch, seq_k], float (0 or a large negative value), may be NULL
 * V    [batch * heads, seq_k, 64], half
 * O    [batch * heads, seq_q, 64], half
 *
 * Probabilities never go to global memory. One block computes 16 query rows of one head:
 * pass 1 finds each row's maximum and sum, pass 2 multiplies the probabilities with V on tensor cores.
 *
 * nvcc -shared -Xcompiler -fPIC -arch=sm_80 softmax_matmul_v.cu -o libsoftmaxv.so
 */
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>

#define FULL_MASK 0xffffffffu
#define HEAD_DIM 64
#define ROWS 16
#define KTILE 64
#define WARPS 4
#define P_LD (KTILE + 8)
#define V_LD (HEAD_DIM + 8)
#define O_LD (HEAD_DIM + 4)

__inline__ __device__ float warpReduceMax(float val)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        val = fmaxf(val, __shfl_xor_sync(FULL_MASK, val, offset));
    return val;
}

__inline__ __device__ float warpReduceSum(float val)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        val += __shfl_xor_sync(FULL_MASK, val, offset);
    return val;
}

__global__ void softmax_matmul_v_kernel(const __half *S, const float *mask, const __half *V, __half *O,
                                        int heads, int seq_q, int seq_k, float scale)
{
    __shared__ __align__(32) __half p_tile[ROWS * P_LD];
    __shared__ __align__(32) __half v_tile[KTILE * V_LD];
    __shared__ __align__(32) float o_tile[ROWS * O_LD];
    __shared__ float row_max[ROWS];
    __shared__ float row_inv_sum[ROWS];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int wid = tid >> 5;
    const int bh = blockIdx.y;
    const int q0 = blockIdx.x * ROWS;

    S += (size_t)bh * seq_q * seq_k;
    V += (size_t)bh * seq_k * HEAD_DIM;
    O += (size_t)bh * seq_q * HEAD_DIM;
    if (mask != NULL)
        mask += (size_t)(bh / heads) * seq_k;

    /* pass 1: statistics, a warp takes every fourth row */
    for (int r = wid; r < ROWS; r += WARPS)
    {
        const int q = q0 + r;
        if (q >= seq_q)
            break;
        const __half *row = S + (size_t)q * seq_k;
        float mx = -FLT_MAX;
        for (int k = lane; k < seq_k; k += 32)
        {
            float s = scale * __half2float(row[k]) + (mask != NULL ? mask[k] : 0.0f);
            mx = fmaxf(mx, s);
        }
        mx = warpReduceMax(mx);

        float sum = 0.0f;
        for (int k = lane; k < seq_k; k += 32)
        {
            float s = scale * __half2float(row[k]) + (mask != NULL ? mask[k] : 0.0f);
            sum += __expf(s - mx);
        }
        sum = warpReduceSum(sum);

        if (lane == 0)
        {
            row_max[r] = mx;
            row_inv_sum[r] = __fdividef(1.0f, sum);
        }
    }
    __syncthreads();

    /* pass 2: O = P V, each warp has 16 columns of O */
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> o_frag;
    nvcuda::wmma::fill_fragment(o_frag, 0.0f);

    for (int k0 = 0; k0 < seq_k; k0 += KTILE)
    {
        for (int i = tid; i < ROWS * KTILE; i += WARPS * 32)
        {
            const int r = i / KTILE, c = i % KTILE;
            const int q = q0 + r, k = k0 + c;
            float p = 0.0f;
            if (q < seq_q && k < seq_k)
            {
                float s = scale * __half2float(S[(size_t)q * seq_k + k]) + (mask != NULL ? mask[k] : 0.0f);
                p = __expf(s - row_max[r]);
            }
            p_tile[r * P_LD + c] = __float2half(p);
        }
        for (int i = tid; i < KTILE * HEAD_DIM / 2; i += WARPS * 32)
        {
            const int r = i / (HEAD_DIM / 2), c = i % (HEAD_DIM / 2) * 2;
            __half2 v = __float2half2_rn(0.0f);
            if (k0 + r < seq_k)
                v = *(const __half2 *)(V + (size_t)(k0 + r) * HEAD_DIM + c);
            *(__half2 *)(v_tile + r * V_LD + c) = v;
        }
        __syncthreads();

        for (int k = 0; k < KTILE; k += 16)
        {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> p_frag;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::row_major> v_frag;
            nvcuda::wmma::load_matrix_sync(p_frag, p_tile + k, P_LD);
            nvcuda::wmma::load_matrix_sync(v_frag, v_tile + k * V_LD + wid * 16, V_LD);
            nvcuda::wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
        }
        __syncthreads();
    }

    nvcuda::wmma::store_matrix_sync(o_tile + wid * 16, o_frag, O_LD, nvcuda::wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < ROWS * HEAD_DIM; i += WARPS * 32)
    {
        const int r = i / HEAD_DIM, c = i % HEAD_DIM;
        if (q0 + r < seq_q)
            O[(size_t)(q0 + r) * HEAD_DIM + c] = __float2half(o_tile[r * O_LD + c] * row_inv_sum[r]);
    }
}

#ifdef __cplusplus
extern "C" {
#endif

int softmax_matmul_v(const void *scores, const float *mask, const void *value, void *output,
                     int batch, int heads, int seq_q, int seq_k, int head_dim, float scale, cudaStream_t stream)
{
    if (head_dim != HEAD_DIM)
        return -1;
    dim3 grid((seq_q + ROWS - 1) / ROWS, batch * heads);
    dim3 block(WARPS * 32);
    softmax_matmul_v_kernel<<<grid, block, 0, stream>>>((const __half *)scores, mask, (const __half *)value,
                                                        (__half *)output, heads, seq_q, seq_k, scale);
    return (int)cudaGetLastError();
}

#ifdef __cplusplus
}
#endif
