// cuSPARSE: batches, kept structures, sorts, rotations and incomplete factors, against what defines them.
#include <cusparse.h>

#include <algorithm>
#include <cmath>
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
using Numbers = std::vector<double>;
static bool close(const Numbers& a, const Numbers& b) {
    for (size_t i = 0; i < b.size(); ++i)
        if (!(std::fabs(a[i] - b[i]) < 1e-9)) return false;
    return a.size() == b.size();
}

constexpr int N = 8;
constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
const double one = 1, two = 2, zero = 0;

// A square matrix that is sparse, symmetric and heavy on its diagonal; the same one dense, row by row.
struct Sparse {
    std::vector<int> offsets{0}, line, column;
    Numbers values, dense = Numbers(N * N);
    explicit Sparse(int seed, int base = 0) : offsets{base} {
        for (int i = 0; i < N; ++i) {
            for (int j = 0; j < N; ++j) {
                if (i != j && (i * j + i + j + seed) % 3 != 0) continue;
                dense[i * N + j] = i == j ? 20 + i + seed : 1 + (i * j + seed) % 4;
                line.push_back(i + base), column.push_back(j + base), values.push_back(dense[i * N + j]);
            }
            offsets.push_back(int(values.size()) + base);
        }
    }
    int nnz() const { return int(values.size()); }
};
static Numbers times(const Numbers& a, const Numbers& b, int columns) {
    Numbers out(N * columns);
    for (int i = 0; i < N; ++i)
        for (int k = 0; k < N; ++k)
            for (int j = 0; j < columns; ++j) out[i * columns + j] += a[i * N + k] * b[k * columns + j];
    return out;
}
static cusparseSpMatDescr_t csr(const Sparse& a, double* values, int* offsets, int* columns) {
    cusparseSpMatDescr_t out;
    OK(cusparseCreateCsr(&out, N, N, a.nnz(), offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                         CUDA_R_64F));
    return out;
}

int main() {
    cusparseHandle_t h;
    OK(cusparseCreate(&h));
    const Sparse a(0), b(1);
    size_t bytes = 0;
    {  // two matrices of one structure times two dense ones; and sampled products likewise
        Numbers both = a.values, dense(2 * N * 2);
        for (double v : a.values) both.push_back(-3 * v);
        for (size_t i = 0; i < dense.size(); ++i) dense[i] = i % 5 - 1.;
        auto* values = device(both);
        auto left = csr(a, values, device(a.offsets), device(a.column));
        OK(cusparseCsrSetStridedBatch(left, 2, 0, a.nnz()));
        cusparseDnMatDescr_t right, out;
        auto* sums = device(Numbers(2 * N * 2));
        OK(cusparseCreateDnMat(&right, N, 2, 2, device(dense), CUDA_R_64F, CUSPARSE_ORDER_ROW));
        OK(cusparseCreateDnMat(&out, N, 2, 2, sums, CUDA_R_64F, CUSPARSE_ORDER_ROW));
        OK(cusparseDnMatSetStridedBatch(right, 2, N * 2));
        OK(cusparseDnMatSetStridedBatch(out, 2, N * 2));
        // The structure is shared: only values differ, so its columns are there twice.
        auto twice = a.column;
        twice.insert(twice.end(), a.column.begin(), a.column.end());
        OK(cusparseCsrSetPointers(left, device(a.offsets), device(twice), values));
        OK(cusparseSpMM(h, plain, plain, &one, left, right, &zero, out, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, nullptr));
        auto expected = times(a.dense, Numbers(dense.begin(), dense.begin() + 2 * N), 2);
        for (double v : times(a.dense, Numbers(dense.begin() + 2 * N, dense.end()), 2)) expected.push_back(-3 * v);
        EXPECT(close(host(sums, 4 * N), expected));
        cusparseDnMatDescr_t wide, tall;
        Numbers x(2 * N), y(2 * N);
        for (int i = 0; i < 2 * N; ++i) x[i] = i + 1, y[i] = 2 - i;
        OK(cusparseCreateDnMat(&tall, N, 1, 1, device(x), CUDA_R_64F, CUSPARSE_ORDER_ROW));
        OK(cusparseCreateDnMat(&wide, 1, N, N, device(y), CUDA_R_64F, CUSPARSE_ORDER_ROW));
        OK(cusparseDnMatSetStridedBatch(tall, 2, N));
        OK(cusparseDnMatSetStridedBatch(wide, 2, N));
        OK(cusparseSDDMM(h, plain, plain, &one, tall, wide, &two, left, CUDA_R_64F, CUSPARSE_SDDMM_ALG_DEFAULT, nullptr));
        const auto sampled = host(values, 2 * a.nnz());
        for (int i = 0; i < a.nnz(); ++i) {
            EXPECT(sampled[i] == 2 * a.values[i] + x[a.line[i]] * y[a.column[i]]);
            EXPECT(sampled[a.nnz() + i] == -6 * a.values[i] + x[N + a.line[i]] * y[N + a.column[i]]);
        }
    }
    {  // a product whose structure is kept, and computed again with other values
        auto *left_values = device(a.values), *right_values = device(b.values);
        auto left = csr(a, left_values, device(a.offsets), device(a.column));
        auto right = csr(b, right_values, device(b.offsets), device(b.column));
        auto* offsets = device(std::vector<int>(N + 1));
        cusparseSpMatDescr_t c;
        OK(cusparseCreateCsr(&c, N, N, 0, offsets, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        cusparseSpGEMMDescr_t d;
        OK(cusparseSpGEMM_createDescr(&d));
        void* room = device(Numbers(9));
        OK(cusparseSpGEMMreuse_workEstimation(h, plain, plain, left, right, c, CUSPARSE_SPGEMM_DEFAULT, d, &bytes, nullptr));
        OK(cusparseSpGEMMreuse_nnz(h, plain, plain, left, right, c, CUSPARSE_SPGEMM_DEFAULT, d, &bytes, room, &bytes, room, &bytes, room));
        int64_t rows, cols, nnz;
        OK(cusparseSpMatGetSize(c, &rows, &cols, &nnz));
        auto* columns = device(std::vector<int>(nnz));
        auto* values = device(Numbers(nnz, 1));
        OK(cusparseCsrSetPointers(c, offsets, columns, values));
        OK(cusparseSpGEMMreuse_copy(h, plain, plain, left, right, c, CUSPARSE_SPGEMM_DEFAULT, d, &bytes, room));
        EXPECT(close(host(values, nnz), Numbers(nnz, 1)));
        OK(cusparseSpGEMMreuse_compute(h, plain, plain, &one, left, right, &zero, c, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, d));
        auto expected = times(a.dense, b.dense, N);
        const auto at = [&](const Numbers& from) {
            Numbers out(N * N);
            const auto first = host(offsets, N + 1), column = host(columns, nnz);
            for (int i = 0; i < N; ++i)
                for (int k = first[i]; k < first[i + 1]; ++k) out[i * N + column[k]] = from[k];
            return out;
        };
        EXPECT(close(at(host(values, nnz)), expected));
        Numbers doubled = a.values;
        for (double& v : doubled) v *= 2;
        cudaMemcpy(left_values, doubled.data(), doubled.size() * 8, cudaMemcpyHostToDevice);
        OK(cusparseSpGEMMreuse_compute(h, plain, plain, &one, left, right, &one, c, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, d));
        for (double& v : expected) v *= 3;
        EXPECT(close(at(host(values, nnz)), expected));
        int64_t count = 0, counted = 0;
        OK(cusparseSpGEMM_workEstimation(h, plain, plain, &one, left, right, &zero, c, CUDA_R_64F, CUSPARSE_SPGEMM_ALG3, d, &bytes, room));
        OK(cusparseSpGEMM_getNumProducts(d, &count));
        for (int column : a.column) counted += b.offsets[column + 1] - b.offsets[column];
        EXPECT(count == counted);
    }
    {  // sorts and a rotation
        auto line = a.line, column = a.column;
        std::reverse(line.begin(), line.end());
        std::rotate(line.begin(), line.begin() + 3, line.end());
        std::reverse(column.begin(), column.end());
        std::rotate(column.begin(), column.begin() + 3, column.end());
        auto *lines = device(line), *columns = device(column), *order = device(std::vector<int>(a.nnz()));
        OK(cusparseCreateIdentityPermutation(h, a.nnz(), order));
        OK(cusparseXcoosort_bufferSizeExt(h, N, N, a.nnz(), lines, columns, &bytes));
        OK(cusparseXcoosortByRow(h, N, N, a.nnz(), lines, columns, order, nullptr));
        EXPECT(host(lines, a.nnz()) == a.line && host(columns, a.nnz()) == a.column);
        const auto from = host(order, a.nnz());
        for (int i = 0; i < a.nnz(); ++i) EXPECT(line[from[i]] == a.line[i] && column[from[i]] == a.column[i]);
        OK(cusparseXcoosortByColumn(h, N, N, a.nnz(), lines, columns, nullptr, nullptr));
        EXPECT(host(columns, a.nnz()) == a.line && host(lines, a.nnz()) == a.column);  // of a symmetric structure
        auto mixed = a.column;
        for (int i = 0; i < N; ++i) std::reverse(mixed.begin() + a.offsets[i], mixed.begin() + a.offsets[i + 1]);
        auto* rows = device(mixed);
        cusparseMatDescr_t descr;
        OK(cusparseCreateMatDescr(&descr));
        OK(cusparseXcsrsort(h, N, N, a.nnz(), descr, device(a.offsets), rows, nullptr, nullptr));
        EXPECT(host(rows, a.nnz()) == a.column);
        cusparseSpVecDescr_t x;
        cusparseDnVecDescr_t y;
        auto *left = device(Numbers{1, 2}), *right = device(Numbers{10, 20, 30, 40});
        const double c = .6, s = .8;
        OK(cusparseCreateSpVec(&x, 4, 2, device(std::vector<int>{1, 3}), left, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
        OK(cusparseCreateDnVec(&y, 4, right, CUDA_R_64F));
        OK(cusparseRot(h, &c, &s, x, y));
        EXPECT(close(host(left, 2), {.6 + 16, 1.2 + 32}) && close(host(right, 4), {10, 12 - .8, 30, 24 - 1.6}));
    }
    for (int base = 0; base < 2; ++base) {  // incomplete factors give the matrix back at the places that it has
        const Sparse m(2, base);
        cusparseMatDescr_t descr;
        OK(cusparseCreateMatDescr(&descr));
        OK(cusparseSetMatIndexBase(descr, base == 0 ? CUSPARSE_INDEX_BASE_ZERO : CUSPARSE_INDEX_BASE_ONE));
        auto *offsets = device(m.offsets), *columns = device(m.column);
        for (const bool cholesky : {false, true}) {
            auto* values = device(m.values);
            int room = 0, position = 5;
            csrilu02Info_t info;
            OK(cusparseCreateCsrilu02Info(&info));
            const auto policy = CUSPARSE_SOLVE_POLICY_NO_LEVEL;
            if (cholesky) {
                OK(cusparseDcsric02_bufferSize(h, N, m.nnz(), descr, values, offsets, columns, info, &room));
                OK(cusparseDcsric02_analysis(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
                OK(cusparseDcsric02(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
                OK(cusparseXcsric02_zeroPivot(h, info, &position));
            } else {
                OK(cusparseDcsrilu02_bufferSize(h, N, m.nnz(), descr, values, offsets, columns, info, &room));
                OK(cusparseDcsrilu02_analysis(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
                OK(cusparseDcsrilu02(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
                OK(cusparseXcsrilu02_zeroPivot(h, info, &position));
            }
            EXPECT(position == -1);
            const auto found = host(values, m.nnz());
            Numbers lower(N * N), upper(N * N);
            for (int i = 0; i < m.nnz(); ++i) {
                const int row = m.line[i] - base, column = m.column[i] - base;
                if (cholesky && column <= row) lower[row * N + column] = upper[column * N + row] = found[i];
                if (!cholesky) (column < row ? lower : upper)[row * N + column] = found[i];
            }
            for (int i = 0; i < N && !cholesky; ++i) lower[i * N + i] = 1;
            const auto back = times(lower, upper, N);
            for (int i = 0; i < m.nnz(); ++i)
                if (!cholesky || m.column[i] <= m.line[i]) EXPECT(std::fabs(back[(m.line[i] - base) * N + m.column[i] - base] - m.values[i]) < 1e-9);
            auto broken = m.values;
            broken[0] = 0;  // the first pivot
            cudaMemcpy(values, broken.data(), broken.size() * 8, cudaMemcpyHostToDevice);
            if (cholesky) OK(cusparseDcsric02(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
            else OK(cusparseDcsrilu02(h, N, m.nnz(), descr, values, offsets, columns, info, policy, nullptr));
            EXPECT(cusparseXcsrilu02_zeroPivot(h, info, &position) == CUSPARSE_STATUS_ZERO_PIVOT && position == base);
        }
    }
    for (int base : {0, 1}) {  // blocked and sliced formats: 4 by 6, as a dense matrix and back
        const auto from = base == 0 ? CUSPARSE_INDEX_BASE_ZERO : CUSPARSE_INDEX_BASE_ONE;
        constexpr auto narrow = CUSPARSE_INDEX_32I;
        const Numbers full = {0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0, 7, 8, 9, 10, 0, 0, 11, 12};
        const Numbers ell = {1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 7, 8, 9, 10, 11, 12};
        const auto shifted = [&](std::vector<int> places) {
            for (auto& one : places) one += one >= 0 ? base : 0;
            return device(places);
        };
        cusparseSpMatDescr_t made[4];
        double* ell_values = device(ell);
        OK(cusparseCreateBlockedEll(&made[0], 4, 6, 2, 4, shifted({1, -1, 0, 2}), ell_values, narrow, from, CUDA_R_64F));
        OK(cusparseCreateSlicedEll(&made[1], 4, 6, 12, 12, 2, shifted({0, 4, 12}), shifted({2, 2, 3, 3, 0, 0, 1, 1, 4, 4, 5, 5}),
                                   device(Numbers{1, 3, 2, 4, 5, 9, 6, 10, 7, 11, 8, 12}), narrow, narrow, from, CUDA_R_64F));
        OK(cusparseCreateBsr(&made[2], 2, 3, 3, 2, 2, shifted({0, 1, 3}), shifted({1, 0, 2}), device(Numbers{1, 2, 3, 4, 5, 6, 9, 10, 7, 8, 11, 12}),
                             narrow, narrow, from, CUDA_R_64F, CUSPARSE_ORDER_ROW));
        OK(cusparseCreateBsr(&made[3], 2, 3, 3, 2, 2, shifted({0, 1, 3}), shifted({1, 0, 2}), device(Numbers{1, 3, 2, 4, 5, 9, 6, 10, 7, 11, 8, 12}),
                             narrow, narrow, from, CUDA_R_64F, CUSPARSE_ORDER_COL));
        cusparseDnMatDescr_t dense;
        double* out = device(Numbers(24));
        OK(cusparseCreateDnMat(&dense, 4, 6, 6, out, CUDA_R_64F, CUSPARSE_ORDER_ROW));
        for (const auto one : made) {
            OK(cusparseSparseToDense(h, one, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, nullptr));
            EXPECT(host(out, 24) == full);
            cudaMemset(out, 0, 24 * sizeof(double));
        }
        cudaMemcpy(out, full.data(), 24 * sizeof(double), cudaMemcpyHostToDevice);
        cudaMemset(ell_values, 0, 16 * sizeof(double));
        OK(cusparseDenseToSparse_analysis(h, dense, made[0], CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, nullptr));
        OK(cusparseDenseToSparse_convert(h, dense, made[0], CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, nullptr));
        EXPECT(host(ell_values, 16) == ell);
        if (base == 0)
            EXPECT(cusparseDenseToSparse_analysis(h, dense, made[1], CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, nullptr) == CUSPARSE_STATUS_NOT_SUPPORTED);
    }
    OK(cusparseDestroy(h));
    std::puts(wrong == 0 ? "all as expected" : "not all as expected");
    return wrong != 0;
}
