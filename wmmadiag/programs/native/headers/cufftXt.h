// cuFFT's extended interface: what of it one device can do without callbacks, in the types of cufft.h.
#pragma once
#include "cufft.h"

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long* n, long long* inembed, long long istride, long long idist,
                                cudaDataType in, long long* onembed, long long ostride, long long odist, cudaDataType out, long long batch,
                                size_t* work, cudaDataType execution, WMMADIAG_CALLER);
cufftResult cufftXtExec(cufftHandle plan, void* in, void* out, int direction, WMMADIAG_CALLER);
