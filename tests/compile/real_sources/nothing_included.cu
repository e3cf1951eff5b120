// kernel: kernel
__global__ void kernel(float *x, int64_t n, size_t z) {
  uint i = threadIdx.x;
  x[i] = INFINITY + make_float4(1, 2, 3, 4).x + INT_MAX + (float)M_PI;  // HERE
  x[1] = min(n, (int64_t)3) + std::min(1, (int)z) + std::numeric_limits<float>::max();  // HERE
  atomicAdd(x, 1.0f);
  memcpy(x, x + 4, 16);
  printf("%p", x == NULL);
}
int main() { cudaError_t e = cudaSuccess; kernel<<<1, 1>>>(nullptr, 1, 2); }
