"""Which files a path stands for."""

from __future__ import annotations

import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.find_cards import find_subjects, looks_like_card

CARD = 'format = 1\nsource = "k.cu"\n'


def test_folders_files_and_order(tmp_path):
    for name in ("b.toml", "a/z.toml", "a/y.toml", ".venv/c.toml", "a/b/deep.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(CARD)
    (tmp_path / "a" / "pyproject.toml").write_text("[build-system]\nrequires = []\n")
    (tmp_path / "k.cu").write_text("")
    found = find_subjects([tmp_path / "k.cu", tmp_path, tmp_path / "a"])
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names == ["k.cu", "b.toml", "a/y.toml", "a/z.toml", "a/b/deep.toml"]


@pytest.mark.parametrize(
    ("text", "card"),
    [
        (CARD, True),
        (CARD + "oops = [", True),
        ("[[arguments]]\n[launch]\n= 3", True),
        ("[tool.x]\nformat = 1\n", False),
        ("[tool.x]\nformat = [", False),
        ("source = 'x'\n", False),
        ("", False),
        ("\0\xff", False),
    ],
)
def test_what_looks_like_a_card(tmp_path, text, card):
    path = tmp_path / "x.toml"
    path.write_bytes(text.encode("latin-1"))
    assert looks_like_card(path) is card


def test_links_are_followed_once(tmp_path):
    (tmp_path / "one.toml").write_text(CARD)
    (tmp_path / "two.toml").symlink_to(tmp_path / "one.toml")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(find_subjects([tmp_path])) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kernl.cu", "did you mean"),
        ("sub/x.cu", "the path exists up to"),
        ("kernel.cu/x", "cannot be read: Not a directory"),
        ("a\0b", "cannot be read"),
        ("caf\udce9.cu", "no such file"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_what_is_not_there(tmp_path, name, message):
    (tmp_path / "kernel.cu").write_text("")
    with pytest.raises(ConfigurationError) as caught:
        find_subjects([tmp_path / name])
    assert message in str(caught.value)


def test_a_name_that_is_no_text(tmp_path):
    path = tmp_path / "caf\udce9.cu"
    try:
        path.write_text("")
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses such names")
    with pytest.raises(ConfigurationError, match="is not text"):
        find_subjects([path])
