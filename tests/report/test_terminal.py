from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from example_reports import broken, everything, passing

from wmmadiag.report import terminal_diagnosis
from wmmadiag.report.terminal import WIDTH, render
from wmmadiag.results.diagnosis import Fix
from wmmadiag.results.model import KernelReport, to_builtins

GOLD = Path(__file__).parent / "gold"


@pytest.mark.parametrize(("name", "report", "options"), [
    ("passing", passing(), {}),
    ("passing_verbose", passing(), {"verbose": True}),
    ("broken", broken(), {}),
    ("everything", everything(), {}),
])  # fmt: skip
def test_text_is_as_approved(name, report, options, request):
    path = GOLD / f"{name}.txt"
    text = render(report, **options)
    if request.config.getoption("update_gold", default=False):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("report", [passing(), broken(), everything()])
def test_fits_80_columns_and_ascii(report):
    text = render(report, verbose=True)
    long = [line for line in text.splitlines() if len(line) > WIDTH and "repeat:" not in line]
    assert not long
    assert text.isascii()


def test_colour_only_if_asked():
    assert "\x1b" not in render(broken())
    coloured = render(broken(), colour=True)
    assert "\x1b[31;1mWRONG" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(broken())


@pytest.mark.parametrize(("statuses", "status", "code"), [
    (["passed"], "passed", 0), (["passed", "undecided"], "undecided", 3), (["undecided", "error"], "error", 2),
    (["error", "failed", "undecided"], "failed", 1), ([], "error", 2),
])  # fmt: skip
def test_exit_codes(statuses, status, code):
    from dataclasses import replace

    case = passing().cases[0]
    report = replace(passing(), cases=tuple(replace(case, status=s) for s in statuses))
    assert (report.status, report.exit_code) == (status, code)
    if not statuses:
        assert "no case ran" in render(report)


def test_builtins_are_plain_json():
    import json

    data = to_builtins(everything())
    text = json.dumps(data, allow_nan=False)
    assert json.loads(text) == data
    assert data["exit_code"] == 1
    assert data["cases"][1]["observations"][0]["first"]["observed"] == "nan"


def test_model_needs_no_numpy():
    import subprocess
    import sys

    code = "import sys; import wmmadiag.report.terminal; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert KernelReport("n", "c", "s", "o", "a", "b", (), ()).count("passed") == 0


def test_what_was_assumed_is_said_of_a_right_case():
    report = passing()
    case = replace(report.cases[0], notes=("assumed: B stored as NxK, which is what the result fits",))
    text = render(replace(report, cases=(case, *report.cases[1:])))
    assert "assumed: B stored as NxK" in text


def test_a_kernel_that_did_not_run_to_its_end_had_no_elements_to_count():
    fix = Fix("", "", "verified", 0, 0, math.inf, 0.0003, ("small",))
    assert terminal_diagnosis.fix_effect(fix) == (
        "with it: 0 elements wrong, where the kernel as it is does not run to its end, largest difference 0.0003;"
        " cases tried: small"
    )
    assert "0 elements wrong instead of 9, largest difference 0.0003 instead of infinite" in (
        terminal_diagnosis.fix_effect(replace(fix, wrong_before=9))
    )
