// Launches, findings and faults between Python and the engine.
#include <stdexcept>

#include "bindings.hpp"

namespace nb = nanobind;

namespace wmmadiag {

namespace {

constexpr std::array fault_names{"none",      "out-of-bounds", "misaligned",   "read-only",   "wrong-space", "trap",
                                 "assertion", "deadlock",      "partial-warp", "bad-operand", "unsupported"};
constexpr std::array state_names{"ready", "barrier", "sync"};
constexpr std::array space_names{"generic", "global", "shared", "local"};

}  // namespace

RunRequest launch_request(const LoadedProgram& loaded, std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                          const std::vector<RegionRow>& regions, std::uint32_t shared_base, std::uint32_t shared_bytes, std::uint32_t dynamic_bytes,
                          std::uint32_t poison, std::uint32_t register_poison, std::vector<std::uint32_t> warp_order, bool eager_copies) {
    RunRequest request;
    request.program = loaded.program.get();
    request.spec.grid = {grid[0], grid[1], grid[2]};
    request.spec.block = {block[0], block[1], block[2]};
    const auto block_threads = request.spec.block.count();
    if (block_threads == 0 || block_threads > 1024 || request.spec.grid.count() == 0 || request.spec.grid.count() > 0xfffffff0u)
        throw std::invalid_argument("launch of an impossible size");
    request.spec.shared_base = shared_base;
    request.spec.shared_bytes = shared_bytes;
    request.spec.dynamic_bytes = dynamic_bytes;
    request.spec.poison = poison;
    request.spec.register_poison = register_poison;
    const auto warps = (block_threads + lanes - 1) / lanes;
    std::vector<bool> seen(warps);
    for (const auto w : warp_order) {
        if (warp_order.size() != warps || w >= warps || seen[w]) throw std::invalid_argument("warp_order is no permutation of the block's warps");
        seen[w] = true;
    }
    request.spec.warp_order = std::move(warp_order);
    request.spec.eager_copies = eager_copies;
    for (const auto& [base, host, size, writable] : regions) request.regions.push_back({base, size, reinterpret_cast<std::byte*>(host), writable});
    return request;
}

void in_clusters(GridSpec& spec, std::array<std::uint32_t, 5> cluster) {
    const auto [x, y, z, stride, of_one] = cluster;
    if (stride == 0) return;
    constexpr std::uint64_t most = 16, barrier = 8;
    spec.cluster = {x, y, z};
    spec.shared_stride = stride;
    spec.shared_of_one = of_one;
    const auto& g = spec.grid;
    if (x == 0 || y == 0 || z == 0 || spec.cluster.count() > most || g.x % x != 0 || g.y % y != 0 || g.z % z != 0 ||
        std::uint64_t{spec.shared_base} + spec.shared_bytes != spec.cluster_barrier() + barrier || stride % barrier != 0 ||
        stride < std::uint64_t{spec.shared_base} + of_one)
        throw std::invalid_argument("clusters of an impossible size");
    spec.warp_order.clear();
}

const char* fault_name(FaultKind kind) { return fault_names[static_cast<unsigned>(kind)]; }

const char* state_name(GroupState state) { return state_names[static_cast<unsigned>(state)]; }

nb::list finding_rows(const std::vector<RawFinding>& findings) {
    nb::list rows;
    for (const auto& f : findings) {
        nb::dict finding;
        finding["check"] = f.check;
        finding["kind"] = f.kind;
        finding["pc"] = f.pc;
        finding["other_pc"] = f.other_pc;
        finding["space"] = space_names[static_cast<unsigned>(f.space)];
        finding["address"] = f.address;
        finding["bytes"] = f.bytes;
        finding["block"] = f.block;
        finding["warp"] = f.warp;
        finding["lane"] = f.lane;
        finding["other_block"] = f.other_block;
        finding["pass"] = f.pass;
        finding["other_pass"] = f.other_pass;
        finding["other_warp"] = f.other_warp;
        finding["other_lane"] = f.other_lane;
        finding["count"] = f.count;
        finding["values"] = f.values;
        rows.append(finding);
    }
    return rows;
}

nb::dict fault_row(const Fault& f) {
    nb::dict fault;
    fault["kind"] = fault_name(f.kind);
    fault["block"] = f.block;
    fault["warp"] = f.warp;
    fault["lane"] = f.lane;
    fault["pc"] = f.pc;
    fault["space"] = space_names[static_cast<unsigned>(f.space)];
    fault["write"] = f.write;
    fault["address"] = f.address;
    fault["bytes"] = f.bytes;
    fault["text"] = f.text;
    return fault;
}

}  // namespace wmmadiag
