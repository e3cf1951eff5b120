// What orders work on the device: streams, events and the host's waiting, as vector clocks; and two pieces of work on the same bytes that
// nothing orders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace wmmadiag {

// Streams are numbered from 1 as they are created, 0 is the default one; nodes of graphs that may run side by side, from here.
constexpr std::uint64_t first_node = std::uint64_t{1} << 32;

// By stream: how much of its work has come before.
using Clock = std::map<std::uint64_t, std::uint64_t>;
void join(Clock& to, const Clock& from);

// `makes`, `frees`: the memory itself, in the order of a stream.
enum class Touch : std::uint8_t { read, write, atomic, makes, frees };

struct Stretch {
    std::uint64_t begin, end;
    Touch touch;
};

// A piece of work on the device that the host has not waited for.
struct Work {
    std::uint64_t stream = 0, tick = 0;
    std::string name, place;
    bool talks = false;              // with the host while it runs: what it touches may be looked at
    std::vector<Stretch> stretches;  // what it is known to touch
    std::vector<Stretch> changed;    // what it changed of memory that the host sees, where no more than that is known
};
const std::vector<Work>& remembered();
// Whether a callback has come after it: that may look at what it did, and tell others of the host's threads.
bool known_to_callbacks(const Work& one);
// The work that is running calls the host.
void calls_host();
std::string stream_name(std::uint64_t stream);

// Begins a piece of work in a stream after what `before` knows; `finish` tells what it raced with, and returns what is known after it.
// One at a time: work runs when it is submitted.
void start(std::uint64_t stream, const Clock& before);
Clock finish();
// All that was submitted to any stream.
Clock submitted();
// What the piece of work that is running touches, and what it is called.
void touches(const void* pointer, std::uint64_t bytes, Touch touch);
void changes(std::uint64_t begin, std::uint64_t end);
void called(const std::string& name);
void talks();
// Work that the host has waited for comes before all that is submitted from now on.
void forget(const Clock& known);

}  // namespace wmmadiag
