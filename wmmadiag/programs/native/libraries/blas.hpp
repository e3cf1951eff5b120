// What cuBLAS and cuBLASLt share: the handle, and how a call is refused.
#pragma once

#include "cublas_v2.h"
#include "elements.hpp"

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
    cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    int processors = 0;  // that a program wishes to be used; 0: all
};

namespace wmmadiag::libraries {

struct Refusal {
    cublasStatus_t status;
};

/// Reports which argument is wrong, and gives the status to throw.
Refusal invalid(const char* name, const char* format, long long value, long long least);
Refusal not_offered(const char* name, const char* what, long long value);

/// Runs what a call does, at the program's line; what it throws becomes its status.
template <class Body>
cublasStatus_t refused(Caller caller, const Body& body) {
    WMMADIAG_LOCKED;
    here() = {caller.file, caller.line, "", 1};
    if (status() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
    try {
        body();
        return CUBLAS_STATUS_SUCCESS;
    } catch (const Refusal& refusal) {
        return refusal.status;
    } catch (cudaError_t) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

/// Throws unless elements of that type can be computed with.
void known_type(const char* name, const char* operand, cudaDataType type);

}  // namespace wmmadiag::libraries
