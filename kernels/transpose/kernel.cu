// The transpose of matrices, through a tile whose rows are padded.
__global__ void transpose(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[16][17];
    x += static_cast<size_t>(blockIdx.z) * rows * cols;
    y += static_cast<size_t>(blockIdx.z) * rows * cols;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
    __syncthreads();
    row = blockIdx.y * 16 + threadIdx.x;
    col = blockIdx.x * 16 + threadIdx.y;
    if (row < rows && col < cols) y[col * rows + row] = tile[threadIdx.x][threadIdx.y];
}
