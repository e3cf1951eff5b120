"""A campaign over a kernel that is wrong at some sizes: what it finds, says, and does not do twice."""

from __future__ import annotations

import datetime
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

import wmmadiag
from wmmadiag.campaign import tally, work
from wmmadiag.campaign.changes import changes
from wmmadiag.campaign.cluster import TaskDone
from wmmadiag.campaign.explain import explained
from wmmadiag.campaign.journal import Journal
from wmmadiag.campaign.plan import read_plan
from wmmadiag.campaign.points import key_of
from wmmadiag.campaign.run import here, run_campaign
from wmmadiag.campaign.work import PointResult, WorkUnit
from wmmadiag.cli.main import main
from wmmadiag.errors import ConfigurationError
from wmmadiag.report import junit
from wmmadiag.report.campaign.as_run import as_run

PLAN = """
[[subjects]]
paths = ["right.toml", "wrong.toml"]
sizes = { M = { range = "16..64", multiple_of = 16 }, N = { range = "16..48", multiple_of = 16 }, K = [16, 32] }
"""


@pytest.fixture
def folder(kernels):
    (kernels / "plan.toml").write_text(PLAN)
    return kernels


def ran(folder, *, resume=False, execute=here, effort=""):
    path = folder / "plan.journal"
    if not resume:
        path.unlink(missing_ok=True)
    with Journal(path) as journal:
        return run_campaign(read_plan(folder / "plan.toml"), journal, execute, effort=effort)


def counted():
    """What is asked of an executor, and that executor."""
    asked = []

    def execute(function, works):
        for one in works:
            asked.append((function, one))
            yield TaskDone(one, function(one))

    return asked, execute


def test_tasks_get_shorter_towards_the_end(folder):
    """So that no process waits long for another's last task; and each case is asked once."""
    sizes = f"M = {list(range(16, 1616, 16))}"
    many = PLAN.replace('M = { range = "16..64", multiple_of = 16 }', sizes).replace(', "wrong.toml"', "")
    (folder / "plan.toml").write_text(many + '[cover]\nhow = "full"\n[run]\nslice = 40\n')
    lengths = []

    def execute(_, works):
        for unit in works:
            lengths.append(len(unit.points))
            yield TaskDone(unit, [PointResult(key_of(one, unit.digest), one, "passed") for one in unit.points])

    campaign = ran(folder, execute=execute)
    assert campaign.tally.cases == sum(lengths)
    assert sum(lengths) > 20 * 16, "enough to be more than tasks of the least length"
    assert lengths[0] > lengths[-2] == 16 >= lengths[-1]
    assert max(lengths) <= 40


def test_a_case_that_two_tables_name_is_judged_once(folder):
    again = PLAN.replace(', "wrong.toml"', "").replace("..64", "..32")
    (folder / "plan.toml").write_text(PLAN + again + '[cover]\nhow = "full"\n')
    once, asked = ran(folder), set()

    def execute(function, works):
        for one in list(works):  # all under way at once
            new = {point.name() for point in getattr(one, "points", ())}
            assert not new & asked
            asked.update(new)
            yield TaskDone(one, function(one))

    assert ran(folder, execute=execute).tally.statuses == once.tally.statuses
    assert len(asked) == once.tally.cases == 2 * 4 * 3 * 2


def test_the_smallest_case_and_its_cause(folder):
    campaign = ran(folder, effort="quick")
    assert campaign.tally.subjects["right.toml"].keys() == {"passed"}
    assert campaign.tally.subjects["wrong.toml"]["failed"] > 4
    smallest = {tuple(one.example.point.sizes.values()) for one in campaign.findings.values()}
    assert (16, 32, 16) in smallest  # one row of tiles, the first width that is not 16
    assert any(one.place.startswith(str(folder / "skewed.cu:18")) for one in campaign.findings.values())
    assert all("--symbol N=" in one.command for one in campaign.findings.values())


def test_nothing_is_done_twice(folder):
    first = ran(folder)
    asked, counting = counted()
    again = ran(folder, resume=True, execute=counting)
    assert asked == [] and again.tally.statuses == first.tally.statuses
    assert again.findings.keys() == first.findings.keys()
    (folder / "gemm.cu").write_text((folder / "gemm.cu").read_text() + "\n// changed\n")
    changed = ran(folder, resume=True, execute=counting)
    units = [one for _, one in asked if isinstance(one, WorkUnit)]
    assert {unit.points[0].subject for unit in units} == {"right.toml"}  # and nothing of the kernel that is as it was
    assert changed.tally.statuses == first.tally.statuses and changed.repeated > 0


def test_a_finding_of_an_earlier_kernel_is_none_of_this_one(folder):
    before = ran(folder)
    (group,) = [group for group in before.findings if "wrong-output" in " ".join(group[-1])]
    skewed = folder / "skewed.cu"
    skewed.write_text(skewed.read_text().replace("r * N + c, sum, 16,", "r * N + c, sum, 16 + 0,"))
    asked, counting = counted()
    after = ran(folder, resume=True, execute=counting)
    assert [function for function, _ in asked].count(explained) == len(after.findings)
    assert after.findings[group].example.key != before.findings[group].example.key


def test_a_finding_is_as_thorough_as_was_asked(folder):
    none, again = ran(folder), ran(folder, resume=True, effort="quick")
    assert not any(one.cause for one in none.findings.values())
    assert any(one.cause for one in again.findings.values())
    asked, counting = counted()
    assert ran(folder, resume=True, effort="quick", execute=counting).findings == again.findings and asked == []


def test_what_the_plan_no_longer_names_is_not_counted(folder):
    """A range that was too wide is mended in the plan, and the campaign goes on."""
    before = ran(folder)
    (folder / "plan.toml").write_text(PLAN.replace('"16..48"', '"16..32"') + 'requires = ["N < 32"]\n')
    after = ran(folder, resume=True)
    assert before.tally.statuses["failed"] and after.tally.statuses == {"passed": after.tally.cases}
    assert after.repeated and not after.findings


def test_a_failure_shrinks_to_what_the_plan_takes(folder):
    smallest = []
    for requires in ("", 'requires = ["N >= 48"]\n'):
        (folder / "plan.toml").write_text(PLAN + requires)
        campaign = ran(folder)
        smallest.append({one.example.point.sizes["N"] for one in campaign.findings.values()})
    assert smallest == [{32}, {48}]


def test_what_is_planned_is_known_before_it_is_done(folder):
    told = []
    plan = replace(read_plan(folder / "plan.toml"), how="random", cases=5)
    with Journal(folder / "plan.journal") as journal:
        run_campaign(plan, journal, here, effort="", tell=lambda now: told.append((now.planned, now.what)))
    explained = told.count((told[-1][0], "failures explained"))
    assert explained == told[-1][0] > 0
    assert set(told[:-explained]) == {(10, "cases")}  # five of each kernel


def test_what_has_changed_since_an_earlier_campaign(folder, monkeypatch):
    """Nothing is lost where more cases fail than a report lists."""
    monkeypatch.setattr(tally, "MOST_FAILURES", 2)
    ran(folder)
    earlier = (folder / "plan.journal").rename(folder / "earlier")
    skewed = folder / "skewed.cu"
    wrong = skewed.read_text()
    journal = folder / "plan.journal"

    assert "0 fail that did not, 0 no longer fail" in changes(ran(folder), journal, earlier).head
    skewed.write_text(wrong.replace("sum, 16,", "sum, N,"))
    mended = changes(ran(folder, resume=True), journal, earlier)
    failing = len(mended.gone)
    assert failing > 2 and f"0 fail that did not, {failing} no longer fail" in mended.head
    assert sum(one.startswith("  gone") for one in mended.lines()) == failing
    skewed.write_text(wrong)
    assert "0 fail that did not, 0 no longer fail" in changes(ran(folder, resume=True), journal, earlier).head

    (folder / "plan.toml").write_text(PLAN.replace("[16, 32]", "[32, 48]"))
    assert "0 no longer fail, 8 fail that were not tried then" in changes(ran(folder), journal, earlier).head
    (folder / "plan.toml").write_text(PLAN.replace(', "wrong.toml"', ""))
    left_out = changes(ran(folder), journal, earlier)
    assert f"0 no longer fail, {failing} that failed are not tried now" in left_out.head and len(left_out.lines()) == 1


def test_a_task_that_ends_its_processes_is_halved_until_one_case_is_to_blame(folder, monkeypatch):
    def deadly(function, works):
        for one in works:
            points = [point for point in getattr(one, "points", ()) if point.subject == "right.toml"]
            kills = any(point.sizes["M"] == 48 for point in points)
            yield TaskDone(one, error="it ended each process", killed=True) if kills else TaskDone(one, function(one))

    plain, found = ran(folder), ran(folder, execute=deadly)
    killed = [one for one in found.tally.listed if one.failures == ("error killed",)]
    assert killed and {(one.point.subject, one.point.sizes["M"]) for one in killed} == {("right.toml", 48)}
    assert found.tally.cases == plain.tally.cases
    assert found.tally.statuses["failed"] == plain.tally.statuses["failed"]

    plainly = work.judged

    def judged(session, point):
        assert point.sizes["M"] != 48 or point.subject != "right.toml", "this would end the campaign's own process"
        return plainly(session, point)

    monkeypatch.setattr(work, "judged", judged)
    shown = junit.render(as_run(found))
    assert "it ended each process" in shown and "elements wrong" in shown


def test_a_bug_of_ours_is_one_case_s(folder, monkeypatch):
    plainly = work.judged

    def judged(session, point):
        if point.subject == "right.toml" and point.sizes["M"] == 48:
            raise ZeroDivisionError("by nought")
        return plainly(session, point)

    plain = ran(folder)
    monkeypatch.setattr(work, "judged", judged)
    found = ran(folder)
    ours = [one for one in found.tally.listed if one.failures == ("error internal",)]
    assert {(one.point.subject, one.point.sizes["M"]) for one in ours} == {("right.toml", 48)}
    assert "a bug of wmmadiag: ZeroDivisionError: by nought" in ours[0].message
    assert found.tally.statuses["failed"] == plain.tally.statuses["failed"]
    assert found.tally.statuses["passed"] == plain.tally.statuses["passed"] - len(ours)


def test_what_no_worker_could_begin_is_tried_again(folder):
    """A worker without wmmadiag gives no verdict that a journal keeps."""

    def lame(function, works):
        for number, one in enumerate(works):
            lacks = TaskDone(one, error="ModuleNotFoundError: No module named 'wmmadiag'")
            yield lacks if number == 0 else TaskDone(one, function(one))

    plain, first = ran(folder), ran(folder, execute=lame)
    assert first.tally.statuses["error"] and "ModuleNotFoundError" in first.tally.listed[0].message
    assert ran(folder, resume=True).tally.statuses == plain.tally.statuses


def test_each_variant_s_failures_are_explained(folder):
    """Two variants that fail alike, of two mistakes."""
    card = (folder / "wrong.toml").read_text()
    other = (folder / "gemm.cu").read_text().replace("C + r * N + c, sum, N,", "C + r * N + c, sum, 32,")
    (folder / "other.cu").write_text(other)
    (folder / "wrong.toml").write_text(card + '\n[variants.one]\n[variants.other]\nsource = "other.cu"\n')
    (folder / "plan.toml").write_text(PLAN.replace('"right.toml", ', ""))
    campaign = ran(folder)
    assert {one.example.point.variant for one in campaign.findings.values()} == {"one", "other"}


def test_what_is_explained_is_new(folder):
    """Of failures that are alike some are known: those are no example of the others."""
    (folder / "plan.toml").write_text(PLAN + '[axes]\narch = ["sm_80", "sm_90"]\n')
    with Journal(folder / "plan.journal") as journal:
        campaign = run_campaign(
            read_plan(folder / "plan.toml"), journal, here, effort="", known=lambda one: one.point.arch == "sm_80"
        )
    assert campaign.tally.statuses["accepted"] and campaign.findings
    assert {one.example.point.arch for one in campaign.findings.values()} == {"sm_90"}


def test_the_command_and_its_reports(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    names = ["html", "markdown", "json", "sarif", "junit"]
    words = [word for name in names for word in (f"--{name}", f"out.{name}")]
    assert main(["campaign", "plan.toml", "--here", "--effort", "none", "--trend", "trend", *words]) == 1
    told = capsys.readouterr().out
    found = json.loads((folder / "out.json").read_text())
    assert f"{found['statuses']['failed']:,} WRONG" in told and "repeat: wmmadiag check wrong.toml" in told
    assert json.loads((folder / "trend").read_text())["cases"] == found["cases"]
    page = (folder / "out.html").read_text()
    assert "wrong.toml" in page and '"axes":{' in page and "</html>" in page
    assert "### `wrong.toml`" in (folder / "out.markdown").read_text()
    rules = json.loads((folder / "out.sarif").read_text())["runs"][0]["results"]
    suites = ElementTree.parse(folder / "out.junit").getroot()
    assert rules and sum(int(one.get("failures", 0)) for one in suites.iter("testsuite")) == len(found["findings"])
    assert main(["campaign", "plan.toml", "--here"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["campaign", "plan.toml", "--here", "--resume", "--effort", "none", "--against", "plan.journal"]) == 1
    assert "0 fail that did not, 0 no longer fail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--html", "none/page.html"), "there is no folder none"),
        (("--html", "one", "--markdown", "one"), "both write to one"),
        (("--trend", "none/trend"), "there is no folder none"),
        (("--bundles", "plan.toml"), "cannot make this folder"),
        (("--against", "none.journal"), "cannot read the journal"),
        (("--baseline", "none.toml"), "cannot read the baseline"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_runs(folder, capsys, monkeypatch, words, says):
    monkeypatch.chdir(folder)
    assert main(["campaign", "plan.toml", "--here", *words]) == 2
    assert says in capsys.readouterr().err
    assert not (folder / "plan.journal").exists()


def test_known_failures_are_kept_apart(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["campaign", "plan.toml", "--here", "--effort", "none", "--json", "out.json"]) == 1
    found = json.loads((folder / "out.json").read_text())["findings"]
    failures = json.dumps(sorted({name for one in found for name in one["failures"]}))
    day = datetime.date.today() + datetime.timedelta(days=9)
    (folder / "known.toml").write_text(
        f'format = 1\n[[known]]\ncard = "wrong.toml"\nfailures = {failures}\nreason = "r"\nexpires = {day}\n'
    )
    assert main(["campaign", "plan.toml", "--here", "--resume", "--baseline", "known.toml"]) == 0
    assert " known" in capsys.readouterr().out


def test_failures_become_known(folder, capsys, monkeypatch):
    """What a campaign fails with today is written as a baseline; what fails otherwise tomorrow is new."""
    monkeypatch.chdir(folder)
    words = ["campaign", "plan.toml", "--here", "--resume", "--effort", "none"]
    assert main([*words, "--write-baseline", "known.toml"]) == 2
    assert "--reason" in capsys.readouterr().err
    assert main([*words, "--write-baseline", "known.toml", "--reason", "mended by July"]) == 0
    known = (folder / "known.toml").read_text()
    assert known.count("[[known]]") == known.count('card = "wrong.toml"') == 1 and "mended by July" in known
    assert main([*words, "--baseline", "known.toml"]) == 0
    assert main([*words, "--write-baseline", "known.toml", "--reason", "another"]) == 0
    assert (folder / "known.toml").read_text() == known
    skewed = folder / "skewed.cu"
    skewed.write_text(skewed.read_text().replace("C + r * N", "C + (r + 16) * N"))
    capsys.readouterr()
    assert main([*words, "--baseline", "known.toml"]) == 1
    assert "fault out-of-bounds" in capsys.readouterr().out


def test_a_journal_keeps_what_counts(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    words = ["campaign", "plan.toml", "--here", "--resume", "--effort", "none"]
    assert main(words) == 1
    (folder / "gemm.cu").write_text((folder / "gemm.cu").read_text() + "\n// changed\n")
    assert main([*words, "--compact"]) == 1
    shown = capsys.readouterr()
    assert "plan.journal: 25 records stay, 12 went" in shown.err  # 24 cases and a finding; 12 of the kernel as it was
    asked, counting = counted()
    again = ran(folder, resume=True, execute=counting)
    assert asked == [] and again.repeated == 0 and again.tally.cases == 24


def test_from_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    told = []
    found = wmmadiag.run_campaign("plan.toml", here=True, effort="", tell=told.append)
    assert found.exit_code == 1 and found.tally.statuses["failed"] > 4 and len(told) > 1
    with pytest.raises(ConfigurationError, match="holds an earlier campaign"):
        wmmadiag.run_campaign("plan.toml", here=True)
    again = wmmadiag.run_campaign(folder / "plan.toml", here=True, effort="", resume=True)
    assert again.tally.statuses == found.tally.statuses
    sizes = {"M": {"range": "16..48", "multiple_of": 16}, "N": [16], "K": [16]}
    right = {"subjects": [{"paths": ["right.toml"], "sizes": sizes}]}
    assert wmmadiag.run_campaign(right, here=True, journal="right").tally.statuses == {"passed": 3}
    with pytest.raises(ConfigurationError, match="unknown key 'size'"):
        wmmadiag.run_campaign({"subjects": [{"paths": ["right.toml"], "size": {}}]}, here=True)


def test_a_finding_can_be_repeated_anywhere(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["campaign", "plan.toml", "--here", "--effort", "none", "--bundles", "bundles"]) == 1
    bundle = sorted((folder / "bundles").glob("*.wmmadiag"))[0]
    capsys.readouterr()
    assert main(["replay", str(bundle)]) == 1
    assert "elements wrong" in capsys.readouterr().out
