from __future__ import annotations

from wmmadiag.compile.diagnostics import error_from, errors_in

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
    error = error_from(errors_in(LOG), LOG, "k.cu")
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("k.cu", 12)
    assert "and 2 more" in error.message


def test_a_fragment_that_wmma_does_not_have():
    assert "m8n8k4 for double" in error_from(errors_in(LOG), LOG, "k.cu").hint
    assert error_from(errors_in(LOG), LOG, "k.cu", hint="another").hint == "another"
    assert error_from(errors_in(LOG.replace("nvcuda::wmma::fragment<", "mine<")), LOG, "k.cu").hint == ""
