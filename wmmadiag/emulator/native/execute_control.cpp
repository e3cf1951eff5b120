// Lane operations' entry, branches, exit, barriers of the block, printf, assert, clocks.
#include <array>
#include <cinttypes>
#include <cstdio>

#include "access.hpp"

namespace wmmadiag {

namespace {

Flow run_lane(Warp& warp, const Inst& inst, Mask active) {
    const auto source = [&](unsigned i) -> const void* { return inst.s[i] == no_operand ? nullptr : warp.at<std::byte>(inst.s[i]); };
    inst.lane({active,
               inst.modifiers,
               inst.d == no_operand ? nullptr : warp.at<std::byte>(inst.d),
               inst.d2 == no_operand ? nullptr : warp.at<std::byte>(inst.d2),
               {source(0), source(1), source(2), source(3)}});
    return Flow::next;
}

// The same for an operation of a destination and so many sources.
template <unsigned sources>
Flow run_lane_of(Warp& warp, const Inst& inst, Mask active) {
    LaneArgs args{active, inst.modifiers, warp.at<std::byte>(inst.d), nullptr, {}};
    for (unsigned i = 0; i < sources; ++i) args.s[i] = warp.at<std::byte>(inst.s[i]);
    inst.lane(args);
    return Flow::next;
}

Execute lane_unwatched(const Inst& inst, const ProgramSource&) {
    unsigned sources = 0;
    while (sources < 4 && inst.s[sources] != no_operand) ++sources;
    for (unsigned i = sources; i < 4; ++i)
        if (inst.s[i] != no_operand) return run_lane;
    if (inst.d == no_operand || inst.d2 != no_operand) return run_lane;
    constexpr std::array<Execute, 5> of{run_lane, run_lane_of<1>, run_lane_of<2>, run_lane_of<3>, run_lane};
    return of[sources];
}

Flow branch(Warp& warp, const Inst& inst, Mask active) { return warp.branch(inst, active); }
Flow branch_indexed(Warp& warp, const Inst& inst, Mask active) { return active == 0 ? Flow::next : warp.branch_indexed(inst, active); }
Flow exit_lanes(Warp& warp, const Inst&, Mask active) {
    if (auto* observer = warp.block().observer()) observer->left(warp.where(), active);
    return warp.exit_lanes(active);
}
Flow trap(Warp& warp, const Inst&, Mask active) { return warp.fail(FaultKind::trap, active); }
Flow nothing(Warp&, const Inst&, Mask) { return Flow::next; }
// Memory is sequentially consistent here, so fences have nothing to do.
Flow fence(Warp& warp, const Inst& inst, Mask active) {
    if ((inst.flags & (flag::acquire | flag::release)) == 0) return Flow::next;  // between proxies, not between threads
    if (auto* observer = warp.block().observer()) observer->fence(warp.where(), active);
    return Flow::next;
}
Flow sleep(Warp& warp, const Inst&, Mask) { return warp.sleep(); }

// s: barrier id, thread count or no_operand, predicate (bar.red). code: of bar.red 0 popc, 1 and, 2 or.
Flow arrive(Warp& warp, const Inst& inst, Mask active, bool wait) {
    const auto lane = std::countr_zero(active);
    const auto id = warp.at<std::uint32_t>(inst.s[0])[lane];
    const auto threads = inst.s[1] == no_operand ? 0 : warp.at<std::uint32_t>(inst.s[1])[lane];
    if ((active & ~lanes_with(warp.at<std::uint32_t>(inst.s[0]), id)) != 0 ||
        (inst.s[1] != no_operand && (active & ~lanes_with(warp.at<std::uint32_t>(inst.s[1]), threads)) != 0))
        return warp.fail(FaultKind::bad_operand, active, "the barrier or its thread count differs between the lanes that run together");
    if (inst.s[1] != no_operand && (threads == 0 || threads % lanes != 0))
        return warp.fail(FaultKind::bad_operand, active, std::to_string(threads) + " threads are no multiple of the warp size, 32");
    Mask predicate = 0;
    if (inst.s[2] != no_operand) predicate = *warp.at<Mask>(inst.s[2]) ^ (inst.modifiers.neg_c() ? all_lanes : 0);
    return warp.block().arrive(warp, active, id, threads, wait, predicate);
}
Flow barrier_sync(Warp& warp, const Inst& inst, Mask active) { return arrive(warp, inst, active, true); }
Flow barrier_arrive(Warp& warp, const Inst& inst, Mask active) { return arrive(warp, inst, active, false); }

// Time is counted in the warp's instructions: the same in every run.
Flow clock(Warp& warp, const Inst& inst, Mask active) {
    for (Mask m = active; m != 0; m &= m - 1) {
        if (inst.register_bytes == 8) warp.at<std::uint64_t>(inst.d)[std::countr_zero(m)] = warp.executed();
        else warp.at<std::uint32_t>(inst.d)[std::countr_zero(m)] = static_cast<std::uint32_t>(warp.executed() >> inst.immediate);
    }
    return Flow::next;
}

constexpr std::size_t output_limit = 1u << 20;  // bytes per block, as CUDA's own buffer is limited

template <class T>
bool read(Warp& warp, unsigned lane, std::uint64_t address, T& value) {
    const auto* p = resolve_one(warp, Space::generic, lane, address, sizeof value, false);
    if (p != nullptr) std::memcpy(&value, p, sizeof value);
    return p != nullptr;
}

bool read_string(Warp& warp, unsigned lane, std::uint64_t address, std::string& to) {
    for (char c = 1; to.size() < output_limit; ++address) {
        if (!read(warp, lane, address, c)) return false;
        if (c == 0) return true;
        to.push_back(c);
    }
    return true;
}

// Arguments lie in memory as in a C variable argument list: ints in 4 bytes, everything else in 8, naturally aligned.
class Arguments {
public:
    Arguments(Warp& warp, unsigned lane, std::uint64_t address) : warp_(warp), lane_(lane), address_(address) {}
    template <class T>
    bool next(T& value) {
        address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        const bool ok = read(warp_, lane_, address_, value);
        address_ += sizeof(T);
        return ok;
    }

private:
    Warp& warp_;
    unsigned lane_;
    std::uint64_t address_;
};

template <class T>
void append(std::string& to, const std::string& specification, T value) {
    const auto length = std::snprintf(nullptr, 0, specification.c_str(), value);
    if (length <= 0 || static_cast<std::size_t>(length) > output_limit) return;
    std::string text(static_cast<std::size_t>(length) + 1, '\0');
    std::snprintf(text.data(), text.size(), specification.c_str(), value);
    text.pop_back();
    to += text;
}

constexpr int width_limit = 4096;

// False when the arguments could not be read; the fault is then set.
bool format(Warp& warp, unsigned lane, const std::string& pattern, std::uint64_t list, std::string& to) {
    Arguments arguments(warp, lane, list);
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%') {
            to.push_back(pattern[i]);
            continue;
        }
        if (++i < pattern.size() && pattern[i] == '%') {
            to.push_back('%');
            continue;
        }
        std::string spec = "%";
        int longs = 0;
        for (; i < pattern.size() && std::string_view("-+ #0123456789.*hlLzjt").find(pattern[i]) != std::string_view::npos; ++i) {
            if (pattern[i] == '*') {
                std::int32_t width = 0;
                if (!arguments.next(width)) return false;
                spec += std::to_string(std::clamp(width, -width_limit, width_limit));
            } else if (std::string_view("lzjt").find(pattern[i]) != std::string_view::npos) {
                ++longs;
            } else if (pattern[i] != 'h' && pattern[i] != 'L') {
                spec.push_back(pattern[i]);
            }
        }
        if (i >= pattern.size() || spec.size() > 32) return true;
        const char kind = pattern[i];
        if (std::string_view("diuxXoc").find(kind) != std::string_view::npos) {
            if (longs > 0) {
                std::int64_t value = 0;
                if (!arguments.next(value)) return false;
                append(to, spec + "ll" + kind, static_cast<long long>(value));
            } else {
                std::int32_t value = 0;
                if (!arguments.next(value)) return false;
                append(to, spec + kind, value);
            }
        } else if (std::string_view("eEfFgGaA").find(kind) != std::string_view::npos) {
            double value = 0;
            if (!arguments.next(value)) return false;
            append(to, spec + kind, value);
        } else if (kind == 'p') {
            std::uint64_t value = 0;
            if (!arguments.next(value)) return false;
            append(to, spec + kind, reinterpret_cast<const void*>(value));
        } else if (kind == 's') {
            std::uint64_t address = 0;
            std::string text;
            if (!arguments.next(address) || !read_string(warp, lane, address, text)) return false;
            append(to, spec + "s", text.c_str());
        } else {
            to += spec + kind;
        }
    }
    return true;
}

// s: pattern, arguments. d: the number of arguments on the chip; nobody reads it, 0 here.
Flow print(Warp& warp, const Inst& inst, Mask active) {
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        std::string pattern, text;
        if (!read_string(warp, lane, warp.at<std::uint64_t>(inst.s[0])[lane], pattern)) return Flow::fault;
        if (!format(warp, lane, pattern, warp.at<std::uint64_t>(inst.s[1])[lane], text)) return Flow::fault;
        auto& output = warp.block().output;
        if (output.size() + text.size() <= output_limit) output += text;
        if (inst.d != no_operand) warp.at<std::uint32_t>(inst.d)[lane] = 0;
    }
    return Flow::next;
}

// s: message, file, line, function.
Flow assertion(Warp& warp, const Inst& inst, Mask active) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    std::string message, file, function;
    if (!read_string(warp, lane, warp.at<std::uint64_t>(inst.s[0])[lane], message) ||
        !read_string(warp, lane, warp.at<std::uint64_t>(inst.s[1])[lane], file) ||
        !read_string(warp, lane, warp.at<std::uint64_t>(inst.s[3])[lane], function))
        return Flow::fault;
    const auto line = warp.at<std::uint32_t>(inst.s[2])[lane];
    return warp.fail(FaultKind::assertion, active, file + ":" + std::to_string(line) + ": " + function + ": assertion `" + message + "` failed");
}

constexpr std::array control_table{
    Operation{"lane", run_lane, false, lane_unwatched},
    Operation{"bra", branch, true},
    Operation{"brx.idx", branch_indexed, true},
    Operation{"exit", exit_lanes},
    Operation{"trap", trap},
    Operation{"nop", nothing},
    Operation{"fence", fence},
    Operation{"nanosleep", sleep},
    Operation{"bar.sync", barrier_sync},
    Operation{"bar.arrive", barrier_arrive},
    Operation{"bar.red", barrier_sync},
    Operation{"clock", clock},
    Operation{"vprintf", print},
    Operation{"assertfail", assertion},
};

}  // namespace

std::span<const Operation> control_operations() { return control_table; }

}  // namespace wmmadiag
