// One new query per sequence against a cache of keys and values: the heads of a group are the rows of one fragment.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;
#define HEAD 64
#define CHUNK 64
#define PITCH (HEAD + 8)

__global__ void decode(const half* __restrict__ query, const half* __restrict__ kcache, const half* __restrict__ vcache,
                       float* __restrict__ result, int nq, int nkv, int past, float mul) {
  extern __shared__ __align__(128) unsigned char raw[];
  half* qs = (half*)raw;
  half* kv = qs + 16 * PITCH;
  half* ps = kv + CHUNK * PITCH;
  float* sc = (float*)(ps + 16 * PITCH);
  float* acc = sc + 16 * PITCH;
  float* stat = acc + 16 * PITCH;
  const int tid = threadIdx.x, warp = tid / 32;
  const int group = nq / nkv, kvh = blockIdx.x % nkv, seq = blockIdx.x / nkv;
  const half* kc = kcache + (size_t)(seq * nkv + kvh) * past * HEAD;
  const half* vc = vcache + (size_t)(seq * nkv + kvh) * past * HEAD;
  for (int i = tid; i < 16 * HEAD; i += blockDim.x) {
    int r = i / HEAD, d = i % HEAD;
    qs[r * PITCH + d] = r < group ? query[(size_t)(seq * nq + kvh * group + r) * HEAD + d] : __float2half(0.f);
    acc[r * PITCH + d] = 0.f;
  }
  if (tid < 16) { stat[tid] = -1e30f; stat[16 + tid] = 0.f; }
  for (int c0 = 0; c0 < past; c0 += CHUNK) {
    const int have = min(CHUNK, past - c0);
    __syncthreads();
    for (int i = tid; i < CHUNK * HEAD; i += blockDim.x) {
      int r = i / HEAD, d = i % HEAD;
      kv[r * PITCH + d] = r < have ? kc[(size_t)(c0 + r) * HEAD + d] : __float2half(0.f);
    }
    __syncthreads();
    {
      fragment<accumulator, 16, 16, 16, float> s;
      fill_fragment(s, 0.f);
      for (int d = 0; d < HEAD; d += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, col_major> b;
        load_matrix_sync(a, qs + d, PITCH);
        load_matrix_sync(b, kv + warp * 16 * PITCH + d, PITCH);
        mma_sync(s, a, b, s);
      }
      store_matrix_sync(sc + warp * 16, s, PITCH, mem_row_major);
    }
    __syncthreads();
    for (int i = tid; i < CHUNK * HEAD; i += blockDim.x) {
      int r = i / HEAD, d = i % HEAD;
      kv[r * PITCH + d] = r < have ? vc[(size_t)(c0 + r) * HEAD + d] : __float2half(0.f);
    }
    if (tid < 16) {
      float m = stat[tid];
      for (int j = 0; j < have; ++j) m = fmaxf(m, sc[tid * PITCH + j] * mul);
      float f = expf(stat[tid] - m), sum = 0.f;
      for (int j = 0; j < CHUNK; ++j) {
        float p = j < have ? expf(sc[tid * PITCH + j] * mul - m) : 0.f;
        ps[tid * PITCH + j] = __float2half(p);
        sum += p;
      }
      stat[tid] = m;
      stat[16 + tid] = stat[16 + tid] * f + sum;
      stat[64 + tid] = f;
    }
    __syncthreads();
    for (int i = tid; i < 16 * HEAD; i += blockDim.x) acc[i / HEAD * PITCH + i % HEAD] *= stat[32 + i / HEAD];
    __syncthreads();
    {
      fragment<accumulator, 16, 16, 16, float> o;
      load_matrix_sync(o, acc + warp * 16, PITCH, mem_row_major);
      for (int j = 0; j < CHUNK; j += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, ps + j, PITCH);
        load_matrix_sync(b, kv + j * PITCH + warp * 16, PITCH);
        mma_sync(o, a, b, o);
      }
      store_matrix_sync(acc + warp * 16, o, PITCH, mem_row_major);
    }
  }
  __syncthreads();
  for (int i = tid; i < group * HEAD; i += blockDim.x) {
    int r = i / HEAD, d = i % HEAD;
    result[(size_t)(seq * nq + kvh * group + r) * HEAD + d] = acc[r * PITCH + d] / stat[16 + r];
  }
}
