// cuBLAS as programs see it, on the emulator's device memory: names, argument orders and enum values are those of the
// cuBLAS API reference (13.1); the arithmetic is ours. Sums are formed in float64 and rounded once to the output's type.
// What is not declared here is not offered: the compiler names the function and the line.
#pragma once

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "wmmadiag_caller.h"

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 1
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION 130100
#define CUBLASWINAPI

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2, CUBLAS_OP_HERMITAN = 2, CUBLAS_OP_CONJG = 3 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };
// The algorithms differ in speed alone: all give our one result.
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_ALGO0 = 0, CUBLAS_GEMM_ALGO1, CUBLAS_GEMM_ALGO2, CUBLAS_GEMM_ALGO3,
    CUBLAS_GEMM_ALGO4, CUBLAS_GEMM_ALGO5, CUBLAS_GEMM_ALGO6, CUBLAS_GEMM_ALGO7, CUBLAS_GEMM_ALGO8, CUBLAS_GEMM_ALGO9, CUBLAS_GEMM_ALGO10,
    CUBLAS_GEMM_ALGO11, CUBLAS_GEMM_ALGO12, CUBLAS_GEMM_ALGO13, CUBLAS_GEMM_ALGO14, CUBLAS_GEMM_ALGO15, CUBLAS_GEMM_ALGO16,
    CUBLAS_GEMM_ALGO17, CUBLAS_GEMM_ALGO18, CUBLAS_GEMM_ALGO19, CUBLAS_GEMM_ALGO20, CUBLAS_GEMM_ALGO21, CUBLAS_GEMM_ALGO22,
    CUBLAS_GEMM_ALGO23, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99, CUBLAS_GEMM_DFALT_TENSOR_OP = 99, CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
    CUBLAS_GEMM_ALGO1_TENSOR_OP, CUBLAS_GEMM_ALGO2_TENSOR_OP, CUBLAS_GEMM_ALGO3_TENSOR_OP, CUBLAS_GEMM_ALGO4_TENSOR_OP,
    CUBLAS_GEMM_ALGO5_TENSOR_OP, CUBLAS_GEMM_ALGO6_TENSOR_OP, CUBLAS_GEMM_ALGO7_TENSOR_OP, CUBLAS_GEMM_ALGO8_TENSOR_OP,
    CUBLAS_GEMM_ALGO9_TENSOR_OP, CUBLAS_GEMM_ALGO10_TENSOR_OP, CUBLAS_GEMM_ALGO11_TENSOR_OP, CUBLAS_GEMM_ALGO12_TENSOR_OP,
    CUBLAS_GEMM_ALGO13_TENSOR_OP, CUBLAS_GEMM_ALGO14_TENSOR_OP, CUBLAS_GEMM_ALGO15_TENSOR_OP, CUBLAS_GEMM_AUTOTUNE = 999
};
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_FP32_EMULATED_BF16X9_MATH = 4,
    CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH = 8,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_COMPUTE_32F_EMULATED_16BFX9 = 78,
    CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT = 79,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73
};
// How float products are made of smaller ones, where they are: ours are in float64 whatever is chosen.
enum cublasEmulationStrategy_t {
    CUBLAS_EMULATION_STRATEGY_DEFAULT = 0,
    CUBLAS_EMULATION_STRATEGY_PERFORMANT = 1,
    CUBLAS_EMULATION_STRATEGY_EAGER = 2
};
using cublasDataType_t = cudaDataType;
struct cublasContext;
using cublasHandle_t = cublasContext*;

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value);
size_t cublasGetCudartVersion();
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);
cublasStatus_t cublasSetEmulationStrategy(cublasHandle_t handle, cublasEmulationStrategy_t strategy);
cublasStatus_t cublasSetEmulationSpecialValuesSupport(cublasHandle_t handle, int mask);
cublasStatus_t cublasSetFixedPointEmulationMantissaControl(cublasHandle_t handle, int control);
cublasStatus_t cublasSetFixedPointEmulationMaxMantissaBitCount(cublasHandle_t handle, int bits);
cublasStatus_t cublasSetFixedPointEmulationMantissaBitOffset(cublasHandle_t handle, int bits);
cublasStatus_t cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char* file);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasSetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasSetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy, cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy, cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int size, const void* a, int lda, void* b, int ldb, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int size, const void* a, int lda, void* b, int ldb, cudaStream_t stream);
cublasStatus_t cublasGetVector(int n, int size, const void* x, int incx, void* y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int cols, int size, const void* a, int lda, void* b, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int cols, int size, const void* a, int lda, void* b, int ldb);

// What the typed functions below come down to: element types are values, `Caller` is the function that the program called.
namespace wmmadiag::blas {
struct Vector {
    const void* data;
    cudaDataType type;
    int inc;
};
struct Matrix {
    const void* data;
    cudaDataType type;
    int ld;
    long long stride = 0;   // elements from one matrix of a batch to the next
    bool pointers = false;  // data is an array of pointers in device memory
};
struct Scalar {
    const void* data;
    cudaDataType type;
};
cublasStatus_t gemm(Caller, cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, Scalar alpha, Matrix a, Matrix b,
                    Scalar beta, Matrix c, int batch);
cudaDataType scale_type(cublasComputeType_t compute, cudaDataType c);
cublasComputeType_t compute_type(cudaDataType type);
cublasStatus_t gemv(Caller, cublasHandle_t, cublasOperation_t ta, int m, int n, Scalar alpha, Matrix a, Vector x, Scalar beta, Vector y);
cublasStatus_t ger(Caller, cublasHandle_t, bool conjugate, int m, int n, Scalar alpha, Vector x, Vector y, Matrix a);
cublasStatus_t geam(Caller, cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, Scalar alpha, Matrix a, Scalar beta, Matrix b,
                    Matrix c);
cublasStatus_t syrk(Caller, cublasHandle_t, cublasFillMode_t, cublasOperation_t, int n, int k, Scalar alpha, Matrix a, Scalar beta, Matrix c);
cublasStatus_t symm(Caller, cublasHandle_t, cublasSideMode_t, cublasFillMode_t, int m, int n, Scalar alpha, Matrix a, Matrix b, Scalar beta,
                    Matrix c);
cublasStatus_t trsm(Caller, cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int m, int n, Scalar alpha,
                    Matrix a, Matrix b);
cublasStatus_t trmm(Caller, cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, int m, int n, Scalar alpha,
                    Matrix a, Matrix b, Matrix c);
cublasStatus_t dgmm(Caller, cublasHandle_t, cublasSideMode_t, int m, int n, Matrix a, Vector x, Matrix c);
cublasStatus_t axpy(Caller, cublasHandle_t, int n, Scalar alpha, Vector x, Vector y);
cublasStatus_t scal(Caller, cublasHandle_t, int n, Scalar alpha, Vector x);
cublasStatus_t copy(Caller, cublasHandle_t, int n, Vector x, Vector y, bool swap);
cublasStatus_t dot(Caller, cublasHandle_t, int n, bool conjugate, Vector x, Vector y, Scalar result);
cublasStatus_t nrm2(Caller, cublasHandle_t, int n, Vector x, Scalar result);
cublasStatus_t asum(Caller, cublasHandle_t, int n, Vector x, Scalar result);
cublasStatus_t extreme(Caller, cublasHandle_t, int n, Vector x, bool smallest, int* result);
}  // namespace wmmadiag::blas

// One row per precision and family: LETTER in the name, element type, its cudaDataType.
#define WMMADIAG_BLAS_GEMM(L, T, R)                                                                                                                 \
    inline cublasStatus_t cublas##L##gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,        \
                                          const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc, WMMADIAG_CALLER) {                \
        return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, R}, {a, R, lda}, {b, R, ldb}, {beta, R}, {c, R, ldc}, 1);         \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##gemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,          \
                                                        const T* alpha, const T* a, int lda, long long sa, const T* b, int ldb, long long sb,       \
                                                        const T* beta, T* c, int ldc, long long sc, int batch, WMMADIAG_CALLER) {                   \
        return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, R}, {a, R, lda, sa}, {b, R, ldb, sb}, {beta, R}, {c, R, ldc, sc}, \
                                    batch);                                                                                                         \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##gemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, \
                                                 const T* const a[], int lda, const T* const b[], int ldb, const T* beta, T* const c[], int ldc,    \
                                                 int batch, WMMADIAG_CALLER) {                                                                      \
        return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, R}, {a, R, lda, 0, true}, {b, R, ldb, 0, true}, {beta, R},        \
                                    {c, R, ldc, 0, true}, batch);                                                                                   \
    }
WMMADIAG_BLAS_GEMM(S, float, CUDA_R_32F)
WMMADIAG_BLAS_GEMM(D, double, CUDA_R_64F)
WMMADIAG_BLAS_GEMM(H, __half, CUDA_R_16F)
WMMADIAG_BLAS_GEMM(C, cuComplex, CUDA_C_32F)
WMMADIAG_BLAS_GEMM(Z, cuDoubleComplex, CUDA_C_64F)
#undef WMMADIAG_BLAS_GEMM

#define WMMADIAG_BLAS(L, I, T, R)                                                                                                                   \
    inline cublasStatus_t cublas##L##gemv(cublasHandle_t h, cublasOperation_t ta, int m, int n, const T* alpha, const T* a, int lda, const T* x,    \
                                          int incx, const T* beta, T* y, int incy, WMMADIAG_CALLER) {                                               \
        return wmmadiag::blas::gemv(caller(__func__), h, ta, m, n, {alpha, R}, {a, R, lda}, {x, R, incx}, {beta, R}, {y, R, incy});                 \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, const T* alpha, const T* a,   \
                                          int lda, const T* beta, const T* b, int ldb, T* c, int ldc, WMMADIAG_CALLER) {                            \
        return wmmadiag::blas::geam(caller(__func__), h, ta, tb, m, n, {alpha, R}, {a, R, lda}, {beta, R}, {b, R, ldb}, {c, R, ldc});               \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##syrk(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t t, int n, int k, const T* alpha, const T* a,   \
                                          int lda, const T* beta, T* c, int ldc, WMMADIAG_CALLER) {                                                 \
        return wmmadiag::blas::syrk(caller(__func__), h, fill, t, n, k, {alpha, R}, {a, R, lda}, {beta, R}, {c, R, ldc});                           \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##symm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, int m, int n, const T* alpha, const T* a, \
                                          int lda, const T* b, int ldb, const T* beta, T* c, int ldc, WMMADIAG_CALLER) {                            \
        return wmmadiag::blas::symm(caller(__func__), h, side, fill, m, n, {alpha, R}, {a, R, lda}, {b, R, ldb}, {beta, R}, {c, R, ldc});           \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##trsm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t t,                      \
                                          cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb,                  \
                                          WMMADIAG_CALLER) {                                                                                        \
        return wmmadiag::blas::trsm(caller(__func__), h, side, fill, t, diag, m, n, {alpha, R}, {a, R, lda}, {b, R, ldb});                          \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##trmm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t t,                      \
                                          cublasDiagType_t diag, int m, int n, const T* alpha, const T* a, int lda, const T* b, int ldb, T* c,      \
                                          int ldc, WMMADIAG_CALLER) {                                                                               \
        return wmmadiag::blas::trmm(caller(__func__), h, side, fill, t, diag, m, n, {alpha, R}, {a, R, lda}, {b, R, ldb}, {c, R, ldc});             \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##dgmm(cublasHandle_t h, cublasSideMode_t side, int m, int n, const T* a, int lda, const T* x, int incx, T* c,   \
                                          int ldc, WMMADIAG_CALLER) {                                                                               \
        return wmmadiag::blas::dgmm(caller(__func__), h, side, m, n, {a, R, lda}, {x, R, incx}, {c, R, ldc});                                       \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy, WMMADIAG_CALLER) {         \
        return wmmadiag::blas::axpy(caller(__func__), h, n, {alpha, R}, {x, R, incx}, {y, R, incy});                                                \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##scal(cublasHandle_t h, int n, const T* alpha, T* x, int incx, WMMADIAG_CALLER) {                               \
        return wmmadiag::blas::scal(caller(__func__), h, n, {alpha, R}, {x, R, incx});                                                              \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##copy(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy, WMMADIAG_CALLER) {                         \
        return wmmadiag::blas::copy(caller(__func__), h, n, {x, R, incx}, {y, R, incy}, false);                                                     \
    }                                                                                                                                               \
    inline cublasStatus_t cublas##L##swap(cublasHandle_t h, int n, T* x, int incx, T* y, int incy, WMMADIAG_CALLER) {                               \
        return wmmadiag::blas::copy(caller(__func__), h, n, {x, R, incx}, {y, R, incy}, true);                                                      \
    }                                                                                                                                               \
    inline cublasStatus_t cublasI##I##amax(cublasHandle_t h, int n, const T* x, int incx, int* result, WMMADIAG_CALLER) {                           \
        return wmmadiag::blas::extreme(caller(__func__), h, n, {x, R, incx}, false, result);                                                        \
    }                                                                                                                                               \
    inline cublasStatus_t cublasI##I##amin(cublasHandle_t h, int n, const T* x, int incx, int* result, WMMADIAG_CALLER) {                           \
        return wmmadiag::blas::extreme(caller(__func__), h, n, {x, R, incx}, true, result);                                                         \
    }
WMMADIAG_BLAS(S, s, float, CUDA_R_32F)
WMMADIAG_BLAS(D, d, double, CUDA_R_64F)
WMMADIAG_BLAS(C, c, cuComplex, CUDA_C_32F)
WMMADIAG_BLAS(Z, z, cuDoubleComplex, CUDA_C_64F)
#undef WMMADIAG_BLAS

// Levels 1 of types that are values; sums are in float64 whatever the type to compute in is.
inline cublasStatus_t cublasAxpyEx(cublasHandle_t h, int n, const void* alpha, cudaDataType ta, const void* x, cudaDataType tx, int incx, void* y,
                                   cudaDataType ty, int incy, cudaDataType, WMMADIAG_CALLER) {
    return wmmadiag::blas::axpy(caller(__func__), h, n, {alpha, ta}, {x, tx, incx}, {y, ty, incy});
}
inline cublasStatus_t cublasScalEx(cublasHandle_t h, int n, const void* alpha, cudaDataType ta, void* x, cudaDataType tx, int incx, cudaDataType,
                                   WMMADIAG_CALLER) {
    return wmmadiag::blas::scal(caller(__func__), h, n, {alpha, ta}, {x, tx, incx});
}
inline cublasStatus_t cublasDotEx(cublasHandle_t h, int n, const void* x, cudaDataType tx, int incx, const void* y, cudaDataType ty, int incy,
                                  void* result, cudaDataType tr, cudaDataType, WMMADIAG_CALLER) {
    return wmmadiag::blas::dot(caller(__func__), h, n, false, {x, tx, incx}, {y, ty, incy}, {result, tr});
}
inline cublasStatus_t cublasDotcEx(cublasHandle_t h, int n, const void* x, cudaDataType tx, int incx, const void* y, cudaDataType ty, int incy,
                                   void* result, cudaDataType tr, cudaDataType, WMMADIAG_CALLER) {
    return wmmadiag::blas::dot(caller(__func__), h, n, true, {x, tx, incx}, {y, ty, incy}, {result, tr});
}
inline cublasStatus_t cublasNrm2Ex(cublasHandle_t h, int n, const void* x, cudaDataType tx, int incx, void* result, cudaDataType tr, cudaDataType,
                                   WMMADIAG_CALLER) {
    return wmmadiag::blas::nrm2(caller(__func__), h, n, {x, tx, incx}, {result, tr});
}

// Name, element type, its cudaDataType, and whether the first operand (dot) or the second (ger) is conjugated.
#define WMMADIAG_BLAS_PRODUCTS(DOT, GER, T, R, CONJUGATE)                                                                                \
    inline cublasStatus_t DOT(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result, WMMADIAG_CALLER) {         \
        return wmmadiag::blas::dot(caller(__func__), h, n, CONJUGATE, {x, R, incx}, {y, R, incy}, {result, R});                          \
    }                                                                                                                                    \
    inline cublasStatus_t GER(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx, const T* y, int incy, T* a, int lda, \
                              WMMADIAG_CALLER) {                                                                                         \
        return wmmadiag::blas::ger(caller(__func__), h, CONJUGATE, m, n, {alpha, R}, {x, R, incx}, {y, R, incy}, {a, R, lda});           \
    }
WMMADIAG_BLAS_PRODUCTS(cublasSdot, cublasSger, float, CUDA_R_32F, false)
WMMADIAG_BLAS_PRODUCTS(cublasDdot, cublasDger, double, CUDA_R_64F, false)
WMMADIAG_BLAS_PRODUCTS(cublasCdotu, cublasCgeru, cuComplex, CUDA_C_32F, false)
WMMADIAG_BLAS_PRODUCTS(cublasCdotc, cublasCgerc, cuComplex, CUDA_C_32F, true)
WMMADIAG_BLAS_PRODUCTS(cublasZdotu, cublasZgeru, cuDoubleComplex, CUDA_C_64F, false)
WMMADIAG_BLAS_PRODUCTS(cublasZdotc, cublasZgerc, cuDoubleComplex, CUDA_C_64F, true)
#undef WMMADIAG_BLAS_PRODUCTS

// Letters of the name, element type, its cudaDataType, the type of the result.
#define WMMADIAG_BLAS_NORMS(L, T, R, TR, RR)                                                                            \
    inline cublasStatus_t cublas##L##nrm2(cublasHandle_t h, int n, const T* x, int incx, TR* result, WMMADIAG_CALLER) { \
        return wmmadiag::blas::nrm2(caller(__func__), h, n, {x, R, incx}, {result, RR});                                \
    }                                                                                                                   \
    inline cublasStatus_t cublas##L##asum(cublasHandle_t h, int n, const T* x, int incx, TR* result, WMMADIAG_CALLER) { \
        return wmmadiag::blas::asum(caller(__func__), h, n, {x, R, incx}, {result, RR});                                \
    }
WMMADIAG_BLAS_NORMS(S, float, CUDA_R_32F, float, CUDA_R_32F)
WMMADIAG_BLAS_NORMS(D, double, CUDA_R_64F, double, CUDA_R_64F)
WMMADIAG_BLAS_NORMS(Sc, cuComplex, CUDA_C_32F, float, CUDA_R_32F)
WMMADIAG_BLAS_NORMS(Dz, cuDoubleComplex, CUDA_C_64F, double, CUDA_R_64F)
#undef WMMADIAG_BLAS_NORMS

inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                                 const void* a, cudaDataType at, int lda, long long sa, const void* b, cudaDataType bt, int ldb,
                                                 long long sb, const void* beta, void* c, cudaDataType ct, int ldc, long long sc, int batch,
                                                 cublasComputeType_t compute, cublasGemmAlgo_t, WMMADIAG_CALLER) {
    const cudaDataType scale = wmmadiag::blas::scale_type(compute, ct);
    return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, scale}, {a, at, lda, sa}, {b, bt, ldb, sb}, {beta, scale},
                                {c, ct, ldc, sc}, batch);
}
inline cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                          const void* const a[], cudaDataType at, int lda, const void* const b[], cudaDataType bt, int ldb,
                                          const void* beta, void* const c[], cudaDataType ct, int ldc, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t, WMMADIAG_CALLER) {
    const cudaDataType scale = wmmadiag::blas::scale_type(compute, ct);
    return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, scale}, {a, at, lda, 0, true}, {b, bt, ldb, 0, true}, {beta, scale},
                                {c, ct, ldc, 0, true}, batch);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                   const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const void* beta, void* c,
                                   cudaDataType ct, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t, WMMADIAG_CALLER) {
    const cudaDataType scale = wmmadiag::blas::scale_type(compute, ct);
    return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, scale}, {a, at, lda}, {b, bt, ldb}, {beta, scale}, {c, ct, ldc}, 1);
}
inline cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float* alpha,
                                    const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const float* beta, void* c,
                                    cudaDataType ct, int ldc, WMMADIAG_CALLER) {
    return wmmadiag::blas::gemm(caller(__func__), h, ta, tb, m, n, k, {alpha, CUDA_R_32F}, {a, at, lda}, {b, bt, ldb}, {beta, CUDA_R_32F},
                                {c, ct, ldc}, 1);
}
// As before CUDA 11, with a data type for the compute type.
inline cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                   const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const void* beta, void* c,
                                   cudaDataType ct, int ldc, cudaDataType compute, cublasGemmAlgo_t algo, WMMADIAG_CALLER) {
    return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, wmmadiag::blas::compute_type(compute), algo, caller);
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                                 const void* a, cudaDataType at, int lda, long long sa, const void* b, cudaDataType bt, int ldb,
                                                 long long sb, const void* beta, void* c, cudaDataType ct, int ldc, long long sc, int batch,
                                                 cudaDataType compute, cublasGemmAlgo_t algo, WMMADIAG_CALLER) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc, batch,
                                      wmmadiag::blas::compute_type(compute), algo, caller);
}
// Groups of products, each with sizes and factors of its own; the arrays of pointers run over all groups.
inline cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t h, const cublasOperation_t ta[], const cublasOperation_t tb[], const int m[],
                                                 const int n[], const int k[], const void* alpha, const void* const a[], cudaDataType at,
                                                 const int lda[], const void* const b[], cudaDataType bt, const int ldb[], const void* beta,
                                                 void* const c[], cudaDataType ct, const int ldc[], int groups, const int sizes[],
                                                 cublasComputeType_t compute, WMMADIAG_CALLER) {
    const cudaDataType scale = wmmadiag::blas::scale_type(compute, ct);
    const size_t step = scale == CUDA_R_16F ? 2 : scale == CUDA_R_64F || scale == CUDA_C_32F ? 8 : scale == CUDA_C_64F ? 16 : 4;
    for (int g = 0, first = 0; g < groups; first += sizes[g++]) {
        const auto* factor = static_cast<const char*>(alpha) + static_cast<size_t>(g) * step;
        const auto* keep = static_cast<const char*>(beta) + static_cast<size_t>(g) * step;
        const auto status =
            wmmadiag::blas::gemm(caller(__func__), h, ta[g], tb[g], m[g], n[g], k[g], {factor, scale}, {a + first, at, lda[g], 0, true},
                                 {b + first, bt, ldb[g], 0, true}, {keep, scale}, {c + first, ct, ldc[g], 0, true}, sizes[g]);
        if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    return CUBLAS_STATUS_SUCCESS;
}
#define WMMADIAG_BLAS_GROUPED(L, T, R, COMPUTE)                                                                                                      \
    inline cublasStatus_t cublas##L##gemmGroupedBatched(cublasHandle_t h, const cublasOperation_t ta[], const cublasOperation_t tb[], const int m[], \
                                                        const int n[], const int k[], const T alpha[], const T* const a[], const int lda[],          \
                                                        const T* const b[], const int ldb[], const T beta[], T* const c[], const int ldc[],          \
                                                        int groups, const int sizes[], WMMADIAG_CALLER) {                                            \
        return cublasGemmGroupedBatchedEx(h, ta, tb, m, n, k, alpha, (const void* const*)a, R, lda, (const void* const*)b, R, ldb, beta,             \
                                          (void* const*)c, R, ldc, groups, sizes, COMPUTE, caller);                                                  \
    }
WMMADIAG_BLAS_GROUPED(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
WMMADIAG_BLAS_GROUPED(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
#undef WMMADIAG_BLAS_GROUPED
// Three real products in place of four: another way to the same numbers.
inline cublasStatus_t cublasCgemm3m(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const cuComplex* alpha,
                                    const cuComplex* a, int lda, const cuComplex* b, int ldb, const cuComplex* beta, cuComplex* c, int ldc,
                                    WMMADIAG_CALLER) {
    return cublasCgemm(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, caller);
}
inline cublasStatus_t cublasZgemm3m(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const cuDoubleComplex* alpha,
                                    const cuDoubleComplex* a, int lda, const cuDoubleComplex* b, int ldb, const cuDoubleComplex* beta,
                                    cuDoubleComplex* c, int ldc, WMMADIAG_CALLER) {
    return cublasZgemm(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, caller);
}
