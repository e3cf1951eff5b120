// cuFFT as programs see it, on the emulator's device memory: names, argument orders and enum values are those of the cuFFT API
// reference; the arithmetic is ours, in float64, rounded once to the output's type. What is not declared here is not offered.
#pragma once

#include <cuComplex.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>

#include "wmmadiag_caller.h"

#define CUFFT_VER_MAJOR 12
#define CUFFT_VER_MINOR 0
#define CUFFT_VER_PATCH 0
#define CUFFT_VERSION 12000
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
#define CUFFTAPI
#define MAX_CUFFT_ERROR 0x14

enum cufftResult_t {
    CUFFT_SUCCESS = 0x0,
    CUFFT_INVALID_PLAN = 0x1,
    CUFFT_ALLOC_FAILED = 0x2,
    CUFFT_INVALID_TYPE = 0x3,
    CUFFT_INVALID_VALUE = 0x4,
    CUFFT_INTERNAL_ERROR = 0x5,
    CUFFT_EXEC_FAILED = 0x6,
    CUFFT_SETUP_FAILED = 0x7,
    CUFFT_INVALID_SIZE = 0x8,
    CUFFT_UNALIGNED_DATA = 0x9,
    CUFFT_INCOMPLETE_PARAMETER_LIST = 0xA,
    CUFFT_INVALID_DEVICE = 0xB,
    CUFFT_PARSE_ERROR = 0xC,
    CUFFT_NO_WORKSPACE = 0xD,
    CUFFT_NOT_IMPLEMENTED = 0xE,
    CUFFT_LICENSE_ERROR = 0xF,
    CUFFT_NOT_SUPPORTED = 0x10
};
using cufftResult = cufftResult_t;
enum cufftType_t { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29, CUFFT_D2Z = 0x6a, CUFFT_Z2D = 0x6c, CUFFT_Z2Z = 0x69 };
using cufftType = cufftType_t;
enum cufftCompatibility_t { CUFFT_COMPATIBILITY_FFTW_PADDING = 0x01 };
using cufftCompatibility = cufftCompatibility_t;
#define CUFFT_COMPATIBILITY_DEFAULT CUFFT_COMPATIBILITY_FFTW_PADDING

using cufftReal = float;
using cufftDoubleReal = double;
using cufftComplex = cuComplex;
using cufftDoubleComplex = cuDoubleComplex;
using cufftHandle = int;

cufftResult cufftPlan1d(cufftHandle* plan, int nx, cufftType type, int batch, WMMADIAG_CALLER);
cufftResult cufftPlan2d(cufftHandle* plan, int nx, int ny, cufftType type, WMMADIAG_CALLER);
cufftResult cufftPlan3d(cufftHandle* plan, int nx, int ny, int nz, cufftType type, WMMADIAG_CALLER);
cufftResult cufftPlanMany(cufftHandle* plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist,
                          cufftType type, int batch, WMMADIAG_CALLER);

cufftResult cufftCreate(cufftHandle* plan);
cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* work, WMMADIAG_CALLER);
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* work, WMMADIAG_CALLER);
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t* work, WMMADIAG_CALLER);
cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist,
                              cufftType type, int batch, size_t* work, WMMADIAG_CALLER);
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long* n, long long* inembed, long long istride, long long idist,
                                long long* onembed, long long ostride, long long odist, cufftType type, long long batch, size_t* work,
                                WMMADIAG_CALLER);

// Bytes that a work area would have; none is needed here.
cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t* work);
cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t* work);
cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t* work);
cufftResult cufftEstimateMany(int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist, cufftType type,
                              int batch, size_t* work);
cufftResult cufftGetSize1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* work);
cufftResult cufftGetSize2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* work);
cufftResult cufftGetSize3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t* work);
cufftResult cufftGetSizeMany(cufftHandle plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist,
                             cufftType type, int batch, size_t* work);
cufftResult cufftGetSize(cufftHandle plan, size_t* work);
cufftResult cufftSetWorkArea(cufftHandle plan, void* work);
cufftResult cufftSetAutoAllocation(cufftHandle plan, int allocate);
cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream);
cufftResult cufftDestroy(cufftHandle plan);
cufftResult cufftGetVersion(int* version);
cufftResult cufftGetProperty(libraryPropertyType type, int* value);

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* in, cufftComplex* out, int direction, WMMADIAG_CALLER);
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* in, cufftComplex* out, WMMADIAG_CALLER);
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* in, cufftReal* out, WMMADIAG_CALLER);
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleComplex* out, int direction, WMMADIAG_CALLER);
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* in, cufftDoubleComplex* out, WMMADIAG_CALLER);
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleReal* out, WMMADIAG_CALLER);
