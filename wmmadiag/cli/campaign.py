"""Try kernels over sizes, types, inputs, orders and architectures, as a plan says,
on this machine's processors or on a Dask cluster; shrink and explain what fails.

  wmmadiag campaign nightly.toml --html campaign.html

A journal beside the plan holds each result as it comes: after a kill of anything,
--resume goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli import baseline, fidelity
from wmmadiag.cli.arguments import add_baseline, add_detail, natural
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import STDOUT, check_files, make_folder, write_text
from wmmadiag.errors import ConfigurationError, WmmadiagError

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Campaign, CampaignProgress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument(
        "plan", metavar="PLAN.toml", nargs="?", default="", help="what to try; docs/campaigns.md says how to write one"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the journal that is there")
    parser.add_argument("--journal", metavar="FILE", default="", help="default: PLAN.journal beside the plan")
    parser.add_argument(
        "--compact", action="store_true", help="drop from it, at the end, what earlier kernels and plans left there"
    )
    add_baseline(parser.add_argument_group("failures that are known"))
    parser.add_argument(
        "--effort", choices=("none", "quick", "normal", "thorough"), default="quick",
        help="how much is tried to find the cause of each kind of failure (default: quick)",
    )  # fmt: skip
    add_detail(parser)
    parser.add_argument("--bundles", metavar="FOLDER", default="", help="a replay bundle for each kind of failure")
    group = parser.add_argument_group("where it runs")
    group.add_argument("--workers", type=natural, metavar="N", default=0, help="local processes (default: all cores)")
    group.add_argument("--scheduler", metavar="ADDRESS", default="", help="a Dask scheduler that runs: tcp://host:8786")
    group.add_argument("--here", action="store_true", help="in this process alone, without Dask")
    fidelity.add_arguments(parser)
    reports = parser.add_argument_group("reports (FILE '-': standard output, and nothing else there)")
    for name, what in _REPORTS.items():
        reports.add_argument(f"--{name}", metavar="FILE", default="", help=what)
    reports.add_argument("--against", metavar="JOURNAL", default="", help="say what changed since an earlier campaign")
    reports.add_argument("--trend", metavar="FILE", default="", help="append this campaign's numbers, a line of JSON")


_REPORTS = {
    "html": "one page with maps and a search, for a browser",
    "markdown": "for a job's summary",
    "json": "the numbers and findings",
    "sarif": "SARIF 2.1.0, for code scanning",
    "junit": "JUnit XML, for a CI's list of tests",
}


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    if args.fidelity:
        return fidelity.run(args, console)
    if not args.plan:
        raise ConfigurationError(
            "a campaign needs a plan", hint="give PLAN.toml; or --fidelity, which compares the emulator with a GPU"
        )
    from wmmadiag.campaign.api import executor
    from wmmadiag.campaign.changes import changes, trend_line
    from wmmadiag.campaign.journal import Journal, read_journal
    from wmmadiag.campaign.known import known_by, nothing_known
    from wmmadiag.campaign.plan import read_plan
    from wmmadiag.campaign.run import journal_path, reduced, run_campaign
    from wmmadiag.report.campaign import terminal

    baseline.opened(args)
    check_files({name: value for name in (*_REPORTS, "trend") if (value := getattr(args, name))})
    if args.against:
        next(read_journal(Path(args.against)), None)
    if args.bundles:
        make_folder("bundles", args.bundles)
    plan = read_plan(Path(args.plan))
    known = known_by(Path(args.baseline), plan) if args.baseline is not None else nothing_known
    path = Path(args.journal) if args.journal else journal_path(plan.path)
    if path.exists() and path.stat().st_size and not args.resume:
        raise ConfigurationError(
            f"the journal {path} holds an earlier campaign", hint="go on with --resume, or give another --journal"
        )
    began = time.monotonic()
    try:
        with (
            Journal(path) as journal,
            executor(
                args.scheduler, args.workers, here=args.here, gpu=plan.backend != "emulator", tell=console.note
            ) as execute,
        ):
            campaign = run_campaign(
                plan, journal, execute, known=known, effort="" if args.effort == "none" else args.effort,
                tell=_telling(console),
            )  # fmt: skip
    except KeyboardInterrupt:
        console.clear()
        console.note(f"what was judged is in {path}: go on with --resume")
        raise
    console.clear()
    if args.against:
        campaign.since = changes(campaign, path, Path(args.against))
    if STDOUT not in {getattr(args, name) for name in _REPORTS}:
        console.verdict(terminal.render(campaign, verbose=args.verbose), campaign.tally.exit_code)
    for name in _REPORTS:
        if getattr(args, name):
            write_text(_rendered(name, campaign), getattr(args, name), console)
    if args.trend:
        _append(Path(args.trend), trend_line(campaign, time.monotonic() - began))
    if args.bundles:
        _write_bundles(campaign, Path(args.bundles), console)
    if args.compact:
        with Journal(path) as journal:
            stay, go = reduced(campaign, journal)
        console.note(f"{path}: {stay:,} records stay, {go:,} went")
    if args.write_baseline is not None:
        baseline.write_campaign(args, campaign, console)
        return 0
    return campaign.tally.exit_code


def _telling(console: Console) -> Callable[[CampaignProgress], None]:
    def tell(now: CampaignProgress) -> None:
        seconds = time.monotonic() - now.began
        rate = now.here / seconds if seconds else 0.0
        left = f", {(now.planned - now.done) / rate:,.0f} s left" if now.planned > now.done and rate else ""
        console.progress(f"{now.done:,} {now.what}, {rate:,.0f}/s, {now.failing:,} failing{left}")

    return tell


def _rendered(name: str, campaign: Campaign) -> str:
    from wmmadiag.campaign.changes import as_json
    from wmmadiag.report import junit, sarif
    from wmmadiag.report.campaign import html, markdown
    from wmmadiag.report.campaign.as_run import as_run

    if name == "json":
        return as_json(campaign)
    if name in ("html", "markdown"):
        return {"html": html.render, "markdown": markdown.render}[name](campaign)
    return {"sarif": sarif.render, "junit": junit.render}[name](as_run(campaign))


def _append(path: Path, line: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}", hint="--trend names a file") from None


def _write_bundles(campaign: Campaign, folder: Path, console: Console) -> None:
    from wmmadiag.bundle.write import write_bundle
    from wmmadiag.campaign.explain import one_each, symbols
    from wmmadiag.campaign.work import KILLED

    without: set[str] = set()
    for number, (finding, _) in enumerate(one_each(campaign.findings.values()), 1):
        point = finding.example.point
        if point.subject in without:
            continue
        if not point.subject.endswith(".toml"):
            without.add(point.subject)
            console.note(f"no bundle of {point.subject}: it has no card (wmmadiag init {point.subject})")
            continue
        if finding.failures == (KILLED,):
            console.note(f"no bundle of {point.name()}: it ends each process that runs it")
            continue
        target = folder / f"finding-{number}.wmmadiag"
        try:
            write_bundle(
                Path(campaign.setting.folder) / point.subject, target, arch=point.arch, cases=[point.base],
                variants=[point.variant], symbols=symbols(point), seed=point.seed or None, inputs=point.inputs,
                checks=campaign.setting.checks, schedules=point.schedules,
            )  # fmt: skip
        except WmmadiagError as error:
            console.note(f"no bundle of {point.subject}: {error}")
            continue
        console.note(f"wrote {target}: repeat it anywhere with `wmmadiag replay {target}`")
