// Rotary embedding of queries, in place: neighbouring elements of a head by an angle of their position.
__global__ void rope(float* x, int length, int heads, int width, float theta) {
    const int pair = threadIdx.x, at = blockIdx.x, head = blockIdx.y;
    x += ((static_cast<size_t>(blockIdx.z) * length + at) * heads + head) * width + 2 * pair;
    const float angle = at * powf(theta, -2.0f * pair / width);
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    const float first = x[0], second = x[1];
    x[0] = first * cosine - second * sine;
    x[1] = second * cosine + first * sine;
}
