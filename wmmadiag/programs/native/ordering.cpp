#include "ordering.hpp"

#include <algorithm>

#include "host_access.hpp"

namespace wmmadiag {

namespace {

constexpr std::size_t most_remembered = 4096;

struct Running {
    bool begun = false;
    Clock clock;
    Work work;
};

Running& running() {
    static auto* one = new Running;
    return *one;
}
std::vector<Work>& works() {
    static auto* all = new std::vector<Work>;
    return *all;
}
std::map<std::uint64_t, std::uint64_t>& ticks() {
    static auto* all = new std::map<std::uint64_t, std::uint64_t>;
    return *all;
}

Clock& called_back() {
    static auto* one = new Clock;
    return *one;
}

bool conflict(Touch one, Touch other) {
    if (one == Touch::read && other == Touch::read) return false;
    return one != Touch::atomic || other != Touch::atomic;
}

const char* verb(Touch touch) {
    constexpr const char* words[] = {"reads", "writes", "changes", "makes", "frees"};
    return words[static_cast<std::size_t>(touch)];
}

void compare(const Work& now, const Work& then) {
    for (const auto& a : now.stretches)
        for (const auto& b : then.stretches) {
            const auto begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
            if (begin >= end || !conflict(a.touch, b.touch)) continue;
            const auto* memory = allocation_at(reinterpret_cast<const void*>(begin));
            const auto name = memory != nullptr ? memory->name : "memory";
            const auto from = memory != nullptr ? begin - memory->address : 0;
            report("streams", "race", "error",
                   now.name + " in " + stream_name(now.stream) + " " + verb(a.touch) + " bytes " + std::to_string(from) + " to " +
                       std::to_string(from + end - begin - 1) + " of " + name + ", which " + then.name + " in " + stream_name(then.stream) + " " +
                       verb(b.touch) + ", and nothing orders the two",
                   now.stream >= first_node && then.stream >= first_node
                       ? "let the one node depend on the other (where a graph is captured, its stream wait for an event)"
                       : "record an event behind the first and let the second stream wait for it (cudaEventRecord, cudaStreamWaitEvent)",
                   then.place);
            return;
        }
}

}  // namespace

const std::vector<Work>& remembered() { return works(); }

bool known_to_callbacks(const Work& one) {
    const auto known = called_back().find(one.stream);
    return known != called_back().end() && known->second >= one.tick;
}

void calls_host() {
    join(called_back(), running().clock);
    guard_host_memory();
}

std::string stream_name(std::uint64_t stream) {
    return stream == 0 ? "the default stream" : stream >= first_node ? "a graph" : "stream " + std::to_string(stream);
}

void join(Clock& to, const Clock& from) {
    for (const auto& [stream, tick] : from) to[stream] = std::max(to[stream], tick);
}

void start(std::uint64_t stream, const Clock& before) {
    auto& now = running();
    now = {};
    now.begun = true;
    now.clock = before;
    now.work.stream = stream;
    now.work.tick = now.clock[stream] = ++ticks()[stream];
    now.work.place = *here().file != 0 ? std::string(here().file) + ":" + std::to_string(here().line) : "";
    now.work.name = "work";
}

Clock finish() {
    auto& now = running();
    now.begun = false;
    if (now.work.stretches.empty() && now.work.changed.empty()) return now.clock;
    for (const auto& then : works()) {
        const auto known = now.clock.find(then.stream);
        if (known == now.clock.end() || known->second < then.tick) compare(now.work, then);
    }
    if (works().size() < most_remembered) works().push_back(now.work);
    guard_host_memory();
    return now.clock;
}

void touches(const void* pointer, std::uint64_t bytes, Touch touch) {
    if (!running().begun || allocation_at(pointer) == nullptr) return;
    const auto begin = reinterpret_cast<std::uint64_t>(pointer);
    running().work.stretches.push_back({begin, begin + bytes, touch});
}

void changes(std::uint64_t begin, std::uint64_t end) {
    if (running().begun) running().work.changed.push_back({begin, end, Touch::write});
}

void talks() { running().work.talks = true; }

void called(const std::string& name) { running().work.name = name; }

void forget(const Clock& known) {
    auto& all = works();
    const auto before = all.size();
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Work& one) {
                                 const auto tick = known.find(one.stream);
                                 return tick != known.end() && tick->second >= one.tick;
                             }),
              all.end());
    if (all.size() != before) guard_host_memory();
}

}  // namespace wmmadiag

extern "C" {
void wmmadiag_touches(std::uint64_t address, std::uint64_t bytes, int touch) {
    wmmadiag::touches(reinterpret_cast<const void*>(address), bytes, static_cast<wmmadiag::Touch>(touch));
}
void wmmadiag_called(const char* name) { wmmadiag::called(name); }
void wmmadiag_talks() { wmmadiag::talks(); }
}
