// k-means, run-length encoding, word count, DBSCAN-like neighbourhoods and a summed area table with Thrust and CUB.
// nvcc --extended-lambda -std=c++17 -O2 10_thrust_kmeans.cu
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>
#include <thrust/universal_vector.h>

#include <cub/cub.cuh>

#include <cassert>
#include <cfloat>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

using Point = thrust::tuple<float, float>;

struct NearestCenter {
  const float *cx, *cy;
  int k;
  __host__ __device__ int operator()(const Point &p) const {
    float best = FLT_MAX;
    int arg = -1;
    for (int i = 0; i < k; i++) {
      float dx = thrust::get<0>(p) - cx[i], dy = thrust::get<1>(p) - cy[i];
      float d = dx * dx + dy * dy;
      if (d < best) { best = d; arg = i; }
    }
    return arg;
  }
};

struct AddTuples {
  __host__ __device__ thrust::tuple<float, float, int> operator()(const thrust::tuple<float, float, int> &a,
                                                                  const thrust::tuple<float, float, int> &b) const {
    return thrust::make_tuple(thrust::get<0>(a) + thrust::get<0>(b), thrust::get<1>(a) + thrust::get<1>(b),
                              thrust::get<2>(a) + thrust::get<2>(b));
  }
};

struct RandomPoint {
  unsigned seed;
  int clusters;
  __device__ Point operator()(unsigned i) const {
    thrust::default_random_engine rng(seed);
    rng.discard(4 * i);
    thrust::uniform_int_distribution<int> which(0, clusters - 1);
    thrust::normal_distribution<float> noise(0.0f, 0.05f);
    int c = which(rng);
    return Point(cosf(6.2831853f * c / clusters) + noise(rng), sinf(6.2831853f * c / clusters) + noise(rng));
  }
};

template <typename Vector>
void print_range(const std::string &name, const Vector &v) {
  typedef typename Vector::value_type T;
  std::cout << "  " << name << ": ";
  thrust::copy(v.begin(), v.end(), std::ostream_iterator<T>(std::cout, " "));
  std::cout << "\n";
}

bool kmeans() {
  const int n = 20000, k = 6;
  thrust::device_vector<float> x(n), y(n);
  auto points = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), y.begin()));
  thrust::transform(thrust::counting_iterator<unsigned>(0), thrust::counting_iterator<unsigned>(n), points, RandomPoint{17u, k});

  thrust::host_vector<float> hx(k), hy(k);
  for (int c = 0; c < k; c++) {
    hx[c] = 0.8f * cosf(6.2831853f * (c + 0.2f) / k);
    hy[c] = 0.8f * sinf(6.2831853f * (c + 0.2f) / k);
  }
  thrust::device_vector<float> cx = hx, cy = hy;
  thrust::device_vector<int> label(n), order(n), keys(k);
  thrust::device_vector<float> sx(k), sy(k);
  thrust::device_vector<int> count(k);
  float moved = 1;
  int iterations = 0;
  while (moved > 1e-5f && iterations++ < 20) {
    thrust::transform(points, points + n, label.begin(),
                      NearestCenter{thrust::raw_pointer_cast(cx.data()), thrust::raw_pointer_cast(cy.data()), k});
    thrust::device_vector<int> sorted = label;
    thrust::sequence(order.begin(), order.end());
    thrust::stable_sort_by_key(sorted.begin(), sorted.end(), order.begin());
    auto gathered = thrust::make_zip_iterator(
        thrust::make_tuple(thrust::make_permutation_iterator(x.begin(), order.begin()),
                           thrust::make_permutation_iterator(y.begin(), order.begin()), thrust::constant_iterator<int>(1)));
    auto ends = thrust::reduce_by_key(sorted.begin(), sorted.end(), gathered, keys.begin(),
                                      thrust::make_zip_iterator(thrust::make_tuple(sx.begin(), sy.begin(), count.begin())),
                                      thrust::equal_to<int>(), AddTuples());
    if (ends.first - keys.begin() != k) return false;
    thrust::device_vector<float> nx(k), ny(k);
    thrust::transform(sx.begin(), sx.end(), count.begin(), nx.begin(), [] __device__(float s, int c) { return s / c; });
    thrust::transform(sy.begin(), sy.end(), count.begin(), ny.begin(), [] __device__(float s, int c) { return s / c; });
    moved = thrust::inner_product(nx.begin(), nx.end(), cx.begin(), 0.0f, thrust::maximum<float>(),
                                  [] __host__ __device__(float a, float b) { return fabsf(a - b); });
    cx.swap(nx);
    cy.swap(ny);
  }
  print_range("centers x", cx);
  print_range("members", count);
  bool ok = thrust::reduce(count.begin(), count.end()) == n;
  for (int c = 0; c < k; c++)
    ok = ok && std::abs(cx[c] - std::cos(6.2831853f * c / k)) < 0.02 && std::abs(cy[c] - std::sin(6.2831853f * c / k)) < 0.02;
  std::cout << "k-means after " << iterations << " iterations: " << (ok ? "ok" : "wrong") << "\n";
  return ok;
}

struct is_alpha {
  __host__ __device__ bool operator()(const char c) const { return c >= 'A' && c <= 'z'; }
};
struct is_word_start {
  __host__ __device__ bool operator()(const char &left, const char &right) const {
    return is_alpha()(right) && !is_alpha()(left);
  }
};

bool words() {
  const char text[] = "the quick brown fox jumps over the lazy dog and the dog does not mind the fox at all";
  thrust::device_vector<char> input(text, text + sizeof(text) - 1);
  int wc = thrust::inner_product(input.begin(), input.end() - 1, input.begin() + 1, 0, thrust::plus<int>(), is_word_start());
  if (is_alpha()(input.front())) wc++;

  thrust::device_vector<char> letters(input.size());
  auto end = thrust::copy_if(input.begin(), input.end(), letters.begin(), is_alpha());
  letters.erase(end, letters.end());
  thrust::sort(letters.begin(), letters.end());
  thrust::device_vector<char> value(26);
  thrust::device_vector<int> times(26);
  auto last = thrust::reduce_by_key(letters.begin(), letters.end(), thrust::make_constant_iterator(1), value.begin(), times.begin());
  std::map<char, int> ref;
  for (char c : text) if (c >= 'a') ref[c]++;
  bool ok = wc == 19 && size_t(last.first - value.begin()) == ref.size();
  int i = 0;
  for (auto &[c, t] : ref) { ok = ok && value[i] == c && times[i] == t; i++; }
  std::cout << "words " << wc << ", letters " << ref.size() << (ok ? ": ok\n" : ": wrong\n");
  return ok;
}

struct transpose_index {
  size_t m, n;
  __host__ __device__ size_t operator()(size_t linear) const { return m * (linear % n) + linear / n; }
};
struct row_index {
  size_t n;
  __host__ __device__ size_t operator()(size_t i) const { return i / n; }
};

bool summedArea() {
  const size_t m = 60, n = 45;
  thrust::device_vector<int> data(m * n, 1), out(m * n);
  thrust::counting_iterator<size_t> indices(0);
  auto rows = [&](size_t width) { return thrust::make_transform_iterator(indices, row_index{width}); };
  thrust::inclusive_scan_by_key(rows(n), rows(n) + m * n, data.begin(), data.begin());
  auto t = thrust::make_transform_iterator(indices, transpose_index{n, m});
  thrust::gather(t, t + m * n, data.begin(), out.begin());
  thrust::inclusive_scan_by_key(rows(m), rows(m) + m * n, out.begin(), out.begin());
  thrust::host_vector<int> h = out;
  bool ok = true;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < m; j++) ok = ok && h[i * m + j] == int((i + 1) * (j + 1));
  std::cout << "summed area table: " << (ok ? "ok\n" : "wrong\n");
  return ok;
}

__global__ void cubBlockHistogram(const unsigned char *in, int n, unsigned *hist) {
  typedef cub::BlockHistogram<unsigned char, 128, 4, 256> BlockHistogram;
  typedef cub::BlockLoad<unsigned char, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE> BlockLoad;
  __shared__ union { typename BlockLoad::TempStorage load; typename BlockHistogram::TempStorage hist; } temp;
  __shared__ unsigned bins[256];
  unsigned char items[4];
  BlockLoad(temp.load).Load(in + blockIdx.x * 512, items);
  __syncthreads();
  BlockHistogram(temp.hist).Histogram(items, bins);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) if (bins[i]) atomicAdd(&hist[i], bins[i]);
}

bool cubs() {
  const int n = 64 * 512;
  thrust::host_vector<unsigned char> h(n);
  for (auto &v : h) v = rand() % 97;
  thrust::device_vector<unsigned char> d = h;
  thrust::device_vector<unsigned> hist(256, 0u);
  cubBlockHistogram<<<n / 512, 128>>>(thrust::raw_pointer_cast(d.data()), n, thrust::raw_pointer_cast(hist.data()));
  cudaDeviceSynchronize();
  bool ok = true;
  for (int b = 0; b < 256; b++) ok = ok && (int)hist[b] == (int)std::count(h.begin(), h.end(), (unsigned char)b);

  // two-phase device calls
  thrust::device_vector<int> keys(n), sorted(n), values(n), permuted(n), unique(n), lengths(n), runs(1);
  thrust::tabulate(keys.begin(), keys.end(), [] __device__(int i) { return (int)((i * 2654435761u) >> 20) % 300; });
  thrust::sequence(values.begin(), values.end());
  void *temp = nullptr;
  size_t bytes = 0;
  auto raw = [](auto &v) { return thrust::raw_pointer_cast(v.data()); };
  cub::DeviceRadixSort::SortPairs(temp, bytes, raw(keys), raw(sorted), raw(values), raw(permuted), n);
  cudaMalloc(&temp, bytes);
  cub::DeviceRadixSort::SortPairs(temp, bytes, raw(keys), raw(sorted), raw(values), raw(permuted), n);
  cudaFree(temp);
  temp = nullptr, bytes = 0;
  cub::DeviceRunLengthEncode::Encode(temp, bytes, raw(sorted), raw(unique), raw(lengths), raw(runs), n);
  cudaMalloc(&temp, bytes);
  cub::DeviceRunLengthEncode::Encode(temp, bytes, raw(sorted), raw(unique), raw(lengths), raw(runs), n);
  cudaFree(temp);
  int r = runs[0];
  ok = ok && thrust::is_sorted(sorted.begin(), sorted.end()) &&
       thrust::reduce(lengths.begin(), lengths.begin() + r) == n &&
       thrust::equal(sorted.begin(), sorted.end(), thrust::make_permutation_iterator(keys.begin(), permuted.begin()));
  std::cout << "cub: " << r << " runs: " << (ok ? "ok\n" : "wrong\n");
  return ok;
}

bool misc() {
  cudaStream_t s;
  cudaStreamCreate(&s);
  thrust::universal_vector<int> u(1000);
  thrust::sequence(thrust::cuda::par.on(s), u.begin(), u.end(), 1);
  auto mid = thrust::stable_partition(thrust::cuda::par.on(s), u.begin(), u.end(), [] __host__ __device__(int v) { return v % 3 == 0; });
  cudaStreamSynchronize(s);
  bool ok = mid - u.begin() == 333 && u[0] == 3 && u[999] == 1000;
  // sets
  std::vector<int> a = {1, 3, 5, 7, 9, 11}, b = {1, 1, 2, 3, 5, 8, 13};
  thrust::device_vector<int> A(a.begin(), a.end()), B(b.begin(), b.end()), C(20);
  auto e = thrust::set_intersection(A.begin(), A.end(), B.begin(), B.end(), C.begin());
  ok = ok && e - C.begin() == 3;
  e = thrust::set_union(thrust::device, A.begin(), A.end(), B.begin(), B.end(), C.begin());
  ok = ok && e - C.begin() == 10;
  // minmax, transform_reduce, lower_bound
  thrust::device_vector<float> f(5000);
  thrust::counting_iterator<int> it(0);
  thrust::transform(it, it + 5000, f.begin(), [=] __device__(int i) { return sinf(0.01f * i); });
  auto mm = thrust::minmax_element(f.begin(), f.end());
  float norm = std::sqrt(thrust::transform_reduce(f.begin(), f.end(), [] __host__ __device__(float v) { return v * v; }, 0.0f, thrust::plus<float>()));
  ok = ok && *mm.first < -0.99f && *mm.second > 0.99f && std::abs(norm - 50) < 1;
  thrust::sort(f.begin(), f.end(), thrust::greater<float>());
  thrust::device_vector<float> probes(3);
  probes[0] = 2; probes[1] = 0; probes[2] = -2;
  thrust::device_vector<unsigned> where(3);
  thrust::lower_bound(f.begin(), f.end(), probes.begin(), probes.end(), where.begin(), thrust::greater<float>());
  ok = ok && where[0] == 0 && where[2] == 5000 && thrust::all_of(f.begin(), f.begin() + where[1], [] __host__ __device__(float v) { return v > 0; });
  int left = thrust::remove_if(f.begin(), f.end(), [] __device__(float v) { return v < 0; }) - f.begin();
  ok = ok && left >= (int)where[1];
  thrust::device_ptr<int> p = thrust::device_malloc<int>(10);
  thrust::fill_n(p, 10, 4);
  ok = ok && thrust::count(p, p + 10, 4) == 10;
  thrust::device_free(p);
  cudaStreamDestroy(s);
  std::cout << "misc: " << (ok ? "ok\n" : "wrong\n");
  return ok;
}

int main(void) {
  std::cout << "Thrust v" << THRUST_MAJOR_VERSION << "." << THRUST_MINOR_VERSION << std::endl;
  bool ok = kmeans();
  ok = words() && ok;
  ok = summedArea() && ok;
  ok = cubs() && ok;
  ok = misc() && ok;
  std::cout << (ok ? "TEST PASSED" : "TEST FAILED") << std::endl;
  return !ok;
}
