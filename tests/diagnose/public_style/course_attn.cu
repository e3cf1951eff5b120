// CS 5220 project 3: scaled dot product attention on tensor cores.
// Version 2: scores, softmax and the product with V in one kernel, one thread block per 32 query rows.
//   build: nvcc -O3 -arch=sm_80 course_attn.cu -o attn && ./attn
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line) {
  if (code != cudaSuccess) { fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line); exit(code); }
}

#define ROWS_PER_BLOCK 32
#define NUM_WARPS 4
#define WARP_SIZE 32

using namespace nvcuda::wmma;

// scores[32][seq_len] = Q_block (32 x d) * K^T (d x seq_len), scaled
__device__ void compute_scores(const half *Q_block, const half *K_head, float *scores, int seq_len, int head_dim, float scale) {
  int warp_id = threadIdx.x / WARP_SIZE;
  for (int key_tile = warp_id; key_tile < seq_len / 16; key_tile += NUM_WARPS) {
    for (int row_tile = 0; row_tile < ROWS_PER_BLOCK / 16; row_tile++) {
      fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
      fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
      fragment<accumulator, 16, 16, 16, float> s_frag;
      fill_fragment(s_frag, 0.0f);
      for (int i = 0; i < head_dim; i += 16) {
        load_matrix_sync(q_frag, Q_block + row_tile * 16 * head_dim + i, head_dim);
        load_matrix_sync(k_frag, K_head + key_tile * 16 * head_dim + i, head_dim);
        mma_sync(s_frag, q_frag, k_frag, s_frag);
      }
      for (int t = 0; t < s_frag.num_elements; t++) s_frag.x[t] *= scale;
      store_matrix_sync(scores + row_tile * 16 * seq_len + key_tile * 16, s_frag, seq_len, mem_row_major);
    }
  }
}

// in place on scores; the probabilities go to probs as half. A warp per row.
__device__ void softmax_rows(const float *scores, half *probs, int seq_len) {
  int warp_id = threadIdx.x / WARP_SIZE;
  int lane_id = threadIdx.x % WARP_SIZE;
  for (int row = warp_id; row < ROWS_PER_BLOCK; row += NUM_WARPS) {
    const float *s = scores + row * seq_len;
    float row_max = -INFINITY;
    for (int j = lane_id; j < seq_len; j += WARP_SIZE) row_max = fmaxf(row_max, s[j]);
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
      row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, offset));
    float row_sum = 0.0f;
    for (int j = lane_id; j < seq_len; j += WARP_SIZE) row_sum += __expf(s[j] - row_max);
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
      row_sum += __shfl_xor_sync(0xffffffff, row_sum, offset);
    for (int j = lane_id; j < seq_len; j += WARP_SIZE)
      probs[row * seq_len + j] = __float2half(__expf(s[j] - row_max) / row_sum);
  }
}

// O_block (32 x d) = probs (32 x seq_len) * V (seq_len x d)
__device__ void multiply_v(const half *probs, const half *V_head, float *O_block, int seq_len, int head_dim) {
  int warp_id = threadIdx.x / WARP_SIZE;
  int tiles_per_row = head_dim / 16;
  for (int tile = warp_id; tile < (ROWS_PER_BLOCK / 16) * tiles_per_row; tile += NUM_WARPS) {
    int tile_row = tile / tiles_per_row;
    int tile_col = tile % tiles_per_row;
    fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
    fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
    fragment<accumulator, 16, 16, 16, float> o_frag;
    fill_fragment(o_frag, 0.0f);
    for (int j = 0; j < seq_len; j += 16) {
      load_matrix_sync(p_frag, probs + tile_row * 16 * seq_len + j, seq_len);
      load_matrix_sync(v_frag, V_head + j * head_dim + tile_col * 16, head_dim);
      mma_sync(o_frag, p_frag, v_frag, o_frag);
    }
    store_matrix_sync(O_block + tile_row * 16 * head_dim + tile_col * 16, o_frag, head_dim, mem_row_major);
  }
}

__global__ void attention_v2(const half *Q, const half *K, const half *V, float *O, int seq_len, int head_dim) {
  extern __shared__ float smem[];
  float *scores = smem;                                       // [32][seq_len]
  half *probs = (half *)(smem + ROWS_PER_BLOCK * seq_len);    // [32][seq_len]

  int head_offset = blockIdx.y * seq_len * head_dim;
  int first_row = blockIdx.x * ROWS_PER_BLOCK;
  float scale = 1.0f / sqrtf((float)head_dim);

  compute_scores(Q + head_offset + first_row * head_dim, K + head_offset, scores, seq_len, head_dim, scale);
  __syncthreads();
  softmax_rows(scores, probs, seq_len);
  __syncthreads();
  multiply_v(probs, V + head_offset, O + head_offset + first_row * head_dim, seq_len, head_dim);
}

void attention_cpu(const float *q, const float *k, const float *v, float *o, int seq_len, int head_dim) {
  std::vector<float> s(seq_len);
  for (int i = 0; i < seq_len; i++) {
    float max = -INFINITY, sum = 0;
    for (int j = 0; j < seq_len; j++) {
      s[j] = 0;
      for (int d = 0; d < head_dim; d++) s[j] += q[i * head_dim + d] * k[j * head_dim + d];
      s[j] /= sqrtf(head_dim);
      max = fmaxf(max, s[j]);
    }
    for (int j = 0; j < seq_len; j++) sum += (s[j] = expf(s[j] - max));
    for (int d = 0; d < head_dim; d++) {
      float acc = 0;
      for (int j = 0; j < seq_len; j++) acc += s[j] / sum * v[j * head_dim + d];
      o[i * head_dim + d] = acc;
    }
  }
}

int main(int argc, char **argv) {
  int heads = argc > 1 ? atoi(argv[1]) : 8, seq_len = 256, head_dim = 64;
  size_t n = (size_t)heads * seq_len * head_dim;
  std::vector<half> h_q(n), h_k(n), h_v(n);
  std::vector<float> h_o(n);
  for (size_t i = 0; i < n; i++) {
    h_q[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
    h_k[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
    h_v[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
  }
  half *d_q, *d_k, *d_v;
  float *d_o;
  gpuErrchk(cudaMalloc(&d_q, n * sizeof(half)));
  gpuErrchk(cudaMalloc(&d_k, n * sizeof(half)));
  gpuErrchk(cudaMalloc(&d_v, n * sizeof(half)));
  gpuErrchk(cudaMalloc(&d_o, n * sizeof(float)));
  gpuErrchk(cudaMemcpy(d_q, h_q.data(), n * sizeof(half), cudaMemcpyHostToDevice));
  gpuErrchk(cudaMemcpy(d_k, h_k.data(), n * sizeof(half), cudaMemcpyHostToDevice));
  gpuErrchk(cudaMemcpy(d_v, h_v.data(), n * sizeof(half), cudaMemcpyHostToDevice));

  dim3 grid(seq_len / ROWS_PER_BLOCK, heads);
  dim3 block(NUM_WARPS * WARP_SIZE);
  size_t shared = ROWS_PER_BLOCK * seq_len * (sizeof(float) + sizeof(half));
  gpuErrchk(cudaFuncSetAttribute(attention_v2, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  attention_v2<<<grid, block, shared>>>(d_q, d_k, d_v, d_o, seq_len, head_dim);
  gpuErrchk(cudaPeekAtLastError());
  gpuErrchk(cudaDeviceSynchronize());
  gpuErrchk(cudaMemcpy(h_o.data(), d_o, n * sizeof(float), cudaMemcpyDeviceToHost));
  printf("O[0] = %f\n", h_o[0]);
  return 0;
}
