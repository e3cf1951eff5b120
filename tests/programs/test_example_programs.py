"""`examples/programs`, `public_style/`: output (or how it `ends`), exit code, findings as the file beside each says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from wmmadiag.cli.main import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "examples" / "programs"
PUBLIC_STYLE = Path(__file__).parent / "public_style"


def runs() -> list[Any]:
    """One parameter a run: the sources, and what is expected."""
    found = []
    for path in (*sorted(FOLDER.glob("*.toml")), *sorted(PUBLIC_STYLE.glob("*.toml"))):
        expected = tomllib.loads(path.read_text("utf-8"))
        sources = [path.parent / name for name in expected.get("sources", [f"{path.stem}.cu"])]
        for run in expected["run"]:
            arguments = [*run.get("options", []), *run.get("arguments", [])]
            marks = [pytest.mark.xfail(reason=run["missed"], strict=True)] if "missed" in run else []
            found.append(pytest.param(sources, run, id="-".join([path.stem, *arguments]), marks=marks))
    return found


@pytest.mark.subprocess
@pytest.mark.parametrize(("sources", "expected"), runs())
@pytest.mark.corpus
def test_example_program(
    sources: list[Path], expected: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "run.json"
    arguments = expected.get("arguments", [])
    options = expected.get("options", [])
    words = ["run", "--json", str(record), *options, *map(str, sources), *(["--", *arguments] if arguments else [])]
    exit_code = main(words)
    said = capfd.readouterr()
    findings = [one["finding"] for one in json.loads(record.read_text("utf-8"))["found"]]
    places = {
        (one["check"], int(one["place"].split(":")[1])) for one in findings if one["level"] in ("error", "warning")
    }
    assert places == {(one["check"], one["line"]) for one in expected["findings"]}, said.err
    assert said.out == expected["output"] if "output" in expected else said.out.endswith(expected["ends"])
    assert exit_code == expected["exit"], said.err


def test_examples_are_at_least_ten_programs_and_have_right_and_wrong_runs() -> None:
    assert len(list(FOLDER.glob("*.toml"))) >= 10
    right = [run for run in runs() if not run.values[1]["findings"]]
    assert 5 <= len(right) < len(runs())
