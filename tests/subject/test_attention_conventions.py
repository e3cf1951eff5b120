"""An attention whose source does not say what it means: the result does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_backend import Fake

from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.check import check_card

CARD = """
format = 1
source = "k.cu"
entry = "attn"
[[arguments]]
role = "q"
dtype = "f16"
[[arguments]]
role = "k"
dtype = "f16"
[[arguments]]
role = "v"
dtype = "f16"
[[arguments]]
role = "o"
dtype = "f32"
[launch]
grid = 1
block = 32
[computes]
operation = "attention"
p_dtype = "f32"
[[cases]]
name = "one_head"
B = 1
H = 1
Sq = 16
Skv = 48
D = 16
[[cases]]
name = "heads"
B = 2
H = 4
Hkv = 2
Sq = 32
Skv = 48
D = 16
"""
SIZES = {16 * 16: (1, 1, 1, 16, 48, 16), 2 * 4 * 32 * 16: (2, 4, 2, 32, 48, 16)}


def attention(order="BHSD", mask="none", scale=0.25, keys="", wrong_rows=0):
    """A kernel with that order of the axes, mask and scale; the first rows of each head are garbled."""

    def axes(array, b, h, s, d, letters):
        extents = {"B": b, "H": h, "S": s, "D": d}
        shaped = array.reshape([extents[letter] for letter in letters])
        return shaped.transpose([letters.index(letter) for letter in "BHSD"])

    def kernel(_, launch):
        q, k, v, o = launch.arguments
        b, h, hkv, sq, skv, d = SIZES[o.size]
        q4 = axes(q, b, h, sq, d, order).astype(np.float32)
        k4 = axes(k, b, hkv, skv, d, keys or order).astype(np.float32).repeat(h // hkv, axis=1)
        v4 = axes(v, b, hkv, skv, d, order).astype(np.float32).repeat(h // hkv, axis=1)
        scores = q4 @ k4.transpose(0, 1, 3, 2) * scale
        if mask != "none":
            shift = skv - sq if mask == "bottom-right" else 0
            scores[..., np.arange(skv)[None, :] > np.arange(sq)[:, None] + shift] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result = (weights / weights.sum(-1, keepdims=True)) @ v4
        result[:, :, :wrong_rows] += 1
        axes(o, b, h, sq, d, order)[...] = result

    return kernel


@pytest.fixture
def check(tmp_path):
    (tmp_path / "k.cu").write_text("")

    def run(kernel, open_conventions=True, **card):
        parsed = replace(parse_card(CARD, tmp_path / "k.toml"), open_conventions=open_conventions, **card)
        fake = Fake(kernel)
        return check_card(parsed, backend=fake.backend, compiler=fake.compiler)

    return run


READINGS = {
    "stored as BSHD": {"order": "BSHD"},
    "stored as SBHD": {"order": "SBHD"},
    "k stored as BHDS": {"keys": "BHDS"},
    "a causal mask": {"mask": "top-left"},
    "bottom-right": {"mask": "bottom-right"},
    "bottom-right corner and q, k, v and o stored as BSHD": {"order": "BSHD", "mask": "bottom-right"},
}


@pytest.mark.parametrize(("meaning", "kernel"), READINGS.items(), ids=READINGS)
def test_a_source_alone_is_taken_as_the_result_fits(check, meaning, kernel):
    report = check(attention(**kernel))
    assert report.exit_code == 0
    notes = [note for case in report.cases for note in case.notes]
    text = " ".join(notes)
    assert all(word in text for word in ("BSHD", "SBHD", "BHDS", "causal", "bottom-right") if word in meaning)
    assert all("assumed" in note for note in notes)


@pytest.mark.parametrize(("meaning", "kernel"), READINGS.items(), ids=READINGS)
def test_a_card_means_what_it_says(check, meaning, kernel):
    report = check(attention(**kernel), open_conventions=False)
    assert report.exit_code == 1
    assert meaning in report.cases[1].notes[-1] and "let the card say" in report.cases[1].notes[-1]


def test_a_missing_scale_is_told_and_never_assumed(check):
    report = check(attention(scale=1.0))
    assert [case.status for case in report.cases] == ["failed", "failed"]
    assert "scale = 1" in report.cases[0].notes[-1]


def test_a_wrong_kernel_still_shows_what_it_means(check):
    report = check(attention(mask="bottom-right", wrong_rows=4))
    assert [case.status for case in report.cases] == ["failed", "failed"]
    assert report.cases[1].observations[0].wrong == 2 * 4 * 4 * 16


def test_a_right_kernel_needs_no_reading(check):
    assert [case.notes for case in check(attention()).cases] == [(), ()]


def test_garbage_fits_nothing(check):
    def kernel(_, launch):
        launch.arguments[3][...] = np.random.default_rng(1).normal(size=launch.arguments[3].shape)

    report = check(kernel)
    assert report.exit_code == 1 and not any(case.notes for case in report.cases)


def test_a_layout_that_a_card_states_is_meant(tmp_path, check):
    stated = parse_card(CARD.replace('dtype = "f16"', 'dtype = "f16"\nlayout = "BHSD"'), tmp_path / "k.toml")
    report = check(attention(order="BSHD"), arguments=stated.arguments)
    assert report.exit_code == 1 and not report.cases[1].notes


def test_the_corner_of_a_square_mask_is_not_told(tmp_path, check):
    one_case = CARD.replace("Skv = 48", "Skv = 16").split('[[cases]]\nname = "heads"')[0]
    square = parse_card(one_case, tmp_path / "k.toml")
    sizes = dict(SIZES)
    SIZES[16 * 16] = (1, 1, 1, 16, 16, 16)
    try:
        report = check(attention(mask="top-left"), cases=square.cases)
    finally:
        SIZES.update(sizes)
    assert report.exit_code == 0
    assert "causal mask" in report.cases[0].notes[0] and "corner" not in report.cases[0].notes[0]
