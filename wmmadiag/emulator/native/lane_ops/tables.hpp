// The tables of lane operations that lane_op.hpp does not name, because a theme needed more than one file.
#pragma once

#include <span>

#include "../lane_op.hpp"

namespace wmmadiag {

std::span<const LaneOp> carry_ops();
std::span<const LaneOp> bit_ops();
std::span<const LaneOp> float_bit_ops();
std::span<const LaneOp> packed_convert_ops();

}  // namespace wmmadiag
