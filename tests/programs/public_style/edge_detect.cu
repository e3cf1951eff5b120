// Gaussian blur, Sobel and histogram equalisation of a PGM image (or a generated one).
// BUG on purpose: the histogram is copied back with a count of elements in place of bytes.
#include <cuda_runtime.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using uchar = unsigned char;
constexpr int RADIUS = 3;
constexpr int BINS = 256;
__constant__ float weights[2 * RADIUS + 1];

#define CUDA_TRY(e) do { cudaError_t s_ = (e); if (s_) { std::cerr << __FILE__ << "(" << __LINE__ << "): " << cudaGetErrorString(s_) << std::endl; std::exit(1); } } while (0)

struct Image {
  int width = 0, height = 0;
  std::vector<uchar> pixels;
  bool load(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::string magic;
    int maxval;
    if (!(in >> magic >> width >> height >> maxval) || magic != "P5") return false;
    in.get();
    pixels.resize(size_t(width) * height);
    return bool(in.read(reinterpret_cast<char *>(pixels.data()), pixels.size()));
  }
  void save(const std::string &path) const {
    std::ofstream out(path, std::ios::binary);
    out << "P5\n" << width << ' ' << height << "\n255\n";
    out.write(reinterpret_cast<const char *>(pixels.data()), pixels.size());
  }
  static Image generate(int w, int h) {
    Image i;
    i.width = w;
    i.height = h;
    i.pixels.resize(size_t(w) * h);
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) {
        const float d = std::hypot(x - w / 2.f, y - h / 2.f);
        i.pixels[size_t(y) * w + x] = uchar(96 + 64 * std::sin(d * 0.15f) + ((x / 16 + y / 16) & 1) * 20);
      }
    return i;
  }
};

template <int BW, int BH>
__global__ void blur_rows(const uchar *in, size_t pitch, float *out, int w, int h) {
  __shared__ float tile[BH][BW + 2 * RADIUS];
  const int x = blockIdx.x * BW + threadIdx.x, y = min(int(blockIdx.y * BH + threadIdx.y), h - 1);
  for (int i = threadIdx.x; i < BW + 2 * RADIUS; i += BW) {
    const int sx = max(0, min(w - 1, int(blockIdx.x * BW) + i - RADIUS));
    tile[threadIdx.y][i] = in[y * pitch + sx];
  }
  __syncthreads();
  if (x < w && blockIdx.y * BH + threadIdx.y < h) {
    float s = 0;
#pragma unroll
    for (int k = 0; k <= 2 * RADIUS; ++k) s += weights[k] * tile[threadIdx.y][threadIdx.x + k];
    out[y * w + x] = s;
  }
}

__global__ void blur_columns(const float *__restrict__ in, float *__restrict__ out, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float s = 0;
  for (int k = -RADIUS; k <= RADIUS; ++k) s += weights[k + RADIUS] * in[min(max(y + k, 0), h - 1) * w + x];
  out[y * w + x] = s;
}

__global__ void sobel(const float *in, uchar *out, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  auto at = [&](int dx, int dy) { return in[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)]; };
  const float gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
  const float gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
  out[y * w + x] = static_cast<uchar>(fminf(255.f, sqrtf(gx * gx + gy * gy)));
}

__global__ void histogram(const uchar *in, unsigned int *bins, int n) {
  __shared__ unsigned int local[BINS];
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) local[i] = 0;
  __syncthreads();
  const uchar4 *in4 = reinterpret_cast<const uchar4 *>(in);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
    const uchar4 v = in4[i];
    atomicAdd(&local[v.x], 1);
    atomicAdd(&local[v.y], 1);
    atomicAdd(&local[v.z], 1);
    atomicAdd(&local[v.w], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += blockDim.x)
    if (local[i]) atomicAdd(bins + i, local[i]);
}

__global__ void remap(uchar *image, const uchar *table, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) image[i] = table[image[i]];
}

int main(int argc, char **argv) {
  Image img;
  if (argc > 1) {
    if (!img.load(argv[1])) { std::cerr << "cannot read " << argv[1] << "\n"; return 2; }
  } else img = Image::generate(320, 240);
  const int w = img.width, h = img.height, n = w * h;
  std::array<float, 2 * RADIUS + 1> g;
  float total = 0;
  for (int i = 0; i < (int)g.size(); ++i) total += g[i] = std::exp(-0.5f * (i - RADIUS) * (i - RADIUS) / 2.f);
  for (auto &v : g) v /= total;
  CUDA_TRY(cudaMemcpyToSymbol(weights, g.data(), sizeof(float) * g.size()));

  uchar *d_in, *d_edges, *d_table;
  float *d_tmp, *d_blur;
  unsigned int *d_bins;
  size_t pitch;
  CUDA_TRY(cudaMallocPitch(&d_in, &pitch, w, h));
  CUDA_TRY(cudaMalloc(&d_edges, n));
  CUDA_TRY(cudaMalloc(&d_table, BINS));
  CUDA_TRY(cudaMalloc(&d_tmp, n * sizeof(float)));
  CUDA_TRY(cudaMalloc(&d_blur, n * sizeof(float)));
  CUDA_TRY(cudaMalloc(&d_bins, BINS * sizeof(unsigned int)));
  CUDA_TRY(cudaMemcpy2D(d_in, pitch, img.pixels.data(), w, w, h, cudaMemcpyHostToDevice));
  CUDA_TRY(cudaMemset(d_bins, 0, BINS * sizeof(unsigned int)));

  dim3 block(32, 8), grid((w + 31) / 32, (h + 7) / 8);
  blur_rows<32, 8><<<grid, block>>>(d_in, pitch, d_tmp, w, h);
  blur_columns<<<grid, block>>>(d_tmp, d_blur, w, h);
  sobel<<<grid, block>>>(d_blur, d_edges, w, h);
  histogram<<<16, 256>>>(d_edges, d_bins, n);
  CUDA_TRY(cudaGetLastError());

  std::vector<unsigned int> bins(BINS);
  CUDA_TRY(cudaMemcpy(bins.data(), d_bins, BINS, cudaMemcpyDeviceToHost));  // BINS * sizeof(unsigned int) is meant
  std::vector<uchar> edges(n), table(BINS), out(n);
  CUDA_TRY(cudaMemcpy(edges.data(), d_edges, n, cudaMemcpyDeviceToHost));
  unsigned int sum = 0;
  for (int i = 0; i < BINS; ++i) { sum += bins[i]; table[i] = uchar(255.0 * sum / n); }
  CUDA_TRY(cudaMemcpy(d_table, table.data(), BINS, cudaMemcpyHostToDevice));
  remap<<<(n + 255) / 256, 256>>>(d_edges, d_table, n);
  CUDA_TRY(cudaMemcpy(out.data(), d_edges, n, cudaMemcpyDeviceToHost));

  std::vector<unsigned int> want(BINS, 0);
  for (uchar e : edges) ++want[e];
  bool ok = want == bins;
  std::cout << "pixels counted: " << sum << " of " << n << std::endl;
  if (argc > 2) { img.pixels = out; img.save(argv[2]); }
  cudaFree(d_in); cudaFree(d_edges); cudaFree(d_table); cudaFree(d_tmp); cudaFree(d_blur); cudaFree(d_bins);
  std::cout << (ok ? "histogram matches the host" : "histogram does NOT match") << std::endl;
  return ok ? 0 : 1;
}
