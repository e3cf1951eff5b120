"""`check`, `report`, `diagnose` and pytest say the same of the same kernel: the table in docs/ci.md, row by row."""

from __future__ import annotations

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


@pytest.mark.parametrize("what", SUBJECTS)
def test_all_ways_agree(what, here, run):
    code, outcome = table()[what]
    SUBJECTS[what](here)
    few = ["--budget-instructions", "100000"] if what == "it does not end" else []
    assert run("check", "k.toml", "--case", "one", "--json", "run.json", *few)[0] == code
    assert run("report", "run.json")[0] == code
    if not few:  # the engine's own budget takes a minute; tests/cli/test_cli_diagnose.py has such a kernel
        assert run("diagnose", "k.toml", "--case", "one", "--effort", "quick")[0] == code
        words = ["-k", "one", "--wmmadiag-diagnose=no", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", "k.toml", *words]
        last = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[-1]
        assert re.findall(r"\d+ (passed|failed|error)", last) == [outcome]
