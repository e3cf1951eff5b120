// Kernels that launch kernels: a sum whose levels launch each other, a tree of printing blocks, an order of streams. `wrong`: kernels that
// read what they launched others to write, and change what those read; the last one that is launched writes behind its array.
#include <cstdio>
#include <cstring>
#include <vector>

template <int threads>
__global__ void partial_sums(const int* in, int* out, int n) {
    __shared__ int s[threads];
    const int i = blockIdx.x * threads + threadIdx.x;
    s[threadIdx.x] = i < n ? in[i] : 0;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}

__global__ void sum(int* in, int* out, int n) {
    const int blocks = (n + 127) / 128;
    partial_sums<128><<<blocks, 128>>>(in, out, n);
    if (blocks > 1) sum<<<1, 1>>>(out, in, blocks);
}

__global__ void tree(int depth, int most, int from) {
    printf("block %d of %d, launched by %d, at depth %d\n", blockIdx.x, gridDim.x, from, depth);
    if (depth < most) tree<<<2, 1>>>(depth + 1, most, blockIdx.x);
}

__global__ void add(int* x, int what) { *x = *x * 10 + what; }

__global__ void ordered(int* x) {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    add<<<1, 1, 0, cudaStreamTailLaunch>>>(x, 3);
    add<<<1, 1, 0, s>>>(x, 1);
    add<<<1, 1, 0, s>>>(x, 2);
    cudaStreamDestroy(s);
    add<<<1, 2000>>>(x, 9);
    printf("too many threads: %d, then %d\n", cudaGetLastError(), cudaGetLastError());
}

__global__ void fill(int* x, int n) { x[threadIdx.x] = n; }

struct Line {
    int n;
    int* values;
};

__global__ void lines_of(Line* lines, Line* copy, int n) {
    Line& one = lines[threadIdx.x];
    one.n = threadIdx.x + 1;
    cudaMalloc((void**)&one.values, one.n * sizeof(int));
    cudaMemsetAsync(one.values, 0, one.n * sizeof(int), nullptr);
    partial_sums<32><<<1, 32>>>(one.values, one.values, one.n);
    fill<<<1, one.n>>>(one.values, 5);
    if (threadIdx.x == n - 1) cudaMemcpyAsync(copy, lines, n * sizeof(Line), cudaMemcpyDeviceToDevice, nullptr);
}

__global__ void end_of(Line* lines, int* sum) {
    for (int i = 0; i < lines[threadIdx.x].n; i++) atomicAdd(sum, lines[threadIdx.x].values[i]);
    cudaFree(lines[threadIdx.x].values);
}

__global__ void beyond(int* x) {
    if (threadIdx.x == 0) fill<<<1, 33>>>(x, 7);
}

__global__ void adds(const int* x, int* sum) { atomicAdd(sum, x[threadIdx.x]); }

__global__ void kept(int* x, int* sum) {
    x[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        adds<<<1, 16>>>(x, sum);
        x[16] = 3;  // before the launch that reads it
        adds<<<1, 1>>>(x + 16, sum);
        fill<<<1, 17, 0, cudaStreamTailLaunch>>>(x, 9);
    }
    atomicAdd(sum, x[threadIdx.x]);
    x[threadIdx.x] = threadIdx.x;  // what it is already
}

__global__ void hasty(int* x, int* sum) {
    fill<<<1, 16>>>(x, 5);
    *sum += x[3];
}

__global__ void reuses(int* x, int* sum) {
    adds<<<1, 16>>>(x, sum);
    x[2] = 100;
}

int main(int argc, char** argv) {
    const int n = 100000;
    std::vector<int> numbers(n);
    long expected = 0;
    for (int i = 0; i < n; i++) expected += numbers[i] = i % 7;
    int *a, *b, *x;
    cudaMalloc(&a, n * sizeof(int));
    cudaMalloc(&b, n * sizeof(int));
    cudaMalloc(&x, 32 * sizeof(int));
    for (int again = 0; again < 2; again++) {
        cudaMemcpy(a, numbers.data(), n * sizeof(int), cudaMemcpyHostToDevice);
        sum<<<1, 1>>>(a, b, n);
        int got = 0;
        cudaMemcpy(&got, b, sizeof got, cudaMemcpyDeviceToHost);
        printf("sum %s\n", got == expected ? "right" : "wrong");
    }
    tree<<<1, 1>>>(0, 2, -1);
    cudaDeviceSynchronize();
    cudaMemset(x, 0, 32 * sizeof(int));
    ordered<<<1, 1>>>(x);
    int order = 0;
    cudaMemcpy(&order, x, sizeof order, cudaMemcpyDeviceToHost);
    printf("order %d\n", order);
    Line *lines, *copy;
    cudaMalloc(&lines, 8 * sizeof(Line));
    cudaMalloc(&copy, 8 * sizeof(Line));
    cudaMemset(x, 0, sizeof(int));
    lines_of<<<1, 8>>>(lines, copy, 8);
    end_of<<<1, 8>>>(copy, x);
    int total = 0;
    cudaMemcpy(&total, x, sizeof total, cudaMemcpyDeviceToHost);
    printf("total %d\n", total);
    kept<<<1, 16>>>(x, x + 31);
    if (argc > 1 && strcmp(argv[1], "wrong") == 0) {
        hasty<<<1, 1>>>(x, x + 31);
        reuses<<<1, 1>>>(x, x + 31);
        beyond<<<1, 32>>>(x);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    cudaFree(a), cudaFree(b), cudaFree(x), cudaFree(lines), cudaFree(copy);
    return order == 123 ? 0 : 2;
}
