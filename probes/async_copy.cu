// Which cp.async exist, and what alignment do they want? MODIFIER is ca or cg, SIZE bytes. Run: wmmadiag probe async-copy
extern "C" __global__ void async_copy(const unsigned char* from, unsigned char* to, int source, int target) {
    __shared__ __align__(16) unsigned char s[128];
    for (int i = threadIdx.x; i < 128; i += 32) s[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned address = (unsigned)__cvta_generic_to_shared(s + target);
        asm volatile("cp.async." MODIFIER ".shared.global [%0], [%1], %2;" ::"r"(address), "l"(from + source), "n"(SIZE));
        asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32) to[i] = s[i];
}
