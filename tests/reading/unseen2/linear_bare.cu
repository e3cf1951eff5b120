#include <cuda_bf16.h>
#include <stdint.h>
// y = x @ w.T ; x [rows, in_features], w [out_features, in_features]
extern "C" __global__ __launch_bounds__(32) void linear_bf16(const __nv_bfloat16* x, const __nv_bfloat16* w,
    __nv_bfloat16* y, int rows, int out_features, int in_features) {
    const int lane = threadIdx.x;
    const int r0 = blockIdx.y * 16, c0 = blockIdx.x * 8;
    const int g = lane / 4, t = lane % 4;
    float d[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k = 0; k < in_features; k += 16) {
        uint32_t a0 = *(const uint32_t*)(x + (r0 + g) * in_features + k + t * 2);
        uint32_t a1 = *(const uint32_t*)(x + (r0 + g + 8) * in_features + k + t * 2);
        uint32_t a2 = *(const uint32_t*)(x + (r0 + g) * in_features + k + t * 2 + 8);
        uint32_t a3 = *(const uint32_t*)(x + (r0 + g + 8) * in_features + k + t * 2 + 8);
        uint32_t b0 = *(const uint32_t*)(w + (c0 + g) * in_features + k + t * 2);
        uint32_t b1 = *(const uint32_t*)(w + (c0 + g) * in_features + k + t * 2 + 8);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    y[(r0 + g) * out_features + c0 + t * 2] = __float2bfloat16(d[0]);
    y[(r0 + g) * out_features + c0 + t * 2 + 1] = __float2bfloat16(d[1]);
    y[(r0 + g + 8) * out_features + c0 + t * 2] = __float2bfloat16(d[2]);
    y[(r0 + g + 8) * out_features + c0 + t * 2 + 1] = __float2bfloat16(d[3]);
}
