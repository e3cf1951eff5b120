// Kernels over lambdas of host code (nvcc --extended-lambda): captures by value, of arrays, in templates, classes and
// namespaces, and of objects, by address or as copies. "beyond" launches one element too many: the access out of bounds is
// the lambda's own line.
#include <cmath>
#include <cstdio>
#include <cstring>

template <class Op>
__global__ void for_each(int n, const Op op) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) op(i);
}

template <class Op, class... More>
__global__ void with_more(int n, Op op, More... more) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) op(i, more...);
}

namespace {
__device__ float twice(float x) { return 2 * x; }
void fill(float* out, int n) {
    const float shift = std::sqrt(4.0f);
    for_each<<<(n + 63) / 64, 64>>>(n, [=] __device__(int i) { out[i] = twice(shift) + i; });
}
}  // namespace

namespace filters {
constexpr float bias = 4;
enum class Mode { add, leave };

template <int Radius>
class Stencil {
public:
    using value_type = float;
    static constexpr int width = 2 * Radius + 1;
    explicit Stencil(value_type* data) : data_(data) {}
    void apply(value_type* out, int n, Mode mode) const {
        const value_type* in = data_;
        value_type weights[width];
        for (int k = 0; k < width; ++k) weights[k] = 1.0f / (k + 1);
        constexpr int threads = 32;
        for_each<<<(n + threads - 1) / threads, threads>>>(n, [=] __device__(int i) {
            value_type sum = 0;
            // neighbours, clamped
#pragma unroll
            for (int k = 0; k < width; ++k) sum += weights[k] * in[min(max(i + k - Radius, 0), n - 1)];
            out[i] = mode == Mode::add ? sum + bias : sum;
        });
    }

private:
    value_type* data_;
};

template <class T>
T add(T* data, int n, double extra) {
    int calls = 3;
    with_more<<<1, 128>>>(
        n,
        [data, more = extra + calls, calls] __device__(auto i, T last) mutable -> void {
            calls += 1;
            data[i] += static_cast<T>(more) + last + calls;
        },
        T(5));
    T found = 0;
    cudaMemcpy(&found, data + n - 1, sizeof(T), cudaMemcpyDeviceToHost);
    return found;
}
}  // namespace filters

struct Scaled {
    explicit Scaled(float factor) : factor_(factor) {}

protected:
    __device__ float scaled(float x) const { return factor_ * x; }
    float factor_;
};
class Adder : Scaled {
    float *data_, shift_ = 1;

public:
    Adder(float* data, float factor) : Scaled(factor), data_(data) {}
    void add(int n);
    void add_copied(int n) {
        for_each<<<1, 128>>>(n, [*this] __device__(int i) { data_[i] += shift_; });
        shift_ = 1000;  // the copy is made
    }
};
void Adder::add(int n) {
    float more = 2;
    for_each<<<1, 128>>>(n, [this, more] __device__(int i) { this->data_[i] += scaled(shift_) + more; });
}

int main(int argc, char** argv) {
    const bool beyond = argc > 1 && std::strcmp(argv[1], "beyond") == 0;
    const int n = 100;
    float *a, *b;
    cudaMallocManaged(&a, n * sizeof(float));
    cudaMallocManaged(&b, n * sizeof(float));
    fill(a, n);
    filters::Stencil<2>(a).apply(b, n, filters::Mode::add);
    cudaDeviceSynchronize();
    float expected = filters::bias;
    for (int k = 0; k < 5; ++k) expected += a[50 + k - 2] / (k + 1);
    bool right = a[7] == 11 && std::fabs(b[50] - expected) < 1e-4f;
    const float before = b[n - 1];
    right = right && filters::add(b, n, 2.0) == before + 5 + 5 + 4;

    auto square = [] __host__ __device__(float x) { return x * x; };
    for_each<<<1, 128>>>(n + beyond, [=] __device__(int i) {
        b[i] = square(a[i]);
    });
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    for (int i = 0; i < n; ++i) right = right && b[i] == square(a[i]);
    Adder* adder;
    cudaMallocManaged(&adder, sizeof(Adder));
    *adder = Adder(b, 3);
    adder->add(n);
    cudaDeviceSynchronize();
    adder->add_copied(n);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; ++i) right = right && b[i] == square(a[i]) + 6;
    std::puts(right ? "PASSED" : "FAILED");
    return right ? 0 : 1;
}
