// Sobol' sequences: every power of two of points has one number in each interval; kernels and host generators agree.
#include <curand.h>
#include <curand_kernel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

int bad = 0;
#define EXPECT(c) ((c) ? 0 : (printf("line %d: " #c "\n", __LINE__), ++bad))

template <class State, class Vectors>
__global__ void draw(Vectors* vectors, unsigned* words, float* uniform, double* normal, int dimensions, int count) {
    const int d = threadIdx.x;
    State state;
    curand_init(vectors[d], 0, &state);
    for (int i = 0; i < count; ++i) words[d * count + i] = unsigned(curand(&state) >> (8 * sizeof(state.number) - 32));
    curand_init(vectors[d], 3, &state);
    uniform[d] = curand_uniform(&state);
    normal[d] = curand_normal_double(&state);
}

int main() {
    const int dimensions = 40, count = 64;
    curandDirectionVectors32_t *all, *d32;
    curandDirectionVectors64_t *all64, *d64;
    EXPECT(curandGetDirectionVectors32(&all, CURAND_DIRECTION_VECTORS_32_JOEKUO6) == CURAND_STATUS_SUCCESS);
    EXPECT(curandGetDirectionVectors64(&all64, CURAND_DIRECTION_VECTORS_64_JOEKUO6) == CURAND_STATUS_SUCCESS);
    std::set<std::vector<unsigned>> different;
    for (int d = 0; d < 20000; ++d) different.insert(std::vector<unsigned>(all[d], all[d] + 32));
    EXPECT(different.size() == 20000);
    unsigned* words;
    float* uniform;
    double* normal;
    cudaMalloc(&d32, dimensions * sizeof *d32);
    cudaMalloc(&d64, dimensions * sizeof *d64);
    cudaMalloc(&words, dimensions * count * 4);
    cudaMalloc(&uniform, dimensions * 4);
    cudaMalloc(&normal, dimensions * 8);
    cudaMemcpy(d32, all, dimensions * sizeof *d32, cudaMemcpyHostToDevice);
    cudaMemcpy(d64, all64, dimensions * sizeof *d64, cudaMemcpyHostToDevice);
    std::vector<unsigned> w(dimensions * count), host(dimensions * count);
    std::vector<float> u(dimensions);
    std::vector<double> n(dimensions);
    for (bool wide : {true, false}) {
        if (wide) draw<curandStateSobol64_t><<<1, dimensions>>>(d64, words, uniform, normal, dimensions, count);
        else draw<curandStateSobol32_t><<<1, dimensions>>>(d32, words, uniform, normal, dimensions, count);
        cudaMemcpy(w.data(), words, w.size() * 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(u.data(), uniform, u.size() * 4, cudaMemcpyDeviceToHost);
        cudaMemcpy(n.data(), normal, n.size() * 8, cudaMemcpyDeviceToHost);
        for (int d = 0; d < dimensions; ++d) {
            for (int size : {2, 8, 64})
                for (int begin = 0; begin < count; begin += size) {
                    std::set<unsigned> intervals;
                    for (int i = 0; i < size; ++i) intervals.insert(unsigned((unsigned long long)w[d * count + begin + i] * size >> 32));
                    EXPECT((int)intervals.size() == size);
                }
            EXPECT(std::fabs(u[d] - w[d * count + 3] * 0x1p-32) < 1e-6);
            EXPECT(std::fabs(0.5 * std::erfc(-n[d] * M_SQRT1_2) - w[d * count + 4] * 0x1p-32) < 1e-6);
        }
    }
    // From the host: all of the first dimension, then of the second, …; the next call goes on.
    curandGenerator_t generator;
    EXPECT(curandCreateGenerator(&generator, CURAND_RNG_QUASI_SOBOL32) == CURAND_STATUS_SUCCESS);
    EXPECT(curandSetQuasiRandomGeneratorDimensions(generator, dimensions) == CURAND_STATUS_SUCCESS);
    EXPECT(curandGenerate(generator, words, 3) == CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    for (int half = 0; half < 2; ++half) {
        EXPECT(curandGenerate(generator, words, dimensions * count / 2) == CURAND_STATUS_SUCCESS);
        cudaMemcpy(host.data(), words, host.size() * 2, cudaMemcpyDeviceToHost);
        for (int d = 0; d < dimensions; ++d)
            EXPECT(std::equal(host.begin() + d * count / 2, host.begin() + (d + 1) * count / 2, w.begin() + d * count + half * count / 2));
    }
    curandDestroyGenerator(generator);
    double moments[2] = {};
    std::vector<double> v(1 << 12);
    curandCreateGeneratorHost(&generator, CURAND_RNG_QUASI_SCRAMBLED_SOBOL64);
    EXPECT(curandGenerateNormalDouble(generator, v.data(), v.size(), 2, 3) == CURAND_STATUS_SUCCESS);
    for (double x : v) moments[0] += x / v.size(), moments[1] += (x - 2) * (x - 2) / v.size();
    EXPECT(std::fabs(moments[0] - 2) < 0.01 && std::fabs(moments[1] - 9) < 0.1);
    puts(bad ? "WRONG" : "all as expected");
    return bad;
}
