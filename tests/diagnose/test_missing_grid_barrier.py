"""Blocks that read what other blocks have yet to write: a barrier of the grid is missing, not a value."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.diagnose.engine import diagnose_card, failing_evidence
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.subject.card_files.read import load_card

STYLE = Path(__file__).parent / "public_style"
SYNC = "  cg::this_grid().sync();\n"


def broken(folder: Path, text: str) -> Path:
    for name in ("splitk_gelu.toml", "splitk_gelu_reference.py"):
        shutil.copy(STYLE / name, folder)
    source = (STYLE / "splitk_gelu.cu").read_text("utf-8")
    assert source.count(SYNC) == 1
    (folder / "splitk_gelu.cu").write_text(source.replace(SYNC, text), "utf-8")
    return folder / "splitk_gelu.toml"


@pytest.mark.parametrize("instead", ["  __syncthreads();\n", ""])
def test_a_barrier_of_the_block_does_not_order_blocks(tmp_path: Path, instead: str) -> None:
    found = diagnose_card(load_card(broken(tmp_path, instead)), seconds=40.0)
    first = found.causes[0]
    assert (first.hypothesis, first.verdict) == ("missing-barrier", "proven")
    assert first.fix is not None
    assert first.fix.status == "verified"


def test_what_no_block_writes_is_no_matter_of_order(tmp_path: Path) -> None:
    card = broken(tmp_path, SYNC)
    source = tmp_path / "splitk_gelu.cu"
    store = "  tile.store("
    text = source.read_text("utf-8")
    assert text.count(store) == 1
    source.write_text(text.replace(store, "  if (blockIdx.z == 0) tile.store("), "utf-8")
    evidence = failing_evidence(load_card(card))
    assert evidence is not None
    assert not isinstance(all_hypotheses()["missing-barrier"].test(evidence), tuple)
    assert isinstance(all_hypotheses()["uninitialised-memory"].test(evidence), tuple)
