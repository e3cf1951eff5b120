"""A bundle repeats its check elsewhere: without the sources, without a compiler; what differs is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_kernels import RIGHT, write_right, write_wrong

from wmmadiag.bundle import read
from wmmadiag.bundle.read import read_bundle
from wmmadiag.bundle.replay import replay
from wmmadiag.errors import ConfigurationError, UndecidedError


@pytest.fixture
def elsewhere(here, tmp_path_factory, monkeypatch):
    """Take a bundle away: its folder is deleted, and there is no compiler any more."""

    def leave(name: str) -> Path:
        folder = tmp_path_factory.mktemp("elsewhere")
        shutil.copy(name, folder / "b.zip")
        monkeypatch.chdir(folder)
        for item in here.iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()

        def missing(*_words, **_options):
            raise ConfigurationError("NVRTC not found")

        monkeypatch.setattr("wmmadiag.compile.driver.compile_text", missing)
        monkeypatch.setattr("wmmadiag.compile.driver.toolchain", missing)
        return folder / "b.zip"

    return leave


@pytest.mark.parametrize(("write", "code"), [(write_right, 0), (write_wrong, 1)])
def test_the_same_outcome_without_sources_or_a_compiler(here, run, elsewhere, write, code):
    card = write(Path())
    made, out, err = run("check", card, "--bundle", "b.zip", "--arch", "sm_80")
    assert made == code and "wmmadiag replay b.zip" in err
    elsewhere("b.zip")
    again, replayed, err = run("replay", "b.zip", "--json", "again.json")
    assert again == code and "the outcome is the bundle's" in err
    strip = [line for line in out.splitlines() if " s" not in line]
    assert strip == [line for line in replayed.splitlines() if " s" not in line] and len(strip) > 3
    assert Path("again.json").is_file()


def test_headers_macros_templates_and_folders(here, run, elsewhere):
    for folder in ("kernels/gemm", "shared/include"):
        Path(folder).mkdir(parents=True)
    Path("shared/include/fill.h").write_text("#define FILL 0.0f\n")
    Path("kernels/tile.h").write_text("#define TILE 16\n")
    source = '#include <fill.h>\n#include "../tile.h"\n' + RIGHT.replace("__global__", "template <int T>\n__global__")
    Path("kernels/gemm/gemm.cu").write_text(source.replace("* 16;", "* T;", 1))
    card = write_right(Path("kernels"))
    text = card.read_text().replace('"gemm.cu"', '"gemm/gemm.cu"').replace('entry = "gemm"', 'entry = "gemm<TILE_M>"')
    card.write_text('include_paths = ["../shared/include"]\nmacros = { TILE_M = 16 }\n' + text)
    code, out, err = run("check", card, "--bundle", "b.zip", "--case", "two", "-D", "EXTRA")
    assert code == 0, out + err
    bundle = read_bundle(elsewhere("b.zip"))
    assert set(bundle.files) == {
        "kernels/right.toml",
        "kernels/gemm/gemm.cu",
        "kernels/tile.h",
        "shared/include/fill.h",
    }
    found = replay(bundle)
    assert not found.differences and found.run.exit_code == 0
    assert [case.case for case in found.run.kernels[0].report.cases] == ["two"]


def test_a_source_beside_the_replay_is_not_read(here, run):
    card = write_wrong(Path())
    run("check", card, "--bundle", "b.zip", "--case", "one")
    Path("wrong.cu").write_text("nothing\n" * 50)
    code, out, _ = run("replay", "b.zip")
    assert code == 1 and "nothing" not in out
    assert Path.cwd() == here


def changed(path, monkeypatch, **changes):
    bundle = read_bundle(path)
    for name, change in changes.items():
        object.__setattr__(bundle, name, change(getattr(bundle, name)))
    monkeypatch.setattr(read, "read_bundle", lambda _: bundle)


def test_another_outcome_is_3(here, run, monkeypatch):
    run("check", write_right(Path()), "--bundle", "b.zip", "--case", "one")
    changed("b.zip" and Path("b.zip"), monkeypatch, ptx=lambda ptx: {
        name: text.replace("0f00000000", "0f3F800000") for name, text in ptx.items()})  # fmt: skip
    code, _, err = run("replay", "b.zip")
    assert code == 3 and "default / one: passed" in err and "failed (C: all 256 elements wrong) here" in err


def test_other_inputs_are_not_replayed(here, run, monkeypatch):
    run("check", write_right(Path()), "--bundle", "b.zip", "--case", "one")
    monkeypatch.setattr("wmmadiag.bundle.replay.input_hashes", lambda *_: [])
    with pytest.raises(UndecidedError, match="inputs"):
        replay(read_bundle(Path("b.zip")))
    code, out, err = run("replay", "b.zip")
    assert code == 3 and "versions that made it" in err and not out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gemm.cu",), "a bundle is made of a card"),
        (("right.toml", "wrong.toml"), "one card"),
        (("right.toml", "--arch", "sm_80", "--arch", "sm_90"), "one card"),
        (("right.toml", "--baseline", "x"), "--baseline and --bundle"),
        (("right.toml", "--diagnose"), "--diagnose and --bundle"),
        (("right.toml", "--backend", "gpu"), "NVRTC compiled"),
        (("right.toml", "--case", "tow"), "it has: one, two"),
        (("python.toml",), "Python code"),
        (("broken.toml",), "nothing was compiled"),
        (("computed.toml",), "computed by a macro"),
    ],
)
def test_what_cannot_be_bundled(here, run, words, message):
    card = write_right(here)
    write_wrong(here)
    python = card.read_text().replace('operation = "gemm"', 'operation = "python", python = "ref.py:gemm"')
    Path("python.toml").write_text(python.replace('role = "d"', 'role = "d", direction = "out", shape = ["M", "N"]'))
    computed = "#define S(x) #x\n#define H S(x.h)\n#include H\n" + RIGHT
    for name, text in (("broken", RIGHT.replace("int r", "itn r")), ("computed", computed)):
        Path(f"{name}.cu").write_text(text)
        Path(f"{name}.toml").write_text(card.read_text().replace("gemm.cu", f"{name}.cu"))
    code, out, err = run("check", *words, "--bundle", "b.zip")
    assert code == 2 and message in err and not out
    assert not Path("b.zip").exists()
