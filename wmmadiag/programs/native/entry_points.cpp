// Functions of the driver by their names, at run time.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

#include "driver.hpp"

using namespace wmmadiag;

namespace {

// Functions of the driver that changed what they take, and since when they do it as here (cudaTypedefs.h); one that is asked for as
// an earlier release had it is not there.
struct Changed {
    const char* name;
    int since;
};
constexpr Changed changed_calls[] = {
    {"cuCtxCreate", 12050}, {"cuDeviceGetUuid", 11040},    {"cuEventElapsedTime", 12080},
    {"cuMemAdvise", 12020}, {"cuMemPrefetchAsync", 12020}, {"cuGetProcAddress", 12000},
};

// The address of a function of the driver, by the name that programs write; nullptr: it is not offered, or was another one then.
void* entry_point(const char* symbol, int version, bool& too_old) {
    static const auto own = [] {
        Dl_info where{};
        dladdr(reinterpret_cast<void*>(&cuInit), &where);
        return dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }();
    too_old = false;
    if (symbol == nullptr || std::strncmp(symbol, "cu", 2) != 0) return nullptr;
    if (std::strcmp(symbol, "cuCtxCreate") == 0 && version < 11040) return dlsym(own, "cuCtxCreate_v2");
    for (const auto& one : changed_calls)
        if (std::strcmp(symbol, one.name) == 0 && version < one.since) {
            too_old = true;
            return nullptr;
        }
    for (const char* suffix : {"_v4", "_v3", "_v2", ""})
        if (auto* found = dlsym(own, (symbol + std::string(suffix)).c_str())) return found;
    return nullptr;
}

cudaError_t runtime_entry_point(const char* symbol, void** to, int version, cudaDriverEntryPointQueryResult* status_of) {
    if (symbol == nullptr || to == nullptr) return failed(cudaErrorInvalidValue);
    bool too_old = false;
    *to = entry_point(symbol, version, too_old);
    if (status_of != nullptr)
        *status_of = *to != nullptr ? cudaDriverEntryPointSuccess
                     : too_old      ? cudaDriverEntryPointVersionNotSufficent
                                    : cudaDriverEntryPointSymbolNotFound;
    return *to != nullptr || status_of != nullptr ? cudaSuccess : failed(cudaErrorSymbolNotFound);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** to, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status_of) {
    return runtime_entry_point(symbol, to, static_cast<int>(version), status_of);
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** to, unsigned long long, cudaDriverEntryPointQueryResult* status_of) {
    return runtime_entry_point(symbol, to, CUDART_VERSION, status_of);
}

}  // extern "C"
