// The debugger for Python: numbers and bytes; wmmadiag/debugger gives them names.
#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace wmmadiag {

namespace {

constexpr std::array reason_names{"time", "instruction", "watch", "nan", "block-end", "finished", "fault", "interrupted"};

struct PyDebugger {
    LoadedProgram loaded;  // outlives the machine
    std::unique_ptr<Debugger> machine;
};

// An interrupt from the keyboard ends the run and is no exception; any other signal's exception stays set.
bool keep_stepping() {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return true;
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) PyErr_Clear();
    return false;
}

template <class Body>
auto stepping(Body&& body) {
    const auto result = [&] {
        const nb::gil_scoped_release release;
        return body();
    }();
    if (PyErr_Occurred()) throw nb::python_error();
    return result;
}

PyDebugger debug(const Engine& engine, const LoadedProgram& loaded, std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                 const std::vector<RegionRow>& regions, std::uint32_t shared_base, std::uint32_t shared_bytes, std::uint32_t dynamic_bytes,
                 std::uint32_t poison, std::uint32_t register_poison, std::vector<std::uint32_t> warp_order, bool eager_copies,
                 std::uint64_t memory_limit, std::uint64_t interval) {
    auto request = launch_request(loaded, grid, block, regions, shared_base, shared_bytes, dynamic_bytes, poison, register_poison,
                                  std::move(warp_order), eager_copies);
    return {loaded, engine.debug(std::move(request), memory_limit, interval)};
}

// (space, begin, end, block, warp, lane, reads, writes)
using WatchRow = std::tuple<unsigned, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t, bool, bool>;

std::vector<std::uint8_t> table_from(const PyDebugger& self, const nb::bytes& bytes) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.c_str());
    std::vector<std::uint8_t> table(data, data + bytes.size());
    if (!table.empty() && table.size() != self.loaded.program->code().size()) throw std::invalid_argument("a table needs one byte per instruction");
    return table;
}

nb::dict run_on(PyDebugger& self, const nb::bytes& before, std::uint32_t block, std::uint32_t warp, const std::vector<WatchRow>& watches,
                const nb::bytes& nan, bool block_end, std::uint64_t skip, std::uint64_t until, bool last) {
    StopConditions conditions;
    conditions.before = table_from(self, before);
    conditions.nan = table_from(self, nan);
    for (const auto kind : conditions.nan)
        if (kind > static_cast<std::uint8_t>(NanKind::f32x2)) throw std::invalid_argument("unknown kind of NaN");
    conditions.block = block;
    conditions.warp = warp;
    for (const auto& [space, begin, end, in_block, in_warp, lane, reads, writes] : watches) {
        if (space > static_cast<unsigned>(Space::local)) throw std::invalid_argument("unknown state space");
        conditions.watches.push_back({static_cast<Space>(space), begin, end, in_block, in_warp, lane, reads, writes});
    }
    conditions.block_end = block_end;
    conditions.skip = skip;
    conditions.until = until;
    conditions.last = last;
    const auto stop = stepping([&] { return self.machine->run(conditions, keep_stepping); });
    nb::dict to;
    to["reason"] = reason_names[static_cast<unsigned>(stop.reason)];
    to["time"] = stop.time;
    to["met"] = stop.met;
    to["where"] = nb::make_tuple(stop.where.block, stop.where.warp, stop.where.pc);
    to["lanes"] = stop.lanes;
    to["watch"] = stop.watch;
    to["address"] = stop.address;
    to["access"] = static_cast<unsigned>(stop.access);
    return to;
}

nb::bytes bytes_of(const std::byte* data, std::uint64_t count) { return nb::bytes(reinterpret_cast<const char*>(data), count); }

const Warp& warp_of(const PyDebugger& self, std::uint32_t warp) {
    const auto& warps = self.machine->block().warps();
    if (warp >= warps.size()) throw std::out_of_range("no such warp");
    return warps[warp];
}

// (warp, pc, lanes, state, barrier) of each group of lanes; the one that runs, or would, first among a warp's.
nb::list standings(const PyDebugger& self) {
    nb::list rows;
    for (const auto& warp : self.machine->block().warps()) {
        if (warp.running() != 0) rows.append(nb::make_tuple(warp.index(), warp.pc(), warp.running(), state_name(GroupState::ready), 0));
        for (const auto& group : warp.groups())
            rows.append(nb::make_tuple(warp.index(), group.pc, group.mask, state_name(group.state), group.barrier));
    }
    return rows;
}

// (id, threads expected, arrived lanes per warp, waiting lanes per warp) of each barrier that somebody arrived at.
nb::list barriers(const PyDebugger& self) {
    nb::list rows;
    const auto& block = self.machine->block();
    for (std::uint32_t id = 0; id < barrier_count; ++id) {
        const auto& one = block.barriers()[id];
        if (!one.active) continue;
        const auto count = block.warps().size();
        rows.append(nb::make_tuple(id, one.expected, std::vector<Mask>(one.arrived.begin(), one.arrived.begin() + static_cast<std::ptrdiff_t>(count)),
                                   std::vector<Mask>(one.waiting.begin(), one.waiting.begin() + static_cast<std::ptrdiff_t>(count))));
    }
    return rows;
}

}  // namespace

void bind_debugger(nb::module_& m) {
    nb::class_<PyDebugger>(m, "Debugger")
        .def("run", &run_on, "before"_a, "block"_a, "warp"_a, "watches"_a, "nan"_a, "block_end"_a, "skip"_a, "until"_a, "last"_a)
        .def("seek", [](PyDebugger& self, std::uint64_t time) { return stepping([&] { return self.machine->seek(time, keep_stepping); }); })
        .def("watch", [](PyDebugger& self, const std::string& check, std::vector<std::int64_t> table,
                         std::uint64_t time) { return stepping([&] { return self.machine->watch(check, std::move(table), time, keep_stepping); }); })
        .def("findings", [](PyDebugger& self) { return finding_rows(self.machine->findings()); })
        .def("tags", [](PyDebugger& self, std::uint32_t warp, Operand slot, unsigned bytes) { return self.machine->tags(warp, slot, bytes); })
        .def_prop_ro("time", [](const PyDebugger& self) { return self.machine->time(); })
        .def_prop_ro("finished", [](const PyDebugger& self) { return self.machine->finished(); })
        .def_prop_ro("fault",
                     [](const PyDebugger& self) -> nb::object {
                         const auto& fault = self.machine->fault();
                         return fault.kind == FaultKind::none ? nb::none() : nb::object(fault_row(fault));
                     })
        .def_prop_ro("block", [](const PyDebugger& self) { return self.machine->block().index(); })
        .def_prop_ro("next",
                     [](const PyDebugger& self) -> nb::object {
                         const auto* warp = self.machine->next();
                         return warp == nullptr ? nb::none() : nb::object(nb::make_tuple(warp->index(), warp->pc(), warp->running()));
                     })
        .def_prop_ro("block_starts", [](const PyDebugger& self) { return self.machine->block_starts(); })
        .def_prop_ro("standings", &standings)
        .def_prop_ro("barriers", &barriers)
        .def_prop_ro("output",
                     [](const PyDebugger& self) {
                         const auto text = self.machine->output();
                         return nb::bytes(text.data(), text.size());
                     })
        .def("executed", [](const PyDebugger& self, std::uint32_t warp) { return warp_of(self, warp).executed(); })
        .def("registers", [](const PyDebugger& self,
                             std::uint32_t warp) { return bytes_of(warp_of(self, warp).registers(), self.loaded.program->source().register_bytes); })
        .def_prop_ro("shared",
                     [](const PyDebugger& self) {
                         const auto& block = self.machine->block();
                         const auto& spec = block.shared().spec;
                         return bytes_of(block.shared_memory(), std::uint64_t{spec.shared_base} + spec.shared_bytes);
                     })
        .def("local",
             [](const PyDebugger& self, std::uint32_t warp, unsigned lane) {
                 if (lane >= lanes) throw std::out_of_range("no such lane");
                 const auto index = std::uint64_t{warp_of(self, warp).index()} * lanes + lane;
                 const auto bytes = self.loaded.program->source().local_bytes;
                 return bytes_of(self.machine->block().local_memory() + index * bytes, bytes);
             })
        .def_prop_ro("memory", [](const PyDebugger& self) {
            const auto used = self.machine->memory();
            return nb::make_tuple(used.snapshots, used.bytes, used.limit, used.interval);
        });
    m.def("debug", &debug, "engine"_a, "program"_a, "grid"_a, "block"_a, "regions"_a, "shared_base"_a, "shared_bytes"_a, "dynamic_bytes"_a,
          "poison"_a, "register_poison"_a, "warp_order"_a, "eager_copies"_a, "memory_limit"_a, "interval"_a);
}

}  // namespace wmmadiag
