/*
Matmul backward with the GELU backward fused into the epilogue (the fc -> gelu -> fcproj block of GPT-2).

dinp = (dout @ weight) * gelu'(pre_gelu)      (BT, C)  = (BT, OC) @ (OC, C)
dbias += sum over BT of dout                  (OC)

version 3: bf16 WMMA, 64x64 output tile per block, dbias rides along in the blocks of the first column.

./matmul_backward_dgelu
*/
#include <stdio.h>
#include <stdlib.h>
#include <assert.h>
#include <mma.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define WARP_SIZE 32U
#define GELU_SCALING_FACTOR 0.7978845608028654f  // sqrt(2/pi)

typedef __nv_bfloat16 floatX;

// ----------------------------------------------------------------------------
// 128-bit loads and stores

template<class ElementType>
struct alignas(16) Packed128 {
    static constexpr int size = sizeof(int4) / sizeof(ElementType);
    ElementType payload[size];
    __device__ ElementType& operator[](int index) { return payload[index]; }
    __device__ const ElementType& operator[](int index) const { return payload[index]; }
    __device__ static Packed128 zeros() {
        Packed128 result;
        *reinterpret_cast<int4*>(result.payload) = make_int4(0, 0, 0, 0);
        return result;
    }
};
typedef Packed128<floatX> x128;

template<class ElementType>
__device__ Packed128<ElementType> load128(const ElementType* address) {
    Packed128<ElementType> result;
    *reinterpret_cast<int4*>(result.payload) = *reinterpret_cast<const int4*>(address);
    return result;
}

template<class ElementType>
__device__ void store128(ElementType* target, Packed128<ElementType> value) {
    *reinterpret_cast<int4*>(target) = *reinterpret_cast<const int4*>(value.payload);
}

// ----------------------------------------------------------------------------
// tiles

#define TILE_M 64       // rows (b,t)
#define TILE_N 64       // input channels
#define TILE_K 32       // output channels, summed over
#define LD_A (TILE_K + 8)
#define LD_B (TILE_N + 8)
#define LD_C (TILE_N + 4)

__device__ float gelu_grad(float x) {
    float cube = 0.044715f * x * x * x;
    float tanh_out = tanhf(GELU_SCALING_FACTOR * (x + cube));
    float sech_out = 1.0f - tanh_out * tanh_out;
    return 0.5f * (1.0f + tanh_out) + x * 0.5f * sech_out * GELU_SCALING_FACTOR * (1.0f + 3.0f * 0.044715f * x * x);
}

// grid: (CEIL_DIV(C, 64), CEIL_DIV(BT, 64)), block: 128. C and OC multiples of 8, BT is anything
__global__ void __launch_bounds__(128)
matmul_backward_dgelu_kernel3(floatX* dinp, float* dbias, const floatX* dout, const floatX* weight,
                              const floatX* pre_gelu, int BT, int C, int OC) {
    using namespace nvcuda;
    __shared__ __align__(128) unsigned char smem[TILE_M * LD_C * sizeof(float)];
    floatX* a_tile = reinterpret_cast<floatX*>(smem);               // dout,   TILE_M x TILE_K
    floatX* b_tile = a_tile + TILE_M * LD_A;                        // weight, TILE_K x TILE_N
    float* c_tile = reinterpret_cast<float*>(smem);                 // after the loop only
    __shared__ float bias_shared[4][TILE_K];

    int warp_id = threadIdx.x / WARP_SIZE;
    int lane_id = threadIdx.x % WARP_SIZE;
    int row0 = blockIdx.y * TILE_M;
    int col0 = blockIdx.x * TILE_N;
    int warp_row = (warp_id / 2) * 32;
    int warp_col = (warp_id % 2) * 32;
    bool do_bias = dbias != NULL && blockIdx.x == 0;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            wmma::fill_fragment(acc[i][j], 0.0f);
        }
    }

    for (int k0 = 0; k0 < OC; k0 += TILE_K) {
        // dout tile: 4 packs of 8 per row
        for (int idx = threadIdx.x; idx < TILE_M * TILE_K / x128::size; idx += blockDim.x) {
            int r = idx / (TILE_K / x128::size);
            int c = (idx % (TILE_K / x128::size)) * x128::size;
            x128 packed = x128::zeros();
            if (row0 + r < BT && k0 + c < OC) {
                packed = load128(dout + (size_t)(row0 + r) * OC + k0 + c);
            }
            store128(a_tile + r * LD_A + c, packed);
        }
        // weight tile: 8 packs of 8 per row
        for (int idx = threadIdx.x; idx < TILE_K * TILE_N / x128::size; idx += blockDim.x) {
            int r = idx / (TILE_N / x128::size);
            int c = (idx % (TILE_N / x128::size)) * x128::size;
            x128 packed = x128::zeros();
            if (k0 + r < OC && col0 + c < C) {
                packed = load128(weight + (size_t)(k0 + r) * C + col0 + c);
            }
            store128(b_tile + r * LD_B + c, packed);
        }
        __syncthreads();

        // each warp sums 16 rows of dout, one output channel per lane
        if (do_bias) {
            float sum = 0.0f;
            for (int r = 0; r < TILE_M / 4; r++) {
                sum += (float)a_tile[(warp_id * (TILE_M / 4) + r) * LD_A + lane_id];
            }
            bias_shared[warp_id][lane_id] = sum;
        }

        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> a_frag[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> b_frag[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a_frag[i], a_tile + (warp_row + i * 16) * LD_A + kk, LD_A);
            }
            for (int j = 0; j < 2; j++) {
                wmma::load_matrix_sync(b_frag[j], b_tile + kk * LD_B + warp_col + j * 16, LD_B);
            }
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 2; j++) {
                    wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
                }
            }
        }
        __syncthreads();

        if (do_bias && warp_id == 0 && k0 + lane_id < OC) {
            float sum = 0.0f;
            for (int w = 0; w < 4; w++) {
                sum += bias_shared[w][lane_id];
            }
            atomicAdd(dbias + k0 + lane_id, sum);
        }
    }

    // epilogue: through shared memory, because the layout of a fragment is unspecified
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            wmma::store_matrix_sync(c_tile + (warp_row + i * 16) * LD_C + warp_col + j * 16, acc[i][j], LD_C,
                                    wmma::mem_row_major);
        }
    }
    __syncthreads();

    for (int idx = threadIdx.x; idx < TILE_M * TILE_N / x128::size; idx += blockDim.x) {
        int r = idx / (TILE_N / x128::size);
        int c = (idx % (TILE_N / x128::size)) * x128::size;
        if (row0 + r >= BT || col0 + c >= C) { continue; }
        size_t offset = (size_t)(row0 + r) * C + col0 + c;
        x128 pre = load128(pre_gelu + offset);
        x128 packed_out;
        for (int k = 0; k < x128::size; k++) {
            float x = (float)pre[k];
            packed_out[k] = (floatX)(c_tile[r * LD_C + c + k] * gelu_grad(x));
        }
        store128(dinp + offset, packed_out);
    }
}

// ----------------------------------------------------------------------------
// kernel launcher

void matmul_backward_dgelu3(floatX* dinp, float* dbias, const floatX* dout, const floatX* weight,
                            const floatX* pre_gelu, int B, int T, int C, int OC) {
    assert(C % 8 == 0 && OC % 8 == 0);
    dim3 grid(CEIL_DIV(C, TILE_N), CEIL_DIV(B * T, TILE_M));
    matmul_backward_dgelu_kernel3<<<grid, 128>>>(dinp, dbias, dout, weight, pre_gelu, B * T, C, OC);
}
