"""Programs as subjects of a plan: each launch that they make is tried."""

from __future__ import annotations

import pytest

from wmmadiag.campaign.journal import Journal
from wmmadiag.campaign.plan import read_plan
from wmmadiag.campaign.points import spaces
from wmmadiag.campaign.run import here, run_campaign
from wmmadiag.cli.main import main
from wmmadiag.errors import ConfigurationError

pytestmark = pytest.mark.subprocess
PROGRAM = """#include <cstdio>
#include <vector>
struct Pair { int a, b; };
__global__ void reversed(const float* x, float* y, int n) {
    __shared__ float held[64];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = held[n - 1 - threadIdx.x];
}
__global__ void scaled(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
int main() {
    std::vector<float> x(64, 1.5f);
    x[3] = 0.25f;
    float *in, *out;
    cudaMalloc(&in, 256);
    cudaMalloc(&out, 256);
    cudaMemcpy(in, x.data(), 256, cudaMemcpyHostToDevice);
    reversed<<<1, 64>>>(in, out, 64);
    scaled<<<1, 32>>>(in, out);
    cudaDeviceSynchronize();
    puts("done");
}
"""
PLAN = """
[[subjects]]
paths = ["program.cu"]
[axes]
arch = ["sm_80", "sm_90"]
inputs = ["normal", "positive"]
[cover]
how = "full"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def ran(folder):
    with Journal(folder / "plan.journal") as journal:
        return run_campaign(read_plan(folder / "plan.toml"), journal, here, effort="")


@pytest.mark.slow
def test_each_launch_of_a_program_is_a_subject(folder, capfd):
    first = ran(folder)
    names = [f".plan.captured/program.cu/{number}.toml" for number in (1, 2)]
    assert {name: dict(found) for name, found in first.tally.subjects.items()} == {
        name: {"passed": 4} for name in names
    }
    assert "done" not in capfd.readouterr().out
    again = ran(folder)
    assert again.tally.cases == 8 and again.repeated == 0  # captured once more, and found to be the same


def test_a_launch_that_the_checks_find_wrong(folder, monkeypatch, capsys):
    source = folder / "program.cu"
    source.write_text(PROGRAM.replace("    __syncthreads();\n", ""))
    campaign = ran(folder)
    (finding,) = campaign.findings.values()
    assert campaign.tally.statuses == {"failed": 4, "passed": 4}
    assert any("race" in one for one in finding.failures) and finding.example.point.subject.endswith(
        "program.cu/1.toml"
    )
    monkeypatch.chdir(folder)
    assert main(finding.command.split()[1:]) == 1
    assert "program.cu:7" in capsys.readouterr().out


def test_a_program_is_taken_as_a_source_where_that_is_said(folder):
    (folder / "program.cu").write_text(
        PROGRAM.replace("__global__ void scaled", "template<int N> __device__ void scaled")
    )
    text = PLAN.replace("[axes]", "main = false\n[axes]")
    (folder / "plan.toml").write_text(text)
    plan = read_plan(folder / "plan.toml")
    assert [one.subject for one in spaces(plan, plan.subjects[0])] == ["program.cu"]
    assert not list(folder.glob(".plan*"))


def test_sizes_of_a_program_are_its_own(folder):
    (folder / "plan.toml").write_text(PLAN.replace("[axes]", "sizes = { N = [16] }\n[axes]"))
    plan = read_plan(folder / "plan.toml")
    with pytest.raises(ConfigurationError, match="no case of these subjects has a symbol 'N'") as told:
        spaces(plan, plan.subjects[0])
    assert "main = false" in told.value.hint


def test_a_launch_that_no_card_can_repeat(folder):
    text = PROGRAM.replace("float* y) {", "float* y, Pair p) {").replace("(in, out);", "(in, out, Pair{1, 2});")
    (folder / "program.cu").write_text(text)
    plan = read_plan(folder / "plan.toml")
    with pytest.raises(
        ConfigurationError, match=r"not all of its launches can be repeated from a card: .*scaled"
    ) as told:
        spaces(plan, plan.subjects[0])
    assert "init" in told.value.hint and "--run" in told.value.hint
