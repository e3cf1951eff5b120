/*
 * Bank of decimating FIR filters on 8 bit samples (ADC front end, keyword spotting, channelizer):
 *
 *     acc[c][n] = sum_k  h[c][k] * x[n * D - k + lead]          0 <= k < taps
 *     y[c][n]   = sat16( (acc * gain[c] + round) >> shift )
 *
 * As a matrix product: filters (reversed, rows) times windows (columns). A window is never copied: column n of the B
 * operand starts n * D bytes behind the first one in the same line of samples. D is a multiple of 4, so that the
 * 32 bit registers of mma.m16n8k32 stay aligned.
 */
#include <cstdint>

static const int kChannels = 32;          // filters of a block
static const int kOutputs  = 64;          // samples out of a block
static const int kMaxTaps  = 128;
static const int kMaxDecim = 16;
static const int kLine     = (kOutputs - 1) * kMaxDecim + kMaxTaps;      // samples in
static const int kPitchH   = kMaxTaps + 16;

__device__ inline void imma(int (&d)[4], const int (&a)[4], const int (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline short saturate16(long long v)
{
    return (short)(v > 32767 ? 32767 : v < -32768 ? -32768 : v);
}

// grid: (outputs / 64, channels / 32, streams), 256 threads
__global__ void fir_decimate_s8(const int8_t *x, const int8_t *h, const int *gain, short *y,
                                int samples, int channels, int outputs, int taps, int decim, int lead, int shift)
{
    __shared__ __align__(16) int8_t line[kLine];
    __shared__ __align__(16) int8_t filt[kChannels * kPitchH];

    const int tid = threadIdx.x;
    const int n0 = blockIdx.x * kOutputs;
    const int c0 = blockIdx.y * kChannels;
    const int8_t *stream = x + (size_t)blockIdx.z * samples;

    // taps rounded up to the depth of an mma, zeros in front of the reversed filter
    const int depth = (taps + 31) / 32 * 32;

    // first sample that output n0 multiplies with the (padded) filter's last tap
    const int first = n0 * decim + lead - (depth - 1);
    const int needed = (kOutputs - 1) * decim + depth;
    for (int i = tid; i < needed; i += blockDim.x) {
        const int s = first + i;
        line[i] = s >= 0 && s < samples ? stream[s] : 0;
    }

    for (int i = tid; i < kChannels * depth; i += blockDim.x) {
        const int c = i / depth, j = i % depth;
        const int k = depth - 1 - j;                       // reversed
        filt[c * kPitchH + j] = c0 + c < channels && k < taps ? h[(size_t)(c0 + c) * taps + k] : 0;
    }
    __syncthreads();

    const int warp = tid / 32, lane = tid % 32;
    const int group = lane / 4, quad = lane % 4;
    const int wc = warp / 4 * 16;                          // 2 x 4 warps of 16 channels x 16 outputs
    const int wn = warp % 4 * 16;

    int acc[2][4] = {};
    for (int k = 0; k < depth; k += 32) {
        int a[4];
        const int8_t *pa = filt + (wc + group) * kPitchH + k + quad * 4;
        a[0] = *(const int *)(pa);
        a[1] = *(const int *)(pa + 8 * kPitchH);
        a[2] = *(const int *)(pa + 16);
        a[3] = *(const int *)(pa + 8 * kPitchH + 16);
        for (int j = 0; j < 2; ++j) {
            int b[2];
            const int8_t *pb = line + (wn + j * 8 + group) * decim + k + quad * 4;
            b[0] = *(const int *)(pb);
            b[1] = *(const int *)(pb + 16);
            imma(acc[j], a, b);
        }
    }

    const long long round = shift > 0 ? 1ll << (shift - 1) : 0;
    for (int r = 0; r < 2; ++r) {
        const int c = c0 + wc + group + r * 8;
        if (c >= channels)
            continue;
        const long long g = gain[c];
        short *out = y + ((size_t)blockIdx.z * channels + c) * outputs;
        for (int j = 0; j < 2; ++j)
            for (int e = 0; e < 2; ++e) {
                const int n = n0 + wn + j * 8 + quad * 2 + e;
                if (n < outputs)
                    out[n] = saturate16((acc[j][r * 2 + e] * g + round) >> shift);
            }
    }
}

int fir_bank(const int8_t *x, const int8_t *h, const int *gain, short *y, int streams, int samples, int channels,
             int taps, int decim, int lead, int shift)
{
    if (decim % 4 || decim > kMaxDecim || taps > kMaxTaps)
        return -1;
    const int outputs = (samples + decim - 1) / decim;
    dim3 grid((outputs + kOutputs - 1) / kOutputs, (channels + kChannels - 1) / kChannels, streams);
    fir_decimate_s8<<<grid, 256>>>(x, h, gain, y, samples, channels, outputs, taps, decim, lead, shift);
    return 0;
}
