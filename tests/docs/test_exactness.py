"""docs/exactness.md is what its program writes: a sentence that is added by hand would be lost the next time."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "vectors"))

from make_exactness import document  # noqa: E402  (needs the path)

COUNTED = re.compile(r"^\*{0,2}[\d,]+ outputs( compared)?, [\d,]+ differ\.\*{0,2}$")
REPLAYED = re.compile(r"^## sm \d+: (tensor cores|instructions|approximations|warps|programs)$")


def sentences(text: str) -> list[str]:
    """All that is neither a row nor a count of the records, which take a minute to replay."""
    lines = [line for line in text.splitlines() if line and not line.startswith("|")]
    return [line for line in lines if not COUNTED.match(line) and not REPLAYED.match(line)]


def test_every_sentence_is_written_by_the_program() -> None:
    assert sentences((ROOT / "docs" / "exactness.md").read_text("utf-8")) == sentences(document([]))


def test_every_run_on_a_gpu_is_told() -> None:
    text = (ROOT / "docs" / "exactness.md").read_text("utf-8")
    assert "first-seed 7` on an NVIDIA H200" in text
    assert "| 2026-11-26 | NVIDIA H100, CUDA 13.0, without whole kernels | 7 | 1,132,993,932 | 2 |" in text
