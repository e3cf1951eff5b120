from __future__ import annotations

from wmmadiag.compile.diagnostics import error_from, error_hint, errors_in
from wmmadiag.place import Place

LOG = """\
__nv_name_map(2): error: expected an identifier
  #pragma nv_mangled_name k<2>
                          ^

k.cu(12): error: incomplete type "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 8, 8, 4, double>" is not allowed
      fragment<matrix_a, 8, 8, 4, double> acc;
                                          ^

k.cu(19): error: no instance of overloaded function "nvcuda::wmma::load_matrix_sync" matches the argument list
            argument types are: (<error-type>, const double *, int)
      load_matrix_sync(c, C, N);
      ^
/opt/cuda/include/crt/mma.hpp(402): note #3326-D: function "nvcuda::wmma::load_matrix_sync(a)" does not match
    void load_matrix_sync(a) {
         ^
/opt/cuda/include/crt/mma.hpp(398): note #3322-D: number of parameters of function does not match call
    void load_matrix_sync(b) {
         ^
k.cu(3): note #3326-D: function "mine" does not match
    void mine();
         ^

3 errors detected in the compilation of "k.cu".
"""


def test_overloads_of_library_functions_are_left_out_and_the_users_stay():
    last = errors_in(LOG)[-1]
    assert [line for line in last.lines if "note" in line] == ['k.cu(3): note #3326-D: function "mine" does not match']
    assert "    void mine();" in last.lines
    assert not any("mma.hpp" in line or "void load_matrix_sync" in line for line in last.lines)


def test_what_is_wrong_in_the_source_comes_before_name_expressions():
    error = error_from(errors_in(LOG), LOG, Place("k.cu", 20))
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("k.cu", 12)
    assert "and 2 more" in error.message


def test_the_next_step_is_that_of_the_error():
    assert "m8n8k4 for double" in error_hint(errors_in(LOG))
    assert "-D NAME=TEXT" in error_hint(errors_in(LOG.replace("nvcuda::wmma::fragment<", "mine<")))


def test_an_error_at_the_end_of_the_source_has_its_last_line():
    error = error_from((), 'At end of source: error: expected a "}"\n\n1 error detected\n', Place("k.cu", 20))
    assert (error.message, str(error.place)) == ('expected a "}" where it ends', "k.cu:20")


def test_a_failure_without_a_place_names_the_file():
    error = error_from((), "internal trouble", Place("k.cu", 20))
    assert (error.message, str(error.place), error.detail) == ("the compiler failed", "k.cu", "internal trouble")


INSTANTIATED = """\
/lib/copy.hpp(493): error: static assertion failed with "Unrecognized CopyPolicy."
    static_assert(dependent_false<CopyPolicy>, "Unrecognized CopyPolicy.");
    ^
          detected during:
            instantiation of "void detail(const P &) [with P=T<4>]" at line 31
            instantiation of "void copy(const P &, D &) [with P=T<4>, D=T<8>]" at line 201 of k.cu
            instantiation of "void gemm(A) [with A=float]"

1 error detected in the compilation of "k.cu".
"""


def test_an_error_in_a_template_says_who_asked_for_it():
    (one,) = errors_in(INSTANTIATED)
    asked = [(place.file, place.line) for place in one.places()]
    assert asked == [("/lib/copy.hpp", 493), ("/lib/copy.hpp", 31), ("k.cu", 201)]
    assert [[place.line for place in one.places()] for one in errors_in(LOG)] == [[2], [12], [19]]
