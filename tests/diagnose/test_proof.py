"""Which of several changes that mend is the answer, and what a run proves by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from trial_changes import product

from wmmadiag.checks.run import emulator_of
from wmmadiag.csource.tree import Source, parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.effort import effort_named
from wmmadiag.diagnose.engine import case_bench, diagnose_card
from wmmadiag.diagnose.excerpts import statement_lines
from wmmadiag.diagnose.proof import (
    counted_twice,
    disturbed,
    names_registers,
    said_elsewhere,
    unfit,
)
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.diagnose.sizes import further_sizes, mixed_sizes, of_known_programs
from wmmadiag.diagnose.sliding import slid
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.diagnose.unread import unread
from wmmadiag.diagnose.watched import all_bytes, all_touched, fresh, touched_by, watched
from wmmadiag.place import Place
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card import Case
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"


def bench_of(name: str) -> Workbench:
    card = load_card(KERNELS / f"{name}.toml")
    return case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)


def replacing(source: Path, old: str, new: str, score: float, *, role: str = "index") -> Tried:
    """A change, taken to be right on the failing case."""
    text = source.read_bytes()
    assert text.count(old.encode()) == 1
    start = text.index(old.encode())
    change = Change("made", (TextEdit(str(source), start, start + len(old), new),), "static", role, f"{new} for {old}")
    line = text.count(b"\n", 0, start) + 1
    return Tried(Ranked(change, (str(source), line), score), Outcome(change, "right", 1, 0))


def ran(bench: Workbench) -> tuple[dict[str, CaseRun], list[Case]]:
    """What the cases give, and the cases, those that fail first."""
    baseline = {case.name: bench.run(case) for case in bench.cases()}
    return baseline, sorted(bench.cases(), key=lambda case: baseline[case.name].passed)


def answers(name: str, *changes: tuple[str, str, float]) -> list[Confirmed]:
    bench = bench_of(name)
    baseline, cases = ran(bench)
    tried = [replacing(bench.source, *one) for one in changes]
    texts = {str(bench.source): bench.source.read_bytes()}
    return confirmed(bench, cases, baseline, tried, texts, 8)


@pytest.mark.slow
def test_a_change_that_alters_nearly_every_access_is_the_weaker_answer() -> None:
    """Without its padding, a wrong pitch happens to be right."""
    first, second = answers(
        "gemm/wrong/pitch_in_the_address",
        ("lda = BK + 8", "lda = BK", 5.0),
        ("(wr + i * 16) * 32 + kk", "(wr + i * 16) * T::lda + kk", 0.0),
    )
    assert first.right and second.right
    assert (first.line[1], first.intrusive, second.intrusive) == (58, False, True)
    assert first.altered < second.altered / 3


TWICE = b"""void other(int t) { int n = t; }
void k(int* out, int n) {
    const int x0 = blockIdx.x * 64;
    const int first = x0 - 1;
    const int at = first + n;
    mma(d[0], b[0], b[1], n, at);
}
"""


def made_of(old: bytes, new: str, *, role: str = "index") -> tuple[dict[str, Source], Change]:
    pieces = zip(old.split(b"|"), new.split("|"), strict=True)
    edits = tuple(TextEdit("k.cu", at := TWICE.index(one), at + len(one), other) for one, other in pieces)
    return {"k.cu": parse(TWICE, "k.cu")}, Change("test", edits, "expression", role, "")


def test_what_is_added_to_what_holds_it_counts_twice() -> None:
    assert counted_twice(*made_of(b"first + n", "first + n + x0")) == "x0"
    assert counted_twice(*made_of(b"first + n", "first + n - first")) == "first"
    assert not counted_twice(*made_of(b"x0 - 1", "x0 - 1 + n"))
    assert not counted_twice(*made_of(b"first + n", "first + n * x0"))
    assert not counted_twice(*made_of(b"first + n", "first + n + t"))  # another function's n is made of t


def test_registers_exchanged_are_told_from_other_arguments() -> None:
    assert names_registers(*made_of(b"b[0]|b[1]", "b[1]|b[0]", role="argument"))
    assert not names_registers(*made_of(b"n|at", "at|n", role="argument"))
    assert not names_registers(*made_of(b"b[0]|b[1]", "b[1]|b[1]", role="argument"))


@pytest.mark.slow
def test_a_change_that_alters_what_was_right_is_told_as_one() -> None:
    """With smaller tiles no tile is cut off, in the case that fails: the other one was right and is altered as well."""
    name = "attention/wrong/pipe_tail_not_cleared"
    baseline, cases = ran(bench_of(name))
    (found,) = answers(name, ("BN = 32", "BN = 16", 1.0))
    assert found.right and disturbed(cases, baseline, found) == "full"
    undoing = "src + (size_t)(first + r) * D + c, 16);\n"
    zeros = f"{undoing}        else\n            *reinterpret_cast<uint4*>(&dst[r][c]) = make_uint4(0, 0, 0, 0);\n"
    (found,) = answers(name, (undoing, zeros, 1.0))
    assert found.right and not disturbed(cases, baseline, found)


SQUARES = """#include <cuda_fp16.h>
extern "C" __global__ void squares(const half* x, half* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2half(__half2float(x[i]) + __half2float(x[i]));
}
"""
CARD = """format = 1
name = "squares"
source = "squares.cu"
entry = "squares"
tolerance = { atol = %s, rtol = %s }
arguments = [
  { name = "x", role = "x", dtype = "f16", shape = ["N"] },
  { name = "y", role = "y", dtype = "f16", shape = ["N"], direction = "out" },
  { name = "n", dtype = "s32", value = "N" },
]
launch = { grid = "ceil_div(N, 64)", block = 64 }
computes = { python = "squares.py:squares" }
cases = [{ name = "small", N = 100 }]
"""


@pytest.mark.parametrize(
    ("atol", "rtol", "where"),
    [("1e-2", "0.0", "small on inputs growing_max"), ("1e-6", "1e-3", "")],
    ids=["too narrow for large numbers", "wide enough"],
)
def test_a_tolerance_is_said_of_the_cards_own_inputs(tmp_path: Path, atol: str, rtol: str, where: str) -> None:
    """Beyond it on harder ones no change is refuted, and none is proven."""
    (tmp_path / "squares.cu").write_text(SQUARES, "utf-8")
    (tmp_path / "squares.toml").write_text(CARD % (atol, rtol), "utf-8")
    (tmp_path / "squares.py").write_text("def squares(inputs, symbols):\n    return inputs['x'] ** 2\n", "utf-8")
    card = load_card(tmp_path / "squares.toml")
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    case = bench.cases()[0]
    baseline = {case.name: bench.run(case)}
    texts = {str(bench.source): bench.source.read_bytes()}
    change = replacing(bench.source, "x[i]) + __half2float", "x[i]) * __half2float", 1.0)
    (found,) = confirmed(bench, [case], baseline, [change], texts, 8)
    assert found.right
    assert unfit(bench, [case], found) == where


def test_what_no_instantiation_reads_is_seen() -> None:
    """Each case compiles the template with a rank of its own; with one half of the sums left out nobody reads them."""
    card = load_card(Path(__file__).parent / "blind37/lora_backward.toml")
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "none", None, "", None)
    text = bench.source.read_text("utf-8")
    found = []
    for gone in ("", " + s_part[1][at]"):
        changed = {bench.source.resolve(): text.replace(gone, "")} if gone else {}
        runs = [bench.run(case, changed) for case in bench.cases()]
        ran = [(run.emulated, fresh(run.bound)) for run in runs if run.bound is not None]
        assert len({id(kernel) for kernel, _ in ran}) > 1
        found.append(unread((kernel, case) for kernel, case in ran if kernel is not None))
    line = text[: text.index("store_matrix_sync(s_part")].count("\n") + 1
    assert found[0] is None and found[1] is not None and (found[1].place.line, found[1].warp) == (line, 2)


def test_mixed_sizes_are_those_of_other_cases_one_at_a_time() -> None:
    sizes = {"small": {"M": 16, "N": 16}, "wide": {"M": 32, "N": 16}, "tall": {"M": 16, "N": 48}}
    cases = [Case(name, Place("k.toml", 1), symbols) for name, symbols in sizes.items()]
    mixed = mixed_sizes(cases, cases[1])
    assert [(one.name, one.symbols) for one in mixed] == [("wide with N=48", {"M": 32, "N": 48})]
    assert mixed_sizes(cases[:1], cases[0]) == []


def test_tiles_that_a_program_is_made_of_are_not_mixed(tmp_path: Path) -> None:
    """Sizes are; of a kernel of one program with any value, tiles would be, too."""
    card = product(tmp_path, ('entry = "product"', 'entry = "product<{TM}, {TN}>"'))
    sizes = {"a": {"TM": 8, "TN": 4, "K": 8}, "b": {"TM": 4, "TN": 8, "K": 24}}
    cases = [Case(name, Place("k.toml", 1), symbols) for name, symbols in sizes.items()]
    mixed = mixed_sizes(cases, cases[0])
    assert {one.name for one in mixed} == {"a with TM=4", "a with TN=8", "a with K=24"}
    kept = of_known_programs(card, card.variants[0], cases, mixed)
    assert [one.name for one in kept] == ["a with K=24"]


def test_a_pitch_goes_with_what_it_is_the_pitch_of() -> None:
    """`in` and `out` are pitches of N, and M is none: it is less here and much more there."""
    sizes = {
        "even": {"N": 64, "M": 64, "in": 64, "out": 64},
        "padded": {"N": 128, "M": 256, "in": 128, "out": 136},
        "ragged": {"N": 83, "M": 75, "in": 88, "out": 83},
    }
    cases = [Case(name, Place("k.toml", 1), symbols) for name, symbols in sizes.items()]
    mixed = {one.name: one.symbols for one in mixed_sizes(cases, cases[0])}
    assert mixed["even with N=128"] == {"M": 64, "N": 128, "in": 128, "out": 136}
    assert mixed["even with out=136"] == {"M": 64, "N": 128, "in": 128, "out": 136}
    assert mixed["even with M=256"] == {"M": 256, "N": 64, "in": 64, "out": 64}
    assert all(one["N"] <= min(one["in"], one["out"]) for one in mixed.values())
    wider = {one.name: one.symbols for one in further_sizes(cases, cases[1])}
    assert wider["padded with N=192"] == {"M": 256, "N": 192, "in": 192, "out": 200}


def test_barriers_that_order_the_same_two_accesses_are_one_answer() -> None:
    """At the loop's beginning or its end: either stands between the last read of a stage and the next copy into it.

    So does one in a loop inside, which waits more often: it is not the answer, however likely it was.
    """
    bench = bench_of("gemm/wrong/async_buffer_reused")
    text = bench.source.read_bytes()
    tried = []
    ends = text.index(b"int cur = it & 1;"), text.rindex(b"    }\n    for (int j = 0;")
    inside = text.index(b"wmma::load_matrix_sync(fa")
    for start, score in zip((inside, *ends), (3.0, 2.0, 1.0), strict=True):
        edit = TextEdit(str(bench.source), start, start, "__syncthreads();\n        ")
        change = Change("made", (edit,), "insertion", "barrier", f"__syncthreads() at {start}")
        line = text.count(b"\n", 0, start) + 1
        outcome = Outcome(change, "right", 1, 0)
        tried.append(Tried(Ranked(change, (str(bench.source), line), score), outcome))
    baseline = {case.name: bench.run(case) for case in bench.cases()}
    cases = sorted(bench.cases(), key=lambda case: baseline[case.name].passed)
    (found,) = confirmed(bench, cases, baseline, tried, {str(bench.source): text}, 8)
    assert found.right and found.tried == tried[1] and found.alike == (tried[2], tried[0])


def test_a_statement_put_in_is_named_where_it_is_needed() -> None:
    bench = bench_of("attention/wrong/first_accumulator_kept")
    case = bench.cases()[0]
    trials = TrialBench(Setting(bench.card, bench.variant, case))
    source = bench.source.read_bytes()
    start = source.index(b"float e = expf")
    text = "wmma::fill_fragment(c, 0.0f); "
    change = Change("made", (TextEdit(str(bench.source), start, start, text),), "insertion", "initial value", "cleared")
    (outcome,) = trials.try_batch([change])
    assert outcome.verdict == "right"
    tried = Tried(Ranked(change, (str(bench.source), 51), 0.0), outcome)
    ledger = Ledger(effort_named("normal"))
    (moved,) = slid(trials, "attention_kernel", [tried], ledger)
    assert moved.outcome.verdict == "right" and moved.ranked.line[1] == 60 and ledger.changes > 0
    assert moved.also and tried.ranked.line in moved.also and moved.ranked.line not in moved.also
    for role in ("barrier", "branch"):  # where these stand is their meaning
        kept = Tried(Ranked(Change("made", change.edits, "insertion", role, ""), tried.ranked.line, 0.0), outcome)
        assert slid(trials, "attention_kernel", [kept], ledger) == [kept]


def test_changes_of_one_statement_are_readings_of_one_mistake() -> None:
    """The second line of a call is the call's, and a statement in a lambda is not the lambda's."""
    source = parse("void f() {\n  g(a,\n    b);\n  auto h = [&] {\n    c = 1;\n    if (d) e();\n  };\n}\n", "k.cu")

    def lines(text: str) -> tuple[int, int]:
        return statement_lines(source, source.data.index(text.encode()))

    assert lines("b)") == lines("a,") == (2, 3)
    assert (lines("c = 1"), lines("d)"), lines("e()"), lines("auto")) == ((5, 5), (6, 6), (6, 6), (4, 7))


@pytest.mark.parametrize(
    ("name", "line", "words", "evidence"),
    [
        ("attention/wrong/pipe_static_over_48k", 25, "ptxas allows 49,152", "ks has 49,152 bytes"),
        ("attention/wrong/local_array", 70, "the compiler put a trap in its place", "the kernel executed a trap"),
    ],
)
def test_what_a_run_proves_by_itself_is_not_searched_for(name: str, line: int, words: str, evidence: str) -> None:
    found = diagnose_card(load_card(KERNELS / f"{name}.toml"))
    (cause,) = found.causes
    assert (found.outcome, cause.verdict, found.work.changes) == ("diagnosed", "proven", 0)
    assert f".cu:{line}:" in cause.place and words in cause.sentence
    assert any(evidence in line for line in cause.evidence)


def test_what_does_not_compile_is_told_in_the_compilers_words_with_what_makes_it_right() -> None:
    found = diagnose_card(load_card(KERNELS / "qkt/wrong/qk_frag_float_out.toml"))
    (cause,) = found.causes
    assert (found.exit_code, cause.name, cause.verdict) == (2, "refused", "proven")
    assert ".cu:27" in cause.place and "incomplete type" in cause.sentence and "half for float" in cause.sentence
    assert cause.fix is not None and cause.fix.status == "verified" and cause.fix.diff


def test_what_many_accesses_touch_is_what_each_does() -> None:
    bench = bench_of("gemm/wrong/b_tile_offset")
    run = bench.run(next(iter(bench.cases())))
    kernel = emulator_of(run.kernel) if run.kernel is not None else None
    assert kernel is not None and run.bound is not None
    watch = watched(fresh(run.bound), kernel, range(2))
    events = [one for lines in watch.events.values() for some in lines.values() for one in some][:300]
    assert len({one[3] for one in events} | {one[4] for one in events}) > 1
    assert all_touched(events).tolist() == [at for one in events for at in touched_by(one[3], one[5]).tolist()]
    each = [at + byte for one in events for at in touched_by(one[3], one[5]).tolist() for byte in range(one[4])]
    assert sorted(all_bytes(events).tolist()) == sorted(each)
    assert all_bytes([]).tolist() == []


@pytest.mark.parametrize(
    ("text", "where"), [("arrive(&empty);", "k.cu:1"), ("arrive(&full);", ""), ("__syncthreads();", "")]
)
def test_what_is_done_to_the_same_thing_elsewhere_may_stand_at_the_wrong_place(text: str, where: str) -> None:
    data = b"arrive(&empty);\n__syncthreads();\nload();\n"
    change = Change("made", (TextEdit("k.cu", len(data), len(data), f"{text}\n"),), "insertion", "arrive", text)
    assert said_elsewhere({"k.cu": parse(data, "k.cu")}, change) == where
