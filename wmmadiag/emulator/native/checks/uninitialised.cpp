// uninitialised: reads of shared, local and output memory that nothing wrote, followed to where their values arrive.
//
// Reported is where a value that means nothing reaches global memory, a branch or an address. `values` of each finding:
//   output: first and last address written and their number of bytes in the first block that did so; others: three zeros.
//   then the number of stretches of shared memory that nothing had written when it was read, and [begin, end) of each (at most
//   `most_stretches`), as offsets; then the number of instructions that had written shared memory, and of each: pc, lowest and
//   highest offset, bytes.
#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include "../access.hpp"
#include "../check.hpp"
#include "shadow.hpp"
#include "taint.hpp"

namespace wmmadiag {

namespace {

constexpr std::size_t most_stretches = 256;
constexpr std::uint64_t page_bytes = 4096;

enum class Sink : std::uint8_t { output, branch, address };
constexpr std::array sink_names{"output", "branch", "address"};

// A read that found bytes without meaning, by instruction and space: how it was first seen in the last block that did it.
struct Origin {
    std::uint32_t block = no_pc;
    RawFinding here;
};

// Where the values of an origin arrive.
struct Arrival {
    std::uint16_t origin = 0;
    std::uint32_t pc = 0;
    Sink sink = Sink::output;
    std::uint64_t count = 0;
    std::uint32_t block = no_pc;
    RawFinding read;
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bytes = 0;
};

struct Writer {
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bytes = 0;
};

struct BlockState {
    std::vector<RegisterTaint> warps;
    ShadowBits shared, local;
    std::vector<std::uint16_t> shared_origin, local_origin;  // of tainted bytes that were written; 0: never written
    bool origins_used = false;
    std::vector<std::pair<std::uint32_t, Writer>> writers;                               // by pc, in order of the first write
    std::vector<std::uint16_t> writer_of;                                                // pc to position in `writers` + 1
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<Taint, lanes>> copies;  // (warp, pc): tainted cp.async in flight
};

class Uninitialised final : public Check {
public:
    explicit Uninitialised(const Shared& shared)
        : shared_(shared),
          source_(shared.program->source()),
          code_(shared.program->code().data()),
          rules_(taint_rules(source_)),
          unwritten_(unwritten_registers(*shared.program)) {
        for (const auto& [base, size] : shared.spec.fresh) {
            fresh_.push_back({base, size, ShadowBits(size)});
            fresh_.back().bits.fill(true);
        }
        origins_.emplace_back();  // 0: none
        arrivals_.emplace_back();
    }

    void block_start(const Block& block) override {
        current_ = nullptr;
        auto state = take();
        const auto warps = block.warps().size();
        const auto shared_bytes = std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes;
        const auto local_bytes = std::uint64_t{source_.local_bytes} * lanes * warps;
        if (state->warps.empty()) {
            state->warps = std::vector<RegisterTaint>(warps);
            state->shared = ShadowBits(shared_bytes);
            state->local = ShadowBits(local_bytes);
            state->shared_origin.assign(shared_bytes, 0);
            state->local_origin.assign(local_bytes, 0);
            state->writer_of.assign(source_.code.size(), 0);
        } else if (state->origins_used) {
            std::fill(state->shared_origin.begin(), state->shared_origin.end(), 0);
            std::fill(state->local_origin.begin(), state->local_origin.end(), 0);
        }
        state->origins_used = false;
        state->shared.fill(true);
        state->local.fill(true);
        for (const auto& [pc, writer] : state->writers) state->writer_of[pc] = 0;
        state->writers.clear();
        state->copies.clear();
        for (unsigned w = 0; w < warps; ++w) {
            auto& registers = state->warps[w];
            registers.start(source_.register_bytes);
            if (unwritten_.empty()) continue;
            for (const auto& [slot, pc] : unwritten_) {
                const auto origin = register_origin(block.index(), w, pc);
                for (Mask m = block.warps()[w].live(); m != 0; m &= m - 1)
                    registers.put(slot, static_cast<unsigned>(std::countr_zero(m)), {0xffff, origin});
            }
        }
        states_[block.index()] = std::move(state);
    }

    void block_end(const Block& block) override {
        current_ = nullptr;
        const auto found = states_.find(block.index());
        spare_.push_back(std::move(found->second));
        states_.erase(found);
    }

    [[nodiscard]] bool wants_instructions() const override { return true; }

    void executed(const WriteEvent& event) override {
        auto& registers = at(event.where.block).warps[event.where.warp];
        if (registers.clean()) return;
        const auto& rule = rules_[event.where.pc];
        const auto decided = registers.mask(event.inst->guard) & event.running;
        if (decided != 0 && (rule.form == Form::none || rule.form == Form::jump)) arrive_by(event, registers, event.inst->guard, decided);
        if (rule.form == Form::jump_indexed) arrive_by(event, registers, event.inst->s[0], registers.mask(event.inst->s[0]) & event.active);
        propagate(event, rule, source_, registers);
    }

    void skipped(const WriteEvent& event) override {
        auto& registers = at(event.where.block).warps[event.where.warp];
        if (registers.clean()) return;
        const auto decided = registers.mask(event.inst->guard) & event.running;
        if (decided == 0) return;
        const auto form = rules_[event.where.pc].form;
        if (form == Form::none || form == Form::jump) arrive_by(event, registers, event.inst->guard, decided);
        else propagate(event, rules_[event.where.pc], source_, registers);
    }

    void memory(const MemoryEvent& event) override {
        auto& state = at(event.where.block);
        auto& registers = state.warps[event.where.warp];
        const auto& inst = code_[event.where.pc];
        if (!registers.clean() && event.kind != AccessKind::async_store) {
            const bool fragment = inst.target < source_.tensor.size() && is(event.where.pc, "wmma.load", "wmma.store");
            const Mask who = fragment ? all_lanes : event.active;
            for (const auto slot : {event.kind == AccessKind::async_load ? inst.s[1] : inst.s[0], fragment ? inst.s[1] : no_operand})
                if (const Mask m = registers.mask(slot) & who; m != 0) arrive(event.where, registers, slot, m, Sink::address);
        }
        Span span{~std::uint64_t{0}, 0};
        if (event.active == all_lanes) {
            for (unsigned l = 0; l < lanes; ++l) {
                span.low = std::min(span.low, event.addresses[l]);
                span.high = std::max(span.high, event.addresses[l]);
            }
        } else {
            for (Mask m = event.active; m != 0; m &= m - 1) {
                span.low = std::min(span.low, event.addresses[std::countr_zero(m)]);
                span.high = std::max(span.high, event.addresses[std::countr_zero(m)]);
            }
        }
        span.high += event.bytes;
        // What leaves its memory faults next; several windows in one instruction are taken lane by lane.
        if (event.space == Space::shared && !state.shared.holds(span.low, span.high - span.low)) return;
        if (event.space == Space::local && span.high > source_.local_bytes) return;
        switch (event.kind) {
            case AccessKind::load: load(event, state, span); return;
            case AccessKind::store: store(event, state, span); return;
            case AccessKind::atomic: atomic(event, state, span); return;
            case AccessKind::async_load: copy_begins(event, state, span); return;
            case AccessKind::async_store: copy_lands(event, state, span); return;
        }
    }

    std::vector<RawFinding> findings() override {
        for (auto& [page, bytes] : pages_)
            for (const auto arrival : *bytes)
                if (arrival != 0) ++arrivals_[arrival].count;
        std::vector<RawFinding> found;
        for (std::size_t i = 1; i < arrivals_.size(); ++i) {
            auto& a = arrivals_[i];
            if (a.count == 0) continue;
            RawFinding finding = a.read;
            finding.kind = sink_names[static_cast<unsigned>(a.sink)];
            finding.other_pc = a.pc;
            finding.count = a.count;
            finding.values.insert(finding.values.begin(),
                                  {static_cast<std::int64_t>(a.low), static_cast<std::int64_t>(a.high), static_cast<std::int64_t>(a.bytes)});
            if (a.sink != Sink::output) std::fill_n(finding.values.begin(), 3, 0);
            found.push_back(std::move(finding));
        }
        return found;
    }

private:
    struct Span {
        std::uint64_t low, high;
    };
    struct Fresh {
        std::uint64_t base, size;
        ShadowBits bits;
    };
    using Page = std::array<std::uint16_t, page_bytes>;

    std::unique_ptr<BlockState> take() {
        if (spare_.empty()) return std::make_unique<BlockState>();
        auto state = std::move(spare_.back());
        spare_.pop_back();
        return state;
    }

    BlockState& at(std::uint32_t block) {
        if (current_ == nullptr || block != current_block_) {
            current_ = states_.at(block).get();
            current_block_ = block;
        }
        return *current_;
    }

    [[nodiscard]] bool is(std::uint32_t pc, std::string_view one, std::string_view other = {}) const {
        const auto& name = source_.operations[source_.code[pc].op];
        return name == one || (!other.empty() && name == other);
    }

    // Origins

    std::uint16_t origin_at(std::uint32_t pc, Space space) {
        const auto [entry, added] = origin_of_.try_emplace(pc * 4u + static_cast<unsigned>(space), 0);
        if (added) {
            if (origins_.size() >= 0xffff) {
                entry->second = 0xfffe;
            } else {
                entry->second = static_cast<std::uint16_t>(origins_.size());
                origins_.emplace_back();
            }
        }
        return entry->second;
    }

    std::uint16_t register_origin(std::uint32_t block, std::uint32_t warp, std::uint32_t pc) {
        const auto number = origin_at(pc, Space::generic);
        auto& o = origins_[number];
        if (o.block != block) {
            RawFinding f;
            f.check = "uninitialised";
            f.pc = pc;
            f.space = Space::generic;
            f.block = block;
            f.warp = warp;
            f.values = {0, 0};
            o.block = f.block;
            o.here = std::move(f);
        }
        return number;
    }

    // The number of a read of bytes that nothing wrote.
    std::uint16_t read_at(const MemoryEvent& event, const BlockState& state, Space space, std::uint64_t address, unsigned lane) {
        const auto number = origin_at(event.where.pc, space);
        auto& o = origins_[number];
        if (o.block != event.where.block) {
            RawFinding f;
            f.check = "uninitialised";
            f.pc = event.where.pc;
            f.space = space;
            f.address = address;
            f.bytes = event.bytes;
            f.block = event.where.block;
            f.warp = event.where.warp;
            f.lane = lane;
            f.values = space == Space::shared ? stretches(state) : std::vector<std::int64_t>{0, 0};
            o.block = f.block;
            o.here = std::move(f);
        }
        return number;
    }

    [[nodiscard]] std::vector<std::int64_t> stretches(const BlockState& state) const {
        std::vector<std::int64_t> values{0};
        const std::uint64_t end = state.shared.size();
        std::int64_t begin = -1;
        std::size_t count = 0;
        for (std::uint64_t i = shared_.spec.shared_base; i <= end && count < most_stretches; ++i) {
            if (i < end && begin < 0 && i % 64 == 0 && i + 64 <= end && !state.shared.any(i, i + 64)) {
                i += 63;
                continue;
            }
            const bool hole = i < end && state.shared.get(i, 1) != 0 && state.shared_origin[i] == 0;
            if (hole && begin < 0) begin = static_cast<std::int64_t>(i);
            if (!hole && begin >= 0) {
                values.push_back(begin);
                values.push_back(static_cast<std::int64_t>(i));
                begin = -1;
                ++count;
            }
        }
        values[0] = static_cast<std::int64_t>(count);
        values.push_back(static_cast<std::int64_t>(state.writers.size()));
        for (const auto& [pc, w] : state.writers) {
            for (const auto v : {std::uint64_t{pc}, w.low, w.high, w.bytes}) values.push_back(static_cast<std::int64_t>(v));
        }
        return values;
    }

    // Arrivals

    std::uint16_t arrival_at(std::uint16_t origin, std::uint32_t pc, Sink sink) {
        const auto key = (std::uint64_t{origin} << 32 | pc) * 4 + static_cast<unsigned>(sink);
        const auto [entry, added] = arrival_of_.try_emplace(key, 0);
        if (added) {
            if (arrivals_.size() >= 0xffff) {
                entry->second = 0xfffe;
            } else {
                entry->second = static_cast<std::uint16_t>(arrivals_.size());
                auto& a = arrivals_.emplace_back();
                a.origin = origin;
                a.pc = pc;
                a.sink = sink;
            }
        }
        return entry->second;
    }

    Arrival& arrived(std::uint16_t number, const Where& where) {
        auto& a = arrivals_[number];
        if (a.block == no_pc) {
            a.block = where.block;
            a.read = origins_[a.origin].here;
            a.read.other_warp = where.warp;
        }
        return a;
    }

    void arrive(const Where& where, const RegisterTaint& registers, Operand slot, Mask who, Sink sink) {
        const auto lane = static_cast<unsigned>(std::countr_zero(who));
        const auto number = arrival_at(registers.get(slot, lane).origin, where.pc, sink);
        auto& a = arrived(number, where);
        if (a.count == 0) a.read.other_lane = lane;
        a.count += static_cast<unsigned>(std::popcount(who));
    }
    void arrive_by(const WriteEvent& event, const RegisterTaint& registers, Operand slot, Mask who) {
        if (who != 0) arrive(event.where, registers, slot, who, Sink::branch);
    }

    // Memory: the taint of `bytes` bytes at an address, and setting it

    [[nodiscard]] std::uint64_t local_at(const MemoryEvent& event, unsigned lane, std::uint64_t address) const {
        return (std::uint64_t{event.where.warp} * lanes + lane) * source_.local_bytes + address;
    }

    struct Found {
        std::uint32_t bytes;
        std::uint16_t origin;
    };

    // Of at most 32 bytes. Bytes that nothing wrote get this read's own number.
    Found peek(const MemoryEvent& event, const BlockState& state, Space space, unsigned lane, std::uint64_t address, unsigned bytes) {
        if (space == Space::generic) {
            space = space_of(address);
            address -= window_of(space);
        }
        if (space == Space::global) return peek_global(event, state, lane, address, bytes);
        const bool local = space == Space::local;
        const auto& bits = local ? state.local : state.shared;
        const auto offset = local ? local_at(event, lane, address) : address;
        if (!bits.holds(offset, bytes)) return {0, 0};
        const auto found = bits.get(offset, bytes);
        if (found == 0) return {0, 0};
        const auto& origins = local ? state.local_origin : state.shared_origin;
        const auto first = static_cast<unsigned>(std::countr_zero(found));
        auto origin = origins[offset + first];
        if (origin == 0) origin = read_at(event, state, space, address + first, lane);
        return {found, origin};
    }

    Found peek_global(const MemoryEvent& event, const BlockState& state, unsigned lane, std::uint64_t address, unsigned bytes) {
        Found found{0, 0};
        if (!pages_.empty()) {
            for (unsigned i = 0; i < bytes; ++i) {
                const auto page = pages_.find((address + i) / page_bytes);
                if (page == pages_.end()) continue;
                const auto arrival = (*page->second)[(address + i) % page_bytes];
                if (arrival == 0) continue;
                found.bytes |= 1u << i;
                if (found.origin == 0) found.origin = arrivals_[arrival].origin;
            }
        }
        for (const auto& fresh : fresh_) {
            if (address < fresh.base || !fresh.bits.holds(address - fresh.base, bytes)) continue;
            const auto more = fresh.bits.get(address - fresh.base, bytes);
            if (more != 0 && found.origin == 0)
                found.origin = read_at(event, state, Space::global, address + static_cast<unsigned>(std::countr_zero(more)), lane);
            found.bytes |= more;
        }
        return found;
    }

    // Whether nothing in a span of one space is tainted: then nobody looks at single lanes.
    [[nodiscard]] bool clean(const MemoryEvent& event, const BlockState& state, const Span& span) const {
        switch (event.space) {
            case Space::shared: {
                if (!state.shared.any(span.low, span.high)) return true;
                bool found = false;  // padding between rows, as a rule
                for (Mask m = event.active; m != 0; m &= m - 1) {
                    const auto a = event.addresses[std::countr_zero(m)];
                    found |= event.bytes <= 32 ? state.shared.get(a, event.bytes) != 0 : state.shared.any(a, a + event.bytes);
                }
                return !found;
            }
            case Space::global: {
                if (!pages_.empty()) return false;
                for (const auto& fresh : fresh_)
                    if (span.low < fresh.base + fresh.size && fresh.base < span.high) return false;
                return true;
            }
            case Space::local: {
                for (Mask m = event.active; m != 0; m &= m - 1) {
                    const auto lane = static_cast<unsigned>(std::countr_zero(m));
                    const auto offset = local_at(event, lane, event.addresses[lane]);
                    if (state.local.any(offset, offset + event.bytes)) return false;
                }
                return true;
            }
            default: return false;
        }
    }

    // `bits` of the `bytes` bytes (at most 32) become tainted, the others known.
    void poke(const MemoryEvent& event, BlockState& state, Space space, unsigned lane, std::uint64_t address, unsigned bytes, std::uint32_t bits,
              std::uint16_t origin) {
        if (space == Space::generic) {
            space = space_of(address);
            address -= window_of(space);
        }
        if (space == Space::global) {
            poke_global(event, lane, address, bytes, bits, origin);
            return;
        }
        const bool local = space == Space::local;
        auto& shadow = local ? state.local : state.shared;
        const auto offset = local ? local_at(event, lane, address) : address;
        if (!shadow.holds(offset, bytes)) return;
        shadow.put(offset, bytes, bits);
        if (bits == 0) return;
        state.origins_used = true;
        auto& origins = local ? state.local_origin : state.shared_origin;
        for (unsigned i = 0; i < bytes; ++i)
            if ((bits >> i & 1) != 0) origins[offset + i] = origin;
    }

    void poke_global(const MemoryEvent& event, unsigned lane, std::uint64_t address, unsigned bytes, std::uint32_t bits, std::uint16_t origin) {
        for (auto& fresh : fresh_)
            if (address >= fresh.base && fresh.bits.holds(address - fresh.base, bytes))
                fresh.bits.clear(address - fresh.base, address - fresh.base + bytes);
        if (bits == 0 && pages_.empty()) return;
        std::uint16_t number = 0;
        if (bits != 0) {
            number = arrival_at(origin, event.where.pc, Sink::output);
            auto& a = arrived(number, event.where);
            if (a.bytes == 0 && a.low > a.high) a.read.other_lane = lane;
            if (a.block == event.where.block) {
                a.low = std::min(a.low, address + static_cast<unsigned>(std::countr_zero(bits)));
                a.high = std::max(a.high, address + 31 - static_cast<unsigned>(std::countl_zero(bits)));
                a.bytes += static_cast<unsigned>(std::popcount(bits));
            }
        }
        for (unsigned i = 0; i < bytes; ++i) {
            const auto key = (address + i) / page_bytes;
            const bool tainted = (bits >> i & 1) != 0;
            auto page = pages_.find(key);
            if (page == pages_.end()) {
                if (!tainted) continue;
                page = pages_.emplace(key, std::make_unique<Page>()).first;
            }
            (*page->second)[(address + i) % page_bytes] = tainted ? number : 0;
        }
    }

    void wrote(BlockState& state, std::uint32_t pc, const Span& span, std::uint64_t bytes) {
        auto& number = state.writer_of[pc];
        if (number == 0) {
            state.writers.emplace_back(pc, Writer{});
            number = static_cast<std::uint16_t>(state.writers.size());
        }
        auto& w = state.writers[number - 1u].second;
        w.low = std::min(w.low, span.low);
        w.high = std::max(w.high, span.high);
        w.bytes += bytes;
    }

    // Everything that the lanes touch becomes known.
    void known(const MemoryEvent& event, BlockState& state, const Span& span) {
        const auto count = static_cast<unsigned>(std::popcount(event.active));
        if (event.space == Space::shared) {
            wrote(state, event.where.pc, span, std::uint64_t{count} * event.bytes);
            // Lanes side by side, as most are: as many bytes as the span is long, each lane at its place.
            if (event.active == all_lanes && span.high - span.low == std::uint64_t{lanes} * event.bytes) {
                std::uint64_t apart = 0;
                for (unsigned l = 0; l < lanes; ++l) apart |= event.addresses[l] ^ (span.low + std::uint64_t{l} * event.bytes);
                if (apart == 0) {
                    state.shared.clear(span.low, span.high);
                    return;
                }
            }
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto a = event.addresses[std::countr_zero(m)];
                state.shared.clear(a, a + event.bytes);
            }
            return;
        }
        if (event.space == Space::global && pages_.empty()) {
            for (auto& fresh : fresh_) {
                if (span.low >= fresh.base + fresh.size || fresh.base >= span.high) continue;
                for (Mask m = event.active; m != 0; m &= m - 1) {
                    const auto a = event.addresses[std::countr_zero(m)] - fresh.base;
                    if (fresh.bits.holds(a, event.bytes)) fresh.bits.clear(a, a + event.bytes);
                }
            }
            return;
        }
        each_piece(event, [&](unsigned lane, std::uint64_t address, unsigned bytes, unsigned) {
            poke(event, state, event.space, lane, address, bytes, 0, 0);
        });
    }

    // Pieces of at most 32 bytes of what each lane (or line of a fragment) touches: f(lane, address, bytes, offset in the lane's bytes).
    template <class F>
    static void each_piece(const MemoryEvent& event, F&& f) {
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            for (unsigned done = 0; done < event.bytes; done += 32) f(lane, event.addresses[lane] + done, std::min(32u, event.bytes - done), done);
        }
    }

    // Loads and stores

    void load(const MemoryEvent& event, BlockState& state, const Span& span) {
        auto& registers = state.warps[event.where.warp];
        const bool known_all = clean(event, state, span);
        if (known_all && registers.clean()) return;
        const auto& inst = code_[event.where.pc];
        const std::string_view name = source_.operations[source_.code[event.where.pc].op];
        const bool fragment = name == "wmma.load";
        if (known_all) {
            if (fragment) {
                for (const auto d : source_.tensor[inst.target].d) registers.clear(d, all_lanes);
            } else if (name == "ldmatrix" || name == "ld") {
                for (unsigned i = 0; i < inst.count; ++i)
                    if (inst.extra[i] != no_operand) registers.clear(inst.extra[i], name == "ld" ? event.active : all_lanes);
            }
            return;
        }
        if (fragment) {
            load_fragment(event, state);
        } else if (name == "ldmatrix") {
            load_matrices(event, state);
        } else if (name == "ld") {
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(m));
                const auto found = peek(event, state, event.space, lane, event.addresses[lane], event.bytes);
                for (unsigned i = 0; i < inst.count; ++i) {
                    if (inst.extra[i] == no_operand) continue;
                    auto bytes = found.bytes >> (i * inst.bytes) & ((1u << inst.bytes) - 1);
                    if ((inst.flags & flag::sign_extend) != 0 && (bytes >> (inst.bytes - 1) & 1) != 0) bytes |= 0xffu << inst.bytes;
                    bytes &= (1u << inst.register_bytes) - 1;
                    registers.put(inst.extra[i], lane, {static_cast<std::uint16_t>(bytes), found.origin});
                }
            }
        }
    }

    void load_fragment(const MemoryEvent& event, BlockState& state) {
        const auto& inst = code_[event.where.pc];
        const auto& op = source_.tensor[inst.target];
        const auto& map = source_.maps[op.d_map];
        const bool along = (inst.flags & flag::transposed) == 0;
        std::vector<Taint> dense(std::size_t{map.lines} * map.width);
        each_piece(event, [&](unsigned line, std::uint64_t address, unsigned bytes, unsigned done) {
            const auto found = peek(event, state, event.space, line, address, bytes);
            for (auto bits = found.bytes; bits != 0; bits &= bits - 1) {
                const auto byte = done + static_cast<unsigned>(std::countr_zero(bits));
                const auto first = byte * 8 / map.element_bits, count = std::max(1u, 8u / map.element_bits);
                for (auto e = first; e < first + count; ++e) dense[along ? line * map.width + e : e * map.width + line] = {0xffff, found.origin};
            }
        });
        scatter(state.warps[event.where.warp], map, op.d, [&](int i) { return dense[static_cast<std::size_t>(i)]; });
    }

    void load_matrices(const MemoryEvent& event, BlockState& state) {
        const auto& inst = code_[event.where.pc];
        const bool transposed = (inst.flags & flag::transposed) != 0;
        std::array<Found, lanes> rows{};
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto row = static_cast<unsigned>(std::countr_zero(m));
            rows[row] = peek(event, state, event.space, row, event.addresses[row], 16);
        }
        for (unsigned i = 0; i < inst.count; ++i) {
            for (unsigned lane = 0; lane < lanes; ++lane) {
                Taint taint;
                for (unsigned half = 0; half < 2; ++half) {
                    const unsigned line = lane / 4, position = lane % 4 * 2 + half;
                    const auto& row = rows[8 * i + (transposed ? position : line)];
                    const unsigned element = transposed ? line : position;
                    if ((row.bytes >> (2 * element) & 3) != 0) taint |= Taint{static_cast<std::uint16_t>(3 << (2 * half)), row.origin};
                }
                state.warps[event.where.warp].put(inst.extra[i], lane, taint);
            }
        }
    }

    void store(const MemoryEvent& event, BlockState& state, const Span& span) {
        auto& registers = state.warps[event.where.warp];
        if (registers.clean()) return known(event, state, span);
        const auto& inst = code_[event.where.pc];
        const std::string_view name = source_.operations[source_.code[event.where.pc].op];
        if (name == "wmma.store") return store_fragment(event, state, span);
        Mask dirty = 0;
        for (unsigned i = 0; i < inst.count; ++i) dirty |= registers.mask(inst.extra[i]);
        if ((dirty & (name == "st" ? event.active : all_lanes)) == 0) return known(event, state, span);
        if (event.space == Space::shared)
            wrote(state, event.where.pc, span, std::uint64_t{static_cast<unsigned>(std::popcount(event.active))} * event.bytes);
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            Taint taint;
            std::uint32_t bits = 0;
            if (name == "st") {
                for (unsigned i = 0; i < inst.count; ++i) {
                    const auto part = registers.get(inst.extra[i], lane);
                    taint |= part;
                    bits |= (part.bytes & ((1u << inst.bytes) - 1)) << (i * inst.bytes);
                }
            } else {  // stmatrix: `lane` is a row
                const bool transposed = (inst.flags & flag::transposed) != 0;
                for (unsigned element = 0; element < 8; ++element) {
                    const unsigned line = transposed ? element : lane % 8, position = transposed ? lane % 8 : element;
                    const auto part = registers.get(inst.extra[lane / 8], line * 4 + position / 2);
                    if ((part.bytes >> (2 * (position % 2)) & 3) == 0) continue;
                    taint |= part;
                    bits |= 3u << (2 * element);
                }
            }
            poke(event, state, event.space, lane, event.addresses[lane], event.bytes, bits, taint.origin);
        }
    }

    void store_fragment(const MemoryEvent& event, BlockState& state, const Span& span) {
        auto& registers = state.warps[event.where.warp];
        const auto& inst = code_[event.where.pc];
        const auto& op = source_.tensor[inst.target];
        const auto& map = source_.maps[op.d_map];
        Mask dirty = 0;
        for (const auto d : op.d) dirty |= registers.mask(d);
        if (dirty == 0) return known(event, state, span);
        if (event.space == Space::shared)
            wrote(state, event.where.pc, span, std::uint64_t{static_cast<unsigned>(std::popcount(event.active))} * event.bytes);
        const bool along = (inst.flags & flag::transposed) == 0;
        const unsigned element_bytes = std::max(map.element_bits / 8u, 1u);
        std::vector<Taint> dense(std::size_t{map.lines} * map.width);
        for (unsigned r = 0; r < map.registers; ++r) {
            for (unsigned lane = 0; lane < lanes; ++lane) {
                const auto taint = registers.get(op.d[r], lane);
                for (unsigned e = 0; e < map.elements && taint.bytes != 0; ++e)
                    if ((taint.bytes >> (e * element_bytes) & ((1u << element_bytes) - 1)) != 0)
                        dense[static_cast<std::size_t>(map.index[(std::size_t{r} * map.elements + e) * lanes + lane])] = taint;
            }
        }
        each_piece(event, [&](unsigned line, std::uint64_t address, unsigned bytes, unsigned done) {
            std::uint32_t bits = 0;
            std::uint16_t origin = 0;
            for (unsigned b = 0; b < bytes; ++b) {
                const auto e = (done + b) / element_bytes;
                const auto& taint = dense[along ? line * map.width + e : e * map.width + line];
                if (taint.bytes == 0) continue;
                bits |= 1u << b;
                if (origin == 0) origin = taint.origin;
            }
            poke(event, state, event.space, line, address, bytes, bits, origin);
        });
    }

    void atomic(const MemoryEvent& event, BlockState& state, const Span& span) {
        auto& registers = state.warps[event.where.warp];
        const auto& inst = code_[event.where.pc];
        if (!is(event.where.pc, "atom")) return known(event, state, span);  // mbarrier
        const bool exchanges = (inst.code & 0xff) == 8;
        Mask dirty = 0;
        for (unsigned i = 0; i < inst.count; ++i) dirty |= registers.mask(inst.extra[3 * i + 1]) | registers.mask(inst.extra[3 * i + 2]);
        if ((dirty & event.active) == 0 && clean(event, state, span)) {
            for (unsigned i = 0; i < inst.count; ++i)
                if (inst.extra[3 * i] != no_operand) registers.clear(inst.extra[3 * i], event.active);
            return known(event, state, span);
        }
        const unsigned width = event.bytes / std::max<unsigned>(inst.count, 1);
        const auto all = (1u << width) - 1;
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            for (unsigned i = 0; i < inst.count; ++i) {
                const auto address = event.addresses[lane] + std::uint64_t{i} * width;
                const auto found = peek(event, state, event.space, lane, address, width);
                const Taint old{static_cast<std::uint16_t>(found.bytes), found.origin};
                Taint next = exchanges ? Taint{} : old;
                next |= registers.get(inst.extra[3 * i + 1], lane);
                next |= registers.get(inst.extra[3 * i + 2], lane);
                poke(event, state, event.space, lane, address, width, next.bytes != 0 ? all : 0, next.origin);
                if (inst.extra[3 * i] != no_operand) registers.put(inst.extra[3 * i], lane, old);
            }
        }
    }

    void copy_begins(const MemoryEvent& event, BlockState& state, const Span& span) {
        auto& taints = state.copies;
        const auto key = std::pair{event.where.warp, event.where.pc};
        if (taints.empty() && clean(event, state, span)) return;
        const auto entry = taints.find(key);
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto found = peek(event, state, event.space, lane, event.addresses[lane], event.bytes);
            if (found.bytes == 0 && entry == taints.end()) continue;
            // One per lane and instruction: of several in flight the last counts.
            taints[key][lane] = {static_cast<std::uint16_t>(found.bytes), found.origin};
        }
    }

    void copy_lands(const MemoryEvent& event, BlockState& state, const Span& span) {
        const auto entry = state.copies.empty() ? state.copies.end() : state.copies.find({event.where.warp, event.where.pc});
        known(event, state, span);
        if (entry == state.copies.end()) return;
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto taint = entry->second[lane];
            if (taint.bytes != 0) poke(event, state, Space::shared, lane, event.addresses[lane], event.bytes, taint.bytes, taint.origin);
        }
    }

    const Shared& shared_;
    const ProgramSource& source_;
    const Inst* code_;
    std::vector<TaintRule> rules_;
    std::vector<std::pair<Operand, std::uint32_t>> unwritten_;
    std::vector<Fresh> fresh_;
    std::unordered_map<std::uint32_t, std::unique_ptr<BlockState>> states_;
    std::vector<std::unique_ptr<BlockState>> spare_;
    BlockState* current_ = nullptr;
    std::uint32_t current_block_ = 0;
    std::vector<Origin> origins_;
    std::unordered_map<std::uint32_t, std::uint16_t> origin_of_;
    std::vector<Arrival> arrivals_;
    std::unordered_map<std::uint64_t, std::uint16_t> arrival_of_;
    std::map<std::uint64_t, std::unique_ptr<Page>> pages_;  // of global memory that got tainted bytes: the arrival of each
};

}  // namespace

std::unique_ptr<Check> make_uninitialised(const Shared& shared) { return std::make_unique<Uninitialised>(shared); }

}  // namespace wmmadiag
