"""What a notebook shows: text that says what a terminal says, pictures that are well-formed and say what is wrong."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html import unescape

import numpy as np
import pytest
from example_runs import all_right, error_map, fragment, full, hostile

import wmmadiag
from wmmadiag.report import terminal, terminal_diagnosis
from wmmadiag.report.comparison import compare_runs

SVG = "{http://www.w3.org/2000/svg}"


def pictures(text):
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def hints(picture):
    return [one.text for one in picture.iter(f"{SVG}title")]


def words(text):
    return unescape(re.search(r"<pre>(.*?)</pre>", text, re.DOTALL)[1])


def test_a_run_says_what_a_terminal_says():
    run = full()
    shown = run._repr_html_()
    assert words(shown) == terminal.render_run(run)
    drawn = pictures(shown)
    assert len(drawn) == 3 and "elements wrong" in drawn[0].get("aria-label")
    report, diagnosis = run.kernels[0].report, run.kernels[0].diagnoses[0]
    assert words(report._repr_html_()) == terminal.render(report)
    assert words(diagnosis._repr_html_()) == terminal_diagnosis.render(diagnosis)
    assert "1 " in words(compare_runs(all_right(), run)._repr_html_())
    assert pictures(all_right()._repr_html_()) == []


def test_names_of_users_are_text():
    shown = hostile()._repr_html_()
    assert "<script" not in shown and "<img" not in shown
    assert pictures(shown)


def test_wrong_tiles():
    values = np.zeros((40, 64), np.float32)
    values[20, 3] = values[39, 63] = 1
    seen = wmmadiag.compare_arrays(values, np.zeros((40, 64)), 1e-3)
    (picture,) = pictures(seen._repr_html_())
    assert [one for one in hints(picture) if ": 0 of" not in one] == [
        "rows from 16, columns from 0: 1 of 256",
        "rows from 32, columns from 48: 1 of 128",
    ]
    assert len(hints(picture)) == 3 * 4
    right = wmmadiag.compare_arrays(values * 0, np.zeros((40, 64)), 1e-3)
    assert pictures(right._repr_html_()) == [] and "all 2560 elements" in words(right._repr_html_())


@pytest.mark.parametrize("shape", [(1, 2, 100, 64), (1, 2, 300, 128)])
def test_an_error_map_shows_each_wrong_element_or_the_worst_of_its_cell(shape):
    one = error_map(shape=shape)
    other, wrong = pictures(one._repr_html_())
    assert any("about 2.2e+02 × the bound" in hint for hint in hints(wrong))
    assert [hint for hint in hints(other) if "nan" in hint] and not any("2.2e+02" in hint for hint in hints(other))
    rows = {float(box.get("y")) for box in wrong.iter(f"{SVG}rect") if box.get("y")}
    assert len(rows) <= 64 and len(one._repr_html_()) < 2_000_000


def test_a_fragment_names_the_lane_and_what_it_holds():
    picture = ElementTree.fromstring(fragment()._repr_svg_())
    assert "lane 4 x[0]: held K[0,0] row 0, column 8, should hold K[0,0] row 1, column 0" in hints(picture)
    signs = [one.text for one in picture.iter(f"{SVG}text")]
    assert signs.count("4×") == 8 and signs.count("0") >= 4  # of its row 1 all is wrong, of row 0 nothing
