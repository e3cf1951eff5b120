// What the parts of the Python module share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <tuple>
#include <vector>

#include "engine.hpp"

namespace wmmadiag {

// What Python holds. The engine's library destroys the program: its code is not in this one.
struct LoadedProgram {
    std::shared_ptr<const Program> program;
};

// (base, host address, size, writable); the caller keeps the memory alive.
using RegionRow = std::tuple<std::uint64_t, std::uintptr_t, std::uint64_t, bool>;

// Throws std::invalid_argument for a launch that cannot be.
RunRequest launch_request(const LoadedProgram& loaded, std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                          const std::vector<RegionRow>& regions, std::uint32_t shared_base, std::uint32_t shared_bytes, std::uint32_t dynamic_bytes,
                          std::uint32_t poison, std::uint32_t register_poison, std::vector<std::uint32_t> warp_order, bool eager_copies);

// cluster: blocks in x, y, z, bytes from one block's shared memory to the next one's, and of each; `shared_bytes` is then what all of them have, and
// eight bytes for the cluster's barrier. Throws std::invalid_argument.
void in_clusters(GridSpec& spec, std::array<std::uint32_t, 5> cluster);

const char* fault_name(FaultKind kind);
const char* state_name(GroupState state);
nanobind::list finding_rows(const std::vector<RawFinding>& findings);
nanobind::dict fault_row(const Fault& fault);

void bind_debugger(nanobind::module_& m);
void bind_trials(nanobind::module_& m);

}  // namespace wmmadiag
