"""Bundles from anywhere: what is refused, and that nothing leaves its folder."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_kernels import write_right

from wmmadiag.bundle import read
from wmmadiag.bundle.read import contents
from wmmadiag.bundle.replay import replay
from wmmadiag.bundle.write import write_bundle
from wmmadiag.errors import ConfigurationError, WmmadiagError


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> dict[str, bytes]:
    """The entries of a bundle."""
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMMADIAG_CACHE_DIR", str(folder / "cache"))
        write_bundle(write_right(folder), folder / "b.zip", cases=["one"], arch="sm_80")
    with zipfile.ZipFile(folder / "b.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items() if isinstance(entries, dict) else entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def manifest(good, **changes) -> dict[str, bytes]:
    plain = json.loads(good["bundle.json"])
    return {**good, "bundle.json": json.dumps({**plain, **changes}).encode()}


def test_a_good_one_is_read(good):
    assert contents(packed(good), "b.zip").manifest.options.cases == ("one",)


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "files/../../evil",
        "/etc/evil",
        "files//evil",
        "C:evil",
        "files\\evil",
        "files/./evil",
        "a\nb",
        "files/",
    ],
)
def test_names_that_leave_the_folder(good, name):
    with pytest.raises(ConfigurationError, match="a file called"):
        contents(packed({**good, name: b"x"}), "b.zip")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK", "no bundle, or damaged"),
        (b"format = 1", "no bundle, or damaged"),
        (packed({}), "no bundle of wmmadiag"),
        (packed({"bundle.json": b"[]", "run.json": b"{}"}), "no bundle of wmmadiag"),
        (packed({"bundle.json": b"{", "run.json": b"{}"}), "damaged"),
        (packed({"bundle.json": b"[" * 100_000, "run.json": b"{}"}), "damaged"),
    ],
)
def test_what_is_no_bundle(data, message):
    with pytest.raises(ConfigurationError, match=message):
        contents(data, "b.zip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda good: manifest(good, version=3), "version 3; this wmmadiag reads version 2"),
        (lambda good: manifest(good, format="zip"), "no bundle of wmmadiag"),
        (lambda good: manifest(good, card="other.toml"), "not those that it lists"),
        (lambda good: manifest(good, card=3), r"Expected `str`"),
        (lambda good: manifest(good, compilations=[{}]), "missing required field"),
        (lambda good: {**good, "files/more.cu": b"x"}, "not those that it lists"),
        (lambda good: {**good, "files/gemm.cu": b"x"}, "gemm.cu was changed"),
        (lambda good: {n: d for n, d in good.items() if not n.startswith("ptx/")}, "ptx/0.ptx is missing"),
        (lambda good: {**good, "run.json": b"{}"}, "no report of wmmadiag"),
    ],
)
def test_what_does_not_fit_together(good, change, message):
    with pytest.raises(ConfigurationError, match=message):
        contents(packed(change(good)), "b.zip")


def test_a_name_twice(good):
    with pytest.warns(UserWarning, match="Duplicate"):
        data = packed([*good.items(), ("run.json", b"{}")])
    with pytest.raises(ConfigurationError, match=r"a file called 'run\.json'"):
        contents(data, "b.zip")


def test_it_is_never_unpacked_beyond_the_limit(good, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**good, "files/zeros": bytes(1 << 20)}.items():
            archive.writestr(name, data)
    monkeypatch.setattr(read, "MAX_BYTES", 1 << 20)
    with pytest.raises(ConfigurationError, match="too large when unpacked"):
        contents(buffer.getvalue(), "b.zip")
    monkeypatch.setattr(read, "MAX_ENTRIES", 3)
    with pytest.raises(ConfigurationError, match="more than a bundle may"):
        contents(packed(good), "b.zip")


def rehashed(good, path: str, text: bytes) -> dict[str, bytes]:
    import hashlib

    files = json.loads(good["bundle.json"])["files"]
    changed = manifest(good, files={**files, path: hashlib.sha256(text).hexdigest()})
    return {**changed, f"files/{path}": text}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'operation = "gemm"', b'operation = "python", python = "evil.py:gemm"', "Python code"),
        (b'source = "gemm.cu"', b'source = "/etc/passwd"', "not in the bundle"),
    ],
)
def test_a_card_that_reaches_out(good, old, new, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    card = good["files/right.toml"].replace(old, new)
    card = card.replace(b'role = "d"', b'role = "d", direction = "out", shape = ["M", "N"]')
    entries = rehashed(good, "right.toml", card)
    entries = rehashed(entries, "evil.py", b"import pathlib\npathlib.Path('evil').touch()\ndef gemm(A, B): return A\n")
    with pytest.raises(ConfigurationError, match=message):
        replay(contents(packed(entries), "b.zip"))
    assert not list(Path().iterdir())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_told_in_plain_words(good, data):
    whole = bytearray(packed(good))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))]) if data.draw(st.booleans()) else bytes(whole)
    try:
        contents(cut, "b.zip")
    except WmmadiagError as error:
        assert "b.zip" in str(error)
