// SGMV: LoRA for a batch in which every request may use another adapter.
// Tokens are sorted by adapter; segment s is the rows seg_ptr[s] .. seg_ptr[s + 1] and uses adapter lora_ids[s]
// (-1: base model only). Shrink and expand run in one kernel, the rank-sized intermediate stays in shared memory.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>
#include <string>

namespace punica_lite {

namespace wmma = nvcuda::wmma;
typedef __nv_bfloat16 bf16_t;

namespace {

constexpr int kRows = 16;
constexpr int kWarps = 4;

template <int R>
struct SharedStorage {
  alignas(32) float partial[kWarps][kRows][R];  // of each warp's share of the hidden size
  alignas(32) bf16_t v[kRows][R + 16];
  alignas(32) bf16_t x[kWarps][kRows][16 + 8];
  alignas(32) float tile[kWarps][kRows][16];
};

// y[t] += scale * B[id] (A[id] x[t])
template <int R>
__global__ void __launch_bounds__(kWarps * 32)
    sgmv_fused_kernel(bf16_t* y, const bf16_t* x, const bf16_t* wa, const bf16_t* wb, const int* seg_ptr,
                      const int* lora_ids, const float* scales, int d_in, int d_out, int layer, int num_layers) {
  __shared__ SharedStorage<R> sm;
  const int seg = blockIdx.y;
  const int id = lora_ids[seg];
  if (id < 0) return;
  const int row0 = seg_ptr[seg] + blockIdx.x * kRows;
  const int row_end = seg_ptr[seg + 1];
  if (row0 >= row_end) return;

  const bf16_t* a = wa + (static_cast<size_t>(id) * num_layers + layer) * R * d_in;   // [R, d_in]
  const bf16_t* b = wb + (static_cast<size_t>(id) * num_layers + layer) * d_out * R;  // [d_out, R]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // shrink: the warps share the hidden size, 16 of it at a time
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[R / 16];
#pragma unroll
  for (int j = 0; j < R / 16; ++j) wmma::fill_fragment(acc[j], 0.f);
  for (int k = warp * 16; k < d_in; k += kWarps * 16) {
    const int r = lane / 2, c = lane % 2 * 8;
    int4 val = make_int4(0, 0, 0, 0);
    if (row0 + r < row_end) val = *reinterpret_cast<const int4*>(x + static_cast<size_t>(row0 + r) * d_in + k + c);
    *reinterpret_cast<int4*>(&sm.x[warp][r][c]) = val;
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> fx;
    wmma::load_matrix_sync(fx, &sm.x[warp][0][0], 16 + 8);
#pragma unroll
    for (int j = 0; j < R / 16; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::col_major> fa;
      wmma::load_matrix_sync(fa, a + static_cast<size_t>(j) * 16 * d_in + k, d_in);
      wmma::mma_sync(acc[j], fx, fa, acc[j]);
    }
    __syncwarp();
  }
#pragma unroll
  for (int j = 0; j < R / 16; ++j) wmma::store_matrix_sync(&sm.partial[warp][0][j * 16], acc[j], R, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * R; i += kWarps * 32) {
    float s = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) s += sm.partial[w][i / R][i % R];
    sm.v[i / R][i % R] = __float2bfloat16(s);
  }
  __syncthreads();

  // expand: the warps share the output columns
  wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> fv[R / 16];
#pragma unroll
  for (int j = 0; j < R / 16; ++j) wmma::load_matrix_sync(fv[j], &sm.v[0][j * 16], R + 16);
  const float scale = scales[id];
  for (int n = warp * 16; n < d_out; n += kWarps * 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> out;
    wmma::fill_fragment(out, 0.f);
#pragma unroll
    for (int j = 0; j < R / 16; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::col_major> fb;
      wmma::load_matrix_sync(fb, b + static_cast<size_t>(n) * R + j * 16, R);
      wmma::mma_sync(out, fv[j], fb, out);
    }
    wmma::store_matrix_sync(&sm.tile[warp][0][0], out, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < kRows * 16; i += 32) {
      const int r = i / 16, c = i % 16;
      if (row0 + r < row_end) {
        bf16_t* dst = y + static_cast<size_t>(row0 + r) * d_out + n + c;
        *dst = __float2bfloat16(__bfloat162float(*dst) + scale * sm.tile[warp][r][c]);
      }
    }
    __syncwarp();
  }
}

}  // namespace

// wa: [num_loras, num_layers, rank, d_in], wb: [num_loras, num_layers, d_out, rank]
void sgmv(bf16_t* y, const bf16_t* x, const bf16_t* wa, const bf16_t* wb, const int* seg_ptr, const int* lora_ids,
          const float* scales, int num_segments, int max_segment, int d_in, int d_out, int rank, int layer,
          int num_layers, cudaStream_t stream) {
  if (num_segments == 0 || max_segment == 0) return;
  if (d_in % 16 != 0 || d_out % 16 != 0) throw std::invalid_argument("sgmv: sizes must be multiples of 16");
  const dim3 grid((max_segment + kRows - 1) / kRows, num_segments);
  const dim3 block(kWarps * 32);
  auto launch = [&](auto kernel) {
    kernel<<<grid, block, 0, stream>>>(y, x, wa, wb, seg_ptr, lora_ids, scales, d_in, d_out, layer, num_layers);
  };
  switch (rank) {
    case 16:
      launch(sgmv_fused_kernel<16>);
      break;
    case 32:
      launch(sgmv_fused_kernel<32>);
      break;
    case 64:
      launch(sgmv_fused_kernel<64>);
      break;
    default:
      throw std::invalid_argument("sgmv: unsupported rank " + std::to_string(rank));
  }
  const cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err));
}

}  // namespace punica_lite
