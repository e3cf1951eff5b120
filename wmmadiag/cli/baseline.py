"""What `check` and `campaign` do with their options about known failures."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Campaign
    from wmmadiag.gate.acceptance import Acceptance
    from wmmadiag.gate.known_failures import KnownFailures
    from wmmadiag.gate.task import TaskOutcome


def opened(args: argparse.Namespace) -> Acceptance | None:
    """The baseline to hold this run against, or None; the options are looked at before anything runs.

    Raises:
        ConfigurationError: options that do not go together, or a baseline that cannot be used.
    """
    if args.baseline is not None and args.write_baseline is not None:
        raise ConfigurationError(
            "--baseline and --write-baseline do not go together",
            hint="--write-baseline keeps the reasons and days of a file that is there",
        )
    if args.write_baseline is None and (args.reason or args.expires is not None):
        raise ConfigurationError(
            "--reason and --expires are for --write-baseline", hint="add --write-baseline FILE, or leave them out"
        )
    if args.write_baseline is not None:
        if not args.reason.strip():
            raise ConfigurationError(
                "--write-baseline needs --reason: why these failures are accepted", hint="--reason 'mended by July'"
            )
        path = Path(args.write_baseline)
        if not path.parent.is_dir():
            raise ConfigurationError(
                f"--write-baseline {path}: there is no folder {path.parent}",
                hint=f"make it first: mkdir -p {path.parent}",
            )
        _old(path)
    if args.baseline is None:
        return None
    from wmmadiag.gate.acceptance import Acceptance
    from wmmadiag.gate.known_failures import read_baseline

    path = Path(args.baseline)
    return Acceptance(read_baseline(path), path, datetime.date.today())


def write(args: argparse.Namespace, outcomes: Sequence[TaskOutcome], console: Console) -> None:
    """Write the failures of a run as a baseline.

    Raises:
        ConfigurationError: the file cannot be written, or what is there is no baseline.
    """
    from wmmadiag.gate.acceptance import new_entries
    from wmmadiag.gate.known_failures import rendered
    from wmmadiag.results.json_file import write_whole

    path = Path(args.write_baseline)
    today = datetime.date.today()
    entries = new_entries(outcomes, _old(path), path, args.reason.strip(), _until(args), today)
    write_whole(path, rendered(entries))
    unchecked = sum(bool(outcome.error) for outcome in outcomes)
    unjudged = f"; {unchecked} cards could not be checked, which no baseline accepts" if unchecked else ""
    plural = "y" if len(entries) == 1 else "ies"
    console.note(f"wrote {path}: {len(entries)} entr{plural}{unjudged}")


def write_campaign(args: argparse.Namespace, campaign: Campaign, console: Console) -> None:
    """Write the failures of a campaign as a baseline.

    Raises:
        ConfigurationError: the file cannot be written, or what is there is no baseline.
    """
    from wmmadiag.campaign.known import accepting
    from wmmadiag.gate.known_failures import rendered
    from wmmadiag.results.json_file import write_whole

    path = Path(args.write_baseline)
    entries = accepting(campaign, _old(path), path, args.reason.strip(), _until(args))
    write_whole(path, rendered(entries))
    console.note(f"wrote {path}: {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}")


def _until(args: argparse.Namespace) -> datetime.date:
    from wmmadiag.gate.known_failures import DAYS

    day: datetime.date = args.expires or datetime.date.today() + datetime.timedelta(days=DAYS)
    return day


def _old(path: Path) -> Sequence[KnownFailures]:
    from wmmadiag.gate.known_failures import read_baseline

    return read_baseline(path) if path.exists() else ()
