// The Python module wmmadiag.emulator.native._core: opens an engine library and gives it programs and launches.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "bindings.hpp"
#include "isa.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace wmmadiag {

namespace {

constexpr std::array element_names{"f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "b1", "s32"};

Element element_from(const std::string& name) {
    for (std::size_t i = 0; i < element_names.size(); ++i)
        if (name == element_names[i]) return static_cast<Element>(i);
    throw std::invalid_argument("unknown element type " + name);
}

MmaRule rule_from(const nb::object& rule) {
    const auto element = [&](const char* name) { return element_from(nb::cast<std::string>(rule.attr(name))); };
    const auto bit_op = nb::cast<std::string>(rule.attr("bit_op"));
    MmaRule to{};
    to.m = nb::cast<std::uint16_t>(rule.attr("m"));
    to.n = nb::cast<std::uint16_t>(rule.attr("n"));
    to.k = nb::cast<std::uint16_t>(rule.attr("k"));
    to.a = element("a");
    to.b = element("b");
    to.c = element("c");
    to.d = element("d");
    to.fraction_bits = nb::cast<std::uint8_t>(rule.attr("fraction_bits"));
    to.step = nb::cast<std::uint8_t>(rule.attr("step"));
    to.zero_exponent = nb::cast<std::int16_t>(rule.attr("zero_exponent"));
    to.satfinite = nb::cast<bool>(rule.attr("satfinite"));
    to.bit_op = bit_op == "xor_popc" ? BitOp::xor_popc : bit_op == "and_popc" ? BitOp::and_popc : BitOp::none;
    to.software = nb::cast<bool>(rule.attr("software"));
    to.result_bits = nb::cast<std::uint8_t>(rule.attr("result_bits"));
    to.widen = nb::cast<bool>(rule.attr("widen"));
    return to;
}

using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copy_bytes(const ConstBytes& bytes) {
    if (bytes.size() % sizeof(T) != 0) throw std::invalid_argument("array of the wrong length");
    std::vector<T> to(bytes.size() / sizeof(T));
    if (!to.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
    return to;
}

FragmentMap map_from(const nb::tuple& t) {
    FragmentMap map;
    map.lines = nb::cast<std::uint16_t>(t[0]);
    map.width = nb::cast<std::uint16_t>(t[1]);
    map.registers = nb::cast<std::uint8_t>(t[2]);
    map.elements = nb::cast<std::uint8_t>(t[3]);
    map.element_bits = nb::cast<std::uint8_t>(t[4]);
    map.register_bytes = nb::cast<std::uint8_t>(t[5]);
    map.index = copy_bytes<std::int16_t>(nb::cast<ConstBytes>(t[6]));
    return map;
}

// (rule or None, a_map, b_map, c_map, d_map, a, b, c, d, column_order, tiles)
TensorOp tensor_from(const nb::tuple& t) {
    TensorOp op;
    if (!t[0].is_none()) op.rule = rule_from(t[0]);
    op.a_map = nb::cast<std::uint32_t>(t[1]);
    op.b_map = nb::cast<std::uint32_t>(t[2]);
    op.c_map = nb::cast<std::uint32_t>(t[3]);
    op.d_map = nb::cast<std::uint32_t>(t[4]);
    op.a = nb::cast<std::vector<Operand>>(t[5]);
    op.b = nb::cast<std::vector<Operand>>(t[6]);
    op.c = nb::cast<std::vector<Operand>>(t[7]);
    op.d = nb::cast<std::vector<Operand>>(t[8]);
    op.column_order = nb::cast<std::vector<std::uint16_t>>(t[9]);
    op.tiles = nb::cast<std::uint8_t>(t[10]);
    return op;
}

LoadedProgram load(const Engine& engine, std::vector<std::string> operations, const ConstBytes& code, const ConstBytes& extra,
                   const ConstBytes& constants, const ConstBytes& presets, const nb::list& maps, const nb::list& tensor, std::uint32_t register_bytes,
                   std::uint32_t local_bytes) {
    ProgramSource source;
    source.operations = std::move(operations);
    source.code = copy_bytes<RawInst>(code);
    source.extra = copy_bytes<std::uint32_t>(extra);
    source.constants = copy_bytes<std::byte>(constants);
    const auto rows = copy_bytes<std::array<std::uint32_t, 3>>(presets);
    for (const auto& [preset, slot, bytes] : rows) {
        if (preset > static_cast<std::uint32_t>(Preset::last) || (bytes != 2 && bytes != 4 && bytes != 8) || slot > register_bytes ||
            register_bytes - slot < bytes * lanes)
            throw std::invalid_argument("preset register");
        source.presets.push_back({static_cast<Preset>(preset), slot, static_cast<std::uint8_t>(bytes)});
    }
    for (const auto& map : maps) source.maps.push_back(map_from(nb::cast<nb::tuple>(map)));
    for (const auto& op : tensor) source.tensor.push_back(tensor_from(nb::cast<nb::tuple>(op)));
    source.register_bytes = register_bytes;
    source.local_bytes = local_bytes;
    return {engine.load(std::move(source))};
}

// Python's state of a thread that the engine started, until that ends: made and freed again for each event, with the memory of its stack, it
// takes several times what the event does.
struct ThreadState {
    PyGILState_STATE before{};
    PyThreadState* kept = nullptr;

    ThreadState() {
        if (PyGILState_GetThisThreadState() != nullptr) return;
        before = PyGILState_Ensure();
        kept = PyEval_SaveThread();
    }
    ThreadState(const ThreadState&) = delete;
    ThreadState& operator=(const ThreadState&) = delete;
    ~ThreadState() {
        if (kept == nullptr) return;
        PyEval_RestoreThread(kept);
        PyGILState_Release(before);
    }
};
void keep_thread_state() { thread_local const ThreadState state; }

// Forwards events to the methods that a Python object has: on_memory, on_barrier, on_instruction.
class PythonObserver final : public Observer {
public:
    PythonObserver(nb::object listener, const Program* program) : program_(program) {
        const auto method = [&](const char* name) { return nb::hasattr(listener, name) ? nb::object(listener.attr(name)) : nb::object(); };
        memory_ = method("on_memory");
        barrier_ = method("on_barrier");
        instruction_ = method("on_instruction");
    }

    void memory(const MemoryEvent& e) override {
        if (!memory_) return;
        keep_thread_state();
        const nb::gil_scoped_acquire gil;
        memory_(place(e.where), static_cast<int>(e.space), static_cast<int>(e.kind), e.active, e.bytes,
                copy(e.addresses, lanes * sizeof(std::uint64_t)));
    }
    void barrier(const BarrierEvent& e) override {
        if (!barrier_) return;
        keep_thread_state();
        const nb::gil_scoped_acquire gil;
        barrier_(place(e.where), static_cast<int>(e.kind), e.barrier, e.active);
    }
    void executed(const WriteEvent& e) override {
        keep_thread_state();
        const nb::gil_scoped_acquire gil;
        instruction_(place(e.where), e.active, copy(e.warp->registers(), program_->source().register_bytes));
    }
    bool wants_instructions() const override { return static_cast<bool>(instruction_); }

private:
    static nb::tuple place(const Where& where) { return nb::make_tuple(where.block, where.warp, where.pc); }
    static nb::bytes copy(const void* data, std::size_t bytes) { return nb::bytes(data, bytes); }

    const Program* program_;
    nb::object memory_, barrier_, instruction_;
};

constexpr std::array outcome_names{"finished", "fault", "out-of-instructions", "out-of-time", "interrupted"};
nb::dict run(const Engine& engine, const LoadedProgram& loaded, std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
             const std::vector<RegionRow>& regions, std::uint32_t shared_base, std::uint32_t shared_bytes, std::uint32_t dynamic_bytes,
             unsigned threads, std::uint64_t instruction_budget, double seconds_budget, std::uint32_t poison, std::uint32_t register_poison,
             std::vector<std::uint32_t> warp_order, bool eager_copies, bool in_order, const nb::object& observer, std::vector<std::string> checks,
             const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uintptr_t>>& fresh, std::vector<std::int64_t> check_table,
             const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uintptr_t>>& watched, std::uint64_t patience,
             bool last_block_first, std::uint64_t sample, std::uintptr_t begun, std::array<std::uint32_t, 5> cluster, std::uint64_t multiprocessors) {
    const auto* program = loaded.program.get();
    auto request = launch_request(loaded, grid, block, regions, shared_base, shared_bytes, dynamic_bytes, poison, register_poison,
                                  std::move(warp_order), eager_copies);
    in_clusters(request.spec, cluster);
    request.in_order = in_order;
    request.spec.last_block_first = last_block_first;
    request.spec.multiprocessors = multiprocessors;
    request.sample = sample;
    request.begun = reinterpret_cast<std::uint64_t*>(begun);
    request.checks = std::move(checks);
    request.check_table = std::move(check_table);
    if (patience != 0) request.patience = patience;
    for (const auto& [address, bytes, kept] : fresh) request.unwritten.push_back({address, bytes, reinterpret_cast<std::uint64_t*>(kept)});
    for (const auto& [base, size, item, words] : watched) {
        if (item == 0) throw std::invalid_argument("elements of no size");
        request.spec.watched.push_back({base, size, item, reinterpret_cast<std::uint64_t*>(words)});
    }
    request.threads = threads;
    request.instruction_budget = instruction_budget;
    request.seconds_budget = seconds_budget;
    std::unique_ptr<PythonObserver> listener;
    if (!observer.is_none()) {
        listener = std::make_unique<PythonObserver>(observer, program);
        request.observer = listener.get();
    }
    RunResult result;
    {
        const nb::gil_scoped_release release;
        result = engine.run(request, [] {
            const nb::gil_scoped_acquire gil;
            return PyErr_CheckSignals() == 0;
        });
    }
    if (PyErr_Occurred()) throw nb::python_error();
    nb::list standings;
    for (const auto& s : result.standings) standings.append(nb::make_tuple(s.block, s.warp, s.pc, s.lanes, state_name(s.state), s.barrier));
    nb::dict to;
    to["outcome"] = outcome_names[static_cast<unsigned>(result.outcome)];
    to["instructions"] = result.instructions;
    to["output"] = nb::bytes(result.output.data(), result.output.size());
    to["threads"] = result.threads;
    to["order_mattered"] = result.order_mattered;
    to["standings"] = standings;
    to["findings"] = finding_rows(result.findings);
    if (result.outcome == Outcome::fault) to["fault"] = fault_row(result.fault);
    return to;
}

// One lane operation on arrays of 32 values, for tests of the semantics.
// `registers` in a row: each array then holds that many registers, one after the other.
void lane_op(const Engine& engine, const std::string& name, std::uint32_t modifiers, Mask active, const std::vector<ConstBytes>& sources,
             const Bytes& d, const nb::object& d2, std::size_t registers) {
    const auto* op = engine.lane_op(name);
    if (op == nullptr) throw std::invalid_argument("unknown lane operation " + name);
    const auto function = op->select(Modifiers{modifiers});
    if (function == nullptr) throw std::invalid_argument(name + " does not take these modifiers");
    if (sources.size() > 4) throw std::invalid_argument("at most 4 sources");
    if (registers == 0) throw std::invalid_argument("no registers");
    struct alignas(64) Slot {
        std::byte bytes[512]{};
    };
    std::array<Slot, 4> in;
    Slot out, out2;
    const auto size_of = [registers](const auto& array) { return std::min<std::size_t>(array.size() / registers, sizeof(Slot)); };
    Bytes second;
    if (!d2.is_none()) second = nb::cast<Bytes>(d2);
    LaneArgs args{active, Modifiers{modifiers}, out.bytes, d2.is_none() ? nullptr : out2.bytes, {}};
    for (std::size_t i = 0; i < sources.size(); ++i) args.s[i] = in[i].bytes;
    for (std::size_t r = 0; r < registers; ++r) {
        for (std::size_t i = 0; i < sources.size(); ++i) std::memcpy(in[i].bytes, sources[i].data() + r * size_of(sources[i]), size_of(sources[i]));
        std::memcpy(out.bytes, d.data() + r * size_of(d), size_of(d));
        if (args.d2 != nullptr) std::memcpy(out2.bytes, second.data() + r * size_of(second), size_of(second));
        function(args);
        std::memcpy(d.data() + r * size_of(d), out.bytes, size_of(d));
        if (args.d2 != nullptr) std::memcpy(second.data() + r * size_of(second), out2.bytes, size_of(second));
    }
}

void mma(const Engine& engine, const nb::object& rule, const ConstBytes& a, const ConstBytes& b, const ConstBytes& c, const Bytes& d,
         bool reference) {
    const auto r = rule_from(rule);
    const auto function = reference ? engine.mma_reference() : engine.mma(r);
    if (function == nullptr) throw std::invalid_argument("no tensor-core function for this rule");
    function(r, a.data(), b.data(), c.data(), d.data());
}

const Engine& open_engine(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(std::string("cannot open the engine: ") + dlerror());
    const auto function = reinterpret_cast<EngineFunction>(dlsym(library, engine_symbol));
    if (function == nullptr) throw std::runtime_error(path + " is no engine");
    return *function();
}

}  // namespace

}  // namespace wmmadiag

NB_MODULE(_core, m) {
    using namespace wmmadiag;
    nb::set_leak_warnings(false);  // a kernel that is kept until the interpreter ends is no leak
    nb::class_<LoadedProgram>(m, "Program");
    nb::class_<Engine>(m, "Engine")
        .def("load", &load, "operations"_a, "code"_a, "extra"_a, "constants"_a, "presets"_a, "maps"_a, "tensor"_a, "register_bytes"_a,
             "local_bytes"_a)
        .def("run", &run, "program"_a, "grid"_a, "block"_a, "regions"_a, "shared_base"_a, "shared_bytes"_a, "dynamic_bytes"_a, "threads"_a,
             "instruction_budget"_a, "seconds_budget"_a, "poison"_a, "register_poison"_a, "warp_order"_a, "eager_copies"_a, "in_order"_a,
             "observer"_a.none(), "checks"_a, "fresh"_a = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uintptr_t>>{},
             "check_table"_a = std::vector<std::int64_t>{},
             "watched"_a = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uintptr_t>>{}, "patience"_a = 0,
             "last_block_first"_a = false, "sample"_a = 0, "begun"_a = 0, "cluster"_a = std::array<std::uint32_t, 5>{1, 1, 1, 0, 0},
             "multiprocessors"_a = 0)
        .def("lane_op", &lane_op, "name"_a, "modifiers"_a, "active"_a, "sources"_a, "d"_a, "d2"_a.none(), "registers"_a)
        .def("lane_op_names",
             [](const Engine& e) {
                 std::vector<std::string> names;
                 for (auto n : e.lane_op_names()) names.emplace_back(n);
                 return names;
             })
        .def("mma", &mma, "rule"_a, "a"_a, "b"_a, "c"_a, "d"_a, "reference"_a);
    bind_debugger(m);
    bind_trials(m);
    m.def("open_engine", &open_engine, "path"_a, nb::rv_policy::reference);
    m.def("best_isa", &best_isa);
    m.def("modifier_fields", [] {
        std::vector<std::tuple<std::string, unsigned, unsigned>> rows;
        for (const auto& f : fields) rows.emplace_back(f.name, f.shift, f.bits);
        return rows;
    });
    m.attr("shared_window") = shared_window;
    m.attr("local_window") = local_window;
}
