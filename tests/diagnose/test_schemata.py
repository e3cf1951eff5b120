"""Many changes in one program: with none selected it is the kernel itself, with one it is that change, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trial_changes import card_of, change, edit, integer_changes, product

from wmmadiag.csource.edits import applied as spelled
from wmmadiag.diagnose.changes import Change, TextEdit, applied, together
from wmmadiag.diagnose.trials.compiled import Program
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.rolling import rolled
from wmmadiag.diagnose.trials.schemata import SELECTOR, render, selector_of
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.emulator import Budget, EmulatedKernel
from wmmadiag.emulator.trials import ElementRules, JudgedItems, StagedLaunch, TrialLaunch, TrialLimits, TrialResult
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card

KERNELS = [
    "kernels/gemm/kernel.toml",
    pytest.param("kernels/gemm_mma/kernel.toml", marks=pytest.mark.rest),
    "kernels/attention/kernel.toml",
    "tests/diagnose/public_style/hgemm_stages.toml",
]
_ENDLESS = 1_000_000
"""Warp instructions: many times what the kernels take."""
_BENCHES: dict[str, TrialBench] = {}


def bench_of(name: str) -> TrialBench:
    """One bench per kernel for all examples: it compiles the headers once."""
    if name not in _BENCHES:
        card = card_of(name)
        _BENCHES[name] = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    return _BENCHES[name]


def memory_after(card: Card, program: Program) -> list[np.ndarray] | str:
    """All arrays after a run of a program without selectors, as bytes; why it died, if it did."""
    bound = bind(card, card.cases[0], card.variants[0])
    (kernel,) = program.kernels.values()
    bounded = EmulatedKernel(kernel.kernel, replace(kernel.options, budget=Budget(_ENDLESS)), kernel.origin)
    try:
        bounded.launch(bound.launch)
    except WmmadiagError as error:
        return error.message
    return [array.view(np.uint8) for array in arrays_of(bound)]


def arrays_of(bound: BoundCase) -> list[np.ndarray]:
    return [one for one in bound.launch.arguments if isinstance(one, np.ndarray)]


def differences(card: Card, program: Program, selector: int, memory: Sequence[np.ndarray]) -> TrialResult:
    """A trial whose every byte is judged: wrong are those that differ."""
    bound = bind(card, card.cases[0], card.variants[0])
    items, first = [], 0
    for index, one in enumerate(bound.launch.arguments):
        if isinstance(one, np.ndarray):
            items.append(JudgedItems(index, "u8", np.arange(first, first + one.nbytes, dtype=np.int32), None))
            first += one.nbytes
    value = np.concatenate(memory).astype(np.float64)
    nothing = np.zeros(value.size, np.uint8)
    (kernel,) = program.kernels.values()
    launch = TrialLaunch(
        [StagedLaunch(kernel, bound.launch)], SELECTOR, items, ElementRules(value, value * 0, nothing, nothing)
    )
    return launch.run([selector], TrialLimits(looks=0, budget=_ENDLESS), 1)[0]


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**20))
@pytest.mark.slow
def test_a_selected_change_gives_the_bits_of_the_changed_text(name: str, seed: int) -> None:
    bench = bench_of(name)
    programs = Programs(bench._prepared)
    batch = programs.batch(integer_changes(bench.texts, seed, 32))
    own = memory_after(bench.card, programs.plain())
    assert isinstance(own, list)
    for program in batch.programs:
        assert differences(bench.card, program, 0, own).wrong == 0
        for number in list(program.changes)[:: max(1, len(program.changes) // 3)]:
            alone = memory_after(bench.card, programs.single(program.changes[number]))
            if isinstance(alone, str):
                assert differences(bench.card, program, number, own).end in ("fault", "budget")
            else:
                assert differences(bench.card, program, number, alone).wrong == 0, program.changes[number]


def test_two_selected_changes_give_the_bits_of_the_text_with_both() -> None:
    bench = bench_of(KERNELS[2])
    programs = Programs(bench._prepared)
    (program, *_) = programs.batch(integer_changes(bench.texts, 7, 12), two=True).programs
    numbers = list(program.changes)
    apart = [
        (one, other) for one, other in itertools.combinations(numbers, 2)
        if program.changes[one].edits[0].end < program.changes[other].edits[0].start
    ]  # fmt: skip
    own = memory_after(bench.card, programs.plain())
    assert isinstance(own, list) and differences(bench.card, program, 0, own).wrong == 0
    for one, other in apart[:: max(1, len(apart) // 4)]:
        both = memory_after(bench.card, programs.single(together(program.changes[one], program.changes[other])))
        for selector in (selector_of(one, other), selector_of(other, one)):
            found = differences(bench.card, program, selector, both if isinstance(both, list) else own)
            assert found.wrong == 0 if isinstance(both, list) else found.end in ("fault", "budget")


def rendered(text: str, *edits: TextEdit, kind: str = "expression") -> tuple[str, Mapping[int, int]]:
    made = render({"k.cu": text.encode()}, [Change("test", (one,), kind, "", "") for one in edits])  # type: ignore[arg-type]
    assert not made.left
    return spelled(text.encode(), made.edits["k.cu"]).decode(), made.lines["k.cu"].own


def test_each_alternative_stands_on_its_own_line() -> None:
    text = "void f() {\n    x[i + 1] = y;\n}\n"
    at = text.index("i + 1")
    edits = [TextEdit("k.cu", at, at + 5, new) for new in ("j", "i /* two\n lines */ + 2")]
    edits.append(TextEdit("k.cu", text.index("y"), text.index("y") + 1, "z"))
    made, own = rendered(text, *edits)
    lines = made.split("\n")
    assert own == {3: 1, 4: 2, 6: 3}, made
    assert all(new in lines[line - 1] for line, new in ((3, "(j)"), (4, "+ 2)"), (6, "(z)")))
    assert lines[4].startswith(") : (i + 1)")
    assert lines[-2:] == ["}", ""]


def test_an_inner_change_hangs_in_the_original_of_the_outer_one() -> None:
    text = "f(a * b);"
    made, _ = rendered(text, TextEdit("k.cu", 2, 3, "c"), TextEdit("k.cu", 2, 7, "d"), TextEdit("k.cu", 6, 7, "e"))
    outer = made.index("(d)")
    assert outer < made.index("(c)") < made.index("(e)")
    assert made.count("f(") == 1 and made.endswith(");")


def test_statements_and_insertions_nest_in_braces() -> None:
    text = "{ if (a) x = 1; else y = 2; }"
    at = text.index("x = 1;")
    made, own = rendered(
        text, TextEdit("k.cu", at, at + 6, ""), TextEdit("k.cu", at, at + 6, "x = 3;\nz();"), kind="statement"
    )
    assert list(own.values()) == [1, 2, 2]
    assert made.count("{") == made.count("}") and "} else {\nx = 1;\n} }" in made
    made, own = rendered(text, TextEdit("k.cu", 2, 2, "__syncthreads();"), kind="insertion")
    assert made.startswith("{ { if (::wmmadiag_selected == 1u) {\n__syncthreads();\n} }\nif (a)") and own == {2: 1}


def test_what_is_put_in_before_a_directive_leaves_it_a_line_of_its_own() -> None:
    text = b"void f(int n) {\n  g();\n#pragma unroll 1\n  for (;;) h();\n}\n"
    put = Change("test", (TextEdit("k.cu", text.index(b"#"), text.index(b"#"), "g();\n"),), "insertion", "", "again")
    assert b"\n#pragma" in spelled(text, render({"k.cu": text}, [put]).edits["k.cu"])


def test_a_macro_stays_one_directive() -> None:
    text = "#define LOAD(p, i) \\\n    p[i + 1] // last\nint x = LOAD(q, 2);\n"
    at = text.index("i + 1")
    made, _ = rendered(text, TextEdit("k.cu", at, at + 5, "i"), TextEdit("k.cu", at + 4, at + 5, "2"))
    directive = made.split("\nint x")[0]
    assert all(line.endswith("\\") for line in directive.split("\n")[:-1])
    assert directive.count("\n") > 4


def test_changes_that_cross_are_left_for_another_program() -> None:
    text = b"a + b + c;"
    changes = [change(TextEdit("k", 0, 5, "x")), change(TextEdit("k", 4, 9, "y")), change(TextEdit("k", 0, 9, "z"))]
    made = render({"k": text}, changes)
    assert made.left == (changes[1],) and set(made.changes.values()) == {changes[0], changes[2]}


def test_only_what_hangs_on_a_value_is_rendered() -> None:
    with pytest.raises(ValueError, match="cannot hang"):
        render({"k": b"half x;"}, [change(TextEdit("k", 0, 4, "float"), kind="static")])
    with pytest.raises(ValueError, match="do not exist"):
        render({"k": b"x"}, [change(TextEdit("k", 0, 4, "float"))])


def test_a_place_that_is_assigned_to_may_be_another_one(tmp_path: Path) -> None:
    card = product(
        tmp_path, ("float sum = 0.0f;", "float sum = 0.0f, best = 0.0f;"), ("sum = ADD(sum,", "best = ADD(sum,")
    )
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    found = bench.try_batch(
        [change(edit(bench.texts, "best", "sum", nth=1)), change(edit(bench.texts, "best", "best", nth=1))]
    )
    assert [one.verdict for one in found] == ["right", "same"]
    assert bench.compilations <= 2


def test_numbers_of_one_place_are_told_by_one_comparison() -> None:
    edits = [TextEdit("k.cu", 0, 1, str(n)) for n in range(5)]
    made, _ = rendered("x;", *edits)
    assert "::wmmadiag_selected - 1u < 5u" in made
    both = Change("test", (TextEdit("k.cu", 0, 1, "9"), TextEdit("k.cu", 2, 3, "8")), "expression", "", "")
    made_of = render({"k.cu": b"x+y;"}, [both, *(change(TextEdit("k.cu", 2, 3, str(n))) for n in range(3))])
    text = spelled(b"x+y;", made_of.edits["k.cu"])
    assert b"::wmmadiag_selected - 1u < 4u" in text and text.count(b"(8)") == 2


def test_the_text_of_a_change_is_what_is_tried(tmp_path: Path) -> None:
    """The same by text and by number, where integers of other widths and signs meet."""
    card = product(tmp_path, ("i * n + col", "(i - 8) * n + 8 * n + col"))
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    news = ["(i - 8ll)", "(i - threadIdx.x * 0 - 8)", "(short)(i - 8)", "(size_t)(i - 8)", "(i - 9)"]
    tried = [change(edit(bench.texts, "(i - 8)", new)) for new in news]
    found = bench.try_batch(tried)
    for one, again in zip(found, tried, strict=True):
        alone = bench.try_batch([Change("test", again.edits, "static", "", "")])[0]
        assert one.verdict == alone.verdict
    assert applied(bench.texts, [tried[0]]) == bench.apply(tried[0])


def test_a_loop_that_asks_to_be_unrolled_stays_one_on_its_own_line() -> None:
    text = (
        '#pragma unroll\n  #  pragma unroll 4 // all\n#define LOOP _Pragma("unroll") for\n#pragma nounroll\nint unroll;'
    )
    asked = text.replace("unroll 4 // all", "unroll 1").replace("#pragma unroll\n", "#pragma unroll 1\n")
    assert rolled(text.encode()).decode() == asked.replace('("unroll")', '("unroll 1")')
    further = b"#pragma unroll \\\n 4\n"  # it goes on elsewhere
    assert rolled(further) == further


def test_a_short_loop_stays_one_without_being_asked() -> None:
    text = b"for (int i = 0; i < 4; ++i) before(i); if (x) for(;;) forall(x); // for\n"
    kept = b'_Pragma("unroll 1") '
    assert rolled(text) == kept + text.replace(b"for(;;)", kept + b"for(;;)")


@pytest.mark.parametrize(("head", "times"), [("#pragma unroll\n    ", 4), ("", 2)], ids=["asks", "short"])
def test_alternatives_in_an_unrolled_loop_are_compiled_once(tmp_path: Path, head: str, times: int) -> None:
    """Whether it asks for it, or is short."""
    loop = "for (int i = 0; i < k; ++i)", f"{head}for (int i = 0; i < 24; ++i)"
    card = product(tmp_path, loop)
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    tried = [change(edit(bench.texts, "i * n + col", new)) for new in ("i * m + col", "i + col", "i * k + row")]
    bench._programs.level = "full"
    sizes = []
    for bench._programs.rolled in (True, False):
        (program,) = bench._programs.batch(tried).programs
        sizes.append(sum(len(one.kernel.nodes) for one in program.kernels.values()))
    assert sizes[1] > times * sizes[0]
