// Produit de matrices int8 sur les tensor cores (mma.m16n8k32), avec requantification en int8.
//
//   C[m][n] = clamp(round(relu(sum_k A[m][k] * B[n][k] + bias[n]) * mult[n]))
//
//   A : M x K int8 (activations), B : N x K int8 (poids), bias : int32, mult : float par canal de sortie
//   M, N et K multiples de 64.
//
// nvcc -arch=sm_80 imma_requant_relu.cu -o imma && ./imma
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

constexpr int TM = 64;           // tuile du bloc
constexpr int TN = 64;
constexpr int TK = 64;
constexpr int PITCH = TK + 16;   // en octets, garde l'alignement sur 16

__device__ __forceinline__ void imma_16832(int d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ int8_t requantifier(int acc, int bias, float mult)
{
    int v = acc + bias;
    v = v > 0 ? v : 0;                        // ReLU
    int q = __float2int_rn((float)v * mult);
    return (int8_t)min(q, 127);               // jamais negatif apres ReLU
}

__global__ void __launch_bounds__(128)
imma_requant_kernel(const int8_t* __restrict__ A, const int8_t* __restrict__ B, const int* __restrict__ bias,
                    const float* __restrict__ mult, int8_t* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(16) int8_t sA[TM * PITCH];
    __shared__ __align__(16) int8_t sB[TN * PITCH];

    const int tid = threadIdx.x;
    const int lane = tid & 31, warp = tid >> 5;
    const int groupe = lane >> 2, fil = lane & 3;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    int acc[2][4][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0;

    for (int k0 = 0; k0 < K; k0 += TK) {
        // 64 lignes de 4 vecteurs de 16 octets pour chaque operande
        for (int v = tid; v < TM * TK / 16; v += 128) {
            const int r = v >> 2, c = (v & 3) << 4;
            *(int4*)(sA + r * PITCH + c) = *(const int4*)(A + (size_t)(m0 + r) * K + k0 + c);
            *(int4*)(sB + r * PITCH + c) = *(const int4*)(B + (size_t)(n0 + r) * K + k0 + c);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < TK; kk += 32) {
            uint32_t fa[2][4], fb[4][2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const int8_t* p = sA + (wm + i * 16 + groupe) * PITCH + kk + fil * 4;
                fa[i][0] = *(const uint32_t*)(p);
                fa[i][1] = *(const uint32_t*)(p + 8 * PITCH);
                fa[i][2] = *(const uint32_t*)(p + 16);
                fa[i][3] = *(const uint32_t*)(p + 8 * PITCH + 16);
            }
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                const int8_t* p = sB + (wn + j * 8 + groupe) * PITCH + kk + fil * 4;
                fb[j][0] = *(const uint32_t*)(p);
                fb[j][1] = *(const uint32_t*)(p + 16);
            }
            #pragma unroll
            for (int i = 0; i < 2; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++) imma_16832(acc[i][j], fa[i], fb[j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            const int row = m0 + wm + i * 16 + groupe;
            const int col = n0 + wn + j * 8 + fil * 2;
            const int b0 = bias[col], b1 = bias[col + 1];
            const float s0 = mult[col], s1 = mult[col + 1];
            char2 haut, bas;
            haut.x = requantifier(acc[i][j][0], b0, s0);
            haut.y = requantifier(acc[i][j][1], b1, s1);
            bas.x = requantifier(acc[i][j][2], b0, s0);
            bas.y = requantifier(acc[i][j][3], b1, s1);
            *(char2*)(C + (size_t)row * N + col) = haut;
            *(char2*)(C + (size_t)(row + 8) * N + col) = bas;
        }
}

#define VERIFIE(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    printf("%s ligne %d : %s\n", #x, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

int main()
{
    const int M = 128, N = 192, K = 256;
    std::vector<int8_t> A(M * K), B(N * K), C(M * N);
    std::vector<int> bias(N);
    std::vector<float> mult(N);
    srand(42);
    for (auto& x : A) x = (int8_t)(rand() % 255 - 127);
    for (auto& x : B) x = (int8_t)(rand() % 255 - 127);
    for (auto& x : bias) x = rand() % 20001 - 10000;
    for (auto& x : mult) x = 0.0005f + 0.001f * (rand() / (float)RAND_MAX);

    int8_t *dA, *dB, *dC;
    int* dBias;
    float* dMult;
    VERIFIE(cudaMalloc(&dA, A.size()));
    VERIFIE(cudaMalloc(&dB, B.size()));
    VERIFIE(cudaMalloc(&dC, C.size()));
    VERIFIE(cudaMalloc(&dBias, N * sizeof(int)));
    VERIFIE(cudaMalloc(&dMult, N * sizeof(float)));
    VERIFIE(cudaMemcpy(dA, A.data(), A.size(), cudaMemcpyHostToDevice));
    VERIFIE(cudaMemcpy(dB, B.data(), B.size(), cudaMemcpyHostToDevice));
    VERIFIE(cudaMemcpy(dBias, bias.data(), N * sizeof(int), cudaMemcpyHostToDevice));
    VERIFIE(cudaMemcpy(dMult, mult.data(), N * sizeof(float), cudaMemcpyHostToDevice));

    imma_requant_kernel<<<dim3(N / TN, M / TM), 128>>>(dA, dB, dBias, dMult, dC, M, N, K);
    VERIFIE(cudaGetLastError());
    VERIFIE(cudaMemcpy(C.data(), dC, C.size(), cudaMemcpyDeviceToHost));

    int faux = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            int s = bias[n];
            for (int k = 0; k < K; k++) s += (int)A[m * K + k] * (int)B[n * K + k];
            if (s < 0) s = 0;
            int q = (int)std::nearbyint((float)s * mult[n]);
            if (q > 127) q = 127;
            if (std::abs(q - (int)C[m * N + n]) > 0) {
                if (faux++ < 5) printf("C[%d][%d] = %d, attendu %d\n", m, n, (int)C[m * N + n], q);
            }
        }
    printf("%s (%d erreurs sur %d)\n", faux ? "ECHEC" : "CORRECT", faux, M * N);
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    cudaFree(dBias);
    cudaFree(dMult);
    return faux != 0;
}
