"""What a change leaves undone or does for nothing in shared memory: then who else touches that memory is asked, too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit, applied, by_path
from wmmadiag.diagnose.engine import case_bench, diagnose_card
from wmmadiag.diagnose.waste import meeting_lines, wasted
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import load_card

SET = Path(__file__).parent / "blind37"
STORED = "p[j] = __float2half(e);\n            }\n"
CLEARED = STORED + "            for (int j = BC; j < D; j++) p[j] = half(0.0f);\n"


@pytest.fixture
def card(tmp_path: Path) -> Card:
    """Attention whose second product goes on behind the tile of probabilities that there is."""
    text = (SET / "flash_tc_project.cu").read_text("utf-8")
    at = text.index("matrix_a, 16, 16, 16, half, wmma::row_major> p_frag")
    loop = text.rindex("kk < BC", 0, at)
    (tmp_path / "flash_tc_project.cu").write_text(text[:loop] + "kk < D" + text[loop + len("kk < BC") :], "utf-8")
    shutil.copy(SET / "flash_tc_project.toml", tmp_path)
    return load_card(tmp_path / "flash_tc_project.toml")


def test_what_is_cleared_for_nothing_is_seen_and_who_reads_it(card: Card) -> None:
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "none", None, "", None)
    case = next(one for one in bench.cases() if one.name == "causal, heads of 64")
    text = bench.source.read_text("utf-8")
    start = text.index(STORED)
    reader = text[: text.index("Ps + wrow")].count("\n") + 1
    told = {}
    for new in (CLEARED, STORED + "            row_a[r] = 1.0f;\n"):
        edit = TextEdit(str(bench.source), start, start + len(STORED), new)
        change = Change("made", (edit,), "insertion", "value", "")
        texts = by_path(applied({str(bench.source): text.encode()}, [change]))
        first, mended = bench.run(case), bench.run(case, texts)
        sources = {str(bench.source): parse(text.encode(), str(bench.source))}
        told[new] = list(wasted(first, [mended])), {line for _, line in meeting_lines(first, mended, sources, texts)}
    sentences, met = told[CLEARED]
    assert any("stored again before they are read" in one for one in sentences)
    assert reader in met
    assert reader not in told[STORED + "            row_a[r] = 1.0f;\n"][1]


def test_the_reader_of_what_a_change_clears_is_the_better_answer(card: Card) -> None:
    (cause,) = diagnose_card(card, threads=2).causes
    line = Path(card.source).read_text("utf-8").splitlines()[int(cause.place.rsplit(":", 1)[1]) - 1]
    assert "kk < D" in line and cause.verdict == "likely" and cause.fix is not None
    assert any("mends it as well" in one for one in cause.evidence)
