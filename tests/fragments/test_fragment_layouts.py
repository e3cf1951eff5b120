"""`wmmadiag.fragment_map`: layouts, addresses, banks, pictures; and what a typo gets."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import wmmadiag
from wmmadiag.api.fragment_forms import rows
from wmmadiag.errors import ConfigurationError, UnsupportedError
from wmmadiag.report.fragments import markdown as fragment_markdown
from wmmadiag.report.fragments import svg as fragment_svg
from wmmadiag.report.fragments import text as fragment_text


def test_a_row_major_f16_operand() -> None:
    layout = wmmadiag.fragment_map("m16n16k16", "f16", "a", layout="row", ldm=72, base=64)
    assert layout.block == (1, 2) and layout.registers == 8 and layout.used_registers == 4
    assert layout.cells[0][9][10][0] == (5, 6)
    assert layout.memory.bits[0][9][10] == 8 * (64 + 2 * (9 * 72 + 10))
    assert (layout.memory.passes, layout.memory.fewest, layout.memory.better_ldm) == (4, 4, 0)


@pytest.mark.parametrize(
    ("words", "block"),
    [
        (("m16n16k16", "f16", "b"), (2, 1)),
        (("m16n16k16", "s8", "b"), (4, 1)),
        (("m8n8k128", "b1", "a"), (1, 32)),
        (("m16n16k8", "tf32", "a"), (1, 1)),
        (("m16n16k16", "f32", "c"), (1, 2)),
        (("m8n32k16", "f32", "c"), (2, 1)),
        (("mma.m16n8k32", "e4m3", "a"), (1, 4)),
        (("ldmatrix.x2",), (1, 2)),
        (("ldmatrix.x4.trans",), (2, 1)),
    ],
)
def test_boxes_follow_the_registers(words: tuple[str, ...], block: tuple[int, int]) -> None:
    assert wmmadiag.fragment_map(*words).block == block


def test_columns_as_memory_lines() -> None:
    memory = wmmadiag.fragment_map("m16n16k16", "f16", "b", layout="col", ldm=24).memory
    assert memory.lines == tuple(48 * column for column in range(16))
    assert memory.bits[0][3][5] == 8 * (48 * 5 + 2 * 3)


def test_an_odd_leading_dimension_is_drawn_as_the_chip_cuts_it() -> None:
    layout = wmmadiag.fragment_map("m16n16k16", "f32", "d", ldm=17)
    assert layout.memory.lines[3] == 4 * 3 * 16
    assert any("cuts it to multiples of 2" in note for note in layout.notes)


def test_a_base_on_which_the_chip_stops_has_no_banks() -> None:
    layout = wmmadiag.fragment_map("m16n16k16", "f16", "a", base=8)
    assert not layout.memory.banks and any("misaligned address" in note for note in layout.notes)
    assert wmmadiag.fragment_map("m16n16k16", "f16", "a", base=16).memory.banks
    assert not wmmadiag.fragment_map("m16n16k16", "f16", "a", space="global").memory.banks


def test_names_of_c_plus_plus() -> None:
    ours = wmmadiag.fragment_map("m16n16k16", "f32", "c", layout="col")
    theirs = wmmadiag.fragment_map("16x16x16", "float", "accumulator", layout="mem_col_major")
    assert ours == theirs
    assert wmmadiag.fragment_map("mma.sync.m16n8k16", "half", "B").name == "mma.sync m16n8k16"


def test_ldmatrix_addresses() -> None:
    layout = wmmadiag.fragment_map("ldmatrix.x4", ldm=64)
    assert layout.memory.lines[9] == 9 * 128 and layout.memory.lines[17] == 128 + 16
    assert layout.cells[2][1][2] == ((5, 4),)
    assert (layout.memory.passes, layout.memory.better_ldm) == (32, 72)


@pytest.mark.parametrize(
    ("words", "options", "hint"),
    [
        (("m16n16k61", "f16", "a"), {}, "did you mean m16n16k16?"),
        (("m16n8k16", "f16", "a"), {}, "mma.sync has it: mma.m16n8k16"),
        (("mma.m16n16k16", "f16", "a"), {}, "wmma has it: m16n16k16"),
        (("m16n16k16", "f61", "a"), {}, "did you mean 'f16'?"),
        (("m16n16k16", "f32", "a"), {}, "types of A there: f16, bf16, s8, u8"),
        (("m16n16k16", "tf32", "a"), {}, "tf32 is in m16n16k8"),
        (("m16n16k16", "", ""), {}, "a, b, c"),
        (("m16n16k16", "", "a"), {}, "types of A there"),
        (("m16n16k16", "f16", "x"), {}, "a, b, c"),
        (("m16n16k16", "f16", "a"), {"layout": "diagonal"}, "row and col"),
        (("m8n8k32", "s4", "a"), {"layout": "col"}, "give row"),
        (("mma.m16n8k16", "f16", "a"), {"layout": "col"}, "give row"),
        (("mma.m16n8k16", "f16", "a"), {"ldm": 64}, "ldmatrix"),
        (("m16n16k16", "f16", "a"), {"ldm": 0}, "1 to"),
        (("m16n16k16", "f16", "a"), {"space": "local"}, "shared, global"),
        (("ldmatrx.x4",), {}, "did you mean 'ldmatrix'?"),
        (("ldmatrix",), {}, "ldmatrix.x1"),
        (("movmatrix",), {}, "ldmatrix.x1.trans"),
        (("m16n16k16", "a", "f16"), {}, "m16n16k16 f16 a"),
        (("ldmatrix.x3",), {}, ".x2 and .x4"),
        (("",), {}, "m16n16k16"),
    ],
)
def test_what_does_not_exist_names_what_does(words: tuple[str, ...], options: dict, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wmmadiag.fragment_map(*words, **options)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("words", "arch", "hint"),
    [
        (("m16n16k16", "bf16", "a"), "sm_75", "sm_80 and later"),
        (("mma.m16n8k32", "e4m3", "a"), "sm_80", "sm_89 and later"),
        (("mma.m16n8k32", "e2m1", "a"), "sm_120", "sm_120a"),
        (("wgmma.m64n256k16", "f16", "a"), "sm_90a", "mma.m16n8k16"),
        (("ldmatrix.m16n16.x1.trans",), "sm_100", "m8n8 of b16"),
        (("stmatrix.x4",), "sm_80", "sm_90 and later"),
        (("m16n16k16", "f16", "a"), "sm_70", "sm_75"),
        (("m16n16k16", "f16", "a"), "sm_91", "known are"),
    ],
)
def test_what_an_architecture_lacks(words: tuple[str, ...], arch: str, hint: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        wmmadiag.fragment_map(*words, arch=arch)
    assert hint in caught.value.hint


def _every_fragment() -> list[tuple[str, str, str, str, str]]:
    """(name, type, matrix, layout, arch) of all that `shapes` lists."""
    found = []
    for arch in ("sm_75", "sm_90", "sm_120a"):
        for row in rows(arch):
            if not row.sums:
                continue
            for matrix in "abcd":
                types = row.types if matrix in "ab" else tuple({pair["cd".index(matrix)] for pair in row.sums})
                layouts = {"a": row.a_layouts, "b": row.b_layouts}.get(matrix, ("row",))
                found += [(row.name, type, matrix, layout, arch) for type in types for layout in layouts]
    return found


def test_every_form_that_is_listed_can_be_drawn() -> None:
    every = _every_fragment()
    assert len(every) > 400
    drawn = set()
    for name, type, matrix, layout, arch in every:
        if (name, type, matrix, layout) in drawn:
            continue
        drawn.add((name, type, matrix, layout))
        found = wmmadiag.fragment_map(name, type, matrix, layout=layout, arch=arch)
        for tile in found.cells:
            assert all(held for row in tile for held in row)
        text = fragment_text.render(found)
        assert max(map(len, text.splitlines())) <= 80 and found.title in text


@pytest.mark.parametrize("words", [("m8n8k128", "b1", "b"), ("m16n16k16", "f16", "b"), ("ldmatrix.x4",),
                                   ("mma.m8n8k4", "f16", "a"), ("mma.m16n8k16", "f32", "d")])  # fmt: skip
def test_pictures_of_all_kinds(words: tuple[str, ...]) -> None:
    layout = wmmadiag.fragment_map(*words)
    root = ElementTree.fromstring(fragment_svg.render(layout))
    boxes = layout.rows * layout.columns * len(layout.cells) // (layout.block[0] * layout.block[1])
    assert len([node for node in root.iter() if node.tag.endswith("title")]) == boxes
    assert layout._repr_svg_() in layout._repr_html_()
    tables = [line for line in fragment_markdown.render(layout).splitlines() if line.startswith("|")]
    assert len(tables) > layout.rows // layout.block[0]
    data = json.loads(json.dumps(layout.as_data()))
    assert len(data["elements"]) == layout.rows * layout.columns * len(layout.cells)


def test_colours_change_nothing_but_colours() -> None:
    import re

    layout = wmmadiag.fragment_map("ldmatrix.x4", ldm=72)
    coloured = fragment_text.render(layout, colour=True, width=120)
    assert "\x1b[" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == fragment_text.render(layout, width=120)


def test_listed_layouts_and_types() -> None:
    by_name = {(row.name, row.types): row for row in rows("sm_90")}
    assert by_name["mma.m8n8k4", ("f16",)].a_layouts == ("row", "col")
    assert by_name["mma.m16n8k16", ("f16",)].b_layouts == ("col",)
    assert by_name["m8n8k32", ("s4", "u4")].a_layouts == ("row",)
    assert ("mma.m16n8k32", ("s8", "u8")) in by_name and ("mma.m16n8k32", ("s4", "u4")) in by_name
    assert {row.name for row in rows("sm_75")} & {"ldmatrix", "stmatrix"} == {"ldmatrix"}
    with pytest.raises(UnsupportedError):
        rows("sm_12")
