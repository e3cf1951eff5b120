"""`wmmadiag examples`: what is shipped can be listed, copied, and the copy checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmmadiag.cli.main import main


def test_lists_right_and_wrong_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    text = capsys.readouterr().out
    assert "attention/kernel.toml" in text and "attention/wrong/pv_overwritten.toml" in text


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any((Path(found["folder"]) / one["path"]).is_file() and one["text"] for one in found["cards"])


def test_a_copy_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kernels"
    assert main(["examples", "--copy", str(folder)]) == 0
    assert main(["check", str(folder / "gemm" / "kernel.toml"), "--color", "never"]) == 0
    assert "ok" in capsys.readouterr().out


def test_an_existing_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "--copy", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
