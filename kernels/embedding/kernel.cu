// Rows of a table that tokens pick, with those of their positions added.
__global__ void embed(const int* tokens, const float* table, const float* positions, float* out, int length,
                      int width) {
    const int at = blockIdx.y * length + blockIdx.x;
    const float* row = table + static_cast<size_t>(tokens[at]) * width;
    const float* place = positions + static_cast<size_t>(blockIdx.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[static_cast<size_t>(at) * width + i] = row[i] + place[i];
}
