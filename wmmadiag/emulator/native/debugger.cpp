#include "debugger.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "access.hpp"
#include "journal.hpp"
#include "nan_search.hpp"
#include "provenance/provenance.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t poll_every = 1u << 16;  // instructions
constexpr std::size_t least_snapshots = 2, most_snapshots = 4096;

bool writes(AccessKind kind) { return kind == AccessKind::store || kind == AccessKind::atomic || kind == AccessKind::async_store; }
bool reads(AccessKind kind) { return kind == AccessKind::load || kind == AccessKind::atomic || kind == AccessKind::async_load; }

// The running block at a time; `journal` holds what was overwritten from then until the next snapshot.
struct Snapshot {
    std::uint64_t time = 0, block = 0;
    std::unique_ptr<Block::State> state;  // none: the block has just begun
    Journal journal;
};

class Machine final : public Debugger, private Observer {
public:
    Machine(RunRequest request, std::uint64_t memory_limit, std::uint64_t interval)
        : request_(std::move(request)), memory_(request_.regions), limit_(memory_limit), interval_(std::max<std::uint64_t>(interval, 1)) {
        shared_.program = request_.program;
        shared_.spec = request_.spec;
        shared_.memory = &memory_;
        const auto warps = request_.spec.warps();
        block_ = std::make_unique<Block>(shared_, warps, static_cast<Observer*>(this));
        begin_block(0);
    }

    Stop run(const StopConditions& conditions, const std::function<bool()>& poll) override {
        check_.reset();
        conditions_ = &conditions;
        const auto stop = run_until(conditions, poll);
        conditions_ = nullptr;
        return stop;
    }

    bool seek(std::uint64_t time, const std::function<bool()>& poll) override {
        check_.reset();
        if (time < this->time()) restore(time);
        return run_on(time, poll);
    }

    bool watch(const std::string& check, std::vector<std::int64_t> table, std::uint64_t time, const std::function<bool()>& poll) override {
        const auto entry = std::find_if(all_checks().begin(), all_checks().end(), [&](const CheckEntry& e) { return e.name == check; });
        if (entry == all_checks().end()) throw std::invalid_argument("unknown check " + check);
        if (finished_ || time < base_) throw std::invalid_argument("a check watches the running block only");
        if (!seek(base_, poll)) return false;
        shared_.check_table = std::move(table);
        check_ = entry->make(shared_);
        check_->block_start(*block_);
        return run_on(time, poll);
    }

    std::vector<RawFinding> findings() override { return check_ ? check_->findings() : std::vector<RawFinding>{}; }

    std::vector<std::uint64_t> tags(std::uint32_t warp, Operand slot, unsigned bytes) override {
        const auto* provenance = dynamic_cast<const provenance::Provenance*>(check_.get());
        return provenance == nullptr ? std::vector<std::uint64_t>{} : provenance->register_tags(block_->index(), warp, slot, bytes);
    }

    std::uint64_t time() const override { return base_ + block_->executed(); }
    bool finished() const override { return finished_; }
    const Fault& fault() const override { return fault_; }
    const Block& block() const override { return *block_; }
    const Warp* next() const override { return ended() ? nullptr : &block_->next_warp(); }
    std::vector<std::uint64_t> block_starts() const override { return starts_; }
    std::string output() const override {
        std::string all;
        for (const auto& text : outputs_) all += text;
        return finished_ ? all : all + block_->output;
    }
    DebugMemory memory() const override { return {snapshots_.size(), used(), limit_, interval_}; }

private:
    [[nodiscard]] bool ended() const { return finished_ || fault_.kind != FaultKind::none; }

    void begin_block(std::uint64_t index) {
        base_ = starts_.empty() ? 0 : time();
        starts_.push_back(base_);
        block_->start(index);
        if (snapshots_.empty() || base_ - snapshots_.back().time >= interval_ / 8) {
            snapshots_.push_back({base_, index, nullptr, {}});
            thin_out();
        }
        settle();
    }

    // Finds the warp that goes on, after a start.
    void settle() {
        std::uint64_t nothing = 0;
        note(block_->run(nothing));
    }

    // The block ran; a next one may begin.
    void note(BlockStatus status) {
        if (status == BlockStatus::faulted) fault_ = block_->fault();
        if (status != BlockStatus::done) return;
        block_ended_ = true;
        outputs_.push_back(std::move(block_->output));
        block_->output.clear();
        if (starts_.size() < request_.spec.grid.count()) begin_block(starts_.size());
        else finished_ = true;
    }

    // At most `quota` instructions, and none beyond the end of a block.
    void advance(std::uint64_t quota) {
        if (time() >= snapshots_.back().time + interval_) {
            snapshots_.push_back({time(), block_->index(), std::make_unique<Block::State>(block_->save()), {}});
            thin_out();
        }
        auto left = std::min(quota, snapshots_.back().time + interval_ - time());
        auto status = block_->run(left);
        while (status == BlockStatus::running && block_->waits()) status = block_->run(left);
        note(status);
    }

    bool run_on(std::uint64_t until, const std::function<bool()>& poll) {
        while (!ended() && time() < until) {
            if (!poll()) return false;
            advance(std::min(until - time(), poll_every));
        }
        return true;
    }

    // The latest snapshot up to a time.
    void restore(std::uint64_t time) {
        while (snapshots_.size() > 1 && snapshots_.back().time > time) {
            snapshots_.back().journal.undo();
            snapshots_.pop_back();
        }
        auto& to = snapshots_.back();
        to.journal.undo();
        finished_ = false;
        fault_ = {};
        starts_.resize(to.block + 1);
        outputs_.resize(to.block);
        base_ = starts_.back();
        block_->start(to.block);
        if (to.state) block_->restore(*to.state);
        else settle();
    }

    [[nodiscard]] std::uint64_t used() const {
        std::uint64_t bytes = 0;
        for (const auto& one : snapshots_) bytes += sizeof one + one.journal.bytes() + (one.state ? block_->state_bytes() : 0);
        return bytes;
    }

    // While they take too much: twice the interval, and only snapshots that are as far apart.
    void thin_out() {
        while ((used() > limit_ || snapshots_.size() > most_snapshots) && snapshots_.size() > least_snapshots) {
            interval_ *= 2;
            std::vector<Snapshot> kept;
            for (auto& one : snapshots_) {
                if (kept.empty() || one.time - kept.back().time >= interval_) kept.push_back(std::move(one));
                else kept.back().journal.append(std::move(one.journal));
            }
            snapshots_ = std::move(kept);
        }
    }

    Stop run_until(const StopConditions& c, const std::function<bool()>& poll) {
        const bool plain = c.before.empty() && c.watches.empty() && c.nan.empty() && !c.block_end;
        auto skip = c.skip;
        Stop last, stop;
        stop.time = time();
        if (plain && !ended()) {
            if (!run_on(c.until, poll)) stop.reason = StopReason::interrupted;
            stop.time = time();
        }
        // Whether to stop at what `stop` holds.
        const auto met = [&](StopReason reason) {
            stop.reason = reason;
            stop.time = time();
            if (c.last) {
                if (stop.time >= c.until) return false;
                ++last.met;
                const auto count = last.met;
                last = stop;
                last.met = count;
                return false;
            }
            if (skip == 0) return true;
            --skip;
            return false;
        };
        for (std::uint64_t steps = 0; !plain && !ended() && time() < c.until; ++steps) {
            if (steps % poll_every == 0 && !poll()) {
                stop.reason = StopReason::interrupted;
                stop.time = time();
                return stop;
            }
            const auto& warp = block_->next_warp();
            stop = {};
            stop.where = warp.where();
            if (steps != 0 && !c.before.empty() && c.before[warp.pc()] != 0 && here(c, stop.where) && met(StopReason::instruction)) return stop;
            stop.where = warp.where();
            found_ = &stop;
            seen_ = Seen::nothing;
            block_ended_ = false;
            const auto block = block_->index();
            advance(1);
            found_ = nullptr;
            if (seen_ != Seen::nothing && met(seen_ == Seen::access ? StopReason::watch : StopReason::nan)) return stop;
            if (block_ended_ && c.block_end && (c.block == any || c.block == block)) {
                stop.where.block = block;
                if (met(StopReason::block_end)) return stop;
            }
        }
        if (c.last) {
            if (last.met != 0) return last;
            stop = {};
            stop.time = time();
            return stop;
        }
        if (stop.reason == StopReason::interrupted) return stop;
        stop = {};
        stop.time = time();
        if (fault_.kind != FaultKind::none) {
            stop.reason = StopReason::fault;
            stop.where = {fault_.block, fault_.warp, fault_.pc};
        } else {
            stop.reason = finished_ ? StopReason::finished : StopReason::time;
        }
        return stop;
    }

    static bool here(const StopConditions& c, const Where& where) {
        return (c.block == any || c.block == where.block) && (c.warp == any || c.warp == where.warp);
    }

    // As an observer

    void block_end(const Block& block) override {
        if (check_) check_->block_end(block);
    }
    void barrier(const BarrierEvent& event) override {
        if (check_) check_->barrier(event);
    }
    void async(const AsyncEvent& event) override {
        if (check_) check_->async(event);
    }
    void fence(const Where& where, Mask active) override {
        if (check_) check_->fence(where, active);
    }
    void meet(const Where& where, Mask here, Mask members) override {
        if (check_) check_->meet(where, here, members);
    }
    void left(const Where& where, Mask active) override {
        if (check_) check_->left(where, active);
    }
    void executing(const WriteEvent& event) override {
        if (check_ && check_->wants_operands()) check_->executing(event);
    }
    void skipped(const WriteEvent& event) override {
        if (check_) check_->skipped(event);
    }
    bool wants_instructions() const override { return check_ ? check_->wants_instructions() : conditions_ != nullptr && !conditions_->nan.empty(); }

    void memory(const MemoryEvent& event) override {
        if (check_) check_->memory(event);
        if (writes(event.kind) && (event.space == Space::global || event.space == Space::generic))
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto address = event.addresses[std::countr_zero(m)];
                if (space_of(address) == Space::global) snapshots_.back().journal.before_write(memory_, address, event.bytes);
            }
        if (conditions_ == nullptr || found_ == nullptr) return;
        for (std::size_t i = 0; i < conditions_->watches.size(); ++i) {
            const auto& watch = conditions_->watches[i];
            if ((watch.writes && writes(event.kind)) || (watch.reads && reads(event.kind))) look(event, watch, static_cast<std::uint32_t>(i));
        }
    }

    void look(const MemoryEvent& event, const Watch& watch, std::uint32_t index) {
        if ((watch.block != any && watch.block != event.where.block) || (watch.warp != any && watch.warp != event.where.warp)) return;
        if (event.space != watch.space && event.space != Space::generic) return;
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            if (watch.lane != any && watch.lane != lane) continue;
            auto address = event.addresses[lane];
            if (event.space == Space::generic) {
                if (space_of(address) != watch.space) continue;
                address -= window_of(watch.space);
            }
            if (address >= watch.end || address + event.bytes <= watch.begin) continue;
            if (seen_ != Seen::access || found_->watch != index) {
                if (seen_ == Seen::access) return;
                seen_ = Seen::access;
                found_->where = event.where;
                found_->lanes = 0;
                found_->watch = index;
                found_->address = std::max(address, watch.begin);
                found_->access = event.kind;
            }
            found_->lanes |= Mask{1} << lane;
        }
    }

    void tensor(const TensorEvent& event) override {
        if (check_) check_->tensor(event);
        if (const auto kind = nan_kind(event.where); kind != NanKind::none) {
            const auto& map = shared_.program->source().maps[event.op->d_map];
            if (matrix_has_nan(kind, event.d, std::size_t{map.lines} * map.width)) saw_nan(event.where, all_lanes);
        }
    }

    void executed(const WriteEvent& event) override {
        if (check_) return check_->executed(event);
        const auto kind = nan_kind(event.where);
        if (kind == NanKind::none || event.inst->d == no_operand) return;
        if (const auto lanes = lanes_with_nan(kind, event.warp->at<std::byte>(event.inst->d), event.active); lanes != 0) saw_nan(event.where, lanes);
    }

    [[nodiscard]] NanKind nan_kind(const Where& where) const {
        if (conditions_ == nullptr || found_ == nullptr || conditions_->nan.empty() || !here(*conditions_, where)) return NanKind::none;
        return static_cast<NanKind>(conditions_->nan[where.pc]);
    }

    void saw_nan(const Where& where, Mask lanes) {
        if (seen_ != Seen::nothing) return;
        seen_ = Seen::nan;
        found_->where = where;
        found_->lanes = lanes;
    }

    enum class Seen : std::uint8_t { nothing, access, nan };

    RunRequest request_;
    GlobalMemory memory_;
    Shared shared_;
    std::unique_ptr<Block> block_;
    std::unique_ptr<Check> check_;
    std::uint64_t limit_, interval_;
    std::vector<Snapshot> snapshots_;  // by time; never empty
    std::vector<std::uint64_t> starts_;
    std::vector<std::string> outputs_;  // of blocks that have ended
    std::uint64_t base_ = 0;            // time at which the running block began
    bool finished_ = false, block_ended_ = false;
    Fault fault_;
    const StopConditions* conditions_ = nullptr;  // while they are looked for
    Stop* found_ = nullptr;                       // of the instruction that runs
    Seen seen_ = Seen::nothing;
};

}  // namespace

std::unique_ptr<Debugger> make_debugger(RunRequest request, std::uint64_t memory_limit, std::uint64_t interval) {
    return std::make_unique<Machine>(std::move(request), memory_limit, interval);
}

}  // namespace wmmadiag
