// kernel: kernel
constexpr int log2i(int n) { return n <= 1 ? 0 : 1 + log2i(n / 2); }
template <typename T> constexpr T round_up(T a, T b) { return (a + b - 1) / b * b; }
template <int D> struct Config {
  static constexpr int kStride = round_up(D, 16) + 8;
  static constexpr int kBytes = kStride * 2;
  static int host_bytes() { return printf("x"); }
};
__global__ void kernel(float *x, int n) {
  __shared__ float t[Config<60>::kStride];
  t[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = t[threadIdx.x ^ 1] + log2i(n) + round_up(n, 4);  // HERE
}
