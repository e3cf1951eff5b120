// Atención en tres núcleos con WMMA (versión didáctica, sin fusionar):
//
//   1. puntajes      S = (Q K^T) / sqrt(d)          [lote*cabezas, L, L]  float
//   2. softmax       P = softmax(S) por filas        half, máscara de relleno por longitud
//   3. valores       O = P V                         [lote*cabezas, L, d]
//
// Las secuencias vienen rellenadas hasta L; longitudes[b] dice cuántas claves son válidas.
// L y d deben ser múltiplos de 16.
//
// Compilar:  nvcc -arch=sm_75 -o atencion atencion_tres_nucleos.cu
#include <cuda_fp16.h>
#include <mma.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

using namespace nvcuda::wmma;

#define VERIFICAR(llamada)                                                                   \
    {                                                                                        \
        const cudaError_t error = llamada;                                                   \
        if (error != cudaSuccess) {                                                          \
            std::cerr << "Error: " << __FILE__ << ":" << __LINE__ << ", "                    \
                      << cudaGetErrorString(error) << std::endl;                             \
            exit(1);                                                                         \
        }                                                                                    \
    }

constexpr int T = 16;            // lado de una tesela WMMA
constexpr int WARPS_BLOQUE = 4;
constexpr int HILOS_SOFTMAX = 128;

// Un warp por tesela de 16x16 de S. blockIdx.z = lote*cabezas
__global__ void nucleoPuntajes(const half* Q, const half* K, float* S, int L, int d, float escala) {
    int warp = threadIdx.x / 32;
    int fila = blockIdx.y * T;
    int col = (blockIdx.x * WARPS_BLOQUE + warp) * T;
    if (col >= L) return;

    const half* q = Q + (size_t)blockIdx.z * L * d;
    const half* k = K + (size_t)blockIdx.z * L * d;
    float* s = S + (size_t)blockIdx.z * L * L;

    fragment<matrix_a, T, T, T, half, row_major> fq;
    fragment<matrix_b, T, T, T, half, col_major> fk;   // col_major = K transpuesta
    fragment<accumulator, T, T, T, float> fs;
    fill_fragment(fs, 0.0f);
    for (int i = 0; i < d; i += T) {
        load_matrix_sync(fq, q + fila * d + i, d);
        load_matrix_sync(fk, k + col * d + i, d);
        mma_sync(fs, fq, fk, fs);
    }
    for (int i = 0; i < fs.num_elements; i++) fs.x[i] *= escala;
    store_matrix_sync(s + fila * L + col, fs, L, mem_row_major);
}

__device__ float reducirMax(float v, float* tmp) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    if (threadIdx.x % 32 == 0) tmp[threadIdx.x / 32] = v;
    __syncthreads();
    v = tmp[0];
    for (int i = 1; i < HILOS_SOFTMAX / 32; i++) v = fmaxf(v, tmp[i]);
    __syncthreads();
    return v;
}

__device__ float reducirSuma(float v, float* tmp) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    if (threadIdx.x % 32 == 0) tmp[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0f;
    for (int i = 0; i < HILOS_SOFTMAX / 32; i++) v += tmp[i];
    __syncthreads();
    return v;
}

// Un bloque por fila. Las claves de relleno reciben probabilidad cero.
__global__ void nucleoSoftmax(const float* S, half* P, const int* longitudes, int cabezas, int L) {
    __shared__ float tmp[HILOS_SOFTMAX / 32];
    int bh = blockIdx.y;
    int validas = longitudes[bh / cabezas];
    const float* s = S + ((size_t)bh * L + blockIdx.x) * L;
    half* p = P + ((size_t)bh * L + blockIdx.x) * L;

    float maximo = -INFINITY;
    for (int j = threadIdx.x; j < validas; j += blockDim.x) maximo = fmaxf(maximo, s[j]);
    maximo = reducirMax(maximo, tmp);

    float suma = 0.0f;
    for (int j = threadIdx.x; j < validas; j += blockDim.x) suma += __expf(s[j] - maximo);
    suma = reducirSuma(suma, tmp);

    for (int j = threadIdx.x; j < L; j += blockDim.x)
        p[j] = j < validas ? __float2half(__expf(s[j] - maximo) / suma) : __float2half(0.0f);
}

__global__ void nucleoValores(const half* P, const half* V, float* O, int L, int d) {
    int warp = threadIdx.x / 32;
    int fila = blockIdx.y * T;
    int col = (blockIdx.x * WARPS_BLOQUE + warp) * T;
    if (col >= d) return;

    const half* p = P + (size_t)blockIdx.z * L * L;
    const half* v = V + (size_t)blockIdx.z * L * d;
    float* o = O + (size_t)blockIdx.z * L * d;

    fragment<matrix_a, T, T, T, half, row_major> fp;
    fragment<matrix_b, T, T, T, half, row_major> fv;
    fragment<accumulator, T, T, T, float> fo;
    fill_fragment(fo, 0.0f);
    for (int i = 0; i < L; i += T) {
        load_matrix_sync(fp, p + fila * L + i, L);
        load_matrix_sync(fv, v + i * d + col, d);
        mma_sync(fo, fp, fv, fo);
    }
    store_matrix_sync(o + fila * d + col, fo, d, mem_row_major);
}

void atencion(const half* Q, const half* K, const half* V, const int* longitudes, float* S, half* P, float* O,
              int lote, int cabezas, int L, int d) {
    const int hilos = WARPS_BLOQUE * 32;
    const float escala = 1.0f / sqrtf((float)d);
    dim3 rejillaS((L / T + WARPS_BLOQUE - 1) / WARPS_BLOQUE, L / T, lote * cabezas);
    nucleoPuntajes<<<rejillaS, hilos>>>(Q, K, S, L, d, escala);
    VERIFICAR(cudaGetLastError());
    nucleoSoftmax<<<dim3(L, lote * cabezas), HILOS_SOFTMAX>>>(S, P, longitudes, cabezas, L);
    VERIFICAR(cudaGetLastError());
    dim3 rejillaO((d / T + WARPS_BLOQUE - 1) / WARPS_BLOQUE, L / T, lote * cabezas);
    nucleoValores<<<rejillaO, hilos>>>(P, V, O, L, d);
    VERIFICAR(cudaGetLastError());
}

// Referencia en la CPU
void atencionCPU(const std::vector<half>& Q, const std::vector<half>& K, const std::vector<half>& V,
                 const std::vector<int>& longitudes, std::vector<float>& O, int lote, int cabezas, int L, int d) {
    for (int bh = 0; bh < lote * cabezas; bh++) {
        int n = longitudes[bh / cabezas];
        for (int i = 0; i < L; i++) {
            std::vector<double> s(n);
            double mayor = -1e30, suma = 0;
            for (int j = 0; j < n; j++) {
                double acc = 0;
                for (int c = 0; c < d; c++)
                    acc += (double)__half2float(Q[((size_t)bh * L + i) * d + c]) *
                           __half2float(K[((size_t)bh * L + j) * d + c]);
                s[j] = acc / std::sqrt((double)d);
                mayor = std::max(mayor, s[j]);
            }
            for (int j = 0; j < n; j++) suma += (s[j] = std::exp(s[j] - mayor));
            for (int c = 0; c < d; c++) {
                double acc = 0;
                for (int j = 0; j < n; j++) acc += s[j] * __half2float(V[((size_t)bh * L + j) * d + c]);
                O[((size_t)bh * L + i) * d + c] = (float)(acc / suma);
            }
        }
    }
}

int main() {
    const int lote = 2, cabezas = 2, L = 80, d = 32;
    std::vector<int> longitudes = {80, 37};
    const size_t n = (size_t)lote * cabezas * L * d, nS = (size_t)lote * cabezas * L * L;

    std::mt19937 gen(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<half> Q(n), K(n), V(n);
    for (size_t i = 0; i < n; i++) {
        Q[i] = __float2half(normal(gen));
        K[i] = __float2half(normal(gen));
        V[i] = __float2half(normal(gen));
    }

    half *dQ, *dK, *dV, *dP;
    float *dS, *dO;
    int* dLong;
    VERIFICAR(cudaMalloc(&dQ, n * sizeof(half)));
    VERIFICAR(cudaMalloc(&dK, n * sizeof(half)));
    VERIFICAR(cudaMalloc(&dV, n * sizeof(half)));
    VERIFICAR(cudaMalloc(&dP, nS * sizeof(half)));
    VERIFICAR(cudaMalloc(&dS, nS * sizeof(float)));
    VERIFICAR(cudaMalloc(&dO, n * sizeof(float)));
    VERIFICAR(cudaMalloc(&dLong, lote * sizeof(int)));
    VERIFICAR(cudaMemcpy(dQ, Q.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    VERIFICAR(cudaMemcpy(dK, K.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    VERIFICAR(cudaMemcpy(dV, V.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    VERIFICAR(cudaMemcpy(dLong, longitudes.data(), lote * sizeof(int), cudaMemcpyHostToDevice));

    atencion(dQ, dK, dV, dLong, dS, dP, dO, lote, cabezas, L, d);

    std::vector<float> O(n), ref(n);
    VERIFICAR(cudaMemcpy(O.data(), dO, n * sizeof(float), cudaMemcpyDeviceToHost));
    atencionCPU(Q, K, V, longitudes, ref, lote, cabezas, L, d);

    int malos = 0;
    for (size_t i = 0; i < n; i++)
        if (!(std::fabs(O[i] - ref[i]) < 5e-3f)) malos++;
    std::cout << (malos == 0 ? "PASS" : "FAIL") << "  (" << malos << " de " << n << " fuera de tolerancia)" << std::endl;

    cudaFree(dQ); cudaFree(dK); cudaFree(dV); cudaFree(dP); cudaFree(dS); cudaFree(dO); cudaFree(dLong);
    return malos != 0;
}
