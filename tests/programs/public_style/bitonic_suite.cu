// Bitonic sort of key-value pairs: in shared memory, then merged in global memory; odd-even merge sort beside it.
// BUG on purpose: one __syncthreads() of the shared-memory pass is missing.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

typedef unsigned int uint;
#define SHARED_SIZE_LIMIT 512U
#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)
template <typename T>
void check(T result, char const *const func, const char *const file, int const line) {
  if (result) {
    fprintf(stderr, "CUDA error at %s:%d code=%d(%s) \"%s\" \n", file, line, static_cast<unsigned int>(result), cudaGetErrorName(result), func);
    exit(EXIT_FAILURE);
  }
}

template <typename K, typename V>
__device__ inline void Comparator(K &keyA, V &valA, K &keyB, V &valB, uint dir) {
  if ((keyA > keyB) == dir) {
    K t = keyA; keyA = keyB; keyB = t;
    V u = valA; valA = valB; valB = u;
  }
}

template <typename K, typename V>
__global__ void bitonicSortShared(K *d_DstKey, V *d_DstVal, K *d_SrcKey, V *d_SrcVal, uint arrayLength, uint dir) {
  __shared__ K s_key[SHARED_SIZE_LIMIT];
  __shared__ V s_val[SHARED_SIZE_LIMIT];
  d_SrcKey += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
  d_SrcVal += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
  d_DstKey += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
  d_DstVal += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
  s_key[threadIdx.x + 0] = d_SrcKey[0];
  s_val[threadIdx.x + 0] = d_SrcVal[0];
  s_key[threadIdx.x + (SHARED_SIZE_LIMIT / 2)] = d_SrcKey[(SHARED_SIZE_LIMIT / 2)];
  s_val[threadIdx.x + (SHARED_SIZE_LIMIT / 2)] = d_SrcVal[(SHARED_SIZE_LIMIT / 2)];
  for (uint size = 2; size < SHARED_SIZE_LIMIT; size <<= 1) {
    uint ddd = (threadIdx.x & (size / 2)) != 0;
    for (uint stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      Comparator(s_key[pos + 0], s_val[pos + 0], s_key[pos + stride], s_val[pos + stride], ddd);
    }
  }
  uint ddd = blockIdx.x & 1;
  if (arrayLength == SHARED_SIZE_LIMIT) ddd = dir;
  for (uint stride = SHARED_SIZE_LIMIT / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
    Comparator(s_key[pos + 0], s_val[pos + 0], s_key[pos + stride], s_val[pos + stride], ddd);
  }
  // here a barrier is missing
  d_DstKey[0] = s_key[threadIdx.x + 0];
  d_DstVal[0] = s_val[threadIdx.x + 0];
  d_DstKey[(SHARED_SIZE_LIMIT / 2)] = s_key[threadIdx.x + (SHARED_SIZE_LIMIT / 2)];
  d_DstVal[(SHARED_SIZE_LIMIT / 2)] = s_val[threadIdx.x + (SHARED_SIZE_LIMIT / 2)];
}

template <typename K, typename V>
__global__ void bitonicMergeGlobal(K *key, V *val, uint arrayLength, uint size, uint stride, uint dir) {
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  uint comparatorI = i & (arrayLength / 2 - 1);
  uint ddd = dir ^ ((comparatorI & (size / 2)) != 0);
  uint pos = 2 * i - (i & (stride - 1));
  K keyA = key[pos], keyB = key[pos + stride];
  V valA = val[pos], valB = val[pos + stride];
  Comparator(keyA, valA, keyB, valB, ddd);
  key[pos] = keyA;
  val[pos] = valA;
  key[pos + stride] = keyB;
  val[pos + stride] = valB;
}

template <typename K, typename V>
void bitonicSort(K *dk, V *dv, K *sk, V *sv, uint n, uint dir) {
  const uint blocks = n / SHARED_SIZE_LIMIT, threads = SHARED_SIZE_LIMIT / 2;
  bitonicSortShared<K, V><<<blocks, threads>>>(dk, dv, sk, sv, n, dir);
  for (uint size = 2 * SHARED_SIZE_LIMIT; size <= n; size <<= 1)
    for (uint stride = size / 2; stride > 0; stride >>= 1)
      bitonicMergeGlobal<<<n / 512, 256>>>(dk, dv, n, size, stride, dir);
}

template <typename K>
int test(const char *name, uint n, uint dir) {
  std::vector<K> keys(n), out(n);
  std::vector<uint> vals(n), outv(n);
  srand(2001);
  for (uint i = 0; i < n; i++) { keys[i] = (K)(rand() % 65536); vals[i] = i; }
  K *sk, *dk;
  uint *sv, *dv;
  checkCudaErrors(cudaMalloc((void **)&sk, n * sizeof(K)));
  checkCudaErrors(cudaMalloc((void **)&dk, n * sizeof(K)));
  checkCudaErrors(cudaMalloc((void **)&sv, n * sizeof(uint)));
  checkCudaErrors(cudaMalloc((void **)&dv, n * sizeof(uint)));
  checkCudaErrors(cudaMemcpy(sk, keys.data(), n * sizeof(K), cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemcpy(sv, vals.data(), n * sizeof(uint), cudaMemcpyHostToDevice));
  bitonicSort(dk, dv, sk, sv, n, dir);
  checkCudaErrors(cudaDeviceSynchronize());
  checkCudaErrors(cudaMemcpy(out.data(), dk, n * sizeof(K), cudaMemcpyDeviceToHost));
  checkCudaErrors(cudaMemcpy(outv.data(), dv, n * sizeof(uint), cudaMemcpyDeviceToHost));
  int bad = 0;
  std::vector<char> seen(n, 0);
  for (uint i = 0; i < n; i++) {
    if (outv[i] >= n || seen[outv[i]]++ || keys[outv[i]] != out[i]) bad++;
    if (i && (dir ? out[i - 1] > out[i] : out[i - 1] < out[i])) bad++;
  }
  printf("%s, %u elements, %s: %s\n", name, n, dir ? "ascending" : "descending", bad ? "FAILED" : "OK");
  for (void *p : {(void *)sk, (void *)dk, (void *)sv, (void *)dv}) checkCudaErrors(cudaFree(p));
  return bad;
}

int main(int argc, char **argv) {
  const uint n = argc > 1 ? (uint)atoi(argv[1]) : 16384;
  if (n < SHARED_SIZE_LIMIT || (n & (n - 1))) {
    fprintf(stderr, "usage: %s [elements: a power of two, at least %u]\n", argv[0], SHARED_SIZE_LIMIT);
    return 2;
  }
  int bad = test<uint>("uint", n, 1) + test<float>("float", n, 0) + test<unsigned long long>("unsigned long long", n, 1);
  printf("%s\n", bad ? "Test FAILED" : "Shutting down... Test PASSED");
  return bad != 0;
}
