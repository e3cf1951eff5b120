"""`wmmadiag explain`, and `check --provenance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

KERNELS = Path(__file__).parents[2] / "kernels"
QKT = str(KERNELS / "qkt" / "kernel.toml")
WRONG = str(KERNELS / "attention" / "wrong" / "qk_not_transposed.toml")


def test_an_element_back_to_the_inputs(run: Run) -> None:
    answer = run("explain", QKT, "scores[0, 0, 3, 5]")
    assert answer.code == 0
    assert "q[0, 0, 3, 0..31]" in answer.out
    assert "k[0, 0, 5, 32..63]" in answer.out
    assert "departs" not in answer.out


@pytest.mark.slow
def test_where_it_departs(run: Run) -> None:
    answer = run("explain", WRONG, "O(0,0,3,17)", "--lines", "10")
    assert answer.code == 1
    assert "departs: " in answer.out
    assert "needs Q[0,0]·K[0,0]ᵀ" in answer.out
    assert "more lines: --lines 0" in answer.out


def test_json(run: Run) -> None:
    data = json.loads(run("explain", WRONG, "o[0,1,3,17]", "--json", "-").out)
    assert data["index"] == [0, 1, 3, 17]
    assert data["departures"][0]["kind"] == "wrong-axis"
    assert data["tree"]["what"] == "o[0, 1, 3, 17]"
    assert data["tree"]["children"]
    assert "departs here: wrong-axis" in json.dumps(data["tree"])


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ((QKT, "scors[0,0,3,5]"), "no tensor 'scors'", "did you mean 'scores'?"),
        ((QKT, "scores[0,0,99,5]"), "there is no element [0, 0, 99, 5]", "scores[0, 0, 15, 15]"),
        ((QKT, "scores[3]"), "there is no element [3]", "the last one"),
        ((QKT, "q[0,0,3,5]"), "'q' is an input", "outputs here: scores"),
        ((QKT, "scores"), "'scores' is no element", "'o[0,0,3,17]'"),
        ((QKT, "scores[0,0,0,0]", "--case", "non"), "no case 'non'", "one_tile"),
        (("nothing.toml", "o[0]"), "no such file", ""),
        ((str(KERNELS / "qkt" / "kernel.cu"), "o[0]"), "is no card", "wmmadiag init"),
    ],
)
def test_mistakes_of_the_user(run: Run, words: tuple[str, ...], message: str, hint: str) -> None:
    answer = run("explain", *words)
    assert answer.code == 2
    assert message in answer.err
    assert hint in answer.err


def test_a_kernel_that_dies(run: Run) -> None:
    answer = run("explain", str(KERNELS / "attention" / "wrong" / "local_array.toml"), "o[0,0,3,5]")
    assert answer.code == 1
    assert "trap" in answer.err


def test_check_with_provenance(run: Run) -> None:
    answer = run("check", WRONG, "--case", "two_heads", "--provenance", "--checks", "none")
    assert answer.code == 1
    assert "the operation needs Q[0,0]·K[0,0]ᵀ" in " ".join(answer.out.split())
    assert "reaches 8192 of 8192 elements of o" in answer.out
    assert run("check", QKT, "--case", "one_tile", "--provenance").code == 0


@pytest.mark.slow
def test_a_kernel_that_never_ends(run: Run, tmp_path: Path) -> None:
    source = (KERNELS / "qkt" / "kernel.cu").read_text()
    entry = source.index("{", source.index("__global__")) + 1
    (tmp_path / "kernel.cu").write_text(f"{source[:entry]} while (blockDim.x) __syncthreads(); {source[entry:]}")
    (tmp_path / "kernel.toml").write_text((KERNELS / "qkt" / "kernel.toml").read_text())
    answer = run("explain", str(tmp_path / "kernel.toml"), "scores[0,0,0,0]", "--budget-seconds", "1")
    assert answer.code == 3
    assert "did not end within its budget of 1 s" in answer.err
    assert "--budget-seconds" in answer.err
