// Attention probabilities for visualisation: P = softmax(Q K^T / sqrt(d)), written out in full, rows in shared memory.
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>
#include <cfloat>
#include <cstdio>
#include <vector>

using namespace nvcuda;

#define N_WARPS 4
#define ROWS 16

template <int D>
__global__ void attn_probs(const half* Q, const half* K, float* P, int seq_len, float scale, bool causal) {
    extern __shared__ float scores[];  // ROWS x seq_len
    const int q0 = blockIdx.x * ROWS;
    const size_t head = blockIdx.y;
    const int warp = threadIdx.y, lane = threadIdx.x;
    Q += head * seq_len * D + (size_t)q0 * D;
    K += head * seq_len * D;
    P += head * seq_len * seq_len;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag[D / 16];
    for (int i = 0; i < D / 16; i++) wmma::load_matrix_sync(q_frag[i], Q + i * 16, D);

    for (int n = warp * 16; n < seq_len; n += N_WARPS * 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
        wmma::fill_fragment(s_frag, 0.0f);
        for (int i = 0; i < D / 16; i++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::load_matrix_sync(k_frag, K + (size_t)n * D + i * 16, D);
            wmma::mma_sync(s_frag, q_frag[i], k_frag, s_frag);
        }
        for (int i = 0; i < s_frag.num_elements; i++) s_frag.x[i] *= scale;
        wmma::store_matrix_sync(scores + n, s_frag, seq_len, wmma::mem_row_major);
    }
    __syncthreads();

    for (int r = warp; r < ROWS; r += N_WARPS) {
        float* row = scores + r * seq_len;
        const int visible = causal ? q0 + r + 1 : seq_len;
        float mx = -FLT_MAX;
        for (int c = lane; c < visible; c += 32) mx = fmaxf(mx, row[c]);
        for (int o = 16; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, o));
        float sum = 0.0f;
        for (int c = lane; c < visible; c += 32) {
            row[c] = expf(row[c] - mx);
            sum += row[c];
        }
        for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
        for (int c = lane; c < seq_len; c += 32) P[(size_t)(q0 + r) * seq_len + c] = c < visible ? row[c] / sum : 0.0f;
    }
}

void attention_probabilities(const half* Q, const half* K, float* P, int heads, int seq_len, int head_dim, bool causal) {
    dim3 grid(seq_len / ROWS, heads);
    dim3 block(32, N_WARPS);
    size_t smem = ROWS * seq_len * sizeof(float);
    float scale = 1.0f / sqrtf((float)head_dim);
    if (head_dim == 32)
        attn_probs<32><<<grid, block, smem>>>(Q, K, P, seq_len, scale, causal);
    else if (head_dim == 64)
        attn_probs<64><<<grid, block, smem>>>(Q, K, P, seq_len, scale, causal);
    else
        fprintf(stderr, "head_dim %d is not supported\n", head_dim);
}

static void probabilities_on_host(const std::vector<float>& q, const std::vector<float>& k, std::vector<float>& p, int heads, int n, int d, bool causal) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < n; i++) {
            std::vector<double> s(n);
            double mx = -1e30, sum = 0;
            int visible = causal ? i + 1 : n;
            for (int j = 0; j < visible; j++) {
                s[j] = 0;
                for (int x = 0; x < d; x++) s[j] += (double)q[(h * n + i) * d + x] * k[(h * n + j) * d + x];
                s[j] /= sqrt((double)d);
                mx = s[j] > mx ? s[j] : mx;
            }
            for (int j = 0; j < visible; j++) sum += s[j] = exp(s[j] - mx);
            for (int j = 0; j < n; j++) p[(h * n + i) * n + j] = j < visible ? (float)(s[j] / sum) : 0.f;
        }
}

int main() {
    const int heads = 2, n = 80, d = 32;
    std::vector<float> q(heads * n * d), k(heads * n * d), want(heads * n * n), got(heads * n * n);
    std::vector<half> hq(q.size()), hk(k.size());
    unsigned state = 1;
    for (size_t i = 0; i < q.size(); i++) {
        state = state * 1664525u + 1013904223u;
        hq[i] = __float2half((float)(state >> 16 & 0xff) / 64.f - 2.f);
        state = state * 1664525u + 1013904223u;
        hk[i] = __float2half((float)(state >> 16 & 0xff) / 64.f - 2.f);
        q[i] = __half2float(hq[i]);
        k[i] = __half2float(hk[i]);
    }
    half *dq, *dk;
    float* dp;
    cudaMalloc(&dq, hq.size() * 2);
    cudaMalloc(&dk, hk.size() * 2);
    cudaMalloc(&dp, got.size() * 4);
    cudaMemcpy(dq, hq.data(), hq.size() * 2, cudaMemcpyHostToDevice);
    cudaMemcpy(dk, hk.data(), hk.size() * 2, cudaMemcpyHostToDevice);
    double err = 0;
    for (int causal = 0; causal < 2; causal++) {
        attention_probabilities(dq, dk, dp, heads, n, d, causal);
        cudaMemcpy(got.data(), dp, got.size() * 4, cudaMemcpyDeviceToHost);
        probabilities_on_host(q, k, want, heads, n, d, causal);
        for (size_t i = 0; i < got.size(); i++) err = fmax(err, fabs(got[i] - want[i]));
    }
    printf("largest error %g\n", err);
    return err < 1e-3 ? 0 : 1;
}
