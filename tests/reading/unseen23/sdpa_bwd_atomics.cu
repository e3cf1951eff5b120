// Backward of scaled dot product attention, tensor cores, one pass.
//
//   q, k, v, o, do : half  [B, S, H, D]          lse : float [B, H, S]   (natural logarithm, of the scaled scores)
//   dq             : float [B, S, H, D], zeroed by the caller, summed with atomics
//   dk, dv         : half  [B, S, H, D]
//
// A thread block owns kN keys of one head and loops over all queries that see them. dk and dv stay in accumulator
// fragments for the whole loop; dq of a query tile is spread over several blocks and hence added atomically.
//
// build: nvcc -O3 -std=c++17 -arch=sm_80 sdpa_bwd_atomics.cu -o sdpa_bwd && ./sdpa_bwd
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace nvcuda;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
using FragArow = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragAcol = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major>;
using FragBrow = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using FragBcol = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;

constexpr int kM = 32;  // queries of a step
constexpr int kN = 32;  // keys of a block
constexpr int kThreads = 128;

struct BwdArgs {
  const half *q, *k, *v, *o, *dout;
  const float* lse;
  float* delta;  // workspace, [B, H, S]
  float* dq;
  half *dk, *dv;
  int B, H, S, D;
  float scale;
};

// delta[b,h,s] = sum_d do * o
__global__ void bwd_delta(BwdArgs p) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;  // (b * S + s) * H + h
  if (row >= p.B * p.S * p.H) return;
  float sum = 0.f;
  for (int d = threadIdx.x % 32; d < p.D; d += 32)
    sum += __half2float(p.dout[(size_t)row * p.D + d]) * __half2float(p.o[(size_t)row * p.D + d]);
  for (int off = 16; off; off >>= 1) sum += __shfl_xor_sync(~0u, sum, off);
  if (threadIdx.x % 32 == 0) {
    const int h = row % p.H, s = row / p.H % p.S, b = row / p.H / p.S;
    p.delta[(b * p.H + h) * p.S + s] = sum;
  }
}

template <int D>
__device__ void load_tile(half (*dst)[D + 8], const half* src, int first, int rows, int S, int step) {
  for (int i = threadIdx.x; i < rows * D / 8; i += kThreads) {
    const int r = i / (D / 8), c = i % (D / 8) * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (first + r < S) v = *reinterpret_cast<const uint4*>(src + (size_t)(first + r) * step + c);
    *reinterpret_cast<uint4*>(&dst[r][c]) = v;
  }
}

template <int D, bool kCausal>
__global__ void __launch_bounds__(kThreads) bwd_dkdvdq(BwdArgs p) {
  __shared__ __align__(32) half sk[kN][D + 8], sv[kN][D + 8], sq[kM][D + 8], sdo[kM][D + 8];
  __shared__ __align__(32) half sp[kM][kN + 16], sds[kM][kN + 16];
  __shared__ __align__(32) float sacc[2][kM][kN];  // scores and dP
  __shared__ __align__(32) float sdq[kM][D];

  const int b = blockIdx.z, h = blockIdx.y, key0 = blockIdx.x * kN;
  const int warp = threadIdx.x / 32;
  const int step = p.H * D;  // from one position to the next
  const size_t base = ((size_t)b * p.S * p.H + h) * D;
  const float* lse = p.lse + (b * p.H + h) * p.S;
  const float* delta = p.delta + (b * p.H + h) * p.S;

  load_tile<D>(sk, p.k + base, key0, kN, p.S, step);
  load_tile<D>(sv, p.v + base, key0, kN, p.S, step);

  // the 2 x D/16 output tiles of dk and dv: warp w has those of row w / 2 and every second column
  constexpr int kCols = D / 32;
  const int ti = warp / 2, tj = warp % 2;
  FragC dk[kCols], dv[kCols];
  for (int c = 0; c < kCols; ++c) {
    wmma::fill_fragment(dk[c], 0.f);
    wmma::fill_fragment(dv[c], 0.f);
  }

  const int q_begin = kCausal ? key0 / kM * kM : 0;
  for (int q0 = q_begin; q0 < p.S; q0 += kM) {
    load_tile<D>(sq, p.q + base, q0, kM, p.S, step);
    load_tile<D>(sdo, p.dout + base, q0, kM, p.S, step);
    __syncthreads();

    FragC s, dp;
    wmma::fill_fragment(s, 0.f);
    wmma::fill_fragment(dp, 0.f);
    for (int d = 0; d < D; d += 16) {
      FragArow a;
      FragBcol bt;
      wmma::load_matrix_sync(a, &sq[ti * 16][d], D + 8);
      wmma::load_matrix_sync(bt, &sk[tj * 16][d], D + 8);
      wmma::mma_sync(s, a, bt, s);
      wmma::load_matrix_sync(a, &sdo[ti * 16][d], D + 8);
      wmma::load_matrix_sync(bt, &sv[tj * 16][d], D + 8);
      wmma::mma_sync(dp, a, bt, dp);
    }
    wmma::store_matrix_sync(&sacc[0][ti * 16][tj * 16], s, kN, wmma::mem_row_major);
    wmma::store_matrix_sync(&sacc[1][ti * 16][tj * 16], dp, kN, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
      const int r = i / kN, c = i % kN, row = q0 + r, col = key0 + c;
      const bool seen = row < p.S && col < p.S && (!kCausal || col <= row);
      const float prob = seen ? __expf(sacc[0][r][c] * p.scale - lse[row]) : 0.f;
      sp[r][c] = __float2half(prob);
      sds[r][c] = __float2half(seen ? prob * (sacc[1][r][c] - delta[row]) * p.scale : 0.f);
    }
    __syncthreads();

    for (int c = 0; c < kCols; ++c) {
      const int col = (c * 2 + tj) * 16;
      FragC dq;
      wmma::fill_fragment(dq, 0.f);
      for (int x = 0; x < 32; x += 16) {
        FragAcol at;
        FragArow a;
        FragBrow br;
        wmma::load_matrix_sync(at, &sp[x][ti * 16], kN + 16);  // P^T
        wmma::load_matrix_sync(br, &sdo[x][col], D + 8);
        wmma::mma_sync(dv[c], at, br, dv[c]);
        wmma::load_matrix_sync(at, &sds[x][ti * 16], kN + 16);  // dS^T
        wmma::load_matrix_sync(br, &sq[x][col], D + 8);
        wmma::mma_sync(dk[c], at, br, dk[c]);
        wmma::load_matrix_sync(a, &sds[ti * 16][x], kN + 16);
        wmma::load_matrix_sync(br, &sk[x][col], D + 8);
        wmma::mma_sync(dq, a, br, dq);
      }
      wmma::store_matrix_sync(&sdq[ti * 16][col], dq, D, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kM * D; i += kThreads)
      if (q0 + i / D < p.S) atomicAdd(p.dq + base + (size_t)(q0 + i / D) * step + i % D, sdq[i / D][i % D]);
  }

  // sdq stages dk, then dv
  for (int which = 0; which < 2; ++which) {
    __syncthreads();
    for (int c = 0; c < kCols; ++c)
      wmma::store_matrix_sync(&sdq[ti * 16][(c * 2 + tj) * 16], which ? dv[c] : dk[c], D, wmma::mem_row_major);
    __syncthreads();
    half* out = (which ? p.dv : p.dk) + base;
    for (int i = threadIdx.x; i < kN * D; i += kThreads)
      if (key0 + i / D < p.S) out[(size_t)(key0 + i / D) * step + i % D] = __float2half(sdq[i / D][i % D]);
  }
}

bool sdpa_backward(const BwdArgs& p, bool causal, cudaStream_t stream) {
  bwd_delta<<<(p.B * p.S * p.H + 3) / 4, 128, 0, stream>>>(p);
  const dim3 grid((p.S + kN - 1) / kN, p.H, p.B);
  if (p.D == 64 && causal) bwd_dkdvdq<64, true><<<grid, kThreads, 0, stream>>>(p);
  else if (p.D == 64) bwd_dkdvdq<64, false><<<grid, kThreads, 0, stream>>>(p);
  else if (p.D == 32 && causal) bwd_dkdvdq<32, true><<<grid, kThreads, 0, stream>>>(p);
  else if (p.D == 32) bwd_dkdvdq<32, false><<<grid, kThreads, 0, stream>>>(p);
  else return false;
  return cudaGetLastError() == cudaSuccess;
}

// -------------------------------------------------------------------------------------------------------- self test
template <typename T>
T* device(const std::vector<T>& v) {
  T* p;
  cudaMalloc(&p, v.size() * sizeof(T));
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int test(int B, int H, int S, int D, bool causal) {
  const size_t n = (size_t)B * S * H * D;
  std::mt19937 rng(S + D);
  std::normal_distribution<float> normal;
  std::vector<half> q(n), k(n), v(n), o(n), go(n), zero(n);
  for (auto* x : {&q, &k, &v, &go})
    for (auto& e : *x) e = __float2half(normal(rng));
  std::vector<float> lse(B * H * S), dq(n), dk(n), dv(n), zf(n), zl(B * H * S), got(n);
  const float scale = 1.f / std::sqrt((float)D);
  auto at = [&](int b, int s, int h, int d) { return (((size_t)b * S + s) * H + h) * D + d; };

  std::vector<float> prob(S);
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < S; ++i) {
        const int keys = causal ? i + 1 : S;
        float sum = 0, delta = 0;
        for (int j = 0; j < keys; ++j) {
          float s = 0;
          for (int d = 0; d < D; ++d) s += __half2float(q[at(b, i, h, d)]) * __half2float(k[at(b, j, h, d)]);
          prob[j] = std::exp(s * scale);
          sum += prob[j];
        }
        lse[(b * H + h) * S + i] = std::log(sum);
        for (int d = 0; d < D; ++d) {
          float acc = 0;
          for (int j = 0; j < keys; ++j) acc += prob[j] / sum * __half2float(v[at(b, j, h, d)]);
          o[at(b, i, h, d)] = __float2half(acc);
          delta += acc * __half2float(go[at(b, i, h, d)]);
        }
        for (int j = 0; j < keys; ++j) {
          float dp = 0;
          for (int d = 0; d < D; ++d) dp += __half2float(go[at(b, i, h, d)]) * __half2float(v[at(b, j, h, d)]);
          const float pr = prob[j] / sum, ds = pr * (dp - delta) * scale;
          for (int d = 0; d < D; ++d) {
            dv[at(b, j, h, d)] += pr * __half2float(go[at(b, i, h, d)]);
            dk[at(b, j, h, d)] += ds * __half2float(q[at(b, i, h, d)]);
            dq[at(b, i, h, d)] += ds * __half2float(k[at(b, j, h, d)]);
          }
        }
      }

  BwdArgs p{device(q), device(k), device(v), device(o), device(go), device(lse), device(zl), device(zf),
            device(zero), device(zero), B, H, S, D, scale};
  if (!sdpa_backward(p, causal, 0) || cudaDeviceSynchronize() != cudaSuccess) return 1;
  std::vector<half> hk(n), hv(n);
  cudaMemcpy(got.data(), p.dq, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(hk.data(), p.dk, n * sizeof(half), cudaMemcpyDeviceToHost);
  cudaMemcpy(hv.data(), p.dv, n * sizeof(half), cudaMemcpyDeviceToHost);
  float eq = 0, ek = 0, ev = 0;
  for (size_t i = 0; i < n; ++i) {
    eq = std::fmax(eq, std::fabs(got[i] - dq[i]));
    ek = std::fmax(ek, std::fabs(__half2float(hk[i]) - dk[i]));
    ev = std::fmax(ev, std::fabs(__half2float(hv[i]) - dv[i]));
  }
  const bool ok = eq < 1e-2f && ek < 1e-2f && ev < 1e-2f;
  std::printf("S %d D %d causal %d: dq %.2e dk %.2e dv %.2e %s\n", S, D, causal, eq, ek, ev, ok ? "ok" : "MISMATCH");
  return ok ? 0 : 1;
}

int main() {
  return test(1, 2, 72, 64, false) + test(1, 1, 48, 64, true) + test(2, 1, 40, 32, false) + test(1, 2, 64, 32, true);
}
