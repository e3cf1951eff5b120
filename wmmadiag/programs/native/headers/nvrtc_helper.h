// What programs in the style of the CUDA samples call of nvrtc_helper.h, where that is not there: a file compiled at run time, and loaded.
#pragma once
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <cuda.h>
#include <nvrtc.h>

#include "helper_cuda_drvapi.h"

#define NVRTC_SAFE_CALL(name, error)                                                                     \
    do {                                                                                                 \
        const nvrtcResult wmmadiag_result = error;                                                       \
        if (wmmadiag_result != NVRTC_SUCCESS) {                                                          \
            std::cerr << "\nerror: " << name << " failed with error " << nvrtcGetErrorString(wmmadiag_result); \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

inline void compileFileToCUBIN(char* file, int argc, char** argv, char** image, size_t* size, int needs_headers) {
    if (file == nullptr) {
        std::cerr << "\nerror: kernel filename is empty for compiling with nvrtc\n";
        exit(1);
    }
    std::ifstream input(file, std::ios::binary);
    if (!input.is_open()) {
        std::cerr << "\nerror: unable to open " << file << " for reading!\n";
        exit(1);
    }
    std::stringstream text;
    text << input.rdbuf();
    int major = 0, minor = 0;
    const CUdevice device = findCudaDeviceDRV(argc, const_cast<const char**>(argv));
    getCudaAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    getCudaAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    std::vector<std::string> words{"--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor)};
    (void)needs_headers;  // CUDA's are always found
    std::vector<const char*> options;
    for (const auto& one : words) options.push_back(one.c_str());
    nvrtcProgram program;
    NVRTC_SAFE_CALL("nvrtcCreateProgram", nvrtcCreateProgram(&program, text.str().c_str(), file, 0, nullptr, nullptr));
    const auto compiled = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
    size_t log_size = 0;
    NVRTC_SAFE_CALL("nvrtcGetProgramLogSize", nvrtcGetProgramLogSize(program, &log_size));
    std::string log(log_size, '\0');
    NVRTC_SAFE_CALL("nvrtcGetProgramLog", nvrtcGetProgramLog(program, log.data()));
    if (log_size > 2) std::cerr << "\n compilation log ---\n" << log.c_str() << "\n end log ---\n";
    NVRTC_SAFE_CALL("nvrtcCompileProgram", compiled);
    NVRTC_SAFE_CALL("nvrtcGetCUBINSize", nvrtcGetCUBINSize(program, size));
    *image = new char[*size];
    NVRTC_SAFE_CALL("nvrtcGetCUBIN", nvrtcGetCUBIN(program, *image));
    NVRTC_SAFE_CALL("nvrtcDestroyProgram", nvrtcDestroyProgram(&program));
}
inline CUmodule loadCUBIN(char* image, int argc, char** argv) {
    CUcontext context;
    CUmodule module;
    const CUdevice device = findCudaDeviceDRV(argc, const_cast<const char**>(argv));
    checkCudaErrors(cuInit(0));
    checkCudaErrors(cuCtxCreate(&context, 0, device));
    checkCudaErrors(cuModuleLoadData(&module, image));
    return module;
}
