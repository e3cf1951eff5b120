// One step of AdamW, an element per thread. Corrections of the moments come from the host.
__global__ void adamw(float* p, const float* grad, float* m, float* v, int n, float lr, float beta1, float beta2,
                      float eps, float decay, float correction1, float correction2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float g = grad[i];
    const float first = beta1 * m[i] + (1.0f - beta1) * g;
    const float second = beta2 * v[i] + (1.0f - beta2) * g * g;
    m[i] = first;
    v[i] = second;
    p[i] -= lr * (first / correction1 / (sqrtf(second / correction2) + eps) + decay * p[i]);
}
