// Three levels of inlining; the tests name these lines.
__device__ float inner(float x) {
    return x * x + 1;                  // 3
}
__device__ float middle(float x) {
    float r = inner(x);                // 6
    return r +
           inner(r * 2);               // 8
}
__device__ float outer(float x) {
    return middle(x) +                 // 11
           middle(x + 1);              // 12
}
extern "C" __global__ void nested(float* p) {
    p[0] = outer(p[0]);                // 15
    p[1] = outer(p[1]) + middle(p[2]); // 16
    float t = p[3];
    for (int i = 0; i < 3; i++)
        t = middle(t);                 // 19
    p[4] = t;
}
