"""`check`, `report`, `diagnose` and pytest say the same of the same kernel: the table in docs/ci.md, row by row."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_kernels import CARD, HANG, RIGHT, write_card

ROOT = Path(__file__).parents[2]


def source(old: str = "", new: str = "") -> Callable[[Path], None]:
    """Writes the right kernel with one change, and its card."""

    def write(folder: Path) -> None:
        text = RIGHT.replace(old, new) if old else RIGHT
        assert (text != RIGHT) == bool(old)
        (folder / "gemm.cu").write_text(text)
        write_card(folder, "k")

    return write


def card(old: str, new: str) -> Callable[[Path], None]:
    """Writes the right kernel, and its card with one change."""

    def write(folder: Path) -> None:
        source()(folder)
        text = CARD.format(name="k", source="gemm.cu", second="two")
        assert old in text
        (folder / "k.toml").write_text(text.replace(old, new))

    return write


def hangs(folder: Path) -> None:
    (folder / "gemm.cu").write_text(HANG.replace("hang(", "gemm("))
    write_card(folder, "k")


OVER_48K = "__shared__ float big[20000]; big[threadIdx.x] = 1; C[0] = big[threadIdx.x]; int r ="
LATENT = "__shared__ int last; last = K; if (last != K) C[0] = 0; wmma::store"
SUBJECTS = {
    "it is right": source(),
    "numbers are wrong": source("0.0f", "1.0f"),
    "lanes write the same value to one place": source("wmma::store", LATENT),
    "it reads out of bounds": source("A + r * K", "A - 4096 + r * K"),
    "it traps": source("int r =", 'asm volatile("trap;"); int r ='),
    "the chip refuses its launch": source("int r =", OVER_48K),
    "it does not compile": source("int r =", "int r = undeclared +"),
    "it holds what is not emulated": source("int r =", 'asm volatile("wgmma.fence.sync.aligned;"); int r ='),
    "it does not end": hangs,
    "the card names an unknown symbol": card('value = "K"', 'value = "Q"'),
    "the card has an unknown key": card('entry = "gemm"', 'enrty = "gemm"'),
    "the card asks for too many threads": card("block = 32", "block = 2048"),
    "the card's source is missing": card('source = "gemm.cu"', 'source = "gone.cu"'),
}


def table() -> dict[str, tuple[int, str]]:
    """Of docs/ci.md: the exit code and pytest's outcome, by what is so of the kernel."""
    text = (ROOT / "docs" / "ci.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| (\d) \| (\w+) \|$", text, re.MULTILINE)
    return {what: (int(code), outcome) for what, code, outcome in rows}


def test_the_table_has_a_row_for_each_subject():
    assert list(table()) == list(SUBJECTS)


ENDLESS = "it does not end"
"""The engine's own budget takes a minute: tests/cli/test_cli_diagnose.py has such a kernel."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, session_cache) -> dict[str, list[str]]:
    """What one run of pytest says of every subject: passed, failed or error."""
    folder = tmp_path_factory.mktemp("subjects")
    folders = {f"subject_{number}": what for number, what in enumerate(SUBJECTS) if what != ENDLESS}
    for name, what in folders.items():
        (folder / name).mkdir()
        SUBJECTS[what](folder / name)
    words = ["-rA", "-k", "one", "--wmmadiag-diagnose=no", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    printed = subprocess.run(
        [sys.executable, "-m", "pytest", *(f"{name}/k.toml" for name in folders), *words],
        capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "WMMADIAG_CACHE_DIR": str(session_cache)},
    ).stdout  # fmt: skip
    said = re.findall(r"^(PASSED|FAILED|ERROR) (subject_\d+)/k\.toml", printed, re.MULTILINE)
    return {what: [how.lower() for how, of in said if of == name] for name, what in folders.items()}


@pytest.mark.parametrize("what", SUBJECTS)
@pytest.mark.corpus
def test_all_ways_agree(what, here, run, outcomes):
    code, outcome = table()[what]
    SUBJECTS[what](here)
    few = ["--budget-instructions", "100000"] if what == ENDLESS else []
    assert run("check", "k.toml", "--case", "one", "--json", "run.json", *few)[0] == code
    assert run("report", "run.json")[0] == code
    if not few:
        assert run("diagnose", "k.toml", "--case", "one", "--effort", "quick")[0] == code
        assert outcomes[what] == [outcome]
