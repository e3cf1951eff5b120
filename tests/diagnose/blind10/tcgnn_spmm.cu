// SpMM for graph neural networks, out = A x input, with A's row windows of 16 condensed to the columns that occur in them
// (TF-32 on tensor cores). Preprocessing gives each edge its column among the window's distinct neighbours.
#include <stdio.h>
#include <mma.h>

#define BLK_H 16
#define BLK_W 8
#define WARP_SIZE 32

using namespace nvcuda;

__global__ void spmm_forward_cuda_kernel(
	const int * __restrict__ nodePointer,		// row pointer, numNodes + 1
	const int * __restrict__ edgeList,			// column of each edge
	const int * __restrict__ blockPartition,	// TC blocks in each row window
	const int * __restrict__ edgeToColumn, 		// condensed column of each edge
	const int * __restrict__ edgeToRow, 		// row of each edge
	const float * __restrict__ edgeAttention,	// value of each edge
	const int numNodes,
	const int embedding_dim,
	const float *__restrict__ input,			// [numNodes, embedding_dim]
	float *output								// [numNodes, embedding_dim]
) {
	const unsigned bid = blockIdx.x;								// block = row window
	const unsigned wid = threadIdx.y;								// warp = 16 columns of the embedding
	const unsigned laneid = threadIdx.x;
	const unsigned tid = threadIdx.y * blockDim.x + laneid;
	const unsigned warpPerBlock = blockDim.y;
	const unsigned threadPerBlock = blockDim.x * blockDim.y;

	const unsigned nIdx_start = bid * BLK_H;
	const unsigned nIdx_end = min((bid + 1) * BLK_H, numNodes);
	const unsigned eIdx_start = nodePointer[nIdx_start];
	const unsigned eIdx_end = nodePointer[nIdx_end];
	const unsigned num_TC_blocks = blockPartition[bid];

	__shared__ __align__(32) float sparse_A[BLK_H * BLK_W];		// row-major sparse matrix fragment
	__shared__ int sparse_AToX_index[BLK_W];					// TC_block column to dense row
	extern __shared__ __align__(32) float dynamic_shared[];
	float *dense_X = dynamic_shared;							// BLK_W x BLK_H of each warp, column-major
	float *result = dense_X + warpPerBlock * BLK_W * BLK_H;		// BLK_H x BLK_H of each warp

	wmma::fragment<wmma::matrix_a, BLK_H, BLK_H, BLK_W, wmma::precision::tf32, wmma::row_major> a_frag;
	wmma::fragment<wmma::matrix_b, BLK_H, BLK_H, BLK_W, wmma::precision::tf32, wmma::col_major> b_frag;
	wmma::fragment<wmma::accumulator, BLK_H, BLK_H, BLK_W, float> acc_frag;
	wmma::fill_fragment(acc_frag, 0.0f);

	for (unsigned i = 0; i < num_TC_blocks; i++) {
		if (tid < BLK_W)
			sparse_AToX_index[tid] = numNodes + 1;
		for (unsigned idx = tid; idx < BLK_W * BLK_H; idx += threadPerBlock)
			sparse_A[idx] = 0;
		__syncthreads();

		// find the edges that fall into this TC block
		for (unsigned eIdx = eIdx_start + tid; eIdx < eIdx_end; eIdx += threadPerBlock) {
			unsigned col = edgeToColumn[eIdx];
			if (i * BLK_W <= col && col < (i + 1) * BLK_W) {
				unsigned row_local = edgeToRow[eIdx] % BLK_H;
				unsigned col_local = col % BLK_W;
				sparse_A[row_local * BLK_W + col_local] = edgeAttention[eIdx];
				sparse_AToX_index[col_local] = edgeList[eIdx];
			}
		}
		__syncthreads();

		// gather the rows of X that they name
		for (unsigned idx = laneid; idx < BLK_W * BLK_H; idx += WARP_SIZE) {
			unsigned dense_rowIdx = sparse_AToX_index[idx % BLK_W];
			unsigned dense_dimIdx = wid * BLK_H + idx / BLK_W;
			float x = 0;
			if (dense_rowIdx < numNodes && dense_dimIdx < embedding_dim)
				x = input[dense_rowIdx * embedding_dim + dense_dimIdx];
			dense_X[wid * BLK_W * BLK_H + idx] = x;
		}
		__syncwarp();

		wmma::load_matrix_sync(a_frag, sparse_A, BLK_W);
		wmma::load_matrix_sync(b_frag, dense_X + wid * BLK_W * BLK_H, BLK_W);
		#pragma unroll
		for (unsigned t = 0; t < a_frag.num_elements; t++)
			a_frag.x[t] = wmma::__float_to_tf32(a_frag.x[t]);
		#pragma unroll
		for (unsigned t = 0; t < b_frag.num_elements; t++)
			b_frag.x[t] = wmma::__float_to_tf32(b_frag.x[t]);
		wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
		__syncthreads();
	}

	float *mine = result + wid * BLK_H * BLK_H;
	wmma::store_matrix_sync(mine, acc_frag, BLK_H, wmma::mem_row_major);
	__syncwarp();
	for (unsigned idx = laneid; idx < BLK_H * BLK_H; idx += WARP_SIZE) {
		unsigned row = nIdx_start + idx / BLK_H;
		unsigned dim = wid * BLK_H + idx % BLK_H;
		if (row < numNodes && dim < embedding_dim)
			output[row * embedding_dim + dim] = mine[idx];
	}
}
