#include "block.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace wmmadiag {

void Block::Free::operator()(std::byte* p) const { std::free(p); }

Block::Memory Block::allocate(std::uint64_t bytes) {
    constexpr std::uint64_t alignment = 64;
    const auto rounded = (std::max<std::uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    auto* p = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    if (p == nullptr) throw std::bad_alloc();
    return Memory(p);
}

Block::Block(Shared& shared, unsigned warps, Observer* observer) : shared_(&shared), observer_(observer), warps_(warps) {
    const auto blocks = static_cast<unsigned>(shared.spec.cluster.count());
    warps_of_one_ = warps / blocks;
    barriers_.resize(std::size_t{barrier_count} * blocks);
    finished_.resize(barriers_.size());
    const auto& source = shared.program->source();
    registers_ = allocate(std::uint64_t{source.register_bytes} * warps);
    shared_memory_ = allocate(std::uint64_t{shared.spec.shared_base} + shared.spec.shared_bytes);
    local_memory_ = allocate(std::uint64_t{source.local_bytes} * lanes * warps);
    order_ = shared.spec.warp_order;
    if (order_.size() != warps) {
        order_.resize(warps);
        for (unsigned w = 0; w < warps; ++w) order_[w] = w;
    }
}

std::byte* Block::registers(unsigned warp) const { return registers_.get() + std::uint64_t{shared_->program->source().register_bytes} * warp; }

std::byte* Block::stray(std::uint64_t bytes, bool write) {
    count_stray();
    nowhere_.resize(2 * stray_bytes);  // never moved: copies under way keep their addresses
    if (!write) return nowhere_.data();
    auto* taker = nowhere_.data() + stray_bytes;
    std::memset(taker, 0, bytes);  // an atomic operation reads there, too
    return taker;
}

void Block::start(std::uint64_t index) {
    const auto& spec = shared_->spec;
    const auto& c = spec.cluster;
    const auto columns = spec.grid.x / c.x, rows = spec.grid.y / c.y;
    index_ = ((index / columns / rows * c.z) * spec.grid.y + index / columns % rows * c.y) * spec.grid.x + index % columns * c.x;
    const auto fill = [&](std::byte* p, std::uint64_t bytes) {
        std::uint64_t i = 0;
        for (; i + 4 <= bytes; i += 4) std::memcpy(p + i, &spec.poison, 4);
        for (; i < bytes; ++i) p[i] = static_cast<std::byte>(spec.poison >> (8 * (i % 4)));
    };
    fill(shared_memory_.get(), std::uint64_t{spec.shared_base} + spec.shared_bytes);
    fill(local_memory_.get(), std::uint64_t{shared_->program->source().local_bytes} * lanes * warps_.size());
    barriers_.assign(barriers_.size(), {});
    output.clear();
    turn_ = {};
    strays_ = 0;
    fault_ = {};
    const auto threads = static_cast<std::uint32_t>(spec.block.count());
    if (spec.shared_stride != 0) write_mbarrier(shared_memory_.get() + spec.cluster_barrier(), threads * static_cast<std::uint32_t>(c.count()));
    for (unsigned w = 0; w < warps_.size(); ++w) warps_[w].start(*this, w, threads);
    if (observer_ != nullptr) observer_->block_start(*this);
}

Dim3 Block::coordinates() const {
    const auto& g = shared_->spec.grid;
    return {static_cast<std::uint32_t>(index_ % g.x), static_cast<std::uint32_t>(index_ / g.x % g.y), static_cast<std::uint32_t>(index_ / g.x / g.y)};
}

std::uint64_t Block::executed() const {
    std::uint64_t sum = 0;
    for (const auto& warp : warps_) sum += warp.executed();
    return sum;
}

BlockStatus Block::run(std::uint64_t& quota) {
    waits_ = false;
    for (;;) {
        if (turn_.position == order_.size()) {
            if (!turn_.alive) {
                if (observer_ != nullptr) observer_->block_end(*this);
                return BlockStatus::done;
            }
            if (!turn_.progressed) {
                fail_deadlock();
                return BlockStatus::faulted;
            }
            const auto rounds = turn_.idle ? turn_.rounds + 1 : 0;
            if (rounds == vain_rounds) {
                fail_deadlock();
                return BlockStatus::faulted;
            }
            waits_ = turn_.polls;
            turn_ = {};
            turn_.rounds = rounds;
            if (waits_) return BlockStatus::running;
        }
        auto& warp = warps_[order_[turn_.position]];
        if (turn_.left == 0) {
            turn_.alive |= warp.live() != 0;
            if (!warp.ready()) {
                ++turn_.position;
                continue;
            }
            turn_.left = warp_slice;
            turn_.in_vain = turn_.moved = false;
        }
        if (quota == 0 || shared_->stop.load(std::memory_order_relaxed)) return BlockStatus::running;
        const auto slice = std::min(quota, turn_.left);
        auto left = slice;
        const auto status = warp.run(left);
        quota -= slice - left;
        turn_.left -= slice - left;
        turn_.progressed |= left != slice;
        if (status == WarpStatus::faulted) {
            fault_ = warp.fault;
            return BlockStatus::faulted;
        }
        if (status != WarpStatus::cut || turn_.left == 0) {
            turn_.left = 0;
            ++turn_.position;
            turn_.idle &= status == WarpStatus::gave_way && turn_.in_vain && !turn_.moved;
            turn_.polls &= status == WarpStatus::gave_way && warp.polls();
        }
    }
}

std::uint64_t Block::state_bytes() const {
    const auto& source = shared_->program->source();
    return (std::uint64_t{source.register_bytes} + std::uint64_t{source.local_bytes} * lanes) * warps_.size() + shared_->spec.shared_base +
           shared_->spec.shared_bytes;
}

Block::State Block::save() const {
    State state{warps_, barriers_, finished_, turn_, fault_, output, {}};
    state.memory.reserve(state_bytes());
    const auto add = [&](const std::byte* from, std::uint64_t bytes) { state.memory.insert(state.memory.end(), from, from + bytes); };
    const auto& source = shared_->program->source();
    add(registers_.get(), std::uint64_t{source.register_bytes} * warps_.size());
    add(shared_memory_.get(), std::uint64_t{shared_->spec.shared_base} + shared_->spec.shared_bytes);
    add(local_memory_.get(), std::uint64_t{source.local_bytes} * lanes * warps_.size());
    return state;
}

void Block::restore(const State& state) {
    warps_ = state.warps;
    barriers_ = state.barriers;
    finished_ = state.finished;
    turn_ = state.turn;
    fault_ = state.fault;
    output = state.output;
    const auto* from = state.memory.data();
    const auto take = [&](std::byte* to, std::uint64_t bytes) {
        if (bytes != 0) std::memcpy(to, from, bytes);
        from += bytes;
    };
    const auto& source = shared_->program->source();
    take(registers_.get(), std::uint64_t{source.register_bytes} * warps_.size());
    take(shared_memory_.get(), std::uint64_t{shared_->spec.shared_base} + shared_->spec.shared_bytes);
    take(local_memory_.get(), std::uint64_t{source.local_bytes} * lanes * warps_.size());
}

void Block::fail_deadlock() {
    const auto stuck = std::find_if(warps_.begin(), warps_.end(), [](const Warp& w) { return w.live() != 0; });
    fault_ = {FaultKind::deadlock, index(), stuck->index(), 0, 0, Space::generic, false, 0, 0, {}};
    if (!stuck->groups().empty()) {
        fault_.pc = stuck->groups().front().pc;
        fault_.lane = static_cast<std::uint32_t>(std::countr_zero(stuck->groups().front().mask));
    } else if (stuck->running() != 0) {
        fault_.pc = stuck->pc();
        fault_.lane = static_cast<std::uint32_t>(std::countr_zero(stuck->running()));
    }
}

bool Block::is_complete(std::uint32_t id) const {
    const auto& barrier = barriers_[id];
    const auto* warps = warps_.data() + std::size_t{id / barrier_count} * warps_of_one_;
    std::uint32_t count = 0;
    bool everyone = true;
    for (unsigned w = 0; w < warps_of_one_; ++w) {
        const Mask missing = warps[w].live() & ~barrier.arrived[w];
        everyone &= missing == 0;
        // A barrier counts in whole warps: a warp whose lanes have all arrived counts 32, as on the chip.
        if (barrier.arrived[w] != 0) count += missing == 0 ? lanes : static_cast<unsigned>(std::popcount(barrier.arrived[w]));
    }
    return barrier.expected == 0 ? everyone : count >= barrier.expected;
}

Flow Block::arrive(Warp& warp, Mask active, std::uint32_t id, std::uint32_t threads, bool wait, Mask predicate) {
    if (id >= barrier_count)
        return warp.fail(FaultKind::bad_operand, active, "barrier " + std::to_string(id) + " of " + std::to_string(barrier_count));
    const auto number = id;
    id += warp.index() / warps_of_one_ * barrier_count;
    auto& barrier = barriers_[id];
    if (!barrier.active) {
        barrier = {};
        barrier.active = true;
        barrier.expected = threads;
    } else if (barrier.expected != threads) {
        return warp.fail(FaultKind::bad_operand, active,
                         "barrier " + std::to_string(number) + " is waited for by " + std::to_string(barrier.expected) +
                             " threads elsewhere and by " + std::to_string(threads) + " here (0: all of the block)");
    }
    const auto w = warp.index() % warps_of_one_;
    barrier.arrived[w] |= active;
    barrier.reduce_count += static_cast<std::uint32_t>(std::popcount(predicate & active));
    barrier.reduce_and &= (predicate & active) == active ? 1u : 0u;
    barrier.reduce_or |= (predicate & active) != 0 ? 1u : 0u;
    if (observer_) observer_->barrier({warp.where(), wait ? BarrierKind::wait : BarrierKind::arrive, id, active});
    Flow flow = Flow::next;
    if (wait) {
        barrier.waiting[w] |= active;
        flow = warp.block_at_barrier(active, id);
    }
    if (is_complete(id)) complete(id);
    return flow;
}

void Block::complete(std::uint32_t id) {
    finished_[id] = barriers_[id];
    barriers_[id] = {};
    if (observer_) observer_->barrier({{index(), 0, 0}, BarrierKind::release, id, all_lanes});
    const auto first = id / barrier_count * warps_of_one_;
    for (unsigned w = 0; w < warps_of_one_; ++w)
        if (finished_[id].waiting[w] != 0) warps_[first + w].release(id, finished_[id]);
}

void Block::lanes_gone(Warp&) {
    for (std::uint32_t id = 0; id < barriers_.size(); ++id)
        if (barriers_[id].active && is_complete(id)) complete(id);
}

}  // namespace wmmadiag
