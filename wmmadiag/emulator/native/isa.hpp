// Which engine a processor can run; the build asks it, too, for a core that is made for this machine alone.
#pragma once

namespace wmmadiag {

// The best instruction set that this CPU has, among those an engine is built for.
inline const char* best_isa() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "avx512";
    if (avx2) return "avx2";
#endif
    return "baseline";
}

}  // namespace wmmadiag
