// What programs in the style of the CUDA samples call of helper_cuda_drvapi.h, where that is not there: the driver's errors end the
// program, there is one device.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda.h>

#include "helper_string.h"

#ifndef checkCudaErrors
inline void wmmadiag_check_driver(CUresult error, const char* file, int line) {
    if (error == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuGetErrorString(error, &text);
    fprintf(stderr, "checkCudaErrors() Driver API error = %04d \"%s\" from file <%s>, line %i.\n", static_cast<int>(error), text, file, line);
    exit(EXIT_FAILURE);
}
#define checkCudaErrors(error) wmmadiag_check_driver(error, __FILE__, __LINE__)
#endif

template <class T>
inline void getCudaAttribute(T* to, CUdevice_attribute attribute, int device) {
    int value = 0;
    if (cuDeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS) exit(EXIT_FAILURE);
    *to = static_cast<T>(value);
}
inline CUdevice findCudaDeviceDRV(int argc, const char** argv) {
    CUdevice device = 0;
    char name[100];
    const int asked = checkCmdLineFlag(argc, argv, "device") ? getCmdLineArgumentInt(argc, argv, "device=") : 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, asked) != CUDA_SUCCESS || cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS) {
        fprintf(stderr, "exiting...\n");
        exit(EXIT_FAILURE);
    }
    printf("> Using CUDA Device [%d]: %s\n", device, name);
    return device;
}
inline bool checkCudaCapabilitiesDRV(int major, int minor, int device) {
    int has_major = 0, has_minor = 0;
    getCudaAttribute(&has_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    getCudaAttribute(&has_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return has_major > major || (has_major == major && has_minor >= minor);
}
