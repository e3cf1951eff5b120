// Which ways to write a tile's pointer are the same address? Run: wmmadiag probe pointers
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void pointers(long long* bytes, float* first, int r, int c) {
    __shared__ __align__(32) half s[32][24];
    for (int i = threadIdx.x; i < 32 * 24; i += 32) (&s[0][0])[i] = __float2half((float)i);
    __syncthreads();
    const half* forms[] = {
        &s[r][c], s[r] + c, &s[0][0] + r * 24 + c, (half*)s + r * 24 + c, reinterpret_cast<half*>(s) + r * 24 + c,
        *(s + r) + c, (half*)&s[r] + c, (half*)(s + r) + c, (half*)s + r * 16 + c, (half*)&s + r + c,
    };
    for (int f = 0; f < 10; ++f) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, forms[f], 24);
        if (threadIdx.x == 0) {
            bytes[f] = (const char*)forms[f] - (const char*)&s[0][0];
            first[f] = __half2float(a.x[0]);
        }
    }
}
