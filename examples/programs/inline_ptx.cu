// A tour of inline PTX, each instruction against plain C++.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void HandleError(cudaError_t err, const char* file, int line) {
    if (err != cudaSuccess) {
        printf("%s in %s at line %d\n", cudaGetErrorString(err), file, line);
        exit(EXIT_FAILURE);
    }
}
#define HANDLE_ERROR(err) (HandleError(err, __FILE__, __LINE__))

__device__ __forceinline__ uint32_t laneId() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(r));
    return r;
}
__device__ __forceinline__ uint32_t lanemaskLt() {
    uint32_t r;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
    return r;
}
__device__ __forceinline__ uint32_t smId() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(r));
    return r;
}
__device__ __forceinline__ uint64_t globalTimer() {
    uint64_t r;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(r));
    return r;
}
__device__ __forceinline__ uint32_t prmt(uint32_t a, uint32_t b, uint32_t s) {
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(s));
    return r;
}
template <int lut>
__device__ __forceinline__ uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(lut));
    return r;
}
__device__ __forceinline__ uint32_t bfe(uint32_t v, int p, int n) {
    uint32_t r;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(v), "r"(p), "r"(n));
    return r;
}
__device__ __forceinline__ uint32_t bfi(uint32_t v, uint32_t into, int p, int n) {
    uint32_t r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(v), "r"(into), "r"(p), "r"(n));
    return r;
}
__device__ __forceinline__ int dp4a(int a, int b, int c) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
__device__ __forceinline__ uint4 ldStream(const uint4* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
__device__ __forceinline__ void stStream(uint4* p, uint4 v) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ float ex2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ uint32_t packHalf(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
__device__ __forceinline__ uint32_t packBf16(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
__device__ __forceinline__ uint64_t add128lo(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t& hi) {
    uint64_t lo;
    asm("{\n\t"
        "add.cc.u64 %0, %2, %4;\n\t"
        "addc.u64 %1, %3, %5;\n\t"
        "}"
        : "=l"(lo), "=l"(hi)
        : "l"(a), "l"(b), "l"(c), "l"(d));
    return lo;
}
__device__ __forceinline__ uint64_t mulWide(uint32_t a, uint32_t b, uint64_t c) {
    uint64_t r;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(a), "r"(b), "l"(c));
    return r;
}
__device__ __forceinline__ uint32_t madHiCc(uint32_t a, uint32_t b, uint32_t c, uint32_t& carry) {
    uint32_t r;
    asm volatile("mad.lo.cc.u32 %0, %2, %3, %4; addc.u32 %1, 0, 0;" : "=r"(r), "=r"(carry) : "r"(a), "r"(b), "r"(c));
    return r;
}
__device__ __forceinline__ int reduxAdd(int v) {
    int r;
    asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}
__device__ __forceinline__ uint32_t shfw(uint32_t lo, uint32_t hi, uint32_t n) {
    uint32_t r;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(n));
    return r;
}
__device__ __forceinline__ int predicated(int a, int b) {
    int r;
    asm("{\n\t.reg .pred p;\n\t.reg .b32 t;\n\t"
        "setp.gt.s32 p, %1, %2;\n\t"
        "sub.s32 t, %1, %2;\n\t"
        "@p mov.b32 %0, t;\n\t"
        "@!p sub.s32 %0, %2, %1;\n\t}"
        : "=&r"(r)
        : "r"(a), "r"(b));
    return r;
}
__device__ __forceinline__ uint32_t smemAddr(const void* p) {
    uint32_t r;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(r) : "l"(p));
    return r;
}
__device__ __forceinline__ void cpAsync16(uint32_t s, const void* g) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(g)); }
__device__ __forceinline__ int ldAcquire(const int* p) {
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void stRelease(int* p, int v) { asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void redAdd(float* p, float v) { asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }

enum {
    LANE,
    LT,
    PRMT,
    LOP,
    BFE,
    BFI,
    DP4A,
    HALF,
    BF16,
    ADDLO,
    ADDHI,
    WIDE,
    MADLO,
    MADC,
    REDUX,
    SHF,
    PRED,
    VOTE,
    MATCH,
    CLZ,
    BREV,
    POPC,
    SAD,
    MAXU,
    SEL,
    VSUB,
    COUNT
};

__global__ void tour(const uint32_t* a, const uint32_t* b, unsigned long long* out, float* fout, float* acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t x = a[i], y = b[i];
    unsigned long long* o = out + (size_t)i * COUNT;
    uint64_t t0 = globalTimer();
    o[LANE] = laneId();
    o[LT] = lanemaskLt();
    o[PRMT] = prmt(x, y, 0x5410 ^ (i & 7));
    o[LOP] = lop3<0xE8>(x, y, x * 3);
    o[BFE] = bfe(x, i % 24, 7);
    o[BFI] = bfi(x, y, i % 20, 9);
    o[DP4A] = (uint32_t)dp4a(x, y, 1000);
    o[HALF] = packHalf((int)(x % 100) * 0.5f, (int)(y % 100) * -0.25f);
    o[BF16] = packBf16((float)(x % 1000), (float)(y % 10));
    uint64_t hi;
    o[ADDLO] = add128lo(((uint64_t)x << 32) | y, x, ~0ull - y, y, hi);
    o[ADDHI] = hi;
    o[WIDE] = mulWide(x, y, 17);
    uint32_t c;
    o[MADLO] = madHiCc(x, y, 0xfffffff0u, c);
    o[MADC] = c;
    o[REDUX] = (uint32_t)reduxAdd((int)(x % 50));
    o[SHF] = shfw(x, y, i);
    o[PRED] = (uint32_t)predicated((int)(x % 100), (int)(y % 100));
    uint32_t vote;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(vote) : "r"(x & 1));
    o[VOTE] = vote;
    uint32_t match;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(match) : "r"(x % 4));
    o[MATCH] = match;
    uint32_t r;
    asm("clz.b32 %0, %1;" : "=r"(r) : "r"(x >> (i % 31)));
    o[CLZ] = r;
    asm("brev.b32 %0, %1;" : "=r"(r) : "r"(x));
    o[BREV] = r;
    asm("popc.b64 %0, %1;" : "=r"(r) : "l"(((uint64_t)x << 32) | y));
    o[POPC] = r;
    asm("sad.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(5u));
    o[SAD] = r;
    asm("max.u32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
    o[MAXU] = r;
    asm("{ .reg .pred q; setp.lt.and.u32 q, %1, %2, 1; selp.b32 %0, %1, 7, q; }" : "=r"(r) : "r"(x), "r"(y));
    o[SEL] = r;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(3u));
    o[VSUB] = r;
    float f = (int)(x % 17) - 8;
    fout[4 * i] = ex2(f);
    float g;
    asm("fma.rz.f32 %0, %1, %2, %3;" : "=f"(g) : "f"(f), "f"(1.25f), "f"(0.1f));
    fout[4 * i + 1] = g;
    asm("rcp.rn.f32 %0, %1;" : "=f"(g) : "f"(f + 8.5f));
    fout[4 * i + 2] = g;
    asm("tanh.approx.f32 %0, %1;" : "=f"(g) : "f"(f * 0.25f));
    fout[4 * i + 3] = g;
    redAdd(acc, f);
    if (globalTimer() < t0 || smId() > 4096) __trap();
    asm volatile("nanosleep.u32 20;");
}

__global__ void transposeLdmatrix(const uint16_t* in, uint16_t* out) {
    __shared__ __align__(16) uint16_t s[8 * 8 * 4];
    uint32_t at = smemAddr(s);
    cpAsync16(at + threadIdx.x * 16, in + threadIdx.x * 8);
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
    __syncwarp();
    uint32_t r0, r1, r2, r3, row = at + threadIdx.x * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row));
    uint32_t regs[4] = {r0, r1, r2, r3};
    for (int m = 0; m < 4; m++) {
        out[m * 64 + (threadIdx.x / 4) * 8 + threadIdx.x % 4 * 2] = regs[m] & 0xffff;
        out[m * 64 + (threadIdx.x / 4) * 8 + threadIdx.x % 4 * 2 + 1] = regs[m] >> 16;
    }
}

__global__ void copyStream(const uint4* in, uint4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) stStream(out + i, ldStream(in + i));
}

// blocks in a chain: each adds to what the one before it published
__global__ void chained(int* flags, int* values, int n) {
    if (threadIdx.x == 0) {
        int b = blockIdx.x, before = 0;
        if (b > 0) {
            while (ldAcquire(&flags[b - 1]) == 0) {
            }
            before = values[b - 1];
        }
        values[b] = before + b;
        stRelease(&flags[b], 1);
    }
}

int main() {
    const int n = 512;
    std::vector<uint32_t> a(n), b(n);
    uint32_t s = 12345;
    for (int i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        a[i] = s;
        s = s * 1664525u + 1013904223u;
        b[i] = s;
    }
    uint32_t *da, *db;
    unsigned long long* dout;
    float *df, *dacc;
    HANDLE_ERROR(cudaMalloc(&da, n * 4));
    HANDLE_ERROR(cudaMalloc(&db, n * 4));
    HANDLE_ERROR(cudaMalloc(&dout, n * COUNT * 8));
    HANDLE_ERROR(cudaMalloc(&df, n * 16));
    HANDLE_ERROR(cudaMalloc(&dacc, 4));
    HANDLE_ERROR(cudaMemset(dacc, 0, 4));
    HANDLE_ERROR(cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
    HANDLE_ERROR(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyHostToDevice));
    tour<<<n / 128, 128>>>(da, db, dout, df, dacc, n);
    HANDLE_ERROR(cudaGetLastError());
    std::vector<unsigned long long> o(n * COUNT);
    std::vector<float> f(n * 4);
    float acc;
    HANDLE_ERROR(cudaMemcpy(o.data(), dout, n * COUNT * 8, cudaMemcpyDeviceToHost));
    HANDLE_ERROR(cudaMemcpy(f.data(), df, n * 16, cudaMemcpyDeviceToHost));
    HANDLE_ERROR(cudaMemcpy(&acc, dacc, 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    float wantAcc = 0;
#define CHECK(k, v)                                                                                            \
    if (o[i * COUNT + k] != (unsigned long long)(v)) {                                                         \
        if (bad++ < 10) printf(#k " %d: %llx, expected %llx\n", i, o[i * COUNT + k], (unsigned long long)(v)); \
    }
    for (int i = 0; i < n; i++) {
        uint32_t x = a[i], y = b[i], w = i / 32 * 32;
        CHECK(LANE, i % 32) CHECK(LT, (1u << i % 32) - 1) uint64_t bytes = ((uint64_t)y << 32) | x;
        uint32_t sel = 0x5410 ^ (i & 7), p = 0;
        for (int k = 0; k < 4; k++) {
            uint32_t q = sel >> 4 * k & 15, v = bytes >> (q & 7) * 8 & 255;
            if (q & 8) v = v & 128 ? 255 : 0;
            p |= v << 8 * k;
        }
        CHECK(PRMT, p) uint32_t z = x * 3;
        CHECK(LOP, (x & y) | (x & z) | (y & z))
        CHECK(BFE, x >> i % 24 & 127) uint32_t mask = 511u << i % 20;
        CHECK(BFI, (y & ~mask) | (x << i % 20 & mask))
        int d = 1000;
        for (int k = 0; k < 4; k++) d += (int8_t)(x >> 8 * k) * (int8_t)(y >> 8 * k);
        CHECK(DP4A, (uint32_t)d)
        unsigned __int128 A = ((unsigned __int128)x << 64) | ((uint64_t)x << 32 | y), B = ((unsigned __int128)y << 64) | (~0ull - y), S = A + B;
        CHECK(ADDLO, (uint64_t)S)
        CHECK(ADDHI, (uint64_t)(S >> 64)) CHECK(WIDE, (uint64_t)x * y + 17) CHECK(MADLO, (uint32_t)(x * y + 0xfffffff0u))
            CHECK(MADC, ((uint64_t)(uint32_t)(x * y) + 0xfffffff0u) >> 32) int red = 0;
        uint32_t vote = 0, match = 0;
        for (int k = 0; k < 32; k++) {
            red += a[w + k] % 50;
            vote |= (a[w + k] & 1) << k;
            match |= (a[w + k] % 4 == x % 4 ? 1u : 0u) << k;
        }
        CHECK(REDUX, (uint32_t)red)
        CHECK(VOTE, vote) CHECK(MATCH, match) CHECK(SHF, i % 32 ? y << i % 32 | x >> (32 - i % 32) : y)
            CHECK(PRED, (uint32_t)abs((int)(x % 100) - (int)(y % 100))) uint32_t cz = x >> i % 31;
        CHECK(CLZ, cz ? __builtin_clz(cz) : 32)
        uint32_t rev = 0;
        for (int k = 0; k < 32; k++) rev |= (x >> k & 1) << (31 - k);
        CHECK(BREV, rev)
        CHECK(POPC, __builtin_popcountll((uint64_t)x << 32 | y))
        CHECK(SAD, (x > y ? x - y : y - x) + 5u) CHECK(MAXU, x > y ? x : y) CHECK(SEL, x < y ? x : 7) uint32_t vs = 3;
        for (int k = 0; k < 4; k++) vs += abs((int)(x >> 8 * k & 255) - (int)(y >> 8 * k & 255));
        CHECK(VSUB, vs)
        float v = (int)(x % 17) - 8;
        wantAcc += v;
        bad += fabsf(f[4 * i] - exp2f(v)) > 1e-5f * exp2f(v);
        bad += fabsf(f[4 * i + 1] - (v * 1.25f + 0.1f)) > 1e-5f;
        bad += f[4 * i + 2] != 1.0f / (v + 8.5f);
        bad += fabsf(f[4 * i + 3] - tanhf(v * 0.25f)) > 1e-3f;
    }
    bad += acc != wantAcc;
    printf("tour: %d differences\n", bad);
    std::vector<uint16_t> m(256), t(256);
    for (int i = 0; i < 256; i++) m[i] = i;
    uint16_t *dm, *dt;
    HANDLE_ERROR(cudaMalloc(&dm, 512));
    HANDLE_ERROR(cudaMalloc(&dt, 512));
    HANDLE_ERROR(cudaMemcpy(dm, m.data(), 512, cudaMemcpyHostToDevice));
    transposeLdmatrix<<<1, 32>>>(dm, dt);
    HANDLE_ERROR(cudaMemcpy(t.data(), dt, 512, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++) bad += t[i] != m[i / 64 * 64 + i % 8 * 8 + i / 8 % 8];
    copyStream<<<1, 128>>>((uint4*)da, (uint4*)db, n / 4);
    HANDLE_ERROR(cudaMemcpy(b.data(), db, n * 4, cudaMemcpyDeviceToHost));
    bad += memcmp(a.data(), b.data(), n * 4) != 0;
    int *flags, *values;
    HANDLE_ERROR(cudaMalloc(&flags, 256));
    HANDLE_ERROR(cudaMalloc(&values, 256));
    HANDLE_ERROR(cudaMemset(flags, 0, 256));
    chained<<<64, 32>>>(flags, values, 64);
    int last;
    HANDLE_ERROR(cudaMemcpy(&last, values + 63, 4, cudaMemcpyDeviceToHost));
    bad += last != 63 * 64 / 2;
    printf("%s\n", bad ? "ERROR: results differ" : "OK: all results agree");
    return bad ? 1 : 0;
}
