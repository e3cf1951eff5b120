"""A launch that only a comment writes down is tried, and where it is wrong nothing is said of the kernel."""

from __future__ import annotations

import pytest
from small_kernels import RIGHT

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError
from wmmadiag.hostcode.program import read_program
from wmmadiag.subject.drafts import derive
from wmmadiag.subject.drafts.commented import commented_launch

KERNEL = RIGHT[: RIGHT.index("}\n", RIGHT.index("store_matrix_sync")) + 2]


def test_the_sample_is_what_this_file_takes_it_for():
    assert "__global__ void gemm(" in KERNEL and "<<<" not in KERNEL


def written(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return path


COMMENT = """\
// Usage:
//   const dim3 tiles(N / 16, M / 16);
//   gemm<<<tiles, 32, 0, stream>>>(A, B, C, M, N, K);
"""


def test_a_launch_in_a_comment_is_the_kernels(tmp_path):
    report = check(written(tmp_path, COMMENT + KERNEL))
    assert report.status == "passed"
    assert any("as a comment of the source has it" in one for one in report.assumed)
    assert not any("by which a run covers" in one for one in report.assumed)


@pytest.mark.parametrize(
    ("old", "new"), [("N / 16", "N / 64"), ("tiles(N / 16, M / 16)", "tiles(M / 16, N / 16)"), ("32, 0", "16, 0")]
)
def test_a_comment_that_is_out_of_date_is_passed_over(tmp_path, old, new):
    report = check(written(tmp_path, COMMENT.replace(old, new) + KERNEL))
    assert report.status == "passed"
    assert not any("as a comment" in one for one in report.assumed)


@pytest.mark.slow
def test_a_wrong_kernel_with_such_a_comment_is_asked_about(tmp_path, monkeypatch):
    made, own = [], derive._derived_card
    monkeypatch.setattr(derive, "_derived_card", lambda *given: made.append(given) or own(*given))
    path = written(tmp_path, COMMENT + KERNEL.replace("0.0f", "1.0f"))
    try:
        assert check(path).exit_code == 3
    except ConfigurationError as asked:
        assert "the kernel '" in asked.message and asked.message.endswith("?")
    assert len(made) == 2  # by the comment and without it, each once


@pytest.mark.parametrize(
    "comment",
    [
        "// gemm<<<grid, 32>>>(A, B, C, M, N, K);",  # nobody says what grid is
        "// gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, ...);",
        "// gemm<<<dim3(N / 16, M / 16), 32>>>(A + 1, B, C, M, N, K);",
        "// other<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);",
        "// gemm<<<dim3(N / 16, M / 16)",
    ],
)
def test_what_leaves_the_launch_open_is_none(comment):
    program = read_program(f"{comment}\n{KERNEL}", "k.cu", (), {})
    assert commented_launch(f"{comment}\n{KERNEL}", program, program.kernels("gemm")[0]) == ""


@pytest.mark.parametrize(
    "comment",
    [
        "// gemm    <<<dim3(N / 16, M / 16), 32>>>\n// other  <<<1, 32>>>",
        "// gemm<<<dim3(ceil(N, 16), M / 16), 32>>>",
        "// grid (N / 16, M / 16), block 32",
        "/* Grid: (N / 16, M / 16)\n * Block: 32 */",
        "// gridDim = (N / 16, M / 16), blockDim = (32, 1)",
    ],
)
def test_a_comment_that_says_no_more_than_the_shape_is_a_launch(tmp_path, comment):
    report = check(written(tmp_path, KERNEL.replace("__global__", f"{comment}\n__global__", 1)))
    assert report.status == "passed"
    assert any("as a comment of the source has it" in one for one in report.assumed)


@pytest.mark.parametrize(
    "comment",
    [
        "// a grid of tiles, one block per tile",
        "// gemm<<<grid, block>>>",
        "// grid (one block per tile), block 32",
        "// a grid-stride loop, a block of threads",
    ],
)
def test_a_sentence_about_blocks_is_none(comment):
    text = KERNEL.replace("__global__", f"{comment}\n__global__", 1)
    program = read_program(text, "k.cu", (), {})
    assert commented_launch(text, program, program.kernels("gemm")[0]) == ""
