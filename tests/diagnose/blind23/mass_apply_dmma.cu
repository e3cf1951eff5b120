/* Partial assembly of a mass operator on hexahedra: Y += B^T D B X, sum factorised, one element per thread block.
 *
 *   X, Y : D1D x D1D x D1D x NE   (column-major as usual: dx runs fastest)
 *   D    : Q1D x Q1D x Q1D x NE   (qx runs fastest; Jacobian determinant times quadrature weight)
 *   B    : Q1D x D1D, column-major (qx runs fastest)
 *
 * Each one-dimensional contraction is an 8x8x8 product per slice and runs on the FP64 tensor cores (DMMA 8x8x4).
 * D1D, Q1D <= 8; what is missing is padded with zeros.
 */
#include <cuda_runtime.h>

#define MFMA_N     8
#define NUM_WARPS  4
#define SLICE_LD   9                     /* 8 + 1 */
#define SLICE      (MFMA_N * SLICE_LD)

#define FOR_SLICES(s) for (int s = threadIdx.x / 32; s < MFMA_N; s += NUM_WARPS)

__device__ static inline void dmma(double &c0, double &c1, const double a, const double b)
{
   asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};\n"
       : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
}

/* The 1D operator as both operands: rows of M on the left, rows of M (so M transposed) on the right: the same values */
struct Operator1D
{
   double m[2];                          /* M[lane / 4][4 * k + lane % 4] */

   __device__ void load(const double (*M)[MFMA_N])
   {
      const int lane = threadIdx.x % 32;
      for (int k = 0; k < 2; k++) { m[k] = M[lane / 4][4 * k + lane % 4]; }
   }
};

/* out[z][y][i] = sum_x M[i][x] u[z][y][x], in place */
__device__ static void contract_x(double *u, const Operator1D &M)
{
   const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
   FOR_SLICES(z)
   {
      double *s = u + z * SLICE;
      double c0 = 0.0, c1 = 0.0;
      for (int k = 0; k < 2; k++) { dmma(c0, c1, s[g * SLICE_LD + 4 * k + t], M.m[k]); }
      __syncwarp();
      s[g * SLICE_LD + 2 * t]     = c0;
      s[g * SLICE_LD + 2 * t + 1] = c1;
      __syncwarp();
   }
}

/* out[z][i][x] = sum_y M[i][y] u[z][y][x], in place; the warp that has slice z had it before */
__device__ static void contract_y(double *u, const Operator1D &M)
{
   const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
   FOR_SLICES(z)
   {
      double *s = u + z * SLICE;
      double c0 = 0.0, c1 = 0.0;
      for (int k = 0; k < 2; k++) { dmma(c0, c1, M.m[k], s[(4 * k + t) * SLICE_LD + g]); }
      __syncwarp();
      s[g * SLICE_LD + 2 * t]     = c0;
      s[g * SLICE_LD + 2 * t + 1] = c1;
      __syncwarp();
   }
}

/* out[i][y][x] = sum_z M[i][z] u[z][y][x], in place: slices of constant y, so all warps meet before and after */
__device__ static void contract_z(double *u, const Operator1D &M)
{
   const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
   __syncthreads();
   FOR_SLICES(y)
   {
      double *s = u + y * SLICE_LD;
      double c0 = 0.0, c1 = 0.0;
      for (int k = 0; k < 2; k++) { dmma(c0, c1, M.m[k], s[(4 * k + t) * SLICE + g]); }
      __syncwarp();
      s[g * SLICE + 2 * t]     = c0;
      s[g * SLICE + 2 * t + 1] = c1;
   }
   __syncthreads();
}

template <int D1D, int Q1D>
__global__ void __launch_bounds__(32 * NUM_WARPS)
PAMassApply3D(const int NE, const double *__restrict__ B, const double *__restrict__ D,
              const double *__restrict__ X, double *__restrict__ Y)
{
   static_assert(D1D <= MFMA_N && Q1D <= MFMA_N, "");
   const int e = blockIdx.x;
   const int tid = threadIdx.x;
   if (e >= NE) { return; }

   __shared__ double sB[MFMA_N][MFMA_N];     /* [q][d] */
   __shared__ double sBt[MFMA_N][MFMA_N];    /* [d][q] */
   __shared__ double u[MFMA_N * SLICE];

   for (int i = tid; i < MFMA_N * MFMA_N; i += 32 * NUM_WARPS)
   {
      const int q = i % MFMA_N, d = i / MFMA_N;
      const double b = (q < Q1D && d < D1D) ? B[q + Q1D * d] : 0.0;
      sB[q][d] = b;
      sBt[d][q] = b;
   }
   for (int i = tid; i < MFMA_N * MFMA_N * MFMA_N; i += 32 * NUM_WARPS)
   {
      const int dx = i % MFMA_N, dy = i / MFMA_N % MFMA_N, dz = i / (MFMA_N * MFMA_N);
      const bool dof = dx < D1D && dy < D1D && dz < D1D;
      u[dz * SLICE + dy * SLICE_LD + dx] = dof ? X[dx + D1D * (dy + D1D * (dz + D1D * e))] : 0.0;
   }
   __syncthreads();

   Operator1D M;
   M.load(sB);
   contract_x(u, M);
   contract_y(u, M);
   contract_z(u, M);

   /* values at quadrature points */
   for (int i = tid; i < Q1D * Q1D * Q1D; i += 32 * NUM_WARPS)
   {
      const int qx = i % Q1D, qy = i / Q1D % Q1D, qz = i / (Q1D * Q1D);
      u[qz * SLICE + qy * SLICE_LD + qx] *= D[i + Q1D * Q1D * Q1D * e];
   }
   __syncthreads();

   M.load(sBt);
   contract_x(u, M);
   contract_y(u, M);
   contract_z(u, M);

   for (int i = tid; i < D1D * D1D * D1D; i += 32 * NUM_WARPS)
   {
      const int dx = i % D1D, dy = i / D1D % D1D, dz = i / (D1D * D1D);
      Y[i + D1D * D1D * D1D * e] += u[dz * SLICE + dy * SLICE_LD + dx];
   }
}

template __global__ void PAMassApply3D<5, 6>(const int, const double *, const double *, const double *, double *);

void MassApply(const int NE, const double *B, const double *D, const double *X, double *Y)
{
   PAMassApply3D<5, 6><<<NE, 32 * NUM_WARPS>>>(NE, B, D, X, Y);
}
