// ColBERT style late interaction: a query has one embedding per token, a document too.
// Every query token looks for its best match among the document's tokens, and the matches are added up.
//
//   nvcc -O3 -arch=sm_80 colbert_maxsim.cu -o maxsim && ./maxsim
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace nvcuda;

#define CUDA_OK(e)                                                                    \
  do {                                                                                \
    cudaError_t err__ = (e);                                                          \
    if (err__ != cudaSuccess) {                                                       \
      printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err__));            \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

constexpr int DIM = 128;
constexpr int MAX_QLEN = 32;
constexpr int WARPS = 4;
constexpr int QLD = DIM + 8;

// grid: (documents, queries). The documents' tokens lie behind each other, doc_off[d] .. doc_off[d + 1].
__global__ void maxsim_kernel(const half *Q, const half *E, const int *doc_off, float *score, int qlen, int ndocs) {
  __shared__ __align__(32) half sq[MAX_QLEN * QLD];
  __shared__ __align__(32) half se[WARPS][16 * QLD];
  __shared__ __align__(32) float sim[WARPS][MAX_QLEN * 20];
  __shared__ float best[WARPS][MAX_QLEN];

  const int d = blockIdx.x, query = blockIdx.y;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int begin = doc_off[d], ntok = doc_off[d + 1] - begin;
  const half *q = Q + (size_t)query * qlen * DIM;

  for (int i = tid; i < MAX_QLEN * DIM; i += blockDim.x) {
    int r = i / DIM, c = i % DIM;
    sq[r * QLD + c] = r < qlen ? q[r * DIM + c] : __float2half(0.f);
  }
  __syncthreads();

  // a lane is responsible for a query token
  float mx = -FLT_MAX;
  for (int t0 = warp * 16; t0 < ntok; t0 += WARPS * 16) {
    const int cnt = min(16, ntok - t0);
    for (int i = lane; i < 16 * DIM / 8; i += 32) {
      int r = i / (DIM / 8), c = i % (DIM / 8) * 8;
      int4 v = make_int4(0, 0, 0, 0);
      if (r < cnt) v = *(const int4 *)(E + (size_t)(begin + t0 + r) * DIM + c);
      *(int4 *)(se[warp] + r * QLD + c) = v;
    }
    __syncwarp();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.f);
    wmma::fill_fragment(acc[1], 0.f);
    for (int k = 0; k < DIM; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(b, se[warp] + k, QLD);
      for (int i = 0; i < 2; i++) {
        wmma::load_matrix_sync(a, sq + i * 16 * QLD + k, QLD);
        wmma::mma_sync(acc[i], a, b, acc[i]);
      }
    }
    wmma::store_matrix_sync(sim[warp], acc[0], 20, wmma::mem_row_major);
    wmma::store_matrix_sync(sim[warp] + 16 * 20, acc[1], 20, wmma::mem_row_major);
    __syncwarp();
    for (int j = 0; j < cnt; j++) mx = fmaxf(mx, sim[warp][lane * 20 + j]);
    __syncwarp();
  }
  best[warp][lane] = mx;
  __syncthreads();

  if (warp == 0) {
    float m = best[0][lane];
    for (int w = 1; w < WARPS; w++) m = fmaxf(m, best[w][lane]);
    float s = lane < qlen && ntok > 0 ? m : 0.f;
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
    if (lane == 0) score[(size_t)query * ndocs + d] = s;
  }
}

static void maxsim_cpu(const std::vector<half> &Q, const std::vector<half> &E, const std::vector<int> &off,
                       std::vector<float> &score, int nq, int qlen) {
  int ndocs = (int)off.size() - 1;
  for (int q = 0; q < nq; q++)
    for (int d = 0; d < ndocs; d++) {
      double sum = 0;
      for (int i = 0; i < qlen; i++) {
        float m = -FLT_MAX;
        for (int t = off[d]; t < off[d + 1]; t++) {
          float dot = 0;
          for (int k = 0; k < DIM; k++)
            dot += __half2float(Q[((size_t)q * qlen + i) * DIM + k]) * __half2float(E[(size_t)t * DIM + k]);
          m = std::max(m, dot);
        }
        if (off[d + 1] > off[d]) sum += m;
      }
      score[(size_t)q * ndocs + d] = (float)sum;
    }
}

int main(int argc, char **argv) {
  const int ndocs = argc > 1 ? atoi(argv[1]) : 12;
  const int nq = argc > 2 ? atoi(argv[2]) : 2;
  const int qlen = argc > 3 ? atoi(argv[3]) : 24;
  if (qlen > MAX_QLEN) {
    printf("at most %d query tokens\n", MAX_QLEN);
    return 1;
  }

  std::mt19937 gen(7);
  std::uniform_int_distribution<int> len(1, 90);
  std::normal_distribution<float> dist;
  std::vector<int> off(1, 0);
  for (int i = 0; i < ndocs; i++) off.push_back(off.back() + len(gen));

  auto embeddings = [&](size_t n) {  // unit length, as ColBERT has them
    std::vector<half> e(n * DIM);
    for (size_t i = 0; i < n; i++) {
      float v[DIM], norm = 0;
      for (float &x : v) x = dist(gen), norm += x * x;
      for (int k = 0; k < DIM; k++) e[i * DIM + k] = __float2half(v[k] / sqrtf(norm));
    }
    return e;
  };
  std::vector<half> Q = embeddings((size_t)nq * qlen), E = embeddings(off.back());
  std::vector<float> out((size_t)nq * ndocs), ref(out.size());

  half *dQ, *dE;
  int *dOff;
  float *dS;
  CUDA_OK(cudaMalloc(&dQ, Q.size() * sizeof(half)));
  CUDA_OK(cudaMalloc(&dE, E.size() * sizeof(half)));
  CUDA_OK(cudaMalloc(&dOff, off.size() * sizeof(int)));
  CUDA_OK(cudaMalloc(&dS, out.size() * sizeof(float)));
  CUDA_OK(cudaMemcpy(dQ, Q.data(), Q.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy(dE, E.data(), E.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy(dOff, off.data(), off.size() * sizeof(int), cudaMemcpyHostToDevice));

  maxsim_kernel<<<dim3(ndocs, nq), WARPS * 32>>>(dQ, dE, dOff, dS, qlen, ndocs);
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaMemcpy(out.data(), dS, out.size() * sizeof(float), cudaMemcpyDeviceToHost));

  maxsim_cpu(Q, E, off, ref, nq, qlen);
  float err = 0;
  for (size_t i = 0; i < out.size(); i++) err = std::max(err, std::fabs(out[i] - ref[i]));
  for (int q = 0; q < nq; q++) {
    const float *s = out.data() + (size_t)q * ndocs;
    int top = (int)(std::max_element(s, s + ndocs) - s);
    printf("query %d: best document %d (%.4f)\n", q, top, s[top]);
  }
  printf("max abs error %g: %s\n", err, err < 1e-3f ? "ok" : "MISMATCH");
  CUDA_OK(cudaFree(dQ));
  CUDA_OK(cudaFree(dE));
  CUDA_OK(cudaFree(dOff));
  CUDA_OK(cudaFree(dS));
  return err < 1e-3f ? 0 : 1;
}
