// Threads, as far as the system gives them.
#pragma once

#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace wmmadiag {

// How often one that waits for others looks whether somebody wants it to end.
inline constexpr auto poll_interval = std::chrono::milliseconds(20);

// Starts `count` threads of body(index), or as many as the system has; the results never depend on how many.
// Throws std::bad_alloc if it has none at all.
template <class Body>
std::vector<std::thread> started(unsigned count, const Body& body) {
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (unsigned index = 0; index < count; ++index) {
        try {
            threads.emplace_back(body, index);
        } catch (const std::system_error&) {
            if (threads.empty()) throw std::bad_alloc();
            break;
        }
    }
    return threads;
}

}  // namespace wmmadiag
