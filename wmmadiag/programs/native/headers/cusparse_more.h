// cuSPARSE: batches, products whose structure is kept, sorts of indices, rotations, and incomplete factors of CSR matrices.
#pragma once

#include "cusparse.h"

enum cusparseSolvePolicy_t { CUSPARSE_SOLVE_POLICY_NO_LEVEL = 0, CUSPARSE_SOLVE_POLICY_USE_LEVEL = 1 };

struct wmmadiagIncompleteFactors;
using csrilu02Info_t = wmmadiagIncompleteFactors*;
using csric02Info_t = wmmadiagIncompleteFactors*;

// Batches, of SpMM and SDDMM: elements from one matrix to the next, 0 where all have the same.
cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t mat, int count, int64_t next);
cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t mat, int* count, int64_t* next);
cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t mat, int count, int64_t next_offsets, int64_t next);
cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t mat, int count, int64_t next);
cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t mat, int* count);

// (x, y) at the places of x become (c x + s y, c y - s x).
cusparseStatus_t cusparseRot(cusparseHandle_t handle, const void* c, const void* s, cusparseSpVecDescr_t x, cusparseDnVecDescr_t y, WMMADIAG_CALLER);

cusparseStatus_t cusparseSpGEMM_getNumProducts(cusparseSpGEMMDescr_t descr, int64_t* count);
cusparseStatus_t cusparseSpGEMM_estimateMemory(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                                               cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                                               cudaDataType compute, cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t descr, float chunk,
                                               size_t* bytes, void* buffer, size_t* bytes_of_compute);
cusparseStatus_t cusparseSpGEMMreuse_workEstimation(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b,
                                                    cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c,
                                                    cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t descr, size_t* bytes, void* buffer);
cusparseStatus_t cusparseSpGEMMreuse_nnz(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, cusparseConstSpMatDescr_t a,
                                         cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t algorithm,
                                         cusparseSpGEMMDescr_t descr, size_t* bytes2, void* buffer2, size_t* bytes3, void* buffer3, size_t* bytes4,
                                         void* buffer4, WMMADIAG_CALLER);
cusparseStatus_t cusparseSpGEMMreuse_copy(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, cusparseConstSpMatDescr_t a,
                                          cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c, cusparseSpGEMMAlg_t algorithm,
                                          cusparseSpGEMMDescr_t descr, size_t* bytes, void* buffer, WMMADIAG_CALLER);
cusparseStatus_t cusparseSpGEMMreuse_compute(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b, const void* alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                                             cudaDataType compute, cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t descr, WMMADIAG_CALLER);

// Sorts; `permutation` is sorted along, where there is one.
cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n, int* permutation, WMMADIAG_CALLER);
cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t handle, int rows, int cols, int nnz, const int* row, const int* column,
                                                size_t* bytes);
cusparseStatus_t cusparseXcoosortByRow(cusparseHandle_t handle, int rows, int cols, int nnz, int* row, int* column, int* permutation, void* buffer,
                                       WMMADIAG_CALLER);
cusparseStatus_t cusparseXcoosortByColumn(cusparseHandle_t handle, int rows, int cols, int nnz, int* row, int* column, int* permutation, void* buffer,
                                          WMMADIAG_CALLER);
cusparseStatus_t cusparseXcsrsort_bufferSizeExt(cusparseHandle_t handle, int rows, int cols, int nnz, const int* offsets, const int* column,
                                                size_t* bytes);
cusparseStatus_t cusparseXcsrsort(cusparseHandle_t handle, int rows, int cols, int nnz, const cusparseMatDescr* descr, const int* offsets,
                                  int* column, int* permutation, void* buffer, WMMADIAG_CALLER);

// A ≈ L U, or L Lᴴ of the lower triangle, at the places that A has, in A's values; the position of a pivot that is 0.
cusparseStatus_t cusparseCreateCsrilu02Info(csrilu02Info_t* info);
cusparseStatus_t cusparseDestroyCsrilu02Info(csrilu02Info_t info);
cusparseStatus_t cusparseXcsrilu02_zeroPivot(cusparseHandle_t handle, csrilu02Info_t info, int* position, WMMADIAG_CALLER);
cusparseStatus_t cusparseCreateCsric02Info(csric02Info_t* info);
cusparseStatus_t cusparseDestroyCsric02Info(csric02Info_t info);
cusparseStatus_t cusparseXcsric02_zeroPivot(cusparseHandle_t handle, csric02Info_t info, int* position, WMMADIAG_CALLER);

namespace wmmadiag::sparse {
enum class Factored { lu, cholesky };
struct CsrMatrix {
    int rows, nnz;
    const cusparseMatDescr* descr;
    const void* values;
    const int *offsets, *columns;
    cudaDataType type;
};
cusparseStatus_t incomplete_room(cusparseHandle_t handle, CsrMatrix a, wmmadiagIncompleteFactors* info, int* bytes);
cusparseStatus_t analysed(Caller caller, cusparseHandle_t handle, CsrMatrix a, wmmadiagIncompleteFactors* info);
cusparseStatus_t incomplete(Caller caller, cusparseHandle_t handle, Factored kind, CsrMatrix a, wmmadiagIncompleteFactors* info);
}  // namespace wmmadiag::sparse

#define WMMADIAG_INCOMPLETE(L, T, V, name, info_t, kind)                                                                                         \
    inline cusparseStatus_t cusparse##L##name##_bufferSize(cusparseHandle_t h, int m, int nnz, const cusparseMatDescr* descr, T* values,         \
                                                           const int* offsets, const int* columns, info_t info, int* bytes) {                    \
        return wmmadiag::sparse::incomplete_room(h, {m, nnz, descr, values, offsets, columns, V}, info, bytes);                                  \
    }                                                                                                                                            \
    inline cusparseStatus_t cusparse##L##name##_analysis(cusparseHandle_t h, int m, int nnz, const cusparseMatDescr* descr, const T* values,     \
                                                         const int* offsets, const int* columns, info_t info, cusparseSolvePolicy_t, void*,      \
                                                         WMMADIAG_CALLER) {                                                                      \
        return wmmadiag::sparse::analysed(caller(__func__), h, {m, nnz, descr, values, offsets, columns, V}, info);                              \
    }                                                                                                                                            \
    inline cusparseStatus_t cusparse##L##name(cusparseHandle_t h, int m, int nnz, const cusparseMatDescr* descr, T* values, const int* offsets,  \
                                              const int* columns, info_t info, cusparseSolvePolicy_t, void*, WMMADIAG_CALLER) {                  \
        return wmmadiag::sparse::incomplete(caller(__func__), h, wmmadiag::sparse::Factored::kind, {m, nnz, descr, values, offsets, columns, V}, \
                                            info);                                                                                               \
    }
WMMADIAG_INCOMPLETE(S, float, CUDA_R_32F, csrilu02, csrilu02Info_t, lu)
WMMADIAG_INCOMPLETE(D, double, CUDA_R_64F, csrilu02, csrilu02Info_t, lu)
WMMADIAG_INCOMPLETE(C, cuComplex, CUDA_C_32F, csrilu02, csrilu02Info_t, lu)
WMMADIAG_INCOMPLETE(Z, cuDoubleComplex, CUDA_C_64F, csrilu02, csrilu02Info_t, lu)
WMMADIAG_INCOMPLETE(S, float, CUDA_R_32F, csric02, csric02Info_t, cholesky)
WMMADIAG_INCOMPLETE(D, double, CUDA_R_64F, csric02, csric02Info_t, cholesky)
WMMADIAG_INCOMPLETE(C, cuComplex, CUDA_C_32F, csric02, csric02Info_t, cholesky)
WMMADIAG_INCOMPLETE(Z, cuDoubleComplex, CUDA_C_64F, csric02, csric02Info_t, cholesky)
#undef WMMADIAG_INCOMPLETE
