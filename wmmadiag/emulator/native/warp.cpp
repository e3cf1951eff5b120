#include "warp.hpp"

#include <algorithm>

#include "block.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t group_slice = 1u << 13;  // instructions until a starved group gets its turn
constexpr std::uint32_t no_limit = 0xffffffffu;

std::uint64_t preset_value(Preset preset, unsigned lane, std::uint32_t thread, const Warp& warp) {
    const auto& spec = warp.block().shared().spec;
    const Dim3 b = spec.block, s = spec.cluster;
    const auto rank = warp.index() / warp.block().warps_of_one();
    const Dim3 in{rank % s.x, rank / s.x % s.y, rank / s.x / s.y}, first = warp.block().coordinates();
    const Dim3 c{first.x + in.x, first.y + in.y, first.z + in.z};
    switch (preset) {
        case Preset::tid_x: return thread % b.x;
        case Preset::tid_y: return thread / b.x % b.y;
        case Preset::tid_z: return thread / b.x / b.y;
        case Preset::ctaid_x: return c.x;
        case Preset::ctaid_y: return c.y;
        case Preset::ctaid_z: return c.z;
        case Preset::ntid_x: return b.x;
        case Preset::ntid_y: return b.y;
        case Preset::ntid_z: return b.z;
        case Preset::nctaid_x: return spec.grid.x;
        case Preset::nctaid_y: return spec.grid.y;
        case Preset::nctaid_z: return spec.grid.z;
        case Preset::laneid: return lane;
        case Preset::warpid: return warp.index() % warp.block().warps_of_one();
        case Preset::nwarpid: return (b.count() + lanes - 1) / lanes;
        case Preset::smid: return spec.multiprocessors != 0 ? warp.block().index() % spec.multiprocessors : warp.block().index();
        case Preset::nsmid: return spec.multiprocessors != 0 ? spec.multiprocessors : spec.grid.count();
        case Preset::lanemask_eq: return Mask{1} << lane;
        case Preset::lanemask_lt: return (Mask{1} << lane) - 1;
        case Preset::lanemask_le: return (Mask{2} << lane) - 1;
        case Preset::lanemask_gt: return ~((Mask{2} << lane) - 1);
        case Preset::lanemask_ge: return ~((Mask{1} << lane) - 1);
        case Preset::dynamic_smem_size: return spec.dynamic_bytes;
        case Preset::total_smem_size: return spec.shared_stride != 0 ? spec.shared_of_one : spec.shared_bytes;
        case Preset::cluster_ctaid_x: return in.x;
        case Preset::cluster_ctaid_y: return in.y;
        case Preset::cluster_ctaid_z: return in.z;
        case Preset::cluster_nctaid_x: return s.x;
        case Preset::cluster_nctaid_y: return s.y;
        case Preset::cluster_nctaid_z: return s.z;
        case Preset::clusterid_x: return c.x / s.x;
        case Preset::clusterid_y: return c.y / s.y;
        case Preset::clusterid_z: return c.z / s.z;
        case Preset::nclusterid_x: return spec.grid.x / s.x;
        case Preset::nclusterid_y: return spec.grid.y / s.y;
        case Preset::nclusterid_z: return spec.grid.z / s.z;
        case Preset::cluster_ctarank: return rank;
        case Preset::cluster_nctarank: return s.count();
        case Preset::shared_stride: return spec.shared_stride;
        case Preset::cluster_barrier: return spec.cluster_barrier();
        case Preset::gridid:
        case Preset::zero: return 0;
    }
    return 0;
}

}  // namespace

void Warp::start(Block& block, std::uint32_t index, std::uint32_t threads) {
    const auto& program = *block.shared().program;
    block_ = &block;
    code_ = program.code().data();
    steps_ = program.steps();
    // Constants are never a destination (Program checks it), so the cast away of const is not a licence to write.
    bases_ = {block.registers(index), const_cast<std::byte*>(program.constants())};
    index_ = index;
    pc_ = 0;
    limit_ = no_limit;
    const auto first = index % block.warps_of_one() * lanes;
    live_ = threads - first >= lanes ? all_lanes : (Mask{1} << (threads - first)) - 1;
    mask_ = live_;
    executed_ = 0;
    slice_end_ = group_slice;
    giving_way_ = false;
    polled_ = nullptr;
    polls_ = false;
    groups_.clear();
    copies.clear();
    commits.fill(0);
    fault = {};

    const auto words = program.source().register_bytes / 4;
    std::fill_n(reinterpret_cast<std::uint32_t*>(bases_[0]), words, block.shared().spec.register_poison);
    for (const auto& slot : program.source().presets) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
            const auto value = preset_value(slot.preset, lane, first + lane, *this);
            std::memcpy(at<std::byte>(slot.slot) + lane * slot.bytes, &value, slot.bytes);  // little endian
        }
    }
}

Where Warp::where() const { return {block_->index(), index_, pc_}; }

std::byte* Warp::local(unsigned lane) const {
    return block_->local_memory() + (std::uint64_t{index_} * lanes + lane) * block_->shared().program->source().local_bytes;
}

bool Warp::ready() { return live_ != 0 && ((mask_ != 0 && groups_.empty()) || select()); }

Flow Warp::polled(const Inst& inst, std::uint64_t value) {
    constexpr std::uint32_t enough = 2;
    again_ = polled_ == &inst && seen_ == value ? again_ + 1 : 0;
    polled_ = &inst;
    seen_ = value;
    return again_ < enough ? Flow::next : sleep();
}

// What it waits for may be done by other lanes of its own: they have the next turn.
Flow Warp::sleep() {
    polls_ = true;
    giving_way_ = true;
    slice_end_ = executed_ + group_slice;
    return Flow::yield;
}

WarpStatus Warp::run(std::uint64_t& quota) {
    polls_ = false;
    const auto* observer = block_->observer();
    if (observer == nullptr) return run_loop<Watched::nothing>(quota);
    return observer->wants_instructions() ? run_loop<Watched::instructions>(quota) : run_loop<Watched::some>(quota);
}

void Warp::run_steps(const LaneStep* step, const LaneStep* end) {
    const std::array<std::byte*, 4> bases{bases_[0], nullptr, bases_[1], nullptr};  // by an operand's highest bits
    const auto place = [&](Operand operand) { return bases[operand >> 30] + (operand & ~LaneStep::absent); };
    LaneArgs args{mask_, {}, nullptr, nullptr, {}};
    for (; step != end; ++step) {
        args.modifiers = step->modifiers;
        args.d = place(step->d);
        for (unsigned i = 0; i < 3; ++i) args.s[i] = place(step->s[i]);
        step->lane(args);
    }
}

template <Warp::Watched watched>
WarpStatus Warp::run_loop(std::uint64_t& quota) {
    constexpr bool observed = watched == Watched::instructions;
    while (quota != 0) {
        const Inst& inst = code_[pc_];
        if constexpr (watched == Watched::nothing) {
            if (inst.run > 1) {
                const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::min(inst.run, limit_ - pc_), quota));
                run_steps(steps_ + pc_, steps_ + pc_ + count);
                quota -= count;
                executed_ += count;
                if ((pc_ += count) == limit_ && !select()) return WarpStatus::blocked;
                continue;
            }
        }
        const Mask active = mask_ & (*at<Mask>(inst.guard) ^ inst.guard_invert);
        --quota;
        ++executed_;
        if (active != 0 || inst.always) {
            [[maybe_unused]] const Where here = where();
            [[maybe_unused]] const Mask running = mask_;
            if constexpr (observed) block_->observer()->executing({here, active, &inst, this, running});
            const Flow flow = (watched == Watched::nothing ? inst.unwatched : inst.execute)(*this, inst, active);
            if constexpr (observed) {
                if (flow != Flow::fault) block_->observer()->executed({here, active, &inst, this, running});
            }
            if (flow != Flow::next) {
                if (flow == Flow::fault) return WarpStatus::faulted;
                if (flow == Flow::yield) {
                    ++pc_;
                    return WarpStatus::gave_way;
                }
                if ((mask_ == 0 || !groups_.empty()) && !select()) return live_ ? WarpStatus::blocked : WarpStatus::done;
                continue;
            }
        } else if constexpr (observed) {
            block_->observer()->skipped({where(), 0, &inst, this, mask_});
        }
        if (++pc_ == limit_ && !select()) return WarpStatus::blocked;
    }
    return WarpStatus::cut;
}

void Warp::merge_groups() {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        auto& kept = groups_[i];
        if (kept.state == GroupState::barrier) continue;
        for (std::size_t j = i + 1; j < groups_.size();) {
            const auto& other = groups_[j];
            if (other.pc != kept.pc || other.state == GroupState::barrier) {
                ++j;
                continue;
            }
            kept.mask |= other.mask;
            kept.state = GroupState::ready;  // more lanes are here now: whoever waited for them looks again
            kept.last_ran = std::max(kept.last_ran, other.last_ran);
            groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(j));
        }
    }
}

bool Warp::select() {
    const auto keep = mask_;
    if (mask_ != 0) groups_.push_back({pc_, mask_, GroupState::ready, 0, executed_});
    mask_ = 0;
    merge_groups();

    const auto ready = std::count_if(groups_.begin(), groups_.end(), [](const Group& g) { return g.state == GroupState::ready; });
    if (ready == 0) return false;
    if (ready == 1) {
        giving_way_ = false;
        slice_end_ = executed_ + group_slice;
    } else if (executed_ >= slice_end_) {
        giving_way_ = !giving_way_;
        slice_end_ = executed_ + group_slice;
    }
    // While a starved group has its turn it keeps it; it is found by a lane it holds.
    const bool stay = giving_way_ && keep != 0 && executed_ + group_slice != slice_end_;
    auto chosen = groups_.end();
    for (auto g = groups_.begin(); g != groups_.end(); ++g) {
        if (g->state != GroupState::ready) continue;
        const bool better = chosen == groups_.end() ? true
                            : stay                  ? (g->mask & keep) != 0
                            : giving_way_           ? g->last_ran < chosen->last_ran
                                                    : g->pc < chosen->pc;
        if (better) chosen = g;
    }
    pc_ = chosen->pc;
    mask_ = chosen->mask;
    groups_.erase(chosen);
    limit_ = no_limit;
    for (const auto& g : groups_)
        if (g.state != GroupState::barrier && g.pc > pc_) limit_ = std::min(limit_, g.pc);
    return true;
}

void Warp::shelve(Mask waiting, GroupState state, std::uint32_t barrier) {
    groups_.push_back({pc_, waiting, state, barrier, executed_});
    mask_ &= ~waiting;
    if (mask_ != 0) ++pc_;  // lanes whose guard does not hold go on
}

Flow Warp::branch(const Inst& inst, Mask taken) {
    const Mask stay = mask_ & ~taken;
    if (taken == 0) return Flow::next;
    if (stay != 0) groups_.push_back({pc_ + 1, stay, GroupState::ready, 0, executed_});
    mask_ = taken;
    pc_ = inst.target;
    return Flow::jump;
}

Flow Warp::branch_indexed(const Inst& inst, Mask active) {
    const auto count = inst.extra[0];
    const auto* index = at<std::uint32_t>(inst.s[0]);
    Mask left = active;
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        if (index[lane] >= count)
            return fail(FaultKind::bad_operand, Mask{1} << lane,
                        "brx.idx: index " + std::to_string(index[lane]) + " of a list of " + std::to_string(count) + " targets");
    }
    const Mask stay = mask_ & ~active;
    if (stay != 0) groups_.push_back({pc_ + 1, stay, GroupState::ready, 0, executed_});
    while (left != 0) {
        const auto value = index[std::countr_zero(left)];
        Mask same = 0;
        for (Mask m = left; m != 0; m &= m - 1)
            if (index[std::countr_zero(m)] == value) same |= m & -m;
        groups_.push_back({inst.extra[1 + value], same, GroupState::ready, 0, executed_});
        left &= ~same;
    }
    mask_ = 0;
    return Flow::jump;
}

Flow Warp::exit_lanes(Mask active) {
    live_ &= ~active;
    mask_ &= ~active;
    if (mask_ != 0) ++pc_;
    for (auto& g : groups_)
        if (g.state == GroupState::sync) g.state = GroupState::ready;  // fewer lanes to wait for: look again
    block_->lanes_gone(*this);
    return Flow::jump;
}

Flow Warp::converge(Mask active, Mask needed) {
    needed &= live_;
    if ((active & needed) == needed) return Flow::next;
    shelve(active, GroupState::sync);
    return Flow::jump;
}

Flow Warp::converge_whole(Mask active) {
    if (active == all_lanes) return Flow::next;
    if (live_ != all_lanes) return fail(FaultKind::partial_warp, active);
    return converge(active, all_lanes);
}

Flow Warp::wait_here(Mask waiting) {
    shelve(waiting, GroupState::sync);
    return Flow::jump;
}

// Lanes meet at any bar.warp.sync that names the same members, wherever it stands.
Flow Warp::sync_lanes(const Inst& inst, Mask active) {
    const auto* mask = at<std::uint32_t>(inst.s[0]);
    Mask waiting = 0, released = 0;
    for (Mask left = active; left != 0;) {
        const Mask members = mask[std::countr_zero(left)];
        const Mask needed = members & live_;
        const Mask here = left & lanes_with(mask, members);
        left &= ~here;
        Mask elsewhere = 0;
        if ((needed & ~here) != 0)
            for (const auto& g : groups_)
                if (g.state == GroupState::sync && code_[g.pc].execute == inst.execute)
                    elsewhere |= g.mask & lanes_with(at<std::uint32_t>(code_[g.pc].s[0]), members);
        if ((needed & ~(here | elsewhere)) != 0) waiting |= here;
        else released |= elsewhere;
    }
    for (std::size_t i = 0, n = groups_.size(); i < n && released != 0; ++i) {
        auto& g = groups_[i];
        const Mask part = g.mask & released;
        if (part == 0) continue;
        if (part == g.mask) {
            g.state = GroupState::ready;
            ++g.pc;
        } else {
            g.mask &= ~part;
            groups_.push_back({g.pc + 1, part, GroupState::ready, 0, executed_});
        }
    }
    if (waiting != 0) return wait_here(waiting);
    if (released == 0) return Flow::next;
    ++pc_;
    return Flow::jump;
}

Flow Warp::block_at_barrier(Mask active, std::uint32_t barrier) {
    shelve(active, GroupState::barrier, barrier);
    return Flow::jump;
}

void Warp::release(std::uint32_t barrier, const Barrier& result) {
    for (auto& g : groups_) {
        if (g.state != GroupState::barrier || g.barrier != barrier) continue;
        const Inst& inst = code_[g.pc];
        if (inst.d != no_operand) {  // bar.red
            if (inst.code == 0) {
                for (Mask m = g.mask; m != 0; m &= m - 1) at<std::uint32_t>(inst.d)[std::countr_zero(m)] = result.reduce_count;
            } else {
                auto& predicate = *at<Mask>(inst.d);
                const bool value = inst.code == 1 ? result.reduce_and != 0 : result.reduce_or != 0;
                predicate = value ? predicate | g.mask : predicate & ~g.mask;
            }
        }
        g.state = GroupState::ready;
        ++g.pc;
    }
}

Flow Warp::fail(FaultKind kind, Mask lane_mask, std::string text) {
    fault = {kind, block_->index(), index_, lane_mask ? static_cast<std::uint32_t>(std::countr_zero(lane_mask)) : 0u,
             pc_,  Space::generic,  false,  lane_mask,
             0,    std::move(text)};
    return Flow::fault;
}

Flow Warp::fail_access(FaultKind kind, unsigned lane, Space space, std::uint64_t address, std::uint64_t bytes, bool write) {
    fault = {kind, block_->index(), index_, lane, pc_, space, write, address, bytes, {}};
    return Flow::fault;
}

}  // namespace wmmadiag
