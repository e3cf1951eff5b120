// Trials for Python: the launch and what is expected go in as arrays, results come out as rows.
#include <cmath>
#include <cstring>

#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace wmmadiag {

namespace {

constexpr std::array type_names{"f16", "bf16", "f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "e4m3", "e5m2"};
constexpr std::array end_names{"finished", "stopped", "fault", "budget", "interrupted"};

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copied(const Array<T>& array) {
    return std::vector<T>(array.data(), array.data() + array.size());
}

ItemType type_from(const std::string& name) {
    for (std::size_t i = 0; i < type_names.size(); ++i)
        if (name == type_names[i]) return static_cast<ItemType>(i);
    throw std::invalid_argument("unknown item type " + name);
}

double scale_of(const std::vector<double>& values) {
    double sum = 0;
    std::size_t count = 0;
    for (const auto value : values) {
        if (!std::isfinite(value)) continue;
        sum += std::fabs(value);
        ++count;
    }
    const auto mean = count == 0 ? 1 : sum / static_cast<double>(count);
    return mean > 0 && std::isfinite(mean) ? mean : 1;
}

struct PyTrials {
    std::vector<LoadedProgram> loaded;  // outlive the trials
    nb::object memory;                  // keeps the regions' arrays alive
    std::unique_ptr<Trials> trials;
};

// (address, item type, element per item, whether poisoned, poison)
using ArrayRow = std::tuple<std::uint64_t, std::string, Array<std::int32_t>, bool, std::uint64_t>;

// (program, grid, block, regions, beginning and bytes of shared memory, bytes that the launch adds, patience, selector, what is cleared)
using StageRow = std::tuple<const LoadedProgram*, std::array<std::uint32_t, 3>, std::array<std::uint32_t, 3>, std::vector<RegionRow>, std::uint32_t,
                            std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

PyTrials trials(const Engine& engine, const std::vector<StageRow>& stages, std::uint32_t poison, std::uint32_t register_poison, bool strays_pass,
                bool local_unaligned, const std::vector<ArrayRow>& arrays, const Array<double>& value, const Array<double>& bound,
                const Array<std::uint8_t>& accepted, const Array<std::uint8_t>& wrong, nb::object memory) {
    TrialSetup setup;
    std::vector<LoadedProgram> programs;
    for (const auto& [program, grid, block, regions, shared_base, shared_bytes, dynamic_bytes, patience, selector, cleared] : stages) {
        programs.push_back(*program);
        TrialStage stage;
        stage.request =
            launch_request(programs.back(), grid, block, regions, shared_base, shared_bytes, dynamic_bytes, poison, register_poison, {}, false);
        if (patience != 0) stage.request.patience = patience;
        stage.selector = selector;
        stage.cleared = cleared;
        setup.stages.push_back(std::move(stage));
    }
    setup.strays_pass = strays_pass;
    setup.local_unaligned = local_unaligned;
    for (const auto& [base, type, element, poisoned, bits] : arrays) setup.arrays.push_back({base, type_from(type), copied(element), poisoned, bits});
    setup.expected = {copied(value), copied(bound), copied(accepted), copied(wrong)};
    setup.expected.scale = scale_of(setup.expected.value);
    return {std::move(programs), std::move(memory), engine.trials(std::move(setup))};
}

bool keep_going() {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
}

template <class Body>
decltype(auto) running(Body&& body) {
    const nb::gil_scoped_release release;
    return body();
}

nb::tuple row(const TrialResult& r) {
    return nb::make_tuple(end_names[static_cast<unsigned>(r.end)], fault_name(r.fault), r.in_order, r.wrong, r.mended, r.broken, r.damaged, r.strays,
                          r.fewer, r.more, r.first, r.instructions, r.error, r.looked, r.trace);
}

nb::tuple base(PyTrials& self, std::uint64_t budget) {
    const auto& found = running([&]() -> const TrialBase& { return self.trials->base(budget, keep_going); });
    if (PyErr_Occurred()) throw nb::python_error();
    return nb::make_tuple(row(found.result), found.independent, found.instructions, nb::bytes(found.wrong.data(), found.wrong.size()),
                          found.wrong_blocks);
}

nb::list run_all(PyTrials& self, const std::vector<std::uint32_t>& selectors, std::uint64_t times, std::uint64_t slack, std::uint64_t budget,
                 unsigned looks, unsigned threads) {
    TrialLimits limits;
    limits.times = times;
    limits.slack = slack;
    limits.budget = budget;
    limits.looks = looks;
    const auto results = running([&] { return self.trials->run(selectors, limits, threads, keep_going); });
    if (PyErr_Occurred()) throw nb::python_error();
    nb::list rows;
    for (const auto& result : results) rows.append(row(result));
    return rows;
}

}  // namespace

void bind_trials(nb::module_& m) {
    nb::class_<PyTrials>(m, "Trials")
        .def("base", &base, "budget"_a)
        .def(
            "adopt", [](PyTrials& self, const PyTrials& other) { return self.trials->adopt(*other.trials); }, "other"_a)
        .def("run", &run_all, "selectors"_a, "times"_a, "slack"_a, "budget"_a, "looks"_a, "threads"_a);
    m.def("trials", &trials, "engine"_a, "stages"_a, "poison"_a, "register_poison"_a, "strays_pass"_a, "local_unaligned"_a, "arrays"_a, "value"_a,
          "bound"_a, "accepted"_a, "wrong"_a, "memory"_a);
}

}  // namespace wmmadiag
