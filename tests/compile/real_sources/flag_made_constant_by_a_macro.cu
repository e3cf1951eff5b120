// kernel: attn<Traits<64>, true>
// kernel: attn<Traits<64>, false>
#define BOOL_SWITCH(COND, NAME, ...) \
  [&] { if (COND) { constexpr bool NAME = true; return __VA_ARGS__(); } \
        else { constexpr bool NAME = false; return __VA_ARGS__(); } }()
template <int HEAD> struct Traits { static constexpr int kHead = HEAD; static int bytes() { return printf("x"); } };
template <typename T, bool CAUSAL> __global__ void attn(float *o) {
  o[threadIdx.x] = CAUSAL ? T::kHead : 2.5f;  // HERE
}
template <int HEAD> void run(float *o, bool causal) {
  using Config = Traits<HEAD>;
  BOOL_SWITCH(causal, Causal, [&] {
    auto kernel = &attn<Config, Causal>;
    kernel<<<1, 32, Config::bytes()>>>(o);
  });
}
void all(float *o) { run<64>(o, true); }
