// How much shared memory may a block have? Run: wmmadiag probe shared-memory
extern "C" __global__ void shared_memory(int* out, int words) {
    extern __shared__ int s[];
    s[0] = 1;
    s[words - 1] = 2;
    __syncthreads();
    *out = words > 1 ? s[0] + s[words - 1] : 3;
}
#ifdef STATIC
extern "C" __global__ void fixed(int* out, int words) {
    __shared__ int s[STATIC / 4];
    s[threadIdx.x % words] = 1;
    s[words - 1] = 2;
    __syncthreads();
    *out = s[0] + s[words - 1];
}
#endif
