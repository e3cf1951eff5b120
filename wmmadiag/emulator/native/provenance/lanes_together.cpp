// Arithmetic on the tags of a whole warp: its lanes nearly always hold elements of one matrix, so that one decision is right for all.
#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

constexpr Tag row_mask = index_mask << row_shift;

// As `Provenance::of_lane`, of every lane; `n` granules each.
void values_of(const Tag* tags, unsigned n, LaneTags& to) {
    if (tags == nullptr) {
        std::fill_n(to.of, lanes, none);
    } else if (n == 1) {
        std::copy_n(tags, lanes, to.of);
    } else if (n == 2) {
        for (unsigned l = 0; l < lanes; ++l) to.of[l] = tags[2 * l + 1] != none ? tags[2 * l + 1] : tags[2 * l];
    } else {
        for (unsigned l = 0; l < lanes; ++l) to.of[l] = tags[n * l + n - 1] != none ? tags[n * l + n - 1] : tags[n * l];
    }
}

void write_all(const LaneTags& from, unsigned n, Tag* to) {
    if (n == 1) {
        std::copy_n(from.of, lanes, to);
    } else if (n == 2) {
        for (unsigned l = 0; l < lanes; ++l) to[2 * l] = to[2 * l + 1] = from.of[l];
    } else {
        for (unsigned l = 0; l < lanes; ++l) std::fill_n(to + std::size_t{n} * l, n, from.of[l]);
    }
}

bool any_bad(const LaneTags& tags) {
    unsigned found = 0;
    for (const Tag t : tags.of) found += is_bad(t) ? 1 : 0;
    return found != 0;
}

bool is_statistic(Tag t) { return is_regular(t) && !is_element(t); }

unsigned statistics(const LaneTags& tags) {
    unsigned found = 0;
    for (const Tag t : tags.of) found += is_statistic(t) ? 1 : 0;
    return found;
}

}  // namespace

// Combines in place. False: nothing was done, the lanes have to be looked at one by one.
bool Provenance::combine_lanes(LaneTags& a, const LaneTags& b, Arithmetic how) {
    Tag any_a = none, any_b = none, differ = none;
    unsigned same_rows = 0, same_columns = 0;
    const Tag a0 = a.of[0], b0 = b.of[0];
    for (unsigned l = 0; l < lanes; ++l) {
        any_a |= a.of[l];
        any_b |= b.of[l];
        differ |= (a.of[l] ^ a0) | (b.of[l] ^ b0);
        const Tag apart = a.of[l] ^ b.of[l];
        same_rows += (apart & row_mask) == 0 ? 1 : 0;
        same_columns += (apart & index_mask) == 0 ? 1 : 0;
    }
    if (any_b == none) return true;
    if (any_a == none) {
        a = b;
        return true;
    }
    if ((differ & ~position_mask) != 0 || !is_regular(a0) || !is_regular(b0) || same_rows % lanes != 0 || same_columns % lanes != 0) return false;
    if (a0 == b0) {
        const Tag added = combine(a0, b0, how) & ~a0;  // of equal tags: themselves, or residuals
        for (auto& t : a.of) t |= added;
        return true;
    }
    const auto made = blend(a0, b0, how);
    if (!made.everywhere) return false;
    for (unsigned l = 0; l < lanes; ++l) a.of[l] = made(a.of[l], b.of[l]);
    return true;
}

// `lane_rule` for a full warp. False: nothing was written, the lanes have to be looked at one by one.
bool Provenance::lane_rule_together(const Inst& inst, const Tag* const (&s)[3], Tag* d) {
    const auto& plan = plans_[where_.pc];
    if (plan.rule == Rule::integer) return false;
    LaneTags t[3];
    for (unsigned i = 0; i < 3; ++i) values_of(s[i], granules(i == plan.wide_source ? plan.width : plan.source_width), t[i]);
    auto& result = t[0];
    const bool multiplies = plan.arithmetic == Arithmetic::multiply;
    const LaneTags first = multiplies ? t[0] : LaneTags{};
    switch (plan.arithmetic) {
        case Arithmetic::negate:
            for (auto& tag : result.of) tag ^= is_statistic(tag) ? negated : none;
            break;
        case Arithmetic::fused:
            if (!combine_lanes(result, t[1], Arithmetic::multiply) || !combine_lanes(result, t[2], Arithmetic::add)) return false;
            break;
        case Arithmetic::extremum:
            if (any_bad(t[0]) || any_bad(t[1]) || !combine_lanes(result, t[1], plan.arithmetic)) return false;
            break;
        default:
            if (!combine_lanes(result, t[1], plan.arithmetic) || !combine_lanes(result, t[2], Arithmetic::other)) return false;
            break;
    }
    if ((multiplies && statistics(result) != 0) || any_bad(result))
        for (unsigned l = 0; l < lanes; ++l) result.of[l] = settled(result.of[l], first.of[l], t[1].of[l], inst, l);
    write_all(result, granules(plan.width), d);
    return true;
}

}  // namespace wmmadiag::provenance
