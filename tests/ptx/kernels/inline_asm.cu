// Inline assembly as people write it: scopes with registers and labels, odd modifier order, 64-bit shared addresses.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* p) {
    unsigned r;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(r) : "l"(p));
    return r;
}

__device__ __forceinline__ void copy(void* to, const void* from, bool p) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %0, 0;\n@p cp.async.cg.shared.global.L2::128B [%1], [%2], %3;\n}\n" ::"r"((int)p),
        "r"(shared_address(to)), "l"(from), "n"(16));
}

extern __shared__ __align__(16) unsigned char dynamic[];

extern "C" __global__ void assembly(const half* a, const half* b, float* c, int n) {
    __shared__ __align__(16) half tile[64][72];
    __shared__ unsigned long long bar;
    copy(&tile[threadIdx.x][0], a, n > 3);
    copy(dynamic + threadIdx.x * 16, b, n > 4);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(shared_address(dynamic)), "l"(b), "n"(8), "r"(n));
    asm volatile("cp.async.commit_group;\n");
    asm volatile("cp.async.wait_group %0;\n" ::"n"(1));
    unsigned x[4], y[2];
    float z[4] = {0, 0, 0, 0};
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(__cvta_generic_to_shared(&tile[threadIdx.x][0])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2 + 16];"
                 : "=r"(y[0]), "=r"(y[1])
                 : "r"(shared_address(&tile[0][0])));
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \n{%0,%1,%2,%3},\n {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile(
        "{ .reg .pred P; .reg .b32 t<3>; mov.b32 t0, %1; LOOP: setp.ge.s32 P, t0, 10; @P bra DONE;"
        " add.s32 t0, t0, 1; bra.uni LOOP; DONE: cvt.rn.f32.s32 %0, t0; }"
        : "=f"(z[1])
        : "r"(n));
    asm volatile(
        "{ .reg .pred P; LOOP: mbarrier.test_wait.parity.shared::cta.b64 P, [%0], %1; @P bra DONE; bra LOOP; DONE: }" ::"r"(
            shared_address(&bar)),
        "r"(0));
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&bar)));
    asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(64));
    asm volatile("lop3.b32 %0, %1, %2, %3, 0xf8;" : "=r"(x[0]) : "r"(x[1]), "r"(x[2]), "r"(x[3]));
    unsigned packed;
    asm("{cvt.rn.f16x2.f32 %0, %1, %2;}" : "=r"(packed) : "f"(z[0]), "f"(z[1]));
    asm("{\n.reg .f16 low,high;\n mov.b32 {low,high}, %1;\n cvt.f32.f16 %0, low;}" : "=f"(z[2]) : "r"(packed));
    asm("add.cc.u32 %0, %2, %3;\n addc.u32 %1, %2, 0;" : "=r"(x[1]), "=r"(x[2]) : "r"(x[0]), "r"(packed));
    asm volatile("{.reg .v4 .f32 v; ld.global.v4.f32 v, [%0]; st.global.f32 [%0], v.y;}" ::"l"(c));
    c[threadIdx.x] = z[0] + z[1] + z[2] + x[0] + x[1] + x[2] + state;
}
