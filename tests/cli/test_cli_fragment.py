"""`fragment` and `shapes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("here")


def test_a_picture_in_the_terminal(run):
    answer = run("fragment", "m16n16k16", "f16", "a", "--layout", "row", "--ldm", "64", "--arch", "sm_89")
    assert answer.code == 0 and not answer.err
    assert " 9  1152   4:2" in answer.out and "32 passes where 4 would do; ldm 72 has no conflicts" in answer.out
    assert run("fragment", "m16n16k16", "f16", "a", "--ldm", "64", "--arch", "89").out == answer.out


def test_files_and_other_forms(run):
    answer = run("fragment", "mma.m16n8k16", "f16", "b", "--svg", "b.svg")
    assert answer.code == 0 and "wrote b.svg" in answer.err and Path("b.svg").read_text().startswith("<svg")
    assert run("fragment", "ldmatrix", "x4", "trans", "--svg", "-").out.startswith("<svg")
    assert "| 0–1 |" in run("fragment", "mma.m16n8k16", "f16", "b", "--markdown", "-").out
    data = json.loads(run("fragment", "m16n16k16", "f32", "d", "--json", "-").out)
    assert data["elements"][1]["held"] == [{"lane": 0, "element": 1, "register": 1, "bit": 0}]
    assert data["elements"][16]["address"] == 64


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("m16n16k17", "f16", "a"), 2, "did you mean m16n16k16"),
        (("m16n16k16",), 2, "which matrix"),
        ((), 2, "SHAPE"),
        (("m16n16k16", "f16", "a", "--ldm", "0"), 2, "at least 1"),
        (("m16n16k16", "f16", "a", "--arch", "ampere"), 2, "unknown architecture"),
        (("m16n16k16", "f16", "a", "--svg", "gone/x.svg"), 2, "mkdir"),
        (("m16n16k16", "f16", "a", "--svg", "-", "--json", "-"), 2, "two pictures"),
        (("m16n16k16", "bf16", "a", "--arch", "sm_75"), 3, "shapes --arch sm_75"),
    ],
)
def test_mistakes_name_the_next_step(run, words, code, says):
    answer = run("fragment", *words)
    assert answer.code == code and says in answer.err and not answer.out


def test_shapes(run):
    every, turing = run("shapes"), run("shapes", "--arch", "sm_75")
    assert every.code == turing.code == 0
    assert "from sm_89" in every.out and "e4m3" in every.out and "e4m3" not in turing.out
    assert run("shapes", "--markdown", "-").out.startswith("| name |")
    listed = json.loads(run("shapes", "--json", "-", "--arch", "sm_75").out)["forms"]
    assert "m16n16k16" in {row["shape"] for row in listed}
    assert run("shapes", "--arch", "sm_12").code == 3
