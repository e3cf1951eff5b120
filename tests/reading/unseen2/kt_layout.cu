// scores where K is kept transposed [B, H, D, S]; half out
#include <mma.h>
using namespace nvcuda;
template <typename scalar_t> struct Traits;
template <> struct Traits<half> { using acc = float; };
template <typename scalar_t>
__global__ void scores_kernel(scalar_t const* q, scalar_t const* k_t, scalar_t* s, int heads, int sq, int sk, int dim, float scale) {
  __shared__ __align__(32) float buf[256];
  size_t bh = blockIdx.z;
  q += bh * sq * dim; k_t += bh * dim * sk; s += bh * sq * sk;
  int r = blockIdx.y * 16, c = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, typename Traits<scalar_t>::acc> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int d = 0; d < dim; d += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, scalar_t, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, scalar_t, wmma::row_major> b;
    wmma::load_matrix_sync(a, q + r * dim + d, dim);
    wmma::load_matrix_sync(b, k_t + d * sk + c, sk);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(buf, acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) s[(size_t)(r + i / 16) * sk + c + i % 16] = scalar_t(buf[i] * scale);
}
template <typename T>
void launch_scores(T* q, T* k, T* s, int batch, int heads, int sq, int sk, int dim, cudaStream_t st) {
  scores_kernel<T><<<dim3(sk / 16, sq / 16, batch * heads), 32, 0, st>>>(q, k, s, heads, sq, sk, dim, 1.f / sqrtf(float(dim)));
}
template void launch_scores<half>(half*, half*, half*, int, int, int, int, int, cudaStream_t);
