#include "program.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "warp.hpp"

namespace wmmadiag {

void refuse(const std::string& what) { throw std::invalid_argument("decoded program: " + what); }

namespace {

constexpr std::uint64_t slot_bytes_limit = 512;  // a 128-bit register of 32 lanes

}  // namespace

const Operation* find_operation(std::string_view name) {
    for (const auto table :
         {control_operations(), memory_operations(), atomic_operations(), async_operations(), warp_operations(), tensor_operations()}) {
        const auto found = std::find_if(table.begin(), table.end(), [&](const Operation& o) { return o.name == name; });
        if (found != table.end()) return &*found;
    }
    return nullptr;
}

void Program::Free::operator()(std::byte* p) const { std::free(p); }

Program::Program(ProgramSource source) : source_(std::move(source)) {
    for (auto& map : source_.maps) map.prepare();

    const auto& constants = source_.constants;
    auto* pool = static_cast<std::byte*>(std::aligned_alloc(64, (constants.size() + 64) / 64 * 64));
    if (pool == nullptr) throw std::bad_alloc();
    constants_.reset(pool);
    if (!constants.empty()) std::memcpy(pool, constants.data(), constants.size());

    std::vector<const Operation*> operations;
    std::vector<const LaneOp*> lane_operations;
    const auto* run_lane = find_operation("lane");
    for (const auto& name : source_.operations) {
        const auto* operation = find_operation(name);
        const auto* lane = operation == nullptr ? find_lane_op(name) : nullptr;
        if (operation == nullptr && lane == nullptr) refuse("unknown operation " + name);
        operations.push_back(operation == nullptr ? run_lane : operation);
        lane_operations.push_back(lane);
    }
    const auto check_slots = [&](const std::vector<Operand>& slots, std::uint32_t map_index) {
        if (map_index >= source_.maps.size()) refuse("fragment map index");
        const auto& map = source_.maps[map_index];
        if (slots.size() != map.registers) refuse("fragment has the wrong number of registers");
        for (const auto slot : slots) {
            const bool constant = (slot & constant_bit) != 0;
            const std::uint64_t end = std::uint64_t{slot & ~constant_bit} + std::uint64_t{map.register_bytes} * lanes;
            if (end > (constant ? source_.constants.size() : source_.register_bytes)) refuse("fragment register outside the register file");
        }
    };
    for (auto& op : source_.tensor) {
        check_slots(op.d, op.d_map);
        if (op.a.empty()) continue;
        check_slots(op.a, op.a_map);
        check_slots(op.b, op.b_map);
        check_slots(op.c, op.c_map);
        if (op.tiles == 0) refuse("tensor operation of no tiles");
        const auto fits = [&](std::uint32_t index, unsigned lines, unsigned width) {
            return source_.maps[index].lines == lines * op.tiles && source_.maps[index].width == width;
        };
        const auto& r = op.rule;
        if (!fits(op.a_map, r.m, r.k) || !fits(op.b_map, r.n, r.k) || !fits(op.c_map, r.m, r.n) || !fits(op.d_map, r.m, r.n))
            refuse("fragments do not have the shape of the multiplication");
        op.function = select_mma(op.rule);
        if (op.function == nullptr) refuse("no tensor-core function for this rule");
        // Whether the matrix is squares that are all there and few enough; they are put down.
        const auto find_squares = [&](std::uint32_t map, const std::vector<Operand>& slots, TensorOp::Places& to) {
            const auto found = source_.maps[map].squares_in(slots);
            if (found.empty() || found.size() > squares_limit) return false;
            std::copy(found.begin(), found.end(), to.begin());
            for (const auto slot : found) op.in_registers &= (slot & constant_bit) == 0;
            return true;
        };
        const auto plain = [&](std::uint32_t map) { return source_.maps[map].plain_squares(); };
        const auto& order_of_b = source_.maps[op.b_map].square_order;
        for (std::size_t i = 0; i < order_of_b.size(); ++i) op.b_lines[order_of_b[i]] = plain_b_lines[i];
        const bool squares = find_squares(op.a_map, op.a, op.a_places) && find_squares(op.b_map, op.b, op.b_places) &&
                             find_squares(op.c_map, op.c, op.c_places) && find_squares(op.d_map, op.d, op.d_places);
        const auto all_of_d = source_.maps[op.d_map].squares_in(op.d).size() == op.d.size();
        if (op.tiles == 1 && plain(op.a_map) && plain(op.c_map) && plain(op.d_map) && squares && all_of_d) op.squares = select_mma_squares(op.rule);
    }
    if (source_.code.empty()) refuse("no instructions");
    code_.reserve(source_.code.size());
    for (std::size_t i = 0; i < source_.code.size(); ++i) {
        const auto& raw = source_.code[i];
        if (raw.op >= operations.size()) refuse("operation index at " + std::to_string(i));
        check(raw, i);
        const Modifiers modifiers{raw.modifiers};
        LaneFunction lane = nullptr;
        if (lane_operations[raw.op] != nullptr) {
            lane = lane_operations[raw.op]->select(modifiers);
            if (lane == nullptr) refuse(source_.operations[raw.op] + " does not take these modifiers");
        }
        auto& inst = code_.emplace_back();
        inst.execute = inst.unwatched = operations[raw.op]->execute;
        inst.lane = lane;
        inst.modifiers = modifiers;
        inst.guard = raw.guard;
        inst.guard_invert = raw.guard_invert;
        inst.d = raw.d;
        inst.d2 = raw.d2;
        std::copy(std::begin(raw.s), std::end(raw.s), inst.s);
        inst.target = raw.target;
        inst.extra = source_.extra.data() + raw.extra;
        inst.tensor = raw.target < source_.tensor.size() ? &source_.tensor[raw.target] : nullptr;
        inst.immediate = raw.immediate;
        inst.flags = raw.flags;
        inst.code = raw.flags >> flag::code_shift;
        inst.space = static_cast<Space>(raw.space);
        inst.bytes = raw.bytes;
        inst.register_bytes = raw.register_bytes;
        inst.count = raw.count;
        inst.always = operations[raw.op]->always;
        if (const auto choose = operations[raw.op]->unwatched; choose != nullptr) inst.unwatched = choose(inst, source_);
    }
    find_steps();
    const auto& last = source_.operations[source_.code.back().op];
    if (last != "exit" && last != "trap") refuse("the last instruction does not end the thread");
}

void Program::find_steps() {
    const auto unguarded = [&](const Inst& inst) {
        if ((inst.guard & constant_bit) == 0 || inst.guard_invert != 0) return false;
        Mask guard;
        std::memcpy(&guard, constants_.get() + (inst.guard & ~constant_bit), sizeof guard);
        return guard == all_lanes;
    };
    const bool small = std::max<std::uint64_t>(source_.register_bytes, source_.constants.size()) < 1u << 30;
    steps_.resize(code_.size());
    std::uint32_t run = 0;
    for (std::size_t i = code_.size(); i-- > 0;) {
        auto& inst = code_[i];
        const bool simple =
            small && inst.lane != nullptr && inst.d != no_operand && inst.d2 == no_operand && inst.s[3] == no_operand && unguarded(inst);
        inst.run = run = simple ? run + 1 : 0;
        if (!simple) continue;
        steps_[i] = {inst.lane, inst.modifiers, inst.d, {inst.s[0], inst.s[1], inst.s[2]}};
        for (auto& s : steps_[i].s)
            if (s == no_operand) s = LaneStep::absent;
    }
}

// Slots are checked for the widest register, so that no operation can leave the register file whatever it reads: lower.py leaves that
// much room at the end of the file.
void Program::check(const RawInst& raw, std::size_t i) const {
    const auto at = [&] { return source_.operations[raw.op] + " at " + std::to_string(i); };
    const auto readable = [&](Operand operand) {
        if (operand == no_operand) return true;
        const bool constant = (operand & constant_bit) != 0;
        return std::uint64_t{operand & ~constant_bit} + slot_bytes_limit <= (constant ? source_.constants.size() : source_.register_bytes);
    };
    const auto writable = [&](Operand operand) { return readable(operand) && (operand == no_operand || (operand & constant_bit) == 0); };
    if (raw.guard == no_operand || !readable(raw.guard)) refuse("guard of " + at());
    if (!writable(raw.d) || !writable(raw.d2)) refuse("destination of " + at());
    for (const auto s : raw.s)
        if (!readable(s)) refuse("source of " + at());
    if (raw.space > static_cast<std::uint8_t>(Space::local)) refuse("space of " + at());

    const std::string_view name = source_.operations[raw.op];
    const auto need_extra = [&](std::uint64_t words) {
        if (raw.extra + words > source_.extra.size()) refuse("operand list of " + at());
    };
    const auto need_slots = [&](std::uint64_t first, std::uint64_t count, bool written) {
        need_extra(first + count);
        for (auto k = first; k < first + count; ++k) {
            const auto slot = source_.extra[raw.extra + k];
            if (!(written ? writable(slot) : readable(slot)) || (!written && slot == no_operand)) refuse("operand list of " + at());
        }
    };
    const auto one_of = [&](unsigned value, std::initializer_list<unsigned> allowed) {
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) refuse("width in " + at());
    };
    if (name == "bra" && raw.target >= source_.code.size()) refuse("target of " + at());
    if (name == "brx.idx") {
        need_extra(1);
        need_extra(1 + std::uint64_t{source_.extra[raw.extra]});
        for (std::uint32_t k = 0; k < source_.extra[raw.extra]; ++k)
            if (source_.extra[raw.extra + 1 + k] >= source_.code.size()) refuse("target of " + at());
    }
    if (name == "ld" || name == "st") {
        one_of(raw.bytes, {1, 2, 4, 8, 16});
        one_of(raw.register_bytes, {2, 4, 8, 16});
        if ((raw.bytes == 16) != (raw.register_bytes == 16) || raw.count == 0 || raw.count > 8) refuse("width in " + at());
        need_slots(0, raw.count, name == "ld");
    }
    if (name == "mov.pack" || name == "mov.unpack") {
        one_of(raw.bytes, {1, 2, 4, 8});
        one_of(raw.register_bytes, {2, 4, 8, 16});
        if (raw.count == 0 || unsigned{raw.count} * raw.bytes > raw.register_bytes) refuse("width in " + at());
        need_slots(0, raw.count, name == "mov.unpack");
    }
    if (name == "atom") {
        need_extra(3 * std::uint64_t{raw.count});
        if (raw.count == 0 || raw.count > 8) refuse("width in " + at());
        for (std::uint32_t k = 0; k < raw.count; ++k) {
            need_slots(3 * std::uint64_t{k}, 1, true);
            need_slots(3 * std::uint64_t{k} + 1, 1, false);
            if (!readable(source_.extra[raw.extra + 3 * std::uint64_t{k} + 2])) refuse("operand list of " + at());
        }
    }
    if (name == "cp.async") {
        one_of(raw.bytes, {4, 8, 16});
        need_extra(2);
    }
    if (name == "ldmatrix" || name == "stmatrix") {
        one_of(raw.count, {1, 2, 4});
        need_slots(0, raw.count, name == "ldmatrix");
    }
    if (name == "mma" || name == "wmma.load" || name == "wmma.store") {
        if (raw.target >= source_.tensor.size()) refuse("tensor operation of " + at());
        const auto& op = source_.tensor[raw.target];
        if ((name == "mma") == op.a.empty()) refuse("tensor operation of " + at());
        if (name != "wmma.store")
            for (const auto slot : op.d)
                if ((slot & constant_bit) != 0) refuse("destination of " + at());
        const auto& map = source_.maps[op.d_map];
        if (name != "mma" && (raw.register_bytes == 0 || (raw.register_bytes & (raw.register_bytes - 1)) != 0)) refuse("alignment of " + at());
        if (name != "mma" && !std::has_single_bit(unsigned{raw.count})) refuse("leading dimension of " + at());
        if (name != "mma" && map.element_bits < 8 && (raw.flags & flag::transposed) != 0) refuse("layout of " + at());
        if (name != "mma" && map.width > lanes && (raw.flags & flag::transposed) != 0) refuse("layout of " + at());
    }
}

}  // namespace wmmadiag
