"""Edits as a whole: what is asked for, ranks, diffs that apply, text that compiles, time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from edit_sources import FLASH, GEMM

from wmmadiag.compile import compile_text
from wmmadiag.diagnose.edits import Change, Edit, apply, diff, edits, generators
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.errors import WmmadiagError


def test_every_generator_says_what_it_mends():
    found = generators()
    assert len(found) >= 15
    for one in found:
        assert one.hypotheses
        head, _, example = one.doc.partition("\n\nBad:\n")
        assert head
        assert "\n\nGood:\n" in example


def test_hypotheses_and_lines_are_kept_to():
    model = read_source(FLASH)
    line = next(i for i, text in enumerate(model.lines, 1) if "fk, &keys" in text)
    found = edits(model, hypotheses={"leading-dimension"}, lines={line})
    assert found
    assert {e.hypothesis for e in found} == {"leading-dimension"}
    for edit in found:
        touched = {edit.line, *(model.line_of(c.start) for c in edit.changes)}
        assert line in touched
    assert [e.rank for e in found] == sorted(e.rank for e in found)
    assert len({e.changes for e in found}) == len(found)


def test_a_statement_over_lines_counts_for_each():
    text = FLASH.replace(
        "wmma::load_matrix_sync(fk, &keys[tc * 16][kk], KP);", "wmma::load_matrix_sync(\nfk,\n&keys[tc * 16][kk],\nKP);"
    )
    first = text[: text.index("wmma::load_matrix_sync(\nfk")].count("\n") + 1
    model = read_source(text)
    for line in range(first, first + 4):
        assert any("leading dimension" in e.summary for e in edits(model, lines={line}))


def test_a_known_pitch_ranks_first_and_a_name_before_the_number():
    source = FLASH.replace("&keys[tc * 16][kk], KP)", "&keys[tc * 16][kk], n)")
    line = source[: source.index("kk], n)")].count("\n") + 1
    for wanted, name in ((72, "KP"), (68, "SP"), (64, "HD")):
        found = edits(read_source(source), hypotheses={"leading-dimension"}, lines={line}, values={"ldm": wanted})
        values = [e.changes[0].text for e in found[:6]]
        assert name in values[:3]
        assert str(wanted) in values
        assert values.index(name) < values.index(str(wanted))


def test_a_loop_that_divides_is_not_rounded_up():
    text = "__global__ void k(float* x, int K) { for (int i = 0; i < K / 16; ++i) x[i] = 0; }"
    model = read_source(text)
    rounded = [e for e in edits(model, lines={1}) if "round" in e.summary]
    assert rounded
    assert not [e for e in edits(model, lines={1}, values={"K": 64}) if "round" in e.summary]


def test_overlapping_changes_are_refused():
    edit = Edit("x", "loop-extent", 1, "", (Change(0, 4, "a"), Change(2, 6, "b")), 0.5)
    with pytest.raises(ValueError, match="overlap"):
        apply("0123456789", edit)


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "source", [FLASH, GEMM.rstrip("\n"), GEMM.replace("\n", "\r\n")], ids=["plain", "no_end", "crlf"]
)
def test_diffs_apply_with_patch(tmp_path: Path, source: str):
    model = read_source(source)
    for edit in edits(model)[::97]:
        path = tmp_path / "k.cu"
        path.write_bytes(source.encode())
        subprocess.run(
            ["patch", "--binary", "-s", "-p1"], cwd=tmp_path, input=diff("k.cu", source, edit).encode(), check=True
        )
        assert path.read_bytes().decode() == apply(source, edit)


@pytest.mark.parametrize("source", [FLASH, GEMM], ids=["flash", "gemm"])
def test_nearly_all_edits_compile(source: str):
    model = read_source(source)
    found = edits(model)
    seen: dict[str, list[Edit]] = {}
    for edit in found:
        seen.setdefault(edit.kind, []).append(edit)
    tried = [edit for group in seen.values() for edit in group[:: max(len(group) // 2, 1)][:2]]
    failed = []
    for edit in tried:
        try:
            compile_text(apply(source, edit), "k.cu")
        except WmmadiagError:
            failed.append(edit.summary)
    assert len(failed) <= len(tried) // 10, failed


def test_model_and_edits_take_milliseconds():
    source = FLASH * 4  # over 400 lines; the tokens of four kernels
    times = []
    for _ in range(3):
        start = time.process_time()
        model = read_source(source)
        edits(model, lines={60, 61, 70})
        times.append(time.process_time() - start)
    assert min(times) < 0.25  # a bound for loaded machines; 30 ms on an idle one


def test_a_store_may_take_the_pitch_that_its_reader_counts_in():
    text = """constexpr int WIDTH = 48;
    __global__ void k(float* out, int n) {
        const int pitch = n + 8;
        float* tile = reinterpret_cast<float*>(raw);
        wmma::store_matrix_sync(tile, acc, pitch, wmma::mem_row_major);
        for (int i = threadIdx.x; i < 16 * WIDTH; i += 32) { int r = i / WIDTH; out[r] = tile[i]; }
    }"""
    model = read_source(text)
    found = edits(model, hypotheses=("leading-dimension",), lines=(5,), values={"n": 64, "ldm": 72})
    summaries = [edit.summary for edit in found]
    assert any(one.startswith("pass WIDTH as") for one in summaries)
    # what the call has already, as numbers are known, is no change
    assert not any(one.startswith("pass 72") for one in summaries)
    other = edits(model, hypotheses=("leading-dimension",), lines=(5,), values={"n": 40, "ldm": 72})
    assert any(edit.summary.startswith("pass 72") for edit in other)


def test_a_sum_behind_a_cast_is_an_address():
    text = """__global__ void k(const half* a, int4* out, int n) {
        out[0] = *(const int4*)(a + 32 * n);
        out[1] = *(const int4*)(a + 64 * n);
    }"""
    summaries = [edit.summary for edit in edits(read_source(text), hypotheses=("index-arithmetic",), lines=(2,))]
    assert "64 in place of 32" in summaries


def test_a_pointer_steps_by_the_rows_that_it_is_addressed_with():
    text = """__global__ void k(const half* b, half* out, int m, int n, int k) {
        const half* from = b + threadIdx.x * n + blockIdx.x;
        for (int i = 0; i < k; i += 16) { out[i] = *from;
            from += 16 * k;
        }
    }"""
    found = edits(read_source(text), hypotheses=("tensor-strides",), lines=(4,))
    steps = [edit.summary for edit in found if edit.summary.startswith("step by rows of")]
    assert steps[0] == "step by rows of n"
    assert "step by rows of m" in steps
    # how far it is moved is nothing to begin at
    assert not any(edit.summary.startswith("begin at") for edit in found)
