// The names of warp matrix functions for host code, where they stand in signatures of device functions only.
#pragma once
namespace nvcuda::wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
struct u4 {};
struct s4 {};
struct b1 {};
}  // namespace precision
namespace experimental::precision {
using wmma::precision::b1;
using wmma::precision::s4;
using wmma::precision::u4;
}  // namespace experimental::precision
template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    static constexpr int num_elements = 1;
    static constexpr int num_storage_elements = 1;
    using element_type = T;
    T x[1];
};
template <class Fragment, class T>
void fill_fragment(Fragment&, const T&);
template <class Fragment, class T>
void load_matrix_sync(Fragment&, const T*, unsigned);
template <class Fragment, class T>
void load_matrix_sync(Fragment&, const T*, unsigned, layout_t);
template <class Fragment, class T>
void store_matrix_sync(T*, const Fragment&, unsigned, layout_t);
template <class D, class A, class B, class C>
void mma_sync(D&, const A&, const B&, const C&, bool = false);
}  // namespace nvcuda::wmma
