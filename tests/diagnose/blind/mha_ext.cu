// Vanilla multi-head attention forward with tensor cores, torch extension
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

constexpr int HEAD = 64;
constexpr int QROWS = 16;
constexpr int NWARPS = 4;

__global__ void mha_fwd_kernel(const half* __restrict__ q_ptr, const half* __restrict__ k_ptr,
                               const half* __restrict__ v_ptr, float* __restrict__ out_ptr,
                               int n_heads, int seq_len, float sm_scale)
{
    extern __shared__ __align__(128) unsigned char smem_raw[];
    const int sld = seq_len + 8;
    float* score = reinterpret_cast<float*>(smem_raw);
    half*  prob  = reinterpret_cast<half*>(score + QROWS * sld);

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int q0 = blockIdx.x * QROWS;
    const size_t base = ((size_t)blockIdx.z * n_heads + blockIdx.y) * (size_t)seq_len * HEAD;
    const half* q = q_ptr + base;
    const half* k = k_ptr + base;
    const half* v = v_ptr + base;
    float* o = out_ptr + base;

    // 1. S = scale * Q K^T, the key tiles are dealt to the warps
    for (int t = warp; t < seq_len / 16; t += NWARPS) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kf;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sf;
        wmma::fill_fragment(sf, 0.f);
        for (int d = 0; d < HEAD; d += 16) {
            wmma::load_matrix_sync(qf, q + q0 * HEAD + d, HEAD);
            wmma::load_matrix_sync(kf, k + t * 16 * HEAD + d, HEAD);
            wmma::mma_sync(sf, qf, kf, sf);
        }
        for (int i = 0; i < sf.num_elements; ++i) sf.x[i] *= sm_scale;
        wmma::store_matrix_sync(score + t * 16, sf, sld, wmma::mem_row_major);
    }
    __syncthreads();

    // 2. row softmax, one warp per row
    for (int r = warp; r < QROWS; r += NWARPS) {
        float mx = -INFINITY;
        for (int c = lane; c < seq_len; c += 32) mx = fmaxf(mx, score[r * sld + c]);
        for (int off = 16; off > 0; off >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, off));
        float sum = 0.f;
        for (int c = lane; c < seq_len; c += 32) {
            float e = __expf(score[r * sld + c] - mx);
            score[r * sld + c] = e;
            sum += e;
        }
        for (int off = 16; off > 0; off >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, off);
        float inv = 1.f / sum;
        for (int c = lane; c < seq_len; c += 32) prob[r * sld + c] = __float2half(score[r * sld + c] * inv);
    }
    __syncthreads();

    // 3. O = P V, each warp owns 16 columns of the head
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> of;
    wmma::fill_fragment(of, 0.f);
    for (int t = 0; t < seq_len; t += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vf;
        wmma::load_matrix_sync(pf, prob + t, sld);
        wmma::load_matrix_sync(vf, v + t * HEAD + warp * 16, HEAD);
        wmma::mma_sync(of, pf, vf, of);
    }
    wmma::store_matrix_sync(o + q0 * HEAD + warp * 16, of, HEAD, wmma::mem_row_major);
}

torch::Tensor mha_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v)
{
    TORCH_CHECK(q.is_cuda() && q.dtype() == torch::kHalf, "q must be half, cuda");
    const int B = q.size(0), H = q.size(1), N = q.size(2);
    auto out = torch::empty({B, H, N, HEAD}, q.options().dtype(torch::kFloat));
    dim3 grid(N / QROWS, H, B);
    size_t smem = QROWS * (N + 8) * (sizeof(float) + sizeof(half));
    mha_fwd_kernel<<<grid, NWARPS * 32, smem>>>(
        reinterpret_cast<half*>(q.data_ptr<at::Half>()), reinterpret_cast<half*>(k.data_ptr<at::Half>()),
        reinterpret_cast<half*>(v.data_ptr<at::Half>()), out.data_ptr<float>(), H, N, 1.0f / sqrtf((float)HEAD));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &mha_forward, "mha forward"); }
