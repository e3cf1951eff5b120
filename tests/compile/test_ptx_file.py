"""PTX files as bytes: what belongs to the text, and what is refused by what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.languages import is_c_family, is_ptx
from wmmadiag.compile.read import ptx_text
from wmmadiag.compile.sources import read_text
from wmmadiag.errors import ConfigurationError, PtxSyntaxError

PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"

ENDS = [b"", b"\0", b"\0\0\0", b"\n\0", b"\0\n", b" \r\n\0\n", b"\x1a"]


@pytest.mark.parametrize("end", ENDS, ids=map(repr, ENDS))
def test_what_stands_behind_the_text_is_no_part_of_it(end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(PTX.encode() + end)
    assert read_text(path) == PTX
    assert [one.name for one in compile_source(path).entries] == ["k"]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert ptx_text(b"\xef\xbb\xbf" + PTX.encode(), "k.ptx") == PTX


def test_bytes_that_are_not_utf8_stay() -> None:
    text = ptx_text(b"// caf\xe9\n" + PTX.encode(), "k.ptx")
    assert text.encode("utf-8", "surrogateescape").startswith(b"// caf\xe9\n")


OTHERS = [
    ("empty", b"", "the file is empty"),
    ("blank", b" \n\0\0\n", "the file is empty"),
    ("cubin", b"\x7fELF\x02\x01\x01" + bytes(100), "a cubin or another ELF file"),
    ("fat binary", b"\x50\xed\x55\xba\x01\0\x10\0" + bytes(100), "a fat binary"),
    ("bitcode", b"BC\xc0\xde" + bytes(8), "LLVM bitcode"),
    ("gzip", b"\x1f\x8b\x08" + bytes(8), "a gzip archive"),
    ("zip", b"PK\x03\x04" + bytes(8), "a zip archive"),
    ("utf-16", PTX.encode("utf-16"), "UTF-16 text"),
    ("noise", bytes(range(7, 256)) + b"\0" + bytes(range(7, 256)), "binary data, not PTX"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_what_is_no_ptx_is_refused_by_what_it_is(data: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        ptx_text(data, "k.ptx")
    assert caught.value.hint
    assert str(caught.value).startswith("k.ptx: ")


def test_a_nul_within_the_text_is_an_error_at_its_place() -> None:
    with pytest.raises(PtxSyntaxError, match=r"k\.ptx:2:3: a NUL byte within the text"):
        ptx_text(PTX.replace("arget", "\0arget").replace(".t\0", ".t\0", 1).encode(), "k.ptx")


@pytest.mark.parametrize("suffix", ["ptx", "cu"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"pipe.{suffix}"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="is a named pipe"):
        read_text(pipe)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.ptx"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigurationError, match="MiB are more than"):
        read_text(path)


def test_languages_by_name() -> None:
    assert is_ptx("a/b.ptx") and is_ptx(Path("B.PTX")) and not is_ptx("ptx.cu")
    assert all(map(is_c_family, ("a.cu", "b.CUH", "c.inl", "/cuda/std/utility")))
    assert not any(map(is_c_family, ("a.py", "k.ptx", "a.mojo", "a.rs", "a.jl", "b.toml")))


def test_of_a_folder_one_file_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="it is a folder") as raised:
        read_text(tmp_path)
    assert raised.value.hint == "name one file in it"
