"""`wmmadiag diagnose`: what it prints, its exit codes, and mistakes of the user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from small_kernels import CARD, RIGHT

from wmmadiag.diagnose.effort import effort_named

if TYPE_CHECKING:
    from conftest import Run

ROOT = Path(__file__).parents[2]
HEADER = """#pragma once
#include <mma.h>
using namespace nvcuda;
__device__ void tile(const half* a, const half* b, float* c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + i, k);
        wmma::load_matrix_sync(fb, b + i * n, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, n, wmma::mem_row_major);
}
"""
BESIDE = """#include "tile.cuh"
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    int r = blockIdx.y * 16, c = blockIdx.x * 16;
    tile(A + r * K, B + c, C + r * N + c, N, K);
}
"""


def card(here: Path, source: str, name: str = "own", **changes: str) -> str:
    Path(f"{name}.cu").write_text(source)
    text = CARD.format(name=name, source=f"{name}.cu", second="two")
    for old, new in changes.items():
        text = text.replace(old, new)
    Path(f"{name}.toml").write_text(text)
    return f"{name}.toml"


PITCH = RIGHT.replace("A + r * K + k, K", "A + r * K + k, N")


@pytest.mark.slow
def test_a_wrong_kernel_in_words_and_as_data_twice_the_same(run: Run, here: Path, tmp_path_factory) -> None:
    record = tmp_path_factory.mktemp("data") / "found.json"
    path = card(here, PITCH)
    before = sorted(here.iterdir())
    answer = run("diagnose", path, "--effort", "quick", "--json", record)
    assert answer.code == 1
    assert "[leading-dimension]" in answer.out
    assert "own.cu:14" in answer.out
    assert "--- a/own.cu" in answer.out
    assert "ruled out" in answer.out
    assert "repeat: wmmadiag diagnose own.toml" in answer.out
    assert sorted(here.iterdir()) == before, "a diagnosis leaves nothing behind"
    found = json.loads(record.read_text("utf-8"))
    schema = json.loads((ROOT / "wmmadiag/report/schema.json").read_text("utf-8"))
    assert found.pop("format_version") == 1
    jsonschema.validate(found, {"$ref": "#/$defs/Diagnosis", "$defs": schema["$defs"]})
    assert found["outcome"] == "diagnosed"
    assert found["causes"][0]["place"].startswith("own.cu:14")
    assert found["causes"][0]["fix"]["status"] == "verified"
    assert found["cases"] == {"one": "passed", "two": "failed"}
    assert found["work"]["effort"] == "quick"
    assert 0 < found["work"]["changes"] <= effort_named("quick").changes
    assert found["repeat"].endswith("--effort quick")
    again = run("diagnose", path, "--effort", "quick", "--json", "-")
    assert again.code == 1
    second = json.loads(again.out)
    assert second.pop("format_version") == 1
    assert found.pop("seconds") >= 0
    assert second.pop("seconds") >= 0
    assert found == second


def test_a_right_kernel(run: Run, here: Path) -> None:
    answer = run("diagnose", "right.toml")
    assert answer.code == 0
    assert "nothing is wrong: 2 cases" in answer.out


@pytest.mark.slow
def test_a_bug_in_a_header(run: Run, here: Path) -> None:
    Path("tile.cuh").write_text(HEADER)
    path = card(here, BESIDE)
    Path(path).write_text(Path(path).read_text().replace("M = 16, N = 16, K = 16", "M = 16, N = 32, K = 16"))
    cause = json.loads(run("diagnose", path, "--json", "-", "--effort", "normal").out)["causes"][0]
    assert cause["name"] == "leading-dimension"
    assert Path(cause["place"].split(":")[0]).name == "tile.cuh"
    assert cause["place"].split(":")[1] == "12"
    assert cause["fix"]["status"] == "verified"
    assert "tile.cuh" in cause["fix"]["diff"].splitlines()[0]
    assert "+        wmma::load_matrix_sync(fb, b + i * n, n);" in cause["fix"]["diff"]
    assert Path("tile.cuh").read_text() == HEADER


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("nothing.toml",), "no such file", ""),
        (("wrong.toml", "--case", "non"), "no case 'non'", "one"),
        (("wrong.toml", "--variant", "other"), "no variant", ""),
        (("wrong.toml", "--checks", "race"), "unknown check 'race'", "races"),
        (("wrong.toml", "--backend", "cpu"), "unknown backend 'cpu'", "emulator"),
        (("wrong.toml", "--inputs", "gausian"), "unknown distribution 'gausian'", "normal"),
        (("gemm.cu", "--computes", "gem"), "unknown operation 'gem'", "'gemm' or 'gemv'"),
    ],
)
def test_mistakes_of_the_user(run: Run, here: Path, words: tuple[str, ...], message: str, hint: str) -> None:
    answer = run("diagnose", *words)
    assert answer.code == 2
    assert message in answer.err
    assert hint in answer.err


@pytest.mark.parametrize("value", ["500", "soon", ""])
def test_an_effort_that_is_none(run: Run, here: Path, value: str) -> None:
    try:
        answer = run("diagnose", "wrong.toml", "--effort", value)
    except SystemExit as stopped:
        assert stopped.code == 2
    else:
        assert answer.code == 2


def test_a_card_with_a_typo(run: Run, here: Path) -> None:
    text = Path("wrong.toml").read_text()
    Path("typo.toml").write_text(text.replace('operation = "gemm"', 'operatoin = "gemm"'))
    answer = run("diagnose", "typo.toml")
    assert answer.code == 2
    assert "typo.toml:" in answer.err
    assert "computes lacks 'operation'" in answer.err


@pytest.mark.slow
def test_a_source_that_does_not_compile(run: Run, here: Path) -> None:
    answer = run("diagnose", card(here, RIGHT.replace("sum, a, b, sum", "sum, a, b, sun")), "--effort", "quick")
    assert answer.code == 2
    assert 'identifier "sun" is undefined' in answer.out
    assert "[refused]" in answer.out
    assert "own.cu:16:35" in answer.out


def test_an_empty_source(run: Run, here: Path) -> None:
    answer = run("diagnose", card(here, ""), "--effort", "quick")
    assert answer.code == 2
    assert "no kernel 'gemm'" in answer.out
    assert "[refused]" in answer.out


def test_a_kernel_that_does_nothing(run: Run, here: Path) -> None:
    head = RIGHT[: RIGHT.index("{\n    int r")]
    found = json.loads(run("diagnose", card(here, f"{head}{{}}\n"), "--json", "-", "--effort", "quick").out)
    assert found["outcome"] in ("diagnosed", "undecided")
    assert all(cause["verdict"] != "proven" for cause in found["causes"])
    assert "never written" in " ".join(found["symptoms"])


def test_an_instruction_that_is_not_emulated(run: Run, here: Path) -> None:
    odd = '    asm volatile("wgmma.fence.sync.aligned;");\n'
    answer = run("diagnose", card(here, RIGHT.replace("    wmma::store", f"{odd}    wmma::store")), "--effort", "quick")
    assert answer.code in (2, 3)
    assert "wgmma" in answer.out + answer.err
    assert "proven" not in answer.out, "what is not emulated is no mistake of the kernel"
    assert "own.cu:" in answer.out + answer.err


@pytest.mark.slow
def test_a_loop_without_end(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.diagnose.trials.setting import Setting
    from wmmadiag.emulator import Budget
    from wmmadiag.subject import bench

    monkeypatch.setattr(bench, "_USUAL", Budget(instructions=50_000))
    made = Setting.__init__
    monkeypatch.setattr(
        made, "__defaults__", (*(made.__defaults__ or ())[:-1], 50_000)
    )  # of each of hundreds of trials
    source = RIGHT.replace("k += 16)", "k += 0)")
    answer = run("diagnose", card(here, source), "--effort", "quick")
    assert answer.code in (1, 2, 3)
    assert "budget" in answer.out or "did not end" in answer.out or "verified" in answer.out


@pytest.mark.slow
def test_ctrl_c_during_a_search(here: Path) -> None:
    before = sorted(here.iterdir())
    # Wrong in a way that no change mends, so that it is still at it when the signal comes.
    wrong = RIGHT.replace("B + k * N + c, N", "B + (k * 7 + c * 3) % 5, N")
    path = card(here, wrong.replace("A + r * K + k, K", "A + (r * 5 + k * 3) % 7, K"))
    command = [sys.executable, "-m", "wmmadiag", "diagnose", path]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        time.sleep(2.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert sorted(here.iterdir()) == sorted([*before, here / "own.cu", here / "own.toml"])


def test_the_command_that_repeats_it_has_the_inputs(run: Run, here: Path) -> None:
    answer = run("diagnose", card(here, RIGHT), "--seed", "7", "--inputs", "normal", "--effort", "quick")
    assert "--seed 7 --inputs normal" in " ".join(answer.out.split())


@pytest.mark.parametrize("found_by_then", ["right on this case, and not held to the others yet", "right on every case"])
def test_an_interrupt_tells_what_was_found_by_then(run: Run, here: Path, monkeypatch, found_by_then):
    from wmmadiag.diagnose import engine
    from wmmadiag.diagnose.search import Ledger

    noted = Ledger.note

    def note(ledger, outcomes):
        noted(ledger, outcomes)
        if any(one.verdict == "right" for one in outcomes):
            raise KeyboardInterrupt

    def described(*_):
        raise KeyboardInterrupt

    if "not held" in found_by_then:
        monkeypatch.setattr(Ledger, "note", note)
    else:
        monkeypatch.setattr(engine, "described", described)
    answer = run("diagnose", card(here, PITCH))
    assert answer.code == 130 and not answer.out
    first, second = answer.err.splitlines()
    line = next(number for number, text in enumerate(PITCH.splitlines(), 1) if "A + r * K + k, N" in text)
    assert first == "wmmadiag: interrupted"
    assert second.startswith("so far: own / two is wrong; changes tried: ")
    assert found_by_then in second and f"own.cu:{line}: " in second
