// K-means, assignment step: for each point the nearest centroid, by |c|^2 - 2 <x, c> on tensor cores.
// (|x|^2 is the same for all centroids of a point and is only added to the distance that is written.)

#include <cuda_fp16.h>
#include <float.h>
#include <mma.h>

constexpr int POINTS_PER_BLOCK    = 64;
constexpr int CENTROIDS_PER_STEP  = 32;
constexpr int WARPS_PER_BLOCK     = 4;
constexpr int DIST_STRIDE         = CENTROIDS_PER_STEP + 4;

struct Nearest
{
    float distance;
    int   index;
};

__device__ inline Nearest closer(Nearest lhs, Nearest rhs)
{
    // ties go to the lower index
    if (rhs.distance < lhs.distance || (rhs.distance == lhs.distance && rhs.index < lhs.index)) return rhs;
    return lhs;
}

// minimum over `width` neighbouring lanes
__device__ inline Nearest reduce_nearest(Nearest mine, int width)
{
    for (int offset = width / 2; offset > 0; offset /= 2)
    {
        Nearest other;
        other.distance = __shfl_xor_sync(0xffffffffu, mine.distance, offset);
        other.index    = __shfl_xor_sync(0xffffffffu, mine.index, offset);
        mine           = closer(mine, other);
    }
    return mine;
}

// points: [num_points][dim], centroids: [num_centroids][dim], both padded by the caller to multiples of 64 and 32 rows;
// dim is a multiple of 16. centroid_norms holds |c|^2, point_norms |x|^2.
__global__ void assign_kernel(const half* points, const half* centroids, const float* centroid_norms,
                              const float* point_norms, int* labels, float* distances, int num_points,
                              int num_centroids, int dim)
{
    using namespace nvcuda;
    __shared__ __align__(32) float dots[WARPS_PER_BLOCK][16][DIST_STRIDE];

    const int warp_id     = threadIdx.x / 32;
    const int lane_id     = threadIdx.x % 32;
    const int first_point = blockIdx.x * POINTS_PER_BLOCK + warp_id * 16;

    // two lanes share a point: even lanes take the first half of a step's centroids, odd lanes the second
    const int my_row   = lane_id / 2;
    const int my_half  = lane_id % 2;
    const int my_point = first_point + my_row;

    Nearest best = {FLT_MAX, -1};

    for (int c0 = 0; c0 < num_centroids; c0 += CENTROIDS_PER_STEP)
    {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
        wmma::fill_fragment(sums[0], 0.0f);
        wmma::fill_fragment(sums[1], 0.0f);

        for (int d = 0; d < dim; d += 16)
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
            wmma::load_matrix_sync(x, points + (size_t)first_point * dim + d, dim);
            for (int t = 0; t < 2; t++)
            {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> c;
                wmma::load_matrix_sync(c, centroids + (size_t)(c0 + t * 16) * dim + d, dim);
                wmma::mma_sync(sums[t], x, c, sums[t]);
            }
        }

        wmma::store_matrix_sync(&dots[warp_id][0][0], sums[0], DIST_STRIDE, wmma::mem_row_major);
        wmma::store_matrix_sync(&dots[warp_id][0][16], sums[1], DIST_STRIDE, wmma::mem_row_major);
        __syncwarp();

        for (int j = 0; j < 16; j++)
        {
            const int   column   = my_half * 16 + j;
            const int   centroid = c0 + column;
            if (centroid >= num_centroids) break;
            const float distance = centroid_norms[centroid] - 2.0f * dots[warp_id][my_row][column];
            if (distance < best.distance) best = {distance, centroid};
        }
        __syncwarp();
    }

    best = reduce_nearest(best, 2);
    if (my_half == 0 && my_point < num_points)
    {
        labels[my_point]    = best.index;
        distances[my_point] = best.distance + point_norms[my_point];
    }
}

void kmeans_assign(const half* points, const half* centroids, const float* centroid_norms, const float* point_norms,
                   int* labels, float* distances, int num_points, int num_centroids, int dim)
{
    const int blocks = (num_points + POINTS_PER_BLOCK - 1) / POINTS_PER_BLOCK;
    assign_kernel<<<blocks, WARPS_PER_BLOCK * 32>>>(points, centroids, centroid_norms, point_norms, labels, distances,
                                                    num_points, num_centroids, dim);
}
