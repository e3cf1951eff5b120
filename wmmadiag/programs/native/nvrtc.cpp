// Calls of a program's NVRTC that mean another thing here: CUDA's headers are those of this machine, and there is no machine code.
#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

std::vector<std::string>& folders() {
    static auto* all = new std::vector<std::string>;
    return *all;
}

// A function of the library that the program is linked with, behind the one of its name here.
template <class Function>
Function real(const char* name) {
    Dl_info where{};
    void* known = dlsym(RTLD_DEFAULT, "nvrtcVersion");
    if (known == nullptr || dladdr(known, &where) == 0) return nullptr;
    return reinterpret_cast<Function>(dlsym(dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name));
}

}  // namespace

extern "C" {

// A folder of CUDA's headers.
void wmmadiag_include(const char* folder) { folders().emplace_back(std::string("--include-path=") + folder); }

// A program names the folder of the toolkit that it was written with; behind that, ours.
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    std::vector<const char*> all(options, options + count);
    for (const auto& one : folders()) all.push_back(one.c_str());
    return real<int (*)(void*, int, const char* const*)>("nvrtcCompileProgram")(program, static_cast<int>(all.size()), all.data());
}
// The PTX, which cuModuleLoadData takes as well.
int nvrtcGetCUBINSize(void* program, std::size_t* size) { return real<int (*)(void*, std::size_t*)>("nvrtcGetPTXSize")(program, size); }
int nvrtcGetCUBIN(void* program, char* to) { return real<int (*)(void*, char*)>("nvrtcGetPTX")(program, to); }

}  // extern "C"
