// Tags through arithmetic: the table of combinations, and instructions that work lane by lane or between lanes.
#include <bit>
#include <cmath>
#include <limits>

#include "../lane_exchange.hpp"
#include "../lane_ops/formats.hpp"
#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

constexpr float nothing = -std::numeric_limits<float>::infinity();

// The index that a statistic of rows or columns has, and of which axis.
Axis known_axis(Tag t) { return (t & row_known) != 0 ? Axis::row : Axis::column; }

}  // namespace

Tag Provenance::combine(Tag a, Tag b, Arithmetic how) {
    if (b == none) return a;
    if (a == none) return b;
    if (a == b) {
        if (how == Arithmetic::subtract && is_element(a) && is_regular(a) && matrices_[matrix(a)].depth == 0) return a | residual;
        return a;
    }
    return combine_slow(a, b, how);
}

Tag Provenance::combine_slow(Tag a, Tag b, Arithmetic how) {
    if (is_bad(a)) return a;
    if (is_bad(b)) return b;
    if (!is_regular(a) || !is_regular(b)) return mixed;
    const auto made = blend(a, b, how);
    if (!made.wrong) return made(a, b);
    const bool first = is_element(a);
    return bad(record(Kind::statistic, where_.pc, no_pc, no_pc, plain(first ? a : b), plain(first ? b : a)));
}

// Of two regular tags that are not the same.
Blend Provenance::blend(Tag a, Tag b, Arithmetic how) {
    // Adding minus a statistic is subtracting it.
    if (how == Arithmetic::add && ((a & ~b) | (b & ~a)) & negated && is_element(a) != is_element(b)) how = Arithmetic::subtract;
    const bool both_residual = (a & b & residual) != 0;
    a = plain(a);
    b = plain(b);
    constexpr Blend of_a{none, ~(negated | residual), none}, of_b{none, none, ~(negated | residual)}, neither{mixed, none, none};
    if (a == b) return {both_residual ? residual : none, of_a.keep_a, none};
    const bool reduces = how == Arithmetic::add || how == Arithmetic::extremum;
    const auto ma = matrix(a), mb = matrix(b);
    const auto& da = matrices_[ma];
    const auto& db = matrices_[mb];
    const bool same_row = row(a) == row(b), same_column = column(a) == column(b);
    if (da.base == db.base) {
        const Tag m = Tag{matrices_.merge(ma, mb)} << matrix_shift;
        if (!reduces && is_element(a) != is_element(b)) {
            const bool first = is_element(a);
            const Tag part = first ? b : a, kept = plain(~matrix_mask);
            if ((part & full) != 0 && !(known_axis(part) == Axis::row ? same_row : same_column)) return Blend::error();
            return {m, first ? kept : none, first ? none : kept};
        }
        return {m,
                (same_row && (a & b & row_known) != 0 ? row_known | index_mask << row_shift : none) |
                    (same_column && (a & b & column_known) != 0 ? column_known | index_mask : none),
                none};
    }
    if (is_element(a) && is_element(b)) {
        if (da.depth == db.depth) return neither;
        const bool first = da.depth > db.depth;
        const auto &upper = first ? da : db, &lower = first ? db : da;
        auto deep = first ? of_a : of_b;
        if (lower.depth == 0) {  // an epilogue: what a product is added to or scaled by, element by element, by row or by column
            const Tag flat = first ? b : a;
            const bool fits = same_column && (same_row || row(flat) == 0);
            auto result = fits || (row(flat) == 0 && column(flat) == row(first ? a : b)) ? deep : neither;
            result.everywhere = false;
            return result;
        }
        // The only element of its row is that row's statistic.
        return !reduces && upper.origin[0] == lower.origin[0] && same_row ? deep : neither;
    }
    if (!is_element(a) && !is_element(b)) {
        if ((a & full) == 0 || (b & full) == 0) return neither;
        const auto xa = known_axis(a), xb = known_axis(b);
        const bool fits = da.origin[static_cast<unsigned>(xa)] == db.origin[static_cast<unsigned>(xb)] && index(a, xa) == index(b, xb);
        auto result = !fits ? neither : da.depth >= db.depth ? of_a : of_b;
        result.everywhere = xa == xb;
        return result;
    }
    const bool first = is_element(a);
    const Tag whole = first ? a : b, part = first ? b : a;
    auto result = first ? of_a : of_b;
    if ((part & full) != 0) {
        const auto axis = known_axis(part);
        const auto origin = matrices_[matrix(part)].origin[static_cast<unsigned>(axis)];
        const auto& m = matrices_[matrix(whole)];
        for (const auto mine : {Axis::row, Axis::column}) {
            if (m.origin[static_cast<unsigned>(mine)] != origin) continue;
            if (index(whole, mine) != index(part, axis)) result = reduces ? neither : Blend::error();
            result.everywhere &= mine == axis;
            break;
        }
    }
    return result;
}

// A bad value that became zero or -infinity, which nothing that is added changes, no longer counts.
Tag Provenance::masked(Tag tag, const void* d, unsigned lane) const {
    const auto& plan = plans_[where_.pc];
    if (!plan.floating) return tag;
    const float value = plan.width == 4   ? static_cast<const float*>(d)[lane]
                        : plan.width == 2 ? lanewise::widen_f16(static_cast<const std::uint16_t*>(d)[lane])
                                          : 1.0f;
    return value == 0.0f || value == nothing ? none : tag;
}

// The result of combining `a` and `b`, knowing the values.
Tag Provenance::settled(Tag result, Tag a, Tag b, const Inst& inst, unsigned lane) const {
    const auto& plan = plans_[where_.pc];
    const bool scaled = plan.arithmetic == Arithmetic::multiply && is_regular(result) && !is_element(result);
    if (scaled && (a == none || b == none) && plan.floating && plan.width == 4) {
        const auto factor = inst.s[a == none ? 0 : 1];
        if (factor != inst.d && (now_->at<std::uint32_t>(factor)[lane] >> 31) != 0) result ^= negated;
    }
    // Zero times a statistic is zero, whatever row that is of: the running output before the first tile.
    return is_bad(result) || scaled ? masked(result, now_->at<std::byte>(inst.d), lane) : result;
}

// max and min of a bad value and another: bad only if it won. One of the sources may have been overwritten by the result.
Tag Provenance::extremum(Tag a, Tag b, const Inst& inst, unsigned lane) const {
    const auto bits = [&](Operand slot) -> std::uint64_t {
        const auto width = plans_[where_.pc].width;
        return width == 2   ? now_->at<std::uint16_t>(slot)[lane]
               : width == 4 ? now_->at<std::uint32_t>(slot)[lane]
                            : now_->at<std::uint64_t>(slot)[lane];
    };
    const unsigned worse = is_bad(a) ? 0 : 1;
    const Tag other = worse == 0 ? b : a;
    if (is_bad(other)) return a;
    const bool lost = inst.s[worse] != inst.d ? bits(inst.d) != bits(inst.s[worse]) : bits(inst.d) == bits(inst.s[1 - worse]);
    return lost ? other : worse == 0 ? a : b;
}

Tag Provenance::of_lane(const Tag* tags, unsigned lane, unsigned width) const {
    if (tags == nullptr) return none;
    const auto n = std::max(1u, width >> shift_);
    const auto* own = tags + std::size_t{n} * lane;
    return own[n - 1] != none ? own[n - 1] : own[0];  // a bfloat16 that became f32 is the high half
}

void Provenance::lane_rule(const Inst& inst, Mask active) {
    const auto& plan = plans_[where_.pc];
    const Tag* s[3]{};
    unsigned tagged = 0, first = 0;
    for (unsigned i = 3; i-- > 0;) {
        if (inst.s[i] == no_operand || (plan.rule != Rule::lanes && i > 0)) continue;
        s[i] = read(inst.s[i]);
        if (s[i] != nullptr) {
            ++tagged;
            first = i;
        }
    }
    if (tagged == 0) {
        clear(inst.d, plan.width, active);
        return;
    }
    const auto n = granules(plan.width), from = granules(plan.source_width);
    auto* d = write(inst.d, plan.width, active);
    const bool signs = plan.arithmetic == Arithmetic::negate || plan.arithmetic == Arithmetic::multiply || plan.arithmetic == Arithmetic::fused;
    if (tagged == 1 && n == from && !signs && (!plan.floating || plan.arithmetic == Arithmetic::other)) {
        if (active == all_lanes) std::copy_n(s[first], std::size_t{n} * lanes, d);
        else
            for (Mask m = active; m != 0; m &= m - 1)
                std::copy_n(s[first] + std::size_t{n} * static_cast<unsigned>(std::countr_zero(m)), n,
                            d + std::size_t{n} * static_cast<unsigned>(std::countr_zero(m)));
        return;
    }
    if (tagged == 1 && n == from && active == all_lanes && plan.rule == Rule::lanes) {
        // Elements, and constants: they stay what they are. (A bad tag is no element.)
        Tag common = full;
        for (unsigned i = 0; i < n * lanes; ++i) common &= s[first][i];
        if (common == full) {
            std::copy_n(s[first], std::size_t{n} * lanes, d);
            return;
        }
    }
    if (active == all_lanes && lane_rule_together(inst, s, d)) return;
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto* to = d + std::size_t{n} * lane;
        if (plan.rule == Rule::integer) {
            Tag low[4]{};
            std::copy_n(s[0] + std::size_t{from} * lane, std::min({n, from, 4u}), low);
            std::copy_n(low, std::min(n, 4u), to);
            continue;
        }
        Tag t[3]{};
        for (unsigned i = 0; i < 3; ++i) {
            if (s[i] != nullptr) t[i] = of_lane(s[i], lane, i == plan.wide_source ? plan.width : plan.source_width);
        }
        Tag result = none;
        switch (plan.arithmetic) {
            case Arithmetic::negate: result = is_regular(t[0]) && !is_element(t[0]) ? t[0] ^ negated : t[0]; break;
            case Arithmetic::fused: result = combine(combine(t[0], t[1], Arithmetic::multiply), t[2], Arithmetic::add); break;
            case Arithmetic::extremum:
                result = is_bad(t[0]) || is_bad(t[1]) ? extremum(t[0], t[1], inst, lane) : combine(t[0], t[1], plan.arithmetic);
                break;
            default: result = combine(combine(t[0], t[1], plan.arithmetic), t[2], Arithmetic::other); break;
        }
        std::fill_n(to, n, settled(result, t[0], t[1], inst, lane));
    }
}

// Packed halves, and operations on bits that keep halves in their places.
void Provenance::half_rule(const Inst& inst, Mask active) {
    const auto& plan = plans_[where_.pc];
    const auto n = granules(plan.width);
    const Tag* s[3]{};
    unsigned tagged = 0;
    for (unsigned i = 0; i < 3; ++i) {
        if (inst.s[i] == no_operand) continue;
        s[i] = read(inst.s[i]);
        tagged += s[i] != nullptr;
    }
    if (tagged == 0) {
        clear(inst.d, plan.width, active);
        return;
    }
    auto* d = write(inst.d, plan.width, active);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto* to = d + std::size_t{n} * lane;
        if (plan.rule == Rule::pack_halves) {
            const Tag high = of_lane(s[0], lane, 4), low = of_lane(s[1], lane, 4);
            for (unsigned i = 0; i < n; ++i) to[i] = 2 * i < n ? low : high;
            continue;
        }
        for (unsigned i = 0; i < n; ++i) {
            const auto g = std::size_t{n} * lane + i;
            const auto at = [&](unsigned k) { return s[k] == nullptr ? none : s[k][g]; };
            Tag result;
            if (plan.arithmetic == Arithmetic::fused) result = combine(combine(at(0), at(1), Arithmetic::multiply), at(2), Arithmetic::add);
            else if (plan.arithmetic == Arithmetic::negate) result = is_regular(at(0)) && !is_element(at(0)) ? at(0) ^ negated : at(0);
            else result = combine(combine(at(0), at(1), plan.arithmetic), at(2), Arithmetic::other);
            if (is_bad(result) && shift_ == 1 && plan.arithmetic != Arithmetic::other) {
                const float value = lanewise::widen_f16(now_->at<std::uint16_t>(inst.d)[g]);
                if (value == 0.0f || value == nothing) result = none;
            }
            to[i] = result;
        }
    }
}

// Shifts, masks and byte permutations: granules move as wholes, or become what all of them are together.
void Provenance::bit_rule(const Inst& inst, Mask active) {
    const auto& plan = plans_[where_.pc];
    const auto* a = read(inst.s[0]);
    const auto* b = plan.rule == Rule::permute || plan.rule == Rule::mask ? read(inst.s[1]) : nullptr;
    if (a == nullptr && b == nullptr) {
        clear(inst.d, plan.width, active);
        return;
    }
    const auto n = granules(plan.width), bits = 8u << shift_, bytes = 1u << shift_;
    auto* d = write(inst.d, plan.width, active);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        Tag in[16]{}, out[8]{};
        for (unsigned i = 0; i < n; ++i) {
            in[i] = a == nullptr ? none : a[std::size_t{n} * lane + i];
            in[n + i] = b == nullptr ? none : b[std::size_t{n} * lane + i];
        }
        Tag all = none;
        for (unsigned i = 0; i < 2 * n; ++i) all = combine(all, in[i], Arithmetic::other);
        if (plan.rule == Rule::permute) {
            const auto selector = now_->at<std::uint32_t>(inst.s[2])[lane];
            for (unsigned i = 0; i < n; ++i) {
                const auto byte = [&](unsigned k) { return selector >> (4 * k) & 7u; };
                out[i] = in[byte(i * bytes) / bytes];
                if (bytes == 2 && byte(2 * i + 1) / 2 != byte(2 * i) / 2) out[i] = combine(out[i], in[byte(2 * i + 1) / 2], Arithmetic::other);
            }
        } else if (plan.rule == Rule::mask) {
            const auto word = [&](Operand slot) -> std::uint64_t {
                if (plan.width == 2) return now_->at<std::uint16_t>(slot)[lane];
                return plan.width == 4 ? now_->at<std::uint32_t>(slot)[lane] : now_->at<std::uint64_t>(slot)[lane];
            };
            const auto* other = a == nullptr ? &inst.s[0] : b == nullptr ? &inst.s[1] : nullptr;
            for (unsigned i = 0; i < n; ++i) {
                out[i] = combine(in[i], in[n + i], Arithmetic::other);
                if (other != nullptr && *other != inst.d && (word(*other) >> (i * bits) & ((std::uint64_t{1} << bits) - 1)) == 0) out[i] = none;
            }
        } else {
            const auto by = inst.s[1] == inst.d ? 1u : now_->at<std::uint32_t>(inst.s[1])[lane];
            const auto step = by / bits;
            for (unsigned i = 0; i < n; ++i) {
                if (by % bits != 0) out[i] = all;
                else if (plan.rule == Rule::shift_left) out[i] = i >= step ? in[i - step] : none;
                else out[i] = i + step < n ? in[i + step] : plan.arithmetic_shift ? in[n - 1] : none;
            }
        }
        std::copy_n(out, n, d + std::size_t{n} * lane);
    }
}

void Provenance::select_rule(const Inst& inst, Mask active) {
    const auto& plan = plans_[where_.pc];
    const auto *a = read(inst.s[0]), *b = read(inst.s[1]);
    if (a == nullptr && b == nullptr) {
        clear(inst.d, plan.width, active);
        return;
    }
    const Mask chosen = *now_->at<Mask>(inst.s[2]) ^ (inst.modifiers.neg_c() ? all_lanes : 0);
    const auto n = granules(plan.width);
    auto* d = write(inst.d, plan.width, active);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto* from = (chosen >> lane & 1) != 0 ? a : b;
        for (unsigned i = 0; i < n; ++i) d[std::size_t{n} * lane + i] = from == nullptr ? none : from[std::size_t{n} * lane + i];
    }
}

void Provenance::shuffle_rule(const Inst& inst, Mask active) {
    if (inst.d == no_operand || active == 0) return;
    const auto* a = read(inst.s[0]);
    if (a == nullptr) {
        clear(inst.d, 4, active);
        return;
    }
    const auto n = granules(4);
    std::array<Tag, 4 * lanes> from;
    std::copy_n(a, std::size_t{n} * lanes, from.data());
    auto* d = write(inst.d, 4, active);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto source = shuffle_source(*now_, inst, lane).lane;
        std::copy_n(from.data() + std::size_t{n} * source, n, d + std::size_t{n} * lane);
    }
}

void Provenance::reduce_rule(const Inst& inst, Mask active) {
    if (active == 0) return;
    const auto* a = read(inst.s[0]);
    if (a == nullptr) {
        clear(inst.d, 4, active);
        return;
    }
    Tag sum = none;
    for (Mask m = active; m != 0; m &= m - 1) sum = combine(sum, of_lane(a, static_cast<unsigned>(std::countr_zero(m)), 4), Arithmetic::extremum);
    const auto n = granules(4);
    auto* d = write(inst.d, 4, active);
    for (Mask m = active; m != 0; m &= m - 1) std::fill_n(d + std::size_t{n} * static_cast<unsigned>(std::countr_zero(m)), n, sum);
}

}  // namespace wmmadiag::provenance
