// cuSPARSE against plain loops over dense matrices: every format and operation that is offered.
#include <cusparse.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

static int wrong;
static void expect(bool right, const char* what, int line) {
    if (!right) std::printf("line %d: %s\n", line, what), ++wrong;
}
#define EXPECT(what) expect(what, #what, __LINE__)
#define OK(call) EXPECT((call) == CUSPARSE_STATUS_SUCCESS)

template <class T>
T* device(const std::vector<T>& host) {
    T* out;
    cudaMalloc(&out, (host.size() + 1) * sizeof(T));
    cudaMemcpy(out, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return out;
}
template <class T>
std::vector<T> host(const T* from, size_t n) {
    std::vector<T> out(n);
    cudaMemcpy(out.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
}
template <class T>
bool close(const std::vector<T>& a, const std::vector<T>& b) {
    for (size_t i = 0; i < b.size(); ++i)
        if (!(std::abs(a[i] - b[i]) < 1e-5)) return false;
    return a.size() == b.size();
}

constexpr int M = 7, N = 5, K = 3;
constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE, turned = CUSPARSE_OPERATION_TRANSPOSE;

// A sparse matrix, and the same one dense, row by row.
struct Sparse {
    int rows, cols;
    std::vector<double> dense;
    std::vector<int> offsets, line, column;
    std::vector<double> values;
    Sparse(int r, int c, int seed, bool square_lower = false) : rows(r), cols(c), dense(r * c), offsets(1, 0) {
        for (int i = 0; i < r; ++i) {
            for (int j = 0; j < c; ++j) {
                if ((i * 5 + j * 3 + seed) % 4 > 1 && i != j) continue;
                if (square_lower && j > i) continue;
                dense[i * c + j] = 1 + (i * 7 + j * 11 + seed) % 9;
                line.push_back(i), column.push_back(j), values.push_back(dense[i * c + j]);
            }
            offsets.push_back(int(values.size()));
        }
    }
    double at(int i, int j) const { return dense[i * cols + j]; }
    int nnz() const { return int(values.size()); }
};

static std::vector<double> product(const Sparse& a, const std::vector<double>& x, bool t) {
    std::vector<double> y(t ? a.cols : a.rows);
    for (int i = 0; i < a.rows; ++i)
        for (int j = 0; j < a.cols; ++j) y[t ? j : i] += a.at(i, j) * x[t ? i : j];
    return y;
}

int main() {
    cusparseHandle_t h;
    OK(cusparseCreate(&h));
    const Sparse a(M, N, 1);
    const double one = 1, two = 2, none = 0;
    std::vector<int64_t> wide(a.offsets.begin(), a.offsets.end());
    std::vector<int> shifted = a.column, line = a.line;
    for (auto& c : shifted) ++c;
    for (auto& o : wide) ++o;
    cusparseSpMatDescr_t csr, coo, csc, based;
    OK(cusparseCreateCsr(&csr, M, N, a.nnz(), device(a.offsets), device(a.column), device(a.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    OK(cusparseCreateCsr(&based, M, N, a.nnz(), device(wide), device(shifted), device(a.values), CUSPARSE_INDEX_64I, CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_BASE_ONE, CUDA_R_64F));
    OK(cusparseCreateCoo(&coo, M, N, a.nnz(), device(line), device(a.column), device(a.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                         CUDA_R_64F));
    // By columns, as the conversion has it.
    int *rows_of, *starts;
    double* held;
    cudaMalloc(&rows_of, a.nnz() * 4), cudaMalloc(&starts, (N + 1) * 4), cudaMalloc(&held, a.nnz() * 8);
    size_t bytes = 0;
    OK(cusparseCsr2cscEx2_bufferSize(h, M, N, a.nnz(), device(a.values), device(a.offsets), device(a.column), held, starts, rows_of, CUDA_R_64F,
                                     CUSPARSE_ACTION_NUMERIC, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG1, &bytes));
    void* buffer;
    cudaMalloc(&buffer, bytes);
    OK(cusparseCsr2cscEx2(h, M, N, a.nnz(), device(a.values), device(a.offsets), device(a.column), held, starts, rows_of, CUDA_R_64F,
                          CUSPARSE_ACTION_NUMERIC, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG1, buffer));
    OK(cusparseCreateCsc(&csc, M, N, a.nnz(), starts, rows_of, held, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));

    std::vector<double> xn = {1, -2, 3, 4, -5}, xm = {1, 2, 3, -4, 5, 6, -7}, ym(M, 0.5), yn(N, 0.5);
    for (auto mat : {csr, based, coo, csc})
        for (const bool t : {false, true}) {
            const auto &x = t ? xm : xn, &y = t ? yn : ym;
            auto* out = device(y);
            cusparseDnVecDescr_t vx, vy;
            OK(cusparseCreateDnVec(&vx, x.size(), device(x), CUDA_R_64F));
            OK(cusparseCreateDnVec(&vy, y.size(), out, CUDA_R_64F));
            OK(cusparseSpMV_bufferSize(h, t ? turned : plain, &two, mat, vx, &one, vy, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
            OK(cusparseSpMV(h, t ? turned : plain, &two, mat, vx, &one, vy, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
            auto want = product(a, x, t);
            for (size_t i = 0; i < want.size(); ++i) want[i] = 2 * want[i] + y[i];
            EXPECT(close(host(out, y.size()), want));
        }

    // Scalars of the device, floats, beta = 0 over memory that nothing has written, and a product with a matrix in both orders.
    for (const auto order : {CUSPARSE_ORDER_COL, CUSPARSE_ORDER_ROW}) {
        std::vector<float> b(N * K), values(a.values.begin(), a.values.end());
        for (int i = 0; i < N * K; ++i) b[i] = float(i % 5) - 2;
        float* c;
        cudaMalloc(&c, M * K * sizeof(float));
        const bool by_rows = order == CUSPARSE_ORDER_ROW;
        cusparseSpMatDescr_t mat;
        cusparseDnMatDescr_t db, dc;
        OK(cusparseCreateCsr(&mat, M, N, a.nnz(), device(a.offsets), device(a.column), device(values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
        OK(cusparseCreateDnMat(&db, N, K, by_rows ? K : N, device(b), CUDA_R_32F, order));
        OK(cusparseCreateDnMat(&dc, M, K, by_rows ? K : M, c, CUDA_R_32F, order));
        OK(cusparseSetPointerMode(h, CUSPARSE_POINTER_MODE_DEVICE));
        OK(cusparseSpMM(h, plain, plain, device(std::vector<float>{1}), mat, db, device(std::vector<float>{0}), dc, CUDA_R_32F,
                        CUSPARSE_SPMM_ALG_DEFAULT, buffer));
        OK(cusparseSetPointerMode(h, CUSPARSE_POINTER_MODE_HOST));
        std::vector<float> want(M * K);
        for (int i = 0; i < M; ++i)
            for (int k = 0; k < K; ++k)
                for (int j = 0; j < N; ++j) want[by_rows ? i * K + k : k * M + i] += float(a.at(i, j)) * b[by_rows ? j * K + k : k * N + j];
        EXPECT(close(host(c, M * K), want));
        // Dense ones at the places of a sparse one: A ∘ (L R).
        std::vector<float> left(M * K, 1.5f), right(K * N, 2);
        cusparseDnMatDescr_t dl, dr;
        OK(cusparseCreateDnMat(&dl, M, K, by_rows ? K : M, device(left), CUDA_R_32F, order));
        OK(cusparseCreateDnMat(&dr, K, N, by_rows ? N : K, device(right), CUDA_R_32F, order));
        const float f1 = 1, f0 = 0;
        OK(cusparseSDDMM(h, plain, plain, &f1, dl, dr, &f0, mat, CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, buffer));
        void* now;
        OK(cusparseSpMatGetValues(mat, &now));
        EXPECT(close(host(static_cast<float*>(now), a.nnz()), std::vector<float>(a.nnz(), 9)));
    }

    // A product of sparse matrices, whose size is known once it is computed.
    const Sparse b(N, M, 2);
    cusparseSpMatDescr_t mb, mc;
    int* found_offsets;
    cudaMalloc(&found_offsets, (M + 1) * 4);
    OK(cusparseCreateCsr(&mb, N, M, b.nnz(), device(b.offsets), device(b.column), device(b.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    OK(cusparseCreateCsr(&mc, M, M, 0, found_offsets, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                         CUDA_R_64F));
    cusparseSpGEMMDescr_t how;
    OK(cusparseSpGEMM_createDescr(&how));
    OK(cusparseSpGEMM_workEstimation(h, plain, plain, &two, csr, mb, &none, mc, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, how, &bytes, nullptr));
    OK(cusparseSpGEMM_workEstimation(h, plain, plain, &two, csr, mb, &none, mc, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, how, &bytes, buffer));
    OK(cusparseSpGEMM_compute(h, plain, plain, &two, csr, mb, &none, mc, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, how, &bytes, nullptr));
    OK(cusparseSpGEMM_compute(h, plain, plain, &two, csr, mb, &none, mc, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, how, &bytes, buffer));
    int64_t rows, cols, count;
    OK(cusparseSpMatGetSize(mc, &rows, &cols, &count));
    int* found_columns;
    double* found;
    cudaMalloc(&found_columns, count * 4), cudaMalloc(&found, count * 8);
    OK(cusparseCsrSetPointers(mc, found_offsets, found_columns, found));
    OK(cusparseSpGEMM_copy(h, plain, plain, &two, csr, mb, &none, mc, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, how));
    std::vector<double> want(M * M), got(M * M);
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < M; ++j)
            for (int k = 0; k < N; ++k) want[i * M + j] += 2 * a.at(i, k) * b.at(k, j);
    cusparseDnMatDescr_t full;
    auto* filled = device(got);
    OK(cusparseCreateDnMat(&full, M, M, M, filled, CUDA_R_64F, CUSPARSE_ORDER_ROW));
    OK(cusparseSparseToDense(h, mc, full, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, buffer));
    EXPECT(close(host(filled, M * M), want));
    // And back.
    cusparseSpMatDescr_t again;
    int *at_offsets, *at_columns;
    double* at_values;
    cudaMalloc(&at_offsets, (M + 1) * 4);
    OK(cusparseCreateCsr(&again, M, M, 0, at_offsets, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                         CUDA_R_64F));
    OK(cusparseDenseToSparse_analysis(h, full, again, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer));
    OK(cusparseSpMatGetSize(again, &rows, &cols, &count));
    cudaMalloc(&at_columns, count * 4), cudaMalloc(&at_values, count * 8);
    OK(cusparseCsrSetPointers(again, at_offsets, at_columns, at_values));
    OK(cusparseDenseToSparse_convert(h, full, again, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, buffer));
    EXPECT(host(at_columns, count) == host(found_columns, count) && host(at_offsets, M + 1) == host(found_offsets, M + 1));

    // Triangles: L x = 2 b, and with the transposed one.
    const Sparse l(N, N, 3, true);
    cusparseSpMatDescr_t ml;
    OK(cusparseCreateCsr(&ml, N, N, l.nnz(), device(l.offsets), device(l.column), device(l.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    const auto lower = CUSPARSE_FILL_MODE_LOWER;
    const auto diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
    OK(cusparseSpMatSetAttribute(ml, CUSPARSE_SPMAT_FILL_MODE, &lower, sizeof lower));
    OK(cusparseSpMatSetAttribute(ml, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
    for (const bool t : {false, true}) {
        double *x, *xs;
        cudaMalloc(&x, N * 8), cudaMalloc(&xs, N * 2 * 8);
        cusparseDnVecDescr_t vb, vx;
        cusparseSpSVDescr_t sv;
        OK(cusparseCreateDnVec(&vb, N, device(xn), CUDA_R_64F));
        OK(cusparseCreateDnVec(&vx, N, x, CUDA_R_64F));
        OK(cusparseSpSV_createDescr(&sv));
        OK(cusparseSpSV_bufferSize(h, t ? turned : plain, &two, ml, vb, vx, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, sv, &bytes));
        OK(cusparseSpSV_analysis(h, t ? turned : plain, &two, ml, vb, vx, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, sv, buffer));
        OK(cusparseSpSV_solve(h, t ? turned : plain, &two, ml, vb, vx, CUDA_R_64F, CUSPARSE_SPSV_ALG_DEFAULT, sv));
        auto twice = xn;
        for (auto& v : twice) v *= 2;
        EXPECT(close(product(l, host(x, N), t), twice));
        std::vector<double> both = xn;
        both.insert(both.end(), xn.begin(), xn.end());
        cusparseDnMatDescr_t db, dx;
        cusparseSpSMDescr_t sm;
        OK(cusparseCreateDnMat(&db, N, 2, N, device(both), CUDA_R_64F, CUSPARSE_ORDER_COL));
        OK(cusparseCreateDnMat(&dx, N, 2, N, xs, CUDA_R_64F, CUSPARSE_ORDER_COL));
        OK(cusparseSpSM_createDescr(&sm));
        OK(cusparseSpSM_analysis(h, t ? turned : plain, plain, &two, ml, db, dx, CUDA_R_64F, CUSPARSE_SPSM_ALG_DEFAULT, sm, buffer));
        OK(cusparseSpSM_solve(h, t ? turned : plain, plain, &two, ml, db, dx, CUDA_R_64F, CUSPARSE_SPSM_ALG_DEFAULT, sm));
        EXPECT(close(product(l, host(xs + N, N), t), twice));
    }

    // Sparse vectors, and rows and their offsets.
    std::vector<int> picked = {1, 3};
    std::vector<double> some = {10, 20};
    auto *dense = device(xn), *taken = device(some);
    cusparseSpVecDescr_t sparse;
    cusparseDnVecDescr_t all;
    OK(cusparseCreateSpVec(&sparse, N, 2, device(picked), taken, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    OK(cusparseCreateDnVec(&all, N, dense, CUDA_R_64F));
    double sum = 0;
    OK(cusparseSpVV(h, plain, sparse, all, &sum, CUDA_R_64F, buffer));
    EXPECT(sum == 10 * -2 + 20 * 4);
    OK(cusparseAxpby(h, &two, sparse, &one, all));
    EXPECT(close(host(dense, N), std::vector<double>{1, 18, 3, 44, -5}));
    OK(cusparseGather(h, all, sparse));
    EXPECT(close(host(taken, 2), std::vector<double>{18, 44}));
    cudaMemcpy(taken, some.data(), 16, cudaMemcpyHostToDevice);
    OK(cusparseScatter(h, sparse, all));
    EXPECT(close(host(dense, N), std::vector<double>{1, 10, 3, 20, -5}));
    int *offsets, *lines;
    cudaMalloc(&offsets, (M + 1) * 4), cudaMalloc(&lines, a.nnz() * 4);
    OK(cusparseXcoo2csr(h, device(a.line), a.nnz(), M, offsets, CUSPARSE_INDEX_BASE_ZERO));
    OK(cusparseXcsr2coo(h, offsets, a.nnz(), M, lines, CUSPARSE_INDEX_BASE_ZERO));
    EXPECT(host(offsets, M + 1) == a.offsets && host(lines, a.nnz()) == a.line);

    // What does not fit is refused.
    cusparseDnVecDescr_t shorter;
    OK(cusparseCreateDnVec(&shorter, N - 1, dense, CUDA_R_64F));
    EXPECT(cusparseSpMV(h, plain, &one, csr, shorter, &none, all, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, buffer) == CUSPARSE_STATUS_INVALID_VALUE);
    OK(cusparseDestroy(h));
    std::puts(wrong == 0 ? "all as expected" : "not all as expected");
    return wrong != 0;
}
