"""What a change moves in shared memory at one end, where the other end stands in several places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit, applied, by_path
from wmmadiag.diagnose.engine import case_bench, diagnose_card
from wmmadiag.diagnose.excerpts import listed
from wmmadiag.diagnose.two_ends import other_end_in_several
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import load_card

SET = Path(__file__).parent / "blind40"
PADDED, DENSE = "load_smem_a_m * (BK + A_PAD) + load_smem_a_k", "load_smem_a_m * BK + load_smem_a_k"
READ, READ_DENSE = "lane_smem_a_m * (BK + A_PAD) + lane_smem_a_k", "lane_smem_a_m * BK + lane_smem_a_k"


@pytest.fixture
def card(tmp_path: Path) -> Card:
    """A product whose stages are filled ahead of the loop and in it, without padding, and read with it."""
    text = (SET / "hgemm_mma_stage.cu").read_text("utf-8")
    assert text.count(PADDED) == 2 and text.count(READ) == 1
    (tmp_path / "hgemm_mma_stage.cu").write_text(text.replace(PADDED, DENSE), "utf-8")
    (tmp_path / "hgemm_mma_stage.toml").write_text((SET / "hgemm_mma_stage.toml").read_text("utf-8"), "utf-8")
    return load_card(tmp_path / "hgemm_mma_stage.toml")


def at_the_other_end(card: Card, edits: Sequence[tuple[str, str]]) -> list[str]:
    """The lines that meet what these texts do once they are changed."""
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "none", None, "", None)
    case = next(one for one in bench.cases() if one.name == "rows ragged, last stripe narrower")
    text, file = bench.source.read_text("utf-8"), str(bench.source)
    made, at = [], 0
    for old, new in edits:
        at = text.index(old, at) + 1
        made.append(TextEdit(file, at - 1, at - 1 + len(old), new))
    texts = by_path(applied({file: text.encode()}, [Change("mapped", tuple(made), "expression", "pitch", "")]))
    sources = {file: parse(text.encode(), file)}
    lines = other_end_in_several(bench.run(case), bench.run(case, texts), sources, texts)
    return [text.split("\n")[line - 1].strip() for _, line in lines]


def test_who_fills_in_two_places_what_one_line_reads_may_be_wrong_alike(card: Card) -> None:
    filled = at_the_other_end(card, [(READ, READ_DENSE)])
    assert len(filled) == 2 and all(one.startswith("CP_ASYNC_CG_ZFILL(load_smem_a_ptr") for one in filled)


def test_a_change_of_the_several_places_themselves_is_no_such_thing(card: Card) -> None:
    assert at_the_other_end(card, [(DENSE, PADDED), (DENSE, PADDED)]) == []


def test_nothing_is_proven_by_the_end_that_stands_alone(card: Card) -> None:
    first = diagnose_card(card, threads=2).causes[0]
    assert first.verdict == "likely" and any(
        "in shared memory: they may be what is wrong" in one for one in first.evidence
    )


def test_lines_are_named_as_people_do() -> None:
    assert listed([("/a/k.cu", 3), ("/a/k.cu", 7), ("/a/k.cu", 9)]) == "k.cu:3, k.cu:7 and k.cu:9"
