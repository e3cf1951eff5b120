// cuSOLVER's eigenvalues and singular values: all or some of them, of one matrix or of a batch.
#include "cusolverDn.h"
#include "solver_calls.hpp"

namespace wmmadiag::solver {

namespace {

/// [begin, end) of rising values that are wanted; the host is told how many.
std::pair<size_t, size_t> chosen(const Range& range, const std::vector<double>& values) {
    size_t begin = 0, end = values.size();
    if (range.kind == CUSOLVER_EIG_RANGE_I) {
        begin = static_cast<size_t>(range.first - 1);
        end = static_cast<size_t>(range.last);
    } else if (range.kind == CUSOLVER_EIG_RANGE_V) {
        begin = static_cast<size_t>(std::upper_bound(values.begin(), values.end(), range.low) - values.begin());
        end = std::max(begin, static_cast<size_t>(std::upper_bound(values.begin(), values.end(), range.high) - values.begin()));
    }
    if (range.found != nullptr) *range.found = static_cast<int>(end - begin);
    if (range.found_wide != nullptr) *range.found_wide = static_cast<int64_t>(end - begin);
    return {begin, end};
}

void checked(const Call& call, const Range& range, int64_t n) {
    if (range.kind == CUSOLVER_EIG_RANGE_I && n > 0 && (range.first < 1 || range.last > n || range.first > range.last))
        wrong(call, "il and iu are " + std::to_string(range.first) + " and " + std::to_string(range.last) + " of " + std::to_string(n));
    if (range.kind == CUSOLVER_EIG_RANGE_V && !(range.low < range.high)) wrong(call, "vl is not less than vu");
}

template <class S>
void put_spectrum(const Call& call, cusolverEigMode_t mode, const Operand& a, const void* w, const Range& range, const std::vector<double>& values,
                  const std::vector<S>& vectors) {
    const auto [begin, end] = chosen(range, values);
    put_real(call, w, a.type, {values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end)});
    if (mode != CUSOLVER_EIG_MODE_VECTOR) return;
    const auto n = static_cast<std::ptrdiff_t>(a.rows);
    const auto from = vectors.begin() + static_cast<std::ptrdiff_t>(begin) * n;
    put<S>(call.name, lines(columns(a, static_cast<int64_t>(end - begin))), {from, from + static_cast<std::ptrdiff_t>(end - begin) * n});
}

void tell(syevjInfo* told, const Sweeps& sweeps) {
    if (told != nullptr) *told = {sweeps.count, sweeps.residual};
}

template <class S>
std::vector<S> flipped(const std::vector<S>& from, size_t rows, size_t cols) {
    std::vector<S> out(from.size());
    for (size_t j = 0; j < cols; ++j)
        for (size_t i = 0; i < rows; ++i) out[i * cols + j] = conjugate(from[j * rows + i]);
    return out;
}

struct Factors {  // where U Σ Vᴴ of a matrix go
    Operand a, u, v;
    const void* s;
    Vectors left, right;
    bool adjoint;  // whether V is wanted as Vᴴ
};

template <class S>
double gesvd_one(const Call& call, const Factors& to, int64_t most, Sweeps& sweeps) {
    const Operand& a = to.a;
    const bool falls = a.rows < a.cols;
    const auto m = static_cast<size_t>(a.rows), n = static_cast<size_t>(a.cols), all_values = std::min(m, n);
    const size_t least = std::min(all_values, static_cast<size_t>(most));
    auto all = fetch<S>(call.name, lines(a));
    std::vector<S> other;
    if (falls) all = flipped(all, m, n);
    auto values = singular(all, std::max(m, n), all_values, std::max(m, n), other, sweeps);
    if (falls) std::swap(all, other);  // A = (V Σ Uᴴ)ᴴ
    double left_out = 0;
    for (size_t k = least; k < values.size(); ++k) left_out += values[k] * values[k];
    values.resize(least);
    put_real(call, to.s, a.type, values);
    const auto keep = [&](Vectors kept, const std::vector<S>& vectors, size_t order, const Operand& given, bool turned) {
        if (kept == Vectors::none) return;
        const size_t count = kept == Vectors::square ? order : least;
        std::vector<S> some(vectors.begin(), vectors.begin() + static_cast<std::ptrdiff_t>(order * count));
        if (turned) some = flipped(some, order, count);
        const Operand& place = kept == Vectors::in_place ? a : given;
        put<S>(call.name, {place.data, place.type, turned ? count : order, turned ? order : count, static_cast<size_t>(place.ld)}, some);
    };
    keep(to.left, all, m, to.u, false);
    keep(to.right, other, n, to.v, to.adjoint);
    return std::sqrt(left_out);
}

}  // namespace

cusolverStatus_t syevd(Caller caller, cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill, Operand a, void* w, Room work,
                       int* info, Range range, Batch batch, syevjInfo* told) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        checked(call, range, a.rows);
        if (batch.count < 0) wrong(call, "the batch has a size less than 0");
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            for (int64_t i = 0; i < batch.count; ++i) {
                const Operand one = behind(a, i * batch.a);
                auto vectors = whole<decltype(zero)>(call, one, fill);
                Sweeps sweeps;
                const auto values = eigenvalues(vectors, static_cast<size_t>(a.rows), sweeps);
                put_spectrum(call, mode, one, behind(w, real_of(a.type), i * batch.s), range, values, vectors);
                tell(call, info == nullptr ? nullptr : info + i, 0);
                tell(told, sweeps);
            }
        });
    });
}
// A x = λ B x by B = L Lᴴ: eigenvalues of L⁻¹ A L⁻ᴴ, and x = L⁻ᴴ y.
cusolverStatus_t sygvd(Caller caller, cusolverDnHandle_t handle, cusolverEigType_t type, cusolverEigMode_t mode, cublasFillMode_t fill, Operand a,
                       Operand b, void* w, Room work, int* info, Range range, syevjInfo* told) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        using S = decltype(zero);
        checked(call, range, a.rows);
        checked(call, b, "B");
        if (type != CUSOLVER_EIG_TYPE_1) not_offered(call, "cusolverEigType_t " + std::to_string(type));
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            const auto n = static_cast<size_t>(a.rows);
            auto l = whole<S>(call, b, fill);
            const int minor = rooted(l, n);
            put_triangle(call, b, fill, l);
            if (minor != 0) return tell(call, info, static_cast<int>(n) + minor);
            auto all = whole<S>(call, a, fill);
            for (int side = 0; side < 2; ++side) {  // L⁻¹ A, and that of its adjoint
                for (size_t j = 0; j < n; ++j) substituted(l, n, false, all.data() + j * n);
                for (size_t j = 0; j < n; ++j)
                    for (size_t i = 0; i <= j; ++i) {
                        const S up = conjugate(all[j * n + i]), down = conjugate(all[i * n + j]);
                        all[i * n + j] = up;
                        all[j * n + i] = down;
                    }
            }
            Sweeps sweeps;
            const auto values = eigenvalues(all, n, sweeps);
            for (size_t j = 0; j < n; ++j) substituted(l, n, true, all.data() + j * n);
            put_spectrum(call, mode, a, w, range, values, all);
            tell(call, info, 0);
            tell(told, sweeps);
        });
    });
}

cusolverStatus_t gesvd(Caller caller, cusolverDnHandle_t handle, Vectors left, Vectors right, Operand a, void* s, Operand u, Operand v, bool adjoint,
                       Room work, int* info, Batch batch, Kept kept) {
    return guarded(caller, handle, a, [&](const Call& call, auto zero) {
        if (a.rows < a.cols && adjoint) wrong(call, "m is less than n");  // as the chip's library has it; the one by Jacobi's rotations takes both
        if (left == Vectors::in_place && right == Vectors::in_place) wrong(call, "jobu and jobvt are both 'O'");
        if (left == Vectors::square || left == Vectors::thin)
            checked(call, columns(u, left == Vectors::square ? a.rows : std::min(a.rows, a.cols)), "U");
        if (batch.count < 0 || kept.most < 0) wrong(call, "the batch or the rank has a size less than 0");
        call.submit([=] {
            use(call, work, room_for(a.rows, a.cols));
            for (int64_t i = 0; i < batch.count; ++i) {
                const auto* values = behind(s, real_of(a.type), i * batch.s);
                Sweeps sweeps;
                const Factors to{behind(a, i * batch.a), behind(u, i * batch.u), behind(v, i * batch.v), values, left, right, adjoint};
                const double left_out = gesvd_one<decltype(zero)>(call, to, kept.most, sweeps);
                if (kept.residuals != nullptr) kept.residuals[i] = left_out;
                tell(call, info == nullptr ? nullptr : info + i, 0);
                tell(kept.told, sweeps);
            }
        });
    });
}

}  // namespace wmmadiag::solver
