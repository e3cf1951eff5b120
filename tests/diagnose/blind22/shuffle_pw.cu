// ShuffleNet unit, int8: grouped pointwise convolution + requantisation + ReLU + channel shuffle in one kernel.
// NHWC; output channel c of group g is stored as channel c * groups + g, so that the next grouped layer sees all groups.
// Requantisation is the integer one of mobile runtimes: (acc * mult + round) >> shift, no floats on the way.
#include <cstdint>

struct PwParams {
    const int8_t* x;        // [pixels, groups * cin]
    const int8_t* w;        // [groups * cout, cin]
    const int32_t* bias;    // [groups * cout]
    const int32_t* mult;    // [groups * cout], Q31-ish multipliers below 2^16 here
    int8_t* y;              // [pixels, groups * cout]
    int pixels, groups, cin, cout;
    int shift, zp_in, zp_out;
};

namespace {

constexpr int BM = 64, BN = 32, BK = 64;
constexpr int PITCH = BK + 16;

__device__ __forceinline__ void ldsm4(uint32_t* r, const int8_t* p) {
    uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}

__device__ __forceinline__ void imma(int (&c)[4], const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ int requantise(int acc, int mult, int shift, int zp_out) {
    long long v = static_cast<long long>(acc) * mult;
    v += 1LL << (shift - 1);
    int q = static_cast<int>(v >> shift) + zp_out;
    q = q < zp_out ? zp_out : q;            // ReLU: real zero is zp_out
    return q > 127 ? 127 : q;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) pw_shuffle_s8(PwParams p) {
    __shared__ __align__(16) int8_t s_x[BM * PITCH];
    __shared__ __align__(16) int8_t s_w[BN * PITCH];
    __shared__ int s_wsum[BN];               // for the input's zero point

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BN, g = blockIdx.z;
    const int ldx = p.groups * p.cin;
    const int8_t* x = p.x + g * p.cin;
    const int8_t* w = p.w + (size_t)g * p.cout * p.cin;

    // a thread has two 16-byte pieces of x and one of w: prefetched into registers
    const int vr = tid >> 2, vc = (tid & 3) * 16;
    int4 rx[2], rw;
    auto fetch = [&](int k0) {
        const int4 zero = make_int4(0, 0, 0, 0);
        const bool in_k = k0 + vc < p.cin;
        for (int h = 0; h < 2; ++h) {
            const int m = m0 + vr + h * 32;
            rx[h] = in_k && m < p.pixels ? *reinterpret_cast<const int4*>(x + (size_t)m * ldx + k0 + vc) : zero;
        }
        rw = in_k && n0 + vr < p.cout ? *reinterpret_cast<const int4*>(w + (size_t)(n0 + vr) * p.cin + k0 + vc) : zero;
    };

    if (tid < BN) s_wsum[tid] = 0;
    int acc[BN / 8][4] = {};
    int wsum = 0;

    fetch(0);
    for (int k0 = 0; k0 < p.cin; k0 += BK) {
        *reinterpret_cast<int4*>(s_x + vr * PITCH + vc) = rx[0];
        *reinterpret_cast<int4*>(s_x + (vr + 32) * PITCH + vc) = rx[1];
        *reinterpret_cast<int4*>(s_w + vr * PITCH + vc) = rw;
        wsum = __dp4a(rw.x, 0x01010101, wsum);
        wsum = __dp4a(rw.y, 0x01010101, wsum);
        wsum = __dp4a(rw.z, 0x01010101, wsum);
        wsum = __dp4a(rw.w, 0x01010101, wsum);
        __syncthreads();

        if (k0 + BK < p.cin) fetch(k0 + BK);

#pragma unroll
        for (int kk = 0; kk < BK; kk += 32) {
            uint32_t a[4], b[2][4];
            ldsm4(a, s_x + (warp * 16 + (lane & 15)) * PITCH + kk + (lane >> 4) * 16);
#pragma unroll
            for (int j = 0; j < 2; ++j)
                ldsm4(b[j], s_w + (j * 16 + (lane & 7) + (lane >> 4) * 8) * PITCH + kk + ((lane >> 3) & 1) * 16);
#pragma unroll
            for (int j = 0; j < BN / 8; ++j) imma(acc[j], a, &b[j / 2][(j % 2) * 2]);
        }
        __syncthreads();
    }

    atomicAdd(&s_wsum[vr], wsum);            // four threads per row of w
    __syncthreads();

    for (int j = 0; j < BN / 8; ++j) {
        for (int e = 0; e < 4; ++e) {
            const int m = m0 + warp * 16 + (lane >> 2) + (e >> 1) * 8;
            const int nl = j * 8 + (lane & 3) * 2 + (e & 1);
            const int c = n0 + nl;
            if (m >= p.pixels || c >= p.cout) continue;
            const int oc = g * p.cout + c;
            const int sum = acc[j][e] - p.zp_in * s_wsum[nl] + p.bias[oc];
            p.y[(size_t)m * (p.groups * p.cout) + c * p.groups + g] =
                static_cast<int8_t>(requantise(sum, p.mult[oc], p.shift, p.zp_out));
        }
    }
}

#ifndef __CUDACC_RTC__
void launch_pw_shuffle(const PwParams& p, cudaStream_t stream) {
    dim3 grid((p.pixels + BM - 1) / BM, (p.cout + BN - 1) / BN, p.groups);
    pw_shuffle_s8<<<grid, 128, 0, stream>>>(p);
}
#endif
