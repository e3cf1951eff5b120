"""A GEMM whose source does not say how matrices are stored: the result does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from fake_backend import Fake

from wmmadiag.ops.parts.epilogue import FUNCTIONS
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.check import check_card

CARD = """
format = 1
source = "k.cu"
entry = "mm"
[[arguments]]
role = "a"
dtype = "f16"
[[arguments]]
role = "b"
dtype = "f16"
[[arguments]]
role = "c"
dtype = "f32"
direction = "inout"
[launch]
grid = 1
block = 32
[computes]
operation = "gemm"
alpha = 2
beta = 3
[[cases]]
name = "one"
M = 32
N = 48
K = 16
[[cases]]
name = "two"
M = 16
N = 64
K = 80
"""
SIZES = {32 * 48: (32, 48, 16), 16 * 64: (16, 64, 80)}


@dataclass(frozen=True)
class Convention:
    """How a kernel stores its matrices: A as K×M, B as N×K, the result by columns."""

    transpose_a: bool
    transpose_b: bool
    column_major: bool

    def meaning(self) -> str:
        parts = ["A stored as K×M"] * self.transpose_a + ["B stored as N×K, as nn.Linear has it"] * self.transpose_b
        return " and ".join(parts + ["the result stored by columns"] * self.column_major)

    def settings(self) -> str:
        parts = ["transpose_a = true"] * self.transpose_a + ["transpose_b = true"] * self.transpose_b
        return " and ".join(parts + ['layout = "BNM" for c'] * self.column_major)


ALL = [Convention(*one) for one in sorted(product((False, True), repeat=3), key=sum)]


def gemm(convention: Convention, wrong_rows: int = 0):
    """A kernel that stores its matrices so; the first rows of its result are negated."""

    def kernel(_, launch):
        a, b, c = launch.arguments
        m, n, k = SIZES[c.size]
        left = (a.reshape(k, m).T if convention.transpose_a else a.reshape(m, k)).astype(np.float32)
        right = (b.reshape(n, k).T if convention.transpose_b else b.reshape(k, n)).astype(np.float32)
        view = c.reshape(n, m).T if convention.column_major else c.reshape(m, n)
        view[...] = 2 * (left @ right) + 3 * view
        view[:wrong_rows] *= -1

    return kernel


@pytest.fixture
def check(tmp_path):
    (tmp_path / "k.cu").write_text("")

    def run(kernel, open_conventions: bool):
        fake = Fake(kernel)
        card = replace(parse_card(CARD, tmp_path / "k.toml"), open_conventions=open_conventions)
        return check_card(card, backend=fake.backend, compiler=fake.compiler)

    return run


@pytest.mark.parametrize("convention", ALL, ids=Convention.meaning)
def test_a_source_alone_is_taken_as_the_result_fits(check, convention):
    report = check(gemm(convention), open_conventions=True)
    assert report.status == "passed"
    notes = [note for case in report.cases for note in case.notes]
    assert len(notes) == (convention != ALL[0]), "said once, and only where something was assumed"
    assert all(convention.meaning() in note for note in notes)


@pytest.mark.parametrize("convention", ALL[1:], ids=Convention.meaning)
def test_a_card_means_what_it_says(check, convention):
    report = check(gemm(convention), open_conventions=False)
    assert [case.status for case in report.cases] == ["failed", "failed"]
    assert all(convention.settings() in case.notes[-1] for case in report.cases)


def test_a_kernel_that_is_wrong_in_places_still_shows_what_it_means(check):
    report = check(gemm(Convention(False, True, False), wrong_rows=8), open_conventions=True)
    assert [case.status for case in report.cases] == ["failed", "failed"]
    assert report.cases[0].observations[0].wrong == 8 * 48
    assert "B stored as N×K" in report.cases[0].notes[0]


def test_a_wrong_kernel_is_not_explained_away(check):
    def kernel(_, launch):
        a, b, c = launch.arguments
        m, n, k = SIZES[c.size]
        right = np.zeros((k, n), np.float32)
        for first in range(0, k, 16):  # every fragment of B transposed: no convention
            for column in range(0, n, 16):
                block = b.reshape(k, n)[first : first + 16, column : column + 16]
                right[first : first + 16, column : column + 16] = block.T
        view = c.reshape(m, n)
        view[...] = 2 * (a.reshape(m, k).astype(np.float32) @ right) + 3 * view

    report = check(kernel, open_conventions=True)
    assert [case.status for case in report.cases] == ["failed", "failed"]
    assert not any("stored" in note for case in report.cases for note in case.notes)


def test_a_deep_sum_whose_f16_bound_would_allow_anything(tmp_path):
    (tmp_path / "k.cu").write_text("")
    text = CARD[: CARD.index("[[cases]]")] + '[[cases]]\nname = "deep"\nM = 16\nN = 32\nK = 4096\n'

    def kernel(_, launch):
        a, b, c = launch.arguments
        c[...] = (2 * (a.reshape(16, 4096) @ b.reshape(32, 4096).T.astype(np.float32))).ravel() + 3 * c

    fake = Fake(kernel)
    card = replace(parse_card(text, tmp_path / "k.toml"), open_conventions=True)
    report = check_card(card, backend=fake.backend, compiler=fake.compiler)
    assert report.status == "passed" and "B stored as N×K" in report.cases[0].notes[0]


@pytest.mark.parametrize("stated", ["none", "gelu", "relu"])
@pytest.mark.parametrize("meant", ["none", "relu", "silu"])
def test_another_activation_is_found_only_where_everything_fits(tmp_path, stated, meant):
    (tmp_path / "k.cu").write_text("")
    text = CARD.replace("beta = 3", f'beta = 3\nactivation = "{stated}"')
    card = replace(parse_card(text, tmp_path / "k.toml"), open_conventions=True)
    plain = gemm(Convention(False, False, False))

    def kernel(_, launch):
        plain(_, launch)
        c = launch.arguments[2]
        c[...] = FUNCTIONS[meant].apply(c.astype(np.float64))

    fake = Fake(kernel)
    report = check_card(card, backend=fake.backend, compiler=fake.compiler)
    assert {case.status for case in report.cases} == {"passed"}
    assumed = [note for case in report.cases for note in case.notes]
    assert bool(assumed) == (stated != meant)
    if stated != meant:
        assert ("no activation" if meant == "none" else f"the activation {meant}") in assumed[0]


@pytest.mark.parametrize("convention", ALL[1:], ids=Convention.meaning)
def test_what_an_activation_makes_zero_speaks_for_no_convention(tmp_path, convention):
    (tmp_path / "k.cu").write_text("")
    text = CARD.replace("beta = 3", 'beta = 3\nactivation = "relu"')
    card = replace(parse_card(text, tmp_path / "k.toml"), open_conventions=True)
    plain = gemm(convention)

    def kernel(_, launch):
        plain(_, launch)
        launch.arguments[2][...] = np.maximum(launch.arguments[2], 0)

    fake = Fake(kernel)
    report = check_card(card, backend=fake.backend, compiler=fake.compiler)
    assert report.status == "passed" and convention.meaning() in report.cases[0].notes[0]
