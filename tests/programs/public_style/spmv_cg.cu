// Conjugate gradients on a 2D Poisson matrix in CSR: scalar and vector SpMV, Thrust vectors, CUB reductions.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/fill.h>
#include <thrust/sequence.h>
#include <thrust/scan.h>
#include <thrust/execution_policy.h>
#include <cub/device/device_reduce.cuh>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

struct CsrMatrix {
  int rows = 0, cols = 0;
  thrust::host_vector<int> offsets, indices;
  thrust::host_vector<double> values;
  size_t nnz() const { return values.size(); }
};

static CsrMatrix poisson(int g) {
  CsrMatrix m;
  m.rows = m.cols = g * g;
  m.offsets.push_back(0);
  for (int y = 0; y < g; ++y)
    for (int x = 0; x < g; ++x) {
      auto add = [&](int yy, int xx, double v) {
        if (yy >= 0 && xx >= 0 && yy < g && xx < g) {
          m.indices.push_back(yy * g + xx);
          m.values.push_back(v);
        }
      };
      add(y - 1, x, -1.0);
      add(y, x - 1, -1.0);
      add(y, x, 4.0);
      add(y, x + 1, -1.0);
      add(y + 1, x, -1.0);
      m.offsets.push_back((int)m.indices.size());
    }
  return m;
}

__global__ void spmv_scalar(int rows, const int *offsets, const int *indices, const double *values, const double *x, double *y) {
  int row = blockDim.x * blockIdx.x + threadIdx.x;
  if (row < rows) {
    double dot = 0;
    for (int j = offsets[row]; j < offsets[row + 1]; j++) dot += values[j] * x[indices[j]];
    y[row] = dot;
  }
}

template <int THREADS_PER_ROW>
__global__ void spmv_vector(int rows, const int *__restrict__ offsets, const int *__restrict__ indices,
                            const double *__restrict__ values, const double *__restrict__ x, double *__restrict__ y) {
  const int lane = threadIdx.x & (THREADS_PER_ROW - 1);
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / THREADS_PER_ROW;
  double sum = 0;
  if (row < rows)
    for (int j = offsets[row] + lane; j < offsets[row + 1]; j += THREADS_PER_ROW) sum += values[j] * x[indices[j]];
#pragma unroll
  for (int d = THREADS_PER_ROW / 2; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d, THREADS_PER_ROW);
  if (row < rows && lane == 0) y[row] = sum;
}

struct axpy {
  const double a;
  axpy(double a_) : a(a_) {}
  __host__ __device__ double operator()(const double &x, const double &y) const { return a * x + y; }
};

struct square {
  __host__ __device__ double operator()(double x) const { return x * x; }
};

class Solver {
 public:
  explicit Solver(const CsrMatrix &m) : rows_(m.rows), off_(m.offsets), idx_(m.indices), val_(m.values) {}
  void apply(const thrust::device_vector<double> &x, thrust::device_vector<double> &y, bool vector) const {
    const int *o = thrust::raw_pointer_cast(off_.data()), *i = thrust::raw_pointer_cast(idx_.data());
    const double *v = thrust::raw_pointer_cast(val_.data()), *px = thrust::raw_pointer_cast(&x[0]);
    double *py = thrust::raw_pointer_cast(y.data());
    if (vector) spmv_vector<8><<<(rows_ * 8 + 127) / 128, 128>>>(rows_, o, i, v, px, py);
    else spmv_scalar<<<(rows_ + 127) / 128, 128>>>(rows_, o, i, v, px, py);
  }
  int solve(const thrust::device_vector<double> &b, thrust::device_vector<double> &x, double tol, int max_iter, bool vector) {
    thrust::device_vector<double> r = b, p = b, Ap(rows_);
    thrust::fill(x.begin(), x.end(), 0.0);
    double rr = thrust::inner_product(r.begin(), r.end(), r.begin(), 0.0);
    const double stop = tol * tol * rr;
    int k = 0;
    for (; k < max_iter && rr > stop; ++k) {
      apply(p, Ap, vector);
      const double alpha = rr / thrust::inner_product(p.begin(), p.end(), Ap.begin(), 0.0);
      thrust::transform(p.begin(), p.end(), x.begin(), x.begin(), axpy(alpha));
      thrust::transform(Ap.begin(), Ap.end(), r.begin(), r.begin(), axpy(-alpha));
      const double next = thrust::transform_reduce(r.begin(), r.end(), square(), 0.0, thrust::plus<double>());
      thrust::transform(p.begin(), p.end(), r.begin(), p.begin(), axpy(next / rr));
      rr = next;
    }
    return k;
  }

 private:
  int rows_;
  thrust::device_vector<int> off_, idx_;
  thrust::device_vector<double> val_;
};

int main(int argc, char **argv) {
  int g = 48, iters = 200;
  for (int a = 1; a + 1 < argc; a += 2) {
    if (std::string(argv[a]) == "--grid") g = std::stoi(argv[a + 1]);
    else if (std::string(argv[a]) == "--iterations") iters = std::stoi(argv[a + 1]);
    else { std::fprintf(stderr, "usage: %s [--grid G] [--iterations I]\n", argv[0]); return 1; }
  }
  CsrMatrix m = poisson(g);
  std::printf("%d rows, %zu non-zeros\n", m.rows, m.nnz());
  thrust::device_vector<double> x(m.rows), b(m.rows), truth(m.rows);
  thrust::sequence(truth.begin(), truth.end(), 1.0, 1.0 / m.rows);
  Solver s(m);
  s.apply(truth, b, false);
  bool ok = true;
  for (bool vector : {false, true}) {
    int k = s.solve(b, x, 1e-10, iters, vector);
    // the error, by CUB
    thrust::device_vector<double> diff(m.rows), worst(1);
    auto first = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), truth.begin()));
    thrust::transform(first, first + m.rows, diff.begin(),
                      [] __host__ __device__(const thrust::tuple<double, double> &t) { return fabs(thrust::get<0>(t) - thrust::get<1>(t)); });
    size_t bytes = 0;
    cub::DeviceReduce::Max(nullptr, bytes, diff.begin(), worst.begin(), m.rows);
    thrust::device_vector<char> temp(bytes);
    cub::DeviceReduce::Max(thrust::raw_pointer_cast(temp.data()), bytes, diff.begin(), worst.begin(), m.rows);
    cudaDeviceSynchronize();
    const double e = worst[0];
    std::printf("%s: %d iterations, max error %.3e\n", vector ? "vector" : "scalar", k, e);
    ok = ok && e < 1e-6;
  }
  // prefix sums of row lengths give the offsets again
  thrust::device_vector<int> lengths(m.rows), again(m.rows + 1, 0);
  thrust::device_vector<int> off = m.offsets;
  thrust::transform(thrust::device, off.begin() + 1, off.end(), off.begin(), lengths.begin(), thrust::minus<int>());
  thrust::inclusive_scan(lengths.begin(), lengths.end(), again.begin() + 1);
  ok = ok && thrust::equal(again.begin(), again.end(), off.begin());
  std::puts(ok ? "CG converged: PASSED" : "FAILED");
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
