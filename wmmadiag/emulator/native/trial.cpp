#include "trial.hpp"

#include <bit>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "threads.hpp"
#include "trial_worker.hpp"

namespace wmmadiag {

namespace {

using namespace trials;

class TheseTrials final : public Trials {
public:
    explicit TheseTrials(TrialSetup setup) {
        plan_.setup = std::move(setup);
        const auto& expected = plan_.setup.expected;
        const auto elements = expected.value.size();
        if (expected.bound.size() != elements || expected.accepted.size() != elements || expected.wrong.size() != elements)
            throw std::invalid_argument("expected values of different lengths");
        if (plan_.setup.stages.empty()) throw std::invalid_argument("nothing is launched");
        for (const auto& stage : plan_.setup.stages) plan_.parts_of.push_back(parts(stage));
        for (std::uint32_t a = 0; a < plan_.setup.arrays.size(); ++a) place(a);
    }

    const TrialBase& base(std::uint64_t budget, const std::function<bool()>& poll) override {
        std::shared_ptr<const Known> known;
        spread(1, poll, [&](Worker& worker, const std::atomic<bool>&) { known = worker.base(budget); });
        plan_.known = known;
        return known->base;
    }

    bool adopt(const Trials& other) override {
        const auto& theirs = static_cast<const TheseTrials&>(other).plan_;
        const auto& mine = plan_;
        const auto same_region = [](const Part& a, const Part& b) {
            return a.region.base == b.region.base && a.region.size == b.region.size && a.region.writable == b.region.writable && a.item == b.item;
        };
        const auto same_grid = [](const TrialStage& a, const TrialStage& b) {
            const auto &g = a.request.spec.grid, &h = b.request.spec.grid;
            return g.x == h.x && g.y == h.y && g.z == h.z;
        };
        const auto &own = mine.setup.stages, &other_stages = theirs.setup.stages;
        if (theirs.known == nullptr || mine.setup.arrays.size() != theirs.setup.arrays.size() ||
            !std::equal(own.begin(), own.end(), other_stages.begin(), other_stages.end(), same_grid) ||
            !std::equal(mine.parts.begin(), mine.parts.end(), theirs.parts.begin(), theirs.parts.end(), same_region))
            return false;
        plan_.known = theirs.known;
        return true;
    }

    std::vector<TrialResult> run(const std::vector<std::uint32_t>& selectors, const TrialLimits& limits, unsigned threads,
                                 const std::function<bool()>& poll) override {
        TrialResult begun;
        begun.end = TrialEnd::interrupted;
        std::vector<TrialResult> results(selectors.size(), begun);
        std::atomic<std::size_t> next{0};
        const auto count = static_cast<unsigned>(std::min<std::size_t>(std::max(threads, 1u), std::max<std::size_t>(selectors.size(), 1)));
        spread(count, poll, [&](Worker& worker, const std::atomic<bool>& stopped) {
            for (auto i = next++; i < selectors.size() && !stopped; i = next++) results[i] = worker.trial(selectors[i], limits);
        });
        return results;
    }

private:
    // The parts that a stage's regions are; new ones where no earlier stage has them.
    std::vector<std::uint32_t> parts(const TrialStage& stage) {
        std::vector<std::uint32_t> found;
        bool selects = stage.selector == 0;
        std::size_t cleared = 0;
        for (const auto& region : stage.request.regions) {
            const auto same = [&](const Part& p) {
                return p.region.base == region.base && p.region.host == region.host && p.region.size == region.size &&
                       p.region.writable == region.writable;
            };
            const auto part = std::find_if(plan_.parts.begin(), plan_.parts.end(), same);
            found.push_back(static_cast<std::uint32_t>(part - plan_.parts.begin()));
            if (part == plan_.parts.end()) plan_.parts.push_back({region, 1, {}});
            auto& at = plan_.parts[found.back()];
            if (stage.selector != 0 && region.holds(stage.selector, sizeof(std::uint32_t))) at.selects = selects = true;
            for (const auto& [base, bytes] : stage.cleared) cleared += region.writable && region.holds(base, bytes) ? 1 : 0;
        }
        if (!selects) throw std::invalid_argument("the selector lies in no region");
        if (cleared != stage.cleared.size()) throw std::invalid_argument("what is cleared lies in no region");
        return found;
    }

    void place(std::uint32_t a) {
        const auto& array = plan_.setup.arrays[a];
        const auto bytes = item_bytes(array.type);
        const auto& first = plan_.parts_of.front();
        const auto held = std::find_if(first.begin(), first.end(),
                                       [&](std::uint32_t p) { return plan_.parts[p].region.holds(array.base, bytes * array.element.size()); });
        if (held == first.end()) throw std::invalid_argument("a judged array lies in no region");
        const auto part = plan_.parts.begin() + *held;
        if (array.element.size() > 0x7fffffffu) throw std::invalid_argument("a judged array is too large");
        const auto elements = static_cast<std::int64_t>(plan_.setup.expected.value.size());
        for (const auto element : array.element)
            if (element < free_item || element >= elements) throw std::invalid_argument("an item of no element");
        const auto offset = array.base - part->region.base;
        const auto aligned = offset == 0 ? bytes : std::min(bytes, std::uint64_t{1} << std::countr_zero(offset));
        part->item = part->arrays.empty() ? aligned : std::min(part->item, aligned);
        part->arrays.push_back(a);
        plan_.part_of.push_back(static_cast<std::uint32_t>(part - plan_.parts.begin()));
    }

    // Runs body(worker, stopped) on so many threads; `poll` meanwhile on this one.
    template <class Body>
    void spread(unsigned count, const std::function<bool()>& poll, Body&& body) {
        std::vector<std::unique_ptr<Worker>> workers;
        for (unsigned t = 0; t < count; ++t) workers.push_back(std::make_unique<Worker>(plan_));
        std::mutex mutex;
        std::condition_variable finished;
        std::exception_ptr error;
        std::atomic<bool> stopped{false};
        unsigned running = count;
        auto threads = started(count, [&](unsigned t) {
            std::exception_ptr caught;
            try {
                body(*workers[t], stopped);
            } catch (...) {
                caught = std::current_exception();
            }
            const std::lock_guard lock(mutex);
            if (caught) {
                error = caught;
                stopped = true;
            }
            if (--running == 0) finished.notify_all();
        });
        {
            std::unique_lock lock(mutex);
            running -= count - static_cast<unsigned>(threads.size());
            while (!finished.wait_for(lock, poll_interval, [&] { return running == 0; })) {
                lock.unlock();
                if (!poll()) stopped = true;
                if (stopped)
                    for (auto& worker : workers) worker->stop();
                lock.lock();
            }
        }
        for (auto& thread : threads) thread.join();
        if (error) std::rethrow_exception(error);
    }

    Plan plan_;
};

}  // namespace

std::unique_ptr<Trials> make_trials(TrialSetup setup) { return std::make_unique<TheseTrials>(std::move(setup)); }

}  // namespace wmmadiag
