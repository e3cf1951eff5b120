// kernel: kernel
// note: blanked-code
using Matrix = vendor_matrix<float>;
template <typename T> struct Held { typedef T type; };
__global__ void kernel(float *x) { x[threadIdx.x] = sizeof(Held<float>); }  // HERE
__device__ int never(int Matrix) { return Matrix; }
