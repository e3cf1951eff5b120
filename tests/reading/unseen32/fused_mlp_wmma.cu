/*
 * Fully fused small MLP (64 neurons wide), after the idea of "fully fused" networks for NeRF.
 *
 *   y_0 = x,   y_{l+1} = relu(W_l y_l + b_l),   the last layer has no activation
 *
 * in / out : [batch, 64] half, row-major, batch % 64 == 0
 * weights  : [n_layers, 64 (out), 64 (in)] half, as nn.Linear stores them
 * biases   : [n_layers, 64] float
 *
 * One block keeps 64 samples in shared memory for all the layers.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace mlp {

constexpr uint32_t WIDTH = 64;
constexpr uint32_t SKEW = 8;
constexpr uint32_t LDS = WIDTH + SKEW;
constexpr uint32_t BATCH_PER_BLOCK = 64;
constexpr uint32_t N_WARPS = BATCH_PER_BLOCK / 16;
constexpr uint32_t N_BLOCK_COLS = WIDTH / 16;

enum class Activation { None, ReLU };

// one layer: act <- f(act * W^T + b).  Each warp owns 16 rows of `act`, so only the weights need block barriers.
__device__ void threadblock_layer(Activation activation, __half* __restrict__ act_shmem,
                                  const __half* __restrict__ weight_shmem, float* __restrict__ stage,
                                  const float* __restrict__ bias) {
	using namespace nvcuda;
	const uint32_t li = threadIdx.x; // index in warp ("lane index")
	const uint32_t wi = threadIdx.y; // index in block ("warp index")

	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> act_frag[N_BLOCK_COLS];
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> weights_frag;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> result_frag;

	__half* act_rows = act_shmem + wi * 16 * LDS;
	float* my_stage = stage + wi * 16 * 16;

	// read the whole strip before any part of it is overwritten
#pragma unroll
	for (uint32_t i = 0; i < N_BLOCK_COLS; ++i) {
		wmma::load_matrix_sync(act_frag[i], act_rows + i * 16, LDS);
	}
	__syncwarp();

#pragma unroll
	for (uint32_t n = 0; n < N_BLOCK_COLS; ++n) {
		wmma::fill_fragment(result_frag, 0.0f);
#pragma unroll
		for (uint32_t i = 0; i < N_BLOCK_COLS; ++i) {
			wmma::load_matrix_sync(weights_frag, weight_shmem + n * 16 * LDS + i * 16, LDS);
			wmma::mma_sync(result_frag, act_frag[i], weights_frag, result_frag);
		}
		wmma::store_matrix_sync(my_stage, result_frag, 16, wmma::mem_row_major);
		__syncwarp();
#pragma unroll
		for (uint32_t t = li; t < 256; t += 32) {
			const uint32_t row = t / 16, col = n * 16 + t % 16;
			float val = my_stage[t] + bias[col];
			if (activation == Activation::ReLU) {
				val = val > 0.0f ? val : 0.0f;
			}
			act_rows[row * LDS + col] = __float2half(val);
		}
		__syncwarp();
	}
}

__global__ void kernel_mlp_fused(const __half* __restrict__ input, const __half* __restrict__ weights,
                                 const float* __restrict__ biases, __half* __restrict__ output,
                                 const uint32_t n_layers) {
	__shared__ __align__(32) __half act_shmem[BATCH_PER_BLOCK * LDS];
	__shared__ __align__(32) __half weight_shmem[WIDTH * LDS];
	__shared__ __align__(32) float stage[N_WARPS * 16 * 16];

	const uint32_t tid = threadIdx.y * 32 + threadIdx.x;
	const uint32_t n_threads = N_WARPS * 32;
	const size_t elem_base = (size_t)blockIdx.x * BATCH_PER_BLOCK * WIDTH;

	for (uint32_t i = tid * 8; i < BATCH_PER_BLOCK * WIDTH; i += n_threads * 8) {
		*(int4*)&act_shmem[(i / WIDTH) * LDS + i % WIDTH] = *(const int4*)&input[elem_base + i];
	}

	for (uint32_t l = 0; l < n_layers; ++l) {
		__syncthreads(); // the previous layer has read its weights
		const __half* layer_weights = weights + (size_t)l * WIDTH * WIDTH;
		for (uint32_t i = tid * 8; i < WIDTH * WIDTH; i += n_threads * 8) {
			*(int4*)&weight_shmem[(i / WIDTH) * LDS + i % WIDTH] = *(const int4*)&layer_weights[i];
		}
		__syncthreads();
		threadblock_layer(l + 1 < n_layers ? Activation::ReLU : Activation::None, act_shmem, weight_shmem, stage,
		                  biases + l * WIDTH);
	}

	__syncthreads();
	for (uint32_t i = tid * 8; i < BATCH_PER_BLOCK * WIDTH; i += n_threads * 8) {
		*(int4*)&output[elem_base + i] = *(const int4*)&act_shmem[(i / WIDTH) * LDS + i % WIDTH];
	}
}

void mlp_inference(cudaStream_t stream, const __half* input, const __half* weights, const float* biases,
                   __half* output, uint32_t batch_size, uint32_t n_layers) {
	if (batch_size % BATCH_PER_BLOCK != 0) {
		throw std::runtime_error{"Batch size must be a multiple of " + std::to_string(BATCH_PER_BLOCK)};
	}
	const dim3 threads = {32u, N_WARPS, 1u};
	const dim3 blocks = {batch_size / BATCH_PER_BLOCK, 1u, 1u};
	kernel_mlp_fused<<<blocks, threads, 0, stream>>>(input, weights, biases, output, n_layers);
}

} // namespace mlp

#define CUDA_CHECK_THROW(x)                                                                                \
	do {                                                                                                   \
		cudaError_t result = x;                                                                            \
		if (result != cudaSuccess)                                                                         \
			throw std::runtime_error(std::string(#x " failed with error ") + cudaGetErrorString(result));  \
	} while (0)

int main() {
	const uint32_t batch = 256, layers = 4, W = mlp::WIDTH;
	std::mt19937 rng{1337};
	std::normal_distribution<float> normal{0.0f, 1.0f};

	std::vector<__half> x(batch * W), w(layers * W * W), y(batch * W);
	std::vector<float> b(layers * W);
	for (auto& v : x) v = __float2half(normal(rng));
	for (auto& v : w) v = __float2half(normal(rng) * std::sqrt(2.0f / W));
	for (auto& v : b) v = 0.1f * normal(rng);

	__half *dx, *dw, *dy;
	float* db;
	CUDA_CHECK_THROW(cudaMalloc(&dx, x.size() * sizeof(__half)));
	CUDA_CHECK_THROW(cudaMalloc(&dw, w.size() * sizeof(__half)));
	CUDA_CHECK_THROW(cudaMalloc(&dy, y.size() * sizeof(__half)));
	CUDA_CHECK_THROW(cudaMalloc(&db, b.size() * sizeof(float)));
	CUDA_CHECK_THROW(cudaMemcpy(dx, x.data(), x.size() * sizeof(__half), cudaMemcpyHostToDevice));
	CUDA_CHECK_THROW(cudaMemcpy(dw, w.data(), w.size() * sizeof(__half), cudaMemcpyHostToDevice));
	CUDA_CHECK_THROW(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

	mlp::mlp_inference(0, dx, dw, db, dy, batch, layers);
	CUDA_CHECK_THROW(cudaGetLastError());
	CUDA_CHECK_THROW(cudaMemcpy(y.data(), dy, y.size() * sizeof(__half), cudaMemcpyDeviceToHost));

	double max_err = 0.0;
	for (uint32_t s = 0; s < batch; ++s) {
		std::vector<float> cur(W), next(W);
		for (uint32_t i = 0; i < W; ++i) cur[i] = __half2float(x[s * W + i]);
		for (uint32_t l = 0; l < layers; ++l) {
			for (uint32_t o = 0; o < W; ++o) {
				float acc = b[l * W + o];
				for (uint32_t i = 0; i < W; ++i) acc += __half2float(w[(l * W + o) * W + i]) * cur[i];
				if (l + 1 < layers) acc = std::max(acc, 0.0f);
				next[o] = __half2float(__float2half(acc));
			}
			std::swap(cur, next);
		}
		for (uint32_t i = 0; i < W; ++i)
			max_err = std::max(max_err, (double)std::fabs(cur[i] - __half2float(y[s * W + i])));
	}
	std::cout << "max error " << max_err << (max_err < 0.05 ? "  OK" : "  MISMATCH") << std::endl;
	return 0;
}
