// Prefix sums along rows by tensor cores: 256 elements of a row are a 16 x 16 matrix X (row-major), and X * U with U the upper
// triangle of ones scans each of its rows; what lies before each row is added by shuffles, before each warp and before each
// tile by shared memory. half in, float out.
#include <cuda_fp16.h>
#include <mma.h>

namespace TcuScan {

using namespace nvcuda;

static constexpr int Side       = 16;
static constexpr int WarpItems  = Side * Side;
static constexpr int RowPitch   = Side + 4;

template <int BlockWarps>
struct TempStorage {
    alignas(128) __half Ones[Side * Side];
    alignas(128) __half Items[BlockWarps][WarpItems];
    alignas(128) float  Partial[BlockWarps][Side * RowPitch];
    float RowPrefix[BlockWarps][Side];
    float WarpTotal[BlockWarps];
};

// inclusive scan of the values of lanes 0 .. 15
__device__ __forceinline__ float HalfWarpInclusiveSum(float value, int laneId)
{
#pragma unroll
    for (int offset = 1; offset < Side; offset <<= 1) {
        float other = __shfl_up_sync(0xffffffffu, value, offset);
        if (laneId >= offset) value += other;
    }
    return value;
}

template <int BlockWarps, bool Exclusive>
class RowScanner {
    static constexpr int TileItems = BlockWarps * WarpItems;
    TempStorage<BlockWarps> &temp;
    const int warpId, laneId;
    wmma::fragment<wmma::matrix_b, Side, Side, Side, __half, wmma::row_major> upper;

public:
    __device__ explicit RowScanner(TempStorage<BlockWarps> &storage)
        : temp(storage), warpId(threadIdx.x >> 5), laneId(threadIdx.x & 31)
    {
        for (int i = threadIdx.x; i < Side * Side; i += BlockWarps * 32)
            temp.Ones[i] = __float2half((i / Side) <= (i % Side) ? 1.f : 0.f);
        __syncthreads();
        wmma::load_matrix_sync(upper, temp.Ones, Side);
    }

    __device__ void LoadTile(const __half *row, int tileBase, int numCols)
    {
        const int base = tileBase + warpId * WarpItems;
        __half *items  = temp.Items[warpId];
        if (base + WarpItems <= numCols && numCols % 2 == 0) {
            for (int i = laneId; i < WarpItems / 2; i += 32)
                reinterpret_cast<__half2 *>(items)[i] = reinterpret_cast<const __half2 *>(row + base)[i];
        } else {
            for (int i = laneId; i < WarpItems; i += 32)
                items[i] = base + i < numCols ? row[base + i] : __float2half(0.f);
        }
        __syncwarp();
    }

    __device__ void ScanWarp()
    {
        wmma::fragment<wmma::matrix_a, Side, Side, Side, __half, wmma::row_major> x;
        wmma::fragment<wmma::accumulator, Side, Side, Side, float> sums;
        wmma::fill_fragment(sums, 0.f);
        wmma::load_matrix_sync(x, temp.Items[warpId], Side);
        wmma::mma_sync(sums, x, upper, sums);
        wmma::store_matrix_sync(temp.Partial[warpId], sums, RowPitch, wmma::mem_row_major);
        __syncwarp();

        // the last column holds the sums of the 16 rows
        const float rowTotal  = laneId < Side ? temp.Partial[warpId][laneId * RowPitch + Side - 1] : 0.f;
        const float inclusive = HalfWarpInclusiveSum(rowTotal, laneId);
        if (laneId < Side) temp.RowPrefix[warpId][laneId] = inclusive - rowTotal;
        if (laneId == Side - 1) temp.WarpTotal[warpId] = inclusive;
        __syncwarp();
    }

    __device__ void StoreTile(float *row, int tileBase, int numCols, float before)
    {
        const int base = tileBase + warpId * WarpItems;
        for (int i = laneId; i < WarpItems; i += 32) {
            if (base + i >= numCols) break;
            float value = before + temp.RowPrefix[warpId][i / Side] + temp.Partial[warpId][(i / Side) * RowPitch + i % Side];
            if (Exclusive) value -= __half2float(temp.Items[warpId][i]);
            row[base + i] = value;
        }
    }

    __device__ void ScanRow(const __half *in, float *out, int numCols)
    {
        float carry = 0.f;                       // all tiles before this one
        for (int tileBase = 0; tileBase < numCols; tileBase += TileItems) {
            LoadTile(in, tileBase, numCols);
            ScanWarp();
            __syncthreads();

            float before = carry;
#pragma unroll
            for (int w = 0; w < BlockWarps; ++w) {
                if (w < warpId) before += temp.WarpTotal[w];
                carry += temp.WarpTotal[w];
            }
            StoreTile(out, tileBase, numCols, before);
            __syncthreads();
        }
    }
};

template <int BlockWarps, bool Exclusive>
__global__ void DeviceRowScanKernel(const __half *d_in, float *d_out, int numRows, int numCols, int inPitch, int outPitch)
{
    __shared__ TempStorage<BlockWarps> tempStorage;
    RowScanner<BlockWarps, Exclusive> scanner(tempStorage);
    for (int row = blockIdx.x; row < numRows; row += gridDim.x)
        scanner.ScanRow(d_in + (size_t)row * inPitch, d_out + (size_t)row * outPitch, numCols);
}

template __global__ void DeviceRowScanKernel<4, false>(const __half *, float *, int, int, int, int);
template __global__ void DeviceRowScanKernel<4, true>(const __half *, float *, int, int, int, int);

}  // namespace TcuScan
