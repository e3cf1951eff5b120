// What programs of the first CUDA SDKs call of cutil, where that is not there: errors end the program, there is one device.
#pragma once
#include <cmath>
#include <cstring>

#include "helper_cuda.h"
#include "helper_functions.h"

enum CUTBoolean { CUTFalse = 0, CUTTrue = 1 };

#define CUDA_SAFE_CALL_NO_SYNC(call) checkCudaErrors(call)
#define CUDA_SAFE_CALL(call) checkCudaErrors(call)
#define CUT_SAFE_CALL(call)                                                                  \
    do {                                                                                     \
        if (CUTTrue != (call)) {                                                             \
            fprintf(stderr, "Cut error in file '%s' in line %i.\n", __FILE__, __LINE__);     \
            exit(EXIT_FAILURE);                                                              \
        }                                                                                    \
    } while (0)
#define CUT_CHECK_ERROR(message) getLastCudaError(message)
#define CUT_DEVICE_INIT(...) ((void)0)
#define CUT_EXIT(...) exit(EXIT_SUCCESS)
#define CUFFT_SAFE_CALL(call) checkCudaErrors(call)
#define cutilSafeCall(call) checkCudaErrors(call)
#define cutilSafeCallNoSync(call) checkCudaErrors(call)
#define cutilSafeThreadSync() checkCudaErrors(cudaDeviceSynchronize())
#define cutilDeviceSynchronize() cudaDeviceSynchronize()
#define cutilThreadSynchronize() cudaDeviceSynchronize()
#define cutilDeviceReset() cudaDeviceReset()
#define cutilCheckMsg(message) getLastCudaError(message)
#define cutilCheckError(call) CUT_SAFE_CALL(call)
#define cutilSafeMalloc(call)                                                                \
    do {                                                                                     \
        if ((call) == nullptr) {                                                             \
            fprintf(stderr, "Host malloc failure in file '%s' in line %i\n", __FILE__, __LINE__); \
            exit(EXIT_FAILURE);                                                              \
        }                                                                                    \
    } while (0)
#define cutilCondition(value) CUT_SAFE_CALL((value) ? CUTTrue : CUTFalse)
#define cutilExit(...) exit(EXIT_SUCCESS)
#define cutFree(memory) free(memory)
inline int cutGetMaxGflopsDeviceId() { return 0; }
inline int cutilDeviceInit(int, char**) { return 0; }
inline int cutilChooseCudaDevice(int, char**) { return 0; }

// Timers, by numbers from 1.
inline StopWatchInterface*& wmmadiag_cut_timer(unsigned number) {
    static StopWatchInterface* timers[4096] = {};
    return timers[number % 4096];
}
inline CUTBoolean cutCreateTimer(unsigned* number) {
    static unsigned last = 0;
    *number = ++last;
    return sdkCreateTimer(&wmmadiag_cut_timer(*number)) ? CUTTrue : CUTFalse;
}
inline CUTBoolean cutDeleteTimer(unsigned number) { return sdkDeleteTimer(&wmmadiag_cut_timer(number)) ? CUTTrue : CUTFalse; }
inline CUTBoolean cutStartTimer(unsigned number) { return sdkStartTimer(&wmmadiag_cut_timer(number)) ? CUTTrue : CUTFalse; }
inline CUTBoolean cutStopTimer(unsigned number) { return sdkStopTimer(&wmmadiag_cut_timer(number)) ? CUTTrue : CUTFalse; }
inline CUTBoolean cutResetTimer(unsigned number) { return sdkResetTimer(&wmmadiag_cut_timer(number)) ? CUTTrue : CUTFalse; }
inline float cutGetTimerValue(unsigned number) { return sdkGetTimerValue(&wmmadiag_cut_timer(number)); }
inline float cutGetAverageTimerValue(unsigned number) { return sdkGetAverageTimerValue(&wmmadiag_cut_timer(number)); }

inline CUTBoolean cutCheckCmdLineFlag(int argc, const char** argv, const char* flag) {
    return checkCmdLineFlag(argc, argv, flag) ? CUTTrue : CUTFalse;
}
inline CUTBoolean cutGetCmdLineArgumenti(int argc, const char** argv, const char* name, int* value) {
    if (!checkCmdLineFlag(argc, argv, name)) return CUTFalse;
    *value = getCmdLineArgumentInt(argc, argv, name);
    return CUTTrue;
}
inline CUTBoolean cutGetCmdLineArgumentf(int argc, const char** argv, const char* name, float* value) {
    if (!checkCmdLineFlag(argc, argv, name)) return CUTFalse;
    *value = getCmdLineArgumentFloat(argc, argv, name);
    return CUTTrue;
}
// By the norm of the difference, as `sdkCompareL2fe`; element by element.
inline CUTBoolean cutCompareL2fe(const float* reference, const float* data, unsigned count, float epsilon) {
    double difference = 0, norm = 0;
    for (unsigned i = 0; i < count; ++i) {
        difference += static_cast<double>(reference[i] - data[i]) * (reference[i] - data[i]);
        norm += static_cast<double>(reference[i]) * reference[i];
    }
    return std::sqrt(difference) <= epsilon * std::sqrt(norm) ? CUTTrue : CUTFalse;
}
inline CUTBoolean cutComparefe(const float* reference, const float* data, unsigned count, float epsilon) {
    for (unsigned i = 0; i < count; ++i)
        if (!(std::fabs(reference[i] - data[i]) <= epsilon)) return CUTFalse;
    return CUTTrue;
}
inline CUTBoolean cutComparef(const float* reference, const float* data, unsigned count) { return cutComparefe(reference, data, count, 0.0f); }
inline CUTBoolean cutComparei(const int* reference, const int* data, unsigned count) {
    return std::memcmp(reference, data, count * sizeof(int)) == 0 ? CUTTrue : CUTFalse;
}
