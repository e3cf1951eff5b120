// kernel: attn<64, 32, true>
// kernel: attn<64, 64, true>
template <int M, int N, bool CAUSAL>
__global__ void attn(float *o) {
  if (CAUSAL) o[threadIdx.x] = M;  // HERE
  else o[threadIdx.x] = N;
}
template <int HEAD>
void run(float *o, bool causal) {
  constexpr int UNUSED = 1, M = 64;
  enum { N = HEAD / 2, OTHER };
  if (causal) attn<M, N, true><<<1, 32>>>(o);
}
void dispatch(float *o, int head) {
  if (head == 64) run<64>(o, true);
  else if (head == 128) run<128>(o, true);
}
