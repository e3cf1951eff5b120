// numbers: instructions that made a NaN or an infinity, rather than passed one on.
//
// Kinds: "nan": a NaN result of operands that are none; "infinity": an infinite result of finite operands; "overflow": the same in a
// conversion to a narrower type, or in a multiplication with a narrow result. Of accumulators in half: "near-overflow": finite sums of
// half the range or more; "absorbed": additions to large sums that changed nothing, though the products add up to something.
#include <algorithm>
#include <array>
#include <bit>

#include "../check.hpp"
#include "../lane_ops/formats.hpp"
#include "../operation_words.hpp"

namespace wmmadiag {

namespace {

enum class Type : std::uint8_t { none, f16, bf16, f16x2, bf16x2, f32, f64 };

Type type_of(std::string_view word) {
    if (word == "f16") return Type::f16;
    if (word == "bf16") return Type::bf16;
    if (word == "f16x2") return Type::f16x2;
    if (word == "bf16x2") return Type::bf16x2;
    if (word == "f32" || word == "tf32") return Type::f32;
    if (word == "f64") return Type::f64;
    return Type::none;
}

struct Rule {
    Type d = Type::none, s = Type::none;
    bool conversion = false;
    bool overwrites = false;  // the result takes an operand's place
};

Rule rule_of(std::string_view name) {
    const OperationWords words(name);
    for (const std::string_view silent :
         {"mov", "selp", "slct", "setp", "set", "neg", "abs", "ld", "st", "atom", "shfl", "mma", "wmma", "testp", "copysign"})
        if (words.op == silent) return {};
    const auto last = type_of(words.last);
    if (words.op == "cvt") {
        const auto first = type_of(words.first);
        return first == Type::none || last == Type::none ? Rule{} : Rule{first, last, true};
    }
    return {last, last, false};
}

// What a number is: 0 finite, 1 infinite, 2 NaN; of a pair the worse.
template <class T>
unsigned kind(T bits, T infinity) {
    const T magnitude = bits & static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));
    return magnitude < infinity ? 0 : magnitude == infinity ? 1 : 2;
}
unsigned kind_of(Type type, const std::byte* p, unsigned lane) {
    const auto read = [&](auto zero, unsigned at) {
        std::memcpy(&zero, p + at, sizeof zero);
        return zero;
    };
    const auto half = [&](unsigned at) { return kind<std::uint16_t>(read(std::uint16_t{}, at), 0x7c00); };
    const auto brain = [&](unsigned at) { return kind<std::uint16_t>(read(std::uint16_t{}, at), 0x7f80); };
    switch (type) {
        case Type::f16: return half(2 * lane);
        case Type::bf16: return brain(2 * lane);
        case Type::f16x2: return std::max(half(4 * lane), half(4 * lane + 2));
        case Type::bf16x2: return std::max(brain(4 * lane), brain(4 * lane + 2));
        case Type::f32: return kind<std::uint32_t>(read(std::uint32_t{}, 4 * lane), 0x7f800000u);
        case Type::f64: return kind<std::uint64_t>(read(std::uint64_t{}, 8 * lane), 0x7ff0'0000'0000'0000u);
        default: return 0;
    }
}

// Lanes whose result is no finite number; quick, since it is asked of every instruction.
Mask suspicious(Type type, const std::byte* p, Mask active) {
    Mask found = 0;
    std::uint32_t highest = 0;  // the exponent is all ones in the highest magnitude if in any
    if (type == Type::f32) {
        const auto* words = reinterpret_cast<const std::uint32_t*>(p);
        for (unsigned l = 0; l < lanes; ++l) highest = std::max(highest, words[l] & 0x7fffffffu);
        if (highest < 0x7f800000u) return 0;
        for (unsigned l = 0; l < lanes; ++l) found |= Mask{(words[l] & 0x7f800000u) == 0x7f800000u} << l;
    } else if (type == Type::f16) {
        const auto* words = reinterpret_cast<const std::uint16_t*>(p);
        for (unsigned l = 0; l < lanes; ++l) highest = std::max<std::uint32_t>(highest, words[l] & 0x7fffu);
        if (highest < 0x7c00u) return 0;
        for (unsigned l = 0; l < lanes; ++l) found |= Mask{(words[l] & 0x7c00u) == 0x7c00u} << l;
    } else {
        for (unsigned l = 0; l < lanes; ++l) found |= Mask{kind_of(type, p, l) != 0} << l;
    }
    return found & active;
}

class Numbers final : public Check {
public:
    explicit Numbers(const Shared& shared) : source_(shared.program->source()) {
        std::vector<Rule> by_operation;
        for (const auto& name : source_.operations) by_operation.push_back(rule_of(name));
        for (const auto& raw : source_.code) {
            auto rule = by_operation[raw.op];
            rule.overwrites = rule.d != Type::none && raw.d != no_operand && std::find(std::begin(raw.s), std::end(raw.s), raw.d) != std::end(raw.s);
            rules_.push_back(rule);
        }
        found_.resize(source_.code.size());
    }

    [[nodiscard]] bool wants_instructions() const override { return true; }
    [[nodiscard]] bool wants_operands() const override { return true; }
    [[nodiscard]] bool wants_result_of(std::uint32_t pc) const override { return rules_[pc].d != Type::none; }
    [[nodiscard]] bool wants_operands_of(std::uint32_t pc) const override { return rules_[pc].overwrites; }

    void executing(const WriteEvent& event) override {
        const auto& rule = rules_[event.where.pc];
        if (!rule.overwrites) return;
        const auto* from = event.warp->at<std::byte>(event.inst->d);
        if (rule.s == Type::f32) std::memcpy(operand_.data(), from, 4 * lanes);
        else std::memcpy(operand_.data(), from, 8 * lanes);
    }

    void executed(const WriteEvent& event) override {
        const auto& rule = rules_[event.where.pc];
        if (rule.d == Type::none || event.inst->d == no_operand) return;
        const auto* d = event.warp->at<std::byte>(event.inst->d);
        const Mask bad = suspicious(rule.d, d, event.active);
        if (bad != 0) judge(event, rule, d, bad);
    }

    void tensor(const TensorEvent& event) override {
        const auto& r = event.op->rule;
        const auto type = r.d == Element::f32 ? Type::f32 : r.d == Element::f16 ? Type::f16 : Type::none;
        if (type == Type::none) return;
        if (r.c == Element::f16 && r.d == Element::f16 && r.a == Element::f16) look_at_growth(event);
        const auto* d = static_cast<const std::byte*>(event.d);
        const unsigned count = r.m * r.n;
        unsigned worst = 0;
        for (unsigned i = 0; i < count; i += lanes) {
            const unsigned left = std::min(lanes, count - i);
            const Mask active = left == lanes ? all_lanes : (Mask{1} << left) - 1;
            for (Mask m = suspicious(type, d + std::size_t{i} * (type == Type::f32 ? 4 : 2), active); m != 0; m &= m - 1)
                worst = std::max(worst, kind_of(type, d, i + static_cast<unsigned>(std::countr_zero(m))));
        }
        if (worst == 0) return;
        const auto matrix = [](Element e) {
            switch (e) {
                case Element::f16: return Type::f16;
                case Element::bf16: return Type::bf16;
                case Element::tf32:
                case Element::f32: return Type::f32;
                default: return Type::none;
            }
        };
        unsigned before = 0;
        const auto look = [&](const void* p, Type t, unsigned n) {
            for (unsigned i = 0; i < n && t != Type::none; ++i) before = std::max(before, kind_of(t, static_cast<const std::byte*>(p), i));
        };
        look(event.a, matrix(r.a), r.m * r.k);
        look(event.b, matrix(r.b), r.n * r.k);
        look(event.c, matrix(r.c), count);
        if (worst == 2 && before < 2) note(event.where, "nan", 0);
        if (worst == 1 && before < 1) note(event.where, type == Type::f16 ? "overflow" : "infinity", 0);
    }

    std::vector<RawFinding> findings() override {
        std::vector<RawFinding> all;
        for (auto& of_pc : found_)
            for (auto& finding : of_pc)
                if (finding.count != 0) all.push_back(finding);
        return all;
    }

private:
    void look_at_growth(const TensorEvent& event) {
        constexpr unsigned magnitude = 0x7fff, large = 0x5c00, half_range = 0x7800, infinite = 0x7c00;  // large: 256
        const auto& r = event.op->rule;
        const auto *c = static_cast<const std::uint16_t*>(event.c), *d = static_cast<const std::uint16_t*>(event.d);
        const unsigned count = r.m * r.n;
        unsigned highest = 0;
        for (unsigned i = 0; i < count; ++i) highest = std::max<unsigned>(highest, std::max(c[i] & magnitude, d[i] & magnitude));
        if (highest < large) return;
        for (unsigned i = 0; i < count; ++i) {
            const unsigned before = c[i] & magnitude, after = d[i] & magnitude;
            if (after >= half_range && after < infinite) note(event.where, "near-overflow", 0);
            if (c[i] == d[i] && before >= large && before < infinite && products(event, i / r.n, i % r.n) != 0) note(event.where, "absorbed", 0);
        }
    }
    static double products(const TensorEvent& event, unsigned row, unsigned column) {
        const auto& r = event.op->rule;
        const auto* a = static_cast<const std::uint16_t*>(event.a) + std::size_t{row} * r.k;
        const auto* b = static_cast<const std::uint16_t*>(event.b) + std::size_t{column} * r.k;
        double sum = 0;
        for (unsigned k = 0; k < r.k; ++k) sum += double{lanewise::widen_f16(a[k])} * double{lanewise::widen_f16(b[k])};
        return sum;
    }

    void judge(const WriteEvent& event, const Rule& rule, const std::byte* d, Mask bad) {
        for (Mask m = bad; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto result = kind_of(rule.d, d, lane);
            unsigned worst = 0;
            for (const auto s : event.inst->s) {
                if (s == no_operand) continue;
                worst = std::max(worst, kind_of(rule.s, s == event.inst->d ? operand_.data() : event.warp->at<std::byte>(s), lane));
            }
            if (result == 2 && worst < 2) note(event.where, "nan", lane);
            else if (result == 1 && worst < 1) note(event.where, rule.conversion ? "overflow" : "infinity", lane);
        }
    }

    void note(const Where& where, const char* kind, unsigned lane) {
        for (auto& finding : found_[where.pc]) {
            if (finding.kind == kind) {
                ++finding.count;
                return;
            }
        }
        RawFinding f;
        f.check = "numbers";
        f.kind = kind;
        f.pc = where.pc;
        f.block = where.block;
        f.warp = where.warp;
        f.lane = lane;
        f.count = 1;
        found_[where.pc].push_back(std::move(f));
    }

    const ProgramSource& source_;
    std::vector<Rule> rules_;
    std::array<std::byte, 8 * lanes> operand_{};  // that the running instruction overwrites
    std::vector<std::vector<RawFinding>> found_;  // by program counter
};

}  // namespace

std::unique_ptr<Check> make_numbers(const Shared& shared) { return std::make_unique<Numbers>(shared); }

}  // namespace wmmadiag
