/*
 * Time update of a bank of Kalman filters:
 *     x' = F x
 *     P' = fade * F P F^T + dt * Q        (symmetrised)
 * Every filter has its own F; Q is shared. NX = 32 states at most, smaller ones are padded with zeros.
 * Two warps work on a filter, 16 rows of the product each, and meet at a named barrier of their own,
 * so the filters of a block don't wait for each other. TF32 mma.m16n8k8.
 */
#include <stdint.h>

#define NX       32
#define LD       36                 /* 36 % 32 == 4: g * LD + t hits 32 different banks */
#define PAIRS    4                  /* filters in a block */
#define THREADS  (PAIRS * 64)

#define MMA_TF32(d, a, b)                                                                    \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "                       \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                     \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                    \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

#define PAIR_SYNC(id)  asm volatile("bar.sync %0, 64;" :: "r"(id) : "memory")

struct KalmanBank {
    const float *F;       /* [count][nx][nx] */
    const float *P;       /* [count][nx][nx] */
    const float *Q;       /* [nx][nx]        */
    const float *x;       /* [count][nx]     */
    float *P_out;         /* [count][nx][nx] */
    float *x_out;         /* [count][nx]     */
    int count, nx;
    float fade, dt;
};

static __device__ __forceinline__ uint32_t tf32(float v)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
}

/* 16 x 8 piece of a row-major matrix in shared memory */
static __device__ __forceinline__ void frag_a(uint32_t a[4], const float *s, int row, int col, int g, int t)
{
    a[0] = tf32(s[(row + g) * LD + col + t]);
    a[1] = tf32(s[(row + g + 8) * LD + col + t]);
    a[2] = tf32(s[(row + g) * LD + col + t + 4]);
    a[3] = tf32(s[(row + g + 8) * LD + col + t + 4]);
}

__global__ void __launch_bounds__(THREADS) kalman_predict(KalmanBank kb)
{
    __shared__ float sF[PAIRS][NX * LD];
    __shared__ float sP[PAIRS][NX * LD];        /* P, then F P, then F P F^T */
    __shared__ float sx[PAIRS][NX];

    const int pair = threadIdx.x >> 6;
    const int tid  = threadIdx.x & 63;          /* within the pair */
    const int half = tid >> 5;                  /* which 16 rows */
    const int lane = tid & 31;
    const int g = lane >> 2, t = lane & 3;
    const int bar = pair + 1;                   /* 0 is __syncthreads' */
    const int nx = kb.nx;

    const int filter = blockIdx.x * PAIRS + pair;
    if (filter >= kb.count)
        return;                                 /* both warps of the pair go */

    float *F = sF[pair], *P = sP[pair];
    const float *gF = kb.F + (size_t)filter * nx * nx;
    const float *gP = kb.P + (size_t)filter * nx * nx;

    for (int i = tid; i < NX * NX; i += 64) {
        const int r = i / NX, c = i % NX;
        const bool in = r < nx && c < nx;
        F[r * LD + c] = in ? gF[r * nx + c] : 0.f;
        P[r * LD + c] = in ? gP[r * nx + c] : 0.f;
    }
    if (tid < NX)
        sx[pair][tid] = tid < nx ? kb.x[(size_t)filter * nx + tid] : 0.f;
    PAIR_SYNC(bar);

    /* ---- T = F P : P is symmetric only up to rounding, so it is read as it stands ---- */
    uint32_t a[4][4];
    float d[4][4];
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        frag_a(a[k], F, half * 16, k * 8, g, t);

    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        d[n][0] = d[n][1] = d[n][2] = d[n][3] = 0.f;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint32_t b[2];
            b[0] = tf32(P[(k * 8 + t) * LD + n * 8 + g]);
            b[1] = tf32(P[(k * 8 + t + 4) * LD + n * 8 + g]);
            MMA_TF32(d[n], a[k], b);
        }
    }
    PAIR_SYNC(bar);                             /* the other half still reads P */

    const int r0 = half * 16 + g;
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int c = n * 8 + 2 * t;
        P[r0 * LD + c]           = d[n][0];
        P[r0 * LD + c + 1]       = d[n][1];
        P[(r0 + 8) * LD + c]     = d[n][2];
        P[(r0 + 8) * LD + c + 1] = d[n][3];
    }
    __syncwarp();                               /* a warp reads back only rows of its own */

    /* ---- T F^T : column n of F^T is row n of F ---- */
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        frag_a(a[k], P, half * 16, k * 8, g, t);
    __syncwarp();

    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        d[n][0] = d[n][1] = d[n][2] = d[n][3] = 0.f;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint32_t b[2];
            b[0] = tf32(F[(n * 8 + g) * LD + k * 8 + t]);
            b[1] = tf32(F[(n * 8 + g) * LD + k * 8 + t + 4]);
            MMA_TF32(d[n], a[k], b);
        }
        const int c = n * 8 + 2 * t;
        P[r0 * LD + c]           = d[n][0];
        P[r0 * LD + c + 1]       = d[n][1];
        P[(r0 + 8) * LD + c]     = d[n][2];
        P[(r0 + 8) * LD + c + 1] = d[n][3];
    }

    /* the state needs no tensor cores: a thread makes one element */
    if (tid < nx) {
        float s = 0.f;
        for (int k = 0; k < nx; ++k)
            s += F[tid * LD + k] * sx[pair][k];
        kb.x_out[(size_t)filter * nx + tid] = s;
    }
    PAIR_SYNC(bar);                             /* the mirrored element is the other half's */

    float *out = kb.P_out + (size_t)filter * nx * nx;
    for (int i = tid; i < nx * nx; i += 64) {
        const int r = i / nx, c = i % nx;
        const float sym = 0.5f * (P[r * LD + c] + P[c * LD + r]);
        out[i] = kb.fade * sym + kb.dt * kb.Q[i];
    }
}

#ifdef STANDALONE
void predict(const KalmanBank &kb, cudaStream_t s)
{
    kalman_predict<<<(kb.count + PAIRS - 1) / PAIRS, THREADS, 0, s>>>(kb);
}
#endif
