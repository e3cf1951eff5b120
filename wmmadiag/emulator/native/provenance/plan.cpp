// What each instruction does with tags, decided once per program.
#include <algorithm>
#include <array>
#include <string_view>

#include "../operation_words.hpp"
#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

using std::string_view;

bool one_of(string_view word, std::initializer_list<string_view> words) { return std::find(words.begin(), words.end(), word) != words.end(); }

struct Named {
    string_view name;
    Rule rule;
};

constexpr std::array named{
    Named{"shfl", Rule::shuffle},
    Named{"redux", Rule::reduce},
    Named{"mov.pack", Rule::pack},
    Named{"mov.unpack", Rule::unpack},
    Named{"ld", Rule::load},
    Named{"st", Rule::store},
    Named{"atom", Rule::atomic},
    Named{"cp.async", Rule::copy_async},
    Named{"wmma.load", Rule::load_fragment},
    Named{"wmma.store", Rule::store_fragment},
    Named{"ldmatrix", Rule::load_matrices},
    Named{"stmatrix", Rule::store_matrices},
    Named{"movmatrix", Rule::transpose_matrix},
    Named{"mma", Rule::multiply},
    Named{"match", Rule::clear},
    Named{"elect", Rule::clear},
    Named{"activemask", Rule::clear},
    Named{"clock", Rule::clear},
};

Plan lane_plan(string_view name) {
    Plan plan;
    const auto [op, rest, first, last] = OperationWords(name);
    if (one_of(op, {"setp", "testp"}) || last == "pred") return plan;
    plan.width = plan.source_width = static_cast<std::uint8_t>(type_bytes(last));
    plan.rule = Rule::lanes;
    if (op == "mov") {
        plan.rule = Rule::copy;
    } else if (op == "selp") {
        plan.rule = Rule::select;
    } else if (op == "cvt") {
        plan.width = static_cast<std::uint8_t>(type_bytes(first));
        const bool from_integer = last[0] == 's' || last[0] == 'u' || last[0] == 'b';
        const bool to_integer = first[0] == 's' || (first[0] == 'u' && !first.starts_with("ue8"));
        if (from_integer && last == "bf16") plan.rule = Rule::lanes;
        else if (one_of(first, {"f16x2", "bf16x2"}) && last == "f32") plan.rule = Rule::pack_halves;
        else if (from_integer && to_integer && last[0] != 'b') plan.rule = Rule::integer;
    } else if (one_of(op, {"shl", "shr"})) {
        plan.rule = op == "shl" ? Rule::shift_left : Rule::shift_right;
        plan.arithmetic_shift = last[0] == 's';
    } else if (op == "and") {
        plan.rule = Rule::mask;
    } else if (op == "prmt") {
        plan.rule = Rule::permute;
    } else if (one_of(op, {"or", "xor", "not", "lop3"}) || (last.ends_with("x2") && plan.width == 4)) {
        plan.rule = Rule::halves;
    } else if (rest.find("wide") != string_view::npos) {
        plan.width = static_cast<std::uint8_t>(2 * plan.source_width);
        if (op == "mad") plan.wide_source = 2;
    } else if (rest.find('.') != string_view::npos && first == "f32" && one_of(last, {"f16", "bf16"})) {
        plan.width = 4;
        plan.wide_source = op == "fma" ? 2 : 1;
    }
    if (op == "set") {
        plan.rule = Rule::clear;
        plan.width = static_cast<std::uint8_t>(type_bytes(first));
    }
    plan.floating = one_of(last, {"f32", "f16"}) && plan.rule == Rule::lanes && plan.width == plan.source_width;
    plan.arithmetic = one_of(op, {"sub"})          ? Arithmetic::subtract
                      : one_of(op, {"add"})        ? Arithmetic::add
                      : one_of(op, {"mul", "div"}) ? Arithmetic::multiply
                      : one_of(op, {"fma", "mad"}) ? Arithmetic::fused
                      : one_of(op, {"neg"})        ? Arithmetic::negate
                      : one_of(op, {"max", "min"}) ? Arithmetic::extremum
                                                   : Arithmetic::other;
    return plan;
}

// Pairs (to, from), in order of `to`, as runs. Elements of `granules` each.
std::vector<Run> runs_of(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs, std::uint32_t granules) {
    constexpr std::size_t worth = 4;
    constexpr unsigned line_shift = 16;  // of a place
    std::vector<Run> runs;
    for (const auto& [to, from] : pairs) {
        auto* last = runs.empty() ? nullptr : &runs.back();
        const bool next =
            last != nullptr && last->to + last->count * granules == to && from > last->from && last->from >> line_shift == from >> line_shift;
        if (next && last->count == 1) last->step = from - last->from;
        if (next && last->from + last->count * last->step == from) ++last->count;
        else runs.push_back({to, from, 1, granules});
    }
    if (runs.size() * worth > pairs.size()) runs.clear();
    return runs;
}

}  // namespace

Gather Provenance::make_gather(std::uint32_t index, const std::vector<Operand>& slots) const {
    const auto& map = shared_.program->source().maps[index];
    Gather g;
    g.lines = map.lines;
    g.width = map.width;
    g.bits = map.element_bits;
    g.slots = slots;
    if (map.element_bits < 8u << shift_) return g;
    g.granules = map.element_bits / 8u >> shift_;
    g.granule.assign(std::size_t{g.lines} * g.width, no_granule);
    for (unsigned r = map.registers; r-- > 0;) {
        for (unsigned e = 0; e < map.elements; ++e) {
            for (unsigned l = 0; l < lanes; ++l) {
                const auto position = static_cast<std::uint32_t>(map.index[(std::size_t{r} * map.elements + e) * lanes + l]);
                if ((slots[r] & constant_bit) != 0) {
                    g.granule[position] = no_granule;
                    continue;
                }
                const auto granule = (slots[r] + l * map.register_bytes + e * map.element_bits / 8u) >> shift_;
                g.granule[position] = granule;
                g.scatter.emplace_back(granule, position);
            }
        }
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t p = 0; p < g.granule.size(); ++p) pairs.emplace_back(p, g.granule[p]);
    if (std::find(g.granule.begin(), g.granule.end(), no_granule) == g.granule.end()) g.runs = runs_of(pairs, 1);
    return g;
}

void Provenance::make_plans() {
    const auto& source = shared_.program->source();
    plans_.resize(source.code.size());
    for (std::size_t pc = 0; pc < plans_.size(); ++pc) {
        const auto& raw = source.code[pc];
        const string_view name = source.operations[raw.op];
        auto& plan = plans_[pc];
        const auto found = std::find_if(named.begin(), named.end(), [&](const Named& n) { return n.name == name; });
        if (found != named.end()) {
            plan.rule = found->rule;
            if (name == "clock") plan.width = raw.register_bytes;
        } else if (find_operation(name) == nullptr) {
            plan = lane_plan(name);
        } else if (name == "vote" && (raw.flags >> flag::code_shift) == 3) {
            plan.rule = Rule::clear;
        }
        if (plan.rule == Rule::multiply) {
            const auto& op = source.tensor[raw.target];
            plan.gather = std::make_unique<std::array<Gather, 4>>(std::array<Gather, 4>{make_gather(op.a_map, op.a), make_gather(op.b_map, op.b),
                                                                                        make_gather(op.c_map, op.c), make_gather(op.d_map, op.d)});
            auto& [a, b, c, d] = *plan.gather;
            a.ramp = make_ramp(op.a_map, {}, true);
            b.ramp = make_ramp(op.b_map, op.column_order, true);
            c.ramp = make_ramp(op.c_map, op.column_order, false);
            d.ramp = make_ramp(op.d_map, op.column_order, false);
        } else if (plan.rule == Rule::load_fragment || plan.rule == Rule::store_fragment) {
            const auto& op = source.tensor[raw.target];
            plan.gather = std::make_unique<std::array<Gather, 4>>();
            auto& gather = (*plan.gather)[3] = make_gather(op.d_map, op.d);
            const bool along = (raw.flags & flag::transposed) == 0;
            for (std::uint32_t p = 0; p < gather.granule.size(); ++p) {
                const auto line = p / gather.width, inside = p % gather.width;
                gather.place.push_back((along ? line : inside) << 16 | (along ? inside : line) * gather.granules);
            }
            // Every place that a register has comes along, also where several hold one element.
            std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
            for (const auto& [granule, position] : gather.scatter) pairs.emplace_back(granule, gather.place[position]);
            std::sort(pairs.begin(), pairs.end());
            if (plan.rule == Rule::load_fragment || pairs.size() == gather.granule.size()) gather.runs = runs_of(pairs, gather.granules);
        }
    }
}

}  // namespace wmmadiag::provenance
