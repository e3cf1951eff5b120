// What an engine library offers. The engine is built once per instruction set (baseline, AVX2, AVX-512) into a library of its own, so
// that no template instantiated with wider instructions can end up in a process that lacks them; the Python module loads the best one.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "debugger.hpp"
#include "grid.hpp"
#include "lane_op.hpp"
#include "program.hpp"
#include "tensor_core.hpp"
#include "trial.hpp"

namespace wmmadiag {

class Engine {
public:
    virtual ~Engine() = default;
    // Throws std::invalid_argument when the program is inconsistent.
    [[nodiscard]] virtual std::shared_ptr<const Program> load(ProgramSource source) const = 0;
    [[nodiscard]] virtual RunResult run(const RunRequest& request, const std::function<bool()>& poll) const = 0;
    [[nodiscard]] virtual const LaneOp* lane_op(std::string_view name) const = 0;
    [[nodiscard]] virtual std::vector<std::string_view> lane_op_names() const = 0;
    [[nodiscard]] virtual MmaFunction mma(const MmaRule& rule) const = 0;
    [[nodiscard]] virtual MmaFunction mma_reference() const = 0;
    [[nodiscard]] virtual std::unique_ptr<Debugger> debug(RunRequest request, std::uint64_t memory_limit, std::uint64_t interval) const = 0;
    // Throws std::invalid_argument for a set-up that does not agree with itself.
    [[nodiscard]] virtual std::unique_ptr<Trials> trials(TrialSetup setup) const = 0;
};

// The one symbol that an engine library exports.
inline constexpr const char* engine_symbol = "wmmadiag_engine";
using EngineFunction = const Engine* (*)();

}  // namespace wmmadiag
