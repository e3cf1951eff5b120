// function pointers, virtual functions, placement new, __managed__, constant symbols, templates of kernels over policies, assert, printf
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <cuda_runtime.h>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess) { fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line); if (abort) exit(code); }
}

/* ---------------- sobel-like point ops chosen by function pointer */
typedef unsigned char Pixel;
typedef Pixel (*blockFunction_t)(Pixel, Pixel, Pixel, Pixel, Pixel, Pixel, Pixel, Pixel, Pixel, float);
typedef Pixel (*pointFunction_t)(Pixel, float);

__device__ Pixel ComputeSobel(Pixel ul, Pixel um, Pixel ur, Pixel ml, Pixel mm, Pixel mr, Pixel ll, Pixel lm, Pixel lr, float fScale)
{
    short Horz = ur + 2 * mr + lr - ul - 2 * ml - ll;
    short Vert = ul + 2 * um + ur - ll - 2 * lm - lr;
    short Sum = (short)(fScale * (abs((int)Horz) + abs((int)Vert)));
    return (Pixel)((Sum < 0) ? 0 : ((Sum > 255) ? 255 : Sum));
}
__device__ Pixel ComputeBox(Pixel ul, Pixel um, Pixel ur, Pixel ml, Pixel mm, Pixel mr, Pixel ll, Pixel lm, Pixel lr, float fscale)
{
    short Sum = (short)(ul + um + ur + ml + mm + mr + ll + lm + lr) / 9;
    Sum *= fscale;
    return (Pixel)((Sum < 0) ? 0 : ((Sum > 255) ? 255 : Sum));
}
__device__ Pixel Threshold(Pixel in, float thresh) { return in > thresh ? 0xFF : 0; }
__device__ Pixel PassThrough(Pixel in, float) { return in; }

// declare function tables, one for block functions, one for point functions; initialised statically
__device__ blockFunction_t blockFunction_table[2] = {ComputeSobel, ComputeBox};
__device__ pointFunction_t pointFunction_table[2];
__device__ pointFunction_t pPassThrough = PassThrough;
__device__ pointFunction_t pThreshold = Threshold;
pointFunction_t h_pointFunction_table[2];

void setupFunctionTables()
{
    gpuErrchk(cudaMemcpyFromSymbol(&h_pointFunction_table[0], pPassThrough, sizeof(pointFunction_t)));
    gpuErrchk(cudaMemcpyFromSymbol(&h_pointFunction_table[1], pThreshold, sizeof(pointFunction_t)));
    gpuErrchk(cudaMemcpyToSymbol(pointFunction_table, h_pointFunction_table, sizeof(pointFunction_t) * 2));
}

__constant__ struct { int width, height; float scale, threshold; } params;
__constant__ float gauss[8];
__managed__ unsigned long long checksum;
__managed__ int histogram[256];

__global__ void filter(const Pixel *in, Pixel *out, int blockOp, int pointOp)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= params.width - 1 || y >= params.height - 1) return;
    const Pixel *p = in + y * params.width + x;
    int w = params.width;
    Pixel v = (*(blockFunction_table[blockOp]))(p[-w - 1], p[-w], p[-w + 1], p[-1], p[0], p[1], p[w - 1], p[w], p[w + 1], params.scale);
    v = (*pointFunction_table[pointOp])(v, params.threshold);
    out[y * w + x] = v;
    atomicAdd(&checksum, (unsigned long long)v);
    atomicAdd(histogram + v, 1);
}

/* ---------------- virtual functions, containers in device memory */
template <class T> class Container {
public:
    __device__ Container() { ; }
    __device__ virtual ~Container() { ; }
    __device__ virtual void push(T e) = 0;
    __device__ virtual bool pop(T &e) = 0;
};
template <class T> class Vector : public Container<T> {
public:
    __device__ Vector(int max_size) : m_top(-1), m_data(new T[max_size]), max_size(max_size) {}
    __device__ Vector(T *preallocated_storage) : m_top(-1), m_data(preallocated_storage), max_size(1 << 30) {}
    __device__ ~Vector() { if (m_data && max_size < (1 << 30)) delete[] m_data; }
    __device__ virtual void push(T e)
    {
        if (m_data) {
            int idx = atomicAdd(&(this->m_top), 1);
            m_data[idx + 1] = e;
        }
    }
    __device__ virtual bool pop(T &e)
    {
        if (m_data && m_top >= 0) {
            int idx = atomicAdd(&(this->m_top), -1);
            if (idx >= 0) { e = m_data[idx]; return true; }
        }
        return false;
    }
private:
    int m_top;
    T *m_data;
    int max_size;
};
__device__ Container<int> *g_container;

__global__ void containerCreate(int max_size)
{
    if (threadIdx.x == 0) g_container = new Vector<int>(max_size);
}
__global__ void containerConsume(int *d_result)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int v;
    if (g_container->pop(v)) d_result[idx] = v;
    else d_result[idx] = -1;
}
__global__ void containerProduce() { g_container->push(blockIdx.x * blockDim.x + threadIdx.x); }
__global__ void containerDelete() { if (threadIdx.x == 0) delete g_container; }

struct ComplexType_t { int a, b; float c, d; };
__global__ void placementNew(int *d_result)
{
    __shared__ unsigned char __align__(8) s_buffer[sizeof(Vector<int>)];
    __shared__ int __align__(8) s_data[1024];
    __shared__ Vector<int> *s_vector;
    if (threadIdx.x == 0) s_vector = new (s_buffer) Vector<int>(s_data);
    __syncthreads();
    if ((threadIdx.x % 2) == 0) s_vector->push(threadIdx.x >> 1);
    // Need to sync as the vector implementation does not support concurrent push/pop operations.
    __syncthreads();
    int v;
    if (s_vector->pop(v)) d_result[threadIdx.x] = v;
    else d_result[threadIdx.x] = -1;
}

/* ---------------- policies */
struct Shape { __device__ virtual float area() const = 0; __device__ virtual ~Shape() {} };
struct Square : Shape { float s; __device__ Square(float s) : s(s) {} __device__ float area() const override { return s * s; } };
struct Circle final : public Shape { float r; __device__ Circle(float r) : r(r) {} __device__ float area() const override { return 3.f * r * r; } };
__global__ void make_shapes(Shape **shapes, int n) { int i = threadIdx.x; if (i < n) { if (i & 1) shapes[i] = new Circle(i); else shapes[i] = new Square(i); } }
__global__ void areas(Shape **shapes, float *out, int n) { int i = threadIdx.x; if (i < n) out[i] = shapes[i]->area(); }
__global__ void free_shapes(Shape **shapes, int n) { if (threadIdx.x < n) delete shapes[threadIdx.x]; }

template <typename T, T (*Op)(T, T)> __global__ void zipWith(T *a, const T *b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; assert(n > 0); if (i < n) a[i] = Op(a[i], b[i]); }
template <typename T> __device__ T add(T a, T b) { return a + b; }
template <typename T> __device__ T maxi(T a, T b) { return a > b ? a : b; }

__global__ void say(const char *what, float v)
{
    if (threadIdx.x == 3) printf("[%d, %d]: %s %5.2f %c %s %#x %lld %%\n", blockIdx.x, threadIdx.x, what, v, 'c', "literal", 255u, 1ll << 40);
}
__global__ void polynomial(float *x) { float v = x[threadIdx.x], s = 0;
#pragma unroll
    for (int k = 7; k >= 0; --k) s = fmaf(s, v, gauss[k]);
    x[threadIdx.x] = s; }

static bool ok = true;
#define REQUIRE(c) do { if (!(c)) { ok = false; printf("line %d: %s\n", __LINE__, #c); } } while (0)

int main(int argc, const char **argv)
{
    const int W = 64, H = 48;
    setupFunctionTables();
    struct { int w, h; float s, t; } hp = {W, H, 1.0f, 100.f};
    gpuErrchk(cudaMemcpyToSymbol(params, &hp, sizeof hp));
    float g[8] = {1, .5f, .25f, .125f, 0, 0, 2, 1};
    gpuErrchk(cudaMemcpyToSymbol(gauss, g, 4 * sizeof(float)));
    gpuErrchk(cudaMemcpyToSymbol(gauss, g + 4, 4 * sizeof(float), 4 * sizeof(float), cudaMemcpyHostToDevice));
    void *address; size_t size;
    gpuErrchk(cudaGetSymbolAddress(&address, gauss));
    gpuErrchk(cudaGetSymbolSize(&size, gauss));
    REQUIRE(size == 32 && address);
    Pixel *in, *out, *hin = (Pixel *)malloc(W * H), *hout = (Pixel *)malloc(W * H);
    for (int i = 0; i < W * H; ++i) hin[i] = (i * 37 ^ i >> 3) & 255;
    gpuErrchk(cudaMalloc(&in, W * H)); gpuErrchk(cudaMalloc(&out, W * H));
    gpuErrchk(cudaMemcpy(in, hin, W * H, cudaMemcpyHostToDevice));
    for (int op = 0; op < 4; ++op) {
        checksum = 0; memset(histogram, 0, sizeof histogram);
        gpuErrchk(cudaMemset(out, 0, W * H));
        filter<<<dim3((W + 15) / 16, (H + 15) / 16), dim3(16, 16)>>>(in, out, op & 1, op >> 1);
        gpuErrchk(cudaPeekAtLastError());
        gpuErrchk(cudaDeviceSynchronize());
        gpuErrchk(cudaMemcpy(hout, out, W * H, cudaMemcpyDeviceToHost));
        unsigned long long sum = 0; int n = 0;
        for (int i = 0; i < W * H; ++i) sum += hout[i];
        for (int v : histogram) n += v;
        REQUIRE(sum == checksum); REQUIRE(n == (W - 2) * (H - 2));
        if (op >> 1) REQUIRE(histogram[0] + histogram[255] == n);
    }
    size_t heap;
    gpuErrchk(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * 1024 * 1024));
    gpuErrchk(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    REQUIRE(heap >= 16 * 1024 * 1024);
    int *d_result, h_result[256];
    gpuErrchk(cudaMalloc(&d_result, sizeof h_result));
    containerCreate<<<1, 1>>>(256);
    containerProduce<<<1, 256>>>();
    containerConsume<<<1, 256>>>(d_result);
    containerDelete<<<1, 1>>>();
    gpuErrchk(cudaMemcpy(h_result, d_result, sizeof h_result, cudaMemcpyDeviceToHost));
    long total = 0; for (int v : h_result) total += v;
    REQUIRE(total == 255 * 128);
    placementNew<<<1, 256>>>(d_result);
    gpuErrchk(cudaMemcpy(h_result, d_result, sizeof h_result, cudaMemcpyDeviceToHost));
    int minus = 0; for (int v : h_result) minus += v == -1;
    REQUIRE(minus == 128);
    Shape **shapes; float *area;
    gpuErrchk(cudaMalloc(&shapes, 20 * sizeof(Shape *))); gpuErrchk(cudaMallocManaged(&area, 20 * sizeof(float)));
    make_shapes<<<1, 32>>>(shapes, 20); areas<<<1, 32>>>(shapes, area, 20); free_shapes<<<1, 32>>>(shapes, 20);
    gpuErrchk(cudaDeviceSynchronize());
    REQUIRE(area[4] == 16 && area[5] == 75);
    float *a, *b; gpuErrchk(cudaMallocManaged(&a, 400)); gpuErrchk(cudaMallocManaged(&b, 400, cudaMemAttachGlobal));
    for (int i = 0; i < 100; ++i) { a[i] = i; b[i] = 50; }
    zipWith<float, add<float>><<<2, 64>>>(a, b, 100);
    zipWith<float, maxi<float>><<<2, 64>>>(a, b, 100);
    void (*kernel)(float *, const float *, int) = argc > 5 ? zipWith<float, maxi> : zipWith<float, add>;
    kernel<<<2, 64>>>(a, b, 100);
    gpuErrchk(cudaDeviceSynchronize());
    REQUIRE(a[0] == 100 && a[99] == 199);
    char *text; gpuErrchk(cudaMallocManaged(&text, 16)); strcpy(text, "value");
    say<<<2, 4>>>(text, 2.5f);
    gpuErrchk(cudaDeviceSynchronize());
    for (int i = 0; i < 32; ++i) a[i] = i * .125f;
    polynomial<<<1, 32>>>(a);
    gpuErrchk(cudaDeviceSynchronize());
    REQUIRE(a[8] == 1 + .5f + .25f + .125f + 2 + 1);
    gpuErrchk(cudaFree(a)); gpuErrchk(cudaFree(b)); gpuErrchk(cudaFree(in)); gpuErrchk(cudaFree(out));
    free(hin); free(hout);
    printf("%s\n", ok ? "Test PASSED" : "Test FAILED");
    gpuErrchk(cudaDeviceReset());
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
