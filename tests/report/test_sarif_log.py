from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from example_runs import SOURCE, all_right, full, hostile

from wmmadiag.report import sarif

SCHEMA = json.loads(Path(__file__).with_name("sarif_2_1_0_used.json").read_text())


def log(run):
    return json.loads(sarif.render(run))


@pytest.mark.parametrize("run", [all_right(), full(), hostile()])
def test_is_what_the_standard_allows(run):
    jsonschema.Draft202012Validator(SCHEMA).validate(log(run))


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
