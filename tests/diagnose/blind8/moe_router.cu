// Router of a mixture of experts (DeepSeek-V3 style), one kernel for the gate's GEMM and the selection:
//   score  = sigmoid(hidden . gate^T)
//   chosen = the TOPK experts with the largest score + correction_bias   (ties: the lower index)
//   weight = score of the chosen, over their sum, times routed_scaling
// Sixteen tokens a block; the warps share the hidden dimension among them and sum up in shared memory.

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <mma.h>

#define TOKENS 16
#define MAX_EXPERTS 32
#define NUM_WARPS 4
#define CHUNK 64
#define FULL_MASK 0xffffffffu

using bf16 = __nv_bfloat16;
using namespace nvcuda::wmma;

template <int TOPK>
__global__ void moe_router_kernel(const bf16 *__restrict__ hidden, const bf16 *__restrict__ gate, const float *__restrict__ correction_bias,
                                  float *__restrict__ topk_weight, int *__restrict__ topk_index, int *__restrict__ expert_count,
                                  const int num_tokens, const int num_experts, const int hidden_size, const float routed_scaling)
{
    __shared__ __align__(32) bf16 s_hidden[TOKENS][CHUNK + 8];
    __shared__ __align__(32) bf16 s_gate[MAX_EXPERTS][CHUNK + 8];
    __shared__ __align__(32) float s_part[NUM_WARPS][TOKENS][MAX_EXPERTS];
    __shared__ int s_count[MAX_EXPERTS];

    const int tid = threadIdx.x;
    const int warp = tid / 32, lane = tid % 32;
    const int token0 = blockIdx.x * TOKENS;

    if (tid < MAX_EXPERTS) s_count[tid] = 0;

    fragment<accumulator, 16, 16, 16, float> acc[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) fill_fragment(acc[n], 0.0f);

    for (int k0 = 0; k0 < hidden_size; k0 += CHUNK) {
        for (int i = tid; i < (TOKENS + MAX_EXPERTS) * (CHUNK / 8); i += NUM_WARPS * 32) {
            const int r = i / (CHUNK / 8), c = i % (CHUNK / 8) * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            const bool inside = k0 + c < hidden_size;
            if (r < TOKENS) {
                if (inside && token0 + r < num_tokens)
                    v = *reinterpret_cast<const uint4 *>(hidden + (int64_t)(token0 + r) * hidden_size + k0 + c);
                *reinterpret_cast<uint4 *>(&s_hidden[r][c]) = v;
            } else {
                const int e = r - TOKENS;
                if (inside && e < num_experts)
                    v = *reinterpret_cast<const uint4 *>(gate + (int64_t)e * hidden_size + k0 + c);
                *reinterpret_cast<uint4 *>(&s_gate[e][c]) = v;
            }
        }
        __syncthreads();

        // a warp has sixteen of the chunk's channels
        fragment<matrix_a, 16, 16, 16, bf16, row_major> h;
        load_matrix_sync(h, &s_hidden[0][warp * 16], CHUNK + 8);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            fragment<matrix_b, 16, 16, 16, bf16, col_major> g;
            load_matrix_sync(g, &s_gate[n * 16][warp * 16], CHUNK + 8);
            mma_sync(acc[n], h, g, acc[n]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int n = 0; n < 2; ++n) store_matrix_sync(&s_part[warp][0][n * 16], acc[n], MAX_EXPERTS, mem_row_major);
    __syncthreads();

    // a warp selects for one token after the other: its lane is the expert
    const float bias = lane < num_experts ? correction_bias[lane] : 0.0f;
    for (int t = warp; t < TOKENS; t += NUM_WARPS) {
        const int token = token0 + t;
        if (token >= num_tokens) break;

        float logit = 0.0f;
#pragma unroll
        for (int w = 0; w < NUM_WARPS; ++w) logit += s_part[w][t][lane];
        const float score = 1.0f / (1.0f + expf(-logit));
        float choice = lane < num_experts ? score + bias : -INFINITY;

        float my_weight = 0.0f, total = 0.0f;
        int my_index = 0;
#pragma unroll
        for (int k = 0; k < TOPK; ++k) {
            float best = choice;
            int who = lane;
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) {
                const float other = __shfl_xor_sync(FULL_MASK, best, d);
                const int other_who = __shfl_xor_sync(FULL_MASK, who, d);
                if (other > best || (other == best && other_who < who)) {
                    best = other;
                    who = other_who;
                }
            }
            const float s = __shfl_sync(FULL_MASK, score, who);
            total += s;
            if (lane == k) {
                my_weight = s;
                my_index = who;
            }
            if (lane == who) choice = -INFINITY;
        }

        if (lane < TOPK) {
            topk_weight[(int64_t)token * TOPK + lane] = my_weight / total * routed_scaling;
            topk_index[(int64_t)token * TOPK + lane] = my_index;
            atomicAdd(&s_count[my_index], 1);
        }
    }
    __syncthreads();
    if (tid < num_experts && s_count[tid] > 0) atomicAdd(&expert_count[tid], s_count[tid]);
}

std::vector<at::Tensor> moe_router(at::Tensor hidden, at::Tensor gate, at::Tensor correction_bias, double routed_scaling)
{
    const int tokens = hidden.size(0), hidden_size = hidden.size(1), experts = gate.size(0);
    TORCH_CHECK(experts <= MAX_EXPERTS && hidden_size % 8 == 0);
    auto weight = at::empty({tokens, 3}, hidden.options().dtype(at::kFloat));
    auto index = at::empty({tokens, 3}, hidden.options().dtype(at::kInt));
    auto count = at::zeros({experts}, hidden.options().dtype(at::kInt));
    moe_router_kernel<3><<<(tokens + TOKENS - 1) / TOKENS, NUM_WARPS * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const bf16 *>(hidden.data_ptr<at::BFloat16>()), reinterpret_cast<const bf16 *>(gate.data_ptr<at::BFloat16>()),
        correction_bias.data_ptr<float>(), weight.data_ptr<float>(), index.data_ptr<int>(), count.data_ptr<int>(), tokens, experts,
        hidden_size, (float)routed_scaling);
    return {weight, index, count};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("moe_router", &moe_router, "MoE router"); }
