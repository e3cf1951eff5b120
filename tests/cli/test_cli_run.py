"""What `wmmadiag run` says of what was found."""

from __future__ import annotations

from pathlib import Path

from command import wmmadiag

from wmmadiag.cli.run import found_lines
from wmmadiag.programs.run import ProgramFinding, ProgramResult
from wmmadiag.results.model import ReportedFinding


def test_advice_that_is_counted_and_not_told_is_announced() -> None:
    advice = ProgramFinding(ReportedFinding("resources", "spills", "advice", "registers are spilled", "a.cu:3"))
    warning = ProgramFinding(ReportedFinding("memory", "short-copy", "warning", "too short", "a.cu:9"))
    result = ProgramResult(0, [advice, warning])
    brief, full = (
        "\n".join(found_lines(result, verbose=False)),
        "\n".join(found_lines(result, verbose=True)),
    )
    assert "too short" in brief and "registers are spilled" not in brief and "1 advice: --verbose tells" in brief
    assert "registers are spilled" in full and "--verbose" not in full


def test_an_empty_source_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "kernels.cu").write_text("__global__ void nothing() {}\n", "utf-8")
    (tmp_path / "empty.cu").write_text("  \n\n", "utf-8")
    for words, says in (
        (["empty.cu"], "empty.cu: the file is empty"),
        (["kernels.cu", "empty.cu"], "empty.cu: the file is empty"),
        (["kernels.cu"], "kernels.cu: no main function"),
    ):
        done = wmmadiag(tmp_path, "run", *words)
        assert done.returncode == 2 and done.stderr.startswith(f"wmmadiag: error: {says}\n"), done.stderr
