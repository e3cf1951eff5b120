#include "configured.hpp"

namespace wmmadiag {

namespace {

// Arguments of a launch may launch, too, and one expression may hold several launches. The innermost is the first.
thread_local Configured* innermost = nullptr;

}  // namespace

Configured* awaited() {
    auto* one = innermost;
    while (one != nullptr && one->taken) one = one->around;
    return one;
}

void no_kernel(const Configured& launch) {
    const auto place = *launch.file != 0 ? std::string(launch.file) + ":" + std::to_string(launch.line) + ": " : "";
    host().unsupported((place + launch.callee + " is launched, and is not recognised as a kernel").c_str());
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

void* wmmadiag_configure(const char* file, int line, const char* callee, dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
    wmmadiag_at(file, line, "");
    innermost = new Configured{grid, block, shared, stream, file, line, callee, false, innermost};
    return innermost;
}

void wmmadiag_launched(void* launch, bool thrown) {
    auto* one = innermost;
    while (one != nullptr && one != launch) one = one->around;
    if (one == nullptr) return;
    while (innermost != launch) delete std::exchange(innermost, innermost->around);  // a longjmp left them
    const auto mine = *innermost;
    delete std::exchange(innermost, innermost->around);
    if (!mine.taken && !thrown) no_kernel(mine);
}

}  // extern "C"
