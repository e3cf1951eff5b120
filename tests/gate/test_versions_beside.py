"""A source with several versions of one kernel: one that is near what the right one computes is not passed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.api import check
from wmmadiag.cli.main import main
from wmmadiag.gate.beside import with_those_beside
from wmmadiag.gate.task import Task, TaskOutcome

ATTENTION = Path(__file__).parents[1] / "reading" / "unseen31" / "attention_forward.cu"
SOFTMAX = """
__global__ void softmax(float* out, const float* inp, int M, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M) return;
    float maximum = -INFINITY, sum = 0.f;
    for (int j = 0; j < N; j++) maximum = fmaxf(maximum, inp[i * N + j]);
    for (int j = 0; j < N; j++) sum += expf(inp[i * N + j] - maximum);
    for (int j = 0; j < N; j++) out[i * N + j] = expf(inp[i * N + j] - maximum) / sum;
}
void forward(float* out, const float* inp, int M, int N) { softmax<<<(M + 63) / 64, 64>>>(out, inp, M, N); }
"""


def _outcomes(path: Path, unfit: str, name: str = "other") -> list[TaskOutcome]:
    """Of a right softmax, beside which a kernel stands that is asked about."""
    path.write_text(SOFTMAX)
    task = Task(path, None, options={})
    right = TaskOutcome(task, replace(check(path), beside=(name,)))
    assert right.report is not None
    assert right.report.status == "passed"
    error = f"{path}: 'other': what should the kernel compute?\nnext: say so"
    return list(
        with_those_beside(right, lambda asked: TaskOutcome(asked, error=error, code=2, asked=True, unfit=unfit))
    )


def test_what_is_near_the_operation_of_a_right_one_is_asked_about(tmp_path: Path) -> None:
    own, other = _outcomes(tmp_path / "softmax.cu", "softmax")
    assert own.report is not None
    assert not any(one.startswith("not judged") for one in own.report.assumed)
    assert other.doubted
    *_, clause, hint = other.error.splitlines()
    assert (clause.strip(), hint) == (
        "softmax is right, of which this one seems to be another version: it may be wrong",
        "next: say so",
    )


@pytest.mark.parametrize("unfit", ["", "gemm"])
def test_what_is_near_nothing_or_another_operation_is_named_alone(tmp_path: Path, unfit: str) -> None:
    (own,) = _outcomes(tmp_path / "softmax.cu", unfit)
    assert own.report is not None
    assert any(one.startswith("not judged: other") for one in own.report.assumed)


@pytest.mark.slow
def test_three_versions_of_attention_are_right_and_one_that_is_broken_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first hands scores and weights on in memory that its second kernel writes before it reads them; its C is
    # what its caller reckons from the heads.
    assert main(["check", str(ATTENTION), "--no-main"]) == 0
    assert "3 checks: 3 ok" in capsys.readouterr().out
    (tmp_path / ATTENTION.name).write_text(ATTENTION.read_text("utf-8").replace("                sum *= corr;\n", ""))
    assert main(["check", str(tmp_path / ATTENTION.name), "--no-main"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is right, of which this one seems to be another version" in said, said


def test_what_is_called_as_a_right_one_but_for_a_number_is_asked_about(tmp_path: Path) -> None:
    assert [one.doubted for one in _outcomes(tmp_path / "softmax.cu", "", name="softmax2")] == [False, True]
    assert [one.doubted for one in _outcomes(tmp_path / "softmax.cu", "", name="softmax_sum")] == [False]
    assert [one.doubted for one in _outcomes(tmp_path / "softmax.cu", "", name="softmax<2>")] == [False]
