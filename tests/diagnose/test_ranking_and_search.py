"""Where to look first, and when a search may end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.effort import EFFORTS, Effort, effort_named
from wmmadiag.diagnose.names import NAMES, every_name, name_of
from wmmadiag.diagnose.operators.roles import ROLES
from wmmadiag.diagnose.ranking import Ranked, agreeing, changed_tokens, fitted, partly, ranked
from wmmadiag.diagnose.search import PARTS, Ledger, Tried, helpful, helpful_at_once, search, suspects
from wmmadiag.diagnose.suspicion import Suspicion, marks, suspicion
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

KERNEL = """#define PITCH 40
__device__ int row_of(int lane) {
    return lane / 4;
}
__global__ void k(float* out, const float* in, int n) {
    __shared__ float tile[16 * PITCH];
    int lane = threadIdx.x;
    int unused = n + 1;
    int row = row_of(lane);
    tile[row * PITCH] = in[row];
    for (int i = 0; i < n; ++i) {
        int at = row * PITCH + i;
        out[i] = tile[at];
    }
}
"""


@pytest.fixture(scope="module")
def dependences() -> Dependences:
    return Dependences({"k.cu": parse(KERNEL, "k.cu")})


def test_a_line_depends_on_what_its_names_are_made_of(dependences: Dependences) -> None:
    far = {line: steps for (_, line), steps in dependences.distances([("k.cu", 13)]).items()}
    assert far[13] == 0
    assert far[12] == 1 and far[10] == 1 and far[11] == 1  # the index, what was stored, the loop around it
    assert far[9] == 2 and far[1] == 2
    assert far[3] <= 4  # what the helper returns
    assert 8 not in far


def test_a_call_leads_to_what_it_calls(dependences: Dependences) -> None:
    assert dependences.called_from([("k.cu", 9)]) == {("k.cu", 3)}
    assert dependences.called_from([("k.cu", 8)]) == set()
    assert dependences.called_from([], ["row_of", "lane"]) == dependences.called_from([("k.cu", 9)])


def test_findings_and_faults_mark_their_lines() -> None:
    finding = Finding("races", "write-read", Level.ERROR, "two threads", Place("k.cu", 10), Place("k.cu", 13))
    advice = Finding("banks", "conflict", Level.ADVICE, "slow", Place("k.cu", 11))
    found = marks([finding, advice], None, Place("k.cu", 3))
    assert [(one.line, one.kind) for one in found] == [
        (("k.cu", 10), "finding"),
        (("k.cu", 13), "finding"),
        (("k.cu", 3), "fault"),
    ]


def test_a_fault_marks_the_calls_that_led_to_it() -> None:
    wrapped = Place("k.cu", 3, inlined_at=Place("k.cu", 10))
    found = marks([], None, Place("/usr/local/cuda/include/crt/mma.hpp", 77, inlined_at=wrapped))
    assert [(one.line, one.kind) for one in found] == [(("k.cu", 3), "fault"), (("k.cu", 10), "fault")]


def changing(line: int, old: str, new: str, operator: str = "number", role: str = "index") -> Change:
    start = sum(len(text) + 1 for text in KERNEL.split("\n")[: line - 1])
    start = KERNEL.index(old, start)
    return Change(operator, (TextEdit("k.cu", start, start + len(old), new),), "expression", role, f"{new} for {old}")


def test_a_change_nearer_to_evidence_comes_first(dependences: Dependences) -> None:
    near, far = changing(13, "at", "i"), changing(8, "1", "2")
    evidence = suspicion(marks([], None, Place("k.cu", 13)), dependences)
    weights = {"fault:0": 2.0, "fault:never": -1.0}
    found = ranked([far, near], {"k.cu": parse(KERNEL, "k.cu")}, evidence, weights)
    assert [one.change for one in found] == [near, far]
    assert found[0].line == ("k.cu", 13) and found[0].score > found[1].score


def test_equally_likely_changes_keep_their_order() -> None:
    changes = [changing(12, "row", name) for name in ("lane", "n", "i")]
    found = ranked(changes, {"k.cu": parse(KERNEL, "k.cu")}, Suspicion({}), {})
    assert [one.change for one in found] == changes


def test_tokens_that_stay_are_not_counted() -> None:
    source = parse("x = a * b + c;")
    assert changed_tokens(TextEdit("", 4, 13, "a * d + c"), source) == 1
    assert changed_tokens(TextEdit("", 4, 13, "a * b"), source) == 2
    assert changed_tokens(TextEdit("", 0, 0, "__syncthreads();"), source) == 4


def test_every_weight_is_of_a_feature_and_finite() -> None:
    weights = fitted()
    assert weights and all(math.isfinite(value) for value in weights.values())
    kinds = {name.split(":")[0] for name in weights if ":" in name}
    of_one_thing = {kind for kind in kinds if " " not in kind}
    assert of_one_thing <= {
        "operator", "role", "kind", "tokens", "edits", "finding", "fault", "departure", "consequence", "value", "work",
        "nth", "natural", "feeds", "reader",
    }  # fmt: skip
    of_two = {kind for kind in kinds - of_one_thing if not kind.endswith((" nth", " feeds"))}
    assert {kind.split()[0] for kind in of_two} <= {"seen", "near", "at", "where", "natural"}


class _Trials:
    """A bench on which the changes of some numbers are right, and of some mend a part."""

    cost_apart, spread = 6.0, 1

    def __init__(self, right: Sequence[int], better: Sequence[int] = (), seen_with: int = 1) -> None:
        self.right, self.better, self.seen_with = set(right), set(better), seen_with
        self.tried: list[int] = []
        self.texts = {"k.cu": KERNEL.encode()}

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        outcomes = []
        for change in changes:
            number = int(change.note)
            self.tried.append(number)
            helps = number in self.better and looks >= self.seen_with
            verdict = "right" if number in self.right else "better" if helps else "same"
            mended = 100 if verdict == "right" else number if helps else 0
            outcomes.append(Outcome(change, verdict, 100, 100 - mended, mended, left=100 - mended, work=10))
        return outcomes

    def keeping(self, *changes: Change) -> _Trials:
        return self


def changes(scores: Sequence[float]) -> list[Ranked]:
    edit = (TextEdit("k.cu", 0, 1, ""),)
    return [
        Ranked(Change("number", edit, "expression", "index", str(number)), ("k.cu", 1 + number), score)
        for number, score in enumerate(scores)
    ]


NORMAL = EFFORTS["normal"]


def test_a_search_ends_when_nothing_left_could_be_likelier() -> None:
    ranks = changes([5.0] * 100 + [-9.0] * 4000)
    trials, ledger = _Trials([3]), Ledger(NORMAL)
    found = search(trials, ranks, ledger, lambda _: None)
    assert found[0].ranked.change.note == "3" and found[0].outcome.verdict == "right"
    assert len(trials.tried) < 1000 and not ledger.complete and ledger.left > -math.inf


def test_a_search_goes_on_where_what_is_left_is_as_likely() -> None:
    trials, ledger = _Trials([3, 900]), Ledger(NORMAL)
    found = search(trials, changes([0.0] * 1300), ledger, lambda _: None)
    assert sorted(trials.tried) == list(range(1300)) and ledger.complete and ledger.left == -math.inf
    assert {one.ranked.change.note for one in found if one.outcome.verdict == "right"} == {"3", "900"}


class _Deferring(_Trials):
    """A bench that tries some changes only where they come as what needs a text of its own."""

    def __init__(self, right: Sequence[int], alone: Sequence[int]) -> None:
        super().__init__(right)
        self.alone = set(alone)

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        first = {one for one in changes if defers and int(one.note) in self.alone}
        self.alone -= {int(one.note) for one in first}
        done = iter(super().try_batch([one for one in changes if one not in first]))
        return [Outcome(one, "deferred", 100) if one in first else next(done) for one in changes]


def test_what_needs_a_text_of_its_own_is_tried_behind_what_is_as_likely() -> None:
    trials, ledger = _Deferring([900], [3, 5]), Ledger(NORMAL)
    ranks = [*changes([2.0] * 300), *changes([1.0] * 600)[300:], *changes([-9.0] * 1000)[600:]]
    found = search(trials, ranks, ledger, lambda _: None)
    assert sorted(trials.tried) == list(range(1000)) and ledger.changes == 1000
    assert trials.tried.index(3) >= 300 and trials.tried.index(5) < 700
    assert {one.ranked.change.note for one in found if one.ranked.apart} == {"3", "5"}
    assert not any(one.deferred for one in found)


def test_what_does_the_same_on_several_lines_ends_a_search_later() -> None:
    ranks = changes([5.0] * 100 + [0.0] * 8000)
    alone, several = (_Trials([3]) for _ in range(2))
    search(alone, ranks, Ledger(NORMAL), lambda _: None)
    search(several, [replace(one, alike=2) for one in ranks], Ledger(NORMAL), lambda _: None)
    assert len(alone.tried) < len(several.tried) < len(ranks)


def test_what_mends_a_part_brings_the_other_changes_of_its_line_forward() -> None:
    ranks = [replace(one, line=("k.cu", int(one.change.note) % 50)) for one in changes([0.0] * 1000)]
    trials, ledger = _Trials([], better=[20]), Ledger(NORMAL)
    tried = search(trials, ranks, ledger, lambda _: None)
    first = PARTS[0]
    others = [number for number in range(first, 1000) if number % 50 == 20]
    assert trials.tried[first : first + len(others)] == others and ledger.partly == {("k.cu", 20)}
    assert {one.ranked.score for one in tried if one.ranked.line == ("k.cu", 20)} == {partly()}
    assert suspects(ranks, ledger)[0] == ("k.cu", 20)


def test_breaking_as_much_as_is_mended_tells_nothing() -> None:
    change = changes([0.0])[0].change
    assert Outcome(change, "worse", 100, None, mended=30, broken=2, left=70).partly
    assert not Outcome(change, "worse", 100, None, mended=30, broken=30, left=70).partly
    assert not Outcome(change, "same", 100, None, mended=1, broken=0, left=99).partly
    assert not Outcome(change, "fault", 100, None, mended=30, broken=0, left=70).partly


def test_a_search_spends_no_more_than_its_effort() -> None:
    little = Effort("little", 300, 10**9, 1, 1, 1, 1, 0, 0, 0)
    trials, ledger = _Trials([]), Ledger(little)
    assert all(one.outcome.verdict != "right" for one in search(trials, changes([0.0] * 5000), ledger, lambda _: None))
    assert ledger.spent and not ledger.complete and ledger.changes == len(trials.tried) < 700
    work = Ledger(Effort("little", 10**6, 3000, 1, 1, 1, 1, 0, 0, 0))
    search(_Trials([]), changes([0.0] * 5000), work, lambda _: None)
    assert work.spent and work.instructions < 9000


def test_one_of_several_bugs_is_looked_for_in_more_blocks() -> None:
    trials, ledger = _Trials([], better=[7, 40], seen_with=2), Ledger(NORMAL)
    tried = search(trials, changes([0.0] * 60), ledger, lambda _: None)
    assert not any(one.outcome.verdict == "better" for one in tried)
    helps = helpful(trials, tried, ledger, lambda _: None)
    assert [one.ranked.change.note for one in helps] == ["40", "7"]


def test_what_mends_elements_is_followed_before_what_only_goes_astray_less() -> None:
    one, other = changes([0.0, 5.0])
    mends = Outcome(one.change, "better", 100, 50, mended=50, left=50)
    does_less = Outcome(other.change, "better", 100, 99, mended=1, left=99, astray=1.0)
    found = helpful_at_once([Tried(other, does_less), Tried(one, mends)])
    assert [tried.outcome for tried in found] == [mends, does_less]


def test_efforts_grow_and_unknown_ones_are_refused() -> None:
    ordered = [EFFORTS[name] for name in ("quick", "normal", "thorough")]
    for less, more in itertools.pairwise(ordered):
        assert less.changes < more.changes and less.instructions < more.instructions and less.bugs < more.bugs
    with pytest.raises(ConfigurationError, match="'endless'"):
        effort_named("endless")


def test_every_role_of_an_expression_has_one_name() -> None:
    listed = [role for name in NAMES for role in name.roles]
    assert len(listed) == len(set(listed))
    assert set(ROLES) <= set(listed)
    assert len({one.id for one in every_name()}) == len(every_name())


@pytest.mark.parametrize(
    ("role", "shown", "name"),
    [
        ("leading dimension", "access", "leading-dimension"),
        ("constant", "access", "index"),
        ("constant", "", "value"),
        ("barrier", "", "missing-order"),
        ("something new", "barrier", "missing-order"),
    ],
)
def test_a_name_follows_from_the_role_and_from_what_the_change_does(role: str, shown: str, name: str) -> None:
    assert name_of(Change("number", (), "expression", role, ""), shown).id == name


def test_a_part_of_the_effort_is_kept_for_what_comes_behind_a_good_part() -> None:
    ledger = Ledger(effort_named("normal"))
    ledger.instructions = ledger.effort.instructions + 5
    assert ledger.spent
    ledger.reserve()
    assert not ledger.spent
    left = ledger.effort.instructions - ledger.instructions
    ledger.reserve()  # it is there already
    assert ledger.effort.instructions - ledger.instructions == left > 0


def test_what_a_change_does_alike_on_several_lines_is_counted() -> None:
    text = b"v += down(v, 1);\nv += down(v, 2);\nw = down(v, 4);\n"
    sources = {"k.cu": parse(text, "k.cu")}

    def lines(*edits: tuple[bytes, str]) -> int:
        made = (TextEdit("k.cu", at := text.index(old), at + len(old), new) for old, new in edits)
        return agreeing(sources, Change("test", tuple(made), "expression", "value", "other calls"))

    assert lines((b"down(v, 1);\nv += down", "up(v, 1);\nv += up")) == 2
    assert lines((b"down(v, 1)", "up(v, 1)"), (b"down(v, 2)", "up(v, 2)"), (b"down(v, 4)", "up(v, 4)")) == 3
    assert lines((b"down(v, 1)", "up(v, 1)")) == 0
    assert lines((b"down(v, 1)", "up(v, 1)"), (b"4", "8")) == 0
    assert lines((b"v += down(v, 2)", "v = down(v, 1) + down(v, 2)")) == 0


def test_a_part_of_what_the_effort_had_at_first_is_kept_whatever_was_spent() -> None:
    ledger = Ledger(replace(NORMAL, instructions=800))
    ledger.instructions = 790
    ledger.reserve(2)
    assert ledger.effort.instructions - ledger.instructions == 400 and not ledger.spent
    ledger.reserve(4)  # more than that is left
    assert ledger.effort.instructions - ledger.instructions == 400
    ledger.instructions += 390
    ledger.reserve(4)  # of what there was at first, not of what was added since
    assert ledger.effort.instructions - ledger.instructions == 200


def test_how_many_trials_some_work_is_goes_by_those_that_there_were() -> None:
    ledger = Ledger(NORMAL)
    assert ledger.worth(1000) == 1000
    ledger.changes, ledger.instructions = 10, 5000
    assert ledger.worth(1000) == 2
