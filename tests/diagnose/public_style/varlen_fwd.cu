// Attention over packed sequences (cu_seqlens), causal inside each, optional sliding window.
#include <cuda_fp16.h>
#include <mma.h>
#include <limits>
#include <stdint.h>

using namespace nvcuda::wmma;

template <int Br, int Bc, int D>
struct Smem {
  half q[Br][D];
  half k[Bc][D];
  half v[Bc][D];
  float s[Br][Bc];
  half p[Br][Bc];
  float o[Br][D];
  float m[Br], l[Br];
};

template <int Br, int Bc, int D>
__global__ void __launch_bounds__(Br / 16 * 32) varlen_attn_fwd(
    half const* __restrict__ Q, half const* __restrict__ K, half const* __restrict__ V, half* __restrict__ O,
    int32_t const* __restrict__ cu_seqlens, int num_heads, float sm_scale, int window)
{
  extern __shared__ uint4 smem_raw[];
  auto& sm = *reinterpret_cast<Smem<Br, Bc, D>*>(smem_raw);

  int const seq = blockIdx.z;
  int const head = blockIdx.y;
  int const begin = cu_seqlens[seq];
  int const len = cu_seqlens[seq + 1] - begin;
  int const row_block = blockIdx.x * Br;
  if (row_block >= len) return;

  int const stride = num_heads * D;
  auto at = [&](auto* base, int row) { return base + (int64_t)(begin + row) * stride + head * D; };
  int const warp = threadIdx.x / 32;
  int const lane = threadIdx.x % 32;
  int const wr = warp * 16;   // this warp's rows

  for (int i = threadIdx.x * 8; i < Br * D; i += blockDim.x * 8) {
    int const r = i / D, c = i % D;
    uint4 x = {};
    if (row_block + r < len) x = *reinterpret_cast<uint4 const*>(at(Q, row_block + r) + c);
    *reinterpret_cast<uint4*>(&sm.q[r][c]) = x;
  }
  for (int i = lane; i < 16 * D; i += 32) sm.o[wr + i / D][i % D] = 0.f;
  if (lane < 16) {
    sm.m[wr + lane] = -INFINITY;
    sm.l[wr + lane] = 0.f;
  }

  int const first = window > 0 ? max(0, row_block - window + 1) / Bc * Bc : 0;
  int const stop = min(len, row_block + Br);
  for (int kb = first; kb < stop; kb += Bc) {
    __syncthreads();
    for (int i = threadIdx.x * 8; i < Bc * D; i += blockDim.x * 8) {
      int const r = i / D, c = i % D;
      uint4 kx = {}, vx = {};
      if (kb + r < len) {
        kx = *reinterpret_cast<uint4 const*>(at(K, kb + r) + c);
        vx = *reinterpret_cast<uint4 const*>(at(V, kb + r) + c);
      }
      *reinterpret_cast<uint4*>(&sm.k[r][c]) = kx;
      *reinterpret_cast<uint4*>(&sm.v[r][c]) = vx;
    }
    __syncthreads();

    for (int n = 0; n < Bc; n += 16) {
      fragment<accumulator, 16, 16, 16, float> s;
      fill_fragment(s, 0.f);
      for (int d = 0; d < D; d += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, col_major> b;
        load_matrix_sync(a, &sm.q[wr][d], D);
        load_matrix_sync(b, &sm.k[n][d], D);
        mma_sync(s, a, b, s);
      }
      for (int i = 0; i < s.num_elements; ++i) s.x[i] *= sm_scale;
      store_matrix_sync(&sm.s[wr][n], s, Bc, mem_row_major);
    }
    __syncwarp();

    // two lanes per row
    int const r = wr + lane / 2;
    int const q_pos = row_block + r;
    auto visible = [&](int j) {
      int const k_pos = kb + j;
      return k_pos < len && k_pos <= q_pos && (window <= 0 || k_pos > q_pos - window);
    };
    float mx = sm.m[r];
    for (int j = lane % 2; j < Bc; j += 2)
      if (visible(j)) mx = fmaxf(mx, sm.s[r][j]);
    mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 1));
    float const shift = mx == -INFINITY ? 0.f : mx;
    float const alpha = __expf(sm.m[r] - shift);
    float sum = 0.f;
    for (int j = lane % 2; j < Bc; j += 2) {
      float const p = visible(j) ? __expf(sm.s[r][j] - shift) : 0.f;
      sm.p[r][j] = __float2half(p);
      sum += p;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    for (int d = lane % 2; d < D; d += 2) sm.o[r][d] *= alpha;
    __syncwarp();
    if (lane % 2 == 0) {
      sm.l[r] = sm.l[r] * alpha + sum;
      sm.m[r] = mx;
    }
    __syncwarp();

    for (int d = 0; d < D; d += 16) {
      fragment<accumulator, 16, 16, 16, float> o;
      load_matrix_sync(o, &sm.o[wr][d], D, mem_row_major);
      for (int n = 0; n < Bc; n += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, &sm.p[wr][n], Bc);
        load_matrix_sync(b, &sm.v[n][d], D);
        mma_sync(o, a, b, o);
      }
      store_matrix_sync(&sm.o[wr][d], o, D, mem_row_major);
    }
    __syncwarp();
  }

  for (int i = lane; i < 16 * D; i += 32) {
    int const r = wr + i / D, c = i % D;
    if (row_block + r < len) at(O, row_block + r)[c] = __float2half(sm.o[r][c] / sm.l[r]);
  }
}

void launch_varlen(half const* Q, half const* K, half const* V, half* O, int32_t const* cu_seqlens, int batch,
                   int num_heads, int max_seqlen, int head_dim, float scale, int window, cudaStream_t stream)
{
  auto go = [&](auto kernel, size_t smem) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
    kernel<<<dim3((max_seqlen + 63) / 64, num_heads, batch), 128, smem, stream>>>(Q, K, V, O, cu_seqlens, num_heads,
                                                                                  scale, window);
  };
  if (head_dim == 64)
    go(varlen_attn_fwd<64, 32, 64>, sizeof(Smem<64, 32, 64>));
  else
    go(varlen_attn_fwd<64, 32, 128>, sizeof(Smem<64, 32, 128>));
}
