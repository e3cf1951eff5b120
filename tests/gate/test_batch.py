"""Several cards in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.gate.batch import check_all, exit_code, plan
from wmmadiag.gate.task import Task, TaskOutcome

KERNELS = Path(__file__).parents[2] / "kernels"
PV, QKT = KERNELS / "pv" / "kernel.toml", KERNELS / "qkt" / "kernel.toml"
ATTENTION = KERNELS / "attention" / "kernel.toml"


def test_one_task_per_card_and_arch():
    tasks = plan([PV, QKT], ["sm_80", "90", "sm_90"], None, None, {})
    assert [(task.path, task.arch) for task in tasks] == [
        (PV, "sm_80"), (PV, "sm_90"), (QKT, "sm_80"), (QKT, "sm_90")]  # fmt: skip


def test_cases_go_to_the_cards_that_have_them():
    tasks = plan([PV, ATTENTION], [None], ["tail", "odd", "causal"], None, {})
    assert [task.cases for task in tasks] == [("tail", "odd"), ("tail", "causal")]
    assert [task.path for task in plan([PV, ATTENTION], [None], None, ["wmma"], {})] == [ATTENTION]


def test_a_broken_card_stays_and_will_say_why(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("format = 1\nsource = ")
    tasks = plan([PV, broken], [None], ["tail"], None, {})
    assert [task.path for task in tasks] == [PV, broken]
    *_, last = check_all(tasks[1:])
    assert last.code == 2 and last.status == "error" and "broken.toml:2" in last.error


def test_names_that_no_card_has():
    with pytest.raises(ConfigurationError, match="no card has a case 'tial'") as caught:
        plan([PV, QKT], [None], ["tail", "tial"], None, {})
    assert caught.value.hint == "did you mean 'tail'?"
    with pytest.raises(ConfigurationError, match="both"):
        plan([PV, ATTENTION], [None], ["odd"], ["wmma"], {})


@pytest.mark.parametrize(("codes", "worst"), [([], 2), ([0], 0), ([0, 3], 3), ([3, 2], 2), ([2, 1, 3], 1), ([0, 1], 1)])
def test_the_worst_exit_code(codes, worst):
    task = Task(PV, None)
    assert exit_code([TaskOutcome(task, code=code) for code in codes]) == worst


def test_a_bug_of_ours_costs_its_own_task_alone(monkeypatch):
    import wmmadiag.api

    real = wmmadiag.api.check

    def check(path, **options):
        if path == PV:
            raise ZeroDivisionError("ours")
        return real(path, **options)

    monkeypatch.setattr(wmmadiag.api, "check", check)
    first, second = check_all([Task(PV, None, options={"use_cache": False}), Task(QKT, None)])
    assert (first.code, second.code) == (3, 0)
    assert "internal error, a bug of wmmadiag: ZeroDivisionError: ours" in first.error
    with pytest.raises(ZeroDivisionError):
        list(check_all([Task(PV, None, options={"use_cache": False})]))


def test_kernels_that_a_source_launches_besides_are_checked_as_far_as_it_tells_what_they_compute():
    path = Path(__file__).parents[1] / "reading" / "unseen17" / "depthwise_pointwise_block.cu"
    first, second = check_all(plan([path], [None], None, None, {}))
    assert (first.code, second.code) == (0, 0)
    assert (first.report.operation, second.report.operation) == ("gemm", "conv2d")
    assert not any("not judged" in one for one in first.report.assumed)
    assert len(list(check_all(plan([path], [None], None, None, {"entry": "pwconv_wmma"})))) == 1


SEVERAL = """
__global__ void scale(float* y, const float* x, int n) { if (int i = threadIdx.x; i < n) y[i] = 2 * x[i]; }
__global__ void shift(float* y, const float* x, int n) { if (int i = threadIdx.x; i < n) y[i] = 1 + x[i]; }
__global__ void negate(float* y, const float* x, int n) { if (int i = threadIdx.x; i < n) y[i] = -x[i]; }
void one(float* y, float* x, int n) { scale<<<1, 64>>>(y, x, n); }
void two(float* y, float* x, int n) { shift<<<1, 64>>>(y, x, n); }
void three(float* y, float* x, int n) { negate<<<1, 64>>>(y, x, n); }
"""


@pytest.mark.parametrize(("patience", "left"), [(-1.0, 2), (1000.0, 0)])
def test_kernels_that_nobody_named_are_left_out_when_others_took_long(tmp_path, monkeypatch, patience, left):
    monkeypatch.setattr("wmmadiag.gate.batch.PATIENCE", patience)
    path = tmp_path / "k.cu"
    path.write_text(SEVERAL)
    outcomes = list(check_all(plan([path], [None], None, None, {})))
    assert [one.left for one in outcomes] == [False] * (3 - left) + [True] * left
    for one in outcomes:
        if one.left:
            assert (one.code, one.asked) == (3, True)
            assert f"next: `wmmadiag check {path} --entry {one.task.options['entry']}` checks it alone" in one.error
