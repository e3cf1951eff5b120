"""Options as they are written for nvcc, for `wmmadiag run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.cli.dispatch import ours
from wmmadiag.cli.main import main


@pytest.mark.parametrize(
    ("written", "made", "ignored"),
    [
        ("-O3 a.cu -o a -lineinfo", "a.cu", "-O3 -o a -lineinfo"),
        ("-std=c++14 a.cu", "--std=c++14 a.cu", ""),
        ("-std c++20 --use_fast_math", "--std=c++20 --use-fast-math", ""),
        ("-arch=sm_80", "--arch sm_80", ""),
        ("-arch sm_90a a.cu", "a.cu --arch sm_90", ""),
        ("-gencode arch=compute_80,code=sm_80 -gencode=arch=compute_86,code=[sm_86,compute_86]", "--arch sm_86", ""),
        ("-arch=native", "", ""),
        ("-arch=sm_35", "--arch sm_75", "sm_35 (sm_75 is the oldest here, and runs it)"),
        ("-lcublas -lm -lfftw3 -L/opt/lib", "-X=-lfftw3 -X=-L/opt/lib", ""),
        ("-Xcompiler -fopenmp,-Wall --compiler-options=-march=native", "-X=-fopenmp -X=-Wall -X=-march=native", ""),
        ("-isystem third -I own -DN=3 --arch sm_80", "-Ithird -I own -DN=3 --arch sm_80", ""),
        ("-default-stream per-thread", "--default-stream=per-thread", ""),
    ],
)
def test_words_of_nvcc(written: str, made: str, ignored: str) -> None:
    words, nothing = ours(written.split())
    assert (" ".join(words), " ".join(nothing)) == (made, ignored)


@pytest.mark.subprocess
def test_a_program_of_an_older_standard_runs_by_the_line_that_compiles_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.cu"
    source.write_text(
        "#include <cooperative_groups.h>\n#include <cstdio>\n"
        "__global__ void k(int* x) {\n"
        "    register int i = cooperative_groups::this_thread_block().thread_rank();\n    x[i] = i;\n}\n"
        "int main() {\n    int* x;\n    cudaMallocManaged(&x, 128);\n    k<<<1, 32>>>(x);\n"
        '    cudaDeviceSynchronize();\n    printf("%d\\n", x[31]);\n}\n'
    )
    assert main(["run", "-O2", "-std=c++11", str(source), "-lcudart", "-q"]) == 0
    said = capfd.readouterr()
    assert said.out == "31\n" and "without a meaning here: -O2" in said.err


@pytest.mark.parametrize(("word", "said"), [("--arch=sm_99", "sm_99"), ("--checks=nonsense", "nonsense")])
def test_what_is_not_known_is_told_before_anything_is_compiled(
    word: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.cu"
    source.write_text("this is no C++\n")
    assert main(["run", str(source), word]) in (2, 3)
    assert f"unknown {'architecture' if 'arch' in word else 'check'} '{said}'" in capfd.readouterr().err
