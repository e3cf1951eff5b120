// Random numbers: device generators of several kinds, quasi-random integration, host API, moments.
#include <curand.h>
#include <curand_kernel.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CALL(x)                                        \
    do {                                                    \
        if ((x) != cudaSuccess) {                           \
            printf("Error at %s:%d\n", __FILE__, __LINE__); \
            return EXIT_FAILURE;                            \
        }                                                   \
    } while (0)
#define CURAND_CALL(x)                                                          \
    do {                                                                        \
        if ((x) != CURAND_STATUS_SUCCESS) {                                     \
            printf("curand error %d at %s:%d\n", (int)(x), __FILE__, __LINE__); \
            return EXIT_FAILURE;                                                \
        }                                                                       \
    } while (0)

__global__ void setup(curandState* xorwow, curandStatePhilox4_32_10_t* philox, curandStateMRG32k3a* mrg, unsigned long long seed) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curand_init(seed, id, 0, &xorwow[id]);
    curand_init(seed, id, 0, &philox[id]);
    curand_init(seed, id, 0, &mrg[id]);
}

template <typename State>
__global__ void estimatePi(State* states, int samples, unsigned long long* hits) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    State local = states[id];
    unsigned long long count = 0;
    for (int i = 0; i < samples; i++) {
        float x = curand_uniform(&local), y = curand_uniform(&local);
        count += x * x + y * y <= 1.0f;
    }
    states[id] = local;
    for (int o = 16; o; o >>= 1) count += __shfl_down_sync(0xffffffff, count, o);
    if ((threadIdx.x & 31) == 0) atomicAdd(hits, count);
}

__global__ void moments(curandStatePhilox4_32_10_t* states, int samples, double* sums) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curandStatePhilox4_32_10_t local = states[id];
    double m1 = 0, m2 = 0;
    for (int i = 0; i < samples; i += 4) {
        float4 v = curand_normal4(&local);
        m1 += v.x + v.y + v.z + v.w;
        m2 += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    states[id] = local;
    atomicAdd(&sums[0], m1);
    atomicAdd(&sums[1], m2);
}

__global__ void initSobol(curandStateSobol32_t* s, curandDirectionVectors32_t* dirs, int threads, int per) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    if (id < threads) {
        curand_init(dirs[0], per * id, &s[2 * id]);
        curand_init(dirs[1], per * id, &s[2 * id + 1]);
    }
}
__global__ void integrate(curandStateSobol32_t* s, int threads, int per, double* sum) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    if (id >= threads) return;
    double t = 0;
    for (int i = 0; i < per; i++) {
        float x = curand_uniform(&s[2 * id]), y = curand_uniform(&s[2 * id + 1]);
        t += x * x * y;
    }
    atomicAdd(sum, t);
}

int main(int argc, char* argv[]) {
    const int blocks = 8, threads = 64, total = blocks * threads, samples = 200;
    curandState* a;
    curandStatePhilox4_32_10_t* b;
    curandStateMRG32k3a* c;
    unsigned long long* hits;
    double* sums;
    CUDA_CALL(cudaMalloc((void**)&a, total * sizeof(curandState)));
    CUDA_CALL(cudaMalloc((void**)&b, total * sizeof(curandStatePhilox4_32_10_t)));
    CUDA_CALL(cudaMalloc((void**)&c, total * sizeof(curandStateMRG32k3a)));
    CUDA_CALL(cudaMalloc((void**)&hits, 3 * sizeof(*hits)));
    CUDA_CALL(cudaMalloc((void**)&sums, 2 * sizeof(double)));
    CUDA_CALL(cudaMemset(hits, 0, 3 * sizeof(*hits)));
    CUDA_CALL(cudaMemset(sums, 0, 2 * sizeof(double)));
    setup<<<blocks, threads>>>(a, b, c, 1234ULL);
    estimatePi<<<blocks, threads>>>(a, samples, hits);
    estimatePi<<<blocks, threads>>>(b, samples, hits + 1);
    estimatePi<<<blocks, threads>>>(c, samples, hits + 2);
    moments<<<blocks, threads>>>(b, samples, sums);
    CUDA_CALL(cudaGetLastError());
    unsigned long long h[3];
    double s[2];
    CUDA_CALL(cudaMemcpy(h, hits, sizeof h, cudaMemcpyDeviceToHost));
    CUDA_CALL(cudaMemcpy(s, sums, sizeof s, cudaMemcpyDeviceToHost));
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        double pi = 4.0 * h[i] / ((double)total * samples);
        printf("pi ~ %f\n", pi);
        ok &= fabs(pi - M_PI) < 0.03;
    }
    double mean = s[0] / ((double)total * samples), var = s[1] / ((double)total * samples) - mean * mean;
    printf("mean %f variance %f\n", mean, var);
    ok &= fabs(mean) < 0.02 && fabs(var - 1) < 0.03;

    // quasi-random on the device
    curandDirectionVectors32_t *hostVectors, *dirs;
    curandStateSobol32_t* sobol;
    double* integral;
    CURAND_CALL(curandGetDirectionVectors32(&hostVectors, CURAND_DIRECTION_VECTORS_32_JOEKUO6));
    CUDA_CALL(cudaMalloc((void**)&dirs, 2 * sizeof(curandDirectionVectors32_t)));
    CUDA_CALL(cudaMemcpy(dirs, hostVectors, 2 * sizeof(curandDirectionVectors32_t), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMalloc((void**)&sobol, 2 * 64 * sizeof(curandStateSobol32_t)));
    CUDA_CALL(cudaMalloc((void**)&integral, sizeof(double)));
    CUDA_CALL(cudaMemset(integral, 0, sizeof(double)));
    initSobol<<<1, 64>>>(sobol, dirs, 64, 64);
    integrate<<<1, 64>>>(sobol, 64, 64, integral);
    double q;
    CUDA_CALL(cudaMemcpy(&q, integral, 8, cudaMemcpyDeviceToHost));
    q /= 4096;
    printf("integral %f (1/6)\n", q);
    ok &= fabs(q - 1.0 / 6) < 1e-3;

    // host API
    curandGenerator_t gen;
    const size_t n = 20000;
    float* d;
    std::vector<float> v(n);
    CUDA_CALL(cudaMalloc((void**)&d, n * sizeof(float)));
    for (curandRngType_t t : {CURAND_RNG_PSEUDO_DEFAULT, CURAND_RNG_PSEUDO_MTGP32, CURAND_RNG_PSEUDO_MT19937, CURAND_RNG_PSEUDO_PHILOX4_32_10}) {
        CURAND_CALL(curandCreateGenerator(&gen, t));
        CURAND_CALL(curandSetPseudoRandomGeneratorSeed(gen, 42ULL));
        CURAND_CALL(curandGenerateNormal(gen, d, n, 1.0f, 2.0f));
        CUDA_CALL(cudaMemcpy(v.data(), d, n * 4, cudaMemcpyDeviceToHost));
        double m = 0, w = 0;
        for (float x : v) {
            m += x;
            w += (double)x * x;
        }
        m /= n;
        w = w / n - m * m;
        printf("generator %d: mean %.3f variance %.3f\n", (int)t, m, w);
        ok &= fabs(m - 1) < 0.05 && fabs(w - 4) < 0.2;
        CURAND_CALL(curandDestroyGenerator(gen));
    }
    CURAND_CALL(curandCreateGenerator(&gen, CURAND_RNG_QUASI_SOBOL32));
    CURAND_CALL(curandSetQuasiRandomGeneratorDimensions(gen, 2));
    CURAND_CALL(curandGenerateUniform(gen, d, n));
    CUDA_CALL(cudaMemcpy(v.data(), d, n * 4, cudaMemcpyDeviceToHost));
    double t = 0;
    for (size_t i = 0; i < n / 2; i++) t += v[i] * v[i] * v[n / 2 + i];
    printf("host sobol integral %f\n", t / (n / 2));
    ok &= fabs(t / (n / 2) - 1.0 / 6) < 2e-3;
    CURAND_CALL(curandDestroyGenerator(gen));
    curandGenerator_t hostGen;
    std::vector<double> hv(1000);
    CURAND_CALL(curandCreateGeneratorHost(&hostGen, CURAND_RNG_PSEUDO_MRG32K3A));
    CURAND_CALL(curandSetPseudoRandomGeneratorSeed(hostGen, 7));
    CURAND_CALL(curandGenerateUniformDouble(hostGen, hv.data(), hv.size()));
    double m = 0;
    for (double x : hv) {
        m += x;
        ok &= x > 0 && x <= 1;
    }
    ok &= fabs(m / 1000 - 0.5) < 0.05;
    CURAND_CALL(curandDestroyGenerator(hostGen));
    cudaFree(a);
    cudaFree(b);
    cudaFree(c);
    cudaFree(hits);
    cudaFree(sums);
    cudaFree(dirs);
    cudaFree(sobol);
    cudaFree(integral);
    cudaFree(d);
    printf(ok ? "^^^^ kernel test PASSED\n" : "&&&& test FAILED\n");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
