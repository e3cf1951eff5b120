// All lane operations, by name.
#include <algorithm>
#include <vector>

#include "tables.hpp"

namespace wmmadiag {
namespace {

std::vector<LaneOp> sorted_ops() {
    std::vector<LaneOp> all;
    for (const auto table : {integer_ops(), carry_ops(), bit_ops(), logic_ops(), compare_ops(), float_bit_ops(), float_ops(), half_ops(),
                             convert_ops(), packed_convert_ops(), approximate_ops()})
        all.insert(all.end(), table.begin(), table.end());
    std::sort(all.begin(), all.end(), [](const LaneOp& a, const LaneOp& b) { return a.name < b.name; });
    return all;
}

}  // namespace

std::span<const LaneOp> lane_ops() {
    static const std::vector<LaneOp> all = sorted_ops();
    return all;
}

const LaneOp* find_lane_op(std::string_view name) {
    const auto all = lane_ops();
    const auto at = std::lower_bound(all.begin(), all.end(), name, [](const LaneOp& op, std::string_view key) { return op.name < key; });
    return at != all.end() && at->name == name ? &*at : nullptr;
}

}  // namespace wmmadiag
