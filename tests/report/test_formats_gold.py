"""Every text format of the example runs, as approved: `pytest tests/report --update-gold` rewrites them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from example_runs import all_right, diagnosed, diagnosis, full, run

from wmmadiag.report import comparison_text, github, junit, markdown, sarif, terminal, terminal_diagnosis
from wmmadiag.report.comparison import compare_runs
from wmmadiag.results import json_file
from wmmadiag.results.model import KernelReport

GOLD = Path(__file__).parent / "gold"


def changed():
    """The full run, later: a failure mended, a new one, another gone, one slower."""
    before = full()
    kernels = list(before.kernels)
    report: KernelReport = kernels[0].report
    cases = list(report.cases)
    right, wrong = cases[0], cases[1]
    cases[0] = replace(wrong, variant=right.variant, case=right.case)
    cases[1] = replace(right, variant=wrong.variant, case=wrong.case)
    cases[2] = replace(cases[2], seconds=9.0, warp_instructions=260_064)
    del cases[3]
    kernels[0] = replace(kernels[0], report=replace(report, cases=tuple(cases)))
    return replace(before, kernels=tuple(kernels), unchecked=before.unchecked[1:], versions={"wmmadiag": "0.2.0"})


RENDERED = {
    "full.md": lambda: markdown.render(full()),
    "right.md": lambda: markdown.render(all_right()),
    "full.sarif": lambda: sarif.render(full()),
    "full.xml": lambda: junit.render(full()),
    "full_github.txt": lambda: github.render(full()),
    "full_terminal.txt": lambda: terminal.render_run(full()),
    "right.json": lambda: json_file.render(all_right()),
    "diagnosis.txt": lambda: terminal_diagnosis.render(diagnosis()),
    "diagnosis_verbose.txt": lambda: terminal_diagnosis.render(diagnosis(), verbose=True),
    "changed.txt": lambda: comparison_text.render(compare_runs(full(), changed())),
    "changed.md": lambda: comparison_text.render_markdown(compare_runs(full(), changed())),
}


@pytest.mark.parametrize("name", RENDERED)
def test_is_as_approved(name, request):
    text = RENDERED[name]()
    path = GOLD / name
    if request.config.getoption("update_gold", default=False):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_no_gold_without_a_test():
    known = set(RENDERED) | {f"{name}.txt" for name in ("passing", "passing_verbose", "broken", "everything")}
    assert {path.name for path in GOLD.iterdir()} == known


def test_a_diagnosis_fits_80_columns_and_is_coloured_only_if_asked():
    text = terminal_diagnosis.render(diagnosis(), verbose=True)
    assert not [line for line in text.splitlines() if len(line) > 80]
    coloured = terminal_diagnosis.render(diagnosis(), colour=True, verbose=True)
    assert "\x1b" not in text and "\x1b[32m       +" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text


def test_the_caret_stands_under_the_column():
    lines = terminal_diagnosis.render(diagnosis()).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip() == "| ^")
    assert lines[at - 1].index("wmma::") == lines[at].index("^")


def test_markdown_fits_whatever_the_run():
    kernel = diagnosed()
    long = replace(kernel.report.cases[1], output="x" * 9000, repeat="y" * 3000)
    many = tuple(replace(long, case=f"case{number}") for number in range(40))
    kernels = [replace(kernel, report=replace(kernel.report, cases=many, name="n" * 300)) for _ in range(3)]
    text = markdown.render(run(*kernels))
    assert len(text.encode()) <= markdown.LIMIT < 65_536
    assert "more that did not fit" in text and text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0
