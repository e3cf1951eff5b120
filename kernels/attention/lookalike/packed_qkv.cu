// Self attention on a packed projection: qkv [B, S, 3, H, D] -> out [B, S, H*D].
// WMMA, 16 queries per warp, 4 warps, whole K/V tile of 64 keys in shared memory.
#ifdef WITH_TORCH
#include <torch/extension.h>
#endif
#include <cuda_fp16.h>
#include <mma.h>

#define WARPS 4
#define QT (WARPS * 16)
#define KT 64
#define DIM 64
#define OFFSET(row, col, ld) ((row) * (ld) + (col))

struct AttnParams { int seq; int heads; float scale; int causal; };

__device__ inline void load_tile(half* dst, int ldd, const half* src, int row_stride, int first, int seq)
{
    // 8 halves per thread and step
    for (int v = threadIdx.x; v < 64 * DIM / 8; v += blockDim.x) {
        int r = v / (DIM / 8), c = v % (DIM / 8) * 8;
        float4 val = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + r < seq) val = *(const float4*)(src + (long long)(first + r) * row_stride + c);
        *(float4*)(dst + OFFSET(r, c, ldd)) = val;
    }
}

extern "C" __global__ void qkv_attention(const half* qkv, half* out, AttnParams p)
{
    using namespace nvcuda::wmma;
    constexpr int LD = DIM + 8, LDF = DIM + 4;
    extern __shared__ float4 dyn[];
    half* Qs = (half*)dyn;
    half* Ks = Qs + QT * LD;
    half* Vs = Ks + KT * LD;
    half* Ps = Qs;                       // Q is in registers after the first barrier
    float* Ss = (float*)(Vs + KT * LD);  // also the output staging
    float* Ms = Ss + QT * LDF;
    float* Ls = Ms + QT;

    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int h = blockIdx.y % p.heads, b = blockIdx.y / p.heads;
    const int row_stride = 3 * p.heads * DIM;
    const half* Q = qkv + (long long)b * p.seq * row_stride + h * DIM;
    const half* K = Q + p.heads * DIM;
    const half* V = K + p.heads * DIM;
    const int q0 = blockIdx.x * QT;

    load_tile(Qs, LD, Q, row_stride, q0, p.seq);
    __syncthreads();
    fragment<matrix_a, 16, 16, 16, half, row_major> qf[DIM / 16];
    for (int i = 0; i < DIM / 16; i++) load_matrix_sync(qf[i], Qs + OFFSET(warp * 16, i * 16, LD), LD);
    fragment<accumulator, 16, 16, 16, float> of[DIM / 16];
    for (int i = 0; i < DIM / 16; i++) fill_fragment(of[i], 0.0f);
    if (tid < QT) { Ms[tid] = -65504.f; Ls[tid] = 0.f; }

    const int kend = p.causal ? min(p.seq, q0 + QT) : p.seq;
    for (int k0 = 0; k0 < kend; k0 += KT) {
        __syncthreads();
        load_tile(Ks, LD, K, row_stride, k0, p.seq);
        load_tile(Vs, LD, V, row_stride, k0, p.seq);
        __syncthreads();
        for (int j = 0; j < KT / 16; j++) {
            fragment<accumulator, 16, 16, 16, float> sf;
            fill_fragment(sf, 0.0f);
            for (int i = 0; i < DIM / 16; i++) {
                fragment<matrix_b, 16, 16, 16, half, col_major> kf;
                load_matrix_sync(kf, Ks + OFFSET(j * 16, i * 16, LD), LD);
                mma_sync(sf, qf[i], kf, sf);
            }
            store_matrix_sync(Ss + OFFSET(warp * 16, j * 16, LDF), sf, LDF, mem_row_major);
        }
        __syncwarp();
        // each warp softmaxes its own 16 rows, one row at a time, 2 columns per lane
        for (int r = warp * 16; r < warp * 16 + 16; r++) {
            int row = q0 + r;
            int ka = k0 + lane, kb = k0 + lane + 32;
            bool va = ka < p.seq && (!p.causal || ka <= row), vb = kb < p.seq && (!p.causal || kb <= row);
            float a = va ? Ss[OFFSET(r, lane, LDF)] * p.scale : -65504.f;
            float c = vb ? Ss[OFFSET(r, lane + 32, LDF)] * p.scale : -65504.f;
            float m = fmaxf(a, c);
            for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
            float mold = Ms[r], mnew = fmaxf(mold, m);
            a = va ? __expf(a - mnew) : 0.f;
            c = vb ? __expf(c - mnew) : 0.f;
            Ps[OFFSET(r, lane, LD)] = __float2half(a);
            Ps[OFFSET(r, lane + 32, LD)] = __float2half(c);
            float l = a + c;
            for (int o = 16; o; o >>= 1) l += __shfl_xor_sync(~0u, l, o);
            __syncwarp();
            if (lane == 0) { Ls[r] = Ls[r] * __expf(mold - mnew) + l; Ms[r] = mnew; Ss[OFFSET(r, DIM, LDF)] = __expf(mold - mnew); }
        }
        __syncwarp();
        // accumulator rows of a lane: lane/4 and lane/4 + 8
        float f0 = Ss[OFFSET(warp * 16 + lane / 4, DIM, LDF)], f1 = Ss[OFFSET(warp * 16 + lane / 4 + 8, DIM, LDF)];
        for (int i = 0; i < DIM / 16; i++)
            for (int e = 0; e < of[i].num_elements; e++) of[i].x[e] *= (e & 2) ? f1 : f0;
        for (int j = 0; j < KT / 16; j++) {
            fragment<matrix_a, 16, 16, 16, half, row_major> pf;
            load_matrix_sync(pf, Ps + OFFSET(warp * 16, j * 16, LD), LD);
            for (int i = 0; i < DIM / 16; i++) {
                fragment<matrix_b, 16, 16, 16, half, row_major> vf;
                load_matrix_sync(vf, Vs + OFFSET(j * 16, i * 16, LD), LD);
                mma_sync(of[i], pf, vf, of[i]);
            }
        }
    }
    __syncwarp();
    for (int i = 0; i < DIM / 16; i++)
        store_matrix_sync(Ss + OFFSET(warp * 16, i * 16, LDF), of[i], LDF, mem_row_major);
    __syncwarp();
    for (int e = lane; e < 16 * DIM; e += 32) {
        int r = warp * 16 + e / DIM, d = e % DIM;
        if (q0 + r < p.seq)
            out[((long long)b * p.seq + q0 + r) * p.heads * DIM + h * DIM + d] = __float2half(Ss[OFFSET(r, d, LDF)] / Ls[r]);
    }
}

#ifdef WITH_TORCH
torch::Tensor forward(torch::Tensor qkv, bool causal)
{
    const int B = qkv.size(0), S = qkv.size(1), H = qkv.size(3);
    auto out = torch::empty({B, S, H * DIM}, qkv.options());
    size_t smem = (3 * 64 * 72) * sizeof(half) + (64 * 68 + 128) * sizeof(float);
    qkv_attention<<<dim3((S + QT - 1) / QT, B * H), WARPS * 32, smem>>>(
        (half*)qkv.data_ptr(), (half*)out.data_ptr(), AttnParams{S, H, 0.125f, causal});
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
#endif
