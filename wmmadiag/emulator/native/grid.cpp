#include "grid.hpp"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "threads.hpp"
#include "turns.hpp"

namespace wmmadiag {

namespace {

// State that the workers of one attempt share.
class Attempt {
public:
    Attempt(const RunRequest& request, GlobalMemory& memory, bool parallel) : request_(request) {
        shared_.program = request.program;
        shared_.spec = request.spec;
        shared_.memory = &memory;
        shared_.check_table = request.check_table;
        shared_.tracking = parallel;
        const auto together = request.spec.cluster.count();
        warps_ = static_cast<unsigned>(request.spec.warps() * together);
        blocks_ = request.spec.grid.count() / together;
    }

    RunResult run(unsigned threads, const std::function<bool()>& poll) {
        const auto start = std::chrono::steady_clock::now();
        running_ = threads;
        auto workers = started(threads, [this](unsigned) {
            try {
                CheckSet checks(request_.checks, shared_, request_.observer);
                blocks_in_turn(request_.checks.empty() ? request_.observer : &checks);
                const std::lock_guard lock(mutex_);
                checks.collect(result_.findings);
            } catch (...) {
                const std::lock_guard lock(mutex_);
                if (!error_) error_ = std::current_exception();
                shared_.stop = true;
            }
            const std::lock_guard lock(mutex_);
            if (--running_ == 0) finished_.notify_all();
        });
        result_.threads = static_cast<unsigned>(workers.size());
        {
            std::unique_lock lock(mutex_);
            running_ -= threads - result_.threads;
            while (!finished_.wait_for(lock, poll_interval, [this] { return running_ == 0; })) {
                lock.unlock();
                const bool go_on = poll();
                lock.lock();
                const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
                if (!go_on) end(Outcome::interrupted);
                else if (request_.seconds_budget > 0 && elapsed.count() > request_.seconds_budget) end(Outcome::out_of_time);
            }
        }
        for (auto& worker : workers) worker.join();
        if (error_) std::rethrow_exception(error_);
        for (auto& [index, text] : outputs_) result_.output += text;
        result_.instructions = instructions_;
        result_.order_mattered = shared_.order_matters;
        return std::move(result_);
    }

private:
    void end(Outcome outcome) {
        if (result_.outcome == Outcome::finished) result_.outcome = outcome;
        shared_.stop = true;
    }

    // Runs one slice of the block; false when the whole run is to end.
    bool slice(Block& block, std::uint64_t& before, std::uint64_t length, BlockStatus& status) {
        auto quota = length;
        status = block.run(quota);
        const auto executed = block.executed();
        instructions_ += executed - before;
        before = executed;
        const bool over = request_.instruction_budget != 0 && instructions_ > request_.instruction_budget;
        if (status == BlockStatus::done && !over) {
            if (!block.output.empty()) {
                const std::lock_guard lock(mutex_);
                outputs_[block.index()] = std::move(block.output);
            }
            return true;
        }
        const std::lock_guard lock(mutex_);
        if (status == BlockStatus::faulted && result_.outcome == Outcome::finished) {
            result_.fault = block.fault();
            end(Outcome::fault);
        } else if (over) {
            end(Outcome::out_of_instructions);
        }
        if (!shared_.stop) return true;
        if (!block.output.empty()) outputs_[block.index()] = block.output;
        return false;
    }

    // Where the warps of a block stand.
    void stand(const Block& block) {
        constexpr std::size_t most = 4096;
        for (const auto& warp : block.warps()) {
            if (result_.standings.size() >= most) return;
            if (warp.running() != 0) result_.standings.push_back({block.index(), warp.index(), warp.pc(), warp.running(), GroupState::ready, 0});
            for (const auto& group : warp.groups())
                result_.standings.push_back({block.index(), warp.index(), group.pc, group.mask, group.state, group.barrier % barrier_count});
        }
    }

    // Whether checks watch a block: the first, the last, and others between them at equal distances.
    [[nodiscard]] bool sampled(std::uint64_t index) const {
        const auto most = request_.sample;
        if (most == 0 || most >= blocks_) return true;
        if (most == 1) return index == 0;
        const auto position = (index * (most - 1) + blocks_ - 2) / (blocks_ - 1);
        return position * (blocks_ - 1) / (most - 1) == index;
    }

    // Each worker does this with its share of the blocks.
    void blocks_in_turn(Observer* observer) {
        std::vector<Resident> residents;
        const auto next = [this](std::uint64_t& index) {
            const auto position = next_++;
            index = shared_.spec.last_block_first ? blocks_ - 1 - position : position;
            if (request_.begun != nullptr)
                std::atomic_ref(*request_.begun).store(std::min(position + 1, blocks_) * shared_.spec.cluster.count(), std::memory_order_relaxed);
            return position < blocks_;
        };
        const auto run = [this](Resident& one, std::uint64_t length, BlockStatus& status) { return slice(*one.block, one.executed, length, status); };
        const auto watching = [this, observer](std::uint64_t index) { return sampled(index) ? observer : nullptr; };
        if (in_turns(shared_, warps_, watching, request_.patience, residents, next, run, [](const Block&) {})) return;
        const std::lock_guard lock(mutex_);
        for (const auto& resident : residents) stand(*resident.block);  // the one that ended the run first
    }

    const RunRequest& request_;
    Shared shared_;
    unsigned warps_ = 0;
    std::uint64_t blocks_ = 0;
    std::atomic<std::uint64_t> next_{0};
    std::atomic<std::uint64_t> instructions_{0};
    std::mutex mutex_;
    std::condition_variable finished_;
    unsigned running_ = 0;
    std::exception_ptr error_;
    std::map<std::uint32_t, std::string> outputs_;
    RunResult result_;
};

}  // namespace

RunResult run_grid(const RunRequest& request, const std::function<bool()>& poll) {
    GlobalMemory memory(request.regions);
    for (const auto& [address, bytes, kept] : request.unwritten)
        if (auto* allocation = memory.find(address)) allocation->begins_unwritten(address - allocation->region.base, bytes, kept);
    const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(std::max(request.threads, 1u), request.spec.grid.count()));
    // Races between blocks are looked for in block order only, and only where blocks share memory; the first run tells.
    const bool races = std::find(request.checks.begin(), request.checks.end(), "races") != request.checks.end();
    const bool several = request.spec.grid.count() > 1;
    const bool given_order = request.in_order || request.spec.last_block_first ||
                             std::find(request.checks.begin(), request.checks.end(), "reversed") != request.checks.end();
    if ((threads > 1 || (races && several)) && !given_order && request.observer == nullptr) {
        memory.track();
        auto result = Attempt(request, memory, true).run(threads, poll);
        const bool mattered = result.order_mattered || memory.order_mattered();
        // A fault, too, is looked for again in block order, so that it is always the same one that is reported.
        if (result.outcome != Outcome::fault && !(mattered && result.outcome == Outcome::finished)) return result;
        memory.undo();
        result = Attempt(request, memory, false).run(1, poll);
        result.order_mattered = mattered;
        return result;
    }
    return Attempt(request, memory, false).run(1, poll);
}

}  // namespace wmmadiag
