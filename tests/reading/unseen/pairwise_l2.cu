// Brute-force kNN, part 1: squared L2 distances between queries and database
//
//      dist[i][j] = |x_i|^2 + |y_j|^2 - 2 <x_i, y_j>
//
// fp16 vectors, dimension padded with zeros to a multiple of 16. The norms are
// computed once per vector set (sq_norms) and passed in.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

struct Matrix {            // row-major view on the device
  half *data;
  int rows, dim;
};

constexpr int kTile = 64;
constexpr int kStep = 16;
constexpr int kPadded = kStep + 8;
constexpr int kBlock = 256;

__global__ void sq_norms(Matrix x, float *out) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (warp >= x.rows) return;
  float s = 0.f;
  for (int c = lane; c < x.dim; c += 32) {
    float v = __half2float(x.data[(size_t)warp * x.dim + c]);
    s = fmaf(v, v, s);
  }
  for (int d = 16; d; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);
  if (lane == 0) out[warp] = s;
}

__global__ void l2_distances(Matrix x, Matrix y, const float *__restrict__ xn, const float *__restrict__ yn,
                             float *__restrict__ dist) {
  using namespace nvcuda;
  __shared__ __align__(32) half sx[kTile][kPadded];
  __shared__ __align__(32) half sy[kTile][kPadded];
  __shared__ __align__(32) float dots[kTile][kTile + 8];

  const int i0 = blockIdx.x * kTile, j0 = blockIdx.y * kTile;
  const int w = threadIdx.x / 32;
  const int wi = (w % 4) * 16, wj = (w / 4) * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2];
  wmma::fill_fragment(c[0], 0.f);
  wmma::fill_fragment(c[1], 0.f);

  for (int k = 0; k < x.dim; k += kStep) {
    // 64 rows x 2 chunks of 8 halves per operand: first half of the block does x
    const int t = threadIdx.x % 128;
    const int r = t / 2, q = (t % 2) * 8;
    const bool first = threadIdx.x < 128;
    const Matrix &src = first ? x : y;
    const int row = (first ? i0 : j0) + r;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row < src.rows) v = *reinterpret_cast<const uint4 *>(src.data + (size_t)row * src.dim + k + q);
    *reinterpret_cast<uint4 *>(first ? &sx[r][q] : &sy[r][q]) = v;
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, &sx[wi][0], kPadded);
    for (int n = 0; n < 2; ++n) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(b, &sy[wj + n * 16][0], kPadded);
      wmma::mma_sync(c[n], a, b, c[n]);
    }
    __syncthreads();
  }

  for (int n = 0; n < 2; ++n)
    wmma::store_matrix_sync(&dots[wi][wj + n * 16], c[n], kTile + 8, wmma::mem_row_major);
  __syncthreads();

  for (int e = threadIdx.x; e < kTile * kTile; e += kBlock) {
    const int i = i0 + e / kTile, j = j0 + e % kTile;
    if (i < x.rows && j < y.rows) {
      const float d = xn[i] + yn[j] - 2.f * dots[e / kTile][e % kTile];
      dist[(size_t)i * y.rows + j] = fmaxf(d, 0.f);    // cancellation can make it slightly negative
    }
  }
}

int main() {
  const int nq = 100, nb = 1000, dim = 96;
  std::vector<half> hx(nq * dim), hy(nb * dim);
  unsigned state = 12345;
  auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) / 16777216.f - 0.5f;
  };
  std::generate(hx.begin(), hx.end(), [&] { return __float2half(next()); });
  std::generate(hy.begin(), hy.end(), [&] { return __float2half(next()); });

  Matrix x{nullptr, nq, dim}, y{nullptr, nb, dim};
  float *xn, *yn, *d;
  cudaMalloc(&x.data, hx.size() * sizeof(half));
  cudaMalloc(&y.data, hy.size() * sizeof(half));
  cudaMalloc(&xn, nq * sizeof(float));
  cudaMalloc(&yn, nb * sizeof(float));
  cudaMalloc(&d, sizeof(float) * nq * nb);
  cudaMemcpy(x.data, hx.data(), hx.size() * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(y.data, hy.data(), hy.size() * sizeof(half), cudaMemcpyHostToDevice);

  sq_norms<<<(nq + 7) / 8, 256>>>(x, xn);
  sq_norms<<<(nb + 7) / 8, 256>>>(y, yn);
  dim3 grid((nq + kTile - 1) / kTile, (nb + kTile - 1) / kTile);
  l2_distances<<<grid, kBlock>>>(x, y, xn, yn, d);

  std::vector<float> hd((size_t)nq * nb);
  cudaMemcpy(hd.data(), d, hd.size() * sizeof(float), cudaMemcpyDeviceToHost);
  std::vector<int> order(nb);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + 5, order.end(), [&](int a, int b) { return hd[a] < hd[b]; });
  for (int i = 0; i < 5; ++i) printf("query 0: #%d  id %d  dist %.4f\n", i, order[i], std::sqrt(hd[order[i]]));
  return 0;
}
