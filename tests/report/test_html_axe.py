"""axe-core (npm's `axe-core`, MPL-2.0) finds nothing on the pages: all its rules of WCAG 2 A and AA and best practice.

`npm install axe-core`, and WMMADIAG_AXE names its axe.min.js; or it lies in node_modules/ of the repository.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import chromium
import pytest
from example_runs import all_right, full, hostile

from wmmadiag.campaign.changes import Changes
from wmmadiag.campaign.explain import CampaignFinding
from wmmadiag.campaign.plan import Plan
from wmmadiag.campaign.points import Point
from wmmadiag.campaign.run import Campaign
from wmmadiag.campaign.work import PointResult, WorkSetting
from wmmadiag.report import html
from wmmadiag.report.campaign import html as campaign_page

BESIDE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
AXE = Path(os.environ.get("WMMADIAG_AXE") or BESIDE)
EXECUTABLE = chromium.find()
pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium: install it, or name it in WMMADIAG_CHROMIUM"),
    pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm install axe-core, or name it in WMMADIAG_AXE"),
]
RUN = """axe.run(document).then(found => found.violations.map(one =>
    one.id + ': ' + one.nodes.map(node => node.html + ' ' + node.failureSummary).join('\\n    ')))"""


@pytest.fixture
def violations(browser):
    def found(page, *, dark=False, width=1280):
        browser.open(page, width, dark=dark)
        browser.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
        browser.value(AXE.read_text("utf-8") + ";0")
        return browser.value(RUN)

    return found


def twice():
    """The same kernel on two architectures."""
    run = full()
    return replace(run, kernels=tuple(
        replace(one, report=replace(one.report, arch=arch)) for arch in ("sm_80", "sm_90") for one in run.kernels
    ))  # fmt: skip


# What the same kernel on another architecture adds to the page hangs on neither its colours nor its width.
@pytest.mark.parametrize(
    ("run", "dark", "width"),
    [(run, False, 1280) for run in (all_right, twice, hostile)]
    + [(run, *kind) for kind in ((True, 1280), (False, 390)) for run in (all_right, full, hostile)],
)
def test_a_run(violations, tmp_path, run, dark, width):
    page = tmp_path / "page.html"
    page.write_text(html.render(run()), "utf-8")
    assert violations(page, dark=dark, width=width) == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_campaign(violations, tmp_path, dark):
    points = [Point("a.toml", arch, "default", "one", {"M": size}) for arch in ("sm_80", "sm_90") for size in (1, 2, 3)]
    campaign = Campaign(Plan(tmp_path / "plan.toml", "nightly", ()), WorkSetting(str(tmp_path)))
    for point in points:
        failures = ("wrong-output o",) if point.sizes["M"] > 1 else ()
        campaign.tally.add(
            [PointResult("0", point, "failed" if failures else "passed", failures, "o: 3 elements wrong")]
        )
    example = campaign.tally.groups["a.toml", "default", ("wrong-output o",)].smallest
    finding = CampaignFinding(
        "a.toml",
        example.failures,
        example,
        "leading-dimension",
        "proven",
        "it is 16",
        "a.cu:3:1",
        "-a\n+b\n",
        "wmmadiag",
    )
    campaign.findings[finding.group] = finding
    campaign.since = Changes("last.journal", 6, ("a.toml sm_80 default one M=2",), ())
    page = tmp_path / "page.html"
    page.write_text(campaign_page.render(campaign), "utf-8")
    assert violations(page, dark=dark) == []


def test_it_finds_what_is_wrong(violations, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(html.render(all_right()).replace('<html lang="en"', "<html"), "utf-8")
    (found,) = violations(page)
    assert found.startswith("html-has-lang")
