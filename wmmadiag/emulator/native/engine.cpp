#include "engine.hpp"

namespace wmmadiag {

namespace {

class ThisEngine final : public Engine {
public:
    std::shared_ptr<const Program> load(ProgramSource source) const override { return std::make_shared<const Program>(std::move(source)); }
    RunResult run(const RunRequest& request, const std::function<bool()>& poll) const override { return run_grid(request, poll); }
    std::unique_ptr<Debugger> debug(RunRequest request, std::uint64_t memory_limit, std::uint64_t interval) const override {
        return make_debugger(std::move(request), memory_limit, interval);
    }
    std::unique_ptr<Trials> trials(TrialSetup setup) const override { return make_trials(std::move(setup)); }
    const LaneOp* lane_op(std::string_view name) const override { return find_lane_op(name); }
    std::vector<std::string_view> lane_op_names() const override {
        std::vector<std::string_view> names;
        for (const auto& op : lane_ops()) names.push_back(op.name);
        return names;
    }
    MmaFunction mma(const MmaRule& rule) const override { return select_mma(rule); }
    MmaFunction mma_reference() const override { return &wmmadiag::mma_reference; }
};

}  // namespace

}  // namespace wmmadiag

extern "C" __attribute__((visibility("default"))) const wmmadiag::Engine* wmmadiag_engine() {
    static const wmmadiag::ThisEngine engine;
    return &engine;
}
