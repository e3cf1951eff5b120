// Which rule each instruction follows, and which registers may be read before they are written.
#include "taint.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "../operation_words.hpp"

namespace wmmadiag {

namespace {

TaintRule taint_rule_of(std::string_view name) {
    constexpr std::string_view silent =
        " exit trap nop nanosleep bar.sync bar.arrive vprintf assertfail ld st atom cp.async cp.async.commit_group cp.async.wait_group mbarrier "
        "bar.warp.sync wmma.load wmma.store ldmatrix stmatrix ";
    if (silent.find(' ' + std::string(name) + ' ') != silent.npos) return {.form = Form::none};
    if (name == "clock" || name == "activemask" || name == "elect") return {.form = Form::clean};
    if (name == "bra") return {.form = Form::jump};
    if (name == "brx.idx") return {.form = Form::jump_indexed};
    if (name == "mov.pack") return {.form = Form::pack};
    if (name == "mov.unpack") return {.form = Form::unpack};
    if (name == "shfl") return {.form = Form::shuffle};
    if (name == "vote" || name == "match" || name == "redux" || name == "bar.red") return {.form = Form::members};
    if (name == "mma") return {.form = Form::multiply};
    if (name == "movmatrix") return {.form = Form::transpose};
    if (name == "isspacep") return {.form = Form::whole, .d_bytes = 0};
    if (name == "mbarrier.pending_count") return {};

    const auto [op, rest, first, last] = OperationWords(name);
    TaintRule rule;
    rule.d_bytes = rule.s_bytes = static_cast<std::uint8_t>(type_bytes(last));
    const bool pairs = last == "f16x2" || last == "bf16x2";
    if (op == "setp") {
        rule.form = Form::compare;
        rule.d_bytes = 0;
    } else if (op == "set") {
        rule.form = first.ends_with("x2") ? Form::halves : Form::whole;
        rule.d_bytes = static_cast<std::uint8_t>(type_bytes(first));
    } else if (op == "and" || op == "or") {
        rule.form = rule.d_bytes == 0 ? Form::logical : Form::masked;
        rule.is_or = op == "or";
    } else if (op == "mov" || op == "xor" || op == "not") {
        rule.form = Form::moved;
    } else if (op == "selp") {
        rule.form = Form::select;
    } else if (op == "slct") {
        rule.d_bytes = static_cast<std::uint8_t>(type_bytes(first));
    } else if (op == "shl") {
        rule.form = Form::shift_left;
    } else if (op == "shr") {
        rule.form = Form::shift_right;
        rule.is_signed = last.starts_with("s");
    } else if (op == "prmt") {
        rule.form = Form::permute;
    } else if (op == "cvt") {
        rule.d_bytes = static_cast<std::uint8_t>(type_bytes(first));
        const auto integer = [](std::string_view t) {
            return !t.empty() && (t[0] == 'u' || t[0] == 's' || t[0] == 'b') && t.find('x') == t.npos && !t.starts_with("bf") && !t.starts_with("ue");
        };
        if ((first == "f16x2" || first == "bf16x2") && last == "f32") rule.form = Form::pair;
        else if (integer(first) && integer(last)) rule.form = Form::extend;
        rule.is_signed = last.starts_with("s");
    } else if (op == "mul" || op == "mad") {
        if (rest.starts_with("wide")) rule.d_bytes = static_cast<std::uint8_t>(2 * rule.d_bytes);
    } else if (op == "testp" || op == "isspacep") {
        rule.d_bytes = 0;
    } else if (pairs) {
        rule.form = Form::halves;
    }
    return rule;
}

// Calls read(slot) and write(slot) for the registers of an instruction.
template <class Read, class Write>
void operands(const ProgramSource& source, const RawInst& raw, Read&& read, Write&& write) {
    const std::string_view name = source.operations[raw.op];
    const auto* extra = source.extra.data() + raw.extra;
    const auto one = [](Operand slot, auto&& f) {
        if ((slot & constant_bit) == 0) f(slot);
    };
    one(raw.guard, read);
    for (const auto s : raw.s) one(s, read);
    const bool loads = name == "ld" || name == "mov.unpack" || name == "ldmatrix";
    if (loads || name == "st" || name == "mov.pack" || name == "stmatrix") {
        for (unsigned i = 0; i < raw.count; ++i) {
            if (loads) one(extra[i], write);
            else one(extra[i], read);
        }
    } else if (name == "atom") {
        for (unsigned i = 0; i < raw.count; ++i) {
            one(extra[3 * i + 1], read);
            one(extra[3 * i + 2], read);
            one(extra[3 * i], write);
        }
    } else if (name == "mma" || name == "wmma.load" || name == "wmma.store") {
        const auto& op = source.tensor[raw.target];
        for (const auto* group : {&op.a, &op.b, &op.c})
            for (const auto s : *group) one(s, read);
        for (const auto d : op.d) {
            if (name == "wmma.store") one(d, read);
            else one(d, write);
        }
    }
    one(raw.d, write);
    one(raw.d2, write);
}

using Slots = std::vector<std::uint64_t>;  // a bit per slot

}  // namespace

std::vector<TaintRule> taint_rules(const ProgramSource& source) {
    std::vector<TaintRule> by_operation;
    for (const auto& name : source.operations) by_operation.push_back(taint_rule_of(name));
    std::vector<TaintRule> rules;
    for (const auto& raw : source.code) rules.push_back(by_operation[raw.op]);
    return rules;
}

std::vector<std::pair<Operand, std::uint32_t>> unwritten_registers(const Program& program) {
    const auto& source = program.source();
    const auto count = source.code.size();
    const std::size_t words = source.register_bytes / 4 / 64 + 1;
    // The first program counter at which a path from the entry reads a register that it has not written: a search forwards, over the
    // registers that are written for sure.
    std::vector<Slots> written(count);  // on entry; empty: not reached yet
    std::vector<std::uint32_t> work{0};
    std::vector<std::pair<Operand, std::uint32_t>> found;
    Slots reported(words);
    written[0].assign(words, 0);
    for (const auto& preset : source.presets) written[0][preset.slot / 4 / 64] |= std::uint64_t{1} << (preset.slot / 4 % 64);
    std::vector<std::uint32_t> next;
    while (!work.empty()) {
        const auto pc = work.back();
        work.pop_back();
        const auto& raw = source.code[pc];
        const std::string_view name = source.operations[raw.op];
        Slots after = written[pc];
        const bool guarded = (raw.guard & constant_bit) == 0;
        operands(
            source, raw, [](Operand) {},
            [&](Operand slot) {
                // A register written under a guard counts as written: which lanes did is seen when it runs.
                after[slot / 4 / 64] |= std::uint64_t{1} << (slot / 4 % 64);
            });
        next.clear();
        if (name == "bra") {
            next.push_back(raw.target);
            if (guarded) next.push_back(pc + 1);
        } else if (name == "brx.idx") {
            const auto* extra = source.extra.data() + raw.extra;
            for (std::uint32_t k = 0; k < extra[0]; ++k) next.push_back(extra[1 + k]);
            if (guarded) next.push_back(pc + 1);
        } else if ((name != "exit" && name != "trap") || guarded) {
            next.push_back(pc + 1);
        }
        for (const auto to : next) {
            if (to >= count) continue;
            if (written[to].empty()) {
                written[to] = after;
                work.push_back(to);
                continue;
            }
            bool changed = false;
            for (std::size_t w = 0; w < words; ++w) {
                const auto both = written[to][w] & after[w];
                changed |= both != written[to][w];
                written[to][w] = both;
            }
            if (changed) work.push_back(to);
        }
    }
    for (std::uint32_t pc = 0; pc < count; ++pc) {
        if (written[pc].empty()) continue;
        operands(
            source, source.code[pc],
            [&](Operand slot) {
                const auto w = slot / 4 / 64;
                const auto bit = std::uint64_t{1} << (slot / 4 % 64);
                if ((written[pc][w] & bit) != 0 || (reported[w] & bit) != 0) return;
                reported[w] |= bit;
                found.emplace_back(slot, pc);
            },
            [](Operand) {});
    }
    return found;
}

}  // namespace wmmadiag
