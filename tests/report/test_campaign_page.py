"""A campaign's page in a real browser: the map leads to its cases, search and filters narrow them together."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.campaign import tally
from wmmadiag.campaign.changes import Changes
from wmmadiag.campaign.plan import Plan
from wmmadiag.campaign.points import Point
from wmmadiag.campaign.run import Campaign
from wmmadiag.campaign.work import PointResult, WorkSetting
from wmmadiag.report.campaign import html, markdown

pytestmark = pytest.mark.subprocess
HOSTILE = "</script><script>document.title='taken'</script>.toml"


def campaign(seeds: int = 2) -> Campaign:
    """M and N of 1 to 3 on two architectures: wrong where M is N, in error where M is 3 on sm_80."""
    made = Campaign(Plan(Path("plan.toml"), "nightly", ()), WorkSetting("."))
    for name in ("a.toml", HOSTILE):
        for arch in ("sm_80", "sm_90"):
            for m in (1, 2, 3):
                for n in (1, 2, 3):
                    for seed in range(seeds):
                        point = Point(name, arch, "default", "one", {"M": m, "N": n}, seed=seed)
                        status = "error" if m == 3 and arch == "sm_80" else "failed" if m == n else "passed"
                        failures = () if status == "passed" else (f"{status} it",)
                        made.tally.add([PointResult("0", point, status, failures, "said")])
    return made


@pytest.fixture
def shown(browser, tmp_path):
    def show(made: Campaign):
        page = tmp_path / "page.html"
        page.write_text(html.render(made), "utf-8")
        browser.open(page, 1280)

    return show


def chose(browser, name, value, event="change"):
    browser.value(f"(one => {{ one.value = {value!r}; one.dispatchEvent(new Event('{event}')) }})({at(name)})")


def at(name):
    return f"document.getElementById('{name}')"


def listed(browser):
    return browser.value(at("shown") + ".textContent")


def test_a_cell_leads_to_its_cases(browser, shown):
    shown(campaign())
    assert listed(browser) == "32 of 32"
    chose(browser, "rows", "M")
    chose(browser, "columns", "N")
    browser.value("document.querySelector('#heat button[aria-label^=\"M 2, N 2:\"]').click()")
    assert listed(browser) == "8 of 8"  # two subjects, two architectures, two seeds
    assert browser.value(at("list") + ".querySelector('th').textContent").startswith("a.toml sm_80 default one M=2 N=2")
    assert "wmmadiag check a.toml" in browser.value(at("list") + ".querySelector('details').textContent")
    assert browser.value(at("every") + ".textContent") == "× M 2, N 2"
    chose(browser, "search", "SM_80 said", "input")
    assert listed(browser) == "4 of 4"
    browser.value(at("every") + ".click()")
    assert listed(browser) == "32 of 32" and browser.value(at("search") + ".value") == ""
    assert browser.value(at("every") + ".hidden")


def test_results_are_told_apart(browser, shown):
    shown(campaign())
    assert browser.value("[...document.getElementById('result').options].map(one => one.value)") == [
        "",
        "failed",
        "error",
    ]
    chose(browser, "result", "error")
    assert listed(browser) == "12 of 12"
    chose(browser, "search", "N=3", "input")
    assert listed(browser) == "4 of 4"


def test_a_cell_counts_what_a_click_shows(browser, shown):
    """Whatever was searched before."""
    shown(campaign())
    chose(browser, "rows", "architecture")
    chose(browser, "columns", "M")
    chose(browser, "search", "nothing is called so", "input")
    assert listed(browser) == "0 of 0"
    label = "document.querySelector('#heat button[aria-label^=\"architecture sm_80, M 3:\"]')"
    assert browser.value(label + ".textContent") == "12/12"
    browser.value(label + ".click()")
    assert listed(browser) == "12 of 12"


def test_one_axis_for_both_changes_their_places(browser, shown):
    shown(campaign())
    chose(browser, "rows", "M")
    chose(browser, "columns", "N")
    chose(browser, "rows", "N")
    assert browser.value(f"{at('rows')}.value + {at('columns')}.value") == "NM"
    assert browser.value("document.querySelectorAll('#heat button').length") == 9


def test_many_values_stand_in_ranges(browser, shown):
    shown(campaign(seeds=100))
    chose(browser, "rows", "seed")
    chose(browser, "columns", "M")
    label = "document.querySelector('#heat button[aria-label^=\"seed 64–127, M 3:\"]')"
    assert browser.value(label + ".textContent") == "288/432"
    browser.value(label + ".click()")
    assert listed(browser) == "200 of 288"


def test_what_is_not_listed_is_told(browser, shown, monkeypatch):
    monkeypatch.setattr(tally, "MOST_FAILURES", 10)
    shown(campaign())
    assert "10 failing cases stand here; 22 more are in the journal" in browser.value("document.body.textContent")


def test_what_has_changed(browser, shown):
    made = campaign()
    made.since = Changes("last.journal", 100, ("new one", HOSTILE), ("gone one",))
    shown(made)
    text = browser.value("document.body.textContent")
    assert "since last.journal (100 cases): 2 fail that did not, 1 no longer fail" in text
    assert "new one" in text and "gone one" in text
    assert "- new: `new one`" in markdown.render(made) and "- gone: `gone one`" in markdown.render(made)


def test_long_paths_are_not_cut_off(browser, shown):
    made = campaign()
    point = Point("/home/somebody/a/long/path/" + "folder/" * 20 + "kernel.toml", "sm_90", "default", "one", {"M": 1})
    made.tally.add([PointResult("0", point, "failed", ("wrong-output o",), "said")])
    shown(made)
    chose(browser, "search", "somebody", "input")
    browser.value(at("list") + ".querySelector('details').open = true")
    assert browser.value("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('#cases .scroll'))")


def test_names_do_nothing(browser, shown):
    shown(campaign())
    assert browser.value("document.title") == "nightly – wmmadiag campaign"
    assert HOSTILE in browser.value(at("list") + ".textContent")
    assert not [event for event in browser.events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]
