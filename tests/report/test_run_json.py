from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import run_schema
from example_runs import all_right, full, hostile

from wmmadiag import report
from wmmadiag.errors import ConfigurationError
from wmmadiag.results import json_file
from wmmadiag.results.model import FORMAT_VERSION


def test_the_published_schema_is_current():
    assert Path(report.__file__).with_name("schema.json").read_text("utf-8") == run_schema.page(), (
        "run python scripts/pages"
    )


def test_the_schema_is_one_and_what_is_written_fits_it():
    made = run_schema.schema()
    jsonschema.Draft202012Validator.check_schema(made)
    validator = jsonschema.Draft202012Validator(made)
    for run in (all_right(), full(), hostile()):
        validator.validate(json.loads(json_file.render(run)))
    broken = json.loads(json_file.render(full()))
    broken["kernels"][0]["report"]["cases"][0]["status"] = "fine"
    assert not validator.is_valid(broken)


@pytest.mark.parametrize("run", [all_right(), full()])
def test_what_is_written_is_read(run):
    text = json_file.render(run)
    again = json_file.parse(text.encode())
    assert json_file.render(again) == text
    assert again.exit_code == run.exit_code and repr(again) == repr(run)


def test_programs_find_the_outcome():
    plain = json.loads(json_file.render(full()))
    assert (plain["status"], plain["exit_code"], plain["format_version"]) == ("failed", 1, FORMAT_VERSION)
    assert plain["kernels"][2]["report"]["status"] == "passed"
    json.loads(json_file.render(full()), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\x00\xff", "no JSON"),
        (b'{"format_version": 8, "kernels": [', "cut off"),
        (b"[]", "no report of wmmadiag"),
        (b'{"a": 1}', "no report of wmmadiag"),
        (b'{"format_version": 3}', "version 3; this wmmadiag reads version 8"),
        (b'{"format_version": 99}', "version 99"),
        (b'{"format_version": "x"}', "version x"),
        (b'{"format_version": 8}', "missing required field `kernels`"),
        (b'{"format_version": 8, "kernels": [{"report": {"name": []}}]}', "at kernels[0].report.name"),
    ],
)
def test_damaged_files_are_refused_in_words(data, words):
    with pytest.raises(ConfigurationError) as caught:
        json_file.parse(data, "run.json")
    assert words in caught.value.message and caught.value.message.startswith("run.json") and caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        json_file.read(tmp_path / "run.json")


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    json_file.write_whole(path, "old\n")
    path.chmod(0o640)

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match="No space left"):
        json_file.write_whole(path, "new\n")
    assert path.read_text() == "old\n" and [one.name for one in tmp_path.iterdir()] == ["run.json"]
    monkeypatch.undo()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    json_file.write_whole(link, "new \ud800\n")
    assert path.read_text() == "new ?\n" and link.is_symlink() and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("name", "words"), [("gone/run.json", "make the folder first"), (".", "it is a folder")])
def test_places_where_nothing_can_be_written(tmp_path, name, words):
    with pytest.raises(ConfigurationError) as caught:
        json_file.write_whole(tmp_path / name, "text")
    assert words in str(caught.value)


@pytest.mark.subprocess
def test_reading_and_rendering_needs_no_numpy(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json_file.render(full()), "utf-8")
    code = (
        "import sys; from pathlib import Path\n"
        "from wmmadiag.report import github, html, junit, markdown, sarif, terminal\n"
        "from wmmadiag.results import json_file\n"
        "run = json_file.read(Path(sys.argv[1]))\n"
        "[one.render(run) for one in (github, html, junit, markdown, sarif)]; terminal.render_run(run)\n"
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0
