"""Changes that need a text of their own, compiled together as copies of the kernel: the same answers as one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from trial_changes import change, edit, product

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.ptx.ir import Module
from wmmadiag.subject.card import Card

WRONG = ("part[TILE][TILE]", "part[TILE][TILE - 1]")


def bench_of(card: Card) -> TrialBench:
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    bench.settle()
    return bench


def statics(bench: TrialBench) -> list[Change]:
    texts = bench.texts
    found = [
        change(edit(texts, "TILE - 1", new), kind="static") for new in ("TILE", "TILE - 2", "TILE + 1", "no_such", "0")
    ]
    found.append(change(edit(texts, "float sum", "double sum"), kind="static"))
    found.append(change(edit(texts, "const int col", "const short col"), kind="static"))
    found.append(change(edit(texts, "__shared__ float part", "float part"), kind="static"))
    return found


def test_copies_answer_as_programs_of_their_own(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, WRONG))
    tried = statics(bench)
    before = bench.compilations
    together = bench.try_batch(tried)
    assert bench.compilations - before < len(tried) / 2
    bench._programs.prepared = replace(bench._programs.prepared, definition=None, whole=None)
    before = bench.compilations
    alone = bench.try_batch(tried)
    assert bench.compilations - before == len(tried)
    assert [one.verdict for one in together] == [one.verdict for one in alone]
    assert {"right", "refused"} <= {one.verdict for one in together}
    refused = next(one for one in together if one.verdict == "refused")
    assert "no_such" in refused.reason


def test_changes_before_the_kernel_are_made_in_copies_of_the_file(tmp_path: Path) -> None:
    """The file has another kernel, with C linkage, and a macro that the copies define otherwise."""
    bench = bench_of(product(tmp_path, WRONG))
    texts = bench.texts
    tried = [change(edit(texts, "SCALE 1", f"SCALE {new}"), kind="static") for new in ("2", "(1)", "none", "1 + 0")]
    tried.append(change(edit(texts, "TILE - 1", "TILE"), edit(texts, "SCALE 1", "SCALE (2 - 1)"), kind="static"))
    before = bench.compilations
    together = bench.try_batch(tried)
    assert bench.compilations - before <= 3  # the first is to see whether the file can be copied
    bench._programs.prepared = replace(bench._programs.prepared, definition=None, whole=None)
    alone = bench.try_batch(tried)
    assert [one.verdict for one in together] == [one.verdict for one in alone]
    assert [one.verdict for one in together][::2] == ["worse", "refused", "right"]


def test_what_stands_behind_the_kernel_is_copied_and_instantiations_are_not(tmp_path: Path) -> None:
    """An alias that a launch's instantiation names, and the instantiation itself."""
    card = product(
        tmp_path,
        WRONG,
        ('extern "C" __global__ void product(', "template <class Edge> __global__ void product("),
        ('entry = "product"', 'entry = "product<Own>"'),
    )
    behind = "struct Edge { int of; };\nusing Own = Edge;\ntemplate __global__ void product<Own>(ARGUMENTS);\n"
    source = card.source.read_text()
    arguments = source[source.index("product(") + len("product(") :].partition(")")[0]
    card.source.write_text(source + "\n" + behind.replace("ARGUMENTS", arguments))
    bench = bench_of(card)
    texts, whole = bench.texts, bench._programs.prepared.whole
    assert whole is not None and not whole.holds(change(edit(texts, "product<Own>", "product<Edge>"), kind="static"))
    tried = [change(edit(texts, "SCALE 1", f"SCALE {new}"), kind="static") for new in ("2", "(1)", "none", "1 + 0")]
    before = bench.compilations
    together = bench.try_batch(tried)
    assert bench.compilations - before <= 3
    bench._programs.prepared = replace(bench._programs.prepared, definition=None, whole=None)
    assert [one.verdict for one in together] == [one.verdict for one in bench.try_batch(tried)]
    assert "refused" in [one.verdict for one in together] and bench.compilations - before > 3


GLOBAL = "static __device__ int one() { return 1; } static __device__ int two() { return ::one(); } "
KEPT = "__device__ int calls; "


@pytest.mark.parametrize("before", [GLOBAL, KEPT], ids=["named from outside", "kept between launches"])
def test_what_cannot_be_copied_into_a_namespace_is_tried_alone(tmp_path: Path, before: str) -> None:
    head = 'extern "C" __global__ void product('
    bench = bench_of(product(tmp_path, WRONG, (head, before + head)))
    tried = [change(edit(bench.texts, "SCALE 1", f"SCALE {new}"), kind="static") for new in ("2", "(1)", "none")]
    started = bench.compilations
    together = bench.try_batch(tried)
    assert bench.compilations - started >= len(tried)
    bench._programs.prepared = replace(bench._programs.prepared, whole=None)
    assert [one.verdict for one in together] == [one.verdict for one in bench.try_batch(tried)]


def test_changes_that_give_the_same_program_are_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(product(tmp_path, WRONG))
    lowered: list[str] = []
    whole = Programs._lowered

    def counted(self: Programs, module: Module, entry: str) -> EmulatedKernel:
        lowered.append(entry)
        return whole(self, module, entry)

    monkeypatch.setattr(Programs, "_lowered", counted)
    news = ("TILE", "8", "TILE * 1", "TILE + 1", "TILE - 1 + 1")
    tried = [change(edit(bench.texts, "TILE - 1", new), kind="static") for new in news]
    found = bench.try_batch(tried)
    assert [one.verdict for one in found] == ["right"] * 5
    assert [one.change for one in found] == tried
    assert len(lowered) == 2  # TILE + 1 is another one


def test_a_template_is_copied_with_its_arguments(tmp_path: Path) -> None:
    card = product(
        tmp_path,
        ('extern "C" __global__ void product(', "template <int EDGE> __global__ void product("),
        ("part[TILE][TILE]", "part[EDGE][EDGE - 1]"),
        ('entry = "product"', 'entry = "product<8>"'),
    )
    bench = bench_of(card)
    tried = [change(edit(bench.texts, "EDGE - 1", new), kind="static") for new in ("EDGE", "EDGE - 2", "EDGE * 2")]
    before = bench.compilations
    assert [one.verdict for one in bench.try_batch(tried)] == ["right", "worse", "right"]
    assert bench.compilations - before <= 2


def test_a_declaration_that_only_the_other_copies_contradict_is_tried_alone(tmp_path: Path) -> None:
    card = product(tmp_path, ("__shared__ float part[TILE][TILE]", "extern __shared__ float part[][TILE]"))
    bench = bench_of(product(tmp_path, ("launch = {", "launch = { shared = 256,"), source=card.source.read_text()))
    tried = [change(edit(bench.texts, "float part", new), kind="static") for new in ("double part", "int part")]
    assert "refused" not in [one.verdict for one in bench.try_batch(tried)]


def test_a_change_outside_of_the_kernel_is_no_copy(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, WRONG))
    texts, held = bench.texts, bench._programs.prepared.definition
    assert held is not None
    assert held.holds(change(edit(texts, "TILE - 1", "TILE")))
    assert held.holds(change(edit(texts, "const float* a", "float* a")))
    assert not held.holds(change(edit(texts, "SCALE 1", "SCALE 2")))
    assert not held.holds(change(edit(texts, "TILE 8", "TILE 4", file=list(texts)[1])))
    assert not held.holds(change(edit(texts, "product", "other")))
    assert not held.holds(change())
    text = next(iter(texts.values()))
    assert text[held.name_start :].startswith(b"product(")


def test_a_copy_whose_assembly_is_none_spoils_no_other(tmp_path: Path) -> None:
    """NVRTC passes inline assembly on unread."""
    bench = bench_of(product(tmp_path, WRONG))
    tried = statics(bench)
    bad = change(edit(bench.texts, "float sum", 'asm volatile("nonsense;"); float sum'), kind="static")
    before = bench.compilations
    found = bench.try_batch([bad, *tried])
    with_it = bench.compilations - before
    assert found[0].verdict == "refused"
    assert [one.verdict for one in found[1:]] == [one.verdict for one in bench.try_batch(tried)]
    assert with_it == bench.compilations - before - with_it


def test_a_copy_whose_assembly_ends_its_kernel_spoils_no_other(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, WRONG))
    tried = statics(bench)
    bad = change(edit(bench.texts, "float sum", 'asm volatile("} }"); float sum'), kind="static")
    found = bench.try_batch([bad, *tried])
    assert found[0].verdict == "refused"
    assert [one.verdict for one in found[1:]] == [one.verdict for one in bench.try_batch(tried)]


@pytest.mark.parametrize(
    ("more", "minimal"),
    [("", True), ("\n__device__ float f(cudaTextureObject_t image) { return tex2D<float>(image, 0, 0); }\n", False)],
)
def test_the_compiler_leaves_out_what_a_source_does_not_use(tmp_path: Path, more: str, minimal: bool) -> None:
    card = product(tmp_path, WRONG)
    card.source.write_text(card.source.read_text() + more)
    bench = bench_of(card)
    assert bench._programs.minimal is minimal
    tried = [*statics(bench)[:2], change(edit(bench.texts, "TILE - 1", "TILE + 0"), kind="static")]
    assert [one.verdict for one in bench.try_batch(tried)] == ["right", "worse", "right"]


def test_another_bench_of_the_same_files_makes_nothing_again(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, WRONG))
    again = bench.keeping(seed=7)
    again.settle()
    assert again._prepared is bench._prepared
    assert again.compilations == 0
    kept = bench.keeping(statics(bench)[0], seed=7)
    kept.settle()
    assert kept.texts != bench.texts
    assert kept.compilations > 0
    assert kept.wrong_before == 0
