/** @file   fully_fused_mlp.cu
 *  @brief  Fully fused multi-layer perceptron: all layers in one kernel, activations stay in shared memory.
 *
 *  Layouts (as GPUMatrixDynamic has them)
 *    input           batch_size x in_width       row major
 *    weights         first layer  WIDTH x in_width, hidden layers  WIDTH x WIDTH each, last layer  16 x WIDTH,
 *                    one behind the other, row major (output neuron major)
 *    out_intermediate  n_hidden_layers x batch_size x WIDTH, for the backward pass; may be null
 *    output          batch_size x 16             row major
 */
#include <cuda_fp16.h>
#include <cstdint>
#include <mma.h>
#include <stdexcept>

#define TCNN_HOST_DEVICE __host__ __device__

namespace tcnn {

using network_precision_t = __half;

enum class Activation { ReLU, LeakyReLU, Squareplus, None };

template <typename T>
TCNN_HOST_DEVICE constexpr T next_multiple(T val, T divisor) { return ((val + divisor - 1) / divisor) * divisor; }

template <typename fragment_t>
__device__ void warp_activation(Activation activation, fragment_t& frag) {
	switch (activation) {
		case Activation::ReLU:
			#pragma unroll
			for (int t = 0; t < frag.num_elements; t++) {
				frag.x[t] = __hgt(frag.x[t], __float2half(0.0f)) ? frag.x[t] : __float2half(0.0f);
			}
			return;
		case Activation::LeakyReLU:
			#pragma unroll
			for (int t = 0; t < frag.num_elements; t++) {
				const float x = __half2float(frag.x[t]);
				frag.x[t] = __float2half(x > 0.0f ? x : 0.01f * x);
			}
			return;
		case Activation::Squareplus:
			#pragma unroll
			for (int t = 0; t < frag.num_elements; t++) {
				const float x = __half2float(frag.x[t]) * 10.0f;
				frag.x[t] = __float2half(0.5f * (x + sqrtf(x * x + 4.0f)) / 10.0f);
			}
			return;
		case Activation::None: return;
	}
}

// Each warp computes 16 columns (neurons) of N_ITERS * 16 rows of the batch.
template <int WIDTH, int N_ITERS, typename OUT_T>
__device__ void threadblock_layer(Activation activation, __half* __restrict__ act_shmem, const __half* __restrict__ weights_this_layer,
                                  OUT_T* __restrict__ out_intermediate_threadblock_this_layer, uint32_t n_rows_left) {
	constexpr uint32_t SKEW = WIDTH % 16 == 0 ? 8 : 0;
	constexpr uint32_t N_BLOCKS = WIDTH / 16;

	using namespace nvcuda;
	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag[N_BLOCKS];
	wmma::fragment<wmma::accumulator, 16, 16, 16, OUT_T> result_frag[N_ITERS];

	const uint32_t li = threadIdx.x; // index in warp ("lane index")
	const uint32_t wi = threadIdx.y; // index in block ("warp index")
	const uint32_t weights_col = 16 * wi;

	__syncthreads();

	// Load N_BLOCKS chunks of weights from global memory into registers.
	#pragma unroll
	for (uint32_t i = 0; i < N_BLOCKS; ++i) {
		wmma::load_matrix_sync(weights_frag[i], weights_this_layer + 16 * i + weights_col * WIDTH, WIDTH);
	}

	#pragma unroll
	for (int l = 0; l < N_ITERS; ++l) {
		wmma::fill_fragment(result_frag[l], __float2half(0.0f));

		#pragma unroll
		for (uint32_t i = 0; i < N_BLOCKS; ++i) {
			wmma::load_matrix_sync(act_frag, act_shmem + 16 * i + (16 * l) * (WIDTH + SKEW), WIDTH + SKEW);
			wmma::mma_sync(result_frag[l], act_frag, weights_frag[i], result_frag[l]);
		}
		warp_activation(activation, result_frag[l]);
	}

	__syncthreads();

	#pragma unroll
	for (int l = 0; l < N_ITERS; ++l) {
		wmma::store_matrix_sync(act_shmem + weights_col + l * 16 * (WIDTH + SKEW), result_frag[l], WIDTH + SKEW, wmma::mem_row_major);
	}

	if (out_intermediate_threadblock_this_layer != nullptr) {
		__syncthreads();

		// 8 halfs of a row per thread
		constexpr uint32_t PER_ROW = WIDTH / 8;
		for (uint32_t i = wi * 32 + li; i < 16 * N_ITERS * PER_ROW; i += N_BLOCKS * 32) {
			const uint32_t row = i / PER_ROW, col = (i % PER_ROW) * 8;
			if (row < n_rows_left) {
				*(int4*)&out_intermediate_threadblock_this_layer[row * WIDTH + col] = *(int4*)&act_shmem[row * (WIDTH + SKEW) + col];
			}
		}
	}
}

// The first layer: its depth is in_width, known at run time only. The input is staged in shared memory by chunks of 16.
template <int WIDTH, int N_ITERS>
__device__ void threadblock_input_layer_forward_dynamic(__half* __restrict__ act_shmem, const __half* __restrict__ input_threadblock,
                                                        const __half* __restrict__ weights_first_layer, uint32_t in_width, uint32_t n_rows_left) {
	constexpr uint32_t SKEW = WIDTH % 16 == 0 ? 8 : 0;
	constexpr uint32_t INPUT_SKEW = 8;
	constexpr uint32_t INPUT_STRIDE = 16 + INPUT_SKEW;
	constexpr uint32_t N_BLOCKS = WIDTH / 16;
	constexpr uint32_t N_ROWS = 16 * N_ITERS;

	using namespace nvcuda;
	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag;
	wmma::fragment<wmma::accumulator, 16, 16, 16, __half> result_frag[N_ITERS];

	const uint32_t li = threadIdx.x, wi = threadIdx.y;
	const uint32_t thread_idx = wi * 32 + li;

	// behind the activations: a piece of the input and one of the weights
	__half* __restrict__ input_shmem = act_shmem + N_ROWS * (WIDTH + SKEW);
	__half* __restrict__ weights_shmem = input_shmem + N_ROWS * INPUT_STRIDE;

	#pragma unroll
	for (int l = 0; l < N_ITERS; ++l) {
		wmma::fill_fragment(result_frag[l], __float2half(0.0f));
	}

	const uint32_t n_chunks = next_multiple(in_width, 16u) / 16;
	for (uint32_t chunk = 0; chunk < n_chunks; ++chunk) {
		for (uint32_t i = thread_idx; i < N_ROWS * 16; i += N_BLOCKS * 32) {
			const uint32_t row = i / 16, col = i % 16, k = chunk * 16 + col;
			input_shmem[row * INPUT_STRIDE + col] = row < n_rows_left && k < in_width ? input_threadblock[row * in_width + k] : __float2half(0.0f);
		}
		for (uint32_t i = thread_idx; i < WIDTH * 16; i += N_BLOCKS * 32) {
			const uint32_t row = i / 16, col = i % 16, k = chunk * 16 + col;
			weights_shmem[row * INPUT_STRIDE + col] = k < in_width ? weights_first_layer[row * in_width + k] : __float2half(0.0f);
		}
		__syncthreads();

		wmma::load_matrix_sync(weights_frag, weights_shmem + 16 * wi * INPUT_STRIDE, INPUT_STRIDE);
		#pragma unroll
		for (int l = 0; l < N_ITERS; ++l) {
			wmma::load_matrix_sync(act_frag, input_shmem + 16 * l * INPUT_STRIDE, INPUT_STRIDE);
			wmma::mma_sync(result_frag[l], act_frag, weights_frag, result_frag[l]);
		}
		__syncthreads();
	}

	#pragma unroll
	for (int l = 0; l < N_ITERS; ++l) {
		warp_activation(Activation::ReLU, result_frag[l]);
		wmma::store_matrix_sync(act_shmem + 16 * wi + l * 16 * (WIDTH + SKEW), result_frag[l], WIDTH + SKEW, wmma::mem_row_major);
	}
}

// The last layer has 16 outputs: warps take turns at the rows.
template <int WIDTH, int N_ITERS, typename OUT_T>
__device__ void threadblock_last_layer_forward(Activation activation, const __half* __restrict__ act_shmem, const __half* __restrict__ weights_last_layer,
                                               OUT_T* __restrict__ out, uint32_t n_rows_left) {
	constexpr uint32_t SKEW = WIDTH % 16 == 0 ? 8 : 0;
	constexpr uint32_t N_BLOCKS = WIDTH / 16;

	using namespace nvcuda;
	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag[N_BLOCKS];
	wmma::fragment<wmma::accumulator, 16, 16, 16, OUT_T> result_frag;

	__syncthreads();

	#pragma unroll
	for (uint32_t i = 0; i < N_BLOCKS; ++i) {
		wmma::load_matrix_sync(weights_frag[i], weights_last_layer + 16 * i, WIDTH);
	}

	for (uint32_t idx = threadIdx.y; idx < N_ITERS; idx += N_BLOCKS) {
		if (16 * idx >= n_rows_left) {
			break;
		}
		wmma::fill_fragment(result_frag, __float2half(0.0f));
		#pragma unroll
		for (uint32_t i = 0; i < N_BLOCKS; ++i) {
			wmma::load_matrix_sync(act_frag, act_shmem + 16 * i + (16 * idx) * (WIDTH + SKEW), WIDTH + SKEW);
			wmma::mma_sync(result_frag, act_frag, weights_frag[i], result_frag);
		}
		warp_activation(activation, result_frag);
		wmma::store_matrix_sync(out + idx * 16 * 16, result_frag, 16, wmma::mem_row_major);
	}
}

// batch_size is a multiple of 16; the last block may have fewer rows than the others
template <int WIDTH, int N_ITERS, typename OUT_T, Activation ACTIVATION>
__global__ void kernel_mlp_fused(const Activation output_activation, const __half* __restrict__ input, const __half* __restrict__ weights,
                                 OUT_T* __restrict__ out_intermediate, OUT_T* __restrict__ out, const uint32_t batch_size,
                                 const uint32_t in_width, const uint32_t n_hidden_layers) {
	extern __shared__ __half shmem[];
	__half* act_shmem = shmem;

	const uint32_t elem_idx = 16 * blockIdx.x * N_ITERS;
	const uint32_t n_rows_left = batch_size - elem_idx;

	threadblock_input_layer_forward_dynamic<WIDTH, N_ITERS>(act_shmem, input + elem_idx * in_width, weights, in_width, n_rows_left);

	const uint32_t first_weights_size = WIDTH * in_width;
	const uint32_t weights_stride = WIDTH * WIDTH;
	const uint32_t layer_stride = WIDTH * batch_size;

	for (uint32_t k = 0; k < n_hidden_layers; ++k) {
		OUT_T* this_layer = out_intermediate ? out_intermediate + layer_stride * k + elem_idx * WIDTH : nullptr;
		threadblock_layer<WIDTH, N_ITERS, OUT_T>(ACTIVATION, act_shmem, weights + first_weights_size + weights_stride * k, this_layer, n_rows_left);
	}

	threadblock_last_layer_forward<WIDTH, N_ITERS, OUT_T>(output_activation, act_shmem,
		weights + first_weights_size + weights_stride * n_hidden_layers, out + elem_idx * 16, n_rows_left);
}

template <int WIDTH, Activation ACTIVATION>
void mlp_fused_forward(cudaStream_t stream, Activation output_activation, const __half* weights, const __half* input,
                       __half* out_intermediate, __half* out, uint32_t batch_size, uint32_t in_width, uint32_t n_hidden_layers) {
	constexpr int N_ITERS = WIDTH >= 256 ? 2 : 4;
	constexpr uint32_t SKEW = WIDTH % 16 == 0 ? 8 : 0;
	if (batch_size % 16 != 0) {
		throw std::runtime_error{"Batch size must be a multiple of 16."};
	}
	const dim3 threads = { 32u, WIDTH / 16u, 1u };
	const size_t shmem_size = sizeof(__half) * (16 * N_ITERS * (WIDTH + SKEW) + (16 * N_ITERS + WIDTH) * 24);
	const dim3 blocks = { next_multiple(batch_size, 16u * N_ITERS) / (16u * N_ITERS), 1u, 1u };
	kernel_mlp_fused<WIDTH, N_ITERS, __half, ACTIVATION><<<blocks, threads, shmem_size, stream>>>(
		output_activation, input, weights, out_intermediate, out, batch_size, in_width, n_hidden_layers);
}

template void mlp_fused_forward<32, Activation::LeakyReLU>(cudaStream_t, Activation, const __half*, const __half*, __half*, __half*, uint32_t, uint32_t, uint32_t);

}
