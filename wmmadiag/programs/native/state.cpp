// What every call shares: the lock, the call's place, errors, and what is told to the process around this library.
#include "runtime.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "configured.hpp"
#include "ending.hpp"
#include "host_access.hpp"

namespace wmmadiag {

namespace {

WmmadiagHost given{};
thread_local Here current;
thread_local cudaError_t last = cudaSuccess;
cudaError_t sticky = cudaSuccess, pending = cudaSuccess;

void send(const std::string& line) {
    std::size_t done = 0;
    while (done < line.size()) {
        const auto wrote = write(given.findings, line.data() + done, line.size() - done);
        if (wrote <= 0) return;  // the parent has gone: this process ends with it
        done += static_cast<std::size_t>(wrote);
    }
}

std::string quoted(const std::string& text) {
    std::string to = "\"";
    for (const char c : text) {
        char code[8];
        if (c == '"' || c == '\\') to += '\\', to += c;
        else if (static_cast<unsigned char>(c) < 32) std::snprintf(code, sizeof code, "\\u%04x", c), to += code;
        else to += c;
    }
    return to + '"';
}

std::string frame(void* at) {
    Dl_info info{};
    const bool known = dladdr(at, &info) != 0 && info.dli_fname != nullptr;
    const auto base = known ? reinterpret_cast<std::uint64_t>(info.dli_fbase) : 0;
    return "{\"file\":" + quoted(known ? info.dli_fname : "") + ",\"offset\":" + std::to_string(reinterpret_cast<std::uint64_t>(at) - base) + "}";
}

std::string listed(void* const* frames, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i != 0 ? "," : "") + frame(frames[i]);
    return list;
}

// Whether a fault is a store's.
bool is_write(void* context) {
#ifdef __x86_64__
    return (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;  // page-fault error code, W/R (Intel SDM 3A, 4.7)
#else
    static_cast<void>(context);
    return true;
#endif
}

// A signal of host code: what it touched and where it stood go to the parent, then the signal does what it does.
void died(int signal, siginfo_t* info, void* context) {
    if (signal == SIGSEGV && (opened(info->si_addr, is_write(context)) || host_touched(info->si_addr, is_write(context), context))) return;
    void* frames[48];
    const int count = backtrace(frames, 48);
    const auto* one = signal == SIGSEGV || signal == SIGBUS ? allocation_at(info->si_addr) : nullptr;
    std::string line = "{\"signal\":" + std::to_string(signal) + ",\"address\":" + std::to_string(reinterpret_cast<std::uint64_t>(info->si_addr)) +
                       ",\"memory\":" + quoted(one != nullptr ? one->name : "");
    if (const auto* launch = awaited(); launch != nullptr)
        line += ",\"launch\":" + quoted(launch->callee) + ",\"file\":" + quoted(launch->file) + ",\"line\":" + std::to_string(launch->line);
    line += ",\"frames\":[";
    send(line + listed(frames, count) + "]}\n");
    ::signal(signal, SIG_DFL);
    raise(signal);
}

void stepped(int, siginfo_t*, void* context) {
    if (host_stepped(context)) return;
    ::signal(SIGTRAP, SIG_DFL);
    raise(SIGTRAP);
}

// Of a process that is not the program's alone: a fault that is not ours goes where it went before.
struct sigaction others{};
void first_access(int, siginfo_t* info, void* context) {
    if (!opened(info->si_addr, is_write(context))) sigaction(SIGSEGV, &others, nullptr);
}

}  // namespace

std::recursive_mutex& lock() {
    static auto* one = new std::recursive_mutex;
    return *one;
}

const WmmadiagHost& host() { return given; }

Here& here() { return current; }

cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess) {
        last = error;
        if (sticky == cudaSuccess) was_refused(error);
    }
    return error;
}

cudaError_t status(bool waits) {
    if (waits && sticky == cudaSuccess) sticky = pending;
    return failed(sticky);
}

void fault(cudaError_t error) {
    if (pending == cudaSuccess) pending = error;
}

void report(const char* check, const char* kind, const char* level, const std::string& message, const std::string& hint, const std::string& other) {
    send("{\"check\":" + quoted(check) + ",\"kind\":" + quoted(kind) + ",\"level\":" + quoted(level) + ",\"message\":" + quoted(message) +
         ",\"file\":" + quoted(current.file) + ",\"line\":" + std::to_string(current.line) + ",\"hint\":" + quoted(hint) +
         ",\"other\":" + quoted(other) + "}\n");
}

void report_from(void* const* frames, int count, const char* check, const char* kind, const char* level, const std::string& message,
                 const std::string& hint, const std::string& other) {
    send("{\"check\":" + quoted(check) + ",\"kind\":" + quoted(kind) + ",\"level\":" + quoted(level) + ",\"message\":" + quoted(message) +
         ",\"file\":\"\",\"line\":0,\"frames\":[" + listed(frames, count) + "],\"hint\":" + quoted(hint) + ",\"other\":" + quoted(other) + "}\n");
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

// For a process that calls several libraries, and is not theirs alone: before each call.
void wmmadiag_serve(const WmmadiagHost* host) {
    WMMADIAG_LOCKED;
    given = *host;
    struct sigaction now{}, action{};
    action.sa_sigaction = first_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_sigaction == first_access) return;
    others = now;
    sigaction(SIGSEGV, &action, nullptr);
}

void wmmadiag_begin(const WmmadiagHost* host) {
    given = *host;
    std::atexit([] { given.finished(); });
    void* first[1];
    backtrace(first, 1);  // loads what it needs now, not in a signal handler
    static char alternate[1 << 16];
    stack_t stack{};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    sigaltstack(&stack, nullptr);
    struct sigaction action{};
    action.sa_sigaction = died;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
    action.sa_sigaction = stepped;
    sigaction(SIGTRAP, &action, nullptr);
}

void wmmadiag_at(const char* file, int line, const char* text) {
    here().file = file;
    here().line = line;
    here().text = text;
}

cudaError_t cudaGetLastError() {
    const auto error = last;
    last = sticky;
    return error;
}
cudaError_t cudaPeekAtLastError() { return last; }
cudaError_t cudaDeviceReset() {
    WMMADIAG_LOCKED;
    flush_output();
    const auto error = status(true);
    sticky = pending = last = cudaSuccess;
    return error;
}
cudaError_t cudaDeviceSynchronize() {
    WMMADIAG_LOCKED;
    waited();
    flush_output();
    return status(true);
}
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaThreadExit() { return cudaDeviceReset(); }

}  // extern "C"
