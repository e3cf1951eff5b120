"""Two bugs in one file: what mends one of them is kept, and two changes are made at once where neither helps alone."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from wmmadiag.diagnose.changes import Change, TextEdit, Texts, together
from wmmadiag.diagnose.effort import EFFORTS, effort_named
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.diagnose.two_bugs import (
    Which,
    alike_pairs,
    kindred_pairs,
    likeliest_pairs,
    mending_pairs,
    nearer_pairs,
    unseen_pairs,
)
from wmmadiag.subject.card_files.read import load_card

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(Path(__file__).parent / "unseen")]

from diagnosis import right_source, scored  # noqa: E402 - not a package
from expand import expand, expand_pairs  # noqa: E402

KERNELS = ROOT / "kernels"

WRONG = """__global__ void scaled(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t ^ 1];
    y[t] = v * 3.0f;
}
"""


def tried(text: str, old: str, new: str, score: float, verdict: str = "same", kind: str = "expression") -> Tried:
    start = text.index(old)
    change = Change("made", (TextEdit("k.cu", start, start + len(old), new),), kind, "value", f"{new} for {old}")  # type: ignore[arg-type]
    line = text.count("\n", 0, start) + 1
    return Tried(Ranked(change, ("k.cu", line), score), Outcome(change, verdict, 64, 64))  # type: ignore[arg-type]


def test_pairs_are_of_different_places_the_likeliest_first() -> None:
    first, second = tried(WRONG, "t ^ 1", "t", 2.0), tried(WRONG, "3.0f", "2.0f", 1.0)
    same_line, refused = tried(WRONG, "x[t ^ 1]", "x[t]", 3.0), tried(WRONG, "v *", "w *", 9.0, "refused")
    made = likeliest_pairs([first, second, same_line, refused], 10)
    assert [(one.first.line[1], one.second.line[1], one.score) for one in made] == [(3, 4, 4.0), (3, 4, 3.0)]
    assert made[0].both.edits == (*same_line.ranked.change.edits, *second.ranked.change.edits)


def test_what_is_done_twice_on_one_line_is_a_pair() -> None:
    text = "y = p.y + i, x = p.x + j;\n"
    parts = [tried(text, "+ i", "+ i - 1", 0.0), tried(text, "+ j", "+ j - 1", 0.0), tried(text, "p.x + j", "p.x", 9.0)]
    (made,) = alike_pairs(parts, {"k.cu": text.encode()}, 10)
    assert {edit.text for edit in made.both.edits} == {"+ i - 1", "+ j - 1"}


def test_a_pair_of_several_groups_stands_where_it_is_likeliest() -> None:
    """Each is in a group of what is done, of that in one role, and of that whatever the names."""
    text = "a = i * n;\nb = j * n;\nc = k / n;\nd = l / n;\ne = o * p;\nf = o / p;\ng = q + p;\n"
    roles = ("pitch", "pitch", "x", "y", "pitch", "z", "v")
    parts = []
    for line, role in zip(text.splitlines(), roles, strict=True):
        one, at = tried(text, line, "", 0.0), text.index(line) + len("a = i * ")
        edit = replace(one.ranked.change.edits[0], start=at, end=at + 1, text="m + 1" if line[8] == "n" else "r + 1")
        change = replace(one.ranked.change, edits=(edit,), role=role)
        parts.append(
            replace(one, ranked=replace(one.ranked, change=change), outcome=replace(one.outcome, change=change))
        )
    made = alike_pairs(parts, {"k.cu": text.encode()}, 50)
    assert len(made) == len({one.both for one in made}) == 21
    assert {made[0].first.change.role, made[0].second.change.role} == {"pitch"}
    assert [one.score for one in made] == sorted((one.score for one in made), reverse=True)


def test_where_no_number_tells_anything_the_same_is_done_at_two_places_all_the_same() -> None:
    text = "t[0][i] = x;\ny = t[0][j];\n"
    idle = [tried(text, "t[0][i]", "t[w][i]", 0.0), tried(text, "t[0][j]", "t[w][j]", 0.0)]
    idle = [replace(one, outcome=replace(one.outcome, idle=True)) for one in idle]
    assert alike_pairs(idle, {"k.cu": text.encode()}, 10) == []
    (made,) = unseen_pairs([one.ranked for one in idle], {"k.cu": text.encode()}, 10)
    assert [one.text for one in made.both.edits] == ["t[w][i]", "t[w][j]"]


TWICE = """a = i / n;
b = i % n;
c = i / n;
d = i + n;
"""


def test_what_is_done_twice_or_undone_elsewhere_is_a_pair() -> None:
    parts = [
        tried(TWICE, "i / n", "i % n", 0.0),
        tried(TWICE, "i % n", "i / n", 0.0),
        tried(TWICE.replace("i / n", "i # n", 1), "i / n", "i % n", 0.0),  # the other one
        tried(TWICE, "i + n", "i - n", 5.0),
    ]
    made = alike_pairs(parts, {"k.cu": TWICE.encode()}, 10)
    assert [(one.first.line[1], one.second.line[1]) for one in made] == [(1, 2), (2, 3), (1, 3)]  # near ones first
    # The second one is one of three places; log 3 less, and the distance.
    assert made[0].score == pytest.approx(-math.log(3)) and made[0].score > made[2].score
    idle = [replace(one, outcome=replace(one.outcome, idle=True)) for one in parts]
    assert alike_pairs(idle[:3], {"k.cu": TWICE.encode()}, 10) == []  # neither changes a bit
    assert len(alike_pairs([idle[0], parts[1]], {"k.cu": TWICE.encode()}, 10)) == 1  # one may hide the other


BOTH = """lo[i] = (x + add) * low;
hi[i] = (y + add) * high;
at[i] = x - y;
"""


def test_what_is_done_to_other_names_beside_it_is_a_pair_and_one_name_for_another_is_none() -> None:
    texts = {"k.cu": BOTH.encode()}
    grouped = [
        tried(BOTH, "(x + add) * low", "x * low + add", 0.0),
        tried(BOTH, "(y + add) * high", "y * high + add", 0.0),
    ]
    assert [(one.first.line[1], one.second.line[1]) for one in alike_pairs(grouped, texts, 10)] == [(1, 2)]
    named = [tried(BOTH, "low", "x", 0.0), tried(BOTH, "high", "y", 0.0)]
    assert alike_pairs(named, texts, 10) == []


def test_what_brings_results_nearer_is_tried_beside_the_rest_and_one_operator_twice() -> None:
    first, second, third = (tried(TWICE, old, "0", 0.0) for old in ("a = i", "b = i", "c = i"))
    nearer = replace(third, outcome=replace(third.outcome, nearer=0.5))
    idle = replace(second, outcome=replace(second.outcome, idle=True))
    made = nearer_pairs([first, idle, nearer], 10)
    assert [(one.first.line[1], one.second.line[1]) for one in made] == [(1, 3)]
    assert nearer_pairs([first, second, third], 10) == []
    other = replace(second, ranked=replace(second.ranked, change=replace(second.ranked.change, operator="other")))
    kindred = kindred_pairs([first, other, third], 10)
    assert [(one.first.line[1], one.second.line[1]) for one in kindred] == [(1, 3)]


def test_names_that_were_exchanged_in_two_statements_are_a_pair() -> None:
    text = "x = f(a) + g[a];\ny = f(b) + g[b];\n"

    def every(old: str, new: str) -> Tried:
        places = [at for at in range(len(text)) if text[at] == old and not text[at - 1].isspace()]
        edits = tuple(TextEdit("k.cu", at, at + 1, new) for at in places)
        change = Change("everywhere", edits, "expression", "index", f"{new} for every {old}")
        line = text.count("\n", 0, places[0]) + 1
        return Tried(Ranked(change, ("k.cu", line), 0.0), Outcome(change, "same", 64, 64))

    parts = [every("a", "b"), every("b", "a"), every("b", "c")]
    made = alike_pairs(parts, {"k.cu": text.encode()}, 10)
    assert [one.both.edits for one in made] == [(*parts[0].ranked.change.edits, *parts[1].ranked.change.edits)]


def test_few_pairs_are_compiled_alone() -> None:
    parts = [tried(WRONG, "t ^ 1", "t", 1.0, kind="statement"), tried(WRONG, "3.0f", "2.0f", 0.0)]
    assert len(likeliest_pairs(parts, 8)) == 1  # of different kinds, in one program all the same
    static = [parts[0], tried(WRONG, "3.0f", "2.0f", 0.0, kind="static")]
    assert len(likeliest_pairs(static, 64)) == 1 and likeliest_pairs(static, 8) == []


def test_two_changes_mend_what_neither_mends_alone(tmp_path: Path) -> None:
    """Both operands of a product are read from wrong places: every element is wrong until both are mended."""
    name = "blas_ldb_is_n"
    text = (KERNELS / f"gemm/wrong/{name}.cu").read_text("utf-8").replace("A + i + p * m, m", "A + i + p, m")
    (tmp_path / f"{name}.cu").write_text(text, "utf-8")
    (tmp_path / f"{name}.toml").write_text((KERNELS / f"gemm/wrong/{name}.toml").read_text("utf-8"), "utf-8")
    # On lines of their own, so that they are two places.
    text = text.replace("m, B + p", "m,\n        B + p")
    (tmp_path / f"{name}.cu").write_text(text, "utf-8")
    card = load_card(tmp_path / f"{name}.toml")
    bench = TrialBench(Setting(card, card.variants[0], card.case("odd")))
    file = str(card.source)

    def alone(old: str, new: str, after: str = "") -> Tried:
        start = text.index(old, text.index(after) + len(after))
        change = Change("made", (TextEdit(file, start, start + len(old), new),), "expression", "index", new)
        (outcome,) = bench.try_batch([change])
        return Tried(Ranked(change, (file, text.count("\n", 0, start) + 1), 0.0), outcome)

    one, other = alone("A + i + p", "A + i + p * m"), alone("n", "k", "j * k, ")
    other_line = alone("threadIdx.y % 2", "threadIdx.y")
    assert {one.outcome.verdict, other.outcome.verdict}.isdisjoint({"right", "refused"})
    ledger = Ledger(effort_named("normal"))
    found = next(mending_pairs(bench, [other_line, one, other], 100, ledger, lambda _: None))
    assert [{pair.first.change, pair.second.change} for pair, _ in found] == [{one.ranked.change, other.ranked.change}]
    assert list(mending_pairs(bench, [other_line, one], 100, ledger, lambda _: None)) == []


@pytest.mark.slow
@pytest.mark.slow
def test_what_mends_one_case_is_kept_and_the_search_goes_on_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layout that spoils every case, and a leading dimension that spoils those that are not square.

    Places are filled, and less likely changes tried, for one that mends all: in vain, and not here.
    """
    monkeypatch.setitem(cast(Any, EFFORTS), "normal", replace(EFFORTS["normal"], filled=0, wider=0))
    expand_pairs(tmp_path, Path(__file__).parent / "public_style", seed=3)
    card = tmp_path / "simple_wmma/wrong/lda_is_k_and_b_row_major.toml"
    found = diagnose_card(load_card(card))
    assert found.outcome == "diagnosed" and len(found.causes) == 2
    truth = tomllib.loads(card.with_suffix(".truth.toml").read_text("utf-8"))
    right = right_source(card.with_suffix(".cu"), truth)
    one = scored("x/wrong/two.toml", truth, found, 0.0, right)
    assert one.both and one.fixed and not one.misled
    assert [cause.fix.diff != "" for cause in found.causes if cause.fix is not None] == [False, True]


def test_pairs_are_tried_for_a_part_of_the_work_only() -> None:
    text = "\n".join(f"a{number};" for number in range(100))

    class Costly:
        batches = 0
        texts: ClassVar[Texts] = {"k.cu": text.encode()}

        def try_pairs(self, pairs: Sequence[tuple[Change, Change]]) -> list[Outcome]:
            self.batches += 1
            return [Outcome(together(*one), "same", 64, work=10) for one in pairs]

    every = [tried(text, f"a{number};", "b;", 0.0) for number in range(100)]
    # Those of the likeliest changes are made of 96 of them; those that are tried soon get a smaller part.
    limits: Sequence[tuple[Which, bool, int, int]] = (
        ("any", False, 10**9, 4), ("any", False, 10, 1), ("likeliest", True, 10**9, 4),
        ("likeliest", True, 16 * 15_000, 2), ("kindred", True, 16 * 15_000, 2), ("kindred", False, 16 * 15_000, 4),
    )  # fmt: skip
    for which, soon, instructions, batches in limits:
        bench, ledger = Costly(), Ledger(replace(effort_named("normal"), instructions=instructions))
        assert list(mending_pairs(bench, every, 4000, ledger, lambda _: None, which=which, soon=soon)) == []
        assert bench.batches == batches


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["heads_and_sum"])
def test_what_mends_one_case_is_kept_and_the_other_mistake_looked_for(tmp_path: Path, bug: str) -> None:
    """The smallest case has one head alone, in which the second mistake shows nothing."""
    expand(tmp_path, Path(__file__).parent / "blind19")
    path = tmp_path / "decode_gqa" / "wrong" / f"{bug}.toml"
    truth = tomllib.loads(path.with_name(f"{bug}.truth.toml").read_text("utf-8"))
    found = diagnose_card(load_card(path), threads=1)
    assert scored(f"decode_gqa/wrong/{bug}.toml", truth, found, 0.0).both
