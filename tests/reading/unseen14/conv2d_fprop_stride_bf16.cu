#include <cuda_bf16.h>
#include <mma.h>
#include <stdexcept>

struct ConvProblem {
    int n, h, w, c;     // input, NHWC
    int k, r, s;        // filters, KRSC
    int pad, stride;
    int p() const { return (h + 2 * pad - r) / stride + 1; }
    int q() const { return (w + 2 * pad - s) / stride + 1; }
};

// output[npq][k] = sum over r, s, c of input[n][p*stride - pad + r][q*stride - pad + s][c] * filter[k][r][s][c]
template <int WARPS>
__global__ void wmma_conv_fprop(const __nv_bfloat16 *__restrict__ input, const __nv_bfloat16 *__restrict__ filter,
                                float *__restrict__ output, int n, int h, int w, int c, int k, int r, int s, int p, int q,
                                int pad, int stride) {
    using namespace nvcuda;
    __shared__ __align__(32) __nv_bfloat16 patch[16 * 16];
    const int warp = threadIdx.x / 32;
    const int npq0 = blockIdx.x * 16;
    const int k0 = (blockIdx.y * WARPS + warp) * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int fr = 0; fr < r; ++fr) {
        for (int fs = 0; fs < s; ++fs) {
            for (int c0 = 0; c0 < c; c0 += 16) {
                __syncthreads();
                for (int i = threadIdx.x; i < 256; i += WARPS * 32) {
                    const int npq = npq0 + i / 16;
                    const int img = npq / (p * q), y = npq / q % p, x = npq % q;
                    const int iy = y * stride - pad + fr, ix = x * stride - pad + fs;
                    __nv_bfloat16 v = __float2bfloat16(0.0f);
                    if (img < n && iy >= 0 && iy < h && ix >= 0 && ix < w)
                        v = input[((img * h + iy) * w + ix) * c + c0 + i % 16];
                    patch[i] = v;
                }
                __syncthreads();
                if (k0 < k) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb;
                    wmma::load_matrix_sync(fa, patch, 16);
                    wmma::load_matrix_sync(fb, filter + ((k0 * r + fr) * s + fs) * c + c0, r * s * c);
                    wmma::mma_sync(acc, fa, fb, acc);
                }
            }
        }
    }
    if (k0 < k) wmma::store_matrix_sync(output + npq0 * k + k0, acc, k, wmma::mem_row_major);
}

void conv2d_fprop(const ConvProblem &prob, const __nv_bfloat16 *x, const __nv_bfloat16 *f, float *y, cudaStream_t stream) {
    const int npq = prob.n * prob.p() * prob.q();
    if (prob.c % 16 || prob.k % 16 || npq % 16) throw std::runtime_error("conv2d_fprop: unaligned problem");
    constexpr int warps = 4;
    dim3 grid(npq / 16, (prob.k / 16 + warps - 1) / warps);
    wmma_conv_fprop<warps><<<grid, warps * 32, 0, stream>>>(x, f, y, prob.n, prob.h, prob.w, prob.c, prob.k, prob.r, prob.s,
                                                           prob.p(), prob.q(), prob.pad, prob.stride);
}
