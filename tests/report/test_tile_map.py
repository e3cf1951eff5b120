from __future__ import annotations

import numpy as np

from wmmadiag.compare.comparison import tile_maps
from wmmadiag.report.tile_map import tile_map_lines


def lines(wrong, axes="BH"):
    return tile_map_lines(tile_maps(wrong), int(np.prod(wrong.shape[:-2])), axes)


def test_partial_tiles_count_by_their_own_size():
    wrong = np.zeros((1, 1, 20, 40), bool)
    wrong[..., 16:20, 32:40] = True
    wrong[..., 0, 0] = True
    drawn = [line.split() for line in lines(wrong)[1:]]
    assert drawn == [["0"], ["0", "1", ".", "."], ["16", ".", ".", "#"]]


def test_right_matrices_are_counted_and_alike_ones_folded():
    wrong = np.zeros((2, 4, 32, 32), bool)
    wrong[0, 1, 0, 0] = wrong[0, 2, 0, 0] = wrong[1, 3, 0, 0] = wrong[1, 1, 5, 3] = True
    text = "\n".join(lines(wrong))
    assert "b0 h1, b0 h2, b1 h1 and 1 more with the same wrong tiles" in text
    assert "the other 4 of 8 matrices are right" in text


def test_large_maps_are_condensed():
    wrong = np.zeros((2048, 2048), bool)
    wrong[1024:1040] = True
    text = lines(wrong)
    assert "(each cell stands for 4x4 tiles)" in text[0]
    assert len(text) == 2 + 32
    assert max(map(len, text)) <= 74
    assert [line for line in text[2:] if line.split()[1] != "."] == [text[2 + 16]]
    assert text[18].split()[:2] == ["1024", "2"]


def test_one_matrix_needs_no_title():
    wrong = np.ones((16, 16), bool)
    assert [line.split() for line in lines(wrong, "")] == [["0"], ["0", "#"]]


def test_only_some_maps_are_drawn():
    wrong = np.zeros((9, 64, 16), bool)
    for matrix in range(9):
        wrong[matrix, matrix * 7, 0] = True
    assert lines(wrong, "H")[-1].endswith("more matrices with other maps")
