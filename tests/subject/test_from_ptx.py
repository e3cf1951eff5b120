"""PTX as a subject: what is known, what is asked, what is refused; and cards that are drafted, filled in, and right."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from ptx_cards import DIALECTS, copied, filled

import wmmadiag
from wmmadiag.errors import ConfigurationError, PtxSyntaxError, UnsupportedError
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.drafts.from_ptx import ptx_facts
from wmmadiag.subject.drafts.ptx_parameters import mangled_types, python_parameters
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
GEMM = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void __launch_bounds__(32) gemm(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
"""
SQUARE = {"M": "16", "N": "16", "K": "16"}


def asked(path: Path, **options: object) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        open_subject(path, SubjectOptions(**options))  # type: ignore[arg-type]
    return caught.value


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_all_that_is_open_is_asked_for_at_once(tmp_path: Path) -> None:
    error = asked(copied(tmp_path, "triton_matmul"))
    assert [line.split(":")[0] for line in error.detail.splitlines()] == [
        "  --computes OPERATION",
        "  --grid X[,Y[,Z]]",
        "  --shared BYTES",
        "  values of arg3, arg4, arg5, arg6, arg7, arg8",
        "known",
        "  block",
        "  a_ptr",
        "  b_ptr",
        "  c_ptr",
        "  the Python function takes a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, "
        "stride_cm, stride_cn, of which the PTX does not have all",
    ]
    assert "gemm is the likeliest" in error.detail and "block: 128" in error.detail
    assert "c_ptr: a pointer to f16, which is written" in error.detail
    assert "wmmadiag init" in error.hint


def gemm_ptx(folder: Path, limit: str = ".maxntid") -> Path:
    path = folder / "gemm.ptx"
    ptx = wmmadiag.compile_cuda(GEMM, arch="sm_80").ptx
    assert ".maxntid" in ptx
    path.write_text(ptx.replace(".maxntid", limit))
    return path


def test_where_options_can_answer_the_command_is_given(tmp_path: Path) -> None:
    path = gemm_ptx(tmp_path)
    error = asked(path, symbols=SQUARE)
    assert error.hint.startswith(
        f"wmmadiag check {path} --symbol M=16 --symbol N=16 --symbol K=16 --computes OPERATION"
    )
    assert "--grid X" in error.hint and "--block" not in error.hint
    error = asked(path, computes="gemm")
    assert error.detail.startswith("  --grid X[,Y[,Z]]: PTX holds no launch\n")


@pytest.mark.parametrize(("limit", "assumed"), [(".maxntid", True), (".reqntid", False)])
def test_the_block_is_what_the_kernel_asks_for(tmp_path: Path, limit: str, assumed: bool) -> None:
    card = open_subject(gemm_ptx(tmp_path, limit), SubjectOptions(computes="gemm", grid=("1",), symbols=SQUARE))
    assert card.launch.block == (32,)
    assert any(".maxntid allows" in remark for remark in card.assumed) == assumed
    report = wmmadiag.check(card)
    assert report.status == "passed", wmmadiag.render(report)
    assert "arg0 is a, arg1 is b, arg2 is d" in " ".join(report.assumed)


def test_the_users_block_wins_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    options = SubjectOptions(computes="gemm", grid=("1",), block=("8", "4"), symbols=SQUARE)
    path = gemm_ptx(tmp_path)
    card = open_subject(path, options)
    assert card.launch.block == (8, 4) and not any("maxntid" in one for one in card.assumed)
    assert wmmadiag.check(card).status == "passed"
    report = wmmadiag.check(open_subject(gemm_ptx(tmp_path, ".reqntid"), options))
    problem = report.cases[0].problem
    assert problem is not None and "exactly 32 × 1 × 1" in problem.message


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_is_not_emulated_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    path = copied(tmp_path, "triton_wgmma")
    for attempt in (open_subject, lambda path, options: drafted_text(path, tmp_path / "k.toml", options)):
        with pytest.raises(UnsupportedError, match="wgmma") as caught:
            attempt(path, SubjectOptions())
        assert caught.value.place is not None and caught.value.place.file == str(tmp_path / "triton_kernels.py")
        assert re.search(r"line \d+ of the PTX: wgmma\.fence", caught.value.detail)


REFUSED = [
    ("wgmma.fence.sync.aligned;", "wgmma"),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 16;", "TMA"),
    ("tcgen05.fence::before_thread_sync;", "tcgen05"),
    ("red.async.relaxed.cluster.shared::cluster.add.u32 [%r1], 1, [%r2];", "mbarrier"),
    ("call deep;", "TMA"),
]


@pytest.mark.parametrize(("instruction", "message"), REFUSED, ids=[row[0].split()[0] for row in REFUSED])
def test_refusals_name_the_instruction_and_its_place(tmp_path: Path, instruction: str, message: str) -> None:
    path = tmp_path / "k.ptx"
    head = ".version 8.7\n.target sm_100a\n.address_size 64\n.func deep() { tensormap.cp_fenceproxy; ret; }\n"
    path.write_text(f"{head}.visible .entry k(.param .u64 a) {{\n.reg .b32 %r<3>;\n{instruction}\nret;\n}}\n")
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        open_subject(path, SubjectOptions())
    line = 4 if "call" in instruction else 7
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == (path.as_posix(), line)


def test_another_kernel_of_the_file_does_not_count(tmp_path: Path) -> None:
    path = copied(tmp_path, "assembled")
    assert ptx_facts(path, SubjectOptions(entry="chosen")).block == ("64",)
    with pytest.raises(UnsupportedError, match="wgmma"):
        ptx_facts(path, SubjectOptions(entry="warpgroup"))


# -- which kernel -----------------------------------------------------------------------------------------------------

NAMES = ["_ZN2ns5firstILi3EEEvPf", "_ZN2ns6secondEPf", "third_8f3a_kernel_forward", "third_8f3a_kernel_backward"]
CHOICES = [
    (NAMES[0], NAMES[0]),
    ("ns::first<3>", NAMES[0]),
    ("first", NAMES[0]),
    ("ns::second", NAMES[1]),
    ("econ", NAMES[1]),
    ("backward", NAMES[3]),
    (NAMES[2], NAMES[2]),
]


def several(folder: Path) -> Path:
    path = folder / "several.ptx"
    path.write_text(
        HEAD + "".join(f".visible .entry {name}(.param .u64 {name}_param_0) {{ ret; }}\n" for name in NAMES)
    )
    return path


@pytest.mark.parametrize(("wanted", "found"), CHOICES, ids=[row[0] for row in CHOICES])
def test_kernels_by_their_names_and_parts_of_them(tmp_path: Path, wanted: str, found: str) -> None:
    assert ptx_facts(several(tmp_path), SubjectOptions(entry=wanted)).entry == found


def test_of_several_kernels_one_must_be_named(tmp_path: Path) -> None:
    path = several(tmp_path)
    with pytest.raises(ConfigurationError, match="several kernels") as caught:
        ptx_facts(path, SubjectOptions())
    assert "ns::first<3>" in caught.value.detail and "--entry" in caught.value.hint
    with pytest.raises(ConfigurationError, match="ambiguous") as caught:
        ptx_facts(path, SubjectOptions(entry="third"))
    assert "third_8f3a_kernel_forward" in caught.value.detail
    with pytest.raises(ConfigurationError, match="no kernel 'fourth'"):
        ptx_facts(path, SubjectOptions(entry="fourth"))


def test_the_only_kernel_on_tensor_cores_is_taken_and_said(tmp_path: Path) -> None:
    path = tmp_path / "two.ptx"
    path.write_text(gemm_ptx(tmp_path).read_text() + "\n.visible .entry fill(.param .u64 p) { ret; }\n")
    facts = ptx_facts(path, SubjectOptions())
    assert facts.name == "gemm"
    assert "the only one with tensor-core instructions" in facts.remarks[0]


# -- drafts -----------------------------------------------------------------------------------------------------------


def test_a_drafted_card_of_a_triton_matmul_is_right(tmp_path: Path) -> None:
    values = ["M", "N", "K", "K", "N", "N", "ceil_div(M, 32) * ceil_div(N, 32)", "8192"]
    card = filled(copied(tmp_path, "triton_matmul"), values)
    report = wmmadiag.check(card)
    assert report.status == "passed", wmmadiag.render(report)
    assert report.arch == "sm_80"


def test_a_drafted_card_of_a_triton_softmax_is_right(tmp_path: Path) -> None:
    report = wmmadiag.check(filled(copied(tmp_path, "triton_softmax"), ["N", "N", "M", "16"]))
    assert report.status == "passed", wmmadiag.render(report)


def test_a_drafted_card_of_a_numba_softmax_is_right(tmp_path: Path) -> None:
    path = copied(tmp_path, "numba_row_softmax")
    text = drafted_text(path, path.with_suffix(".toml"), SubjectOptions())
    assert 'name = "x_itemsize"  # s64\ndtype = "s64"\nvalue = "4"  # nothing reads it' in text
    report = wmmadiag.check(filled(path, ["M", "N", "M", "N", "M", "128"]))
    assert report.status == "passed", wmmadiag.render(report)


def test_a_wrong_kernel_is_wrong_and_a_race_is_at_the_python_line(tmp_path: Path) -> None:
    path = copied(tmp_path, "triton_softmax")
    path.write_text(path.read_text().replace("bar.sync \t0;", "bar.warp.sync -1;"))
    report = wmmadiag.check(filled(path, ["N", "N", "M", "16"]))
    assert report.status == "failed"
    lines = (DIALECTS / "triton_kernels.py").read_text().splitlines()
    found = [one for case in report.cases for one in case.findings if one.check == "races"]
    assert found and all(one.place.startswith(str(tmp_path / "triton_kernels.py")) for one in found)
    assert {lines[int(one.place.split(":")[1]) - 1].strip() for one in found} <= {
        "x = x - tl.max(x, axis=0)",
        "den = tl.sum(num, axis=0)",
    }


def test_what_nobody_speaks_for_becomes_a_card_for_a_python_reference(tmp_path: Path) -> None:
    path = copied(tmp_path, "warp_affine")
    text = drafted_text(path, tmp_path / "k.toml", SubjectOptions(entry="forward"))
    assert 'operation = "python"' in text
    assert text.count('name = "arg1"  # a struct') == 1 and "[[arguments.fields]]" in text
    assert 'name = "arg3_at4"  # s32\ndtype = "s32"\nvalue = "TODO"' in text


def test_types_in_mangled_names() -> None:
    assert mangled_types("_Z1kPK6__halfPfi") == ["__half const*", "float*", "int"]
    assert mangled_types("kernel") == []
    assert mangled_types("_Z3foov") in ([], [""])
    numba = "_ZN8__main__1fE5ArrayIfLi2E1C7mutable7alignedEd"
    assert mangled_types(numba) == ["Array<float, 2, C, mutable, aligned>", "double"]


def test_a_mangled_name_keeps_the_types(tmp_path: Path) -> None:
    parameters = ",\n".join(f".param .u64 _Z1kPK6__halfPf_param_{index}" for index in range(2))
    path = tmp_path / "k.ptx"
    path.write_text(f"{HEAD}.visible .entry _Z1kPK6__halfPf(\n{parameters}\n)\n{{\nret;\n}}\n")
    assert [(one.c_type, one.pointer, one.const) for one in ptx_facts(path, SubjectOptions()).parameters] == [
        ("__half", True, True),
        ("float", True, False),
    ]


def test_parameters_of_a_python_function(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("def k(a_ptr, n: int, BLOCK: tl.constexpr, *, flag=1):\n    pass\n")
    assert python_parameters(str(path), "k") == ("a_ptr", "n", "flag")
    assert python_parameters(str(path), "other") == ()
    path.write_text("def k(:\n")
    assert python_parameters(str(path), "k") == ()
    assert python_parameters(str(tmp_path / "none.py"), "k") == python_parameters(str(tmp_path / "k.cu"), "k") == ()


def test_names_are_not_believed_where_pointers_fall_on_numbers(tmp_path: Path) -> None:
    path = copied(tmp_path, "triton_softmax")
    source = tmp_path / "triton_kernels.py"
    source.write_text(
        source.read_text().replace("output_ptr, input_ptr, input_row", "input_row, output_ptr, input_ptr")
    )
    facts = ptx_facts(path, SubjectOptions())
    assert [one.name for one in facts.parameters[2:5]] == ["arg2", "arg3", "arg4"]


# -- errors -----------------------------------------------------------------------------------------------------------

MALFORMED = [
    ("text", "hello world\n", "1:1: expected '.version', found 'hello'"),
    ("no kernel", HEAD + ".func f() { ret; }\n", "the PTX holds no kernel"),
    ("cut off", HEAD + ".visible .entry k() {\n  ret;\n", "5: unexpected end of the PTX text: a '}' is missing"),
    ("operand", HEAD + ".visible .entry k() {\n.reg .b32 r;\n  add.s32 r, r;\n}\n", "6:3: add.s32: expects 3 operands"),
    ("garbage", HEAD + "\x7f\x7f garbage\n", "4:1: unexpected character"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed_ptx_is_told_with_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(text)
    with pytest.raises((ConfigurationError, PtxSyntaxError)) as caught:
        open_subject(path, SubjectOptions())
    assert message in str(caught.value) and str(caught.value).startswith(path.as_posix())
    assert caught.value.hint and caught.value.exit_code == 2


# -- no C++ in it -----------------------------------------------------------------------------------------------------

PACKAGE = Path(wmmadiag.__file__).parent
# Of `compile`: what reads PTX, or hands texts on.
NOT_OF_CPP = frozenset(
    {"ptx_file.py", "ptx_scan.py", "driver.py", "model.py", "records.py", "read.py", "cache.py", "origin.py"}
)
READERS = frozenset(
    str(file)
    for folder in (PACKAGE / "csource", PACKAGE / "hostcode", PACKAGE / "compile" / "ask", PACKAGE / "compile")
    for file in folder.glob("*.py")
    if file.name not in NOT_OF_CPP
)


def readers_of_cpp(run: Callable[[], object]) -> set[str]:
    """Functions of the readers of C++ that get PTX to read while something runs."""
    found: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:  # of calls alone, as it returns nothing
        code = frame.f_code
        if code.co_filename in READERS:
            texts = [one for one in list(frame.f_locals.values()) if isinstance(one, (str, bytes))]
            if any((".entry" if isinstance(one, str) else b".entry") in one for one in texts):
                found.add(f"{Path(code.co_filename).name}:{code.co_name}")

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.slow
def test_nothing_reads_ptx_as_cpp(tmp_path: Path) -> None:
    path = copied(tmp_path, "triton_softmax")
    assert not readers_of_cpp(lambda: asked(path))
    card = filled(path, ["N", "N", "M", "16"])
    assert not readers_of_cpp(lambda: drafted_text(path, card, SubjectOptions()))
    assert not readers_of_cpp(lambda: wmmadiag.check(card, checks="all"))
    # findings and faults name arrays, and the diagnosis looks for their lines
    path.write_text(path.read_text().replace("bar.sync \t0;", "bar.warp.sync -1;"))
    assert not readers_of_cpp(lambda: wmmadiag.check(card))
    assert not readers_of_cpp(lambda: wmmadiag.diagnosis(card, effort="quick"))
    assert not readers_of_cpp(lambda: wmmadiag.debug(card).run_to(tensor_op=None, line=54))


def test_a_cuda_source_is_read_so(tmp_path: Path) -> None:
    """The look-alike: the same watch sees the readers at work."""
    path = tmp_path / "k.cu"
    path.write_text(GEMM.replace("fa;", "fa;  // no .entry"))
    assert readers_of_cpp(
        lambda: open_subject(path, SubjectOptions(computes="gemm", grid=("1",), block=("32",), symbols=SQUARE))
    )
