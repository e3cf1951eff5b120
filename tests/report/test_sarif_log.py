from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from example_runs import SOURCE, all_right, full, hostile

import wmmadiag
from wmmadiag.cli.main import main
from wmmadiag.recording.recorder import rules
from wmmadiag.report import sarif

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0-rtm.5.json").read_text())
"""Of the OASIS standard; its errata of 2023 say besides that a region has a start, and forbid a `runs` of null."""


def log(run):
    return json.loads(sarif.render(run))


def objects(value, name):
    """All objects of that name below a value."""
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if key == name)
        yield from (found for one in value.values() for found in objects(one, name))
    elif isinstance(value, list):
        yield from (found for one in value for found in objects(one, name))


@pytest.mark.parametrize("run", [all_right(), full(), hostile()])
def test_is_what_the_standard_allows(run):
    made = log(run)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(made)
    assert all("startLine" in one for one in objects(made, "region"))


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda made: made["runs"][0]["results"][0].pop("message"),
        lambda made: made["runs"][0]["results"][0].update(levle="error"),
        lambda made: made["runs"][0]["tool"]["driver"].update(informationUri=3),
    ],
)
def test_what_the_standard_forbids_is_told(spoiled):
    made = log(full())
    spoiled(made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(made)


@pytest.mark.parametrize("run", [replace(full(), rules=rules()), hostile()])
def test_is_what_code_scanning_takes(run):
    """GitHub's limits: "SARIF support for code scanning", docs.github.com, November 2026."""
    (made,) = log(run)["runs"]
    for rule in made["tool"]["driver"]["rules"]:
        assert all(len(rule[name]["text"]) <= 1024 for name in ("shortDescription", "fullDescription")), rule["id"]
    for one in made["results"]:
        assert 1 <= len(one["locations"]) <= 1000 and one["message"]["text"]
        assert one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_a_long_text_of_a_rule_is_cut_where_it_must_be():
    made = log(replace(full(), rules=rules()))["runs"][0]["tool"]["driver"]["rules"]
    (races,) = [rule for rule in made if rule["id"] == "races/read-write"]
    whole, shown = races["help"]["text"], races["fullDescription"]["text"]
    assert len(whole) > 1024 >= len(shown) > 900 and whole.startswith(shown.removesuffix(" …"))


def results(run):
    return log(run)["runs"][0]["results"]


def test_results_lie_on_lines_and_name_their_rules():
    made = log(full())["runs"][0]
    rules = [rule["id"] for rule in made["tool"]["driver"]["rules"]]
    for one in made["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
    race = next(one for one in made["results"] if one["ruleId"] == "races/read-write")
    place = race["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "kernel.cu", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 8, "startColumn": 2} and race["level"] == "error"
    assert race["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 5
    assert len({json.dumps(one["partialFingerprints"]) for one in made["results"]}) > 5


def test_each_rule_says_what_code_scanning_shows():
    for run in (full(), hostile()):
        for rule in log(run)["runs"][0]["tool"]["driver"]["rules"]:
            assert all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help")), rule["id"]


def test_the_fix_mends_the_source():
    fix = next(one["fixes"][0] for one in results(full()) if "fixes" in one)
    replacement = fix["artifactChanges"][0]["replacements"][0]
    region, lines = replacement["deletedRegion"], SOURCE.splitlines(keepends=True)
    assert (region["startColumn"], region["endColumn"]) == (1, 1)
    lines[region["startLine"] - 1 : region["endLine"] - 1] = [replacement["insertedContent"]["text"]]
    assert "".join(lines) == SOURCE.replace("[0], 64)", "[0], 72)")


def test_nothing_wrong_gives_no_result():
    assert results(all_right()) == [] and log(all_right())["runs"][0]["invocations"][0]["exitCode"] == 0


def test_the_same_trouble_in_several_cases_is_one_result():
    found = [
        one for one in results(full()) if one["ruleId"] == "wrong-output" and "attention" in one["properties"]["kernel"]
    ]
    assert len(found) == 1 and len(found[0]["properties"]["cases"]) == 4  # tail0 is diagnosed


def test_paths():
    kernel = full().kernels[0]
    absolute = replace(kernel.diagnoses[0].causes[0], place="/a b/k.cu:3")
    run = replace(full(), kernels=(replace(kernel, diagnoses=(replace(kernel.diagnoses[0], causes=(absolute,)),)),))
    uris = [one["locations"][0]["physicalLocation"]["artifactLocation"] for one in results(run)]
    assert {"uri": "file:///a%20b/k.cu"} in uris


@pytest.fixture
def published(monkeypatch):
    monkeypatch.delenv("WMMADIAG_DOCUMENTATION", raising=False)
    monkeypatch.setattr(wmmadiag, "__documentation__", "https://example.org/wmmadiag/")


def test_no_address_is_made_up(monkeypatch):
    monkeypatch.delenv("WMMADIAG_DOCUMENTATION", raising=False)
    text = sarif.render(full())
    assert wmmadiag.__documentation__ or ("informationUri" not in text and "helpUri" not in text)


def test_a_rule_leads_to_its_page(published):
    run = replace(full(), rules=rules())
    made = log(run)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(made)
    driver = made["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == "https://example.org/wmmadiag/index.html"
    pages = {}
    for rule in driver["rules"]:
        page, _, anchor = rule["helpUri"].removeprefix("https://example.org/wmmadiag/").partition("#")
        text = (DOCS / page.replace(".html", ".md")).read_text("utf-8")
        assert not anchor or f"\n## {anchor}\n" in text, rule["helpUri"]
        pages[rule["id"]] = page
    assert pages["races/read-write"] == "checks.html" and pages["wrong-output"] == "reading-a-report.html"
    assert pages["leading-dimension"] == "causes.html"


@pytest.mark.parametrize(
    ("named", "first", "of_check"),
    [
        (
            "https://ci.example/pages",
            "https://ci.example/pages/index.html",
            "https://ci.example/pages/checks.html#races",
        ),
        ("http://h/a/{page}.md", "http://h/a/index.md", "http://h/a/checks.md#races"),
    ],
)
def test_whoever_keeps_the_pages_says_where(published, monkeypatch, named, first, of_check):
    monkeypatch.setenv("WMMADIAG_DOCUMENTATION", named)
    made = log(replace(full(), rules=rules()))
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(made)
    driver = made["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == first
    assert of_check in {rule["helpUri"] for rule in driver["rules"]}


@pytest.mark.parametrize(
    "named", ["docs", "https://", "javascript:1", "https://h/a b", "https://h/{other}.md", "/docs"]
)
def test_what_is_no_address_is_told_before_anything_runs(monkeypatch, tmp_path, capsys, named):
    monkeypatch.setenv("WMMADIAG_DOCUMENTATION", named)
    assert main(["check", "nowhere.toml", "--sarif", str(tmp_path / "run.sarif")]) == 2
    said = capsys.readouterr().err
    assert "WMMADIAG_DOCUMENTATION is no address of pages" in said and "next: write" in said
    assert not list(tmp_path.iterdir())
