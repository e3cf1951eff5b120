// The host's rounding mode, set for the length of a loop.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include "lanes.hpp"

namespace wmmadiag::lanewise {

// While in scope, host f32 and f64 arithmetic rounds as asked (rn, rz, rm or rp; others mean rn). The compiler knows nothing of rounding
// modes: the memory barriers keep the loads and stores of the work, and with them the arithmetic, inside.
class RoundingScope {
public:
    explicit RoundingScope(Rounding mode) noexcept : saved_(current()) {
        set(with(saved_, mode));
        asm volatile("" ::: "memory");
    }
    ~RoundingScope() {
        asm volatile("" ::: "memory");
        set(saved_);
    }
    RoundingScope(const RoundingScope&) = delete;
    RoundingScope& operator=(const RoundingScope&) = delete;

private:
#if defined(__x86_64__)
    using State = unsigned;  // MXCSR; the fields of fesetround would cost the x87 control word as well
    static State current() noexcept { return _mm_getcsr(); }
    static void set(State state) noexcept { _mm_setcsr(state); }
    static State with(State state, Rounding mode) noexcept {
        const State field = mode == Rounding::rz   ? _MM_ROUND_TOWARD_ZERO
                            : mode == Rounding::rm ? _MM_ROUND_DOWN
                            : mode == Rounding::rp ? _MM_ROUND_UP
                                                   : _MM_ROUND_NEAREST;
        return (state & ~static_cast<State>(_MM_ROUND_MASK)) | field;
    }
#else
    using State = int;
    static State current() noexcept { return std::fegetround(); }
    static void set(State state) noexcept { std::fesetround(state); }
    static State with(State, Rounding mode) noexcept {
        return mode == Rounding::rz ? FE_TOWARDZERO : mode == Rounding::rm ? FE_DOWNWARD : mode == Rounding::rp ? FE_UPWARD : FE_TONEAREST;
    }
#endif

    State saved_;
};

// A lane function run under the instruction's rounding mode.
template <LaneFunction function>
void rounded(const LaneArgs& args) {
    const RoundingScope scope(args.modifiers.rounding());
    function(args);
}

}  // namespace wmmadiag::lanewise
